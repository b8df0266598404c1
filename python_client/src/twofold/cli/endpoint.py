"""The client of commands that query a server, and its arguments."""

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
    """Adds --endpoint, --curve-server, --curve-client and --timeout."""
    parser.add_argument(
        "--endpoint",
        metavar="ADDRESS",
        default=os.environ.get("TWOFOLD_ENDPOINT") or DEFAULT_ENDPOINT,
        help=f"address of the server (default: $TWOFOLD_ENDPOINT, or {DEFAULT_ENDPOINT})",
    )
    parser.add_argument(
        "--curve-server",
        metavar="FILE",
        help="public key of an encrypted server (default: $TWOFOLD_CURVE_SERVER)",
    )
    parser.add_argument(
        "--curve-client",
        metavar="FILE",
        help="secret keys of this client (default: $TWOFOLD_CURVE_CLIENT)",
    )
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=5.0,
        metavar="SECONDS",
        help="time that the server has to answer (default: 5)",
    )


def seconds(text: str) -> float:
    """A positive number of seconds."""
    value = float(text)
    if not 0 < value < 1e6:
        raise ValueError
    return value


def keys(arguments: argparse.Namespace) -> CurveKeys | None:
    """The keys in the files that the arguments name, if any.

    Raises:
        InvalidArgument: Only one file is named, or a file has no key.
    """
    if arguments.curve_server is None and arguments.curve_client is None:
        return None
    if arguments.curve_server is None or arguments.curve_client is None:
        raise InvalidArgument("--curve-server and --curve-client belong together", field="curve")
    return CurveKeys.load(arguments.curve_server, arguments.curve_client)


class StatsClient:
    """A connection for any number of queries of a server's statistics.

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

    def query(self) -> statistics.StatsReply:
        """The current statistics.

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
