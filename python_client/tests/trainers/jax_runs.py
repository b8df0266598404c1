"""Runs of `twofold.jax` next to the vector environment, and comparisons byte by byte."""

from typing import Any

import gymnasium as gym
import jax
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

import twofold.jax

GAME2048 = "twofold/Game2048-v0"
CONCENTRATION = "twofold/Concentration-v0"


def assert_same(ours: Any, expected: Any) -> None:
    """Checks that two trees of arrays have the same dtypes, shapes and bytes."""
    leaves, structure = jax.tree.flatten(ours)
    others, other_structure = jax.tree.flatten(expected)
    assert structure == other_structure
    for leaf, other in zip(leaves, others, strict=True):
        assert_array(leaf, other)


def assert_array(ours: Any, expected: Any, name: str = "") -> None:
    array, other = np.asarray(ours), np.asarray(expected)
    assert (array.dtype, array.shape) == (other.dtype, other.shape), name
    assert array.tobytes() == other.tobytes(), (name, array, other)


def selected(mask: NDArray[np.bool_], chosen: Any, others: Any) -> Any:
    """Returns the boards of `chosen` where the mask is true, and of `others` elsewhere."""

    def select(one: Any, other: Any) -> Any:
        return jax.numpy.where(mask.reshape(-1, *[1] * (one.ndim - 1)), one, other)

    return jax.tree.map(select, chosen, others)


class Pair:
    """Boards of `twofold.jax` and the same boards of the vector environment."""

    def __init__(self, env: str, num_envs: int, mode: AutoresetMode, **arguments: Any) -> None:
        self.mode = mode
        self.vector: Any = gym.make_vec(
            env, num_envs=num_envs, endpoint="embedded", autoreset_mode=mode, **arguments
        )
        self.env = twofold.jax.make(env, num_envs, autoreset_mode=mode, **arguments)
        self.generator = np.random.default_rng(num_envs)
        self.episodes = 0

    def seeds(self) -> NDArray[np.uint64]:
        return self.generator.integers(0, 2**64, self.env.num_envs, np.uint64)

    def reset(self) -> None:
        seeds = self.seeds()
        observation, infos = self.vector.reset(seed=seeds)
        self.state, self.timestep = self.env.reset(seeds=seeds)
        self.mask = infos["action_mask"]
        assert_array(self.timestep.observation, observation)
        for name, info in infos.items():
            if not name.startswith("_"):
                self.assert_info(name, info)
        assert not np.asarray(self.timestep.reward).any()
        assert not np.asarray(self.timestep.terminated | self.timestep.truncated).any()

    def assert_info(self, name: str, info: Any) -> None:
        ours = self.timestep.action_mask if name == "action_mask" else self.timestep.info[name]
        assert_array(ours, info, name)

    def actions(self) -> NDArray[np.int64]:
        """Draws actions, most of which are legal."""
        weights = self.mask + 0.02
        draws = self.generator.random(self.mask.shape) ** (1 / weights)
        actions: NDArray[np.int64] = draws.argmax(1)
        return actions

    def step(self, actions: NDArray[Any] | None = None) -> None:
        actions = self.actions() if actions is None else actions
        observation, reward, terminated, truncated, infos = self.vector.step(actions)
        self.state, self.timestep = self.env.step(self.state, actions.astype(np.int32))
        timestep = self.timestep
        assert_array(timestep.observation, observation)
        assert_array(timestep.reward, reward)
        assert_array(timestep.terminated, terminated)
        assert_array(timestep.truncated, truncated)
        names = {name for name in infos if not name.startswith(("_", "final"))}
        assert names == {"action_mask", *timestep.info}
        for name in names:
            self.assert_info(name, infos[name])
        self.mask = infos["action_mask"]
        ended = terminated | truncated
        self.episodes += int(ended.sum())
        if self.mode is AutoresetMode.SAME_STEP:
            self.assert_finals(ended, infos)
        else:
            assert timestep.final_observation is None
            assert timestep.final_info is None
        if self.mode is AutoresetMode.DISABLED and ended.any():
            self.reset_ended(ended)

    def assert_finals(self, ended: NDArray[np.bool_], infos: dict[str, Any]) -> None:
        timestep = jax.tree.map(np.asarray, self.timestep)
        assert_array(timestep.final_observation[~ended], timestep.observation[~ended])
        for lane in np.flatnonzero(ended):
            assert_array(timestep.final_observation[lane], infos["final_obs"][lane])
            for name, info in infos["final_info"].items():
                if not name.startswith("_"):
                    ours = timestep.final_info.get(name, timestep.info.get(name))
                    assert_array(ours[lane], info[lane], name)

    def reset_ended(self, ended: NDArray[np.bool_]) -> None:
        seeds = self.seeds()
        observation, infos = self.vector.reset(seed=seeds, options={"reset_mask": ended})
        fresh = self.env.reset(seeds=seeds)
        self.state, self.timestep = selected(
            ended, fresh, (self.state, self.timestep._replace(reward=fresh[1].reward))
        )
        assert_array(self.timestep.observation, observation)
        for name, info in infos.items():
            if not name.startswith("_"):
                self.assert_info(name, info)
        self.mask = infos["action_mask"]

    def play(self, steps: int) -> None:
        """Resets the boards and plays a number of steps."""
        self.reset()
        for _ in range(steps):
            self.step()
        self.vector.close()
