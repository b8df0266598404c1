"""The command `twofold`: a table of subcommands, one module each.

A subcommand's module is imported only when the subcommand runs, which keeps `twofold --help` quick.
The module has these functions, which raise TwofoldError or OSError on failure:

    add_arguments(parser)                 adds the arguments to an argparse.ArgumentParser
    run(arguments) -> Iterable[Result]    runs the subcommand; each result is printed immediately

This module handles errors, exit statuses and JSON for all subcommands, as the page "The command
line" describes.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import os
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from twofold import _text
from twofold.cli.common import show
from twofold.client.lookup import VERSION
from twofold.errors import InvalidArgument, NotFound, TwofoldError

SUBCOMMANDS = {
    # name: (module, help)
    "stats": ("twofold.cli.stats", "print a server's statistics"),
    "evaluate": (
        "twofold.cli.evaluate",
        "evaluate a policy over whole games, or judge a program or chat model",
    ),
    "train": ("twofold.cli.train", "train an n-tuple network to play 2048"),
    "replay": ("twofold.cli.replay", "show and verify a recorded game"),
    "write-dataset": ("twofold.cli.write_dataset", "play with a policy and save every transition"),
    "export": ("twofold.cli.export", "write a dataset for Minari or Hugging Face"),
    "convert-weights": (
        "twofold.cli.convert_weights",
        "convert another program's n-tuple network, for evaluate and write-dataset",
    ),
    "verify": ("twofold.cli.verify", "verify a dataset by playing it again"),
    "serve": ("twofold.cli.serving.server", "start a server"),
    "keygen": ("twofold.cli.serving.server", "make a key pair for a server or a client"),
    "ping": ("twofold.cli.serving.server", "check that a server answers and accepts sessions"),
    "solve": ("twofold.cli.serving.server", "compute the optimum of a small 2048 board"),
    "bench": ("twofold.cli.serving.server", "measure the engines on this machine"),
    "openenv": ("twofold.cli.serving.openenv", "serve a game to OpenEnv's clients"),
    "mcp": ("twofold.cli.serving.mcp", "serve both games as tools for language models (MCP)"),
    "doctor": ("twofold.cli.doctor", "diagnose the installation and print fixes"),
}

FAILED, WRONG_USAGE, INTERRUPTED, TERMINATED = 1, 2, 130, 143
_EPILOG = (
    "Run `twofold COMMAND --help` for the options of a command. serve, keygen, ping, solve and "
    "bench take the options of twofold-server. Exit status: 0 success; 1 failure, or the check "
    "failed; 2 wrong usage (an argument is unknown or invalid; 64 for the options of "
    "twofold-server); 130 interrupted by Ctrl-C; 143 ended by SIGTERM."
)


class UsageError(Exception):
    """The error for a command line that can't be parsed."""


class Terminated(KeyboardInterrupt):
    """The interrupt that SIGTERM raises."""


_REPORTED = (KeyboardInterrupt, UsageError, TwofoldError, OSError, UnicodeError, MemoryError)


class _Once(argparse.Action):
    """Stores an argument's value, and refuses a second one."""

    is_given = False

    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
        if self.is_given and option is not None:
            raise argparse.ArgumentError(self, "given twice")
        self.is_given = True
        setattr(namespace, self.dest, values)


class _Parser(argparse.ArgumentParser):
    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.register("action", None, _Once)

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        raise UsageError(message)

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        # The output of --help and --version into a closed pipe fails here, not in the interpreter.
        print(end="", flush=True)
        super().exit(status, message)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one subcommand, for the console script and `python -m twofold`; returns its exit status.

    `arguments` is the command line without the program's name; None for this process's own.

    Raises:
        SystemExit: After --help and --version, and after twofold-server has run a command.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    name = next((word for word in given if not word.startswith("-")), "")
    as_json = "--json" in given
    try:
        parsed = _parse(given, name)
        parsed.is_console_script = arguments is None
        parsed.words = given
        return _run(parsed, as_json)
    except _REPORTED as error:
        return _fail(f"twofold {name}" if name in SUBCOMMANDS else "twofold", error, as_json)


def _parse(given: list[str], name: str) -> argparse.Namespace:
    """Parses the arguments. Imports only the module of the subcommand `name`."""
    parser = _Parser(
        prog="twofold",
        description="Trains and evaluates agents on 2048 and Concentration, and serves the games.",
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"twofold {VERSION}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for each, (module, help_text) in SUBCOMMANDS.items():
        description = f"{help_text[0].upper()}{help_text[1:]}."
        command = commands.add_parser(
            each, help=help_text, description=description, allow_abbrev=False
        )
        if each == name:
            importlib.import_module(module).add_arguments(command)
    return parser.parse_args(given)


def _run(parsed: argparse.Namespace, as_json: bool) -> int:
    """Prints a subcommand's results. With JSON, nothing else reaches standard output."""
    status, output = 0, sys.stdout
    # A policy's function may also print.
    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        results = importlib.import_module(SUBCOMMANDS[parsed.command][0]).run(parsed)
        # Closing makes the subcommand write its files even if printing its result fails.
        with contextlib.closing(results):
            for result in results:
                text = json.dumps(result.document, allow_nan=False) if as_json else result.text
                print(text, file=output, flush=True)
                status = status if result.succeeded else FAILED
    return status


def _fail(program: str, error: BaseException, as_json: bool) -> int:
    """Prints an error and returns the exit status."""
    text = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.errno is not None and error.filename is not None:
        text = f"{error.filename}: {error.strerror}"
    if not isinstance(error, (KeyboardInterrupt, BrokenPipeError)):
        lines = map(_text.printable, text.split("\n"))  # a message may quote a file
        show(f"{program}: " + "\n".join(lines), sys.stderr)
    fields = vars(error) if isinstance(error, TwofoldError) else {}
    # An evaluation's finished games have been reported.
    fields = {
        key: value
        for key, value in fields.items()
        if key != "evaluation" and value not in (None, "")
    }
    document = {"error": {"type": type(error).__name__, "message": text, **fields}}
    show(json.dumps(document, default=str) if as_json else "", sys.stdout)
    if isinstance(error, KeyboardInterrupt):
        return TERMINATED if isinstance(error, Terminated) else INTERRUPTED
    # NotFound is wrong usage only for a policy: it can also mean that the server lost the session.
    is_unknown = isinstance(error, NotFound) and error.field == "policy"
    is_usage = is_unknown or isinstance(error, (UsageError, InvalidArgument))
    return WRONG_USAGE if is_usage else FAILED


def _one_line(format_default: Callable[..., str]) -> Callable[..., str]:
    """Returns a function that formats Twofold's own warnings as one line, without their place."""
    package = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")

    def format_warning(
        message: Warning | str, category: Any, path: str, *place: Any, **line: Any
    ) -> str:
        if path.startswith(package):
            return f"twofold: warning: {_text.printable(str(message))}\n"
        return format_default(message, category, path, *place, **line)

    return format_warning


def script() -> NoReturn:
    """Runs the console script `twofold`."""

    def terminate(*_: object) -> None:
        raise Terminated("terminated")

    # The streams are None if the caller has closed them.
    sys.stdout, sys.stderr = sys.stdout or io.StringIO(), sys.stderr or io.StringIO()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    warnings.formatwarning = _one_line(warnings.formatwarning)
    signal.signal(signal.SIGTERM, terminate)
    sys.exit(main())
