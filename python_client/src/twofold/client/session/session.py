"""A session: a set of boards, and the sequence of requests that act on them."""

from __future__ import annotations

import atexit
import contextlib
import functools
import multiprocessing
import multiprocessing.util
import threading
import weakref
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from twofold.client import system
from twofold.client.carrier import DONE, NO_PAYLOAD, Answer
from twofold.client.curve import CurveKeys
from twofold.client.payloads import Buffer, BufferPool
from twofold.client.session import states
from twofold.client.session.calls import Calls
from twofold.client.session.journal import PENDING, Journal, leaves_open, loses_boards
from twofold.client.session.link import CLOSE, Link
from twofold.client.session.recovery import Recovery
from twofold.client.session.states import Operation, Sent, Unanswered
from twofold.client.surroundings import Surroundings, surroundings
from twofold.errors import (
    ClosedError,
    InvalidArgument,
    RecoveryFailed,
    RequestError,
    ServerDied,
    StepPending,
)
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment

# The time limit for closing a session, in seconds. The server may have ended.
_CLOSE_DEADLINE = 1.0

_SNAPSHOT = Operation.of(envelope.Request(snapshot={}))

_CLOSED = "this environment was closed during a call"
_SEND, _FINISH = states.Task.SEND, states.Task.FINISH
# Faster than a NamedTuple's own constructor.
_new: Callable[..., Any] = tuple.__new__


