"""ZeroMQ sockets that are connected to a server."""

from __future__ import annotations

import contextlib
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

# With the first socket, libzmq starts two threads, which need four descriptors; the socket needs
# one. More threads are tried, because a thread that has just ended may still hold its stack.
_THREADS, _DESCRIPTORS = 4, 5


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
    _check_start()
    made = zmq.Context()
    made.set(zmq.MAX_SOCKETS, _MAX_SOCKETS)
    return made


def _check_start() -> None:
    """Checks that libzmq can start. Without its threads or descriptors, it would end the process.

    Raises:
        OSError: The process can't open more files.
        TransportError: The process can't start more threads.
    """
    gate = threading.Event()
    with contextlib.ExitStack() as opened:
        for _ in range(_DESCRIPTORS):
            opened.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        try:
            for _ in range(_THREADS):
                thread = threading.Thread(target=gate.wait, daemon=True)
                thread.start()
                opened.callback(thread.join)
                opened.callback(gate.set)
        except RuntimeError:
            raise TransportError(
                "can't start the threads of ZeroMQ: raise this process's limits (ulimit -u, "
                "ulimit -v, or pids.max of its container)"
            ) from None


def context() -> zmq.Context[zmq.Socket[bytes]]:
    """Returns this process's ZeroMQ context; a forked child makes its own."""
    return _context_of(os.getpid())
