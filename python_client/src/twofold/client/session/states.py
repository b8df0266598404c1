"""The states of a session's newest request, and the effect of each event.

            send             reply             the call returns
    Idle ────────► Sent ───────────► Answered ─────────────────► Idle
                     │ fails             │ fails
                     ▼        reply      ▼
                 Unanswered ─────────► Unseen

             step_async returns        reply         step_wait returns
    Sent ─────────────────────► Begun ───────► Held ──────────────────► Idle
    Carried ─────────────────────────────────────▲
    (an embedded service replies during step_async)

    Repeating the call leads from Unanswered or Unseen to Sent. Any other call first finishes an
    Unanswered request.
    Sent, Unanswered, Begun ── the boards are lost ──► Lost ── recreated ──► the state before
    A refused request leads to Idle, or to Unanswered after SHUTTING_DOWN or PERMISSION_DENIED.
    Closing leads to Closed, from any state.

Each event returns a new state, and a session replaces its state in one assignment, so no interrupt
can leave it half changed. States use no clock, carrier or lock.
"""

from __future__ import annotations

import dataclasses
import enum
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from typing_extensions import override

from twofold.client.carrier import Answer
from twofold.errors import ClosedError, StepPending
from twofold.v1 import envelope_pb2 as envelope

STEP_PENDING = (
    "the last step has no answer yet, and another step would lose its rewards: call collect(), "
    "which returns its result, or discard(), which drops it"
)
STEPS_REMAIN = "the completed steps of the rollout remain; any call continues from there."


class Operation(NamedTuple):
    """A request without its session, epoch and sequence number."""

    slot: str
    """The name of the field that is set in `op`."""
    request: bytes
    """The encoded Request with only its `op`."""
    payload: bytes | None
    """The request's payload frame; None if it has none."""
    reply_room: int = 0
    """The largest payload of the reply in bytes, if the session's layouts do not fix it."""
    width: int = 1
    """The number of bytes of an action in a step's payload, negative for a signed dtype."""

    @classmethod
    def of(
        cls, request: envelope.Request, payload: bytes | None = None, reply_room: int = 0
    ) -> Operation:
        """Encodes a request."""
        slot = request.WhichOneof("op")
        assert slot is not None
        return cls(slot, request.SerializeToString(), payload, reply_room)


class Task(enum.Enum):
    """The next task for an operation that does not repeat the newest request."""

    SEND = enum.auto()
    """Make the operation the next request."""
    FINISH = enum.auto()
    """Finish the newest request first and drop its result."""
    RECOVER = enum.auto()
    """Recreate the lost boards first."""


@dataclass(slots=True)
class State:
    """The base class of the states, which are never modified."""

    seq: int
    """The newest request's number in the session."""
    is_settled: ClassVar[bool] = False
    """Whether the next call may send its request immediately."""

    @property
    def is_awaited(self) -> bool:
        """Whether `step_wait` must precede any other call."""
        return False

    @property
    def unreturned(self) -> Operation | None:
        """The newest request, if no call has returned its result."""
        return None

    def wants(self, operation: Operation) -> Unanswered | Task:
        """Returns the state in which to request an operation's reply, or a task to do first.

        Raises:
            StepPending: A step has no answer yet, and the operation would lose its rewards.
            ClosedError: The session is closed.
        """
        return Task.SEND

    def returned(self) -> State:
        """Returns the state that follows when the call returns."""
        return self

    def left(self) -> State:
        """Returns the state that follows when the call fails or another call begins."""
        return self


@dataclass(slots=True)
class Idle(State):
    """The state when no request is in progress."""

    is_settled: ClassVar[bool] = True


@dataclass(slots=True)
class Closed(State):
    """The state after the session has ended."""

    @override
    def wants(self, operation: Operation) -> Unanswered | Task:
        raise ClosedError("this environment is closed")


