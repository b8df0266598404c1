"""The subcommands that run twofold-server: serve, keygen, ping, solve and bench."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from typing import NoReturn

from twofold.client.lookup import find_program


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Passes all arguments, including --help, to twofold-server."""
    parser.prefix_chars = "\0"
    parser.add_argument("arguments", nargs=argparse.REMAINDER)


def run(arguments: argparse.Namespace) -> NoReturn:
    """Runs twofold-server. It replaces the console script's process and receives its signals."""
    program = find_program()
    # The first word is the name of the command in the program's help.
    command = ["twofold", arguments.command, *arguments.arguments]
    sys.stdout.flush()
    if arguments.is_console_script and sys.platform != "win32":
        os.execv(program, command)
    sys.exit(subprocess.run(command, executable=program, check=False).returncode)
