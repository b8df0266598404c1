"""Sessions: a service's boards, and requests that act on them, each executed exactly once."""

from twofold.client.session.calls import exactly_once, explain, in_parts, waiting
from twofold.client.session.session import Session

__all__ = ["Session", "exactly_once", "explain", "in_parts", "waiting"]
