"""The arguments and the progress bar of the subcommands that play."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from twofold._optional import optional_import
from twofold.errors import InvalidArgument

# Arguments that only one of the games has.
_OF_ONE_GAME = {
    "twofold/Game2048-v0": ("four_probability", "start_tiles", "goal", "stop_at_goal"),
    "twofold/Concentration-v0": ("preset", "symbols", "peeks"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds --no-progress and --endpoint."""
    parser.add_argument("--no-progress", action="store_true", help="show no progress bar")
    parser.add_argument(
        "--endpoint",
        metavar="ADDRESS",
        help="server to play on (default: $TWOFOLD_ENDPOINT, or in this process)",
    )


def add_environment_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds those arguments, --trust-pickle, and the groups of arguments of the environment."""
    parser.add_argument(
        "--trust-pickle", action="store_true", help="load model.zip, which can run any code"
    )
    add_arguments(parser)
    add = parser.add_argument_group("environment").add_argument
    add(
        "--env",
        default="twofold/Game2048-v0",
        metavar="ID",
        help="environment to play (default: %(default)s)",
    )
    add("--num-envs", type=int, metavar="N", help="boards played at once")
    add("--size", metavar="SIZE", help="size of the board: 4, or 3x5 for rows x columns")
    add("--max-episode-steps", type=int, metavar="N", help="truncate episodes after N steps")
    add = parser.add_argument_group("2048").add_argument
    add("--four-probability", type=float, metavar="P", help="probability of a 4 (default: 0.1)")
    add("--start-tiles", type=int, metavar="N", help="tiles on a new board (default: 2)")
    add("--goal", type=int, metavar="TILE", help="tile that counts as a win (default: 2048)")
    add("--stop-at-goal", action="store_true", default=None, help="end the episode at the goal")
    add = parser.add_argument_group("Concentration").add_argument
    add("--preset", metavar="NAME", help="a named set of rules, such as playground")
    add("--symbols", type=int, metavar="N", help="number of different cards")
    add("--peeks", type=int, metavar="N", help="peeks per game")


def environment_arguments(arguments: argparse.Namespace) -> dict[str, Any]:
    """The given arguments for `gymnasium.make_vec`, without env and num_envs.

    Raises:
        InvalidArgument: The size is malformed, or an argument is another game's.
    """
    names = ["endpoint", "max_episode_steps", *(n for own in _OF_ONE_GAME.values() for n in own)]
    given = {name: getattr(arguments, name) for name in names}
    given = {name: value for name, value in given.items() if value is not None}
    for env, own in _OF_ONE_GAME.items():
        for name in given:
            if name in own and arguments.env in _OF_ONE_GAME and arguments.env != env:
                flag = name.replace("_", "-")
                raise InvalidArgument(f"--{flag} is for {env}, not {arguments.env}", field=name)
    if arguments.size is not None:
        try:
            sides = tuple(int(side) for side in arguments.size.split("x"))
        except ValueError:
            sides = ()
        if len(sides) not in (1, 2):
            raise InvalidArgument(
                f"size is {arguments.size!r}; expected 4, or 3x5 for rows x columns", field="size"
            )
        given["size"] = sides[0] if len(sides) == 1 else sides
    return given


@contextlib.contextmanager
def progress(
    name: str, unit: str, arguments: argparse.Namespace
) -> Iterator[Callable[..., None] | None]:
    """Shows a task's progress bar on standard error, if that is a terminal.

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
