"""`twofold version`."""

from __future__ import annotations

import argparse
import importlib.metadata
import platform


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None."""


def run(arguments: argparse.Namespace) -> int:
    """Prints one line for each version."""
    print(f"twofold    {importlib.metadata.version('twofold')}")
    print(f"python     {platform.python_version()}")
    for package in ("gymnasium", "numpy", "protobuf", "pyzmq"):
        print(f"{package:10} {importlib.metadata.version(package)}")
    return 0
