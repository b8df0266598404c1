"""`twofold version`."""

from __future__ import annotations

import argparse
import platform
from importlib.metadata import version


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds nothing; the command has no arguments."""


def run(arguments: argparse.Namespace) -> int:
    """Prints one line per version."""
    print(f"twofold    {version('twofold')}")
    print(f"python     {platform.python_version()}")
    for package in ("gymnasium", "numpy", "protobuf", "pyzmq"):
        print(f"{package:10} {version(package)}")
    return 0
