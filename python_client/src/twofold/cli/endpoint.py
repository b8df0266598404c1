"""The connection to a server, and its command-line arguments."""

from __future__ import annotations

import argparse
import os
from typing import Any

from twofold.cli.common import numeric
from twofold.client.curve import CLIENT_VARIABLE, SERVER_VARIABLE, CurveKeys
from twofold.errors import InvalidArgument

DEFAULT_ENDPOINT = "tcp://127.0.0.1:5555"


def add_arguments(
    parser: argparse.ArgumentParser,
    default: str | None = DEFAULT_ENDPOINT,
    otherwise: str = DEFAULT_ENDPOINT,
    timeout: float = 5.0,
    is_positional: bool = False,
) -> None:
    """Adds --endpoint, --curve-server, --curve-client and --timeout.

    With `is_positional`, the address can also be given without --endpoint. `default` is the address
    if neither --endpoint nor TWOFOLD_ENDPOINT is set; `otherwise` describes that default in words.
    """
    add = parser.add_argument
    address = parser.add_mutually_exclusive_group()
    if is_positional:
        address.add_argument(
            "endpoint",
            nargs="?",
            default=argparse.SUPPRESS,
            metavar="ADDRESS",
            help="address of the server (default: the value of --endpoint)",
        )
    address.add_argument(
        "--endpoint",
        metavar="ADDRESS",
        default=os.environ.get("TWOFOLD_ENDPOINT") or default,
        help=f"address of the server (default: $TWOFOLD_ENDPOINT, or {otherwise})",
    )
    add(
        "--curve-server",
        metavar="FILE",
        help="public key of an encrypted server (default: $TWOFOLD_CURVE_SERVER)",
    )
    add(
        "--curve-client",
        metavar="FILE",
        help="secret key of this client (default: $TWOFOLD_CURVE_CLIENT)",
    )
    add("--timeout", **numeric(timeout, "time limit for each reply from the server"))


def keys(arguments: argparse.Namespace) -> CurveKeys | None:
    """Returns the keys from the files that the arguments name, or None.

    If only one argument is given, an environment variable names the other file.
    """
    server, client = arguments.curve_server, arguments.curve_client
    if server is None and client is None:
        return None
    server = os.environ.get(SERVER_VARIABLE) if server is None else server
    client = os.environ.get(CLIENT_VARIABLE) if client is None else client
    if not server:
        raise InvalidArgument(f"pass --curve-server too, or set {SERVER_VARIABLE}", field="keys")
    if not client:
        raise InvalidArgument(f"pass --curve-client too, or set {CLIENT_VARIABLE}", field="keys")
    return CurveKeys.load(server, client)


def service_arguments(arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns an environment's endpoint, keys and timeout, omitting any that were not given."""
    names = {"endpoint": arguments.endpoint, "keys": keys(arguments), "timeout": arguments.timeout}
    return {name: value for name, value in names.items() if value is not None}
