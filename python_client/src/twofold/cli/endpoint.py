"""The arguments of commands that ask a server, and the asking."""

from __future__ import annotations

import argparse
import os
import time
from types import TracebackType

from twofold.client.carrier import Call
from twofold.client.curve import CurveKeys
from twofold.client.endpoints import check_address, check_curve
from twofold.client.zeromq import ZeroMQCarrier
from twofold.errors import InvalidArgument, from_reply
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import statistics_pb2 as statistics

DEFAULT_ENDPOINT = "tcp://127.0.0.1:5555"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds --endpoint, the keys and --timeout."""
    parser.add_argument(
        "--endpoint",
        default=os.environ.get("TWOFOLD_ENDPOINT") or DEFAULT_ENDPOINT,
        help=f"the server's address; default: TWOFOLD_ENDPOINT, or {DEFAULT_ENDPOINT}",
    )
    parser.add_argument(
        "--curve-server",
        metavar="FILE",
        help="the server's public key, for an encrypted endpoint; default: TWOFOLD_CURVE_SERVER",
    )
    parser.add_argument(
        "--curve-client",
        metavar="FILE",
        help="the secret file with the keys to show; default: TWOFOLD_CURVE_CLIENT",
    )
    parser.add_argument(
        "--timeout",
        type=positive,
        default=5.0,
        metavar="SECONDS",
        help="how long the server may take to answer; default: 5",
    )


def positive(text: str) -> float:
    """A number of seconds, more than 0."""
    value = float(text)
    if not 0 < value < 1e6:
        raise ValueError
    return value


def keys(arguments: argparse.Namespace) -> CurveKeys | None:
    """The keys that the arguments name; None where they name none.

    Raises:
        InvalidArgument: One is named without the other, or a file has no key.
    """
    if arguments.curve_server is None and arguments.curve_client is None:
        return None
    if arguments.curve_server is None or arguments.curve_client is None:
        raise InvalidArgument("--curve-server and --curve-client belong together", field="curve")
    return CurveKeys.load(arguments.curve_server, arguments.curve_client)


class StatsClient:
    """Asks a server for its statistics, as often as wanted, over one connection.

    Args:
        arguments: The parsed arguments, with those of `add_arguments`.
    """

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._timeout: float = arguments.timeout
        endpoint = check_address(arguments.endpoint)
        self._carrier = ZeroMQCarrier(endpoint, curve=check_curve(endpoint, keys(arguments)))

    def __enter__(self) -> StatsClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._carrier.close()

    def ask(self) -> statistics.StatsReply:
        """The statistics now.

        Raises:
            TransportError: No answer in time.
            RequestError: The server refused.
        """
        request = envelope.Request(stats=statistics.StatsRequest())
        call = Call("stats", 0, request.SerializeToString())
        reply, _ = self._carrier.exchange(call, time.monotonic() + self._timeout)
        if reply.HasField("error"):
            raise from_reply(reply.error)
        return reply.stats