class Session(Calls):
    """The boards of one create request, and the requests to them, each executed exactly once.

    After a deadline or a KeyboardInterrupt, an unanswered request stays pending. The next call
    with the same bytes collects its reply. Any other call finishes the request first,
    except that steps and rollouts are refused after a pending step, whose rewards would be lost.

    Args:
        create: The boards to make.
        endpoint: "embedded", "private" or an address. None means TWOFOLD_ENDPOINT; if that is
            unset, "embedded" if available, else "private".
        keys: Keys for an encrypted endpoint.
        timeout: The time limit of each call in seconds. A constructor that fails may take a second
            more to end the session.
        recover: Whether to recreate lost boards on any server that answers.
        resumed_id: The session to take over instead of creating one; `create` is then unused.
        within: The surroundings; None for the current value of `surroundings`.

    Attributes:
        surroundings: The clock, the randomness and the connections.
        link: The link to the service.
        spec: The reply to the create request: spaces and array layouts.
        create: The create request.
        network: The n-tuple network whose form (tuples, exponents, symmetry) was uploaded.
        received: The number of bytes of the network's weights that the service has received.
        on_seeds: A function to call with each executed reset or restore, possibly twice.
        rollouts: The buffers for the arrays of long rollouts.
        inherited: The last reply of a session that was taken over, and its payload.
        was_reset: Whether a session that was taken over had been reset before.
    """

    def __init__(
        self,
        create: environment.CreateRequest,
        *,
        endpoint: str | None,
        keys: CurveKeys | None,
        timeout: float,
        recover: bool = False,
        resumed_id: bytes | None = None,
        within: Surroundings | None = None,
    ) -> None:
        super().__init__(timeout)
        self.surroundings = within or surroundings.get()
        self.create = create
        self.inherited: Answer | None = None
        self.was_reset = False
        self.network: object = None
        self.received = 0
        self.on_seeds: Callable[[Operation], object] | None = None
        self.rollouts = BufferPool(capacity=2)

        deadline = self.surroundings.now() + timeout
        self.link = Link(endpoint, keys, deadline, self.surroundings)
        self._journal = Journal() if recover and self.link.carrier.is_remote else None
        self._recovery: Recovery | None = None
        self._owner = system.generation
        # True once `end` has ended the session, which may be after `close` has returned.
        self._has_ended = False
        try:
            if resumed_id is None:
                new_id = self.link.new_id()
                self.link.create(
                    create, lambda op: self._ask(Sent(1, op), deadline)[0], deadline, new_id
                )
                self.state = states.Idle(1)
            else:
                resumed, self.inherited = self.link.resume(resumed_id, deadline)
                self.create, self.was_reset = resumed.create, resumed.was_reset
                self.state = states.Idle(resumed.last_seq)
        except BaseException:
            # A session that could not be taken over belongs to another client.
            self.close() if resumed_id is None else self.abandon()
            raise
        self.spec: environment.CreateReply = self.link.spec
        _open_sessions.add(self)
        _close_at_exit_of(system.generation)

    # ---- requests, under the lock that `enter` takes ---------------------------------------------

    def call(
        self,
        request: envelope.Request,
        payload: bytes | None = None,
        reply_room: int = 0,
        into: Buffer | None = None,
    ) -> Answer:
        """Makes one request.

        Args:
            request: The request without session, epoch and seq.
            payload: The request's payload frame.
            reply_room: The largest payload of the reply in bytes, if `spec` does not fix it.
            into: A buffer large enough for the reply's payload; None for new memory.

        Returns:
            The reply and its payload (size,), which is empty if the reply has none.

        Raises:
            RequestError: The service refused the request; nothing has changed.
            PermissionDenied, ShuttingDown, TransportError: No answer came; the request stays
                pending.
            ClosedError: The session is closed.
        """
        return self._perform(Operation.of(request, payload, reply_room), into, self._ask)

    def step(self, actions: NDArray[np.integer[Any]], into: Buffer | None = None) -> Answer:
        """Plays a step with these actions (N,), as one request like `call`."""
        payload, width = self.link.carrier.pack(actions)
        return self._perform(_new(Operation, ("step", b"", payload, 0, width)), into, self._ask)

    def step_async(self, actions: NDArray[np.integer[Any]], into: Buffer | None) -> None:
        """Begins a step with these actions; also finishes it if the service is in this process."""
        payload, width = self.link.carrier.pack(actions)
        act = self._send if self.link.carrier.is_remote else self._ask
        answer = self._perform(Operation("step", b"", payload, 0, width), into, act)
        state = self.state
        if isinstance(state, states.Answered):
            self.state = states.Carried(state.seq, state.operation, answer)

    def collect(self, into: Buffer | None = None) -> Answer:
        """Returns the reply to the newest step, if no call has returned it.

        If `step_async` began the step, `into` must be the memory that was passed to it.

        Raises:
            gymnasium.error.NoAsyncCallError: No step has an outstanding result.
        """
        operation = self.unreturned_step
        if operation is None:
            raise gym.error.NoAsyncCallError(
                "there is nothing to collect: every step has returned its result; call "
                "step_async() or step() first",
                "step",
            )
        if isinstance(self.state, states.Held):
            return self.state.answer
        return self._perform(operation, into, self._ask)

    def refuse_pending_step(self) -> None:
        """Raises StepPending if a step is unanswered, or was begun and awaits `step_wait`."""
        is_pending = isinstance(self.state, Unanswered) or self.state.is_awaited
        if is_pending and self.unreturned_step is not None:
            raise StepPending(states.STEP_PENDING)

    def begin(self, request: envelope.Request, payload: bytes | None, reply_room: int) -> None:
        """Sends a request without waiting, so that the server executes it in the background.

        The request is then pending: `call` with the same arguments collects its reply. Any other
        call waits until the server has executed it. If the journal needs a snapshot first, nothing
        is sent, and `call` sends the request after the snapshot.
        """
        operation = Operation.of(request, payload, reply_room)
        is_due = self._journal is not None and self._journal.is_due
        if self.link.carrier.is_remote and not is_due and self.state.wants(operation) is _SEND:
            state = Sent(self.state.seq + 1, operation)
            self._send(state, self.surroundings.now() + self._timeout)

    # ---- the life of one request -----------------------------------------------------------------

    def _perform(
        self, operation: Operation, into: Buffer | None, act: Callable[..., Answer]
    ) -> Answer:
        """Runs `_ask` or `_send` for a call, after any task that the state requires."""
        deadline = self.surroundings.now() + self._timeout
        before, self.is_busy = self.is_busy, True
        try:
            while True:
                try:
                    state = self.state
                    # Nearly every state is settled, so this test saves a call.
                    task = _SEND if state.is_settled else state.wants(operation)
                    if task is _SEND:
                        if self._journal is not None and self._journal.is_due:
                            self._begin_journal(self._journal, deadline)
                        return act(Sent(self.state.seq + 1, operation), deadline, into)
                    if isinstance(task, Unanswered):
                        return act(task, deadline, into)
                    if task is _FINISH:
                        self._finish(deadline)
                    else:
                        self._recover(deadline)
                except (RequestError, ServerDied) as error:
                    if self._owner is None:  # closed by a signal handler or another thread
                        raise ClosedError(_CLOSED) from error
                    if not loses_boards(error, self._journal):
                        raise
                    if self.surroundings.now() >= deadline:
                        raise
                    assert isinstance(self.state, Unanswered)
                    self.state = self.state.lost()
        finally:
            self.is_busy = before

    def _begin_journal(self, journal: Journal, deadline: float) -> None:
        """Replaces the journal's operations with a snapshot of the boards."""
        try:
            _, blob = self._ask(Unanswered(self.state.seq + 1, _SNAPSHOT), deadline)
        except RequestError as error:
            if leaves_open(error, journal):
                raise
            # The server currently has too little memory for a snapshot. The next call tries again.
            return
        if len(blob) > self.link.largest_payload(len(blob)):
            # A snapshot of this size could not be sent back to a server.
            journal.takes_snapshots = False
            return
        restore = environment.RestoreRequest(count=self.create.num_envs)
        journal.begin(Operation.of(envelope.Request(restore=restore), blob.tobytes()))

    def _ask(self, state: Unanswered, deadline: float, into: Buffer | None = None) -> Answer:
        """Sets the session's state, sends the state's request, and waits for its reply."""
        self.state = state
        operation = state.operation
        try:
            answer = self.link.transmit(operation, state.seq, deadline, into)
        except Exception as error:
            if self.state is not state:
                raise ClosedError(_CLOSED) from error
            if isinstance(error, RequestError) and not leaves_open(error, self._journal):
                self.state = state.refused()
            raise
        # A signal handler that closes the session may overwrite the reply.
        if self.state is not state:
            raise ClosedError(_CLOSED)
        # The order matters: after an interrupt in between, the answered request is repeated.
        if answer[0] is not DONE:
            if operation.slot in ("reset", "restore") and self.on_seeds:
                self.on_seeds(operation)
            elif operation.slot == "policy":
                self.received = answer[0].policy.received
        if self._journal is not None:
            self._journal.add(operation, *answer)
        self.state = state.answered(answer)
        return answer

    def _send(self, state: Unanswered, deadline: float, into: Buffer | None = None) -> Answer:
        """Sets the session's state, and sends the state's request without waiting."""
        call = self.link.encode(state.operation, state.seq, deadline)
        self.state = state
        self.link.carrier.begin(call)
        return DONE, NO_PAYLOAD

    def _finish(self, deadline: float) -> None:
        """Finishes an unanswered request and drops its result."""
        state = self.state
        assert isinstance(state, Unanswered)
        try:
            self._ask(Unanswered(state.seq, state.operation), deadline)
        except RequestError as error:
            # The caller has already seen a failure, so a refusal does not matter.
            if leaves_open(error, self._journal):
                raise

    def _recover(self, deadline: float) -> None:
        """Recreates the lost boards; after an interrupt or a deadline, the next call continues."""
        lost = self.state
        assert isinstance(lost, states.Lost)
        assert self._journal is not None
        self._journal.forget_rollout(lost.operation)
        if self._recovery is None:
            self._recovery = Recovery(self.link, self._journal, self.create, self.spec)
        try:
            last_seq = self._recovery.resume(deadline)
        except (RequestError, RecoveryFailed, ServerDied) as error:
            if not isinstance(error, PENDING):
                # The new boards are lost too or differ, or the server refused them.
                self._recovery.close(deadline)
                self._recovery = None
            raise
        # The order matters: after an interrupt in between, the recovery starts over.
        self._recovery = None
        # If the request was answered before the loss, the recovery has replayed it last.
        is_new = not self._journal.ends_with(lost.operation)
        self.state = lost.recovered(last_seq + is_new)

    # ---- the session as a whole ------------------------------------------------------------------

    @property
    def token(self) -> str:
        """The session's endpoint and id. Any client that has them can take the session over.

        Raises:
            InvalidArgument: The session is in this process and ends with it.
        """
        if not self.link.carrier.is_remote:
            raise InvalidArgument(
                "boards in this process have no token, because no other process can resume them; "
                "make the boards on a server, with endpoint=",
                field="endpoint",
            )
        return f"{self.link.carrier.endpoint}#{self.link.id.hex()}"

    @property
    def operation(self) -> Operation | None:
        """The newest request. A repeated call finds the same object here."""
        return getattr(self.state, "operation", None)

    @property
    def last_seq(self) -> int:
        """The number of executed requests, including the create request."""
        return self.state.seq - isinstance(self.state, Unanswered)

    def again(self, create: environment.CreateRequest) -> Session:
        """Opens another session with the same endpoint, keys, timeout and `recover` setting.

        Raises:
            RequestError: The service refused the request.
            TransportError: No answer came.
        """
        return Session(
            create,
            endpoint=self.link.endpoint,
            keys=self.link.keys,
            timeout=self._timeout,
            recover=self._journal is not None,
            within=self.surroundings,
        )

    def keep_journal(self) -> None:
        """Lets a session that was taken over recover lost boards.

        The journal begins with a snapshot, which the next call takes. Taking it now would replace
        the last reply, which the next client that resumes the session may still need.
        """
        self._journal = Journal(is_complete=not self.was_reset)

    def close(self, timeout: float = _CLOSE_DEADLINE) -> None:
        """Ends the session. Safe to call twice, or when no server answers.

        If another thread's call does not end within the timeout, the session ends after that call.
        """
        if self._owner is not system.generation:
            return
        try:
            # In this order: a call that keeps the lock for too long then ends the session itself.
            self._owner = None
            self.end(timeout)
        except BaseException:
            # An interrupt. The next `close` finishes what this one has begun.
            self._owner = system.generation
            raise

    @override
    def end(self, timeout: float = _CLOSE_DEADLINE) -> None:
        deadline = self.surroundings.now() + timeout
        if not self.lock.acquire(timeout=timeout):
            return
        try:
            self.is_held = True
            if not self._has_ended:
                with contextlib.suppress(Exception):
                    self._say_goodbye(deadline)
                self._has_ended = True
        finally:
            self.state = states.Closed(self.last_seq)
            self.link.carrier.close()
            self.is_held = False
            self.lock.release()

    def _say_goodbye(self, deadline: float) -> None:
        if self.link.carrier.is_dead:
            return
        if isinstance(self.state, states.Lost):
            if self._recovery is not None:
                self._recovery.close(deadline)
            return
        if isinstance(self.state, Unanswered):
            self._finish(deadline)
        if self.state.seq:
            self.link.transmit(CLOSE, self.state.seq + 1, deadline)

    def abandon(self) -> None:
        """Leaves the session without ending it."""
        self._owner = None
        self.link.carrier.close()

    def __del__(self) -> None:
        # At interpreter exit, modules may be half destroyed.
        with contextlib.suppress(Exception):
            self.close()


_open_sessions: weakref.WeakSet[Session] = weakref.WeakSet()


def _close_at_exit() -> None:
    """Closes the sessions on running servers; the private server has already ended."""
    deadlines: dict[Surroundings, float] = {}
    for session in list(_open_sessions):
        now = session.surroundings.now
        deadline = deadlines.setdefault(session.surroundings, now() + _CLOSE_DEADLINE)
        session.close(max(0.0, deadline - now()))


atexit.register(_close_at_exit)


@functools.cache
def _close_at_exit_of(generation: object) -> None:
    """Also closes the sessions of a multiprocessing child, which may skip atexit's functions."""
    if multiprocessing.parent_process() is not None:
        multiprocessing.util.Finalize(None, _close_after_threads, exitpriority=0)


def _close_after_threads() -> None:
    """Closes the sessions when the threads that Python waits for at exit have ended."""
    main = threading.main_thread()
    others = [each for each in threading.enumerate() if not each.daemon and each is not main]

    def close() -> None:
        for thread in others:
            thread.join()
        _close_at_exit()

    # In a thread, because the threads of a ThreadPoolExecutor end only after the finalizers.
    threading.Thread(target=close).start()
