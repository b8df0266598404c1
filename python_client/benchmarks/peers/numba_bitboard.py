"""An in-process numba loop over bitboards, the best known scalar technique, used from Python.

    numba_bitboard.py serial|parallel N

It steps the boards one by one, with row tables on 64-bit boards and one SplitMix64 stream per
board. The next step resets a finished board. All outputs are written into arrays that are allocated
once. The tables have the result of a slide for each of the 65,536 rows, a standard way to play 2048
fast. A board is a uint64 of 16 exponents, 4 bits each; a row is 16 bits of it:

    cells    0  1  2  3      row 0   bits  0 ... 15, cell 0 in the lowest four
             4  5  6  7      row 1   bits 16 ... 31
             8  9 10 11      …
            12 13 14 15

The largest exponent is 15, so two 32768 tiles do not merge here.
"""

from __future__ import annotations

import sys
from typing import Any

import numba  # type: ignore[import-not-found]
import numpy as np
from numpy.typing import NDArray
from worker import serve

ROWS = 1 << 16
U64 = np.uint64
ONES = U64(0x1111111111111111)


def _slide_left(row: list[int]) -> tuple[list[int], int]:
    tiles = [tile for tile in row if tile]
    slid: list[int] = []
    score = 0
    while tiles:
        tile = tiles.pop(0)
        if tiles and tiles[0] == tile < 15:
            tiles.pop(0)
            tile += 1
            score += 1 << tile
        slid.append(tile)
    return slid + [0] * (4 - len(slid)), score


def _cells(row: int) -> list[int]:
    return [row >> 4 * cell & 15 for cell in range(4)]


def _row(cells: list[int]) -> int:
    return sum(tile << 4 * cell for cell, tile in enumerate(cells))


def _transpose(board: Any) -> Any:
    """Returns the transposed board: cell (row, column) goes to (column, row)."""
    board = (
        (board & U64(0xF0F00F0FF0F00F0F))
        | ((board & U64(0x0000F0F00000F0F0)) << U64(12))
        | ((board & U64(0x0F0F00000F0F0000)) >> U64(12))
    )
    return (
        (board & U64(0xFF00FF0000FF00FF))
        | ((board & U64(0x00000000FF00FF00)) << U64(24))
        | ((board & U64(0x00FF00FF00000000)) >> U64(24))
    )


def _spread(half: Any) -> Any:
    """Spreads eight 4-bit numbers over eight bytes."""
    half = (half | (half << U64(16))) & U64(0x0000FFFF0000FFFF)
    half = (half | (half << U64(8))) & U64(0x00FF00FF00FF00FF)
    return (half | (half << U64(4))) & U64(0x0F0F0F0F0F0F0F0F)


def _next_word(streams: Any, lane: Any) -> Any:
    """Returns the next number of a board's SplitMix64 stream."""
    streams[lane] += U64(0x9E3779B97F4A7C15)
    word = streams[lane]
    word = (word ^ (word >> U64(30))) * U64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> U64(27))) * U64(0x94D049BB133111EB)
    return word ^ (word >> U64(31))


# The row after a slide: [0 ... 65535] for left, [65536 ... 131071] for right.
SLID = np.empty(2 * ROWS, np.uint16)
# The score of that slide, in either direction.
SCORE = np.empty(ROWS, np.float32)
# Bit 0 is set if a slide to the left moves something, bit 1 for the right.
MOVES = np.empty(ROWS, np.uint8)

for _index in range(ROWS):
    _left, _score = _slide_left(_cells(_index))
    _right, _ = _slide_left(_cells(_index)[::-1])
    SLID[_index], SLID[ROWS + _index] = _row(_left), _row(_right[::-1])
    SCORE[_index] = _score
    MOVES[_index] = (_row(_left) != _index) | (_row(_right[::-1]) != _index) << 1


def _spawn(board: Any, word: Any) -> Any:
    """Returns the board with a 2 or, one time in ten, a 4 in a random empty cell."""
    filled = board | (board >> U64(1))
    filled |= filled >> U64(2)
    empty = ~filled & ONES
    # The highest nibble becomes the sum of all: up to 15, but an empty board wraps around to 0.
    count = (empty * ONES) >> U64(60)
    if board == U64(0):
        count = U64(16)
    for _ in range(((word >> U64(32)) * count) >> U64(32)):
        empty &= empty - U64(1)
    cell = empty & (~empty + U64(1))
    is_four = (word & U64(0xFFFFFFFF)) < U64(429496730)
    return board | (cell << U64(1) if is_four else cell)


