"""Checks on a server: its address, its keys, the connection and its protocol."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

from twofold.client.carrier import PROTOCOL_VERSION
from twofold.client.curve import CurveKeys
from twofold.client.endpoints import EMBEDDED, PRIVATE, check_address, check_keys
from twofold.client.lookup import VERSION
from twofold.client.zeromq import ZeroMQCarrier
from twofold.doctor.findings import Finding, failed, ok, warning
from twofold.errors import (
    AuthenticationFailed,
    InvalidArgument,
    PermissionDenied,
    TransportError,
    TwofoldError,
    UnsupportedVersion,
)

_START = "Start a server there (`twofold serve --endpoint {endpoint}`), or correct the address."
_NO_KEYS = (
    "Ask the operator for the server's public key, give the operator yours for "
    "`--curve-clients`, and name both files (--curve-server, --curve-client)."
)
_OWN_KEY = (
    "Ask the operator to add your public key to the list given as `--curve-clients`; the server "
    "reads the list again on SIGHUP."
)
_SERVER_KEY = (
    "Ask the operator for the server's public key, and name its file (--curve-server). Without "
    "encryption, pass no keys."
)
_NOT_ENCRYPTED = (
    "Correct the address, or have the operator start the server with `--curve-secret-key` and "
    "`--curve-clients`. Without encryption, pass no keys."
)


def network_findings(endpoint: str, keys: CurveKeys | None, timeout: float) -> Iterator[Finding]:
    """Yields findings about one server, up to the first failure.

    If `keys` is None, the keys come from the files that environment variables name. `timeout` is
    the time limit for each check, in seconds.
    """
    if endpoint in (EMBEDDED, PRIVATE):
        yield ok("endpoint", f"{endpoint!r}: boards run on this machine, without another server")
        return
    try:
        check_address(endpoint)
    except InvalidArgument as error:
        yield failed("endpoint", str(error), "Correct the address (TWOFOLD_ENDPOINT, --endpoint).")
        return
    yield ok("endpoint", endpoint)
    try:
        keys = check_keys(endpoint, keys)
    except TwofoldError as error:
        yield failed(
            "keys",
            str(error),
            "Correct or leave out --curve-server and --curve-client, or TWOFOLD_CURVE_SERVER and "
            "TWOFOLD_CURVE_CLIENT.",
        )
        return
    yield ok("keys", "encrypted with CURVE" if keys else "none: the connection is not encrypted")
    reach = _reach(endpoint, timeout)
    yield reach
    if reach.status != "failed":
        yield from _server(endpoint, keys, timeout)


def _reach(endpoint: str, timeout: float) -> Finding:
    """Checks that something accepts connections at an endpoint."""
    scheme, _, place = endpoint.partition("://")
    host, _, port = place.rpartition(";")[2].rpartition(":")
    try:
        if scheme == "ipc":
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(place)
        else:
            socket.create_connection((host.strip("[]"), int(port)), timeout).close()
    except socket.gaierror as error:
        return failed("reach", f"{host}: {error.strerror}", "Correct the host's name.")
    except UnicodeError:
        text = f"{host} has an empty part, or one of more than 63 characters"
        return failed("reach", text, "Correct the host's name.")
    except TimeoutError:
        return failed(
            "reach",
            f"{endpoint} does not answer within {timeout:g} s",
            "Open the port in every firewall on the route, or correct the address.",
        )
    except OSError as error:
        if scheme == "ipc" and isinstance(error, PermissionError):
            return failed(
                "reach",
                f"{endpoint}: no permission",
                "Ask the owner for write access to the socket's file and its directory.",
            )
        return failed("reach", f"{endpoint}: {error.strerror}", _START.format(endpoint=endpoint))
    return ok("reach", f"{endpoint} accepts connections")


def _server(endpoint: str, keys: CurveKeys | None, timeout: float) -> Iterator[Finding]:
    """Yields the findings from a hello request to a server."""
    carrier = ZeroMQCarrier(endpoint, keys=keys)
    began = time.monotonic()
    try:
        carrier.hello(began + timeout)
        took = time.monotonic() - began
    except PermissionDenied as error:
        yield failed("handshake", str(error), _OWN_KEY)
        return
    except AuthenticationFailed as error:
        if error.reason == "no_key":
            yield failed("handshake", f"{endpoint} requires a key", _NO_KEYS)
        elif error.reason == "unauthorised":
            yield failed("handshake", f"{endpoint} refuses this client's key", _OWN_KEY)
        elif error.reason == "not_encrypted":
            yield failed("handshake", f"{endpoint} does not encrypt", _NOT_ENCRYPTED)
        else:
            yield failed("handshake", str(error), _SERVER_KEY)
        return
    except UnsupportedVersion as error:
        yield failed("protocol", str(error), "Install the same version of Twofold on both sides.")
        return
    except TransportError as error:
        yield failed(
            "protocol",
            str(error),
            "Another program listens there, or the server hangs: correct the address, or restart "
            "the server.",
        )
        return
    finally:
        carrier.close()
    yield ok("protocol", f"version {PROTOCOL_VERSION}; hello took {took * 1e3:.1f} ms")
    service, limits = carrier.service, carrier.service.limits
    if service.server_version != VERSION:
        yield warning(
            "server",
            f"version {service.server_version}; this package has {VERSION}",
            "Install the same version of Twofold on both sides.",
        )
    else:
        yield ok("server", f"version {service.server_version}, {service.threads} threads")
    sessions = f"{limits.max_sessions:,} sessions"
    if keys:  # The server distinguishes clients by their keys.
        sessions += f", {limits.max_sessions_per_client:,} of them for one key"
    yield ok(
        "limits",
        f"{sessions}; {limits.max_boards:,} boards, {limits.max_boards_per_session:,} of them in "
        f"one session; {limits.max_bytes / 2**20:,.0f} MiB",
    )
