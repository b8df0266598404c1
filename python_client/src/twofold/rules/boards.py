"""The boards that the functions of `twofold.rules` take, and what belongs to each of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from twofold import _arguments
from twofold.envs.seeding import consecutive
from twofold.errors import InvalidArgument
from twofold.rules.results import Boards

# What an observation can hold.
_LARGEST = 31


class CheckedBoards(NamedTuple):
    """Boards of the right dtype, range and size."""

    rows: Boards
    """uint8 (N, cells), one board each"""
    shape: tuple[int, ...]
    """The shape that they came in."""

    @property
    def lead(self) -> tuple[int, ...]:
        """The leading shape."""
        return self.shape[:-2]


def array_of(name: str, value: object) -> NDArray[Any]:
    """`value` as an array, whatever its dtype and shape."""
    try:
        return np.asarray(value)
    except ValueError as error:  # rows of different lengths
        raise InvalidArgument(f"{name} are not an array: {error}", field=name) from None


def check_boards(name: str, value: object, limit: int = _LARGEST) -> CheckedBoards:
    """Boards of any leading shape, their exponents at most `limit`."""
    array = array_of(name, value)
    if array.dtype.kind not in "iu":
        raise InvalidArgument(
            f"{name} have dtype {array.dtype}; expected integers (…, rows, columns)", field=name
        )
    if array.ndim < 2 or not all(2 <= side <= 8 for side in array.shape[-2:]):
        raise InvalidArgument(
            f"{name} have shape {array.shape}; expected (…, rows, columns), sides of 2 ... 8",
            field=name,
        )
    rows = array.reshape(-1, array.shape[-2] * array.shape[-1])
    # Before the cast: 256 would become 0.
    if array.size and (array.max() > limit or (array.dtype.kind == "i" and array.min() < 0)):
        _arguments.refuse_lane(name, rows, (rows < 0) | (rows > limit), f"exponents, 0 ... {limit}")
    return CheckedBoards(np.ascontiguousarray(rows, np.uint8), array.shape)


def check_actions(value: object, boards: CheckedBoards, name: str = "actions") -> NDArray[np.uint8]:
    """One action for each board, (N, 1)."""
    array = _arguments.integers(name, array_of(name, value), boards.lead).reshape(-1)
    _arguments.refuse_lane(name, array, (array < 0) | (array > 3), "0 ... 3")
    return array.astype(np.uint8)[:, np.newaxis]


def check_seeds(value: Any, boards: CheckedBoards) -> NDArray[np.uint64]:
    """One seed for each board, (N,)."""
    if np.ndim(value) == 0 and boards.lead:
        return consecutive(_arguments.integer("seeds", value, 0), len(boards.rows))
    array = _arguments.integers("seeds", array_of("seeds", value), boards.lead).reshape(-1)
    if array.dtype.kind == "i":
        _arguments.refuse_lane("seeds", array, array < 0, "0 ... 2^64 - 1")
    return array.astype(np.uint64)
