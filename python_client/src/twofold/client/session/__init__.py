"""Sessions: boards at a service, and the sequence of requests that drives them exactly once."""

from twofold.client.session.calls import exactly_once, explain, in_parts, waiting
from twofold.client.session.session import Session

__all__ = ["Session", "exactly_once", "explain", "in_parts", "waiting"]
