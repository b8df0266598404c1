"""`twofold top`: a server's life as it goes on."""

from __future__ import annotations

import argparse
import shutil
import sys
import time

from twofold.cli import endpoint
from twofold.cli.format import amount, rate
from twofold.cli.stats import head, requests_table, sessions_table
from twofold.v1 import statistics_pb2 as statistics

# Move home, clear what is below; on an alternate screen, so that the terminal is as before.
_HOME = "\x1b[H\x1b[J"
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the endpoint's arguments, the interval and the number of views."""
    endpoint.add_arguments(parser)
    parser.add_argument(
        "--interval",
        type=endpoint.positive,
        default=1.0,
        metavar="SECONDS",
        help="time between two views; default: 1",
    )
    parser.add_argument(
        "--count", type=int, default=0, metavar="N", help="stop after so many views; default: never"
    )


def run(arguments: argparse.Namespace) -> int:
    """Shows views until interrupted; on a terminal in place, else one after the other."""
    in_place = sys.stdout.isatty()
    if in_place:
        sys.stdout.write(_ENTER)
    try:
        with endpoint.StatsClient(arguments) as client:
            before, asked = client.ask(), time.monotonic()
            shown = 0
            while not arguments.count or shown < arguments.count:
                time.sleep(max(0.0, asked + arguments.interval - time.monotonic()))
                asked = time.monotonic()
                now = client.ask()
                height = shutil.get_terminal_size().lines if in_place else 0
                text = view(before, now, height)
                sys.stdout.write(_HOME + text if in_place else text + "\n\n")
                sys.stdout.flush()
                before = now
                shown += 1
    except KeyboardInterrupt:
        pass
    finally:
        if in_place:
            sys.stdout.write(_LEAVE)
            sys.stdout.flush()
    return 0


def view(before: statistics.StatsReply, now: statistics.StatsReply, height: int) -> str:
    """One view: the rates between two answers, and what there is at the second one.

    Args:
        before: An earlier answer.
        now: A later answer of the same server.
        height: Lines that there is room for; 0 for any number.
    """
    old, new = before.counters, now.counters
    if now.uptime < before.uptime:  # another server is in its place
        old = statistics.Counters()
    seconds = max(1e-6, now.uptime - before.uptime if now.uptime > before.uptime else now.uptime)
    text = "\n\n".join(
        [
            head(now),
            f"{rate((new.steps - old.steps) / seconds)} steps/s, "
            f"{rate((new.executed - old.executed) / seconds)} requests/s\n"
            f"repeated by clients {amount(new.resent + new.parked)}, "
            f"refused {amount(new.refused)}, dropped {amount(new.dropped)}, "
            f"keys refused {amount(new.keys_refused)}",
            requests_table(now),
        ]
    )
    # The busiest first, as far as there is room: two lines for what stands above them.
    sessions = sorted(now.sessions, key=lambda session: session.idle)
    room = max(0, height - text.count("\n") - 4) if height else len(sessions)
    if sessions and room:
        text += "\n\n" + sessions_table(sessions[:room])
    return text
