"""`twofold top`."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from twofold._optional import optional_import
from twofold.cli import endpoint
from twofold.cli.stats import head, rate, requests_table, sessions_table
from twofold.v1 import statistics_pb2 as statistics


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    endpoint.add_arguments(parser)
    add = parser.add_argument
    add(
        "--interval",
        type=endpoint.seconds,
        default=1.0,
        metavar="SECONDS",
        help="time between two views (default: 1)",
    )
    add("--count", type=int, metavar="N", help="exit after N views (default: run until Ctrl-C)")


def run(arguments: argparse.Namespace) -> int:
    """Shows views until interrupted; in place on a terminal, otherwise one after the other."""
    views = itertools.count() if arguments.count is None else range(arguments.count)
    with endpoint.connected(arguments) as query, contextlib.suppress(KeyboardInterrupt):
        before, queried = query(), time.monotonic()
        with _screen() as show:
            for _ in views:
                time.sleep(max(0.0, queried + arguments.interval - time.monotonic()))
                queried = time.monotonic()
                now = query()
                show(view(before, now))
                before = now
    return 0


@contextlib.contextmanager
def _screen() -> Iterator[Callable[[str], None]]:
    """A function that shows a view: on a terminal in place, cropped to it, otherwise printed."""
    if not sys.stdout.isatty():
        yield lambda text: print(text, end="\n\n", flush=True)
        return
    rich: Any = optional_import("rich.live", "views on a terminal", "cli")
    rich_text: Any = optional_import("rich.text", "views on a terminal", "cli")
    with rich.Live(screen=True, auto_refresh=False) as live:
        yield lambda text: live.update(rich_text.Text(text, no_wrap=True), refresh=True)


def view(before: statistics.StatsReply, now: statistics.StatsReply) -> str:
    """The rates between two replies of a server, and the state at the second one."""
    old, new, seconds = before.counters, now.counters, now.uptime - before.uptime
    if seconds < 0:  # another server has taken its place
        old, seconds = statistics.Counters(), now.uptime
    seconds = max(1e-6, seconds)
    parts = [
        head(now),
        f"{rate((new.steps - old.steps) / seconds)} steps/s, "
        f"{rate((new.executed - old.executed) / seconds)} requests/s\n"
        f"repeated by clients {new.resent + new.parked:,}, refused {new.refused:,}, "
        f"dropped {new.dropped:,}, keys refused {new.keys_refused:,}",
        requests_table(now),
    ]
    if now.sessions:  # the busiest first
        parts.append(sessions_table(sorted(now.sessions, key=lambda session: session.idle)))
    return "\n\n".join(parts)
