"""Requests over ZeroMQ: a REQ socket, deadlines and retries."""

from __future__ import annotations

import errno
import math
import os
import re
import resource
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import zmq
import zmq.utils.monitor
from google.protobuf.message import DecodeError
from numpy.typing import NDArray
from typing_extensions import override

from twofold import _arguments
from twofold.client.buffers import Buffer, BufferPool
from twofold.client.carrier import DONE, NO_PAYLOAD, Answer, Call, Carrier, Steps
from twofold.client.curve import CurveKeys
from twofold.errors import (
    AuthenticationFailed,
    DeadlineExceeded,
    InvalidArgument,
    ProtocolError,
    TransportError,
)
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment

if TYPE_CHECKING:
    from twofold.client.private_server import PrivateServer

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

# By default a context has 1,023 sockets, and an environment takes up to three of them: there should
# be so many that the process's open files are the limit.
_MOST_SOCKETS = 16_384

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
        '"private" for a server of this process\'s own, or "embedded" for this process itself',
        field="endpoint",
    )


class ZeroMQCarrier(Carrier):
    """A REQ socket, and what is known of the server.

    A socket with a request under way is given up on the first trouble, and the request is sent
    again over a new one, byte for byte: the server answers a repeat with the stored reply. So a
    deadline or a KeyboardInterrupt leaves nothing half-read behind.

    Args:
        endpoint: A checked address.
        curve: Keys for an encrypted endpoint.
        server: The private server that is there, which is released at the end.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        curve: CurveKeys | None = None,
        server: PrivateServer | None = None,
    ) -> None:
        super().__init__(endpoint, is_ours=server is not None)
        self.server = server
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

    @property
    @override
    def is_dead(self) -> bool:
        return self.server is not None and not self.server.is_alive

    @override
    def pack(self, actions: NDArray[np.integer[Any]]) -> tuple[bytes, int]:
        # A byte each on the wire. Before the cast, since 256 would become 0: as an unsigned number,
        # whatever does not fit is beyond 255, or -1 in a byte beyond 127.
        if not actions.dtype.isnative:
            actions = actions.astype(actions.dtype.newbyteorder("="))
        numbers = actions.view(f"u{actions.itemsize}")
        most = 255 if actions.dtype != np.int8 else 127
        if numbers[numbers.argmax()] > most:
            _arguments.refuse_lane("actions", actions, numbers > most, "an action's number")
        return numbers.astype(np.uint8).tobytes(), 1

    @override
    def step(
        self,
        steps: Steps,
        seq: int,
        actions: bytes,
        width: int,
        deadline: float,
        room: Buffer | None,
    ) -> Answer:
        call = steps.call(seq, actions)
        self.check_size(call)
        plain = _STEP_REPLY[:1] + seq.to_bytes(8, "little") + _STEP_REPLY[9:]
        return self._exchange(call, deadline, room, plain)

    @override
    def begin(self, call: Call) -> None:
        try:
            self._send(call)
            self._begun = call
        except (zmq.ZMQError, TransportError):
            # Nothing is lost: `exchange` sends it.
            self.drop()
        except BaseException:
            self.drop()
            raise

    @override
    def exchange(self, call: Call, deadline: float, room: Buffer | None = None) -> Answer:
        return self._exchange(call, deadline, room)

    def _exchange(
        self,
        call: Call,
        deadline: float,
        room: Buffer | None,
        plain: bytes = b"",
    ) -> Answer:
        """Sends one request, again where necessary, and waits for its reply.

        Args:
            call: The request.
            deadline: When to give up, on the clock of `time.monotonic`.
            room: Where the payload goes; None for memory of its own.
            plain: The encoded Reply that only says that it was carried out; empty: not known.
        """
        started = sent = time.monotonic()
        tries = 0
        try:
            while True:
                received = self._try_once(call, tries, deadline, room, plain)
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
        room: Buffer | None,
        plain: bytes,
    ) -> Answer | None:
        """Sends a request, unless that was done ahead, and waits for the reply; None: again."""
        if self._begun != call:
            self._send(call)
        self._begun = None
        first = max(_FIRST_RETRY, call.patience, 4 * self._round_trip)
        longer = min(first * 2 ** min(tries, 10), _LONGEST_RETRY)
        return self._receive(call, min(time.monotonic() + longer, deadline), plain, room)

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

    @override
    def close(self) -> None:
        self.drop()
        server, self.server = self.server, None
        if server is not None:
            server.release()

    def _open(self) -> zmq.Socket[bytes]:
        try:
            return self._connect(_context().socket(zmq.REQ))
        except (zmq.ZMQError, OSError) as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            raise TransportError(
                f"no more connections: {error.strerror}. Each environment at {self.endpoint} takes "
                f"several files, of which this process may have {limit:,} open. Close environments "
                "after use, have more boards in one (num_envs), or allow more files (ulimit -n)"
            ) from None

    def _connect(self, socket: zmq.Socket[bytes]) -> zmq.Socket[bytes]:
        self._socket = socket
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
        # libzmq connects later, in a thread of its own, and goes on trying where no file is left.
        os.close(os.dup(socket.FD))
        socket.connect(self.endpoint)
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
        self, call: Call, until: float, plain: bytes, room: Buffer | None
    ) -> Answer | None:
        """The reply; None when there is none in time.

        Args:
            call: What was sent.
            until: How long to wait, on the clock of `time.monotonic`.
            plain: What says that it was carried out, and nothing else.
            room: Where its payload goes; None for memory that is taken when it is there.
        """
        socket = self._socket
        assert socket is not None
        while True:
            frame = self._receive_frame(socket, until - time.monotonic())
            if frame is not None:
                break
            if self.server is not None:
                self.server.check()
            if time.monotonic() >= until:
                return None
        payload = NO_PAYLOAD
        if socket.get(zmq.RCVMORE):
            payload = self._receive_payload(call, socket, room)
            if frame == plain:
                # What nearly every step gets: nothing to decode.
                return DONE, payload
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
        self, call: Call, socket: zmq.Socket[bytes], room: Buffer | None
    ) -> NDArray[np.uint8]:
        """The payload behind the header that was received last."""
        if call.reply_size is None:
            return np.frombuffer(socket.recv(), np.uint8)
        most = max(call.reply_size, call.reply_room)
        memory, _ = room or self._buffers.take(most)
        size = socket.recv_into(memory.data)
        # A third frame is none of ours.
        if not call.reply_size <= size <= most or socket.get(zmq.RCVMORE):
            raise self._bad_reply(call, f"a payload of {size} bytes and not {call.reply_size}")
        return memory[:size]

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


# How a step that went well is answered: one byte of tag, the eight of seq, the rest.
_STEP_REPLY = envelope.Reply(seq=1, step=environment.StepReply()).SerializeToString()


_own_context: tuple[int, zmq.Context[zmq.Socket[bytes]]] | None = None


def _context() -> zmq.Context[zmq.Socket[bytes]]:
    """This process's ZeroMQ context; a forked child makes its own."""
    global _own_context
    pid = os.getpid()
    if _own_context is None or _own_context[0] != pid:
        _own_context = (pid, zmq.Context())
        _own_context[1].set(zmq.MAX_SOCKETS, _MOST_SOCKETS)
    return _own_context[1]
