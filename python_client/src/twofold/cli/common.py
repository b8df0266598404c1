"""What the subcommands share: their result, and its arguments."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Result:
    """What a subcommand found out.

    Args:
        text: The result for people.
        document: The result in JSON's types, for --json.
        succeeded: False where the thing asked about is not so; the exit status is then 1.
    """

    text: str
    document: Mapping[str, Any]
    succeeded: bool = True


def add_listening_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds --host and --port, of a service over HTTP."""
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="address to listen on for HTTP (default: %(default)s)",
    )
    parser.add_argument(
        "--port",
        type=int,
        default=8000,
        metavar="N",
        help="port for HTTP, 0 for a free one (default: %(default)s)",
    )


def add_output_arguments(parser: argparse.ArgumentParser, formats: Sequence[str] = ()) -> None:
    """Adds --json, and --format if there is a choice of formats, the first one the default."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--json", action="store_true", help="print the result as one line of JSON; an error, too"
    )
    if formats:
        group.add_argument(
            "--format",
            choices=formats,
            default=formats[0],
            help="output format (default: %(default)s)",
        )


def positive(text: str) -> float:
    """A number above 0, below a million."""
    value = float(text)
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0 and below a million")
    return value
