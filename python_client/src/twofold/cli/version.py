"""The subcommand `twofold version`."""

from __future__ import annotations

import argparse
import platform
from collections.abc import Iterator
from importlib.metadata import version

from twofold.cli.common import Result, add_output_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.epilog = "Example: twofold version --json"
    add_output_arguments(parser)


def run(arguments: argparse.Namespace) -> Iterator[Result]:
    """Yields one result: the versions, one per line."""
    versions = {"twofold": version("twofold"), "python": platform.python_version()}
    for package in ("gymnasium", "numpy", "protobuf", "pyzmq"):
        versions[package] = version(package)
    yield Result("\n".join(f"{name:10} {each}" for name, each in versions.items()), versions)
