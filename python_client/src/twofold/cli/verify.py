"""`twofold verify`."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from twofold import datasets
from twofold.cli import playing


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("file", type=Path, help="Parquet file written by `twofold rollout`")
    playing.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Plays the dataset again and compares."""
    start = time.monotonic()
    with playing.progress(str(arguments.file), "transitions", arguments) as update:
        found = datasets.verify(arguments.file, endpoint=arguments.endpoint, progress=update)
    print(
        f"{arguments.file}: all {found['transitions']:,} transitions are right "
        f"({found['policy']} on {found['environment']}, {found['num_envs']} lanes from seed "
        f"{found['seed']}); {time.monotonic() - start:.3g} s"
    )
    return 0
