"""Exact values of 2048 under uniform random legal play, on boards up to 3 x 3 and 2 x 4.

A board is one number with four bits for each cell. The solver computes the probability that a game
visits each board, in order of the sum of the board's tiles. (A slide keeps the sum, and the spawn
adds 2 or 4.) A board's rotations and reflections count as the same board. The results are sums over
the visited boards. For example, the expected number of moves is the sum of the probabilities of all
boards with a legal action.

    play = Forward(3, 3).solve()
    play.score, play.moves, play.reaching(64)
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import exact
import numpy as np
from numpy.typing import NDArray

Boards = NDArray[np.uint64]
Weights = NDArray[np.float64]


@dataclass
class Play:
    """The expected values for an episode."""

    score: float = 0.0
    moves: float = 0.0
    states: int = 0
    """The number of visited boards, up to symmetry."""
    terminal: int = 0
    """The number of visited boards without a legal action."""
    left_out: float = 0.0
    """The total probability of the episodes that the solver did not follow to their end."""
    highest: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    """Maps each tile value to the probability that the last board's highest tile has this value."""

    def reaching(self, value: int) -> float:
        """Returns the probability that the highest tile is at least this value."""
        return sum(chance for tile, chance in self.highest.items() if tile >= value)


class Forward:
    """A solver for one board size and one probability of new 4s."""

    def __init__(
        self, rows: int, columns: int, *, four_probability: float = 0.1, start_tiles: int = 2
    ) -> None:
        self.rows, self.columns, self.start_tiles = rows, columns, start_tiles
        self.cells = rows * columns
        self.chances = ((1, 2, 1 - four_probability), (2, 4, four_probability))
        self._slides = {width: _slide_table(width) for width in {rows, columns}}
        self._mirrors = {width: _mirror_table(width) for width in {rows, columns}}

    def solve(self, negligible: float = 0.0) -> Play:
        """Computes the expected values for an episode.

        Args:
            negligible: The solver stops when the unfinished episodes have at most this total
                probability.
        """
        play = Play()
        waiting: dict[int, list[tuple[Boards, Weights]]] = defaultdict(list)
        for total, start in self._starts().items():
            waiting[total].append(start)
        while waiting:
            play.left_out = sum(float(w.sum()) for some in waiting.values() for _, w in some)
            if play.left_out <= negligible:
                return play
            total = min(waiting)
            self._layer(total, _collect(waiting.pop(total)), waiting, play)
        play.left_out = 0.0
        return play

    def _layer(
        self,
        total: int,
        visits: tuple[Boards, Weights],
        waiting: dict[int, list[tuple[Boards, Weights]]],
        play: Play,
    ) -> None:
        """Plays each legal action on all boards whose tiles sum to `total`.

        Queues the resulting boards in `waiting`, and adds to the expected values in `play`.
        """
        boards, weights = visits
        moved = [self._slide(boards, direction) for direction in range(4)]
        legal = np.array([after != boards for after, _ in moved])
        choices = legal.sum(axis=0)
        is_over = choices == 0
        play.states += boards.size
        play.terminal += int(is_over.sum())
        for exponent, chance in enumerate(
            np.bincount(self._highest(boards[is_over]), weights[is_over]).tolist()
        ):
            if chance:
                play.highest[2**exponent] += chance
        share = weights / np.maximum(choices, 1)
        play.moves += float(weights[~is_over].sum())
        pieces = []
        for (after, score), is_legal in zip(moved, legal, strict=True):
            play.score += float((share * score)[is_legal].sum())
            pieces.append((self._canonical(after[is_legal]), share[is_legal]))
        for added, spawned in self._spawns(*_collect(pieces)).items():
            waiting[total + added].append(spawned)

    def _starts(self) -> dict[int, tuple[Boards, Weights]]:
        layers = {0: (np.zeros(1, np.uint64), np.ones(1))}
        for _ in range(self.start_tiles):
            more: dict[int, list[tuple[Boards, Weights]]] = defaultdict(list)
            for total, layer in layers.items():
                for added, spawned in self._spawns(*layer).items():
                    more[total + added].append(spawned)
            layers = {total: _collect(pieces) for total, pieces in more.items()}
        return layers

    def _spawns(self, boards: Boards, weights: Weights) -> dict[int, tuple[Boards, Weights]]:
        """Returns the boards after one spawn, and their weights, by the value of the new tile."""
        is_empty = np.array([self._cell(boards, cell) == 0 for cell in range(self.cells)])
        share = weights / np.maximum(is_empty.sum(axis=0), 1)
        spawned = {}
        for exponent, added, chance in self.chances:
            if chance:
                pieces = [
                    (boards[empty] | np.uint64(exponent << 4 * cell), share[empty] * chance)
                    for cell, empty in enumerate(is_empty)
                ]
                joined = np.concatenate([board for board, _ in pieces])
                spawned[added] = _collect(
                    [(self._canonical(joined), np.concatenate([weight for _, weight in pieces]))]
                )
        return spawned

    # ---- boards as numbers -----------------------------------------------------------------------

    def _cell(self, boards: Boards, cell: int) -> Boards:
        tiles: Boards = boards >> np.uint64(4 * cell) & np.uint64(15)
        return tiles

    def _highest(self, boards: Boards) -> NDArray[np.int64]:
        highest = np.zeros(boards.shape, np.int64)
        for cell in range(self.cells):
            np.maximum(highest, self._cell(boards, cell).astype(np.int64), out=highest)
        return highest

    def _slide(self, boards: Boards, direction: int) -> tuple[Boards, NDArray[np.int64]]:
        """Slides the boards. Returns the new boards and each board's sum of merged values."""
        is_vertical, is_backward = direction % 2 == 1, direction >= 2
        rows, columns = self.rows, self.columns
        if is_vertical:
            boards, rows, columns = self._transposed(boards, rows, columns), columns, rows
        after, score = np.zeros_like(boards), np.zeros(boards.shape, np.int64)
        slid, merged = self._slides[columns][is_backward]
        for row in range(rows):
            line = boards >> np.uint64(4 * columns * row) & np.uint64(16**columns - 1)
            after |= slid[line] << np.uint64(4 * columns * row)
            score += merged[line]
        return (self._transposed(after, rows, columns) if is_vertical else after), score

    def _transposed(self, boards: Boards, rows: int, columns: int) -> Boards:
        turned = np.zeros_like(boards)
        for cell in range(rows * columns):
            row, column = divmod(cell, columns)
            turned |= self._cell(boards, cell) << np.uint64(4 * (column * rows + row))
        return turned

    def _mirrored(self, boards: Boards, rows: int, columns: int) -> Boards:
        """Returns the boards with left and right exchanged."""
        mirrored = np.zeros_like(boards)
        for row in range(rows):
            line = boards >> np.uint64(4 * columns * row) & np.uint64(16**columns - 1)
            mirrored |= self._mirrors[columns][line] << np.uint64(4 * columns * row)
        return mirrored

    def _canonical(self, boards: Boards) -> Boards:
        """Returns, for each board, the smallest number among its rotations and reflections."""
        across = self._mirrored(boards, self.rows, self.columns)
        smallest = np.minimum(boards, across)
        for one in (boards, across):
            turned = self._transposed(one, self.rows, self.columns)
            flipped = self._mirrored(turned, self.columns, self.rows)
            if self.rows == self.columns:
                smallest = np.minimum(smallest, np.minimum(turned, flipped))
            smallest = np.minimum(smallest, self._transposed(flipped, self.columns, self.rows))
        return smallest


