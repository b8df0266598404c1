"""Progress bars on the terminal."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from twofold._optional import optional_import


def add_argument(parser: argparse.ArgumentParser) -> None:
    """Adds --no-progress."""
    parser.add_argument("--no-progress", action="store_true", help="show no progress bar")


@contextlib.contextmanager
def progress(
    name: str, unit: str, arguments: argparse.Namespace
) -> Iterator[Callable[..., None] | None]:
    """Shows a progress bar on standard error, if that is a terminal.

    Args:
        name: The task.
        unit: The unit of its progress.
        arguments: The parsed arguments, with --no-progress.

    Yields:
        A function (done, total, steps=done) that updates the bar; None without one.

    Raises:
        MissingDependency: rich is not installed.
    """
    if arguments.no_progress or not sys.stderr.isatty():
        yield None
        return
    rich: Any = optional_import("rich.progress", "progress bars (see --no-progress)", "cli")
    console = optional_import("rich.console", "progress bars", "cli").Console(stderr=True)
    bar = rich.Progress(
        "{task.description}",
        rich.BarColumn(),
        "{task.completed:,.0f} of {task.fields[goal]:,} " + unit,
        "{task.fields[rate]:,.0f} steps/s",
        rich.TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    task = bar.add_task(name, visible=False, goal=0, rate=0)
    start = time.monotonic()

    def update(done: int, total: int, steps: int | None = None) -> None:
        rate = (done if steps is None else steps) / max(time.monotonic() - start, 1e-6)
        bar.update(task, completed=done, total=total, goal=total, rate=rate, visible=True)

    with bar:
        yield update
