"""The rules and random draws of 2048 in plain Python, and a way to infer actions from boards.

A board is a list of exponents, row by row; 0 is an empty cell. A chance outcome is a number that
encodes a new tile: its cell for a 2, and its cell plus the number of cells for a 4.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twofold import _arguments
from twofold.errors import InvalidArgument, InvalidRecording

_MASK32, _MASK64 = 2**32 - 1, 2**64 - 1

Words = tuple[int, int, int, int]
"""The state of a generator: four 32-bit words."""


@dataclass(frozen=True)
class RecordingRules:
    """The rules of a recorded game, named like the environment's arguments.

    Attributes:
        rows: The number of rows, 2 ... 8.
        columns: The number of columns, 2 ... 8.
        four_probability: The probability that a new tile is a 4.
        start_tiles: The number of tiles on a new board.
    """

    rows: int = 4
    columns: int = 4
    four_probability: float = 0.1
    start_tiles: int = 2

    def __post_init__(self) -> None:
        # Plain ints and floats, because a file can't hold numpy's.
        rows = _arguments.integer("rows", self.rows, 2, 8)
        columns = _arguments.integer("columns", self.columns, 2, 8)
        probability = _arguments.probability(self.four_probability)
        start_tiles = _arguments.integer("start_tiles", self.start_tiles, 1, rows * columns - 1)
        vars(self).update(
            rows=rows, columns=columns, four_probability=probability, start_tiles=start_tiles
        )

    @property
    def cells(self) -> int:
        """The number of cells of the board."""
        return self.rows * self.columns


class Generator:
    """One stream of random numbers from xoshiro128++ (Blackman and Vigna)."""

    def __init__(self, words: Words) -> None:
        self.words = words

    @classmethod
    def seeded(cls, seed: int) -> Generator:
        """Returns a seed's generator. Its state is two outputs of SplitMix64, low halves first."""
        halves: list[int] = []
        for _ in range(2):
            seed = (seed + 0x9E3779B97F4A7C15) & _MASK64
            mixed = ((seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
            mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK64
            mixed ^= mixed >> 31
            halves += [mixed & _MASK32, mixed >> 32]
        return cls((halves[0], halves[1], halves[2], halves[3]))

    def draw(self) -> int:
        """Returns the next random 32-bit word."""
        a, b, c, d = self.words
        total = (a + d) & _MASK32
        result = (((total << 7) | (total >> 25)) + a) & _MASK32
        shifted = (b << 9) & _MASK32
        c ^= a
        d ^= b
        b ^= c
        a ^= d
        c ^= shifted
        self.words = (a, b, c, ((d << 11) | (d >> 21)) & _MASK32)
        return result

    def spawn(self, board: list[int], threshold: int) -> int:
        """Draws the chance outcome for a board, from one word for the cell and one for the tile.

        Args:
            board: A board with an empty cell.
            threshold: round(probability * 2^32); a word below it means a 4.
        """
        empty = [cell for cell, exponent in enumerate(board) if exponent == 0]
        cell = empty[(self.draw() * len(empty)) >> 32]
        return cell + (len(board) if self.draw() < threshold else 0)


class Motion(NamedTuple):
    """The motion of one tile. Lists of motions are in drawing order."""

    source: int
    target: int
    is_merge: bool
    """Whether the tile merges with the tile in `target`."""


@functools.lru_cache(100_000)
def slide(line: tuple[int, ...]) -> tuple[tuple[int, ...], int, tuple[Motion, ...]]:
    """Slides one line towards position 0. Returns the new line, the reward and the motions.

    A merged tile does not merge again. The pair nearest the wall merges first.
    """
    result: list[int] = []
    motions: list[Motion] = []
    reward, may_merge = 0, False
    for position, exponent in enumerate(line):
        if exponent == 0:
            continue
        if may_merge and result[-1] == exponent:
            result[-1] += 1
            reward += 1 << result[-1]
            may_merge = False
            motions.append(Motion(position, len(result) - 1, True))
            continue
        if position != len(result):
            motions.append(Motion(position, len(result), False))
        result.append(exponent)
        may_merge = True
    return (*result, *[0] * (len(line) - len(result))), reward, tuple(motions)


@functools.lru_cache(64)
def lines(rows: int, columns: int, action: int) -> tuple[tuple[int, ...], ...]:
    """Returns the cells of each line, starting at the wall towards which the action slides."""
    if action in (0, 2):
        found = [[row * columns + column for row in range(rows)] for column in range(columns)]
    else:
        found = [[row * columns + column for column in range(columns)] for row in range(rows)]
    return tuple(tuple(line[::-1] if action in (1, 2) else line) for line in found)


def move(board: list[int], rows: int, columns: int, action: int) -> tuple[int, list[Motion]]:
    """Slides and merges in place. Returns the reward and the motions, [] for an illegal action."""
    reward, motions = 0, []
    for cells in lines(rows, columns, action):
        line, merged, moved = slide(tuple([board[cell] for cell in cells]))
        if moved:
            reward += merged
            motions += [Motion(cells[m.source], cells[m.target], m.is_merge) for m in moved]
            for cell, exponent in zip(cells, line, strict=True):
                board[cell] = exponent
    return reward, motions


def legal(board: list[int], rows: int, columns: int) -> list[int]:
    """Returns the actions that move something."""
    return [a for a in range(4) if move(list(board), rows, columns, a)[1]]


class Step(NamedTuple):
    """One step of a replay."""

    action: int
    reward: int
    motions: list[Motion]
    """The tiles' motions; empty for an illegal action."""
    outcome: int
    """The chance outcome, -1 for none."""
    board: list[int]
    """A copy of the board after the step."""


def threshold_of(four_probability: float) -> int:
    """Returns the threshold below which a word draws a 4: probability * 2^32, rounded half up."""
    scaled = four_probability * 2**32  # exact: only the float's exponent changes
    return int(scaled) + (scaled - int(scaled) >= 0.5)


def place(board: list[int], outcome: int, event: str) -> None:
    """Puts a new tile on the board. `event` names the tile in the error if its cell is taken."""
    cells = len(board)
    if not 0 <= outcome < 2 * cells or board[outcome % cells]:
        raise InvalidRecording(
            f"{event}: outcome {outcome} cannot be placed; expected an empty cell"
        )
    board[outcome % cells] = 2 if outcome >= cells else 1


def explain_boards(
    boards: ArrayLike, four_probability: float, start_tiles: int
) -> tuple[RecordingRules, list[int], list[int]]:
    """Returns the rules, the actions (steps,) and the chance outcomes (tiles,) of a game.

    `boards` contains exponents, integers (steps + 1, rows, columns). Raises InvalidArgument if the
    boards are not a game of 2048.
    """
    array = _check_boards(boards)
    rules = RecordingRules(array.shape[1], array.shape[2], four_probability, start_tiles)
    flat = array.reshape(len(array), -1).tolist()
    tiles = [(cell, exponent) for cell, exponent in enumerate(flat[0]) if exponent]
    if len(tiles) != rules.start_tiles or any(exponent > 2 for _, exponent in tiles):
        raise InvalidArgument(
            f"board 0 has the tiles {[2**exponent for _, exponent in tiles]}; expected "
            f"{rules.start_tiles} tiles of 2 or 4",
            field="boards",
        )
    actions: list[int] = []
    outcomes = [cell + rules.cells * (exponent - 1) for cell, exponent in tiles]
    for number in range(1, len(flat)):
        found = _explain_step(flat[number - 1], flat[number], rules)
        if found is None:
            raise InvalidArgument(
                f"board {number} does not follow from board {number - 1}; expected an action and "
                "one new tile between them",
                field="boards",
            )
        actions.append(found[0])
        outcomes.append(found[1])
    return rules, actions, outcomes


def _explain_step(
    before: list[int], after: list[int], rules: RecordingRules
) -> tuple[int, int] | None:
    """Returns the first action that leads from one board to the next, and its chance outcome."""
    for action in range(4):
        board = list(before)
        if not move(board, rules.rows, rules.columns, action)[1]:
            continue
        different = [cell for cell, (a, b) in enumerate(zip(board, after, strict=True)) if a != b]
        if len(different) == 1 and board[different[0]] == 0 and after[different[0]] in (1, 2):
            return action, different[0] + rules.cells * (after[different[0]] - 1)
    return None


def _check_boards(boards: ArrayLike) -> NDArray[np.integer[Any]]:
    array = _arguments.array("boards", boards)
    if array.dtype.kind not in "iu" or array.ndim != 3 or len(array) == 0:
        raise InvalidArgument(
            f"boards are {array.dtype} of shape {array.shape}; expected exponents, integers "
            "(steps + 1, rows, columns)",
            field="boards",
        )
    is_bad = (array < 0) | (array > 31)
    if is_bad.any():
        raise InvalidArgument(
            f"board {int(np.argwhere(is_bad)[0, 0])} has exponents outside 0 ... 31; pass "
            "exponents, such as 3 for the tile 8",
            field="boards",
        )
    return array