def _collect(pieces: list[tuple[Boards, Weights]]) -> tuple[Boards, Weights]:
    """Concatenates the pieces. Equal boards become one board with the sum of their weights."""
    boards, places = np.unique(np.concatenate([b for b, _ in pieces]), return_inverse=True)
    weights = np.bincount(places, np.concatenate([w for _, w in pieces]), boards.size)
    return boards, weights.astype(np.float64)


def _line(number: int, width: int) -> str:
    """Converts a line to a string as in exact.py. The lowest four bits are the first cell."""
    cells = (number >> 4 * cell & 15 for cell in range(width))
    return "".join("." if cell == 0 else chr(ord("a") + cell - 1) for cell in cells)


def _number(line: str) -> int:
    return sum(0 if c == "." else ord(c) - ord("a") + 1 << 4 * i for i, c in enumerate(line))


def _slide_table(width: int) -> list[tuple[NDArray[np.uint64], NDArray[np.int64]]]:
    """Returns two tables of slides: towards a line's first cell, and towards its last cell.

    Each table is a pair of arrays, indexed by the line: the line after the slide, and the score.
    Two tiles of exponent 15 would merge to exponent 16, which does not fit in four bits. No board
    of a supported size reaches exponent 15.
    """
    tables: list[tuple[NDArray[Any], NDArray[Any]]] = []
    for step in (1, -1):
        after, score = np.zeros(16**width, np.uint64), np.zeros(16**width, np.int64)
        for number in range(16**width):
            line, merged = exact.slide(_line(number, width)[::step])
            after[number] = _number(line[::step]) % 16**width
            score[number] = merged
        tables.append((after, score))
    return tables


def _mirror_table(width: int) -> NDArray[np.uint64]:
    mirrored = [_number(_line(number, width)[::-1]) for number in range(16**width)]
    return np.array(mirrored, np.uint64)
