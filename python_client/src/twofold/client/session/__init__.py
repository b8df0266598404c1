"""Sessions: boards at a service, and the sequence of requests that drives them exactly once."""

from twofold.client.session.session import Session, exactly_once, open_session, using, waiting

__all__ = ["Session", "exactly_once", "open_session", "using", "waiting"]
