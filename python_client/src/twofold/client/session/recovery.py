"""Recovery of lost boards from a journal, on any server that answers."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from twofold.client.session.journal import Done, Journal, part
from twofold.client.session.link import CLOSE, Link
from twofold.client.session.states import Operation
from twofold.errors import Conflict, RecoveryFailed
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment


class _Progress(NamedTuple):
    """The progress of a recovery, replaced in one assignment so that no operation is repeated."""

    last_seq: int
    """The number of requests that the new session has executed."""
    operation: int = 0
    """The index of the next operation."""
    steps: int = 0
    """The number of a rollout's steps that have been replayed."""
    payload: NDArray[np.uint8] | None = None
    """The payload of the last operation, uploads excepted; None if it took several requests."""


class Recovery:
    """A recovery, which recreates lost boards in a new session and replays their operations.

    After an interrupt or a deadline it continues from the same place, in the same new session.

    Args:
        link: The lost session's link, which the recovery connects to the new session.
        journal: The operations to repeat.
        create: The request that created the boards.
        spec: The lost server's reply to that request.
    """

    def __init__(
        self,
        link: Link,
        journal: Journal,
        create: environment.CreateRequest,
        spec: environment.CreateReply,
    ) -> None:
        self._link, self._journal, self._create, self._spec = link, journal, create, spec
        self._id = link.new_id()
        self._operations = list(journal.done)
        self._progress = _Progress(0)

    def resume(self, deadline: float) -> int:
        """Makes the remaining requests.

        Args:
            deadline: The time at which to give up.

        Returns:
            The number of requests that the new session has executed.

        Raises:
            RecoveryFailed: The new boards differ from the lost ones.
            RequestError, TransportError: A server refused a request or did not answer.
        """
        self._link.reconnect(deadline)
        if self._progress.last_seq == 0:
            self._begin(deadline)
        while self._progress.operation < len(self._operations):
            self._play(self._operations[self._progress.operation], deadline)
        payload = self._progress.payload
        if payload is not None and not self._journal.agrees(payload):
            self._fail("and its replay at {} gave different results")
        return self._progress.last_seq

    def close(self, deadline: float) -> None:
        """Ends the new session, if a server answers."""
        seq = max(self._progress.last_seq, 1) + 1
        with contextlib.suppress(Exception):
            try:
                self._link.transmit(CLOSE, seq, deadline)
            except Conflict:
                # The request in progress was executed.
                self._link.transmit(CLOSE, seq + 1, deadline)

    def _begin(self, deadline: float) -> None:
        def execute(operation: Operation) -> envelope.Reply:
            return self._link.transmit(operation, 1, deadline)[0]

        self._link.create(self._create, execute, deadline, self._id)
        if self._link.spec != self._spec:
            self._fail("and the server at {} makes other boards from the same arguments")
        self._progress = _Progress(1)

    def _play(self, done: Done, deadline: float) -> None:
        """Makes one request for an operation; a rollout may take several."""
        seq, place, steps, last = self._progress
        seq += 1
        if done.operation.slot != "rollout":
            _, payload = self._link.transmit(done.operation, seq, deadline)
            is_upload = done.operation.slot == "policy"
            self._progress = _Progress(seq, place + 1, 0, last if is_upload else payload)
            return
        # The server may now have time for fewer steps. It must not execute more.
        operation = part(done.operation, steps, done.steps)
        reply, payload = self._link.transmit(operation, seq, deadline)
        steps += reply.rollout.steps
        if steps < done.steps:
            self._progress = _Progress(seq, place, steps)
            return
        is_whole = reply.rollout.steps == done.steps
        self._progress = _Progress(seq, place + 1, 0, payload if is_whole else None)

    def _fail(self, problem: str) -> None:
        place = problem.format(self._link.carrier.endpoint)
        raise RecoveryFailed(
            f"the session was lost, {place}; use a server of the same version as the first one"
        )
