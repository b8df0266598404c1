"""Rollouts as columns of transitions."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from twofold.envs.results import Array
from twofold.envs.rollout import Rollout
from twofold.envs.vector import TwofoldVectorEnv
from twofold.policies.functions import PolicyCaller

BOARDS = ("observation", "next_observation")
"""Names of the columns that hold boards."""


def columns_of(rollout: Rollout, time: int) -> dict[str, Array]:
    """The valid transitions of a rollout, lane after lane, each lane's steps in order.

    Args:
        rollout: Some steps of N lanes.
        time: The number of its first step.

    Returns:
        For each column an array (transitions,); boards as uint8 (transitions, cells).
    """
    valid = rollout.valid.T
    steps, lanes = rollout.valid.shape
    # Each board becomes one element, so that it moves as a whole.
    cells = math.prod(rollout.observations.shape[2:])
    boards = rollout.observations.reshape(steps + 1, -1, cells).view(f"V{cells}")[..., 0]
    times = np.arange(time, time + steps, dtype=np.uint32)
    masks = np.packbits(rollout.action_masks, axis=2, bitorder="little")[..., 0]
    columns: dict[str, Array] = {
        "lane": np.broadcast_to(np.arange(lanes, dtype=np.uint32), (steps, lanes)),
        "time": np.broadcast_to(times[:, None], (steps, lanes)),
        "observation": boards[:-1],
        "action": rollout.actions,
        "action_mask": masks[:-1],
        "reward": rollout.rewards,
        "next_observation": boards[1:],
        "terminated": rollout.terminations,
        "truncated": rollout.truncations,
    }
    columns = {name: column.T[valid] for name, column in columns.items()}
    for name in BOARDS:
        columns[name] = columns[name].view(np.uint8).reshape(-1, cells)
    return columns


class FunctionRollouts:
    """Rollouts by a policy function, like those of `envs.rollout` by a policy in the server."""

    def __init__(self, envs: TwofoldVectorEnv, caller: PolicyCaller, seed: int) -> None:
        self._envs, self._caller, self._time = envs, caller, 0
        self._observations, infos = envs.reset(seed=seed)
        self._mask: Array = infos["action_mask"]
        self._begins: NDArray[np.bool_] = np.zeros(envs.num_envs, np.bool_)
        caller.reset(~self._begins)

    def __call__(self, steps: int) -> Rollout:
        """The next steps."""
        envs, caller = self._envs, self._caller
        shape = steps, envs.num_envs
        rollout = Rollout(
            observations=np.empty((steps + 1, *self._observations.shape), np.uint8),
            action_masks=np.empty((steps + 1, *self._mask.shape), np.int8),
            actions=np.empty(shape, np.uint8),
            rewards=np.empty(shape, np.float32),
            terminations=np.empty(shape, np.bool_),
            truncations=np.empty(shape, np.bool_),
            valid=np.empty(shape, np.bool_),
            infos={},
            finals=None,
        )
        for t in range(steps):
            begins = self._begins
            rollout.observations[t], rollout.action_masks[t] = self._observations, self._mask
            actions = caller(self._observations, self._mask, ~begins, self._place)
            rollout.valid[t], rollout.actions[t] = ~begins, actions
            self._observations, rewards, terminations, truncations, infos = envs.step(actions)
            rollout.rewards[t], self._mask = rewards, infos["action_mask"]
            rollout.terminations[t], rollout.truncations[t] = terminations, truncations
            self._begins = terminations | truncations
            self._time += 1
            if begins.any():
                caller.reset(begins)
        rollout.observations[steps], rollout.action_masks[steps] = self._observations, self._mask
        return rollout

    def _place(self, lane: int) -> dict[str, int]:
        return {"lane": lane, "time": self._time}
