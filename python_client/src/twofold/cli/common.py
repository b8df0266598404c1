"""The result of a subcommand, and the arguments and checks that several subcommands share."""

from __future__ import annotations

import argparse
import errno
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twofold.errors import InvalidArgument


@dataclass(frozen=True)
class Result:
    """The result of a subcommand.

    Args:
        text: The result for human readers.
        document: The result in JSON's types, for --json.
        succeeded: False if a check failed; the exit status is then 1.
    """

    text: str
    document: Mapping[str, Any]
    succeeded: bool = True


def check_output(path: Path, *inputs: str | Path) -> None:
    """Checks that an output file can be written, before the result is computed.

    The file must not be one of the `inputs`, which would be lost.

    An existing file keeps its content. A file that the check creates is removed again. Pipes and
    devices are not opened, because closing a pipe would tell its reader that the data has ended.

    Raises:
        InvalidArgument: The file is an input.
        OSError: The file can't be written.
    """
    if path.is_file() and any(os.path.exists(each) and path.samefile(each) for each in inputs):
        raise InvalidArgument(
            f"{path} is also an input; name a different file for the result", field="file"
        )
    if path.exists() and not path.is_file() and not path.is_dir():
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return
    check_folder(path)
    is_new = not path.exists()
    try:
        with path.open("ab"):
            pass
    finally:
        if is_new:
            path.resolve().unlink(missing_ok=True)


def policy_files(*policies: str | None) -> list[str]:
    """Returns the files that policies name, such as file.py:NAME or ntuple:FILE."""
    given = [each for each in policies if each is not None]
    words = [
        word for each in given for word in (each, each.rpartition(":")[0], each.partition(":")[2])
    ]
    return [word for word in words if Path(word).suffix]


def check_folder(path: Path) -> None:
    """Checks that the parent folder of a new file or folder exists.

    Raises:
        FileNotFoundError: It does not exist.
    """
    if not path.parent.exists():
        text = "the folder does not exist; make it first"
        raise FileNotFoundError(errno.ENOENT, text, str(path.parent))


def add_listening_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds --host and --port for an HTTP service."""
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
    """Adds --json, and --format if there are formats; the first format is the default."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--json", action="store_true", help="print the result, or an error, as one line of JSON"
    )
    if formats:
        group.add_argument(
            "--format",
            choices=formats,
            default=formats[0],
            help="output format (default: %(default)s)",
        )


def positive(text: str) -> float:
    """Parses a number above 0 and below a million."""
    value = float(text)
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text} given; must be above 0 and below 1,000,000")
    return value
