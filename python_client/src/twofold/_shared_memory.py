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
        # By its name, which is random.
        self._opened: dict[int, _Opened] = {}
        # And by how a header tells of it: the stamp of what is open, and the payload.
        self._known: dict[bytes, tuple[NDArray[np.uint64], NDArray[np.uint8]]] = {}

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
        opened = self._open(place.memory)
        np.copyto(payload, opened.first(place.size))
        return bool(opened.stamp[0] == place.stamp)

    def view(self, place: envelope.PayloadInMemory) -> NDArray[np.uint8]:
        """A payload where it lies, to read only; what was read counts if it `holds` afterwards.

        Raises:
            UNREADABLE: It can't be opened.
        """
        return self._open(place.memory).first(place.size)

    def holds(self, place: envelope.PayloadInMemory) -> bool:
        """Whether a payload is still there, and was all the time.

        Raises:
            UNREADABLE: It can't be opened.
        """
        return bool(self._open(place.memory).stamp[0] == place.stamp)

    def remember(self, words: bytes, place: envelope.PayloadInMemory) -> None:
        """From now on these words tell of that place, whatever its stamp is."""
        opened = self._open(place.memory)
        self._known[words] = opened.stamp, opened.first(place.size)

    def copy_known(
        self, words: bytes, stamp: bytes, room: NDArray[np.uint8]
    ) -> NDArray[np.uint8] | None:
        """Copies the payload that these words tell of; None where it is not known, or not there.

        Args:
            words: What was remembered.
            stamp: The eight bytes of the payload's stamp.
            room: Where it goes; returned as far as it was filled.
        """
        known = self._known.get(words)
        if known is None:
            return None
        its_stamp, its_payload = known
        payload = room if room.size == its_payload.size else room[: its_payload.size]
        np.copyto(payload, its_payload)
        return payload if its_stamp.tobytes() == stamp else None

    def close(self) -> None:
        """Lets go of everything: while it is open here, the system keeps it."""
        self._opened.clear()
        self._known.clear()

    def _open(self, memory: environment.SharedMemory) -> _Opened:
        opened = self._opened.get(memory.name)
        if opened is None:
            opened = _Opened(_open(memory))
            if len(self._opened) == _CAPACITY:
                del self._opened[next(iter(self._opened))]
                self._known.clear()
            self._opened[memory.name] = opened
        return opened


class _Opened:
    """One memory that was opened.

    Attributes:
        stamp: uint64 (1,): the server changes it before it writes a payload.
    """

    def __init__(self, memory: NDArray[np.uint8]) -> None:
        if memory.size < _PAYLOAD:
            raise ValueError("the memory has no room for its stamp")
        self.stamp = memory[:8].view("<u8")
        self._payload = memory[_PAYLOAD:]

    def first(self, size: int) -> NDArray[np.uint8]:
        """So many bytes of the payload."""
        payload = self._payload[:size]
        if payload.size != size:
            raise ValueError("the payload reaches beyond its memory")
        return payload


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
