"""Policies, an environment and a result for the tests of evaluations."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

import twofold

CONCENTRATION = "twofold/Concentration-v0"
FIRST_SEED = 2**63


def first_legal(observations: Any, action_mask: Any) -> Any:
    return action_mask.argmax(axis=1)


def anything(observations: Any, action_mask: Any) -> Any:
    return np.zeros(len(observations), int)


class Queue(VectorEnv[Any, Any, Any]):
    """Episodes of 1 step (four in five) or 50 steps, depending on the seed. All rewards are 1.

    The mean return is 0.8 * 1 + 0.2 * 50 = 10.8. An evaluation that takes the episodes that finish
    first sees hardly any of the long ones.
    """

    MEAN = 10.8

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs
        self.single_observation_space = gym.spaces.Box(0, 50, (1,), np.float32)
        self.single_action_space = gym.spaces.Discrete(2)
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        self.left = np.zeros(num_envs, np.int64)
        self.finished = np.zeros(num_envs, bool)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        mask = (options or {}).get("reset_mask", np.ones(self.num_envs, bool))
        seed = np.array(seed, np.uint64)
        mixed = (seed ^ (seed >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
        is_long = (mixed >> np.uint64(40)) % np.uint64(5) == 0
        self.left[mask] = np.where(is_long, 50, 1)[mask]
        self.finished[mask] = False
        return self.left[:, None].astype(np.float32), {}

    def step(self, actions: Any) -> Any:
        rewards = np.where(self.finished, 0.0, 1.0)
        self.left[self.finished] = 2  # any number, because nobody looks at an autoreset lane
        self.left -= 1
        self.finished = self.left == 0
        none = np.zeros(self.num_envs, bool)
        return self.left[:, None].astype(np.float32), rewards, self.finished, none, {}


def by_hand(policy: str = "by hand", scores: Any = (700, 1000, 3000, 20000)) -> Any:
    return twofold.Evaluation(
        policy=policy,
        card={"environment": "twofold/Game2048-v0", "size": "4 x 4", "weights, MB": 256.0},
        seeds=np.arange(4, dtype=np.uint64) + np.uint64(FIRST_SEED),
        scores=np.array(scores),
        moves=np.array([90, 110, 210, 1000]),
        lengths=np.array([90, 110, 210, 1000]),
        max_exponents=np.array([6, 6, 8, 11], np.uint8),
        seconds=2.0,
        policy_seconds=1.0,
    )
