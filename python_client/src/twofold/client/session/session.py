"""One session: a number of boards, and the sequence of requests that drives them."""

from __future__ import annotations

import atexit
import contextlib
import enum
import functools
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, Literal, ParamSpec, Protocol, TypeVar

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from twofold.client import private_server
from twofold.client.buffers import Buffer, BufferPool
from twofold.client.carrier import DONE, NO_PAYLOAD, Answer, Call, Steps
from twofold.client.curve import CurveKeys
from twofold.client.endpoints import EMBEDDED, open_carrier, resolve
from twofold.client.session.journal import Done, Journal, Operation, part
from twofold.envs.seeding import BoardSeeds
from twofold.errors import (
    ClosedError,
    DeadlineExceeded,
    InvalidArgument,
    NotFound,
    OutOfSequence,
    RecoveryFailed,
    RequestError,
    ResourceExhausted,
    ServerDied,
    ShuttingDown,
    StepPending,
    add_note,
    from_reply,
)
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment

# How long a close may take; it says goodbye to a server that may be gone.
_CLOSE_DEADLINE = 1.0

_SNAPSHOT = Operation(
    "snapshot", envelope.Request(snapshot=environment.SnapshotRequest()).SerializeToString(), None
)
_CLOSE = Operation(
    "close", envelope.Request(close=environment.CloseRequest()).SerializeToString(), None
)

Slot = Literal[
    "reset",
    "observe",
    "afterstates",
    "snapshot",
    "restore",
    "keepalive",
    "rollout",
    "policy",
]

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


# Another one in a forked child: quicker to look at than the process's id.
_generation = object()


def _begin_generation() -> None:
    global _generation
    _generation = object()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_generation)


class Phase(enum.Enum):
    """Where a session's newest request is.

            send            reply               the call returns
    IDLE ────────► SENT ───────────► ANSWERED ──────────────────► IDLE
                     │ the call fails    │ the call fails
                     ▼                   ▼
                 UNANSWERED            UNSEEN      the same call again is SENT again;
                                                   another finishes UNANSWERED and drops UNSEEN,
                                                   or is refused by StepPending

    A refused request leaves IDLE, and boards that are gone leave LOST until they are made anew.
    After `step_async` the request is SENT, or UNSEEN where it is carried out already, until
    `step_wait` has returned.
    """

    IDLE = enum.auto()
    SENT = enum.auto()
    ANSWERED = enum.auto()
    UNANSWERED = enum.auto()
    UNSEEN = enum.auto()
    LOST = enum.auto()


# Names of a module are found faster than an enum's.
_IDLE, _SENT, _ANSWERED = Phase.IDLE, Phase.SENT, Phase.ANSWERED
_UNANSWERED, _UNSEEN, _LOST = Phase.UNANSWERED, Phase.UNSEEN, Phase.LOST

_State = tuple[Phase, int, "Operation | None"]
"""A phase, and the newest request's place in the session and what it is. It is set as a whole, so
that no interrupt comes between its parts."""

_Act = Callable[[Operation, int, float, "Buffer | None"], Answer]
"""What is done with an operation as the session's request of a number, until a deadline."""


class _HasSession(Protocol):
    @property
    def _session(self) -> Session: ...


