"""What it takes to make a lost session anew: a snapshot, and everything that was done since."""

from __future__ import annotations

import zlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from twofold.client.session.states import Operation
from twofold.v1 import envelope_pb2 as envelope

# A snapshot is due after so many operations, or bytes of them.
_MOST_OPERATIONS = 1000
_MOST_BYTES = 64 << 20
# How much of a reply is compared after a recovery; all of it would cost more than a small step.
_COMPARED_BYTES = 4096

# Requests that change the boards; the others need not be made again.
_CHANGES = ("reset", "step", "restore", "rollout")


class Done(NamedTuple):
    """An operation that was carried out."""

    operation: Operation
    steps: int = 0
    """Of a rollout: how many steps it did, perhaps fewer than it was asked for."""


class Journal:
    """What was done since the last snapshot: a trajectory is a pure function of these.

    Args:
        is_complete: Whether nothing was done before it; otherwise it begins with a snapshot, which
            is due at once.

    Attributes:
        is_complete: Whether it has a beginning; without one there is nothing to make boards of.
        done: What to carry out on new boards, in this order; the first may bring a snapshot.
        policy: What gave the session its network, for rollouts; to carry out before.
        takes_snapshots: Not where the server would refuse them as too large a message: then all
            that was done is kept.
    """

    def __init__(self, is_complete: bool = True) -> None:
        self.is_complete = is_complete
        self.takes_snapshots = True
        self.done: list[Done] = []
        self.policy: list[Operation] = []
        # To search for the same actions again would take as long again.
        self._has_search = False
        self._bytes = 0
        # Of the reply to the last operation.
        self._mark: int | None = None

    @property
    def is_due(self) -> bool:
        """Whether a snapshot should take the place of the operations."""
        is_long = len(self.done) >= _MOST_OPERATIONS or self._bytes >= _MOST_BYTES
        return self.takes_snapshots and (is_long or self._has_search or not self.is_complete)

    def begin(self, operation: Operation) -> None:
        """This, which brings a snapshot or new boards, takes the place of everything before it."""
        # In this order: an interrupt in between leaves no mark of another reply.
        self._mark = None
        self.done = [Done(operation)]
        self.is_complete = True
        self._has_search = False
        self._bytes = 0

    def add(self, operation: Operation, reply: envelope.Reply, payload: NDArray[np.uint8]) -> None:
        """An operation that was carried out, its reply and the reply's payload; twice is once."""
        if operation.slot == "policy":
            self._add_policy(operation)
        if operation.slot not in _CHANGES:
            return
        # In this order: an interrupt in between leaves no mark of another reply.
        self._mark = None
        if not self.ends_with(operation):
            if _begins_all_anew(operation):
                self.begin(operation)
            elif self.is_complete:
                self._has_search |= is_search(operation)
                self.done.append(Done(operation, reply.rollout.steps))
                self._bytes += len(operation.payload or b"")
            else:
                return
        self._mark = mark(payload)

    def _add_policy(self, operation: Operation) -> None:
        if envelope.Request.FromString(operation.request).policy.HasField("network"):
            self.policy = []
        if not any(one is operation for one in self.policy):
            self.policy.append(operation)

    def ends_with(self, operation: Operation) -> bool:
        """Whether the last operation is this very one, and not one like it."""
        return bool(self.done) and self.done[-1].operation is operation

    def agrees(self, payload: NDArray[np.uint8]) -> bool:
        """Whether the last operation, made again, got the reply that it got the first time."""
        return self._mark is None or self._mark == mark(payload)


def _begins_all_anew(operation: Operation) -> bool:
    """Whether it doesn't matter what was before: all boards are new, or of a snapshot."""
    if operation.slot == "step":
        return False
    request = envelope.Request.FromString(operation.request)
    if operation.slot == "restore":
        return not request.restore.lanes
    return operation.slot == "reset" and request.reset.seeds and not request.reset.mask


def is_search(operation: Operation) -> bool:
    """Whether it is a rollout whose actions are searched for, which takes long."""
    if operation.slot != "rollout":
        return False
    rollout = envelope.Request.FromString(operation.request).rollout
    return rollout.WhichOneof("source") in ("expectimax", "ntuple")


def part(operation: Operation, start: int, stop: int) -> Operation:
    """The rollout of these steps of a rollout."""
    request = envelope.Request.FromString(operation.request)
    rollout, payload = request.rollout, operation.payload
    if rollout.HasField("actions"):
        assert payload is not None
        num_envs = len(payload) // rollout.steps
        payload = payload[start * num_envs : stop * num_envs]
    elif start:
        # The policy's streams go on.
        rollout.policy_seeds, payload = False, None
    rollout.steps = stop - start
    return operation._replace(request=request.SerializeToString(), payload=payload)


def mark(payload: NDArray[np.uint8]) -> int:
    """A number that tells replies apart."""
    return zlib.crc32(payload[:_COMPARED_BYTES].tobytes(), payload.size)
