"""Carriers, which exchange requests and replies with a service, in this process or over ZeroMQ."""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from twofold.client.lookup import VERSION
from twofold.client.payloads import Buffer
from twofold.client.surroundings import Surroundings
from twofold.errors import (
    RequestError,
    ResourceExhausted,
    ShuttingDown,
    UnsupportedVersion,
    from_reply,
)
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment

PROTOCOL_VERSION = 1

Answer = tuple[envelope.Reply, NDArray[np.uint8]]
"""A reply, which may be an error, and its payload, aligned for every dtype.

The payload is a new array, or the first part of the caller's array. It is empty if the reply has
no payload."""

# The reply to an executed request whose payload contains the whole result.
DONE = envelope.Reply()
NO_PAYLOAD = np.empty(0, np.uint8)

_STEP = envelope.Request(step=environment.StepRequest()).SerializeToString()


class Call(NamedTuple):
    """One request in encoded form, and the size of its reply."""

    slot: str
    """The name of the field that is set in the request's `op` and in the reply's `result`."""
    seq: int
    """The request's number in its session; 0 outside of sessions."""
    request: bytes
    """The encoded Request."""
    payload: bytes | None = None
    """The request's payload frame; None if it has none."""
    reply_size: int | None = 0
    """The minimum size of the reply's payload in bytes; 0 for no payload, None for any size."""
    reply_room: int = 0
    """The maximum size of the reply's payload in bytes, if the size varies."""
    patience: float = 0.0
    """The shortest wait in seconds before the request is sent again."""


class Steps(NamedTuple):
    """The part of a step request that all steps of a session share."""

    session: bytes
    """The session's id."""
    epoch: int
    header: bytes
    """The encoded Request up to the value of its seq."""
    size: int
    """The minimum size of a reply's payload in bytes."""
    room: int
    """The maximum size of a reply's payload in bytes."""

    def call(self, seq: int, actions: bytes) -> Call:
        """Returns step request number `seq` of the session. Each action takes one byte."""
        request = self.header + seq.to_bytes(8, "little") + _STEP
        return Call("step", seq, request, actions, self.size, self.room)


class Carrier(abc.ABC):
    """A connection to a service, for one request at a time.

    The caller repeats an unanswered request with the same bytes; the service executes it only once.

    Args:
        endpoint: The service's address, or "embedded".

    Attributes:
        endpoint: The argument `endpoint`.
        service: The service's last reply to a hello request: its version, limits and threads.
        is_remote: Whether the service is another process. Such a service may end before this
            process and lose its sessions. It executes requests sent with `begin` in the background.
    """

    is_remote = True

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.service = environment.HelloReply()

    @abc.abstractmethod
    def exchange(self, call: Call, deadline: float, room: Buffer | None = None) -> Answer:
        """Makes one request and waits for its reply.

        Args:
            call: The request.
            deadline: The time at which to give up, on the session's clock.
            room: A buffer large enough for the payload; None for new memory.

        Raises:
            TransportError: No usable reply arrived.
        """

    @abc.abstractmethod
    def pack(self, actions: NDArray[np.integer[Any]]) -> tuple[bytes, int]:
        """Returns actions (N,) as bytes for `step`, and their `Operation.width`.

        Args:
            actions: An array of any integer dtype, in this machine's byte order.

        Raises:
            InvalidArgument: An action does not fit into its bytes; `lane` names the board.
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
        """Plays a step and returns its reply: `DONE` if the payload contains all results.

        The returned array may be longer than the payload.
        """

    @abc.abstractmethod
    def begin(self, call: Call) -> None:
        """Sends a request without waiting. The next `exchange` must be for the same request."""

    @abc.abstractmethod
    def close(self) -> None:
        """Drops the request in progress and closes the connection. The next request reopens it."""

    @property
    def is_dead(self) -> bool:
        """Whether the service has ended permanently."""
        return False

    @property
    def was_repeated(self) -> bool:
        """Whether the last request was sent more than once."""
        return False

    def ask(self, call: Call, deadline: float) -> Answer:
        """Makes one request like `exchange`, but raises RequestError for an error reply."""
        answer = self.exchange(call, deadline)
        if answer[0].HasField("error"):
            raise from_reply(answer[0].error)
        return answer

    def hello(self, deadline: float) -> None:
        """Asks for the service's version and limits.

        Raises:
            UnsupportedVersion: The service uses a different protocol version.
        """
        request = envelope.Request(
            hello=environment.HelloRequest(
                protocol_version=PROTOCOL_VERSION, client=f"twofold-python {VERSION}"
            )
        )
        reply, _ = self.ask(Call("hello", 0, request.SerializeToString()), deadline)
        if reply.hello.protocol_version != PROTOCOL_VERSION:
            raise UnsupportedVersion(
                f"the server at {self.endpoint} has protocol version "
                f"{reply.hello.protocol_version}; this client has {PROTOCOL_VERSION}: install the "
                "same version of twofold on both sides",
                field="protocol_version",
            )
        self.service = reply.hello

    def check_size(self, call: Call, deadline: float) -> None:
        """Raises ResourceExhausted for a request larger than the service accepts.

        Asks for the limits again first, because a restarted server may have a higher one.
        """
        size = max(len(call.request), len(call.payload or b""))
        if not 0 < self.service.limits.max_message_bytes < size:
            return
        self.hello(deadline)
        limit = self.service.limits.max_message_bytes
        if 0 < limit < size:
            raise ResourceExhausted(
                f"{call.slot} needs a {size}-byte message; the server at {self.endpoint} "
                f"accepts max_message_bytes = {limit}: use fewer boards, or raise this limit"
            )


def await_next_server(error: RequestError, deadline: float, within: Surroundings) -> None:
    """Waits until a refused request may be repeated, because its server is stopping.

    Another server may replace that server. For any other refusal, or if the deadline is too close,
    raises the error.
    """
    wait = error.retry_after if isinstance(error, ShuttingDown) else None
    if wait is None or within.now() + wait >= deadline:
        raise error
    within.sleep(wait)
