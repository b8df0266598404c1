"""Memory of a server on the same machine, where large payloads are read in place of being sent."""

from __future__ import annotations

import mmap
import os
import sys

import numpy as np
from numpy.typing import NDArray

from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment

# A session's steps take turns between two, and so do its rollouts.
_CAPACITY = 4
# Where the payload begins; before it is the stamp.
_PAYLOAD = 64

# What opening memory raises that is not there, or not for this process.
UNREADABLE = (OSError, ValueError, OverflowError)


class ServerMemory:
    """What was opened of a server's memory; stays open while it is used.

    Memory is opened by its path under /proc, and only if that path has the name that the server
    tells: over a forwarded socket, or from another container, it would be another process's file.
    """

    def __init__(self) -> None:
        self._opened: dict[tuple[int, int, int], NDArray[np.uint8]] = {}

    def can_read(self, memory: environment.SharedMemory) -> bool:
        """Whether this process can open that memory."""
        try:
            _open(memory)
        except UNREADABLE:
            return False
        return True

    def copy(self, place: envelope.PayloadInMemory, payload: NDArray[np.uint8]) -> bool:
        """Copies a payload out of the server's memory; False when it is not there any more.

        Args:
            place: Where it is.
            payload: Where it goes; of its size.

        Raises:
            UNREADABLE: It can't be opened.
        """
        np.copyto(payload, self.view(place))
        return self.holds(place)

    def view(self, place: envelope.PayloadInMemory) -> NDArray[np.uint8]:
        """A payload where it lies, to read only; what was read counts if it `holds` afterwards.

        Raises:
            UNREADABLE: It can't be opened.
        """
        payload = self._memory(place.memory)[_PAYLOAD : _PAYLOAD + place.size]
        if payload.size != place.size:
            raise ValueError("the payload reaches beyond its memory")
        return payload

    def holds(self, place: envelope.PayloadInMemory) -> bool:
        """Whether a payload is still there, and was all the time.

        Raises:
            UNREADABLE: It can't be opened.
        """
        # The server changes this first.
        stamp = self._memory(place.memory)[:8]
        return int.from_bytes(stamp.tobytes(), "little") == place.stamp

    def close(self) -> None:
        """Lets go of everything: while it is open here, the system keeps it."""
        self._opened.clear()

    def _memory(self, memory: environment.SharedMemory) -> NDArray[np.uint8]:
        key = (memory.process, memory.descriptor, memory.name)
        opened = self._opened.get(key)
        if opened is None:
            opened = _open(memory)
            if len(self._opened) == _CAPACITY:
                del self._opened[next(iter(self._opened))]
            self._opened[key] = opened
        return opened


def _open(memory: environment.SharedMemory) -> NDArray[np.uint8]:
    path = f"/proc/{memory.process}/fd/{memory.descriptor}"
    name = f"/memfd:twofold-{memory.name:016x} (deleted)"
    if os.readlink(path) != name:
        raise FileNotFoundError(f"{path} is not {name}")
    # An object has the descriptor at any time, whenever an interrupt comes.
    with open(path, "rb", buffering=0) as file:
        if sys.version_info >= (3, 13):
            # Without another descriptor of its own.
            whole = mmap.mmap(
                file.fileno(), memory.size, mmap.MAP_SHARED, mmap.PROT_READ, trackfd=False
            )
        else:
            whole = mmap.mmap(file.fileno(), memory.size, mmap.MAP_SHARED, mmap.PROT_READ)
    return np.frombuffer(whole, np.uint8)
