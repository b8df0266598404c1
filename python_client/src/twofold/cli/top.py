"""The subcommand `twofold top`."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from twofold import _arguments
from twofold._optional import optional_import
from twofold.cli import endpoint
from twofold.cli.common import Result, add_output_arguments, numeric
from twofold.cli.stats import as_document, head, rate, requests_table, sessions_table
from twofold.v1 import statistics_pb2 as statistics


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.epilog = "Example: twofold top --interval 5"
    endpoint.add_arguments(parser, is_positional=True)
    add_output_arguments(parser)
    add = parser.add_argument
    add("--interval", **numeric(1.0, "seconds between updates"))
    add("--count", type=int, metavar="N", help="exit after N updates (default: run until Ctrl-C)")


def run(arguments: argparse.Namespace) -> Iterator[Result]:
    """Shows the server's statistics once per interval.

    On a terminal, each view replaces the last one. Otherwise, or if TERM is dumb, each view is a
    separate result.
    """
    views: Iterable[int] = itertools.count()
    if arguments.count is not None:
        views = range(_arguments.integer("count", arguments.count, 1))
    is_drawn = sys.stdout.isatty() and not arguments.json
    with endpoint.connected(arguments) as query:
        before, queried = query(), time.monotonic()
        with _screen() if is_drawn else contextlib.nullcontext() as draw:
            for _ in views:
                time.sleep(max(0.0, queried + arguments.interval - time.monotonic()))
                queried = time.monotonic()
                now = query()
                if draw:
                    draw(view(before, now))
                else:
                    document = as_document(now) | rates(before, now)
                    yield Result(view(before, now) + "\n", document)
                before = now


@contextlib.contextmanager
def _screen() -> Iterator[Callable[[str], None] | None]:
    """Yields a function that draws a view in place, cropped to the terminal.

    Yields None if rich would draw nothing on this terminal.
    """
    rich: Any = optional_import("rich.live", "views on a terminal", "cli")
    console = optional_import("rich.console", "views on a terminal", "cli").Console()
    if not console.is_terminal or console.is_dumb_terminal:
        yield None
        return
    rich_text: Any = optional_import("rich.text", "views on a terminal", "cli")
    with rich.Live(console=console, screen=True, auto_refresh=False) as live:
        yield lambda text: live.update(rich_text.Text(text, no_wrap=True), refresh=True)


def rates(before: statistics.StatsReply, now: statistics.StatsReply) -> dict[str, float]:
    """Returns the steps and executed requests per second between two replies from a server."""
    old, seconds = before.counters, now.uptime - before.uptime
    if seconds < 0 or now.counters.received < old.received:  # the server was restarted
        old, seconds = statistics.Counters(), now.uptime
    seconds = max(1e-6, seconds)
    return {
        "steps_per_second": (now.counters.steps - old.steps) / seconds,
        "requests_per_second": (now.counters.executed - old.executed) / seconds,
    }


def view(before: statistics.StatsReply, now: statistics.StatsReply) -> str:
    """Returns the server's state in reply `now`, with the rates since reply `before`, as text."""
    new, per_second = now.counters, rates(before, now)
    parts = [
        head(now),
        f"{rate(per_second['steps_per_second'])} steps/s, "
        f"{rate(per_second['requests_per_second'])} requests/s\n"
        f"repeated by clients {new.resent + new.parked:,}, refused {new.refused:,}, "
        f"dropped {new.dropped:,}, keys refused {new.keys_refused:,}",
        requests_table(now),
    ]
    if now.sessions:  # the most recently active first
        parts.append(sessions_table(sorted(now.sessions, key=lambda session: session.idle)))
    return "\n\n".join(parts)
