"""The command `twofold`: a table of subcommands, one module each.

A subcommand's module is imported when it runs, so that `twofold --help` stays quick. It has

    add_arguments(parser)      adds its arguments to an argparse.ArgumentParser
    run(arguments) -> int      runs it; returns the exit status, 0 for success

and raises TwofoldError or OSError on failure; the command line then prints one line and exits with
1. Wrong usage exits with 2, Ctrl-C with 130.
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
    # name: (module, help)
    "stats": ("twofold.cli.stats", "print a server's statistics"),
    "top": ("twofold.cli.top", "watch a server's rates, latencies, memory and sessions"),
    "evaluate": ("twofold.cli.evaluate", "evaluate a policy over whole games"),
    "replay": ("twofold.cli.replay", "show and verify a recorded game"),
    "rollout": ("twofold.cli.rollout", "play with a policy and save every transition"),
    "verify": ("twofold.cli.verify", "verify a dataset by playing it again"),
    "serve": ("twofold.cli.server", "start a server (twofold-server serve)"),
    "keygen": ("twofold.cli.server", "make a pair of keys (twofold-server keygen)"),
    "ping": ("twofold.cli.server", "ask a server whether it is there (twofold-server ping)"),
    "doctor": ("twofold.cli.doctor", "find out why something does not work, and how to mend it"),
    "version": ("twofold.cli.version", "print the versions of twofold and its dependencies"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one subcommand; the console script `twofold` and `python -m twofold` call it.

    Args:
        arguments: The command line without the program's name; by default this process's own.

    Returns:
        The exit status.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(
        prog="twofold",
        description="Reinforcement-learning environments, served.",
        epilog="Run `twofold COMMAND --help` for the options of a command.",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    # Only this one is imported; the others are lines of the help.
    selected = next((word for word in given if not word.startswith("-")), None)
    for name, (module, help_text) in SUBCOMMANDS.items():
        description = f"{help_text[0].upper()}{help_text[1:]}."
        command = commands.add_parser(name, help=help_text, description=description)
        if name == selected:
            importlib.import_module(module).add_arguments(command)
    parsed = parser.parse_args(given)
    parsed.is_console_script = arguments is None

    try:
        status = int(importlib.import_module(SUBCOMMANDS[parsed.command][0]).run(parsed))
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe (`twofold … | head`).
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
