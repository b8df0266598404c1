"""The command-line arguments and the progress bar of subcommands that play games."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from twofold._arguments import DEFAULT_TIMEOUT
from twofold._optional import optional_import
from twofold._text import printable
from twofold.cli import endpoint
from twofold.cli.common import add_output_arguments
from twofold.envs import BY_ID, GAMES, RegisteredGame
from twofold.errors import InvalidArgument, MissingDependency
from twofold.games.spec import SHARED_ARGUMENTS, GameSpec, full_id


def add_arguments(parser: argparse.ArgumentParser, formats: Sequence[str] = ()) -> None:
    """Adds --quiet, the output arguments and the server arguments."""
    parser.add_argument("--quiet", action="store_true", help="show no progress bar")
    add_output_arguments(parser, formats)
    endpoint.add_arguments(parser, None, "in this process", DEFAULT_TIMEOUT)
    # Twofold's environments have these defaults; environments of other packages lack them.
    parser.set_defaults(endpoint=None, timeout=None)


def add_environment_arguments(
    parser: argparse.ArgumentParser,
    lanes: str,
    formats: Sequence[str] = (),
    games: Sequence[RegisteredGame] = GAMES,
) -> None:
    """Adds the arguments of `add_arguments`, --trust-pickle and the environment's arguments.

    `lanes` describes the default number of boards in words. The environment plays one of `games`,
    and --env chooses it if there are several.
    """
    parser.add_argument(
        "--trust-pickle", action="store_true", help="allow model.zip, which can run arbitrary code"
    )
    add_arguments(parser, formats)
    add = parser.add_argument_group("environment").add_argument
    if len(games) > 1:
        add(
            "--env",
            default=games[0].spec.environment_id,
            metavar="ID",
            help="environment to play (default: %(default)s)",
        )
    add("--num-envs", type=int, metavar="N", help=f"boards to play at once (default: {lanes})")
    add_game_arguments(parser, add, games)


def add_game_arguments(
    parser: argparse.ArgumentParser,
    add: Callable[..., object],
    games: Sequence[RegisteredGame] = GAMES,
) -> None:
    """Adds the games' arguments; uses `add` for the arguments that all games share."""
    add("--size", metavar="SIZE", help="4, or 3x5 for rows x columns (default: 4, or the preset's)")
    add("--max-episode-steps", **SHARED_ARGUMENTS["max_episode_steps"].flag)
    for game in games:
        group = parser.add_argument_group(game.spec.name.capitalize())
        add_rules(game.spec, group.add_argument)


def add_rules(
    game: type[GameSpec], add: Callable[..., object], without: Collection[str] = ()
) -> None:
    """Adds the arguments that only this game has, except those named in `without`."""
    for name in flags(game):
        if name not in without:
            add(f"--{name.replace('_', '-')}", **game.known_arguments[name].flag)


def flags(game: type[GameSpec]) -> list[str]:
    """Returns the names of the arguments that only this game has and that have a flag."""
    return [
        name
        for name, argument in game.known_arguments.items()
        if argument.flag and name not in SHARED_ARGUMENTS
    ]


def environment_arguments(arguments: argparse.Namespace, env: str) -> dict[str, Any]:
    """Returns the given arguments for the environment `env`, without num_envs."""
    given: dict[str, Any] = {}
    played = full_id(env)
    for known, game in BY_ID.items():
        for name in flags(game.spec):
            value = getattr(arguments, name, None)
            if value is not None and played in BY_ID and played != known:
                flag = name.replace("_", "-")
                raise InvalidArgument(f"--{flag} applies to {known} only, not to {env}", field=name)
            given[name] = value
    given["max_episode_steps"] = arguments.max_episode_steps
    given = {name: value for name, value in given.items() if value is not None}
    if arguments.size is not None:
        given["size"] = read_size(arguments.size)
    return given | endpoint.service_arguments(arguments)


def read_size(text: str) -> int | tuple[int, ...]:
    """Returns the value of --size."""
    try:
        sides = tuple(int(side) for side in text.split("x"))
    except ValueError:
        sides = ()
    if len(sides) not in (1, 2):
        raise InvalidArgument(
            f"--size is {text!r}; expected 4, or 3x5 for rows x columns", field="size"
        )
    return sides[0] if len(sides) == 1 else sides


@contextlib.contextmanager
def progress(
    name: str, unit: str, arguments: argparse.Namespace
) -> Iterator[Callable[..., None] | None]:
    """Shows a task's progress bar on standard error if that is a terminal.

    Yields:
        A function (done, total, steps=done) that updates the bar; None if no bar is shown.
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
        rich.TextColumn("{task.description}", markup=False),
        rich.BarColumn(),
        "{task.completed:,.0f} of {task.fields[goal]:,} " + unit,
        "{task.fields[rate]:,.0f} steps/s",
        rich.TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    task = bar.add_task(printable(name), visible=False, goal=0, rate=0)
    # The time and the steps of the first update. A resumed task has earlier steps.
    first: tuple[float, int] | None = None

    def update(done: int, total: int, steps: int | None = None) -> None:
        nonlocal first
        now = time.monotonic(), done if steps is None else steps
        first = first or now
        rate = (now[1] - first[1]) / max(now[0] - first[0], 1e-6)
        bar.update(task, completed=done, total=total, goal=total, rate=rate, visible=True)

    with bar:
        yield update
