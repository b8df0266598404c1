"""The result of a subcommand, and the arguments and checks that several subcommands share."""

from __future__ import annotations

import argparse
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from twofold._text import check_writable
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


def show(text: str, stream: TextIO) -> None:
    """Prints text, unless it is empty. Then flushes the stream, or silences it if that fails."""
    try:
        print(text, end="\n" if text else "", file=stream, flush=True)
    except OSError:
        # The pipe is closed or the disk is full. The interpreter flushes again when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def check_outputs(paths: Iterable[Path], *inputs: str | Path) -> None:
    """Checks that the files of results can be written, before the results are computed.

    A file must not be one of the `inputs`, which would be lost, and no two results may have the
    same file. Nor may it be the file or pipe to which standard output is redirected, because that
    gets the command's text.

    Raises:
        InvalidArgument: A file is an input, the standard output, or named twice.
        OSError: A file can't be written.
    """
    checked: set[str] = set()
    for path in paths:
        problem = ""
        if _is_standard_output(path):
            problem = "the standard output, which gets the command's text"
        elif path.is_file() and any(
            os.path.exists(each) and path.samefile(each) for each in inputs
        ):
            problem = "also an input"
        elif os.path.realpath(path) in checked:
            problem = "given for two results"
        if problem:
            raise InvalidArgument(f"{path} is {problem}; name a different file", field="file")
        check_writable(path)
        checked.add(os.path.realpath(path))


def _is_standard_output(path: Path) -> bool:
    try:
        status, output = os.stat(path), os.fstat(1)  # sys.stdout may be replaced
    except OSError:
        return False
    return os.path.samestat(status, output) and not stat.S_ISCHR(status.st_mode)


def policy_files(*policies: str | None) -> list[str]:
    """Returns the files of policies such as ntuple:FILE, file.py:NAME, module:NAME or model.zip."""
    files = []
    for policy in policies:
        if policy is None:
            continue
        module = policy.rpartition(":")[0]
        if policy.startswith("ntuple:"):
            files.append(policy.removeprefix("ntuple:"))
        elif module:
            files.append(module if module.endswith(".py") else f"{module.replace('.', '/')}.py")
        elif policy.endswith(".zip"):
            files.append(policy)
    return files


def add_listening_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds --host and --port for an HTTP service."""
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="address to listen on for HTTP (default: %(default)s)",
    )
    parser.add_argument("--port", **numeric(8000, "port for HTTP, 0 for a free one"))


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


def numeric(default: float, text: str, metavar: str = "") -> dict[str, Any]:
    """Returns the arguments of `add_argument` for a number like `default`, which the help shows.

    A float is a number of seconds, unless `metavar` says otherwise, and must be positive.
    """
    is_whole = isinstance(default, int)
    return {
        "type": int if is_whole else positive,
        "default": default,
        "metavar": metavar or ("N" if is_whole else "SECONDS"),
        "help": f"{text} (default: {default:g})",
    }


def positive(text: str) -> float:
    """Parses a number above 0 and below a million."""
    value = float(text)
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text} given; must be above 0 and below 1,000,000")
    return value
