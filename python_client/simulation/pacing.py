"""Checks when calls repeat a request, and the limits of their durations."""

from __future__ import annotations

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
