"""The subcommand `twofold mcp`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

from twofold._arguments import DEFAULT_TIMEOUT
from twofold.cli import INTERRUPTED, TERMINATED, endpoint
from twofold.cli.common import Result, add_listening_arguments, add_output_arguments, numeric
from twofold.errors import InvalidArgument


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.epilog = "Example: twofold mcp --http --port 8000"
    add = parser.add_argument
    add("--http", action="store_true", help="serve over HTTP, not over standard input and output")
    add_listening_arguments(parser)
    add("--max-games", **numeric(16, "maximum number of open games per session"))
    add_output_arguments(parser)
    endpoint.add_arguments(parser, None, "in this process", DEFAULT_TIMEOUT)


def run(arguments: argparse.Namespace) -> Iterator[Result]:
    """Serves until the client disconnects or a signal arrives. Over HTTP, first yields the URL."""
    if not arguments.http:
        given = {word.partition("=")[0] for word in arguments.words}
        for name in ("json", "host", "port"):
            if f"--{name}" in given:
                raise InvalidArgument(f"--{name} requires --http", field=name)
    from twofold.integrations.mcp import make_mcp_server

    service = endpoint.service_arguments(arguments)
    server = make_mcp_server(arguments.max_games, **service)
    if not arguments.http:
        # They are None or not a file if the caller has closed them.
        if sys.stdin is None or not hasattr(sys.stdout, "buffer"):
            raise OSError("standard input or output is closed; serve over HTTP with --http")
        # A normal exit would wait for the thread that reads the input, which can't be interrupted,
        # and for calls that wait for a server.
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
        signal.signal(signal.SIGTERM, lambda *_: os._exit(TERMINATED))
        try:
            server.run()
        except Exception as error:
            cause: Any = error
            while len(getattr(cause, "exceptions", "")) == 1:  # anyio raises groups
                cause = cause.exceptions[0]
            raise cause from None
        os._exit(0)
    from twofold.integrations.serving import Runner

    app = server.streamable_http_app(host=arguments.host)
    # Open streams end only with the server, so the shutdown waits for at most 2 s.
    runner = Runner(app, arguments.host, arguments.port, grace=2)
    url = f"{runner.url}/mcp"
    yield Result(f"listening on {url}", {"url": url})
    runner.run()
