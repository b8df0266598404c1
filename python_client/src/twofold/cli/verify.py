"""The subcommand `twofold verify`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

from twofold import datasets
from twofold._tables import significant
from twofold.cli import endpoint, playing
from twofold.cli.common import Result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.epilog = "Example: twofold verify data.parquet"
    parser.add_argument("file", type=Path, help="Parquet file written by `twofold write-dataset`")
    playing.add_arguments(parser)


def run(arguments: argparse.Namespace) -> Iterator[Result]:
    """Replays the dataset and compares every transition."""
    start = time.monotonic()
    with playing.progress(str(arguments.file), "transitions", arguments) as update:
        service = endpoint.service_arguments(arguments)
        found = datasets.verify(arguments.file, progress=update, **service)
    seconds = time.monotonic() - start
    text = (
        f"{arguments.file}: all {found['transitions']:,} transitions are correct "
        f"({found['policy']} on {found['environment']}, {found['num_envs']} lanes from seed "
        f"{found['seed']}); took {significant(seconds)} s"
    )
    yield Result(text, {"file": str(arguments.file), "seconds": seconds, "metadata": found})
