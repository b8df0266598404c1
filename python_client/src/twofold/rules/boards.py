"""Checks on boards, and functions that run in the client: chances, spawns and symmetries."""

from __future__ import annotations

import functools
import itertools
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twofold import _arguments
from twofold.envs.seeding import consecutive, seed_array
from twofold.errors import InvalidArgument

Boards = NDArray[np.uint8]
# The largest exponent of an observation.
_LARGEST = 31


class Symmetries(NamedTuple):
    """The images of boards under all rotations and reflections; the first is the board itself."""

    boards: Boards
    """uint8 (…, images, rows, columns): 8 images of a square board, 4 of another"""
    actions: NDArray[np.uint8]
    """uint8 (images, 4): actions[s, a] is the action on image s that matches action a"""


class Canonical(NamedTuple):
    """The canonical image of each board under rotations and reflections."""

    boards: Boards
    """uint8 (…, rows, columns): the image that comes first, cell by cell in row-major order"""
    images: NDArray[np.int64]
    """int64 (…): the number of that image in `symmetries`, the lowest if several are equal"""


class CheckedBoards(NamedTuple):
    """Boards whose dtype, range and size have been checked."""

    rows: Boards
    """uint8 (N, cells): a board in each row"""
    shape: tuple[int, ...]
    """The original shape."""

    @property
    def lead(self) -> tuple[int, ...]:
        """The shape without the last two axes, rows and columns."""
        return self.shape[:-2]


def check_boards(name: str, value: object, limit: int = _LARGEST) -> CheckedBoards:
    """Checks boards of any leading shape, with exponents up to `limit`. Returns the boards."""
    array = _arguments.array(name, value)
    if array.dtype.kind not in "iu":
        raise InvalidArgument(
            f"{name} have dtype {array.dtype}; expected integers (…, rows, columns)", field=name
        )
    if array.ndim < 2 or not all(2 <= side <= 8 for side in array.shape[-2:]):
        raise InvalidArgument(
            f"{name} have shape {array.shape}; expected (…, rows, columns) with sides of 2 ... 8",
            field=name,
        )
    rows = array.reshape(-1, array.shape[-2] * array.shape[-1])
    # The check precedes the cast, which would turn 256 into 0.
    if array.size and (array.max() > limit or (array.dtype.kind == "i" and array.min() < 0)):
        _arguments.refuse_lane(name, rows, (rows < 0) | (rows > limit), f"exponents, 0 ... {limit}")
    return CheckedBoards(np.ascontiguousarray(rows, np.uint8), array.shape)


def _one_each(name: str, value: object, boards: CheckedBoards) -> NDArray[np.integer[Any]]:
    """Returns `value` as one integer for each board, (N,)."""
    return _arguments.integers(name, value, boards.lead).reshape(-1)


def check_actions(value: object, boards: CheckedBoards, name: str = "actions") -> NDArray[np.uint8]:
    """Returns the checked actions, one for each board, (N, 1)."""
    array = _one_each(name, value, boards)
    _arguments.refuse_lane(name, array, (array < 0) | (array > 3), "0 ... 3")
    return array.astype(np.uint8)[:, np.newaxis]


def check_seeds(value: object, boards: CheckedBoards) -> NDArray[np.uint64]:
    """Returns the checked seeds, one for each board, (N,)."""
    if not isinstance(value, (list, tuple)) and _arguments.array("seeds", value).ndim == 0:
        return consecutive(_arguments.integer("seeds", value, 0), len(boards.rows))
    seeds = seed_array(value)
    if seeds.shape != boards.lead:
        raise InvalidArgument(
            f"seeds have shape {seeds.shape}; expected {boards.lead}", field="seeds"
        )
    return seeds.reshape(-1)


