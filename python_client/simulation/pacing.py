"""Checks how long calls take and how often they repeat a request."""

from __future__ import annotations

from collections.abc import Callable

from google.protobuf.message import DecodeError

from twofold.v1 import envelope_pb2 as envelope

CLOSE_TIMEOUT = 1.0
"""The seconds in which the package closes a session."""
SLACK = 0.05
"""The seconds by which a call may exceed its timeout. Waits are rounded to milliseconds."""
_FIRST_WAIT, _MAX_WAIT = 0.020, 1.0
_NO_WAIT = 1e-6


class Pace:
    """A check on when one call repeats its requests.

    The first repeat must come at least 20 ms after the request. Each further wait is twice as
    long, up to one second. Repeats of `expand` always wait a second. If a stopping server refuses
    the request, the next repeat must wait for the time that the server gave.

    Args:
        opens: Whether the call opens a session, which it closes if it fails. To do so, it may
            repeat its last request once without a wait, and once more after each interrupt.

    Attributes:
        early: The problem with the first early repeat; None if no repeat was too early.
    """

    def __init__(self, opens: bool = False) -> None:
        self._opens, self._may_be_early = opens, int(opens)
        self.early: str | None = None
        self._request: tuple[bytes, bytes | None] | None = None
        self._repeats = 0
        self._earliest = 0.0

    def problem(self, header: bytes, payload: bytes | None, now: float) -> str | None:
        """Records a sent request. Returns the problem if a repeat was too early, else None."""
        request = header, payload
        is_repeat, is_early = request == self._request, now < self._earliest - _NO_WAIT
        self._repeats = self._repeats + 1 if is_repeat and not is_early else 0
        wait = min(_FIRST_WAIT * 2.0**self._repeats, _MAX_WAIT)
        if _is_expand(header):
            wait = _MAX_WAIT
        early, self._earliest = self._earliest - now, now + wait
        self._request = request
        if is_repeat and is_early:
            self.early = self.early or f"a request is repeated {early:.3f} s too early"
            self._may_be_early -= 1
            return self.early if self._may_be_early < 0 else None
        return None

    def interrupted(self) -> None:
        """Records an interrupt of the call."""
        self._may_be_early += self._opens

    def answered(self, header: bytes, now: float) -> None:
        """Records a reply, which may set the time of the next repeat."""
        try:
            error = envelope.Reply.FromString(header).error
        except DecodeError:
            error = envelope.Error()
        if not error.HasField("retry_after_ms"):
            self._request = None
            return
        self._earliest = now + error.retry_after_ms / 1000
        self._repeats = -1


def _is_expand(header: bytes) -> bool:
    try:
        return envelope.Request.FromString(header).HasField("expand")
    except DecodeError:
        return False


class Watch:
    """A check on the duration of one call.

    Args:
        timeout: The timeout of each request, in seconds.
        requests: The maximum number of requests that the call sends in sequence.
        opens: Whether the call opens a session, which it closes if it fails.
        now: A function that returns the current time, in seconds.
        jumped: A function that returns the seconds by which the clock has jumped so far.
    """

    def __init__(
        self,
        timeout: float,
        requests: int,
        opens: bool,
        now: Callable[[], float],
        jumped: Callable[[], float],
    ) -> None:
        self._timeout, self._longest = timeout, timeout * requests + CLOSE_TIMEOUT * opens
        self._now, self._jumped = now, jumped
        self._start, self._start_jumped = now(), jumped()

    def problem(self, gave_up: bool) -> str | None:
        """Returns the problem if the call, which ends now, took too long or gave up too early."""
        elapsed = self._now() - self._start
        working = elapsed - (self._jumped() - self._start_jumped)
        if working > self._longest + SLACK:
            return f"took {working:.3f} s; its timeout is {self._timeout:.3g} s"
        if gave_up and elapsed < self._timeout - SLACK:
            return f"gave up after {elapsed:.3f} s; its timeout is {self._timeout:.3g} s"
        return None
