"""What the functions of `twofold.rules` return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Boards = NDArray[np.uint8]


class Afterstates(NamedTuple):
    """What each action makes of each board before the spawn; an illegal one leaves the board."""

    boards: Boards
    """uint8 (…, 4, rows, columns)"""
    rewards: NDArray[np.float32]
    """float32 (…, 4): sums of merged values"""
    mask: NDArray[np.int8]
    """int8 (…, 4): 1 where the action is legal"""


class Move(NamedTuple):
    """What one action makes of each board before the spawn; an illegal one leaves the board."""

    boards: Boards
    """uint8 (…, rows, columns)"""
    rewards: NDArray[np.float32]
    """float32 (…): sums of merged values"""
    legal: NDArray[np.bool_]
    """bool (…): whether anything moved"""


class Spawned(NamedTuple):
    """Boards with a new tile each."""

    boards: Boards
    """uint8 (…, rows, columns)"""
    outcomes: NDArray[np.int32]
    """int32 (…): the chance outcomes; -1 on a full board, which stays as it is"""


class Symmetries(NamedTuple):
    """The images of boards under all turns and mirrors, the board itself first."""

    boards: Boards
    """uint8 (…, images, rows, columns): 8 images of a square board, 4 of another"""
    actions: NDArray[np.uint8]
    """uint8 (images, 4): what action a is called on image s, actions[s, a]"""


class Canonical(NamedTuple):
    """One board for all that are the same up to symmetry."""

    boards: Boards
    """uint8 (…, rows, columns): the image that comes first, cell by cell in row-major order"""
    images: NDArray[np.int64]
    """int64 (…): which of the images of `symmetries` it is, the first of equal ones"""


@dataclass(frozen=True)
class Slide:
    """A tile went from one cell to another; it stays what it is, or is about to merge there."""

    tile: int
    source: int
    target: int
    value: int


@dataclass(frozen=True)
class Merge:
    """The tiles `tile` and `other`, both in `target` now, became the tile `made` of this value."""

    tile: int
    other: int
    made: int
    target: int
    value: int


@dataclass(frozen=True)
class Spawn:
    """A new tile appeared."""

    tile: int
    target: int
    value: int


MoveAction: TypeAlias = "Slide | Merge | Spawn"
"""One thing that a move did to a tile. Cells count row by row, values are 2, 4, 8 …, tiles have
numbers: those of the board from 1 on, row by row, then each new one the next."""
