"""A plain loop over N environments of gymnasium-2048, which is a single environment in Python.

gymnasium_loop.py N

Gymnasium's SyncVectorEnv does the same, but copies more.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import gymnasium as gym
import gymnasium_2048  # noqa: F401  (registers)
import numpy as np
from numpy.typing import NDArray
from worker import serve


class Loop:
    """N environments. The next step resets an environment that has finished, as with NEXT_STEP."""

    action_dtype = np.int64

    def __init__(self, num_envs: int) -> None:
        name = "gymnasium_2048/TwentyFortyEight-v0"
        made = [gym.make(name, disable_env_checker=True) for _ in range(num_envs)]
        self._envs = [env.unwrapped for env in made]
        self._ended = np.zeros(num_envs, np.bool_)
        for seed, env in enumerate(self._envs):
            env.reset(seed=seed)
        self.details = {
            "gymnasium-2048": version("gymnasium-2048"),
            "outputs": "observation uint8 (N, 4, 4, 16), reward, terminated, truncated, infos",
            "actions": "uniform over all four: it has no mask",
        }

    def step(self, actions: NDArray[Any]) -> tuple[Any, ...]:
        """Steps each environment, and stacks the results."""
        num_envs = len(self._envs)
        observations = np.empty((num_envs, 4, 4, 16), np.uint8)
        rewards = np.zeros(num_envs, np.float32)
        terminated = np.zeros(num_envs, np.bool_)
        truncated = np.zeros(num_envs, np.bool_)
        infos: list[dict[str, Any]] = []
        for lane, (env, action) in enumerate(zip(self._envs, actions.tolist(), strict=True)):
            if self._ended[lane]:
                observations[lane], info = env.reset()
            else:
                (
                    observations[lane],
                    rewards[lane],
                    terminated[lane],
                    truncated[lane],
                    info,
                ) = env.step(action)
            infos.append(info)
        self._ended = terminated | truncated
        return observations, rewards, terminated, truncated, infos

    def mask(self, outputs: tuple[Any, ...]) -> None:
        """Returns None, because the package has no mask."""
        return


if __name__ == "__main__":
    serve(Loop)
