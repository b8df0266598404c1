"""Converts boards to the forms of observations, and to tile values."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twofold import _arguments
from twofold.errors import InvalidArgument

FORMS = ("array", "one_hot", "one_hot_last", "flat")
"""The forms of observations that `formed` makes."""

_VALUES = np.array([0] + [2**exponent for exponent in range(1, 32)], np.int64)


def formed(
    boards: NDArray[Any], form: str, planes: int, out: NDArray[Any] | None = None
) -> NDArray[Any]:
    """Converts boards (K, …) to one of FORMS, (K, …), in `out` or in new memory.

    "array" returns the boards themselves, "one_hot" float32 planes before a board's axes,
    "one_hot_last" planes after them, and "flat" float32 (K, cells). The last one-hot plane also
    marks larger numbers, which occur only after a reset to given boards.
    """
    if form == "array":
        return boards
    if form == "flat":
        flat = boards.reshape(len(boards), -1)
        if out is None:
            return flat.astype(np.float32)
        np.copyto(out, flat)
        return out
    layout: Literal["chw", "hwc"] = "chw" if form == "one_hot" else "hwc"
    return one_hot(np.minimum(boards, planes - 1), planes, layout, out)


def one_hot(
    observations: ArrayLike,
    planes: int = 18,
    layout: Literal["chw", "hwc"] = "chw",
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Returns one plane of zeros and ones for each exponent, as input for convolutions.

    Plane 0 marks the empty cells, and plane k the tiles of value 2^k. 18 planes are enough for any
    4 x 4 board, whose highest tile is 131,072. In Concentration, plane k marks the symbol k.

    Args:
        observations: Exponents or symbols (…, rows, columns) of any integer dtype.
        planes: The number of planes, 1 ... 256.
        layout: "chw" for planes first, "hwc" for planes last.
        out: The array to write to, of any dtype; a new float32 array by default.

    Returns:
        (…, planes, rows, columns), or (…, rows, columns, planes); `out` if it is given.

    Raises:
        InvalidArgument: An exponent has no plane, or an argument is invalid; `field` names it.
    """
    boards = _integers(observations, 256, "(…, rows, columns)", dimensions=2)
    planes = _arguments.integer("planes", planes, 1, 256)
    if boards.size and int(boards.max()) >= planes:
        raise InvalidArgument(
            f"planes is {planes}; expected at least {int(boards.max()) + 1}, because observations "
            f"contain {boards.max()}",
            field="planes",
        )
    *batch, rows, columns = boards.shape
    is_first = _arguments.choice("layout", layout, ("chw", "hwc")) == "chw"
    shape = (*batch, planes, rows, columns) if is_first else (*batch, rows, columns, planes)
    if out is None:
        out = np.empty(shape, np.float32)
    elif not isinstance(out, np.ndarray) or not out.flags.writeable:
        kind = "read-only" if isinstance(out, np.ndarray) else f"a {type(out).__name__}"
        raise InvalidArgument(f"out is {kind}; expected a writable numpy array", field="out")
    elif out.shape != shape:
        raise InvalidArgument(f"out has shape {out.shape}; expected {shape}", field="out")
    if not is_first:
        # Without mode="clip", numpy would buffer `out`. No exponent is out of range.
        np.take(np.eye(planes, dtype=out.dtype), boards, axis=0, out=out, mode="clip")
        return out
    # Computing the index of each cell's 1 is five times as fast as a comparison per exponent.
    cells = rows * columns
    flat = boards.reshape(-1, cells).astype(np.intp) * cells
    flat += np.arange(0, flat.size * planes, cells * planes)[:, np.newaxis] + np.arange(cells)
    planar = out if out.flags.c_contiguous else np.empty(shape, out.dtype)
    planar.fill(0)
    planar.reshape(-1)[flat] = 1
    if planar is not out:
        np.copyto(out, planar)
    return out


def tile_values(observations: ArrayLike) -> NDArray[np.int64]:
    """Converts exponents to tile values: 3 becomes 8, and 0, an empty cell, stays 0.

    Args:
        observations: Exponents of any shape and integer dtype, 0 ... 31.

    Returns:
        int64 of the same shape.

    Raises:
        InvalidArgument: The observations are not integers, or are out of range.
    """
    boards = _integers(observations, len(_VALUES), "exponents")
    tiles: NDArray[np.int64] = _VALUES[boards]
    return tiles


def _integers(
    observations: ArrayLike, end: int, expected: str, dimensions: int = 0
) -> NDArray[np.integer[Any]]:
    """Returns the observations as integers in 0 ... end - 1."""
    boards = _arguments.array("observations", observations)
    if boards.dtype.kind not in "iu" or boards.ndim < dimensions:
        raise InvalidArgument(
            f"observations have dtype {boards.dtype} and shape {boards.shape}; expected integers, "
            f"{expected}",
            field="observations",
        )
    if boards.size and not (int(boards.min()) >= 0 and int(boards.max()) < end):
        raise InvalidArgument(
            f"observations contain {boards.min()} ... {boards.max()}; expected 0 ... {end - 1}",
            field="observations",
        )
    return boards
