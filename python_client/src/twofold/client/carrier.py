"""What brings requests to a service and replies back, in this process or over ZeroMQ."""

from __future__ import annotations

import abc
import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from twofold.client.buffers import Buffer
from twofold.client.lookup import VERSION
from twofold.errors import ResourceExhausted, UnsupportedVersion, from_reply
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment

PROTOCOL_VERSION = 1

Answer = tuple[envelope.Reply, NDArray[np.uint8]]
"""A reply, which may be an error, and its payload, aligned for every dtype: an array that nobody
else has, or the first part of the one that the caller gave for it; empty where there is none."""

# The result of a request that was carried out and has nothing to tell besides its payload.
DONE = envelope.Reply()
NO_PAYLOAD = np.empty(0, np.uint8)

_STEP = envelope.Request(step=environment.StepRequest()).SerializeToString()


class Unavailable(Exception):
    """There is no library that this package can use; the text says why."""


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
    reply_room: int = 0
    """Bytes in the reply's payload frame, at most, where they are not always as many."""
    patience: float = 0.0
    """Seconds that go by at least before the request is sent again."""


class Steps(NamedTuple):
    """What the steps of a session have in common."""

    session: bytes
    """The session's id."""
    epoch: int
    header: bytes
    """The encoded Request up to the value of its seq."""
    size: int
    """Bytes of a reply's payload, at least."""
    room: int
    """And at most."""

    def call(self, seq: int, actions: bytes) -> Call:
        """The step of this number in its session, of actions of a byte each."""
        request = self.header + seq.to_bytes(8, "little") + _STEP
        return Call("step", seq, request, actions, self.size, self.room)


class Carrier(abc.ABC):
    """A way to a service, for one request at a time.

    Repeats are the caller's business: a request that got no answer, or whose answer was lost, is
    made again with the same bytes, and is carried out once.

    Args:
        endpoint: Where the service is.
        is_ours: Whether it belongs to this package, so that it should be of the same version.

    Attributes:
        endpoint: As given.
        limits: What the service accepts.
        server_version: What it calls itself.
        threads: How many it spreads a batch over.
        loses_sessions: Whether the service may be gone one day, its sessions with it.
        sends_ahead: Whether a request can be sent and its reply waited for later.
    """

    loses_sessions = True
    sends_ahead = True

    def __init__(self, endpoint: str, is_ours: bool) -> None:
        self.endpoint = endpoint
        self.limits = environment.Limits()
        self.server_version = ""
        self.threads = 1
        self._is_ours = is_ours

    @abc.abstractmethod
    def exchange(self, call: Call, deadline: float, room: Buffer | None = None) -> Answer:
        """Makes one request and waits for its reply.

        Args:
            call: The request.
            deadline: When to give up, on the clock of `time.monotonic`.
            room: Where the payload goes, large enough for it; None for memory of its own.

        Raises:
            TransportError: No usable reply.
        """

    @abc.abstractmethod
    def pack(self, actions: NDArray[np.integer[Any]]) -> tuple[bytes, int]:
        """Actions (N,) of any integer dtype as `step` takes them, and bytes for each of them.

        Raises:
            InvalidArgument: An action can't be told apart from another on the way; `lane` names it.
        """

    @abc.abstractmethod
    def step(
        self,
        steps: Steps,
        seq: int,
        actions: bytes,
        width: int,
        deadline: float,
        room: Buffer | None,
    ) -> Answer:
        """`exchange` of a step, of which there are many: `DONE` where there is nothing to add.

        The array may be longer than the payload.
        """

    @abc.abstractmethod
    def begin(self, call: Call) -> None:
        """Sends a request ahead; the next `exchange` has to be of the same, and gets its reply."""

    @abc.abstractmethod
    def drop(self) -> None:
        """Gives up what is under way; the next request begins anew."""

    @abc.abstractmethod
    def close(self) -> None:
        """Ends it; twice is fine."""

    @property
    def is_dead(self) -> bool:
        """Whether the service is known to be gone for good."""
        return False

    def hello(self, deadline: float) -> None:
        """Asks who is there, and learns the service's limits.

        Raises:
            UnsupportedVersion: It speaks another version of the protocol.
        """
        request = envelope.Request(
            hello=environment.HelloRequest(
                protocol_version=PROTOCOL_VERSION, client=f"twofold-python {VERSION}"
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
        self.threads = reply.hello.threads
        if self._is_ours and self.server_version != VERSION:
            warnings.warn(
                f"the twofold-server that was found is of version {self.server_version}, and this "
                f"package of {VERSION}: build it anew",
                RuntimeWarning,
                stacklevel=2,
            )

    def check_size(self, call: Call) -> None:
        """Raises ResourceExhausted for a request larger than the service accepts."""
        size = max(len(call.request), len(call.payload or b""))
        limit = self.limits.max_message_bytes
        if limit and size > limit:
            raise ResourceExhausted(
                f"{call.slot} needs a message of {size} bytes; the server at {self.endpoint} "
                f"accepts max_message_bytes = {limit}"
            )
