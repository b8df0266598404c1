"""Tabular learners for small 2048 boards.

The learners are Q-learning and TD learning of afterstates. Each step plays one move on all boards,
in autoreset mode SAME_STEP, and learns from it. An action is random with probability `epsilon`,
which falls to 0 during training. Returns are undiscounted scores.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from twofold import rules

Array = NDArray[Any]


class Table:
    """Rows of float32 numbers by key. New rows contain zeros.

    Args:
        columns: The number of values in a row.
    """

    def __init__(self, columns: int) -> None:
        self.places: dict[int, int] = {}
        # Row 0 stands for all missing keys.
        self.rows = np.zeros((1, columns), np.float32)

    def find(self, keys: Array, insert: bool = False) -> Array:
        """Returns the row indices, int64 (M,), of keys, uint64 (M,)."""
        wanted = keys.tolist()
        if insert:
            for key in wanted:
                self.places.setdefault(key, len(self.places) + 1)
            while len(self.rows) <= len(self.places):
                self.rows = np.concatenate([self.rows, np.zeros_like(self.rows)])
        return np.array([self.places.get(key, 0) for key in wanted], np.int64)


def keys_of(boards: Array) -> Array:
    """Encodes boards (…, rows, columns) as keys with four bits per cell, uint64 (…)."""
    cells = boards.reshape(*boards.shape[:-2], -1).astype(np.uint64)
    shifts = np.arange(0, 4 * cells.shape[-1], 4, dtype=np.uint64)
    keys: Array = (cells << shifts).sum(axis=-1, dtype=np.uint64)
    return keys


def by_entry(entries: Array, errors: Array) -> tuple[Array, Array]:
    """Returns each distinct entry once, with the mean of its errors.

    The sum of the errors would overshoot, because each error alone is a full correction.
    """
    distinct, which = np.unique(entries, return_inverse=True)
    means: Array = np.bincount(which, errors) / np.bincount(which)
    return distinct, means.astype(np.float32)


def rate_of_visits(visits: Array) -> Array:
    """Returns learning rates, which fall with the number of visits (Even-Dar and Mansour, 2003)."""
    rate: Array = visits**-0.6
    return rate


class Exploration:
    """A source of random actions with decreasing probability.

    Args:
        seed: The seed of the random numbers.
        epsilon: The initial probability of a random action.
    """

    def __init__(self, seed: int, epsilon: float) -> None:
        self.rng, self.epsilon = np.random.default_rng(seed), epsilon

    def mix(self, actions: Array, mask: Array, left: float) -> Array:
        """Makes some actions (M,) random. `left` is the remaining share of training."""
        at_random = (self.rng.random(mask.shape) * mask).argmax(axis=1)
        explores = self.rng.random(len(actions)) < self.epsilon * left
        return np.where(explores, at_random, actions)


class QLearning:
    """Q-learning (Watkins, 1989).

    Args:
        envs: The 2048 boards.
        seed: The seed of the boards.
        exploration: The source of random actions.
    """

    def __init__(self, envs: Any, seed: int, exploration: Exploration) -> None:
        self.envs, self.exploration = envs, exploration
        self.table = Table(8)  # the actions' values and their numbers of updates
        self.boards, infos = envs.reset(seed=seed)
        self.mask = infos["action_mask"]

    def values(self, boards: Array, mask: Array) -> Array:
        """Returns the values of the actions, float32 (M, 4), with -inf for illegal actions."""
        values = self.table.rows[self.table.find(keys_of(boards)), :4]
        return np.where(mask == 1, values, -np.inf)

    def policy(self, boards: Array, mask: Array) -> Array:
        """Returns the best actions (M,)."""
        best: Array = self.values(boards, mask).argmax(axis=1)
        return best

    def step(self, left: float) -> None:
        """Plays a move on each board and learns. `left` is the remaining share of training."""
        best = self.policy(self.boards, self.mask)
        actions = self.exploration.mix(best, self.mask, left)
        rows = self.table.find(keys_of(self.boards), insert=True)
        observations, rewards, terminations, _, infos = self.envs.step(actions)
        following = self.values(observations, infos["action_mask"]).max(axis=1)
        target = rewards + np.where(terminations, 0, following)
        errors = target - self.table.rows[rows, actions]
        entries, errors = by_entry(4 * rows + actions, errors)
        rows, actions = entries // 4, entries % 4
        self.table.rows[rows, 4 + actions] += 1
        rate = rate_of_visits(self.table.rows[rows, 4 + actions])
        self.table.rows[rows, actions] += rate * errors
        self.boards, self.mask = observations.copy(), infos["action_mask"].copy()


class Afterstates:
    """TD(0) learning of afterstate values (Szubert and Jaśkowski, 2014), one value per board.

    Args:
        envs: The 2048 boards.
        seed: The seed of the boards.
        exploration: The source of random actions.
    """

    def __init__(self, envs: Any, seed: int, exploration: Exploration) -> None:
        self.envs, self.exploration = envs, exploration
        self.table = Table(2)  # the value and its number of updates
        envs.reset(seed=seed)
        self.entries: Array | None = None  # (N,), the rows of the last moves' afterstates
        self.predicted = np.zeros(envs.num_envs, np.float32)
        self.ended = np.zeros(envs.num_envs, bool)

    def worth(self, boards: Array, rewards: Array, mask: Array) -> Array:
        """Returns reward + value of each action's afterstate, (M, 4); -inf if it is illegal."""
        worth = np.full(mask.shape, -np.inf, np.float32)
        legal = mask == 1
        values = self.table.rows[self.table.find(keys_of(boards[legal])), 0]
        worth[legal] = rewards[legal] + values
        return worth

    def policy(self, boards: Array, mask: Array) -> Array:
        """Returns the best actions (M,)."""
        after = rules.afterstates(boards)
        best: Array = self.worth(after.boards, after.rewards, mask).argmax(axis=1)
        return best

    def step(self, left: float) -> None:
        """Plays a move on each board, and learns from the previous move."""
        boards, rewards, mask = self.envs.unwrapped.afterstates()
        worth = self.worth(boards, rewards, mask)
        best = worth.max(axis=1)
        if self.entries is not None:
            self._learn(self.entries, np.where(self.ended, 0, best) - self.predicted)
        actions = self.exploration.mix(worth.argmax(axis=1), mask, left)
        chosen = boards[np.arange(len(actions)), actions]
        self.entries = self.table.find(keys_of(chosen), insert=True)
        self.predicted = self.table.rows[self.entries, 0]
        _, _, terminations, _, _ = self.envs.step(actions)
        self.ended = terminations.copy()

    def _learn(self, entries: Array, errors: Array) -> None:
        """Corrects the values of entries (N,) by the errors (N,)."""
        entries, errors = by_entry(entries, errors)
        self.table.rows[entries, 1] += 1
        rate = rate_of_visits(self.table.rows[entries, 1])
        self.table.rows[entries, 0] += rate * errors
