"""Measures training with gymnasium-2048, connected as each library usually connects environments.

    python usual.py torchrl_ppo --seconds 60 --out /tmp/torchrl

The learner is examples/<program>.py. Its boards are separate Python objects in the library's own
vector environment. A wrapper, as a user would write it, adds the action masks and converts the
observations to the form that the learner needs.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import gymnasium_2048  # noqa: F401  # registers the environment
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))


class Planes(gym.Wrapper[Any, Any, Any, Any]):
    """A wrapper that adds action masks, and returns planes like Twofold's, float32 (18, 4, 4).

    Args:
        keys: The names of the planes and the mask in a dict observation; None for planes alone.
        axis: The axis of the planes; -1 puts them last, (4, 4, 18).
    """

    def __init__(self, keys: tuple[str, str] | None = None, axis: int = 0) -> None:
        super().__init__(gym.make("gymnasium_2048/TwentyFortyEight-v0", disable_env_checker=True))
        self._keys, self._axis = keys, axis
        shape = (18, 4, 4) if axis == 0 else (4, 4, 18)
        planes: gym.Space[Any] = gym.spaces.Box(0, 1, shape, np.float32)
        mask: gym.Space[Any] = gym.spaces.Box(0, 1, (4,), np.int8)
        self.observation_space = planes
        if keys is not None:
            self.observation_space = gym.spaces.Dict({keys[0]: planes, keys[1]: mask})

    def action_masks(self) -> Any:
        """Returns the legal actions, int8 (4,)."""
        game: Any = self.unwrapped
        return np.array([game.apply_action(game.board, a)[2] for a in range(4)], np.int8)

    def reset(self, **arguments: Any) -> Any:
        """Starts a game."""
        observation, _ = self.env.reset(**arguments)
        return self._seen(observation)

    def step(self, action: Any) -> Any:
        """Plays an action. The reward is 0.1 log2(1 + the score gained)."""
        observation, reward, terminated, truncated, _ = self.env.step(int(action))
        observation, info = self._seen(observation)
        return observation, 0.1 * np.log2(1.0 + float(reward)), terminated, truncated, info

    def _seen(self, observation: Any) -> tuple[Any, dict[str, Any]]:
        planes = np.zeros((4, 4, 18), np.float32)
        planes[:, :, :16] = observation
        if self._axis == 0:
            planes = np.moveaxis(planes, 2, 0)
        mask = self.action_masks()
        if self._keys is None:
            return planes, {"action_mask": mask}
        return {self._keys[0]: planes, self._keys[1]: mask}, {}


def ppo(module: Any, options: argparse.Namespace) -> Any:
    """Trains on boards in Gymnasium's SyncVectorEnv."""

    class Boards(gym.vector.SyncVectorEnv):
        def step_async(self, actions: Any) -> None:
            self._pending = actions

        def step_wait(self) -> Any:
            return self.step(self._pending)

        def statistics(self, reset: bool) -> dict[str, float]:
            return {"score_mean": np.nan}

    boards = Boards([Planes] * options.num_envs, autoreset_mode="SameStep")
    return module.train(options, boards, options.out)


def maskable_ppo(module: Any, options: argparse.Namespace) -> Any:
    """Trains on boards in Stable-Baselines3's DummyVecEnv."""
    from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

    class Curve(module.Curve):  # type: ignore[misc]
        def statistics(self) -> dict[str, float]:
            return {}

    boards = VecMonitor(DummyVecEnv([Planes] * options.num_envs))
    boards.seed(options.seed)
    return module.train(options, boards, options.out, Curve)


def torchrl_ppo(module: Any, options: argparse.Namespace) -> Any:
    """Trains on boards in Gymnasium's SyncVectorEnv, wrapped in TorchRL's GymWrapper."""
    import torch
    from torchrl.envs import DTypeCastTransform, GymWrapper, TransformedEnv

    boards = gym.vector.SyncVectorEnv(
        [lambda: Planes(("observation", "action_mask"))] * options.num_envs,
        autoreset_mode="Disabled",
    )
    env = TransformedEnv(GymWrapper(boards, categorical_action_encoding=True))
    env.append_transform(DTypeCastTransform(torch.int8, torch.bool, in_keys=["action_mask"]))
    env.set_seed(options.seed)
    return module.train(options, env, options.out)


def tianshou_ppo(module: Any, options: argparse.Namespace) -> Any:
    """Trains on boards in Tianshou's DummyVectorEnv."""
    from tianshou.env import DummyVectorEnv

    class Masked(Planes):
        def _seen(self, observation: Any) -> tuple[Any, dict[str, Any]]:
            seen, info = super()._seen(observation)
            return seen | {"mask": seen["mask"] == 1}, info

    boards: Any = DummyVectorEnv([lambda: Masked(("obs", "mask"))] * options.num_envs)
    boards.seed(options.seed)
    return module.train(options, boards, options.out)


def rllib_ppo(module: Any, options: argparse.Namespace) -> Any:
    """Trains on boards that RLlib registers and vectorises."""
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.tune.registry import register_env

    register_env("usual", lambda _: Planes(("observations", "action_mask"), axis=-1))
    return module.train(options, PPOConfig().environment("usual"), options.out)


CONNECTIONS = {
    function.__name__: function
    for function in (ppo, maskable_ppo, torchrl_ppo, tianshou_ppo, rllib_ppo)
}


def main() -> None:
    """Runs the command."""
    name, *words = sys.argv[1:]
    module = importlib.import_module(name)
    options = module.parse_arguments(words)
    options.out.mkdir(parents=True, exist_ok=True)
    CONNECTIONS[name](module, options)


if __name__ == "__main__":
    main()
