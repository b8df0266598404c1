"""A vectorised numpy implementation with row tables, as a capable user would write it.

numpy_tables.py N
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from row_tables import MOVES, ROWS, SCORE, SLID, U64, spread, transpose
from worker import serve

Array = NDArray[Any]
Boards = NDArray[np.uint64]
ONES = U64(0x1111111111111111)

# The index of the k-th set bit: KTH[bits * 16 + k].
_KTH = np.zeros((ROWS, 16), np.uint8)
_BITS = (np.arange(ROWS)[:, None] >> np.arange(16) & 1).astype(np.bool_)
for _place in range(16):
    _has = _BITS[:, _place]
    _KTH[_has, _BITS[_has, :_place].sum(1)] = _place
KTH = _KTH.ravel()
COUNT = _BITS.sum(1).astype(np.uint64)


def tiles(boards: Boards, words: Boards) -> Any:
    """Returns the new tiles: a 2, or one time in ten a 4, in a random empty cell of each board."""
    filled = boards | (boards >> U64(1))
    filled |= filled >> U64(2)
    empty = ~filled & ONES
    # Sixteen nibbles become sixteen bits.
    empty = (empty | (empty >> U64(3))) & U64(0x0303030303030303)
    empty = (empty | (empty >> U64(6))) & U64(0x000F000F000F000F)
    empty = (empty | (empty >> U64(12))) & U64(0x000000FF000000FF)
    empty = (empty | (empty >> U64(24))) & U64(0xFFFF)
    kth = ((words >> U64(32)) * COUNT.take(empty)) >> U64(32)
    cells = KTH.take(empty * U64(16) + kth).astype(np.uint64)
    is_four = (words & U64(0xFFFFFFFF)) < U64(429496730)
    return (U64(1) + is_four) << (U64(4) * cells)


def moves(boards: Array) -> Array:
    """Returns two bits: bit 0 if a board can slide left, bit 1 if it can slide right."""
    lines = MOVES.take(boards.view(np.uint16)).view(np.uint32)
    lines |= lines >> np.uint32(16)
    lines |= lines >> np.uint32(8)
    return lines.astype(np.uint8)


class NumpyTables:
    """N boards. The next step resets a board that has finished."""

    action_dtype = np.int64

    def __init__(self, num_envs: int) -> None:
        self._rng = np.random.default_rng(0)
        self._boards = np.zeros(num_envs, np.uint64)
        self._terminated = np.ones(num_envs, np.bool_)  # the first step starts the games
        self._scores = np.zeros(num_envs, np.int32)
        self._lengths = np.zeros(num_envs, np.int32)
        self.details = {
            "numpy": np.__version__,
            "outputs": "observation uint8, reward, terminated, truncated, mask, score, length",
        }

    def step(self, actions: Array) -> tuple[Array, ...]:
        """Steps all boards; actions are 0 up, 1 right, 2 down, 3 left."""
        old = self._boards
        num_envs = len(old)
        is_vertical = actions & 1 == 0
        lines = np.where(is_vertical, transpose(old), old)
        half = ((actions == 1) | (actions == 2)).astype(np.uint32) << np.uint32(16)
        rows = lines.view(np.uint16).reshape(num_envs, 4)
        parts = SCORE.take(rows)
        rewards = parts[:, 0] + parts[:, 1] + parts[:, 2] + parts[:, 3]
        lines = SLID.take(rows + half[:, None]).view(np.uint64).ravel()
        boards = np.where(is_vertical, transpose(lines), lines)
        words = self._rng.integers(0, 2**64, num_envs, np.uint64)
        boards |= np.where(boards != old, tiles(boards, words), U64(0))
        self._scores = self._scores + rewards.astype(np.int32)
        self._lengths = self._lengths + 1
        if self._terminated.any():
            (ended,) = self._terminated.nonzero()
            words = self._rng.integers(0, 2**64, (2, len(ended)), np.uint64)
            first = tiles(np.zeros(len(ended), np.uint64), words[0])
            boards[ended] = first | tiles(first, words[1])
            rewards[ended] = 0
            self._scores[ended] = 0
            self._lengths[ended] = 0
        self._boards = boards

        observations = np.empty((num_envs, 2), np.uint64)
        observations[:, 0] = spread(boards & U64(0xFFFFFFFF))
        observations[:, 1] = spread(boards >> U64(32))
        across, along = moves(boards), moves(transpose(boards))
        masks = np.empty((num_envs, 4), np.int8)
        masks[:, 0] = along & 1
        masks[:, 1] = across >> 1
        masks[:, 2] = along >> 1
        masks[:, 3] = across & 1
        self._terminated = (across | along) == 0
        return (
            observations.view(np.uint8).reshape(num_envs, 4, 4),
            rewards,
            self._terminated,
            np.zeros(num_envs, np.bool_),
            masks,
            self._scores,
            self._lengths,
        )

    def mask(self, outputs: tuple[Array, ...]) -> Array:
        """Returns the mask, which is one of the outputs."""
        return outputs[4]


if __name__ == "__main__":
    serve(NumpyTables)
