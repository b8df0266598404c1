"""`twofold verify`."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from twofold import datasets
from twofold.cli import progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("file", type=Path, help="Parquet file written by `twofold rollout`")
    parser.add_argument(
        "--endpoint",
        metavar="ADDRESS",
        help="server to play on (default: $TWOFOLD_ENDPOINT, or in this process)",
    )
    progress.add_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Plays the dataset again and compares."""
    start = time.monotonic()
    with progress.progress(str(arguments.file), "transitions", arguments) as update:
        found = datasets.verify(arguments.file, endpoint=arguments.endpoint, progress=update)
    print(
        f"{arguments.file}: all {found['transitions']:,} transitions are right "
        f"({found['policy']} on {found['environment']}, {found['num_envs']} lanes from seed "
        f"{found['seed']}); {time.monotonic() - start:.3g} s"
    )
    return 0
