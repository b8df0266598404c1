"""The newest request of a session: the states that it goes through, and what each event does.

            send             reply             the call returns
    Idle ────────► Sent ───────────► Answered ─────────────────► Idle
                     │ fails             │ fails
                     ▼        reply      ▼
                 Unanswered ─────────► Unseen

             step_async returns        reply         step_wait returns
    Sent ─────────────────────► Begun ───────► Held ──────────────────► Idle
    Carried ─────────────────────────────────────▲
    (in the process the reply comes with step_async)

    The same call again makes Unanswered and Unseen Sent; another one finishes Unanswered first.
    Sent, Unanswered, Begun ── the boards are gone ──► Lost ── made again ──► the state before
    A refused request leaves Idle. Closing ends in Closed, from any state.

Each event returns a new state, and a session replaces its state in one assignment: no interrupt
finds it half changed. States know no clock, no carrier and no lock.
"""

from __future__ import annotations

import dataclasses
import enum
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from typing_extensions import override

from twofold.client.carrier import Answer
from twofold.errors import ClosedError, StepPending

STEP_PENDING = (
    "the last step has no answer yet, and its rewards would be lost: collect() returns its result, "
    "and discard() drops it"
)


class Operation(NamedTuple):
    """A request without its place in a session."""

    slot: str
    """The slot of `op`."""
    request: bytes
    """The encoded Request with nothing but its `op`."""
    payload: bytes | None
    """Its payload frame, if it has one."""
    reply_room: int = 0
    """Largest payload of the reply in bytes, where the session's layouts don't say."""
    width: int = 1
    """Of a step: bytes of an action in the payload, negative for signed ones."""


class Task(enum.Enum):
    """What to do for an operation that is not the newest request."""

    SEND = enum.auto()
    """It becomes the next request."""
    FINISH = enum.auto()
    """The newest request is carried out first, and its result dropped."""
    RECOVER = enum.auto()
    """The lost boards are made again first."""


@dataclass(slots=True)
class State:
    """A state; never changed once it is made."""

    seq: int
    """The newest request's number in the session."""
    is_settled: ClassVar[bool] = False
    """Whether any call may come, and its request is the next one."""

    @property
    def is_awaited(self) -> bool:
        """Whether `step_wait` comes before any other call."""
        return False

    @property
    def unreturned(self) -> Operation | None:
        """The newest request, if no call has returned its result."""
        return None

    def wants(self, operation: Operation) -> Unanswered | Task:
        """A call wants an operation: the state to ask for its reply in, or what comes first.

        Raises:
            StepPending: A step has no answer yet, and its rewards would be lost.
            ClosedError: The session is closed.
        """
        return Task.SEND

    def returned(self) -> State:
        """The call returns."""
        return self

    def left(self) -> State:
        """The call fails, or gives way to another."""
        return self


@dataclass(slots=True)
class Idle(State):
    """The newest request, if there was one, is over."""

    is_settled: ClassVar[bool] = True


@dataclass(slots=True)
class Closed(State):
    """The session is over."""

    @override
    def wants(self, operation: Operation) -> Unanswered | Task:
        raise ClosedError("this environment is closed")


@dataclass(slots=True)
class Unanswered(State):
    """It has no answer yet. Of this very class: its call has failed, or it has no call."""

    operation: Operation

    @property
    @override
    def unreturned(self) -> Operation | None:
        return self.operation

    @override
    def wants(self, operation: Operation) -> Unanswered | Task:
        if operation == self.operation:
            return self.again()
        # A network is given for a rollout.
        if self.operation.slot == "step" and operation.slot in ("step", "rollout", "policy"):
            raise StepPending(STEP_PENDING)
        return Task.FINISH

    def again(self) -> Unanswered:
        """A call makes the same request again, and gets the reply."""
        return Sent(self.seq, self.operation)

    def answered(self, answer: Answer) -> State:
        """The reply is here."""
        return Unseen(self.seq, self.operation)

    def refused(self) -> State:
        """The service refuses the request, which uses up no number."""
        return Idle(self.seq - 1)

    def lost(self) -> Lost:
        """The service no longer has the boards."""
        return Lost(self.seq, self.operation, self)


@dataclass(slots=True)
class Sent(Unanswered):
    """A call has sent it, and waits."""

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
    """`step_async` has sent it and returned."""

    is_awaited = True

    @override
    def again(self) -> Unanswered:
        return self

    @override
    def answered(self, answer: Answer) -> State:
        return Held(self.seq, self.operation, answer)


@dataclass(slots=True)
class Lost(Unanswered):
    """The service no longer has the boards; the newest request was in this state before."""

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
        """The boards are made again, where the newest request has this number."""
        return dataclasses.replace(self.before, seq=seq)


@dataclass(slots=True)
class Answered(State):
    """It was carried out, in a call that has not returned."""

    operation: Operation

    @override
    def returned(self) -> State:
        return Idle(self.seq)

    @override
    def left(self) -> State:
        return Unseen(self.seq, self.operation)


@dataclass(slots=True)
class Unseen(State):
    """It was carried out, and its call failed before it had returned the result."""

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
    """`step_async` has the answer already, and has not returned."""

    answer: Answer

    @override
    def returned(self) -> State:
        return Held(self.seq, self.operation, self.answer)


@dataclass(slots=True)
class Held(Unseen):
    """`step_async` has returned, and the answer is here for `step_wait`."""

    answer: Answer
    is_awaited = True

    @override
    def returned(self) -> State:
        return Idle(self.seq)


def note(before: State, after: State) -> str:
    """What became of a call that an interrupt ended, and how to go on."""
    operation = after.unreturned
    if operation is None or (after == before and not after.is_awaited):
        return "the interrupted call was not applied; nothing was sent."
    what = "was applied"
    if isinstance(before, Unanswered):
        what = "was sent and has no answer yet; it is applied once, before anything else"
    again, other = "The same call again", "any other goes on from there"
    if after.is_awaited:
        other = "it comes before any other"
    elif operation.slot == "step":
        again += ", or collect(),"
    return f"the interrupted call {what}. {again} returns its result; {other}."
