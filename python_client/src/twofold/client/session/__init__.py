"""Sessions: boards at a service, and the sequence of requests that drives them exactly once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

from twofold.client.curve import CurveKeys
from twofold.client.session.calls import exactly_once, waiting
from twofold.client.session.session import Session
from twofold.v1 import environment_pb2 as environment

__all__ = ["Session", "exactly_once", "open_session", "using", "waiting"]

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
