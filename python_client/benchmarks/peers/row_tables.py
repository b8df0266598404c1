"""Tables with the result of a slide for each of the 65,536 rows, a standard way to play 2048 fast.

A board is a uint64 of 16 exponents, 4 bits each; a row is 16 bits of it:

    cells    0  1  2  3      row 0   bits  0 ... 15, cell 0 in the lowest four
             4  5  6  7      row 1   bits 16 ... 31
             8  9 10 11      …
            12 13 14 15

The largest exponent is 15, so two 32768 tiles do not merge here.
"""

from __future__ import annotations

import numpy as np

ROWS = 1 << 16


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
