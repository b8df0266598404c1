"""One session: a number of boards on a server, and the sequence of requests that drives them."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import time
import weakref
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from twofold import _private_server
from twofold._buffers import BufferPool
from twofold._connection import Call, Connection, check_address, check_curve
from twofold._curve import CurveKeys
from twofold._exceptions import (
    ClosedError,
    NotFound,
    OutOfSequence,
    RecoveryFailed,
    RequestError,
    ResourceExhausted,
    ServerDied,
    ShuttingDown,
    add_note,
    from_reply,
)
from twofold._recovery import Done, Journal, Operation, part
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment

# How long a close may take; it says goodbye to a server that may be gone.
_CLOSE_DEADLINE = 1.0

# How a step that went well is answered: one byte of tag, the eight of seq, the rest.
_STEP_REPLY = envelope.Reply(seq=1, step=environment.StepReply()).SerializeToString()

_SNAPSHOT = Operation(
    "snapshot", envelope.Request(snapshot=environment.SnapshotRequest()).SerializeToString(), None
)
_CLOSE = Operation(
    "close", envelope.Request(close=environment.CloseRequest()).SerializeToString(), None
)

Slot = Literal[
    "reset",
    "step",
    "observe",
    "afterstates",
    "snapshot",
    "restore",
    "keepalive",
    "close",
    "rollout",
    "policy",
]


class _Pending(NamedTuple):
    """An operation on its way, and its place in the session."""

    seq: int
    operation: Operation


class Session:
    """Boards on a server, made by one create request; exactly once is kept here.

    A request that was sent and not answered, be it for a deadline or a KeyboardInterrupt, stays
    pending. The next call with the same bytes collects its reply; any other call finishes it first.

    Args:
        create: What to make.
        endpoint: An address, "private", or None for TWOFOLD_ENDPOINT and "private" without it.
        curve: Keys for an encrypted endpoint.
        timeout: Seconds that each call may take.
        recover: Whether to make the boards anew where they are lost, on whatever server answers.
        resumed_id: The session to take over, in place of making one; `create` is then not used.

    Attributes:
        again: Makes another session on the same server, of another create request.
        spec: The server's reply to create: spaces and array layouts.
        create: The create request.
        server_version: What the server calls itself.
        network: The n-tuple network that the session has been given.
        rollouts: The memory of the last long rollout.
        inherited: The last reply of a session that was taken over, and its payload.
        was_reset: Whether a session that was taken over had been reset before.
        calls: How many calls have begun.
        pending: What was sent and is not finished; the next call finishes it.
        holds: Whether a call stays pending until the caller has used its reply, and says so.
        prepare_step: What to do while the server makes a step, as `exchange` wants it.
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
        self._pid = os.getpid()
        self.create = create
        # Of a session that was taken over: the last reply that somebody else got.
        self.inherited: tuple[envelope.Reply, NDArray[np.uint8]] | None = None
        self.was_reset = False
        self._journal = Journal() if recover else None
        # With the boards gone: what was pending then, whatever a recovery sends meanwhile.
        self._is_lost = False
        self._unfinished: _Pending | None = None
        self._last_seq = 0
        # What was sent, until its reply is there; with `holds`, until the caller has what it made
        # of the reply, and takes this away.
        self.pending: _Pending | None = None
        self.holds = False
        # The last operation that was answered, what the current call is to do, and how many calls
        # there were.
        self._answered: Operation | None = None
        self._wanted: Operation | None = None
        self.calls = 0
        self._is_open = False
        self.network: object = None
        self.prepare_step: Callable[[NDArray[np.uint8]], object] | None = None
        self.rollouts = BufferPool(capacity=2)

        deadline = time.monotonic() + timeout
        if endpoint is None:
            endpoint = os.environ.get("TWOFOLD_ENDPOINT") or "private"
        self.create = create
        self.again = functools.partial(Session, endpoint=endpoint, curve=curve, timeout=timeout)
        self._server: _private_server.PrivateServer | None = None
        if endpoint == "private":
            check_curve(endpoint, curve)
            self._connection = self._connect_privately(deadline)
        else:
            curve = check_curve(check_address(endpoint), curve)
            self._connection = Connection(endpoint, curve=curve)
        self._is_open = True
        try:
            if resumed_id is None:
                self.spec: environment.CreateReply = self._begin(deadline)
            else:
                self.spec = self._take_over(resumed_id, deadline)
            self._step_size, self._step_room = self.spec.step.size, self.spec.finals.size
        except BaseException:
            # A session that could not be taken over is somebody else's.
            self.close() if resumed_id is None else self.leave()
            raise
        self.server_version = self._connection.server_version
        _open_sessions.add(self)

    def call(
        self,
        slot: Slot,
        request: envelope.Request,
        payload: bytes | None = None,
        reply_room: int = 0,
    ) -> tuple[envelope.Reply, NDArray[np.uint8]]:
        """Carries out one request.

        Args:
            slot: The request's slot.
            request: The request without session, epoch and seq.
            payload: Its payload frame.
            reply_room: Bytes that the reply's payload has at most, where `spec` doesn't tell.

        Returns:
            The reply, and its payload, (size,), fresh; empty where the reply has none.

        Raises:
            RequestError: The server refused; nothing has changed.
            TransportError: No answer; the request stays pending.
            ClosedError: The session is closed, or of another process.
        """
        self._check_usable()
        deadline = time.monotonic() + self._timeout
        operation = Operation(slot, request.SerializeToString(), payload, reply_room)
        self._wanted = operation
        self.calls += 1
        calls = self.calls
        while True:
            try:
                return self._carry_out(operation, deadline)
            except (RequestError, ServerDied) as error:
                if not self._loses_boards(error) or time.monotonic() >= deadline:
                    raise
                if not self._is_lost:
                    self._unfinished = self.pending
                    self._is_lost = True
            except KeyboardInterrupt as interrupt:
                self.interrupted(interrupt, calls - 1)
                raise

    def interrupted(self, interrupt: KeyboardInterrupt, calls: int) -> None:
        """Notes on an interrupt what became of a call.

        Args:
            interrupt: Gets the note, if it has none.
            calls: What `calls` was before the call.
        """
        if hasattr(interrupt, "__notes__"):
            return
        pending = self._unfinished if self._is_lost else self.pending
        if self.calls > calls and pending is not None and pending.operation is self._wanted:
            # An answered one was seen by nobody; the server still has the reply.
            what = (
                "was applied"
                if self._answered is self._wanted
                else "was sent and has no answer yet; it is applied once, before anything else"
            )
        else:
            add_note(interrupt, "twofold: the interrupted call was not applied; nothing was sent.")
            return
        add_note(
            interrupt,
            f"twofold: the interrupted call {what}. The same call again returns its result; any "
            "other goes on from there.",
        )

    def keep_journal(self) -> None:
        """Has the boards of a session that was taken over made anew where they are lost.

        The journal begins with a snapshot. The next call takes it, and not this one: it would take
        the place of the last reply, which whoever resumes next may still need.
        """
        self._journal = Journal(is_complete=not self.was_reset)

    @property
    def token(self) -> str:
        """Where the session is, and its id: whoever has this can take it over."""
        return f"{self._connection.endpoint}#{self._id.hex()}"

    @property
    def last_seq(self) -> int:
        """How many requests of this session were carried out, its create included."""
        return self._last_seq

    def begin(
        self, slot: Slot, request: envelope.Request, payload: bytes | None, reply_room: int
    ) -> None:
        """Sends a request ahead, so that the server carries it out meanwhile.

        It is pending then: `call` with the same arguments collects its reply, anything else waits
        until it is done.
        """
        self._check_usable()
        if self._is_lost:
            return
        assert self.pending is None
        operation = Operation(slot, request.SerializeToString(), payload, reply_room)
        call = self._encode(operation, self._last_seq + 1)
        self._connection.check_size(call)
        self.pending = _Pending(call.seq, operation)
        self._connection.begin(call)

    def close(self, timeout: float = _CLOSE_DEADLINE) -> None:
        """Ends the session; never raises for a server that is gone; twice is fine."""
        if not self._is_open or os.getpid() != self._pid:
            return
        self._is_open = False
        try:
            if (self._last_seq or self.pending) and not self._is_lost:
                with contextlib.suppress(Exception):
                    self._say_goodbye(time.monotonic() + timeout)
        finally:
            self._connection.drop()
            if self._server is not None:
                _private_server.release(self._server)

    def leave(self) -> None:
        """Lets go of the session without ending it."""
        self._is_open = False
        self._connection.drop()
        if self._server is not None:
            _private_server.release(self._server)

    def __del__(self) -> None:
        # At interpreter exit anything may be half gone.
        with contextlib.suppress(Exception):
            self.close()

    def _say_goodbye(self, deadline: float) -> None:
        if self._server is not None:
            self._server.check()
        self._finish_pending(deadline)
        if self._last_seq:
            self._run(_CLOSE, self._last_seq + 1, deadline)

    # ---- the life of one request -----------------------------------------------------------------

    def _carry_out(
        self, operation: Operation, deadline: float
    ) -> tuple[envelope.Reply, NDArray[np.uint8]]:
        if self._is_lost:
            self._recover(deadline)
        if self.pending is not None and self.pending.operation == operation:
            # The same bytes again are the pending request itself, and collect its reply.
            seq, operation = self.pending
            self._wanted = operation
        else:
            self._finish_pending(deadline)
            if self._journal is not None and self._journal.is_due:
                self._take_snapshot(self._journal, deadline)
            seq = self._last_seq + 1
        return self._run(operation, seq, deadline)

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

    def _finish_pending(self, deadline: float) -> None:
        if self.pending is not None:
            try:
                self._run(self.pending.operation, self.pending.seq, deadline)
            except RequestError as error:
                # Whoever made the request has been told of a failure; what it was does not matter.
                if self._loses_boards(error):
                    raise
            self.pending = None

    def largest_payload(self, wanted: int) -> int:
        """As many bytes as are wanted for a payload, fewer where the server takes less."""
        limit = self._connection.limits.max_message_bytes
        return limit // 8 * 8 if 0 < limit < wanted else wanted

    def _run(
        self, operation: Operation, seq: int, deadline: float
    ) -> tuple[envelope.Reply, NDArray[np.uint8]]:
        """Sends an operation as the session's request of this number; pending until answered."""
        call = self._encode(operation, seq)
        self._connection.check_size(call)
        self.pending = _Pending(seq, operation)
        while True:
            prepare = self.prepare_step if operation.slot == "step" else None
            reply, payload = self._connection.exchange(call, deadline, prepare)
            if not reply.HasField("error"):
                break
            error = from_reply(reply.error)
            if not self._waits_for_another_server(error, deadline):
                if not self._loses_boards(error):
                    self.pending = None
                raise error
        # In this order: an interrupt in between repeats a request that is answered already.
        self._answered = operation
        self._last_seq = seq
        if self._journal is not None and not self._is_lost:
            self._journal.add(operation, reply, payload)
        if not self.holds:
            self.pending = None
        return reply, payload

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
        request = self._header + seq.to_bytes(8, "little") + operation.request
        if operation.slot == "step":
            plain_reply = _STEP_REPLY[:1] + seq.to_bytes(8, "little") + _STEP_REPLY[9:]
            size, room = self._step_size, self._step_room
            return Call("step", seq, request, operation.payload, size, plain_reply, room)
        slot, _, payload, room = operation
        return Call(slot, seq, request, payload, self._reply_size(slot), reply_room=room)

    # ---- beginning, and beginning anew -----------------------------------------------------------

    def _begin(self, deadline: float) -> environment.CreateReply:
        """Makes the boards, as a new session."""
        # Secret: whoever knows it can use the session.
        self._id = os.urandom(16)
        self._set_epoch(1)
        self._last_seq = 0
        self._connection.hello(deadline)
        self.check_limits(self.create)
        create = envelope.Request(create=self.create).SerializeToString()
        reply, _ = self._run(Operation("create", create, None), 1, deadline)
        self._set_epoch(reply.create.epoch)
        return reply.create

    def _take_over(self, session_id: bytes, deadline: float) -> environment.CreateReply:
        """Takes the session over; whoever had it is shut out."""
        self._id = session_id
        self._connection.hello(deadline)
        resume = environment.ResumeRequest(holder=os.urandom(16))
        request = envelope.Request(session=session_id, resume=resume).SerializeToString()
        reply, payload = self._connection.exchange(Call("resume", 0, request, None, None), deadline)
        if reply.HasField("error"):
            raise from_reply(reply.error)
        self.create = reply.resume.create
        # Aligned and writable, as replies are.
        self.inherited = envelope.Reply.FromString(reply.resume.last_reply), payload.copy()
        self._last_seq = reply.resume.last_seq
        self.was_reset = reply.resume.was_reset
        self._set_epoch(reply.resume.epoch)
        return reply.resume.created

    def _set_epoch(self, epoch: int) -> None:
        header = envelope.Request(session=self._id, epoch=epoch, seq=2**64 - 1)
        self._header = header.SerializeToString().removesuffix(b"\xff" * 8)

    def _connect_privately(self, deadline: float) -> Connection:
        self._server = _private_server.acquire(deadline)
        return Connection(self._server.endpoint, self._server.check)

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
            self._connection.drop()
            if self._server is not None and not self._server.is_alive:
                server, self._server = self._server, None
                _private_server.release(server)
                self._connection = self._connect_privately(deadline)
            spec = self._begin(deadline)
            if spec != self.spec:
                raise RecoveryFailed(
                    f"the session was lost, and the server at {self._connection.endpoint} makes "
                    "other boards of the same arguments; is it of another version?"
                )
            for operation in journal.policy:
                self._run(operation, self._last_seq + 1, deadline)
            payload = None
            for done in journal.done:
                payload = self._play_again(done, deadline)
            if payload is not None and not journal.agrees(payload):
                raise RecoveryFailed(
                    f"the session was lost and played again at {self._connection.endpoint}, and "
                    "came out different; is that server of another version?"
                )
        except RecoveryFailed:
            with contextlib.suppress(Exception):
                self._run(_CLOSE, self._last_seq + 1, deadline)
            raise
        pending = self._unfinished
        if pending is not None:
            # One that was answered is the last that was played.
            is_new = not journal.ends_with(pending.operation)
            pending = _Pending(self._last_seq + is_new, pending.operation)
        self.pending = pending
        self._is_lost = False

    def _play_again(self, done: Done, deadline: float) -> NDArray[np.uint8] | None:
        """Carries an operation out again; its reply's payload, None where it took several."""
        operation = done.operation
        if operation.slot != "rollout":
            return self._run(operation, self._last_seq + 1, deadline)[1]
        # Now the server may have time for fewer steps, and must not do more.
        start = 0
        while start < done.steps:
            again = part(operation, start, done.steps)
            reply, payload = self._run(again, self._last_seq + 1, deadline)
            start += reply.rollout.steps
        return payload if reply.rollout.steps == done.steps else None

    # ---- checks ----------------------------------------------------------------------------------

    def _reply_size(self, slot: str) -> int | None:
        if slot in ("reset", "observe", "restore"):
            return self.spec.reset.size
        if slot == "snapshot":
            return None
        return self.spec.afterstates.size if slot == "afterstates" else 0

    def _check_usable(self) -> None:
        if os.getpid() != self._pid:
            raise ClosedError(
                f"this environment belongs to process {self._pid}, which this one was forked from; "
                "make environments after the fork"
            )
        if not self._is_open:
            raise ClosedError("this environment is closed")

    def check_limits(self, create: environment.CreateRequest) -> None:
        """Raises ResourceExhausted for more boards than the server allows."""
        limits = self._connection.limits
        for name in ("max_boards_per_session", "max_boards"):
            limit = getattr(limits, name)
            if limit and create.num_envs > limit:
                raise ResourceExhausted(
                    f"num_envs is {create.num_envs}; the server at {self._connection.endpoint} "
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
    _private_server.stop_at_exit()
    deadline = time.monotonic() + _CLOSE_DEADLINE
    for session in list(_open_sessions):
        session.close(max(0.0, deadline - time.monotonic()))


atexit.register(_close_at_exit)
