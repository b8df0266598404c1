"""What the subcommands share: their result, and its arguments."""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
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


def check_output(path: Path) -> None:
    """Checks that a file can be written, before the work whose result it gets.

    An existing file keeps its content, a new one is removed again. Pipes and devices are not
    opened: the reader of a pipe would take that for its end.

    Raises:
        OSError: It can't be written.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return
    check_folder(path)
    is_new = not path.exists()
    with path.open("ab"):
        pass
    if is_new:
        path.resolve().unlink()


def check_folder(path: Path) -> None:
    """Checks that the folder exists in which a file or folder is made.

    Raises:
        FileNotFoundError: It does not exist.
    """
    if not path.parent.exists():
        text = "the folder does not exist; make it first"
        raise FileNotFoundError(errno.ENOENT, text, str(path.parent))


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Adds a file's name to an OSError without one, for example where the disk is full."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


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
