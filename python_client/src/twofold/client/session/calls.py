"""Calls to an environment, which run one at a time, take effect once, and lose no result."""

from __future__ import annotations

import abc
import functools
import os
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import ParamSpec, TypeVar

import gymnasium as gym

from twofold.client import system
from twofold.client.session.states import STEPS_REMAIN, Idle, Operation, State, note
from twofold.errors import ClosedError, DeadlineExceeded

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Calls(abc.ABC):
    """The calls to a session, and the state of its newest request.

    Args:
        timeout: The time limit for a call, and for waiting for another thread's call, in seconds.

    Attributes:
        is_busy: Whether a call is running during which no other call may begin. An interrupt may
            leave it true.
        is_held: Whether `close` or `statistics` holds the lock, which no call has taken.
        last_part: The last request of the newest rollout that took several. A repeat of the rollout
            begins with another request.
        lock: The lock that a thread holds during a call.
        state: The newest request's state; only the lock's holder changes it.
    """

    # `system.generation` of the process that may make calls; None unless the session is open.
    _owner: object = None
    is_busy = False
    is_held = False
    last_part: Operation | None = None

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._pid = os.getpid()
        self.lock = threading.RLock()
        self.state: State = Idle(0)
        # The newest call's number. A rollout's `progress` may make calls within the rollout.
        self._number = 0

    @property
    def unreturned_step(self) -> Operation | None:
        """The newest request, if it is a step and no call has returned its result."""
        operation = self.state.unreturned
        return operation if operation is not None and operation.slot == "step" else None

    def acquire(self) -> None:
        """Waits for other threads' calls, and takes the lock.

        Raises:
            ClosedError: The session belongs to the process that forked this one.
            DeadlineExceeded: Another thread's call did not end within the timeout.
        """
        # Checked before the lock, because a forked child has no thread that would release it.
        if self._owner not in (system.generation, None):
            raise ClosedError(
                f"this environment belongs to process {self._pid}, which this one was forked "
                "from; make environments after the fork"
            )
        if not self.lock.acquire(timeout=self._timeout):
            raise DeadlineExceeded(
                f"another thread's call to this environment did not end within the timeout of "
                f"{self._timeout:.3g} s"
            )

    def enter(self, is_wait: bool = False) -> int:
        """Waits for other threads' calls, takes the lock, and begins a call.

        Args:
            is_wait: Whether the call may follow a `step_async`.

        Returns:
            The call's number.

        Raises:
            ClosedError: The session is closed, or belongs to the process that forked this one.
            DeadlineExceeded: Another thread's call did not end within the timeout.
            gymnasium.error.AlreadyPendingCallError: A step is in progress, or this call interrupts
                another one.
        """
        # Nearly every call finds the lock free, so this test saves a call.
        if self._owner is not system.generation or not self.lock.acquire(False):
            # After `close`, a running call may finish. The new call may be a part of it.
            if self._owner is None and not self._is_mine:
                raise ClosedError("this environment is closed")
            self.acquire()
        if self.is_busy or not self.state.is_settled:
            self._take_turn(is_wait)
        self._number += 1
        return self._number

    @property
    def _is_mine(self) -> bool:
        """Whether this thread holds the lock."""
        # threading.Condition uses this method, too. An RLock has no public equivalent.
        return bool(self.lock._is_owned())  # type: ignore[attr-defined]

    def _take_turn(self, is_wait: bool) -> None:
        """Refuses a call that interrupts another one, or that must come after `step_wait`."""
        if self._is_interrupting():
            self.lock.release()
            raise gym.error.AlreadyPendingCallError(
                "a signal handler or a finalizer made this call during another call to the same "
                "environment; set a flag there instead, and step after the other call",
                "step",
            )
        # The previous call failed before `failed` ran, or this call runs within it.
        self.is_busy, before = False, self.state
        after = before.left()
        if self.state is before:  # no signal handler's call came in between
            self.state = after
        if self.state.is_awaited and not is_wait:
            self.lock.release()
            raise gym.error.AlreadyPendingCallError(
                "a step is in progress: call step_wait() or collect(), which return its result, or "
                "discard(), which drops it, before any other call",
                "step",
            )

    def _is_interrupting(self) -> bool:
        """Returns True if this call interrupts another one on the same thread."""
        # An interrupted call may leave `is_busy` true, but is no longer on the stack.
        return self.is_busy and self._count_calls() == 2

    def _release_leaked(self) -> None:
        """Releases the lock if an interrupt has left it taken by this thread's only call.

        An interrupt can come after the lock was taken in `enter`, or before its release.
        """
        if self.is_held:  # by the method that this call interrupts
            return
        while self._is_mine and self._count_calls() == 1:
            self.lock.release()

    def _count_calls(self) -> int:
        """Returns the number of calls to this session on the thread's stack, at most 2."""
        calls = 0
        frame: FrameType | None = sys._getframe()
        while frame is not None and calls < 2:
            if frame.f_code is _CALL and frame.f_locals.get("session") is self:
                calls += 1
            frame = frame.f_back
        return calls

    def end_request(self) -> None:
        """Records that the caller knows the newest request's outcome, so no call repeats it."""
        before = self.state
        after = before.returned()
        if self.state is before:  # no signal handler's call came between
            self.state = after

    @abc.abstractmethod
    def end(self) -> None:
        """Ends the closed session, unless another thread's call is running, which then ends it."""

    def failed(self, call: int, error: BaseException, kept: State | None) -> None:
        """Keeps an unreturned result for a repeated call, and adds a note to a KeyboardInterrupt.

        The thread holds the lock. If an interrupt stops this method too, the next `enter` keeps the
        result. If the call already had its result, `kept` is the state before it was returned;
        otherwise None.
        """
        if self._number != call:
            # Another call began within this one, or after it.
            return
        before = kept or self.state
        self.state = before.left()
        if isinstance(error, KeyboardInterrupt) and not hasattr(error, "__notes__"):
            operation = getattr(before, "operation", None)
            is_part = operation is not None and operation is self.last_part
            explain(error, STEPS_REMAIN if is_part else note(before, self.state))


