"""The command `twofold`: a table of subcommands, one module each.

A subcommand's module is imported when it is asked for, so that `twofold --help` stays quick. It has

    add_arguments(parser)      fills an argparse.ArgumentParser with its arguments
    run(arguments) -> int      does it; returns the exit status, 0 for "all is well"

and raises TwofoldError or OSError for what goes wrong; the command line then prints one line and
exits with 1. Wrong usage exits with 2, Ctrl-C with 130.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from twofold.errors import TwofoldError

SUBCOMMANDS = {
    # name: (module, what it does)
    "stats": ("twofold.cli.stats", "print what a server has counted and what it holds"),
    "top": ("twofold.cli.top", "watch a server: rates, latencies, memory, sessions"),
    "evaluate": ("twofold.cli.evaluate", "judge a policy by whole games, with intervals"),
    "replay": ("twofold.cli.replay", "show a recorded game, and verify it"),
    "rollout": ("twofold.cli.rollout", "play with a policy and keep every transition"),
    "verify": (
        "twofold.cli.verify",
        "replay a dataset, and say whether it is right",
    ),
    "version": ("twofold.cli.version", "tell the versions of the client and of what it needs"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one subcommand; the console script `twofold` and `python -m twofold` come here.

    Args:
        arguments: The command line without the program's name; None for this process's own.

    Returns:
        The exit status.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(
        prog="twofold",
        description="Reinforcement-learning environments, served.",
        epilog="`twofold COMMAND --help` tells more about each.",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    # Only the one that is asked for is loaded; the others are names in the help.
    asked = next((word for word in given if not word.startswith("-")), None)
    for name, (module, help_text) in SUBCOMMANDS.items():
        command = commands.add_parser(name, help=help_text, description=_sentence(help_text))
        if name == asked:
            importlib.import_module(module).add_arguments(command)
    parsed = parser.parse_args(given)

    try:
        status = int(importlib.import_module(SUBCOMMANDS[parsed.command][0]).run(parsed))
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output has enough (`twofold … | head`).
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (TwofoldError, OSError) as error:
        print(f"twofold {parsed.command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return status


def script() -> NoReturn:
    """The console script."""
    sys.exit(main())


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
