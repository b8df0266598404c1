"""The arguments and the progress bar of the subcommands that play."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from twofold._arguments import DEFAULT_TIMEOUT
from twofold._optional import optional_import
from twofold.cli import endpoint
from twofold.cli.common import add_output_arguments
from twofold.errors import InvalidArgument, MissingDependency
from twofold.games.game2048 import OBJECTIVES

# Arguments that only one of the games has.
_OF_ONE_GAME = {
    "twofold/Game2048-v0": ("four_probability", "start_tiles", "goal", "stop_at_goal", "objective"),
    "twofold/Concentration-v0": ("preset", "symbols", "peeks"),
}


def add_arguments(parser: argparse.ArgumentParser, formats: Sequence[str] = ()) -> None:
    """Adds --quiet, and the arguments of the output and of the server."""
    parser.add_argument("--quiet", action="store_true", help="show no progress bar")
    add_output_arguments(parser, formats)
    endpoint.add_arguments(parser, None, "in this process", DEFAULT_TIMEOUT)
    # The environments have these defaults; those of other packages have no such arguments.
    parser.set_defaults(endpoint=None, timeout=None)


def add_environment_arguments(
    parser: argparse.ArgumentParser, lanes: str, formats: Sequence[str] = ()
) -> None:
    """Adds those arguments, --trust-pickle, and the groups of arguments of the environment.

    `lanes` is the default number of boards, in words.
    """
    parser.add_argument(
        "--trust-pickle", action="store_true", help="load model.zip, which can run any code"
    )
    add_arguments(parser, formats)
    add = parser.add_argument_group("environment").add_argument
    add(
        "--env",
        default="twofold/Game2048-v0",
        metavar="ID",
        help="environment to play (default: %(default)s)",
    )
    add("--num-envs", type=int, metavar="N", help=f"boards played at once (default: {lanes})")
    add(
        "--objective",
        choices=OBJECTIVES,
        help="what optimal play of 2048 is the best for (default: score)",
    )
    add_game_arguments(parser, add)


def add_game_arguments(parser: argparse.ArgumentParser, add: Callable[..., object]) -> None:
    """Adds the arguments of the games; `add` takes those that all games have."""
    add("--size", metavar="SIZE", help="4, or 3x5 for rows x columns (default: 4, or the preset's)")
    add(
        "--max-episode-steps",
        type=int,
        metavar="N",
        help="truncate episodes after N steps (default: the preset's, or never)",
    )
    add = parser.add_argument_group("2048").add_argument
    add("--four-probability", type=float, metavar="P", help="probability of a 4 (default: 0.1)")
    add("--start-tiles", type=int, metavar="N", help="tiles on a new board (default: 2)")
    add("--goal", type=int, metavar="TILE", help="tile that counts as a win (default: 2048)")
    add("--stop-at-goal", action="store_true", default=None, help="end the episode at the goal")
    add = parser.add_argument_group("Concentration").add_argument
    add(
        "--preset",
        metavar="NAME",
        help="playground, popgym-easy, popgym-medium or popgym-hard (default: playground)",
    )
    add("--symbols", type=int, metavar="N", help="different symbols (default: half the cards)")
    add("--peeks", type=int, metavar="N", help="peeks in an episode (default: the preset's)")


def environment_arguments(arguments: argparse.Namespace) -> dict[str, Any]:
    """The given arguments for `gymnasium.make_vec`, without env and num_envs.

    Raises:
        InvalidArgument: The size is malformed, or an argument is another game's.
    """
    names = ["max_episode_steps", *(n for own in _OF_ONE_GAME.values() for n in own)]
    given = {name: getattr(arguments, name, None) for name in names}
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
    return given | endpoint.service_arguments(arguments)


@contextlib.contextmanager
def progress(
    name: str, unit: str, arguments: argparse.Namespace
) -> Iterator[Callable[..., None] | None]:
    """Shows a task's progress bar on standard error, if that is a terminal.

    Yields:
        A function (done, total, steps=done) that updates the bar; None without one.
    """
    if arguments.quiet or not sys.stderr.isatty():
        yield None
        return
    try:
        rich: Any = optional_import("rich.progress", "progress bars", "cli")
        console = optional_import("rich.console", "progress bars", "cli").Console(stderr=True)
    except MissingDependency as error:
        print(error, file=sys.stderr)
        yield None
        return
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
