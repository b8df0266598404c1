"""Endpoints: the values of the argument `endpoint`, and the carrier for each."""

from __future__ import annotations

import os
import re
import warnings

from twofold import _arguments
from twofold.client import private_server
from twofold.client.carrier import Carrier
from twofold.client.curve import CurveKeys
from twofold.client.embedded import EmbeddedCarrier, library
from twofold.client.surroundings import Surroundings
from twofold.client.system import LONGEST_IPC_PATH
from twofold.client.zeromq import ZeroMQCarrier
from twofold.errors import InvalidArgument, ServerStartFailed

EMBEDDED = "embedded"
PRIVATE = "private"

# ZeroMQ accepts these hosts only. The client's own address and port may precede a semicolon.
_HOST = r"\[[\w:.%-]+\]|\*|[a-zA-Z0-9][\w.-]*"
_TCP = re.compile(rf"tcp://(?:(?:{_HOST}):\d{{1,5}};)?({_HOST}):(\d{{1,5}})", re.ASCII)

_has_warned = False


def resolve(endpoint: str | None) -> str:
    """Returns the endpoint to use; None means TWOFOLD_ENDPOINT, or `_default` if that is unset.

    Raises:
        InvalidArgument: The endpoint is not valid.
    """
    if endpoint is None:
        endpoint = os.environ.get("TWOFOLD_ENDPOINT") or _default()
    return endpoint if endpoint in (EMBEDDED, PRIVATE) else check_address(endpoint)


_EXPECTED = (
    'tcp://host:port, ipc:///path, "private" for a server that only this process uses, or '
    '"embedded" for no server'
)


def check_address(endpoint: str, expected: str = _EXPECTED) -> str:
    """Returns the endpoint if it is a valid address. The error lists what is `expected`."""
    path = _arguments.text("endpoint", endpoint).removeprefix("ipc://")
    match = _TCP.fullmatch(endpoint)
    problem = ""
    if re.search(",(tcp|ipc)://", endpoint):
        problem = "has several addresses, which only a server can listen on"
    elif endpoint == "ipc://":
        problem = "has no path"
    elif path != endpoint and len(os.fsencode(path)) > LONGEST_IPC_PATH:
        problem = f"has a path of more than {LONGEST_IPC_PATH} bytes"
    elif path == endpoint and match is None:
        problem = "is not an address"
    elif match is not None and not 1 <= int(match[2]) <= 65535:
        problem = "has a port outside 1 ... 65535"
    elif match is not None and match[1] == "*":
        problem = "has no host"
    if problem:
        raise InvalidArgument(
            f"endpoint {endpoint!r} {problem}; expected {expected}", field="endpoint"
        )
    return endpoint


def _default() -> str:
    """Returns "embedded". If there is no library, warns once per process and returns "private"."""
    global _has_warned
    if os.environ.get("TWOFOLD_LIBRARY"):
        return EMBEDDED  # which refuses a wrong value
    try:
        library()
    except ServerStartFailed as error:
        if not _has_warned:
            _has_warned = True
            warnings.warn(
                f"{error}; each step goes to a private server over ZeroMQ instead",
                RuntimeWarning,
                stacklevel=2,
            )
        return PRIVATE
    return EMBEDDED


def open_carrier(
    endpoint: str, keys: CurveKeys | None, deadline: float, surroundings: Surroundings
) -> Carrier:
    """Opens a carrier to a resolved endpoint, with the keys that `check_keys` returns.

    Raises:
        InvalidArgument: `keys` is not a CurveKeys, or the endpoint does not support keys.
        ServerStartFailed: No service is available.
    """
    keys = check_keys(endpoint, keys)
    if endpoint == EMBEDDED:
        return EmbeddedCarrier(surroundings)
    if endpoint == PRIVATE:
        server = private_server.running(deadline)
        return ZeroMQCarrier(server.endpoint, server=server, surroundings=surroundings)
    return ZeroMQCarrier(endpoint, keys=keys, surroundings=surroundings)


def check_keys(endpoint: str, keys: object) -> CurveKeys | None:
    """Returns `keys`; if it is None and the endpoint is tcp, the environment variables' keys."""
    if keys is None:
        return CurveKeys.from_environment() if endpoint.startswith("tcp://") else None
    if not isinstance(keys, CurveKeys):
        raise InvalidArgument(
            f"keys is {type(keys).__name__}; expected twofold.CurveKeys", field="keys"
        )
    if not endpoint.startswith("tcp://"):
        raise InvalidArgument(
            f"keys= requires a tcp endpoint; {endpoint!r} is not one", field="keys"
        )
    return keys
