"""Where a service is: what `endpoint` says, and the carrier that leads there."""

from __future__ import annotations

import os
import warnings

from twofold.client import private_server
from twofold.client.carrier import Carrier
from twofold.client.curve import CurveKeys
from twofold.client.embedded import EmbeddedCarrier, Unavailable
from twofold.client.zeromq import ZeroMQCarrier, check_address
from twofold.errors import InvalidArgument, ServerStartFailed

EMBEDDED = "embedded"
PRIVATE = "private"

_has_warned = False


def resolve(endpoint: str | None) -> str:
    """The endpoint that is meant: None is TWOFOLD_ENDPOINT, and without it this process itself.

    Raises:
        InvalidArgument: It is none.
    """
    if endpoint is None:
        endpoint = os.environ.get("TWOFOLD_ENDPOINT") or _default()
    return endpoint if endpoint in (EMBEDDED, PRIVATE) else check_address(endpoint)


def _default() -> str:
    """The library in this process; where it can't be used, a private server, which is told once."""
    global _has_warned
    try:
        EmbeddedCarrier()
    except Unavailable as error:
        if not _has_warned:
            _has_warned = True
            warnings.warn(
                f"{error}; so each step goes to a private server, over ZeroMQ",
                RuntimeWarning,
                stacklevel=2,
            )
        return PRIVATE
    return EMBEDDED


def open_carrier(endpoint: str, curve: CurveKeys | None, deadline: float) -> Carrier:
    """A carrier to a resolved endpoint.

    Args:
        endpoint: What `resolve` has returned.
        curve: Keys, or None for those that environment variables name.
        deadline: When to give up starting a server, on the clock of `time.monotonic`.

    Raises:
        InvalidArgument: The endpoint takes no keys.
        ServerStartFailed: There is no service to be had.
    """
    keys = check_curve(endpoint, curve)
    if endpoint == EMBEDDED:
        try:
            return EmbeddedCarrier()
        except Unavailable as error:
            raise ServerStartFailed(str(error)) from None
    if endpoint == PRIVATE:
        server = private_server.acquire(deadline)
        return ZeroMQCarrier(server.endpoint, server=server)
    return ZeroMQCarrier(endpoint, curve=keys)


def check_curve(endpoint: str, curve: object) -> CurveKeys | None:
    """The keys for an endpoint: those given, or for tcp those that the environment variables name.

    Raises:
        InvalidArgument: These are no keys, or the endpoint takes none.
    """
    if curve is None:
        return CurveKeys.from_environment() if endpoint.startswith("tcp://") else None
    if not isinstance(curve, CurveKeys):
        raise InvalidArgument(
            f"curve is a {type(curve).__name__}; expected twofold.CurveKeys", field="curve"
        )
    if not endpoint.startswith("tcp://"):
        raise InvalidArgument(
            f"curve is for tcp endpoints; {endpoint!r} takes no keys", field="curve"
        )
    return curve
