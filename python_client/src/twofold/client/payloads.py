"""Payloads of replies: their memory, their arrays and their spaces."""

from __future__ import annotations

import functools
import math
import sys
from collections import deque
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from twofold.errors import ProtocolError
from twofold.v1 import environment_pb2 as environment

Buffer = tuple[NDArray[np.uint8], int]
"""An array of bytes, and its address."""


class BufferPool:
    """A pool of byte arrays. An array is reused once all views of it are gone.

    The operating system supplies large arrays page by page, and the first access to a page costs
    more than writing a step's results there. A view keeps a reference to its array, so an array
    that only the pool refers to is free for reuse.

    Args:
        capacity: The number of arrays to keep.
    """

    def __init__(self, capacity: int = 4) -> None:
        self._buffers = deque[Buffer](maxlen=capacity)

    def take(self, size: int) -> Buffer:
        """Returns an array of `size` bytes with arbitrary content, to which nothing else refers."""
        for buffer in self._buffers:
            if buffer[0].size == size and sys.getrefcount(buffer[0]) == _UNUSED:
                return buffer
        try:
            array = np.empty(size, np.uint8)
        except MemoryError:
            self._buffers.clear()  # they may be large, and unused
            buffer = np.empty(0, np.uint8), 0  # the loop's variable refers to the last of them
            array = np.empty(size, np.uint8)
        buffer = (array, array.ctypes.data)
        self._buffers.append(buffer)
        return buffer


def _count_unused() -> int:
    """Returns the result of `getrefcount` in `take` for an array that only the pool refers to.

    Interpreters count differently. An interpreter without a GIL may miscount, so the pool then
    never reuses an array.
    """
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return -1
    for buffer in [(np.empty(1, np.uint8), 0)]:
        return sys.getrefcount(buffer[0])
    raise AssertionError


_UNUSED = _count_unused()

DTYPES: dict[int, np.dtype[Any]] = {  # by the protocol's number
    environment.DATA_TYPE_BOOL: np.dtype(np.bool_),
    environment.DATA_TYPE_UINT8: np.dtype(np.uint8),
    environment.DATA_TYPE_INT8: np.dtype(np.int8),
    environment.DATA_TYPE_INT32: np.dtype("<i4"),
    environment.DATA_TYPE_FLOAT32: np.dtype("<f4"),
    environment.DATA_TYPE_UINT64: np.dtype("<u8"),
    environment.DATA_TYPE_FLOAT64: np.dtype("<f8"),
}


class Layout:
    """The positions of the arrays in the payload of one kind of reply.

    Args:
        wire: The server's description.
        needed: The names of the required arrays.

    Raises:
        ProtocolError: An array is missing, of an unknown dtype, or outside the payload.
    """

    def __init__(self, wire: environment.PayloadLayout, needed: tuple[str, ...]) -> None:
        self._names = [array.name for array in wire.arrays]
        for array in wire.arrays:
            # numpy checks this, too, but its numbers overflow at 2^31.
            if array.offset + math.prod(array.shape) * _dtype(array.dtype).itemsize > wire.size:
                raise ProtocolError(f"the server places {array.name!r} outside its payload")
        missing = set(needed) - set(self._names)
        if missing:
            raise ProtocolError(f"the server's replies have no {', '.join(sorted(missing))}")
        # The whole payload is one record: numpy extracts fields faster than it makes arrays.
        try:
            self._record = np.dtype(
                {
                    "names": self._names,
                    "formats": [(_dtype(array.dtype), tuple(array.shape)) for array in wire.arrays],
                    "offsets": [array.offset for array in wire.arrays],
                    "itemsize": wire.size,
                }
            )
        except (ValueError, OverflowError) as error:
            raise ProtocolError(f"the server describes an impossible layout: {error}") from None

    def split(self, payload: NDArray[np.uint8]) -> dict[str, NDArray[Any]]:
        """Returns the arrays by name, in the layout's order, as aligned and writable views."""
        record: Any = np.ndarray((), self._record, payload)
        return {name: record[name] for name in self._names}


@functools.lru_cache(maxsize=1000)
def layout_of(wire: bytes, needed: tuple[str, ...]) -> Layout:
    """Returns the layout with this encoded description. Many replies have the same layouts."""
    return Layout(environment.PayloadLayout.FromString(wire), needed)


def make_space(wire: environment.Space) -> gym.Space[Any]:
    """Returns the Gymnasium space that the server describes."""
    kind = wire.WhichOneof("kind")
    if kind == "box":
        dtype = _dtype(wire.box.dtype)
        return gym.spaces.Box(wire.box.low, wire.box.high, tuple(wire.box.shape), dtype.type)
    if kind == "discrete":
        return gym.spaces.Discrete(int(wire.discrete.n))
    raise ProtocolError(
        f"the server describes a space of kind {kind}, which this client does not know; install "
        "the server's version of twofold"
    )


def _dtype(wire: int) -> np.dtype[Any]:
    if wire not in DTYPES:
        raise ProtocolError(
            f"the server uses data type {wire}, which this client does not know; install the "
            "server's version of twofold"
        )
    return DTYPES[wire]
