"""The arguments that say which environment is meant, the same for all subcommands."""

from __future__ import annotations

import argparse
from typing import Any

from twofold.errors import InvalidArgument

# Those that only one of the games has.
_OF_ONE_GAME = {
    "twofold/Game2048-v0": ("four_probability", "start_tiles", "goal", "stop_at_goal"),
    "twofold/Concentration-v0": ("preset", "symbols", "peeks"),
}


def add_environment_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds them as a group of their own."""
    group = parser.add_argument_group("the environment")
    group.add_argument(
        "--env", default="twofold/Game2048-v0", metavar="ID", help="default twofold/Game2048-v0"
    )
    group.add_argument("--num-envs", type=int, metavar="N", help="boards at once")
    group.add_argument(
        "--endpoint", help="of a server; default: TWOFOLD_ENDPOINT, or this process itself"
    )
    group.add_argument("--size", help="4, or 3x5 for rows x columns")
    group.add_argument(
        "--four-probability", type=float, metavar="P", help="of a new 4; default 0.1"
    )
    group.add_argument("--start-tiles", type=int, metavar="N", help="on a new board; default 2")
    group.add_argument("--goal", type=int, metavar="TILE", help="tile to reach; default 2048")
    group.add_argument(
        "--stop-at-goal", action="store_true", default=None, help="end the episode there"
    )
    group.add_argument("--preset", metavar="NAME", help="of Concentration, such as playground")
    group.add_argument("--symbols", type=int, metavar="N", help="different cards of Concentration")
    group.add_argument("--peeks", type=int, metavar="N", help="in a game of Concentration")
    group.add_argument(
        "--max-episode-steps", type=int, metavar="N", help="truncate then; default never"
    )


def environment_arguments(arguments: argparse.Namespace) -> dict[str, Any]:
    """Those that were given, as `gymnasium.make_vec` takes them; without env and num_envs.

    Raises:
        InvalidArgument: A size that is none, or an argument of another game.
    """
    names = [
        "endpoint",
        "max_episode_steps",
        *(name for own in _OF_ONE_GAME.values() for name in own),
    ]
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