def exactly_once(method: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """A method of an environment whose requests are one unit, and whose result is not lost.

    Other threads wait until it is done. Whatever interrupts it before it has returned, the same
    call again returns the same result; a KeyboardInterrupt gets a note that says what became of it.
    """
    return _guarded(method, is_wait=False)


def waiting(method: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """The same of the one method that is to be called after `step_async`."""
    return _guarded(method, is_wait=True)


def _guarded(method: Callable[Arguments, Result], *, is_wait: bool) -> Callable[Arguments, Result]:
    @functools.wraps(method)
    def guarded(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        owner: _HasSession = args[0]  # type: ignore[assignment]
        session = owner._session
        call = session.enter(is_wait)
        try:
            try:
                result = method(*args, **kwargs)
                session.returned = session.calls
                return result
            finally:
                session.leave()
        except BaseException as error:
            session.failed(call, error)
            raise

    return guarded


class Session:
    """Boards made by one create request; exactly once is kept here.

    A request that was sent and not answered, be it for a deadline or a KeyboardInterrupt, stays
    pending. The next call with the same bytes collects its reply; any other call finishes it first,
    but for steps and rollouts after a step, whose rewards would be lost.

    Args:
        create: What to make.
        endpoint: "embedded", "private", an address, or None for TWOFOLD_ENDPOINT and without it the
            first of these that can be had.
        curve: Keys for an encrypted endpoint.
        timeout: Seconds that each call may take.
        recover: Whether to make the boards anew where they are lost, on whatever server answers.
        resumed_id: The session to take over, in place of making one; `create` is then not used.

    Attributes:
        calls: How many calls there were; a rollout's `progress` may make some within it.
        returned: The number of the last one that has returned.
        spec: The reply to create: spaces and array layouts.
        create: The create request.
        server_version: What the service calls itself.
        network: The n-tuple network that the session has been given.
        seeds: Hears of each reset and restore that was carried out.
        rollouts: The memory of the last long rollout.
        inherited: The last reply of a session that was taken over, and its payload.
        was_reset: Whether a session that was taken over had been reset before.
    """

    def __init__(
        self,
        create: environment.CreateRequest,
        *,
        endpoint: str | None,
        curve: CurveKeys | None,
        timeout: float,
        recover: bool = False,
        resumed_id: bytes | None = None,
    ) -> None:
        self._timeout = timeout
        self._pid, self._generation = os.getpid(), _generation
        # Held by the thread that is in a call.
        self._lock = threading.RLock()
        self.create = create
        self.inherited: Answer | None = None
        self.was_reset = False
        self._last_seq = 0
        self._state: _State = (_IDLE, 0, None)
        # What the current call wants.
        self.calls = self.returned = 0
        self._wanted: Operation | None = None
        # The step that `step_wait` is to return, the call that made it, and its answer if there.
        self._awaited: tuple[Operation, int, Answer | None] | None = None
        self._is_open = False
        self.network: object = None
        self.seeds: BoardSeeds | None = None
        self.rollouts = BufferPool(capacity=2)

        deadline = time.monotonic() + timeout
        self._endpoint, self._curve = resolve(endpoint), curve
        self._carrier = open_carrier(self._endpoint, curve, deadline)
        self._journal = Journal() if recover and self._carrier.loses_sessions else None
        self._is_open = True
        try:
            if resumed_id is None:
                self.spec: environment.CreateReply = self._begin(deadline, self._run)
            else:
                self.spec = self._take_over(resumed_id, deadline)
        except BaseException:
            # A session that could not be taken over is somebody else's.
            self.close() if resumed_id is None else self.abandon()
            raise
        self.server_version = self._carrier.server_version
        _open_sessions.add(self)

    # ---- calls -----------------------------------------------------------------------------------

    def enter(self, is_wait: bool = False) -> int:
        """Begins a call, once no other thread is in one; its number.

        Args:
            is_wait: Whether it is `step_wait`.

        Raises:
            ClosedError: The session belongs to the process that this one was forked from.
            DeadlineExceeded: Another thread has been in a call for as long as calls may take.
            gymnasium.error.AlreadyPendingCallError: A step is under way.
            gymnasium.error.NoAsyncCallError: There is none to wait for.
        """
        # First, since nobody may be left here to release the lock.
        if self._generation is not _generation:
            raise ClosedError(
                f"this environment belongs to process {self._pid}, which this one was forked from; "
                "make environments after the fork"
            )
        if not self._lock.acquire(False) and not self._lock.acquire(timeout=self._timeout):
            raise DeadlineExceeded(
                f"another thread has been in a call of this environment for {self._timeout:.3g} s"
            )
        if self._state[0] is _ANSWERED:
            is_seen = self.returned == self.calls
            self._state = (_IDLE, 0, None) if is_seen else (_UNSEEN, *self._state[1:])
        if is_wait or self._awaited is not None:
            self._check_turn(is_wait)
        self.calls += 1
        self._wanted = None
        return self.calls

    def _check_turn(self, is_wait: bool) -> None:
        """Ends a call at once that comes before `step_wait`, or is one too many."""
        is_awaited = False
        if self._awaited is not None:
            # One that was refused, or whose result was returned, is no longer the newest request;
            # and the call that began it has to have returned.
            operation, begun, _ = self._awaited
            is_awaited = operation is self._state[2] and begun <= self.returned
        if not is_awaited:
            self._awaited = None
        if is_awaited is is_wait or not self._is_open:
            return
        self._lock.release()
        if is_wait:
            raise gym.error.NoAsyncCallError(
                "step_wait() returns the result of step_async(), which was not called before",
                "step",
            )
        raise gym.error.AlreadyPendingCallError(
            "a step is under way: step_wait() returns its result, and comes before every other "
            "call",
            "step",
        )

    def leave(self) -> None:
        """Ends the call that `enter` began."""
        self._lock.release()

    def failed(self, call: int, error: BaseException) -> None:
        """Keeps for another try what a call has got and not returned; notes it on an interrupt.

        Should this be interrupted, too, the next `enter` sees that the call has not returned.
        """
        if self.calls != call:
            # Another thread's call has begun meanwhile.
            return
        if self.returned == call:
            self.returned = call - 1
        phase, seq, operation = self._state
        if phase is _ANSWERED:
            self._state = (_UNSEEN, seq, operation)
        elif phase is _SENT:
            self._state = (_UNANSWERED, seq, operation)
        if not isinstance(error, KeyboardInterrupt) or hasattr(error, "__notes__"):
            return
        is_ours = operation is not None and operation is self._wanted
        if is_ours and phase is _ANSWERED:
            what = "was applied"
        elif is_ours and phase in (_SENT, _LOST):
            what = "was sent and has no answer yet; it is applied once, before anything else"
        else:
            add_note(error, "twofold: the interrupted call was not applied; nothing was sent.")
            return
        again, other = "The same call again", "any other goes on from there"
        if self._awaited is not None and self._awaited[0] is operation:
            other = "it comes before any other"
        elif operation is not None and operation.slot == "step":
            again += ", or collect(),"
        add_note(
            error, f"twofold: the interrupted call {what}. {again} returns its result; {other}."
        )

    def call(
        self,
        slot: Slot,
        request: envelope.Request,
        payload: bytes | None = None,
        reply_room: int = 0,
        into: Buffer | None = None,
    ) -> Answer:
        """Carries out one request; between `enter` and `leave`.

        Args:
            slot: The request's slot.
            request: The request without session, epoch and seq.
            payload: Its payload frame.
            reply_room: Bytes that the reply's payload has at most, where `spec` doesn't tell.
            into: Where the reply's payload goes, large enough for it; None for fresh memory.

        Returns:
            The reply, and its payload, (size,), which is empty where the reply has none.

        Raises:
            RequestError: The service refused; nothing has changed.
            TransportError: No answer; the request stays pending.
            ClosedError: The session is closed.
        """
        operation = Operation(slot, request.SerializeToString(), payload, reply_room)
        return self._call(operation, into, self._run)

    def step(self, actions: NDArray[np.integer[Any]], into: Buffer | None = None) -> Answer:
        """The same of a step of these actions (N,)."""
        payload, width = self._carrier.pack(actions)
        return self._call(Operation("step", b"", payload, 0, width), into, self._run)

    def step_async(self, actions: NDArray[np.integer[Any]], into: Buffer | None) -> None:
        """Begins such a step, and ends it too where nothing can be sent ahead."""
        payload, width = self._carrier.pack(actions)
        act = self._send if self._carrier.sends_ahead else self._run
        answer = self._call(Operation("step", b"", payload, 0, width), into, act)
        phase, seq, operation = self._state
        assert operation is not None
        is_done = phase is _ANSWERED
        if is_done:
            self._state = (_UNSEEN, seq, operation)
        self._awaited = operation, self.calls, answer if is_done else None

    def step_wait(self, into: Buffer | None) -> Answer:
        """What `step` would have returned; `into` has to be what `step_async` was given."""
        if not self._is_open:
            raise ClosedError("this environment is closed")
        assert self._awaited is not None
        operation, _, answer = self._awaited
        if answer is None:
            return self._call(operation, into, self._run)
        self._wanted = operation
        self._state = (_ANSWERED, *self._state[1:])
        return answer

    def collect(self, into: Buffer | None = None) -> Answer:
        """The reply to the newest step, if no call has returned it.

        Raises:
            gymnasium.error.NoAsyncCallError: There is none.
        """
        if self._is_open and not self.has_unreturned_step:
            raise gym.error.NoAsyncCallError("there is no step whose result is missing", "collect")
        operation = self._state[2]
        if operation is None:
            raise ClosedError("this environment is closed")
        return self._call(operation, into, self._run)

    @property
    def unreturned(self) -> Operation | None:
        """The newest request, if no call has returned its result."""
        phase, _, operation = self._state
        return None if phase is _IDLE or phase is _ANSWERED else operation

    @property
    def has_unreturned_step(self) -> bool:
        """Whether that is a step."""
        operation = self.unreturned
        return operation is not None and operation.slot == "step"

    def _call(self, operation: Operation, into: Buffer | None, act: _Act) -> Answer:
        if not self._is_open:
            raise ClosedError("this environment is closed")
        deadline = time.monotonic() + self._timeout
        self._wanted = operation
        while True:
            try:
                return self._carry_out(operation, deadline, into, act)
            except (RequestError, ServerDied) as error:
                if not self._loses_boards(error) or time.monotonic() >= deadline:
                    raise
                self._state = (_LOST, *self._state[1:])

    def begin(
        self, slot: Slot, request: envelope.Request, payload: bytes | None, reply_room: int
    ) -> None:
        """Sends a request ahead, so that the server carries it out meanwhile.

        It is pending then: `call` with the same arguments collects its reply, anything else waits
        until it is done.
        """
        if self._carrier.sends_ahead:
            operation = Operation(slot, request.SerializeToString(), payload, reply_room)
            self._send(operation, self._last_seq + 1)

    @property
    def token(self) -> str:
        """Where the session is, and its id: whoever has this can take it over.

        Raises:
            InvalidArgument: It is in this process, and ends with it.
        """
        if self._endpoint == EMBEDDED:
            raise InvalidArgument(
                "boards in this process can't be resumed by another and have no token: make them "
                "on a server, with endpoint=",
                field="endpoint",
            )
        return f"{self._carrier.endpoint}#{self._id.hex()}"

    @property
    def last_seq(self) -> int:
        """How many requests of this session were carried out, its create included."""
        return self._last_seq

    def again(self, create: environment.CreateRequest) -> Session:
        """Another session at the same place, of another create request; it recovers as this does.

        Raises:
            RequestError: The service refused.
            TransportError: No answer.
        """
        return Session(
            create,
            endpoint=self._endpoint,
            curve=self._curve,
            timeout=self._timeout,
            recover=self._journal is not None,
        )

    def keep_journal(self) -> None:
        """Has the boards of a session that was taken over made anew where they are lost.

        The journal begins with a snapshot. The next call takes it, and not this one: it would take
        the place of the last reply, which whoever resumes next may still need.
        """
        self._journal = Journal(is_complete=not self.was_reset)

    def close(self, timeout: float = _CLOSE_DEADLINE) -> None:
        """Ends the session; never raises for a server that is gone; twice is fine."""
        if not self._is_open or os.getpid() != self._pid:
            return
        self._is_open = False
        deadline = time.monotonic() + timeout
        if not self._lock.acquire(timeout=timeout):
            # Another thread goes on with its call; the server's idle timeout ends the session.
            return
        try:
            if self._state[0] is not _LOST and not self._carrier.is_dead:
                with contextlib.suppress(Exception):
                    self._finish_sent(deadline)
                    if self._last_seq:
                        self._transmit(_CLOSE, self._last_seq + 1, deadline)
        finally:
            self._carrier.close()
            self._lock.release()

    def abandon(self) -> None:
        """Lets go of the session without ending it."""
        self._is_open = False
        self._carrier.close()

    def __del__(self) -> None:
        # At interpreter exit anything may be half gone.
        with contextlib.suppress(Exception):
            self.close()

    # ---- the life of one request -----------------------------------------------------------------

    def _carry_out(
        self, operation: Operation, deadline: float, into: Buffer | None, act: _Act
    ) -> Answer:
        phase, seq, newest = self._state
        if phase is _LOST:
            self._recover(deadline)
            phase, seq, newest = self._state
        if phase is _IDLE or phase is _ANSWERED or newest != operation:
            if phase is not _IDLE:
                self._refuse_to_lose_a_step(operation)
                self._finish_sent(deadline)
            if self._journal is not None and self._journal.is_due:
                self._take_snapshot(self._journal, deadline)
            seq = self._last_seq + 1
        else:
            # The same bytes again are that request itself, and get its reply.
            self._wanted = operation = newest
        return act(operation, seq, deadline, into)

    def _take_snapshot(self, journal: Journal, deadline: float) -> None:
        """Lets a snapshot take the place of what was done so far."""
        try:
            _, blob = self._run(_SNAPSHOT, self._last_seq + 1, deadline)
        except RequestError as error:
            if self._loses_boards(error):
                raise
            # No memory for it now; the journal goes on, and the next call tries again.
            return
        if len(blob) > self.largest_payload(len(blob)):
            # It could not be brought back.
            journal.takes_snapshots = False
            return
        restore = environment.RestoreRequest(count=self.create.num_envs)
        request = envelope.Request(restore=restore).SerializeToString()
        journal.begin(Operation("restore", request, blob.tobytes()))

    def _finish_sent(self, deadline: float) -> None:
        """Has a request that was sent carried out, and its result dropped."""
        phase, seq, operation = self._state
        if (phase is _SENT or phase is _UNANSWERED) and operation is not None:
            try:
                self._run(operation, seq, deadline)
            except RequestError as error:
                # Whoever made the request has been told of a failure; what it was does not matter.
                if self._loses_boards(error):
                    raise

    def _refuse_to_lose_a_step(self, operation: Operation) -> None:
        """Raises StepPending for actions while nobody knows what came of others."""
        phase, _, newest = self._state
        is_unanswered = phase is _SENT or phase is _UNANSWERED
        if newest is None or newest.slot != "step" or not is_unanswered:
            return
        # A network is given for a rollout.
        if operation.slot in ("step", "rollout", "policy"):
            raise StepPending(
                "the last step got no answer yet, and its rewards would be lost: collect() returns "
                "its result, and discard() drops it"
            )

    def largest_payload(self, wanted: int) -> int:
        """As many bytes as are wanted for a payload, fewer where the service takes less."""
        limit = self._carrier.limits.max_message_bytes
        return limit // 8 * 8 if 0 < limit < wanted else wanted

    def _send(
        self, operation: Operation, seq: int, deadline: float = 0, into: Buffer | None = None
    ) -> Answer:
        """Sends an operation as the session's request of this number, and waits for nothing."""
        call = self._encode(operation, seq)
        self._state = (_SENT, seq, operation)
        self._carrier.begin(call)
        return DONE, NO_PAYLOAD

    def _run(
        self, operation: Operation, seq: int, deadline: float, into: Buffer | None = None
    ) -> Answer:
        """Carries an operation out as the session's request of this number."""
        self._state = (_SENT, seq, operation)
        try:
            answer = self._transmit(operation, seq, deadline, into)
        except RequestError as error:
            if not self._loses_boards(error):
                self._state = (_IDLE, 0, None)
            raise
        # In this order: an interrupt in between repeats a request that is answered already.
        if self.seeds is not None and operation.slot in ("reset", "restore"):
            self.seeds.done(operation, operation.payload)
        self._last_seq = seq
        if self._journal is not None:
            self._journal.add(operation, *answer)
        self._state = (_ANSWERED, seq, operation)
        return answer

    def _transmit(
        self, operation: Operation, seq: int, deadline: float, into: Buffer | None = None
    ) -> Answer:
        """Sends an operation and returns its reply; raises what is wrong with it."""
        while True:
            if operation.slot == "step":
                payload, width = operation.payload, operation.width
                assert payload is not None
                answer = self._carrier.step(self._steps, seq, payload, width, deadline, into)
                if answer[0] is DONE:
                    return answer
            else:
                answer = self._carrier.exchange(self._encode(operation, seq), deadline, into)
            if not answer[0].HasField("error"):
                return answer
            error = from_reply(answer[0].error)
            if not self._waits_for_another_server(error, deadline):
                raise error

    def _waits_for_another_server(self, error: RequestError, deadline: float) -> bool:
        """Whether the request can be sent again after a moment, which has passed then."""
        if not isinstance(error, ShuttingDown) or error.retry_after is None:
            return False
        if time.monotonic() + error.retry_after >= deadline:
            return False
        time.sleep(error.retry_after)
        return True

    def _encode(self, operation: Operation, seq: int) -> Call:
        # Protobuf allows fields in any order: the header is the same for all requests but for the
        # last eight bytes, and the operation stands behind it.
        slot, request, payload, room, _ = operation
        if payload is not None and slot == "step":
            call = self._steps.call(seq, payload)
        else:
            request = self._steps.header + seq.to_bytes(8, "little") + request
            call = Call(slot, seq, request, payload, self._reply_size(slot), room)
        self._carrier.check_size(call)
        return call

    # ---- beginning, and beginning anew -----------------------------------------------------------

    def _begin(
        self, deadline: float, carry_out: Callable[[Operation, int, float], Answer]
    ) -> environment.CreateReply:
        """Makes the boards, as a new session."""
        # Secret: whoever knows it can use the session.
        self._id = os.urandom(16)
        self._set_steps(1, environment.CreateReply())
        self._last_seq = 0
        self._carrier.hello(deadline)
        self.check_limits(self.create)
        create = envelope.Request(create=self.create).SerializeToString()
        reply, _ = carry_out(Operation("create", create, None), 1, deadline)
        self._last_seq = 1
        self._set_steps(reply.create.epoch, reply.create)
        return reply.create

    def _take_over(self, session_id: bytes, deadline: float) -> environment.CreateReply:
        """Takes the session over; whoever had it is shut out."""
        self._id = session_id
        self._carrier.hello(deadline)
        resume = environment.ResumeRequest(holder=os.urandom(16))
        request = envelope.Request(session=session_id, resume=resume).SerializeToString()
        reply, payload = self._carrier.exchange(Call("resume", 0, request, None, None), deadline)
        if reply.HasField("error"):
            raise from_reply(reply.error)
        self.create = reply.resume.create
        # Aligned and writable, as replies are.
        self.inherited = envelope.Reply.FromString(reply.resume.last_reply), payload.copy()
        self._last_seq = reply.resume.last_seq
        self.was_reset = reply.resume.was_reset
        self._set_steps(reply.resume.epoch, reply.resume.created)
        return reply.resume.created

    def _set_steps(self, epoch: int, spec: environment.CreateReply) -> None:
        header = envelope.Request(session=self._id, epoch=epoch, seq=2**64 - 1).SerializeToString()
        size = spec.step.size
        room = max(size, spec.finals.size)
        self._steps = Steps(self._id, epoch, header.removesuffix(b"\xff" * 8), size, room)

    def _loses_boards(self, error: Exception) -> bool:
        """Whether the boards are gone, and can be made anew."""
        if self._journal is None or not self._journal.is_complete or not self._is_open:
            return False
        is_unknown = isinstance(error, NotFound) and error.field == "session"
        return is_unknown or isinstance(error, (ServerDied, OutOfSequence))

    def _recover(self, deadline: float) -> None:
        """Makes the boards anew on whatever server answers, and plays them to where they were.

        May be interrupted, and is then begun again by the next call.
        """
        journal = self._journal
        assert journal is not None
        try:
            self._carrier.drop()
            if self._carrier.is_dead:
                dead, self._carrier = (
                    self._carrier,
                    open_carrier(self._endpoint, self._curve, deadline),
                )
                dead.close()
            spec = self._begin(deadline, self._transmit)
            if spec != self.spec:
                raise RecoveryFailed(
                    f"the session was lost, and the server at {self._carrier.endpoint} makes "
                    "other boards of the same arguments; is it of another version?"
                )
            for operation in journal.policy:
                self._repeat(operation, deadline)
            payload = None
            for done in journal.done:
                payload = self._play_again(done, deadline)
            if payload is not None and not journal.agrees(payload):
                raise RecoveryFailed(
                    f"the session was lost and played again at {self._carrier.endpoint}, and "
                    "came out different; is that server of another version?"
                )
        except RecoveryFailed:
            with contextlib.suppress(Exception):
                self._transmit(_CLOSE, self._last_seq + 1, deadline)
            raise
        unfinished = self._state[2]
        if unfinished is None:
            self._state = (_IDLE, 0, None)
        else:
            # One that was answered is the last that was played.
            is_new = not journal.ends_with(unfinished)
            self._state = (_UNANSWERED, self._last_seq + is_new, unfinished)

    def _play_again(self, done: Done, deadline: float) -> NDArray[np.uint8] | None:
        """Carries an operation out again; its reply's payload, None where it took several."""
        operation = done.operation
        if operation.slot != "rollout":
            return self._repeat(operation, deadline)[1]
        # Now the server may have time for fewer steps, and must not do more.
        start = 0
        while start < done.steps:
            again = part(operation, start, done.steps)
            reply, payload = self._repeat(again, deadline)
            start += reply.rollout.steps
        return payload if reply.rollout.steps == done.steps else None

    def _repeat(self, operation: Operation, deadline: float) -> Answer:
        """Carries out what was carried out in the session that was lost."""
        answer = self._transmit(operation, self._last_seq + 1, deadline)
        self._last_seq += 1
        return answer

    # ---- checks ----------------------------------------------------------------------------------

    def _reply_size(self, slot: str) -> int | None:
        if slot in ("reset", "observe", "restore"):
            return self.spec.reset.size
        if slot == "snapshot":
            return None
        return self.spec.afterstates.size if slot == "afterstates" else 0

    def check_limits(self, create: environment.CreateRequest) -> None:
        """Raises ResourceExhausted for more boards than the service allows."""
        limits = self._carrier.limits
        for name in ("max_boards_per_session", "max_boards"):
            limit = getattr(limits, name)
            if limit and create.num_envs > limit:
                raise ResourceExhausted(
                    f"num_envs is {create.num_envs}; the server at {self._carrier.endpoint} "
                    f"allows {name} = {limit}",
                    field="num_envs",
                )


_resumed: ContextVar[Session | None] = ContextVar("twofold_resumed_session", default=None)


@contextlib.contextmanager
def using(session: Session) -> Iterator[None]:
    """Within this, `open_session` returns a session that was taken over."""
    before = _resumed.set(session)
    try:
        yield
    finally:
        _resumed.reset(before)


def open_session(
    create: environment.CreateRequest,
    *,
    endpoint: str | None,
    curve: CurveKeys | None,
    timeout: float,
    recover: bool,
) -> Session:
    """A new session; or, within `using`, the one that is given there."""
    return _resumed.get() or Session(
        create, endpoint=endpoint, curve=curve, timeout=timeout, recover=recover
    )


_open_sessions: weakref.WeakSet[Session] = weakref.WeakSet()


def _close_at_exit() -> None:
    # First the private server, sessions and all; what is left is on servers that live on.
    private_server.stop_at_exit()
    deadline = time.monotonic() + _CLOSE_DEADLINE
    for session in list(_open_sessions):
        session.close(max(0.0, deadline - time.monotonic()))


atexit.register(_close_at_exit)