def chance(afterstates: ArrayLike, *, four_probability: float = 0.1) -> NDArray[np.float64]:
    """Returns the probability of each chance outcome, a 2 or a 4 in a random empty cell.

    Args:
        afterstates: Exponents, any integer dtype, (…, rows, columns).
        four_probability: The probability that a new tile is a 4, 0 ... 1.

    Returns:
        float64 (…, 2 * cells): entry `cell` for a 2 there, cells + `cell` for a 4. Each row sums
        to 1, or to 0 for a full board. The probability of a 4 is exactly round(p * 2^32) / 2^32, as
        in the engine.
    """
    checked = check_boards("afterstates", afterstates)
    four = np.floor(_arguments.probability(four_probability) * 2**32 + 0.5) / 2**32
    empty = (checked.rows == 0).astype(np.float64)
    each = empty / np.maximum(empty.sum(axis=1, keepdims=True), 1)
    both = np.concatenate([each * (1 - four), each * four], axis=1)
    return both.reshape(*checked.lead, both.shape[1])


def place(afterstates: ArrayLike, outcomes: ArrayLike) -> Boards:
    """Places the new tile of a chance outcome on each board.

    Args:
        afterstates: Exponents, any integer dtype, (…, rows, columns).
        outcomes: Integers (…): an empty cell for a 2, cells + an empty cell for a 4, -1 for none.

    Returns:
        uint8 (…, rows, columns).

    Raises:
        InvalidArgument: An argument is wrong, or an outcome's cell is not empty.
    """
    checked = check_boards("afterstates", afterstates)
    cells = checked.rows.shape[1]
    chosen = _one_each("outcomes", outcomes, checked)
    is_bad = (chosen < -1) | (chosen >= 2 * cells)
    _arguments.refuse_lane("outcomes", chosen, is_bad, f"-1 ... {2 * cells - 1}")
    row = np.flatnonzero(chosen != -1)
    cell = chosen[row].astype(np.int64) % cells
    is_taken = checked.rows[row, cell] != 0
    if is_taken.any():
        first = int(row[is_taken.argmax()])
        raise InvalidArgument(
            f"outcomes[{first}] is {chosen[first]}, whose cell {int(chosen[first]) % cells} is not "
            "empty; expected an empty cell, or -1",
            field="outcomes",
            lane=first,
        )
    placed: Boards = checked.rows.copy()
    placed[row, cell] = 1 + (chosen[row] >= cells)
    return placed.reshape(checked.shape)


def symmetries(boards: ArrayLike) -> Symmetries:
    """Returns the images of each board under all rotations and reflections that keep its shape.

    Sliding an image by its action in `actions` gives the image of the slid board:
    `move(images.boards[s], images.actions[s, a])` is image s of `move(board, a)`, with the same
    reward.

    Args:
        boards: Exponents, any integer dtype, (…, rows, columns).
    """
    checked = check_boards("boards", boards)
    places, actions = _symmetries(*checked.shape[-2:])
    images = checked.rows[:, places]
    return Symmetries(
        images.reshape(*checked.lead, len(places), *checked.shape[-2:]), actions.copy()
    )


def canonical(boards: ArrayLike) -> Canonical:
    """Returns each board's canonical image, the same for all its rotations and reflections.

    Canonical images can serve as keys of tables.

    Args:
        boards: Exponents, any integer dtype, (…, rows, columns).
    """
    checked = check_boards("boards", boards)
    places, _ = _symmetries(*checked.shape[-2:])
    images = checked.rows.take(places, axis=1)
    # As strings of bytes, images compare cell by cell.
    image = images.view(f"S{len(places[0])}")[:, :, 0].argmin(axis=1)
    chosen = images[np.arange(len(images)), image]
    return Canonical(chosen.reshape(checked.shape), image.astype(np.int64).reshape(checked.lead))


@functools.cache
def _symmetries(rows: int, columns: int) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Returns, for each image, the board cells that it shows and the image of each action."""
    cells = np.arange(rows * columns).reshape(rows, columns)
    images, actions = [], []
    for quarter, step in itertools.product(range(4), (1, -1)):
        image = np.rot90(cells, quarter)[:, ::step]
        if image.shape == cells.shape:
            images.append(image.ravel())
            # A quarter turn makes a move to the right one up. A reflection swaps left and right.
            actions.append((np.arange(4) - quarter) * step % 4)
    return np.stack(images), np.array(actions, np.uint8)
