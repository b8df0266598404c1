"""One connection to one server: requests and replies, deadlines and retries."""

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
import zmq.utils.monitor
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from twofold._buffers import BufferPool
from twofold._curve import CurveKeys
from twofold._exceptions import (
    AuthenticationFailed,
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

# A handshake that ends without a reason may be an accident; so many in a row are a wrong key.
_BROKEN_HANDSHAKES = 3
_HANDSHAKE_FAILURES = (
    zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
)

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


def check_curve(endpoint: str, curve: object) -> CurveKeys | None:
    """The keys for an endpoint: those given, or for tcp those that the environment variables name.

    Raises:
        InvalidArgument: These are no keys, or the endpoint takes none.
    """
    if curve is None:
        return CurveKeys.from_environment() if endpoint.startswith("tcp://") else None
    if not isinstance(curve, CurveKeys):
        raise InvalidArgument(
            f"curve is a {type(curve).__name__}; expected twofold.CurveKeys", field="curve"
        )
    if not endpoint.startswith("tcp://"):
        raise InvalidArgument(
            f"curve is for tcp endpoints; {endpoint!r} takes no keys", field="curve"
        )
    return curve


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
    reply_size: int | None = 0
    """Bytes in the reply's payload frame, at least; 0 where it has none, None for any number."""
    plain_reply: bytes = b""
    """The encoded Reply that only says that the request was carried out; empty: not known."""
    reply_room: int = 0
    """Bytes in the reply's payload frame, at most, where they are not always as many."""
    patience: float = 0.0
    """Seconds that go by at least before the request is sent again."""


class Connection:
    """A REQ socket, and what is known of the server.

    A socket with a request under way is given up on the first trouble, and the request is sent
    again over a new one, byte for byte: the server answers a repeat with the stored reply. So a
    deadline or a KeyboardInterrupt leaves nothing half-read behind.

    Args:
        endpoint: A checked address.
        check_server: Raises when the server is known to be dead.
        curve: Keys for an encrypted endpoint.

    Attributes:
        limits: What the server accepts.
        server_version: What it calls itself.
    """

    def __init__(
        self,
        endpoint: str,
        check_server: Callable[[], None] | None = None,
        curve: CurveKeys | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.limits = environment.Limits()
        self.server_version = ""
        self._check_server = check_server
        self._curve = curve
        self._socket: zmq.Socket[bytes] | None = None
        self._receive_timeout = -1
        # Tells of handshakes that failed, which libzmq does not; over tcp, where there are keys.
        self._monitor: zmq.Socket[bytes] | None = None
        self._broken_handshakes = 0
        # From before a request goes out until its reply is there: what an interrupt leaves is no
        # socket for the next request.
        self._is_under_way = False
        # The request that was sent ahead, and whose reply nobody has asked for yet.
        self._begun: Call | None = None
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
        self.server_version = reply.hello.server_version

    def check_size(self, call: Call) -> None:
        """Raises ResourceExhausted for a request larger than the server accepts."""
        size = max(len(call.request), len(call.payload or b""))
        limit = self.limits.max_message_bytes
        if limit and size > limit:
            raise ResourceExhausted(
                f"{call.slot} needs a message of {size} bytes; the server at {self.endpoint} "
                f"accepts max_message_bytes = {limit}"
            )

    def begin(self, call: Call) -> None:
        """Sends a request ahead; the next `exchange` has to be of the same, and gets its reply."""
        try:
            self._send(call)
            self._begun = call
        except zmq.ZMQError:
            # Nothing is lost: `exchange` sends it.
            self.drop()
        except BaseException:
            self.drop()
            raise

    def exchange(
        self,
        call: Call,
        deadline: float,
        prepare: Callable[[NDArray[np.uint8]], object] | None = None,
    ) -> tuple[envelope.Reply, NDArray[np.uint8]]:
        """Sends one request, again where necessary, and waits for its reply.

        Args:
            call: The request.
            deadline: When to give up, on the clock of `time.monotonic`.
            prepare: What to do while the server works, with the memory where the payload will be,
                or that it will be the first part of; may be called any number of times.

        Returns:
            The reply, which may be an error, and its payload in an array that nobody else has,
            aligned for every dtype; empty where there is none.

        Raises:
            DeadlineExceeded, ServerDied, ProtocolError: No usable reply.
            AuthenticationFailed: The server wants a key, or another one.
        """
        started = sent = time.monotonic()
        tries = 0
        try:
            while True:
                received = self._try_once(call, tries, deadline, prepare)
                now = time.monotonic()
                if received is not None:
                    self._broken_handshakes = 0
                    # Counted from the last try, so that a lost reply does not make it longer.
                    self._round_trip += (now - sent - self._round_trip) / 8
                    self._is_under_way = False
                    return received
                self._check_handshake(is_last=now >= deadline)
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
                tries += 1
                sent = time.monotonic()
        except BaseException:
            self.drop()
            raise

    def _try_once(
        self,
        call: Call,
        tries: int,
        deadline: float,
        prepare: Callable[[NDArray[np.uint8]], object] | None,
    ) -> tuple[envelope.Reply, NDArray[np.uint8]] | None:
        """Sends a request, unless that was done ahead, and waits for the reply; None: again."""
        if self._begun != call:
            self._send(call)
        self._begun = None
        room = None
        if prepare is not None:
            room = self._room(call)
            prepare(room)
        first = max(_FIRST_RETRY, call.patience, 4 * self._round_trip)
        longer = min(first * 2 ** min(tries, 10), _LONGEST_RETRY)
        return self._receive(call, min(time.monotonic() + longer, deadline), room)

    def drop(self) -> None:
        """Closes the socket; the next exchange opens another."""
        self._begun = None
        socket, self._socket = self._socket, None
        monitor, self._monitor = self._monitor, None
        if socket is not None:
            if monitor is not None:
                # In this order: libzmq waits for good for a reader of its events that has gone.
                socket.disable_monitor()
                monitor.close()
            socket.close()

    def _open(self) -> zmq.Socket[bytes]:
        socket = _context().socket(zmq.REQ)
        socket.linger = 0
        # A plain REQ would take a late reply to an earlier try for the answer to the next request.
        socket.set(zmq.REQ_CORRELATE, 1)
        if "[" in self.endpoint:
            socket.set(zmq.IPV6, 1)
        if self._curve is not None:
            socket.curve_serverkey = self._curve.server_key.encode()
            socket.curve_publickey = self._curve.public_key.encode()
            socket.curve_secretkey = self._curve.secret_key.encode()
        if self.endpoint.startswith("tcp://"):
            self._monitor = socket.get_monitor_socket(_HANDSHAKE_FAILURES)
        socket.connect(self.endpoint)
        self._socket = socket
        self._receive_timeout = -1
        return socket

    def _send(self, call: Call) -> None:
        if self._is_under_way:
            self.drop()
        self._is_under_way = True
        socket = self._socket or self._open()
        if call.payload is None:
            socket.send(call.request, zmq.DONTWAIT)
        else:
            socket.send(call.request, zmq.DONTWAIT | zmq.SNDMORE)
            socket.send(call.payload, zmq.DONTWAIT)

    def _receive(
        self, call: Call, until: float, room: NDArray[np.uint8] | None
    ) -> tuple[envelope.Reply, NDArray[np.uint8]] | None:
        """The reply; None when there is none in time.

        Args:
            call: What was sent.
            until: How long to wait, on the clock of `time.monotonic`.
            room: Where its payload goes; None for memory that is taken when it is there.
        """
        socket = self._socket
        assert socket is not None
        while True:
            frame = self._receive_frame(socket, until - time.monotonic())
            if frame is not None:
                break
            if self._check_server is not None:
                self._check_server()
            if time.monotonic() >= until:
                return None
        payload = _NO_PAYLOAD
        if socket.get(zmq.RCVMORE):
            payload = self._receive_payload(call, socket, room)
            if frame == call.plain_reply:
                # What nearly every step gets: nothing to decode.
                return _DONE, payload
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
        if slot == call.slot and payload.size < (call.reply_size or 0):
            raise self._bad_reply(call, "no payload")
        return reply, payload

    def _receive_payload(
        self, call: Call, socket: zmq.Socket[bytes], room: NDArray[np.uint8] | None
    ) -> NDArray[np.uint8]:
        """The payload behind the header that was received last."""
        if call.reply_size is None:
            return np.frombuffer(socket.recv(), np.uint8)
        payload = self._room(call, room)
        size = socket.recv_into(payload.data)
        # A third frame is none of ours.
        if not call.reply_size <= size <= payload.size or socket.get(zmq.RCVMORE):
            raise self._bad_reply(call, f"a payload of {size} bytes and not {call.reply_size}")
        return payload if size == payload.size else payload[:size]

    def _room(self, call: Call, taken: NDArray[np.uint8] | None = None) -> NDArray[np.uint8]:
        """Memory for a reply's payload, as long as it can be; what was taken for it, if any was."""
        if taken is not None:
            return taken
        return self._buffers.take(max(call.reply_size or 0, call.reply_room))

    def _check_handshake(self, is_last: bool) -> None:
        """Raises AuthenticationFailed when the server and this client don't accept each other.

        Args:
            is_last: There will be no other try.
        """
        while self._monitor is not None and self._monitor.poll(0):
            event = zmq.utils.monitor.recv_monitor_message(self._monitor)
            if event["event"] == zmq.EVENT_HANDSHAKE_FAILED_AUTH and event["value"] != 300:
                raise AuthenticationFailed(f"{self.endpoint} does not let in this client's key")
            if event["event"] == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL:
                raise AuthenticationFailed(
                    f"{self.endpoint} does not encrypt, or is no ZeroMQ endpoint at all"
                    if self._curve
                    else f"{self.endpoint} wants a key: pass curve=twofold.CurveKeys(…), "
                    "unless it is no ZeroMQ endpoint at all"
                )
            if event["event"] == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL and self._curve:
                self._broken_handshakes += 1
        # A server with another key hangs up without a word; so does one that is just ending.
        if self._broken_handshakes >= (1 if is_last else _BROKEN_HANDSHAKES):
            raise AuthenticationFailed(
                f"{self.endpoint} hangs up in the handshake: its key is not the given server_key, "
                "or it does not encrypt"
            )

    def _bad_reply(self, call: Call, problem: str) -> ProtocolError:
        return ProtocolError(
            f"the answer to {call.slot} from {self.endpoint} has {problem}; "
            "is that a twofold server?"
        )

    def _receive_frame(self, socket: zmq.Socket[bytes], wait: float) -> bytes | None:
        """The next header; None after `wait` seconds or after the liveness interval."""
        milliseconds = math.ceil(max(0.0, min(wait, _LIVENESS_INTERVAL)) * 1000)
        if milliseconds != self._receive_timeout:
            socket.set(zmq.RCVTIMEO, milliseconds)
            self._receive_timeout = milliseconds
        try:
            return socket.recv()
        except zmq.Again:
            return None


# The result of a request that was carried out and has nothing to tell besides its payload.
_DONE = envelope.Reply()
_NO_PAYLOAD = np.empty(0, np.uint8)


_own_context: tuple[int, zmq.Context[zmq.Socket[bytes]]] | None = None


def _context() -> zmq.Context[zmq.Socket[bytes]]:
    """This process's ZeroMQ context; a forked child makes its own."""
    global _own_context
    pid = os.getpid()
    if _own_context is None or _own_context[0] != pid:
        _own_context = (pid, zmq.Context())
    return _own_context[1]
