"""The arguments that describe an environment, the same for all subcommands."""

from __future__ import annotations

import argparse
from typing import Any

from twofold.errors import InvalidArgument

# Arguments that only one of the games has.
_OF_ONE_GAME = {
    "twofold/Game2048-v0": ("four_probability", "start_tiles", "goal", "stop_at_goal"),
    "twofold/Concentration-v0": ("preset", "symbols", "peeks"),
}


def add_environment_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds a group of arguments."""
    add = parser.add_argument_group("environment").add_argument
    add(
        "--env",
        default="twofold/Game2048-v0",
        metavar="ID",
        help="environment to play (default: %(default)s)",
    )
    add("--num-envs", type=int, metavar="N", help="boards played at once")
    add(
        "--endpoint",
        metavar="ADDRESS",
        help="server to play on (default: $TWOFOLD_ENDPOINT, or in this process)",
    )
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
