"""What carries requests and replies: a ZeroMQ socket, or on one machine a direct connection."""

from __future__ import annotations

import math
import os
import select
import socket
import struct
from typing import Protocol

import numpy as np
import zmq
from numpy.typing import NDArray

# Bytes of a packet over a direct connection; what is larger goes over ZeroMQ.
_MAX_PACKET = 1 << 17
# Before the header: its size, and in the highest bit whether there is a payload.
_PREFIX = struct.Struct("<I")
_HAS_PAYLOAD = 1 << 31
# SO_PEERCRED: process, user and group.
_CREDENTIALS = struct.Struct("3i")


class ConnectionLost(Exception):
    """The other side has ended a direct connection; over ZeroMQ one never hears of that."""


class ReplyTooLarge(Exception):
    """The reply does not fit a packet; the same request over ZeroMQ gets it."""


class Carrier(Protocol):
    """A way to the server and back, for one request at a time.

    Attributes:
        is_reliable: Whether nothing is lost on the way but the whole connection, which is told.
    """

    is_reliable: bool

    def send(self, request: bytes, payload: bytes | None) -> None:
        """Sends one request; never waits.

        Raises:
            ConnectionLost: There is nobody any more.
            zmq.ZMQError: It can't be sent now.
        """

    def look(self) -> bytes | None:
        """The header of a reply that is there; None while there is none.

        Raises:
            ConnectionLost, ReplyTooLarge: There will be none.
        """

    def wait(self, seconds: float) -> bytes | None:
        """The same, waiting for so long."""

    def has_payload(self) -> bool:
        """Whether the reply whose header was received last has a payload."""

    def take_payload(self) -> NDArray[np.uint8]:
        """That payload, however large; to read only."""

    def take_payload_into(self, room: NDArray[np.uint8]) -> int:
        """Puts that payload there; its size, more than the room's when it did not fit."""

    def close(self) -> None:
        """Ends it; what is under way is lost."""


class ZeroMQCarrier:
    """A REQ socket.

    Args:
        socket: Connected, or about to be.
        is_monitored: Whether somebody has asked it for a monitor socket.
    """

    is_reliable = False

    def __init__(self, socket: zmq.Socket[bytes], is_monitored: bool) -> None:
        self._socket = socket
        self._is_monitored = is_monitored
        self._receive_timeout = -1

    def send(self, request: bytes, payload: bytes | None) -> None:
        if payload is None:
            self._socket.send(request, zmq.DONTWAIT)
        else:
            self._socket.send(request, zmq.DONTWAIT | zmq.SNDMORE)
            self._socket.send(payload, zmq.DONTWAIT)

    def look(self) -> bytes | None:
        try:
            return self._socket.recv(zmq.DONTWAIT)
        except zmq.Again:
            return None

    def wait(self, seconds: float) -> bytes | None:
        milliseconds = math.ceil(seconds * 1000)
        if milliseconds != self._receive_timeout:
            self._socket.set(zmq.RCVTIMEO, milliseconds)
            self._receive_timeout = milliseconds
        try:
            return self._socket.recv()
        except zmq.Again:
            return None

    def has_payload(self) -> bool:
        return bool(self._socket.get(zmq.RCVMORE))

    def take_payload(self) -> NDArray[np.uint8]:
        return np.frombuffer(self._socket.recv(), np.uint8)

    def take_payload_into(self, room: NDArray[np.uint8]) -> int:
        size = self._socket.recv_into(room.data)
        # A third frame is none of ours.
        return room.size + 1 if self._socket.get(zmq.RCVMORE) else size

    def close(self) -> None:
        if self._is_monitored:
            self._socket.disable_monitor()
        self._socket.close()


class DirectCarrier:
    """A connection to the Unix socket that a server has beside that of its ipc endpoint.

    A message through ZeroMQ wakes up two threads on each side; this is one on each side, and none
    while both look for what comes. (Sources/TwofoldServer/DirectListener.swift has the format.)

    Args:
        path: The endpoint's path.

    Raises:
        OSError: There is no such socket, or it is not of the user whose endpoint this is.
    """

    is_reliable = True

    def __init__(self, path: str) -> None:
        self._packet = bytearray(_MAX_PACKET)
        self._view = memoryview(self._packet)
        self._payload: memoryview | None = None
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._socket.setblocking(False)
            self._socket.connect(path + ".direct")
            credentials = self._socket.getsockopt(
                socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
            )
            if _CREDENTIALS.unpack(credentials)[1] != os.stat(path).st_uid:
                raise PermissionError("the socket beside the endpoint is somebody else's")
            self._poll = select.poll()
            self._poll.register(self._socket, select.POLLIN)
        except BaseException:
            self._socket.close()
            raise

    @staticmethod
    def fits(size: int) -> bool:
        """Whether a request of so many bytes, in header and payload, can be sent."""
        return size + _PREFIX.size <= _MAX_PACKET

    def send(self, request: bytes, payload: bytes | None) -> None:
        if payload is None:
            packet = _PREFIX.pack(len(request)) + request
        else:
            packet = _PREFIX.pack(len(request) | _HAS_PAYLOAD) + request + payload
        try:
            self._socket.send(packet)
        except OSError as error:
            raise ConnectionLost from error

    def look(self) -> bytes | None:
        # Faster than the exception of a socket that has nothing.
        return self._receive() if self._poll.poll(0) else None

    def _receive(self) -> bytes | None:
        try:
            size = self._socket.recv_into(self._packet)
        except BlockingIOError:
            return None
        except OSError as error:
            raise ConnectionLost from error
        if size < _PREFIX.size:
            raise ConnectionLost
        (prefix,) = _PREFIX.unpack_from(self._packet)
        if prefix == 0:
            raise ReplyTooLarge
        end = _PREFIX.size + (prefix & ~_HAS_PAYLOAD)
        if end > size:
            raise ConnectionLost
        self._payload = self._view[end:size] if prefix & _HAS_PAYLOAD else None
        return bytes(self._view[_PREFIX.size : end])

    def wait(self, seconds: float) -> bytes | None:
        return self._receive() if self._poll.poll(math.ceil(seconds * 1000)) else None

    def has_payload(self) -> bool:
        return self._payload is not None

    def take_payload(self) -> NDArray[np.uint8]:
        assert self._payload is not None
        return np.frombuffer(bytes(self._payload), np.uint8)

    def take_payload_into(self, room: NDArray[np.uint8]) -> int:
        assert self._payload is not None
        size = len(self._payload)
        if size <= room.size:
            room.data[:size] = self._payload
        return size

    def close(self) -> None:
        self._socket.close()
