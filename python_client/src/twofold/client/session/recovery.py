"""Lost boards made again: a journal played on whatever server answers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from twofold.client.carrier import Answer
from twofold.client.session.journal import Done, Journal, part
from twofold.client.session.link import CLOSE, Link
from twofold.client.session.states import Operation
from twofold.errors import NotFound, OutOfSequence, RecoveryFailed, RequestError, ServerDied
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment


def loses_boards(error: Exception, journal: Journal | None) -> bool:
    """Whether an error means that the boards are gone, and they can be made again."""
    if journal is None or not journal.is_complete:
        return False
    is_unknown = isinstance(error, NotFound) and error.field == "session"
    return is_unknown or isinstance(error, (ServerDied, OutOfSequence))


def begin_with_snapshot(
    journal: Journal, link: Link, num_envs: int, take: Callable[[], Answer]
) -> None:
    """Lets a snapshot of the boards, which `take` requests, replace the operations so far."""
    try:
        _, blob = take()
    except RequestError as error:
        if loses_boards(error, journal):
            raise
        # No memory for it now; the journal goes on, and the next call tries again.
        return
    if len(blob) > link.largest_payload(len(blob)):
        # It could not be sent back.
        journal.takes_snapshots = False
        return
    restore = environment.RestoreRequest(count=num_envs)
    request = envelope.Request(restore=restore).SerializeToString()
    journal.begin(Operation("restore", request, blob.tobytes()))


def make_again(
    link: Link,
    journal: Journal,
    create: environment.CreateRequest,
    spec: environment.CreateReply,
    deadline: float,
) -> int:
    """Makes lost boards again on whatever server answers, and plays them to where they were.

    Args:
        link: The lost session's; leads to the new one afterwards.
        journal: The operations to repeat.
        create: The create request of the boards.
        spec: The reply to it.
        deadline: When to give up.

    Returns:
        How many requests of the new session were carried out.

    Raises:
        RecoveryFailed: Other boards came out; they are closed again.
        RequestError, TransportError: A server refused, or did not answer.
    """
    link.reconnect(deadline)
    replay = _Replay(link, deadline)
    try:
        link.create(create, lambda operation: replay.repeat(operation)[0], deadline)
        if link.spec != spec:
            raise RecoveryFailed(
                f"the session was lost, and the server at {link.carrier.endpoint} makes other "
                "boards from the same arguments; is it of another version?"
            )
        for operation in journal.policy:
            replay.repeat(operation)
        payload = None
        for done in journal.done:
            payload = replay.play(done)
        if payload is not None and not journal.agrees(payload):
            raise RecoveryFailed(
                f"the session was lost and played again at {link.carrier.endpoint}, and came out "
                "different; is that server of another version?"
            )
    except RecoveryFailed:
        with contextlib.suppress(Exception):
            replay.repeat(CLOSE)
        raise
    return replay.last_seq


class _Replay:
    """The requests of a new session, one after another.

    Attributes:
        last_seq: How many were carried out.
    """

    def __init__(self, link: Link, deadline: float) -> None:
        self._link, self._deadline = link, deadline
        self.last_seq = 0

    def repeat(self, operation: Operation) -> Answer:
        """Carries out an operation of the lost session."""
        answer = self._link.transmit(operation, self.last_seq + 1, self._deadline)
        self.last_seq += 1
        return answer

    def play(self, done: Done) -> NDArray[np.uint8] | None:
        """Carries an operation out again; its reply's payload, None where it took several."""
        if done.operation.slot != "rollout":
            return self.repeat(done.operation)[1]
        # Now the server may have time for fewer steps, and must not do more.
        start = 0
        while start < done.steps:
            reply, payload = self.repeat(part(done.operation, start, done.steps))
            start += reply.rollout.steps
        return payload if reply.rollout.steps == done.steps else None
