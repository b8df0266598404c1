"""Tuples of cells for n-tuple networks."""

from __future__ import annotations

import itertools

import numpy as np

from twofold.rules.boards import canonical

PATTERNS: dict[str, tuple[tuple[int, ...], ...]] = {
    name: tuple(tuple(int(cell, 16) for cell in cells) for cells in text.split())
    for name, text in {
        # Yeh et al., "Multi-stage temporal difference learning for 2048-like games", 2016.
        "yeh": "012345 456789 012456 45689a",
        # Matsuzaki, "Systematic selection of n-tuple networks with consideration of interinfluence
        # for game 2048", 2016, in the order of TDL2048.
        "matsuzaki": "012456 456789 012345 234569 01259a 345678 134567 01489a",
        # Szubert and Jaśkowski, "Temporal difference learning of n-tuple networks for the game
        # 2048", 2014: two lines and two rectangles.
        "szubert": "0123 4567 012456 45689a",
    }.items()
}
"""Published tuples for 4 x 4 boards, by name. Cells are numbered row by row."""


def default_tuples(rows: int, columns: int) -> tuple[tuple[int, ...], ...]:
    """Returns the tuples for boards of this size.

    For 4 x 4, the tuples are the pattern "yeh". For at most six cells, a single tuple contains the
    whole board. Other boards have a tuple for each rectangle of 2 x 3 or 3 x 2 cells. Above 16
    cells, they have a tuple for each 2 x 2 square instead, because the weights of that many
    rectangles would take gigabytes. If several tuples are images of each other, only one is kept.
    """
    if (rows, columns) == (4, 4):
        return PATTERNS["yeh"]
    cells = np.arange(rows * columns).reshape(rows, columns)
    if cells.size <= 6:
        return (tuple(cells.ravel().tolist()),)
    found: dict[bytes, tuple[int, ...]] = {}
    for height, width in ((2, 3), (3, 2)) if cells.size <= 16 else ((2, 2),):
        for row, column in itertools.product(range(rows - height + 1), range(columns - width + 1)):
            part = cells[row : row + height, column : column + width].ravel().tolist()
            image = canonical(np.isin(cells, part).astype(np.uint8)).boards
            found.setdefault(image.tobytes(), tuple(part))
    return tuple(found.values())
