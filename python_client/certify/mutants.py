"""A numpy engine for 2048 on 4 x 4, with optional defects that occur in other projects.

A mutant is the engine with one defect. Each defect either has published scores or is an easy
mistake to make. A certificate that accepted a mutant would prove nothing. certify.py plays all
mutants and shows which checks detect each defect. The code makes it simple to add a defect; it is
not a reference implementation.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Line = list[int]

HIGHEST = 12
"""The number of exponents in the tables, 0 (empty) to 11. Random play never exceeds 11."""


@dataclass(frozen=True)
class Defect:
    """The defects of an engine; none by default."""

    name: str = "none"
    four_probability: float = 0.1
    start_tiles: int = 2
    merges_from_far_end: bool = False
    """Of three equal tiles, the two farthest from the wall merge."""
    cascades: bool = False
    """A merged tile merges again in the same move."""
    needs_room_before: bool = False
    """No tile spawns after a move on a full board, although the merge has made room."""
    illegal_spawns: bool = False
    """A tile spawns even if nothing moved."""
    score: float = 0.0
    """The known mean score of random play with this defect; 0 if unknown."""
    moves: float = 0.0
    """The known mean number of moves of random play with this defect; 0 if unknown.

    If `illegal_spawns` is True, the known mean number of steps.
    """


DEFECTS = (
    Defect("spawns 2s only", four_probability=0.0, score=1210.6, moves=135.5),
    Defect("spawns twice as many 4s", four_probability=0.2, score=1012.9, moves=105.7),
    Defect("spawns by a stale board", needs_room_before=True, score=1388.6, moves=146.5),
    Defect("merges from the far end", merges_from_far_end=True, score=1050.9, moves=115.0),
    Defect("merges a merged tile again", cascades=True, score=1153.3, moves=122.4),
    Defect("starts with one tile", start_tiles=1, score=1095.1, moves=119.4),
    Defect("spawns after an illegal action", illegal_spawns=True, score=959.3, moves=108.6),
)


class Engine:
    """N boards, with the parts of Gymnasium's interface that the certificate uses.

    Args:
        num_envs: The number of boards.
        defect: The defect of the engine; none by default.
    """

    def __init__(self, num_envs: int, defect: Defect | None = None) -> None:
        self.num_envs = num_envs
        self.defect = defect or Defect()
        self._after, self._paid, self._is_legal = _tables(
            self.defect.cascades, self.defect.merges_from_far_end
        )
        self._finished = np.zeros(num_envs, np.bool_)

    def reset(self, *, seed: Any = None) -> tuple[Array, dict[str, Any]]:
        """Starts new games on all boards."""
        self._rng = np.random.default_rng(seed)
        self._boards = np.zeros((self.num_envs, 4, 4), np.uint8)
        self._score, self._moves = (np.zeros(self.num_envs, np.int64) for _ in range(2))
        self._start(np.arange(self.num_envs))
        self._look()
        return self._boards.copy(), self._infos()

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """Plays one action on each board; a finished board starts a new episode."""
        playing, new = ~self._finished, np.flatnonzero(self._finished)
        legal = self._mask[np.arange(self.num_envs), actions].astype(np.bool_) & playing
        spawning = legal
        if self.defect.needs_room_before:
            spawning = legal & (self._boards == 0).any(axis=(1, 2))
        moved, rewards = self._slide(actions)
        self._boards[legal] = moved[legal]
        rewards = np.where(legal, rewards, 0)
        self._score += rewards
        self._moves += legal
        if self.defect.illegal_spawns:
            spawning = playing
        self._spawn(np.flatnonzero(spawning))
        self._start(new)
        self._look()
        self._finished = ~self._mask.any(axis=1)
        truncations = np.zeros(self.num_envs, np.bool_)
        return self._boards.copy(), rewards, self._finished.copy(), truncations, self._infos()

    def _infos(self) -> dict[str, Any]:
        return {
            "action_mask": self._mask.astype(np.int8),
            "score": self._score.copy(),
            "moves": self._moves.copy(),
        }

    def _start(self, lanes: Array) -> None:
        self._boards[lanes], self._score[lanes], self._moves[lanes] = 0, 0, 0
        for _ in range(self.defect.start_tiles):
            self._spawn(lanes)

    def _spawn(self, lanes: Array) -> None:
        """Adds a tile to each board in `lanes` that has an empty cell."""
        cells = self._boards.reshape(self.num_envs, 16)
        empty = cells[lanes] == 0
        chosen = ((1 - self._rng.random(empty.shape, np.float32)) * empty).argmax(axis=1)
        has_room = empty[np.arange(len(lanes)), chosen]
        lanes, chosen = lanes[has_room], chosen[has_room]
        is_four = self._rng.random(len(lanes)) < self.defect.four_probability
        cells[lanes, chosen] = 1 + is_four

    def _look(self) -> None:
        """Computes the legal actions of each board, and the table index of each line."""
        rows, columns = _packed(self._boards), _packed(self._boards.transpose(0, 2, 1))
        # The order is up, right, down, left. Backward lines use the second half of the tables.
        half = HIGHEST**4
        self._lines = np.stack([columns, rows + half, columns + half, rows], axis=1)
        first, second, third, fourth = np.moveaxis(self._is_legal[self._lines], 2, 0)
        self._mask = first | second | third | fourth

    def _slide(self, actions: Array) -> tuple[Array, Array]:
        lines = self._lines[np.arange(self.num_envs), actions]
        moved = self._after[lines]
        is_vertical = (actions % 2 == 0)[:, np.newaxis, np.newaxis]
        turned = np.where(is_vertical, moved.transpose(0, 2, 1), moved)
        return turned, self._paid[lines].sum(axis=1)


def _packed(lines: Array) -> Array:
    """Returns the table index of each line, (..., 4)."""
    packed = lines[..., 0].astype(np.int64)
    for place in (1, 2, 3):
        packed = packed * HIGHEST + lines[..., place]
    return packed


@functools.cache
def _tables(cascades: bool, merges_from_far_end: bool) -> tuple[Array, Array, Array]:
    """Returns the results of all slides of a line: the new lines (n, 4), scores, and legality (n,).

    Each table's first half slides towards the line's first cell, its second half towards the last.
    """
    slide: Callable[[Line], tuple[Line, int]] = _cascade if cascades else _merge_once
    after = np.zeros((2 * HIGHEST**4, 4), np.uint8)
    paid = np.zeros(2 * HIGHEST**4, np.int64)
    for number in range(HIGHEST**4):
        line = [number // HIGHEST**place % HIGHEST for place in (3, 2, 1, 0)]
        for backward in (0, 1):
            tiles = [tile for tile in (line[::-1] if backward else line) if tile]
            if merges_from_far_end:
                moved, pay = slide(tiles[::-1])
                moved = moved[::-1]
            else:
                moved, pay = slide(tiles)
            moved = [min(tile, HIGHEST - 1) for tile in moved] + [0] * (4 - len(moved))
            after[number + backward * HIGHEST**4] = moved[::-1] if backward else moved
            paid[number + backward * HIGHEST**4] = pay
    own = np.arange(2 * HIGHEST**4) % HIGHEST**4
    return after, paid, _packed(after) != own


def _merge_once(tiles: Line) -> tuple[Line, int]:
    """Merges neighbours, starting at the first. A merged tile does not merge again."""
    merged, pay, place = [], 0, 0
    while place < len(tiles):
        if tiles[place : place + 2] == [tiles[place]] * 2:
            merged.append(tiles[place] + 1)
            pay += 2 ** (tiles[place] + 1)
            place += 2
        else:
            merged.append(tiles[place])
            place += 1
    return merged, pay


def _cascade(tiles: Line) -> tuple[Line, int]:
    """Merges neighbours, and lets a merged tile merge again with the next one."""
    merged: Line = []
    pay = 0
    for tile in tiles:
        if merged and merged[-1] == tile:
            merged[-1] += 1
            pay += 2 ** merged[-1]
        else:
            merged.append(tile)
    return merged, pay
