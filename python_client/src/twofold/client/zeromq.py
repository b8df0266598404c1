"""Requests over ZeroMQ: a REQ socket, deadlines and retries."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import zmq
from google.protobuf.message import DecodeError
from numpy.typing import NDArray
from typing_extensions import override

from twofold import _arguments
from twofold.client.carrier import DONE, NO_PAYLOAD, Answer, Call, Carrier, Steps
from twofold.client.curve import CurveKeys, HandshakeWatch
from twofold.client.payloads import Buffer, BufferPool
from twofold.client.sockets import Socket
from twofold.client.surroundings import SYSTEM, Surroundings
from twofold.errors import (
    ClosedError,
    DeadlineExceeded,
    ProtocolError,
    RequestError,
    ResourceExhausted,
    TransportError,
)
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment

if TYPE_CHECKING:
    from twofold.client.private_server import PrivateServer

# Seconds between checks that the private server is alive.
_LIVENESS_INTERVAL = 0.1

# The lowest max_message_bytes of any server: every server accepts messages up to this size.
_ACCEPTED_BYTES = 512

# The reply to a successful step: a tag byte, eight bytes for seq, then bytes that are always equal.
_STEP_REPLY = envelope.Reply(seq=1, step=environment.StepReply()).SerializeToString()


class Backoff:
    """The time to wait for a reply before sending the request again.

    It starts at 20 ms or four round trips, whichever is longer, and doubles with each try. The
    maximum is one second, two round trips, or a quarter of the call's time so far, whichever is
    longest. A repeat loses a reply that has arrived only in part, so a slow connection needs long
    waits.
    """

    _round_trip = 0.0

    def seconds(self, tries: int, patience: float, elapsed: float) -> float:
        """Returns the next wait of a call.

        Args:
            tries: How often the call has repeated the request.
            patience: The minimum of the first wait, in seconds.
            elapsed: The seconds since the call began.
        """
        first = max(0.020, patience, 4 * self._round_trip)
        return min(first * 2.0 ** min(tries, 10), max(1.0, 2 * self._round_trip, elapsed / 4))

    def answered(self, seconds: float) -> None:
        """Updates the mean round trip with the time from the last try to its reply."""
        self._round_trip += (seconds - self._round_trip) / 8


class ZeroMQCarrier(Carrier):
    """A REQ socket to a server, replaced after any failure.

    After a failure, the carrier drops the socket and sends the same bytes over a new one; the
    server answers a repeated request with the stored reply. A deadline or a KeyboardInterrupt
    therefore leaves no partly read reply behind.

    Args:
        endpoint: A checked address.
        keys: Keys for an encrypted endpoint.
        server: The private server at this address.
        surroundings: The clock for deadlines and retries, and the function that connects sockets.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        keys: CurveKeys | None = None,
        server: PrivateServer | None = None,
        surroundings: Surroundings = SYSTEM,
    ) -> None:
        super().__init__(endpoint)
        self.server, self._surroundings = server, surroundings
        self._keys = keys
        self._socket: Socket | None = None
        self._handshakes = HandshakeWatch(endpoint, keys)
        # True from before a request is sent until its reply has arrived. If it is still true
        # after an interrupt, the next request needs another socket.
        self._is_under_way = False
        # The request that was sent ahead, until `exchange` asks for its reply.
        self._begun: Call | None = None
        # The number of the last request, and how often it was sent.
        self._sent = self._copies = 0
        self._backoff = Backoff()
        self._buffers = BufferPool()

    @property
    @override
    def is_dead(self) -> bool:
        return self.server is not None and not self.server.is_alive

    @property
    @override
    def was_repeated(self) -> bool:
        return self._copies > 1

    @override
    def pack(self, actions: NDArray[np.integer[Any]]) -> tuple[bytes, int]:
        # The wire has one byte for each action. The check precedes the cast, which would turn 256
        # into 0. As an unsigned number, a bad action exceeds 255, or 127 if its dtype is int8.
        numbers = actions.view(f"u{actions.itemsize}")
        most = 255 if actions.dtype != np.int8 else 127
        if numbers[numbers.argmax()] > most:
            _arguments.refuse_lane("actions", actions, numbers > most, "the number of an action")
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
        self.check_size(call, deadline)
        plain = _STEP_REPLY[:1] + seq.to_bytes(8, "little") + _STEP_REPLY[9:]
        return self.exchange(call, deadline, room, plain)

    @override
    def begin(self, call: Call) -> None:
        try:
            if self._send(call):
                self._begun = call
        except (zmq.ZMQError, TransportError):
            # Nothing is lost: `exchange` sends the request.
            self.close()

    def exchange(
        self, call: Call, deadline: float, room: Buffer | None = None, plain: bytes = b""
    ) -> Answer:
        """Sends one request, repeats it as necessary, and waits for its reply.

        `plain` is the encoded reply to a successful step. A reply with these bytes is not decoded.
        """
        began = sent = self._surroundings.now()
        tries = 0
        try:
            while True:
                was_sent = self._begun == call or self._send(call)
                answer, self._begun = None, None
                wait = self._backoff.seconds(tries, call.patience, sent - began)
                until = min(self._surroundings.now() + wait, deadline)
                if was_sent:
                    answer = self._receive(call, until, plain, room)
                else:
                    self._pause(until)
                now = self._surroundings.now()
                if answer is not None:
                    self._handshakes.succeeded()
                    self._backoff.answered(now - sent)
                    self._is_under_way = False
                    return answer
                self._handshakes.check(is_last=now >= deadline)
                if now >= deadline:
                    place = self.endpoint + self._handshakes.failure
                    if call.seq <= 1:
                        advice = "check that a server is running there"
                    elif call.slot == "rollout":
                        # A repeat of the rollout repeats only its first request.
                        advice = "the request stays pending, and the next call waits for its reply"
                    else:
                        advice = (
                            "the request stays pending, and repeating the call collects its reply"
                        )
                    raise DeadlineExceeded(
                        f"no reply to {call.slot} from {place} within the timeout; {advice}"
                    )
                tries += 1
                refusal = self._refuse_large(call, deadline)
                if refusal is not None:
                    return refusal
                sent = self._surroundings.now()
        except zmq.ZMQError as error:
            self.close()
            if error.errno != zmq.ENOTSOCK:
                raise
            raise ClosedError("this environment was closed during a call") from None
        except BaseException:
            self.close()
            raise

    def _refuse_large(self, call: Call, deadline: float) -> Answer | None:
        """Returns a refusal if an unanswered request is too large for the server that answers now.

        A server that has started since the last hello may have a lower limit. It closes the
        connection without an answer if a message is larger.
        """
        if max(len(call.request), len(call.payload or b"")) <= _ACCEPTED_BYTES:
            return None
        try:
            self.hello(deadline)
            self.check_size(call, deadline)
        except ResourceExhausted as error:
            # The previous server may have executed the request.
            self._copies += 1
            code = envelope.ERROR_CODE_RESOURCE_EXHAUSTED
            return envelope.Reply(error=envelope.Error(code=code, message=str(error))), NO_PAYLOAD
        except (RequestError, DeadlineExceeded):
            pass
        return None

    def close(self) -> None:
        """Closes the socket; the next exchange opens another."""
        self._begun = None
        socket, self._socket = self._socket, None
        self._handshakes.detach()
        if socket is not None:
            socket.close()

    def _open(self) -> Socket:
        connect = self._surroundings.connect
        socket = self._socket = connect(self.endpoint, self._keys, self._handshakes)
        self._receive_timeout = -1
        return socket

    def _send(self, call: Call) -> bool:
        """Sends a request; returns False if the connection is already lost.

        libzmq discards a connection if the server requires another kind of handshake. The socket
        can then send nothing more.
        """
        if self._is_under_way:
            self.close()
        self._is_under_way = True
        if call.seq:  # it belongs to a session
            self._copies = self._copies + 1 if call.seq == self._sent else 1
            self._sent = call.seq
        socket = self._socket or self._open()
        try:
            if call.payload is None:
                socket.send(call.request, zmq.DONTWAIT)
            else:
                socket.send(call.request, zmq.DONTWAIT | zmq.SNDMORE)
                socket.send(call.payload, zmq.DONTWAIT)
        except zmq.Again:
            return False
        return True

    def _pause(self, until: float) -> None:
        """Waits until the request may be sent again."""
        self._surroundings.sleep(max(0.0, until - self._surroundings.now()))

    def _receive(
        self, call: Call, until: float, plain: bytes, room: Buffer | None
    ) -> Answer | None:
        """Returns the reply to a request; None if it does not arrive in time."""
        socket = self._socket
        if socket is None:  # closed by a signal handler
            raise ClosedError("this environment was closed during a call")
        while (frame := self._receive_frame(socket, until - self._surroundings.now())) is None:
            if self.server is not None:
                self.server.check()
            if self._surroundings.now() >= until:
                return None
        has_payload = socket.get(zmq.RCVMORE)
        if has_payload and frame == plain:
            # Nearly every step gets this reply, which needs no decoding.
            return DONE, self._receive_payload(call, socket, room)
        try:
            reply = envelope.Reply.FromString(frame)
        except DecodeError:
            raise self._bad_reply(call, "a header that is not a twofold.v1.Reply") from None
        slot = reply.WhichOneof("result")
        # The server answers an unreadable request with seq 0. The payload of a reply to another
        # request stays unread, because the socket is dropped.
        if reply.seq != call.seq and not (slot == "error" and reply.seq == 0):
            self._pause(until)
            return None
        if slot not in (call.slot, "error"):
            raise self._bad_reply(call, f"a reply to {slot}")
        payload = self._receive_payload(call, socket, room) if has_payload else NO_PAYLOAD
        if slot == call.slot and payload.size < (call.reply_size or 0):
            raise self._bad_reply(call, "no payload")
        return reply, payload

    def _receive_payload(
        self, call: Call, socket: Socket, room: Buffer | None
    ) -> NDArray[np.uint8]:
        """Returns the payload that follows the last received header."""
        if call.reply_size is None:
            return np.frombuffer(socket.recv(), np.uint8)
        most = max(call.reply_size, call.reply_room)
        memory, _ = room or self._buffers.take(most)
        size = socket.recv_into(memory.data)
        # No reply has a third frame.
        if not call.reply_size <= size <= most or socket.get(zmq.RCVMORE):
            raise self._bad_reply(call, f"a payload of {size} bytes instead of {call.reply_size}")
        return memory[:size]

    def _bad_reply(self, call: Call, problem: str) -> ProtocolError:
        return ProtocolError(
            f"the answer to {call.slot} from {self.endpoint} has {problem}; "
            "check that a twofold server of this version listens there"
        )

    def _receive_frame(self, socket: Socket, wait: float) -> bytes | None:
        """Returns the next header; None after `wait` seconds or after the liveness interval."""
        milliseconds = math.ceil(max(0.0, min(wait, _LIVENESS_INTERVAL)) * 1000)
        if milliseconds != self._receive_timeout:
            socket.set(zmq.RCVTIMEO, milliseconds)
            self._receive_timeout = milliseconds
        try:
            return socket.recv()
        except zmq.Again:
            return None
