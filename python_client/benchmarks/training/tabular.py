"""Tabular learners for small 2048 boards.

The learners are Q-learning, TD learning of afterstates, and an n-tuple network. Each step plays one
move on all boards, in autoreset mode SAME_STEP, and learns from it. An action is random with
probability `epsilon`, which falls to 0 during training. Returns are undiscounted scores.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from twofold import rules

Array = NDArray[Any]


class Table:
    """A hash table with open addressing, which maps arrays of keys to rows of numbers.

    Args:
        columns: The number of float32 values in a row. New rows contain zeros.
        bits: The table has 2^bits places.
    """

    def __init__(self, columns: int, bits: int) -> None:
        self.places = 1 << bits
        self.shift = np.uint64(64 - bits)
        self.keys = np.zeros(self.places, np.uint64)  # 0 marks a free place
        # The last row stands for all missing keys.
        self.rows = np.zeros((self.places + 1, columns), np.float32)
        self.count = 0

    def find(self, keys: Array, insert: bool = False) -> Array:
        """Returns the row indices, int64 (M,), of positive keys, uint64 (M,).

        Raises:
            MemoryError: More than 7/8 of the places would be occupied.
        """
        # Fibonacci hashing (Knuth, The Art of Computer Programming, volume 3, 6.4).
        found: Array = ((keys * np.uint64(0x9E3779B97F4A7C15)) >> self.shift).astype(np.int64)
        left = np.arange(len(keys))
        while len(left):
            at, wanted = found[left], keys[left]
            there = self.keys[at]
            free = there == 0
            if insert and free.any():
                self.keys[at[free]] = wanted[free]  # the last of several keys wins
                there = self.keys[at]
                self.count += len(np.unique(at[free]))
                if self.count > self.places - self.places // 8:
                    raise MemoryError(f"a table of {self.places:,} places is full; increase bits")
            elif not insert:
                found[left[free]] = self.places
                there = np.where(free, wanted, there)
            left = left[there != wanted]
            found[left] = (found[left] + 1) & (self.places - 1)
        return found


def keys_of(boards: Array) -> Array:
    """Encodes boards (…, rows, columns) as keys with four bits per cell, uint64 (…)."""
    cells = boards.reshape(*boards.shape[:-2], -1).astype(np.uint64)
    shifts = np.arange(0, 4 * cells.shape[-1], 4, dtype=np.uint64)
    keys: Array = (cells << shifts).sum(axis=-1, dtype=np.uint64) + np.uint64(1)
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
        bits: The size of the table: 2^bits places.
        exploration: The source of random actions.
    """

    def __init__(self, envs: Any, seed: int, bits: int, exploration: Exploration) -> None:
        self.envs, self.exploration = envs, exploration
        self.table = Table(8, bits)  # the actions' values and their numbers of updates
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
    """TD(0) learning of afterstate values (Szubert and Jaśkowski, 2014).

    The value of a board is a sum of table entries, one for each tuple and each image (rotation or
    reflection). If the whole board is the only tuple and `images` is False, the table simply stores
    one value per board.

    Args:
        envs: The 2048 boards.
        seed: The seed of the boards.
        bits: The size of the table: 2^bits places.
        exploration: The source of random actions.
        tuples: The cells of each tuple, numbered row by row from 0.
        images: Whether all rotated and mirrored images of a board share the entries of a tuple.
        coherence: Whether an entry's learning rate is its temporal coherence, |sum of errors| / sum
            of |errors| (Beal and Smith, 1999). Otherwise, the rate falls with the number of visits.
    """

    def __init__(
        self,
        envs: Any,
        seed: int,
        bits: int,
        exploration: Exploration,
        tuples: tuple[tuple[int, ...], ...],
        images: bool,
        coherence: bool,
    ) -> None:
        self.envs, self.exploration, self.coherence = envs, exploration, coherence
        self.table = Table(3, bits)  # value, visits (or the sum of errors), the sum of their sizes
        rows, columns = envs.single_observation_space.shape
        self.layouts = self._layouts(rows, columns, tuples, images)
        envs.reset(seed=seed)
        self.entries: Array | None = None  # (F, N), the entries of the last moves' afterstates
        self.predicted = np.zeros(envs.num_envs, np.float32)
        self.ended = np.zeros(envs.num_envs, bool)

    @staticmethod
    def _layouts(
        rows: int, columns: int, tuples: tuple[tuple[int, ...], ...], images: bool
    ) -> list[tuple[int, Array]]:
        """Returns a pair for each tuple and image: the tuple's index, and the cells to read."""
        board = np.arange(rows * columns).reshape(rows, columns)
        turned = [np.rot90(one, turns) for one in (board, board.T) for turns in range(4)]
        of_shape = [one.ravel() for one in turned if one.shape == board.shape]
        used = of_shape if images else of_shape[:1]
        return [
            (number, image[list(cells)]) for number, cells in enumerate(tuples) for image in used
        ]

    def keys(self, boards: Array) -> Array:
        """Returns the keys of each board's F table entries, uint64 (F, M)."""
        cells = boards.reshape(len(boards), -1)
        keys = [
            keys_of(cells[:, layout][:, None]) | np.uint64(number << 60)
            for number, layout in self.layouts
        ]
        return np.stack(keys)

    def look_up(self, boards: Array) -> Array:
        """Returns the values (M,) of boards (M, rows, columns)."""
        keys = self.keys(boards)
        values = self.table.rows[self.table.find(keys.ravel()), 0]
        total: Array = values.reshape(keys.shape).sum(axis=0)
        return total

    def worth(self, boards: Array, rewards: Array, mask: Array) -> Array:
        """Returns reward + value of each action's afterstate, (M, 4); -inf if it is illegal."""
        worth = np.full(mask.shape, -np.inf, np.float32)
        legal = mask == 1
        worth[legal] = rewards[legal] + self.look_up(boards[legal])
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
        keys = self.keys(boards[np.arange(len(actions)), actions])
        self.entries = self.table.find(keys.ravel(), insert=True).reshape(keys.shape)
        self.predicted = self.table.rows[self.entries, 0].sum(axis=0)
        _, _, terminations, _, _ = self.envs.step(actions)
        self.ended = terminations.copy()

    def _learn(self, entries: Array, errors: Array) -> None:
        """Corrects the values of entries (F, N) by the errors (N,)."""
        distinct, mean = by_entry(entries.ravel(), np.tile(errors, len(entries)))
        value, signed, size = self.table.rows[distinct].T
        if self.coherence:
            rate = np.divide(np.abs(signed), size, out=np.ones_like(size), where=size > 0)
            signed, size = signed + mean, size + np.abs(mean)
        else:
            signed = signed + 1
            rate = rate_of_visits(signed)
        value = value + rate * mean / len(entries)
        self.table.rows[distinct] = np.stack([value, signed, size], axis=1)
