"""One REQ socket to one server: requests and replies, deadlines and retries."""

from __future__ import annotations

import importlib.metadata
import math
import os
import re
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import zmq
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from twofold._buffers import BufferPool
from twofold._exceptions import (
    DeadlineExceeded,
    InvalidArgument,
    ProtocolError,
    ResourceExhausted,
    UnsupportedVersion,
    from_reply,
)
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment

PROTOCOL_VERSION = 1

# A request that is not answered is sent again after this long or four round trips, whichever is
# more, then after twice as long, and so on.
_FIRST_RETRY = 0.020
_LONGEST_RETRY = 1.0
# How often a wait looks whether the private server still lives.
_LIVENESS_INTERVAL = 0.1
# sun_path has 108 bytes with the closing zero.
LONGEST_IPC_PATH = 107

_TCP = re.compile(r"tcp://(\[[0-9a-fA-F:.%\w]+\]|[^\s:/\[\]]+):(\d{1,5})")


def check_address(endpoint: str) -> str:
    """The endpoint, if it is an address that a server can be reached at.

    Raises:
        InvalidArgument: It is not.
    """
    if endpoint.startswith("ipc://"):
        path = endpoint.removeprefix("ipc://")
        if not path:
            raise _bad_address(endpoint, "has no path")
        if len(os.fsencode(path)) > LONGEST_IPC_PATH:
            raise _bad_address(endpoint, f"has a path of more than {LONGEST_IPC_PATH} bytes")
        return endpoint
    match = _TCP.fullmatch(endpoint)
    if match is None:
        raise _bad_address(endpoint, "is not an address")
    if not 1 <= int(match[2]) <= 65535:
        raise _bad_address(endpoint, "has a port outside 1 ... 65535")
    if match[1] == "*":
        raise _bad_address(endpoint, "names no host")
    return endpoint


def _bad_address(endpoint: str, problem: str) -> InvalidArgument:
    return InvalidArgument(
        f"endpoint {endpoint!r} {problem}; expected tcp://host:port, ipc:///path, "
        'or "private" for a server of this process\'s own',
        field="endpoint",
    )


class Call(NamedTuple):
    """One request as it travels, and what its reply has to look like."""

    slot: str
    """The slot of `op`, and of the reply's `result`."""
    seq: int
    """The request's place in its session; 0 outside any."""
    request: bytes
    """The encoded Request."""
    payload: bytes | None = None
    """Its payload frame, if it has one."""
    reply_size: int = 0
    """Bytes in the reply's payload frame; 0 where it has none."""