def _moves(board: Any, table: Any) -> Any:
    """Returns two bits: bit 0 if the board can slide left, bit 1 if it can slide right."""
    row = U64(0xFFFF)
    return (
        table[board & row]
        | table[(board >> U64(16)) & row]
        | table[(board >> U64(32)) & row]
        | table[board >> U64(48)]
    )


def _step(
    actions: Any,
    boards: Any,
    streams: Any,
    slid: Any,
    score: Any,
    moves: Any,
    observations: Any,
    rewards: Any,
    terminated: Any,
    masks: Any,
    scores: Any,
    lengths: Any,
) -> None:
    """Steps all boards; actions are 0 up, 1 right, 2 down, 3 left."""
    row = U64(0xFFFF)
    for lane in numba.prange(len(boards)):
        if terminated[lane]:
            board = spawn(spawn(U64(0), random(streams, lane)), random(streams, lane))
            rewards[lane] = scores[lane] = 0
            lengths[lane] = 0
        else:
            old = boards[lane]
            action = actions[lane]
            is_vertical = action & 1 == 0
            lines = transpose(old) if is_vertical else old
            half = U64(ROWS) if action == 1 or action == 2 else U64(0)
            line0, line1 = lines & row, (lines >> U64(16)) & row
            line2, line3 = (lines >> U64(32)) & row, lines >> U64(48)
            reward = score[line0] + score[line1] + score[line2] + score[line3]
            lines = (
                U64(slid[half + line0])
                | (U64(slid[half + line1]) << U64(16))
                | (U64(slid[half + line2]) << U64(32))
                | (U64(slid[half + line3]) << U64(48))
            )
            board = transpose(lines) if is_vertical else lines
            if board != old:
                board = spawn(board, random(streams, lane))
            rewards[lane] = reward
            scores[lane] += np.int32(reward)
            lengths[lane] += 1
        boards[lane] = board
        observations[lane, 0] = spread(board & U64(0xFFFFFFFF))
        observations[lane, 1] = spread(board >> U64(32))
        across = moves_of(board, moves)
        along = moves_of(transpose(board), moves)
        masks[lane, 0] = along & 1
        masks[lane, 1] = across >> 1
        masks[lane, 2] = along >> 1
        masks[lane, 3] = across & 1
        terminated[lane] = (across | along) == 0


inline = numba.njit(inline="always")
transpose, spread = inline(_transpose), inline(_spread)
random, spawn, moves_of = inline(_next_word), inline(_spawn), inline(_moves)


class NumbaBitboard:
    """N boards and their outputs, which are allocated once."""

    action_dtype = np.uint8

    def __init__(self, is_parallel: bool, num_envs: int) -> None:
        self._step = numba.njit(parallel=is_parallel)(_step)
        self._observations = np.zeros((num_envs, 2), np.uint64)
        self._terminated = np.ones(num_envs, np.bool_)  # the first step starts the games
        self._rewards = np.zeros(num_envs, np.float32)
        self._masks = np.zeros((num_envs, 4), np.int8)
        self._arguments = (
            np.zeros(num_envs, np.uint64),
            np.random.default_rng(0).integers(0, 2**64, num_envs, np.uint64),
            SLID,
            SCORE,
            MOVES,
            self._observations,
            self._rewards,
            self._terminated,
            self._masks,
            np.zeros(num_envs, np.int32),
            np.zeros(num_envs, np.int32),
        )
        # The same memory as arrays for the user.
        boards = self._observations.view(np.uint8).reshape(num_envs, 4, 4)
        truncated = np.zeros(num_envs, np.bool_)
        self._outputs = boards, self._rewards, self._terminated, truncated, self._masks
        self.details = {
            "numba": numba.__version__,
            "threads": str(numba.get_num_threads() if is_parallel else 1),
            "outputs": "observation uint8, reward, terminated, truncated, mask, score, length; "
            "in the same arrays each time",
        }

    def step(self, actions: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """Steps all boards."""
        self._step(actions, *self._arguments)
        return self._outputs

    def mask(self, outputs: tuple[NDArray[Any], ...]) -> NDArray[Any]:
        """Returns the mask, which is one of the outputs."""
        return outputs[4]


if __name__ == "__main__":
    serve(lambda num_envs: NumbaBitboard(sys.argv[1] == "parallel", num_envs))
