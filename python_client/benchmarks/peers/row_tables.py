"""Parts of the peers in numba and numpy: row tables, bit tricks on boards, and a random generator.

The tables have the result of a slide for each of the 65,536 rows, a standard way to play 2048 fast.

A board is a uint64 of 16 exponents, 4 bits each; a row is 16 bits of it:

    cells    0  1  2  3      row 0   bits  0 ... 15, cell 0 in the lowest four
             4  5  6  7      row 1   bits 16 ... 31
             8  9 10 11      …
            12 13 14 15

The largest exponent is 15, so two 32768 tiles do not merge here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

ROWS = 1 << 16
U64 = np.uint64


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


# The following functions are for numba's scalars, and the first two also for numpy's arrays.


def transpose(board: Any) -> Any:
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


def spread(half: Any) -> Any:
    """Spreads eight 4-bit numbers over eight bytes."""
    half = (half | (half << U64(16))) & U64(0x0000FFFF0000FFFF)
    half = (half | (half << U64(8))) & U64(0x00FF00FF00FF00FF)
    return (half | (half << U64(4))) & U64(0x0F0F0F0F0F0F0F0F)


def next_word(streams: Any, lane: Any) -> Any:
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
