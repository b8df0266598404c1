"""ZeroMQ sockets that are connected to a server."""

from __future__ import annotations

import errno
import functools
import os
import threading
from typing import Any, Protocol

import zmq

from twofold.client import system
from twofold.client.curve import CurveKeys, HandshakeWatch
from twofold.errors import TransportError

# A context allows 1,023 sockets by default, and an environment uses up to three of them. This
# number is high enough that the limit on open files is reached first.
_MAX_SOCKETS = 16_384

# The context needs one descriptor, and its two threads need four; on macOS, two and six. More
# threads are tried, because a thread that has just ended may still hold its stack.
_THREADS, _PIPES = 4, 4
# In bytes. Without memory for its first objects, a thread would never report that it has started.
_SPARE = 64 << 20


class Socket(Protocol):
    """The part of pyzmq's REQ sockets that this package uses."""

    def send(self, data: bytes, flags: int = ...) -> Any:
        """Sends a frame."""

    def recv(self) -> bytes:
        """Returns the next frame; raises zmq.Again if none arrives within RCVTIMEO."""

    def recv_into(self, buffer: Any) -> int:
        """Writes the next frame to a buffer; returns the frame's size, even if it doesn't fit."""

    def get(self, option: int) -> Any:
        """Returns the value of an option."""

    def set(self, option: int, value: int) -> None:
        """Sets an option."""

    def close(self) -> None:
        """Closes the socket and drops unsent messages."""


def connect(endpoint: str, keys: CurveKeys | None, watch: HandshakeWatch) -> Socket:
    """Starts connecting a REQ socket and returns it without waiting for the server.

    The caller must detach `watch`, the monitor of the socket's handshakes, before it closes the
    socket.

    Raises:
        TransportError: The process can't open more files, or start the threads of ZeroMQ.
    """
    try:
        return _connected(endpoint, keys, watch)
    except (zmq.ZMQError, OSError) as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
        raise TransportError(
            f"can't open a connection: {error.strerror}. Each environment at {endpoint} uses "
            "several files. Close environments after use, make one with more boards (num_envs), "
            "or raise the limit on open files (ulimit -n)"
        ) from None


def _connected(endpoint: str, keys: CurveKeys | None, watch: HandshakeWatch) -> zmq.Socket[bytes]:
    socket = context().socket(zmq.REQ)
    try:
        socket.linger = 0
        # A plain REQ would match a late reply to the next request.
        socket.set(zmq.REQ_CORRELATE, 1)
        if "[" in endpoint:
            socket.set(zmq.IPV6, 1)
        if keys is not None:
            socket.curve_serverkey = keys.server_key.encode()
            socket.curve_publickey = keys.public_key.encode()
            socket.curve_secretkey = keys.secret_key.encode()
        watch.attach(socket)
        # libzmq connects later, on its own thread. If no more files can be opened, it retries
        # forever.
        system.check_descriptors(socket.FD)
        socket.connect(endpoint)
        return socket
    except BaseException:
        watch.detach()
        socket.close()
        raise


@functools.cache
def _context_of(pid: int) -> zmq.Context[zmq.Socket[bytes]]:
    made = zmq.Context()
    made.set(zmq.MAX_SOCKETS, _MAX_SOCKETS)
    return made


# because: the check takes long enough for other threads to make a context of their own meanwhile.
@functools.cache
def _check_start(pid: int) -> None:
    """Checks that libzmq can start. Without its threads or descriptors, it would end the process.

    Raises:
        OSError: The process can't open more files.
        TransportError: The process can't start more threads.
    """
    gate = threading.Event()
    threads = [threading.Thread(target=gate.wait, daemon=True) for _ in range(_THREADS)]
    opened: list[int] = []
    try:
        for _ in range(_PIPES):
            opened += os.pipe()
        bytes(_SPARE)
        for thread in threads:
            thread.start()
    except (MemoryError, RuntimeError):
        raise TransportError(
            "can't start the threads of ZeroMQ: raise this process's limits (ulimit -u, "
            "ulimit -v, or pids.max of its container)"
        ) from None
    finally:
        gate.set()
        for thread in threads:
            if thread.ident is not None:
                thread.join()
        for descriptor in opened:
            os.close(descriptor)


def context() -> zmq.Context[zmq.Socket[bytes]]:
    """Returns this process's ZeroMQ context; a forked child makes its own."""
    pid = os.getpid()
    _check_start(pid)
    return _context_of(pid)
