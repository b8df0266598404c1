"""Memory for replies, used again as soon as no view of it is left."""

from __future__ import annotations

import sys

import numpy as np
from numpy.typing import NDArray

Buffer = tuple[NDArray[np.uint8], int]
"""An array of bytes, and its address."""


class BufferPool:
    """A few arrays of bytes, handed out again when all views of them are gone.

    Large arrays come from the system page by page, and the first touch of each page costs more than
    writing a step's results there. Views keep a reference to their array, so an array that only the
    pool refers to can't be seen from outside, and is as good as a fresh one.

    Args:
        capacity: Arrays that are kept.
    """

    def __init__(self, capacity: int = 4) -> None:
        self._capacity = capacity
        self._buffers: list[Buffer] = []

    def take(self, size: int) -> Buffer:
        """An array of `size` bytes without other references, its content arbitrary."""
        for buffer in self._buffers:
            if buffer[0].size == size and sys.getrefcount(buffer[0]) == _UNUSED:
                return buffer
        array = np.empty(size, np.uint8)
        buffer = (array, array.ctypes.data)
        if len(self._buffers) == self._capacity:
            del self._buffers[0]
        self._buffers.append(buffer)
        return buffer


def _count_unused() -> int:
    """What `getrefcount` returns in `take` for an array that only the pool refers to.

    Interpreters count differently. One without a global lock may miscount: there no array is used
    again.
    """
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return -1
    for buffer in [(np.empty(1, np.uint8), 0)]:
        return sys.getrefcount(buffer[0])
    raise AssertionError


_UNUSED = _count_unused()