@dataclass(slots=True)
class Unanswered(State):
    """An unanswered request. Its call has ended, except in subclasses that say otherwise."""

    operation: Operation

    @property
    @override
    def unreturned(self) -> Operation | None:
        return self.operation

    @override
    def wants(self, operation: Operation) -> Unanswered | Task:
        if operation == self.operation:
            return self.again()
        # A policy request uploads a network, which a rollout needs.
        if self.operation.slot == "step" and operation.slot in ("step", "rollout", "policy"):
            raise StepPending(STEP_PENDING)
        return Task.FINISH

    def again(self) -> Unanswered:
        """Returns the state after a call repeats the request."""
        return Sent(self.seq, self.operation)

    def answered(self, answer: Answer) -> State:
        """Returns the state after the reply arrives."""
        return Unseen(self.seq, self.operation)

    def refused(self) -> State:
        """Returns the state after a refusal. The next request has the refused request's number."""
        return Idle(self.seq - 1)

    def lost(self) -> Lost:
        """Returns the state after the service has lost the boards."""
        return Lost(self.seq, self.operation, self)


@dataclass(slots=True)
class Sent(Unanswered):
    """A request whose call waits for the reply."""

    @override
    def answered(self, answer: Answer) -> State:
        return Answered(self.seq, self.operation)

    @override
    def returned(self) -> State:
        return Begun(self.seq, self.operation)

    @override
    def left(self) -> State:
        return Unanswered(self.seq, self.operation)


@dataclass(slots=True)
class Begun(Unanswered):
    """A step that `step_async` has sent; that call has returned."""

    is_awaited = True

    @override
    def again(self) -> Unanswered:
        return self

    @override
    def answered(self, answer: Answer) -> State:
        return Held(self.seq, self.operation, answer)


@dataclass(slots=True)
class Lost(Unanswered):
    """A request whose boards are lost, and its state before the loss."""

    before: State

    @property
    @override
    def is_awaited(self) -> bool:
        return self.before.is_awaited

    @override
    def wants(self, operation: Operation) -> Unanswered | Task:
        return Task.RECOVER

    @override
    def left(self) -> State:
        return dataclasses.replace(self, before=self.before.left())

    @override
    def lost(self) -> Lost:
        return self

    def recovered(self, seq: int) -> State:
        """Returns the state after the recovery; `seq` is the newest request's new number."""
        return dataclasses.replace(self.before, seq=seq)


@dataclass(slots=True)
class Answered(State):
    """An executed request whose call has not returned."""

    operation: Operation

    @override
    def returned(self) -> State:
        return Idle(self.seq)

    @override
    def left(self) -> State:
        return Unseen(self.seq, self.operation)


@dataclass(slots=True)
class Unseen(State):
    """An executed request whose call failed before it returned the result."""

    operation: Operation

    @property
    @override
    def unreturned(self) -> Operation | None:
        return self.operation

    @override
    def wants(self, operation: Operation) -> Unanswered | Task:
        # A repeat gets the stored reply.
        is_same = operation == self.operation
        return Sent(self.seq, self.operation) if is_same else Task.SEND


@dataclass(slots=True)
class Carried(Answered):
    """A step whose answer arrived before `step_async` returned."""

    answer: Answer

    @override
    def returned(self) -> State:
        return Held(self.seq, self.operation, self.answer)


@dataclass(slots=True)
class Held(Unseen):
    """A step whose answer is ready for `step_wait`, after `step_async` has returned."""

    answer: Answer
    is_awaited = True

    @override
    def returned(self) -> State:
        return Idle(self.seq)


def note(before: State, after: State) -> str:
    """Returns text that states an interrupted call's outcome and the calls that may follow."""
    operation = after.unreturned
    if operation is None or (after == before and not after.is_awaited):
        return "the interrupted call was not applied; nothing was sent."
    what = "was applied"
    if isinstance(before, Unanswered):
        what = "was sent and has no answer yet; it is applied once, before anything else"
    again, other = "Repeating the call", "any other call continues from there"
    if after.is_awaited:
        other = "it must come before any other call"
    elif operation.slot == "step":
        again += ", or collect(),"
    return f"the interrupted call {what}. {again} returns its result; {other}."
