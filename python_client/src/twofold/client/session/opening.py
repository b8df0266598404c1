"""Sessions for environments: new ones, or the one that was taken over for them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

from twofold.client.curve import CurveKeys
from twofold.client.session.session import Session
from twofold.v1 import environment_pb2 as environment

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