def explain(error: BaseException, text: str) -> None:
    """Sets the note on an error, replacing any earlier one."""
    # Like `add_note`, which does not exist in Python 3.10.
    error.__notes__ = ["twofold: " + text]  # type: ignore[attr-defined]


def exactly_once(method: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Makes a method's requests a single unit whose result is never lost.

    Other threads wait until the call ends. If anything interrupts the call before it returns,
    repeating it returns the same result. A KeyboardInterrupt gets a note with the call's outcome.
    """
    return _guarded(method, is_wait=False, is_busy=True)


def waiting(method: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Guards a method like `exactly_once`, but allows the method after `step_async`."""
    return _guarded(method, is_wait=True, is_busy=True)


def in_parts(method: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Guards a method like `exactly_once`, but allows other calls between its requests."""
    return _guarded(method, is_wait=False, is_busy=False)


def _guarded(
    method: Callable[Arguments, Result], *, is_wait: bool, is_busy: bool
) -> Callable[Arguments, Result]:
    @functools.wraps(method)
    def guarded(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        session: Calls = args[0]._session  # type: ignore[attr-defined]
        kept: State | None = None
        try:
            call = session.enter(is_wait)
            try:
                session.is_busy = is_busy
                result = method(*args, **kwargs)
                kept = session.state
                after = kept.returned()
                if session.state is kept:  # no signal handler's call came in between
                    session.state = after
                return result
            except BaseException as error:
                session.failed(call, error, kept)
                raise
            finally:
                session.is_busy = False
                session.lock.release()
                if session._owner is None and not session._is_mine:  # closed during the call
                    session.end()
        except BaseException as error:
            if kept is not None:  # an interrupt came at the end of the lines above
                with session.lock:
                    session.failed(call, error, kept)
            session._release_leaked()
            raise

    return guarded


_CALL = exactly_once(lambda: None).__code__
