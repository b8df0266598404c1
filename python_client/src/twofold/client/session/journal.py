"""The journal of a session: the operations that recreate its boards."""

from __future__ import annotations

import zlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from twofold.client.session.states import Operation
from twofold.errors import (
    NotFound,
    OutOfSequence,
    PermissionDenied,
    ServerDied,
    ShuttingDown,
)
from twofold.v1 import envelope_pb2 as envelope

# A snapshot is due after this many operations, or this many bytes of them.
_MAX_OPERATIONS = 1000
_MAX_BYTES = 64 << 20
# Bytes of a reply to compare after a recovery. Comparing the whole reply would cost more than a
# small step.
_COMPARED_BYTES = 4096

# Requests that change the boards or the session's network; a recovery skips the others.
_CHANGES = ("reset", "step", "restore", "rollout", "policy")


class Done(NamedTuple):
    """An executed operation in the journal."""

    operation: Operation
    steps: int = 0
    """The number of steps that a rollout executed; may be fewer than requested."""


class Journal:
    """The operations since the last snapshot, which fully determine the boards.

    Args:
        is_complete: Whether the boards are new. If not, a snapshot is due at once.

    Attributes:
        is_complete: Whether the operations can recreate the boards.
        done: The operations to execute on new boards, in order. The first may upload the session's
            network and restore a snapshot.
        takes_snapshots: Whether snapshots fit into the server's messages. If they do not, the
            journal keeps all operations.
    """

    def __init__(self, is_complete: bool = True) -> None:
        self.is_complete = is_complete
        self.takes_snapshots = True
        self.done: list[Done] = []
        # Replaying a search would take as long as the original search.
        self._has_search = False
        # The number and size of the operations since the journal began.
        self._count = self._bytes = 0
        # The checksum of the reply to the last operation, uploads excepted.
        self._mark: int | None = None

    @property
    def is_due(self) -> bool:
        """Whether a snapshot should replace the operations."""
        is_long = self._count >= _MAX_OPERATIONS or self._bytes >= _MAX_BYTES
        return self.takes_snapshots and (is_long or self._has_search or not self.is_complete)

    def begin(self, operation: Operation) -> None:
        """Restarts the journal with an operation that restores or resets all boards."""
        # The order matters: an interrupt in between must not leave another reply's checksum.
        self._mark = None
        self.done = [*self._network(), Done(operation)]
        self.is_complete = True
        self._has_search = False
        self._count = self._bytes = 0

    def _network(self) -> list[Done]:
        """Returns the operations that uploaded the session's network."""
        uploads = [one for one in self.done if one.operation.slot == "policy"]
        starts = [place for place, one in enumerate(uploads) if _begins_network(one.operation)]
        return uploads[starts[-1] :] if starts else []

    def add(self, operation: Operation, reply: envelope.Reply, payload: NDArray[np.uint8]) -> None:
        """Adds an executed operation with its reply and payload. Safe to call twice."""
        if operation.slot not in _CHANGES:
            return
        mark = self._mark if operation.slot == "policy" else _mark(payload)
        # The order matters: an interrupt in between must not leave another reply's checksum.
        self._mark = None
        if not self.ends_with(operation):
            if _begins_all_anew(operation):
                self.begin(operation)
            elif self.is_complete or operation.slot == "policy":
                self._has_search |= _is_search(operation)
                self.done.append(Done(operation, reply.rollout.steps))
                self._count += 1
                self._bytes += len(operation.payload or b"")
            else:
                return
        self._mark = mark

    def ends_with(self, operation: Operation) -> bool:
        """Returns True if the last operation is this very object, not just an equal one."""
        return bool(self.done) and self.done[-1].operation is operation

    def forget_rollout(self, operation: Operation) -> None:
        """Removes the last operation if it is this rollout, so that it can be requested again.

        Its replay may take other requests, so the last reply would not be the rollout's.
        """
        if operation.slot == "rollout" and self.ends_with(operation):
            # The order matters, as in `add`.
            self._mark = None
            self.done.pop()

    def agrees(self, payload: NDArray[np.uint8]) -> bool:
        """Returns True if the last operation, uploads excepted, got the same reply as before."""
        return self._mark is None or self._mark == _mark(payload)


def _begins_all_anew(operation: Operation) -> bool:
    """Returns True if the operation restores all boards, or resets all of them with seeds."""
    if operation.slot == "step":
        return False
    request = envelope.Request.FromString(operation.request)
    if operation.slot == "restore":
        return not request.restore.lanes
    return operation.slot == "reset" and request.reset.seeds and not request.reset.mask


def _begins_network(operation: Operation) -> bool:
    """Returns True if an upload's operation replaces the session's network."""
    return envelope.Request.FromString(operation.request).policy.HasField("network")


def _is_search(operation: Operation) -> bool:
    """Returns True if the operation is a rollout with a search, which takes a long time."""
    if operation.slot != "rollout":
        return False
    rollout = envelope.Request.FromString(operation.request).rollout
    return rollout.WhichOneof("source") in ("expectimax", "ntuple")


def part(operation: Operation, start: int, stop: int) -> Operation:
    """Returns the part of a rollout from step `start` up to, but not including, `stop`."""
    request = envelope.Request.FromString(operation.request)
    rollout, payload = request.rollout, operation.payload
    if rollout.HasField("actions"):
        assert payload is not None
        num_envs = len(payload) // rollout.steps
        payload = payload[start * num_envs : stop * num_envs]
    rollout.steps = stop - start
    return operation._replace(request=request.SerializeToString(), payload=payload)


def _mark(payload: NDArray[np.uint8]) -> int:
    """Returns a checksum of the size and the first bytes of a reply's payload."""
    return zlib.crc32(payload[:_COMPARED_BYTES].tobytes(), payload.size)


def loses_boards(error: Exception, journal: Journal | None) -> bool:
    """Returns True if an error means that the boards are lost and the journal can recreate them."""
    if journal is None or not journal.is_complete:
        return False
    is_unknown = isinstance(error, NotFound) and error.field == "session"
    return is_unknown or isinstance(error, (ServerDied, OutOfSequence))


PENDING = (PermissionDenied, ShuttingDown)
"""Refusals after which an earlier or later copy of the request may still be executed.

A stopping server refuses the request, but a duplicate of it may still reach the next server. A
server that no longer accepts the client's key refuses even repeats of executed requests.
"""


def leaves_open(error: Exception, journal: Journal | None) -> bool:
    """Returns True if the request that got this error may still be executed.

    If the boards are lost, the request is executed on the recreated boards.
    """
    return isinstance(error, PENDING) or loses_boards(error, journal)
