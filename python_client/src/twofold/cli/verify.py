"""`twofold verify`."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from twofold import datasets
from twofold.cli.progress import ProgressLine


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("file", type=Path, help="data.parquet, written by `twofold rollout`")
    parser.add_argument(
        "--endpoint", help="of a server; default: TWOFOLD_ENDPOINT, or one of its own"
    )


def run(arguments: argparse.Namespace) -> int:
    """Plays all of it again."""
    line, start = ProgressLine(str(arguments.file), "transitions"), time.monotonic()
    try:
        told = datasets.verify(arguments.file, endpoint=arguments.endpoint, progress=line)
    finally:
        line.clear()
    seconds = time.monotonic() - start
    print(
        f"{arguments.file}: all {told['transitions']:,} transitions are right "
        f"({told['policy']} on {told['environment']}, {told['num_envs']} lanes from seed "
        f"{told['seed']}); {seconds:.3g} s"
    )
    return 0
