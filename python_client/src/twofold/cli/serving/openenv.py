"""The subcommand `twofold openenv serve`, which serves a game to OpenEnv clients."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator

from twofold._arguments import DEFAULT_TIMEOUT
from twofold.cli import endpoint, playing
from twofold.cli.common import Result, add_listening_arguments, add_output_arguments, numeric
from twofold.envs import BY_NAME


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.epilog = "Example: twofold openenv serve --port 8000"
    add = parser.add_argument
    add(
        "action",
        choices=["serve"],
        help="serve a game over WebSockets, one board per connection, until a signal stops it; "
        "ENABLE_WEB_INTERFACE=true adds a page for playing at /web",
    )
    add_listening_arguments(parser)
    add("--max-sessions", **numeric(1000, "maximum number of connections that play at once"))
    keep_seconds = "time for which the episode of a lost connection is kept"
    add("--keep-seconds", **numeric(600.0, keep_seconds))
    add("--keep-episodes", **numeric(1000, "maximum number of kept episodes"))
    add(
        "--allow",
        metavar="NAME,…",
        default="",
        help="names of the game's arguments that a client may set at reset, such as size,goal "
        "(default: none)",
    )
    add_output_arguments(parser)
    endpoint.add_arguments(parser, None, "in this process", DEFAULT_TIMEOUT)
    add = parser.add_argument_group("environment").add_argument
    add("--game", choices=BY_NAME, default="2048", help="game (default: %(default)s)")
    add("--reward", metavar="FILE", help="JSON file with the terms of the reward")
    effect = (
        "effect of an illegal action: noop, terminate or, in Concentration, end_turn (default: "
        "noop, or the preset's)"
    )
    add("--illegal-action", metavar="NAME", help=effect)
    playing.add_game_arguments(parser, add)


def run(arguments: argparse.Namespace) -> Iterator[Result]:
    """Yields the URL, then serves until a signal arrives."""
    from twofold.integrations.openenv.app import make_openenv_app
    from twofold.integrations.serving import Runner

    env = BY_NAME[arguments.game].spec.environment_id
    game = playing.environment_arguments(arguments, env)
    for name in ("reward", "illegal_action"):
        if getattr(arguments, name) is not None:
            game[name] = getattr(arguments, name)
    app = make_openenv_app(
        arguments.game,
        max_sessions=arguments.max_sessions,
        allow=[name for name in arguments.allow.split(",") if name],
        keep_seconds=arguments.keep_seconds,
        keep_episodes=arguments.keep_episodes,
        **game,
    )
    runner = Runner(app, arguments.host, arguments.port)
    yield Result(f"listening on {runner.url}", {"url": runner.url, "pid": os.getpid()})
    runner.run()
