"""The carriers (transports) over which the test cases exchange bytes with a service."""

import abc
import enum
import time
from collections.abc import Callable
from typing import NamedTuple

import zmq
from servers import PATIENCE
from typing_extensions import override

from twofold import CurveKeys
from twofold.client.carrier import Call
from twofold.client.embedded import EmbeddedCarrier
from twofold.v1 import envelope_pb2 as envelope


class Answer(NamedTuple):
    """The encoded header and the payload of one reply."""

    header: bytes
    payload: bytes | None

    @property
    def reply(self) -> envelope.Reply:
        return envelope.Reply.FromString(self.header)

    @property
    def slot(self) -> str:
        """The name of the field that is set in the reply's `result`, such as "step" or "error"."""
        return self.reply.WhichOneof("result") or ""

    @property
    def error(self) -> envelope.Error:
        """The error in the reply; an empty error if the request was not refused."""
        return self.reply.error


class Ability(enum.Flag):
    """The optional abilities of a carrier, besides `exchange`.

    A test case that needs an ability is skipped on the carriers without this ability.
    """

    NOTHING_MORE = 0
    SEND_AHEAD = enum.auto()
    """Can send a request without waiting for its reply, while other connections are used."""
    ANY_FRAMES = enum.auto()
    """Can send any number of frames, including invalid ones."""
    RESUME = enum.auto()
    """Supports several clients, one of which can resume another client's session."""


IN_PROCESS = Ability.NOTHING_MORE
OVER_ZEROMQ = Ability.SEND_AHEAD | Ability.ANY_FRAMES | Ability.RESUME


class Connection(abc.ABC):
    """A connection to a service. Some methods require an ability of the carrier."""

    @abc.abstractmethod
    def exchange(self, header: bytes, payload: bytes | None = None) -> Answer:
        """Sends one request and returns its reply."""

    @abc.abstractmethod
    def close(self) -> None:
        """Ends the connection. Safe to call twice."""

    def send(self, header: bytes, payload: bytes | None = None) -> None:
        """Sends one request without waiting for its reply. Requires SEND_AHEAD."""
        self.send_frames(b"", header, *([] if payload is None else [payload]))

    def receive(self) -> Answer:
        """Waits for the next reply and returns it. Requires SEND_AHEAD."""
        delimiter, header, *payload = self.receive_frames()
        assert delimiter == b""
        assert len(payload) <= 1
        return Answer(header, payload[0] if payload else None)

    def send_frames(self, *frames: bytes) -> None:
        """Sends exactly these frames, without adding a delimiter. Requires ANY_FRAMES."""
        raise NotImplementedError

    def receive_frames(self) -> list[bytes]:
        """Waits for the next message and returns all its frames. Requires ANY_FRAMES."""
        raise NotImplementedError


class ZeroMQConnection(Connection):
    """A connection over a DEALER socket, which can send any message, even a malformed one."""

    def __init__(self, endpoint: str, keys: CurveKeys | None = None) -> None:
        self.socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        self.socket.set(zmq.LINGER, 0)
        self.socket.set(zmq.RCVTIMEO, int(PATIENCE * 1000))
        if keys is not None:
            self.socket.set(zmq.CURVE_SERVERKEY, keys.server_key.encode())
            self.socket.set(zmq.CURVE_PUBLICKEY, keys.public_key.encode())
            self.socket.set(zmq.CURVE_SECRETKEY, keys.secret_key.encode())
        self.socket.connect(endpoint)

    @override
    def exchange(self, header: bytes, payload: bytes | None = None) -> Answer:
        self.send(header, payload)
        return self.receive()

    @override
    def close(self) -> None:
        self.socket.close()

    @override
    def send_frames(self, *frames: bytes) -> None:
        self.socket.send_multipart(frames)

    @override
    def receive_frames(self) -> list[bytes]:
        return self.socket.recv_multipart()


class EmbeddedConnection(Connection):
    """A connection to the library in this process. Each call returns its reply."""

    def __init__(self) -> None:
        self._carrier = EmbeddedCarrier()

    @override
    def exchange(self, header: bytes, payload: bytes | None = None) -> Answer:
        call = Call("", 0, header, payload, reply_size=None)
        reply, array = self._carrier.exchange(call, time.monotonic() + PATIENCE)
        return Answer(reply.SerializeToString(), array.tobytes() or None)

    @override
    def close(self) -> None:
        self._carrier.close()


class Carrier(NamedTuple):
    """A service, and the abilities of the connections to it."""

    connect: Callable[[], Connection]
    """A function that opens a new connection."""
    abilities: Ability
