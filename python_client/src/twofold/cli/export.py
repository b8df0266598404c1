"""The subcommand `twofold export`."""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

from twofold import datasets
from twofold._tables import significant
from twofold._text import check_folder
from twofold.cli import playing
from twofold.cli.common import Result, add_output_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.epilog = "Example: twofold export data.parquet --minari twofold/random-v0"
    parser.add_argument("file", type=Path, help="Parquet file written by `twofold write-dataset`")
    add = parser.add_mutually_exclusive_group(required=True).add_argument
    add("--minari", metavar="ID", help="id of the dataset to create in Minari's local storage")
    add("--huggingface", type=Path, metavar="FOLDER", help="folder to create, for Hugging Face")
    parser.add_argument("--quiet", action="store_true", help="show no progress bar")
    add_output_arguments(parser)


def run(arguments: argparse.Namespace) -> Iterator[Result]:
    """Writes the dataset in the other format."""
    start = time.monotonic()
    with playing.progress(str(arguments.file), "transitions", arguments) as update:
        if arguments.minari is None:
            folder = arguments.huggingface
            check_folder(folder)
            datasets.to_huggingface(arguments.file, folder, progress=update)
        else:
            with warnings.catch_warnings():
                # Minari warns about a missing author and a missing link to the code.
                warnings.simplefilter("ignore", UserWarning)
                made = datasets.to_minari(arguments.file, arguments.minari, progress=update)
            folder = Path(made.storage.data_path)
    seconds = time.monotonic() - start
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    took = f"{size / 1e6:,.1f} MB in {significant(seconds)} s"
    text = f"{arguments.file} exported to {folder}: {took}"
    document = {"file": str(arguments.file), "folder": str(folder), "bytes": size}
    yield Result(text, document | {"seconds": seconds})