class Connection:
    """A REQ socket, and the limits of the server behind it.

    A socket with a request under way is given up on the first trouble, and the request is sent
    again over a new one, byte for byte: the server answers a repeat with the stored reply. So a
    deadline or a KeyboardInterrupt leaves nothing half-read behind.

    Args:
        endpoint: A checked address.
        check_server: Raises when the server is known to be dead.
    """

    def __init__(self, endpoint: str, check_server: Callable[[], None] | None = None) -> None:
        self.endpoint = endpoint
        self.limits = environment.Limits()
        self._check_server = check_server
        self._socket: zmq.Socket[bytes] | None = None
        self._receive_timeout = -1
        self._round_trip = 0.0
        self._buffers = BufferPool()

    def hello(self, deadline: float) -> None:
        """Asks who is there, and learns the server's limits.

        Raises:
            UnsupportedVersion: The server speaks another version of the protocol.
        """
        request = envelope.Request(
            hello=environment.HelloRequest(
                protocol_version=PROTOCOL_VERSION,
                client=f"twofold-python {importlib.metadata.version('twofold')}",
            )
        )
        reply, _ = self.exchange(Call("hello", 0, request.SerializeToString()), deadline)
        if reply.HasField("error"):
            raise from_reply(reply.error)
        if reply.hello.protocol_version != PROTOCOL_VERSION:
            raise UnsupportedVersion(
                f"the server at {self.endpoint} speaks protocol version "
                f"{reply.hello.protocol_version}; this client speaks {PROTOCOL_VERSION}",
                field="protocol_version",
            )
        self.limits = reply.hello.limits

    def check_size(self, call: Call) -> None:
        """Raises ResourceExhausted for a request larger than the server accepts."""
        size = max(len(call.request), len(call.payload or b""))
        limit = self.limits.max_message_bytes
        if limit and size > limit:
            raise ResourceExhausted(
                f"{call.slot} needs a message of {size} bytes; the server at {self.endpoint} "
                f"accepts max_message_bytes = {limit}"
            )

    def exchange(self, call: Call, deadline: float) -> tuple[envelope.Reply, NDArray[np.uint8]]:
        """Sends one request, again where necessary, and waits for its reply.

        Args:
            call: The request.
            deadline: When to give up, on the clock of `time.monotonic`.

        Returns:
            The reply, which may be an error, and its payload in an array that nobody else has,
            aligned for every dtype; empty where there is none.

        Raises:
            DeadlineExceeded, ServerDied, ProtocolError: No usable reply.
        """
        started = time.monotonic()
        patience = min(max(_FIRST_RETRY, 4 * self._round_trip), _LONGEST_RETRY)
        try:
            while True:
                sent = time.monotonic()
                self._send(call)
                received = self._receive(call, min(sent + patience, deadline))
                now = time.monotonic()
                if received is not None:
                    # Counted from the last try, so that a lost reply does not make it longer.
                    self._round_trip += (now - sent - self._round_trip) / 8
                    return received
                if now >= deadline:
                    waited = f"{now - started:.3g} s"
                    advice = (
                        "the request stays pending, and the same call again collects its reply"
                        if call.seq > 1
                        else "is a server running there?"
                    )
                    raise DeadlineExceeded(
                        f"no reply to {call.slot} from {self.endpoint} after {waited}; {advice}"
                    )
                self.drop()
                patience = min(2 * patience, _LONGEST_RETRY)
        except BaseException:
            self.drop()
            raise

    def drop(self) -> None:
        """Closes the socket; the next exchange opens another."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _open(self) -> zmq.Socket[bytes]:
        socket = _context().socket(zmq.REQ)
        socket.linger = 0
        # A plain REQ would take a late reply to an earlier try for the answer to the next request.
        socket.set(zmq.REQ_CORRELATE, 1)
        if "[" in self.endpoint:
            socket.set(zmq.IPV6, 1)
        socket.connect(self.endpoint)
        self._socket = socket
        self._receive_timeout = -1
        return socket

    def _send(self, call: Call) -> None:
        socket = self._socket or self._open()
        if call.payload is None:
            socket.send(call.request, zmq.DONTWAIT)
        else:
            socket.send(call.request, zmq.DONTWAIT | zmq.SNDMORE)
            socket.send(call.payload, zmq.DONTWAIT)

    def _receive(self, call: Call, until: float) -> tuple[envelope.Reply, NDArray[np.uint8]] | None:
        """The reply; None when there is none in time."""
        socket = self._socket
        assert socket is not None
        while True:
            try:
                frame = self._receive_frame(socket, until - time.monotonic())
                break
            except zmq.Again:
                if self._check_server is not None:
                    self._check_server()
                if time.monotonic() >= until:
                    return None
        payload = np.empty(0, np.uint8)
        if socket.get(zmq.RCVMORE):
            payload = self._buffers.take(call.reply_size)
            size = socket.recv_into(payload.data)
            if size != call.reply_size or socket.get(zmq.RCVMORE):
                raise self._bad_reply(call, f"a payload of {size} bytes and not {call.reply_size}")
        try:
            reply = envelope.Reply.FromString(frame)
        except DecodeError:
            raise self._bad_reply(call, "no twofold.v1.Reply") from None
        slot = reply.WhichOneof("result")
        # A request that the server cannot read is answered with seq 0.
        if reply.seq != call.seq and not (slot == "error" and reply.seq == 0):
            time.sleep(max(0.0, until - time.monotonic()))
            return None
        if slot not in (call.slot, "error"):
            raise self._bad_reply(call, f"a reply to {slot}")
        if slot == call.slot and payload.size != call.reply_size:
            raise self._bad_reply(call, "no payload")
        return reply, payload

    def _bad_reply(self, call: Call, problem: str) -> ProtocolError:
        return ProtocolError(
            f"the answer to {call.slot} from {self.endpoint} has {problem}; "
            "is that a twofold server?"
        )

    def _receive_frame(self, socket: zmq.Socket[bytes], wait: float) -> bytes:
        """The next frame; zmq.Again after `wait` seconds or after the liveness interval."""
        milliseconds = math.ceil(max(0.0, min(wait, _LIVENESS_INTERVAL)) * 1000)
        if milliseconds != self._receive_timeout:
            socket.set(zmq.RCVTIMEO, milliseconds)
            self._receive_timeout = milliseconds
        return socket.recv()


_own_context: tuple[int, zmq.Context[zmq.Socket[bytes]]] | None = None


def _context() -> zmq.Context[zmq.Socket[bytes]]:
    """This process's ZeroMQ context; a forked child makes its own."""
    global _own_context
    pid = os.getpid()
    if _own_context is None or _own_context[0] != pid:
        _own_context = (pid, zmq.Context())
    return _own_context[1]
