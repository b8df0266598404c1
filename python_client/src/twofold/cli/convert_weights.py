"""The subcommand `twofold convert-weights`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from twofold.cli.common import Result, add_output_arguments, check_outputs
from twofold.policies import read_network


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.epilog = (
        "Example: twofold convert-weights best_standard_network.bin network.npz, and then "
        "twofold evaluate ntuple:network.npz"
    )
    parser.add_argument(
        "file",
        type=Path,
        help="network from Szubert and Jaśkowski's 2048 (github.com/mszubert/2048) or from "
        "TDL2048-Demo (github.com/moporgic/TDL2048-Demo)",
    )
    parser.add_argument("out", type=Path, help=".npz file to write")
    add_output_arguments(parser)


def run(arguments: argparse.Namespace) -> Iterator[Result]:
    """Reads the network and writes it in Twofold's format."""
    check_outputs([arguments.out], arguments.file)
    network = read_network(arguments.file)
    network.save(arguments.out)
    document = {
        "file": str(arguments.file),
        "out": str(arguments.out),
        "bytes": arguments.out.stat().st_size,
        "tuples": len(network.tuples),
        "exponents": network.exponents,
        "symmetric": network.symmetric,
        "weights": sum(table.size for table in network.weights),
    }
    text = (
        f"{arguments.out}: {document['tuples']} tuples, {document['exponents']} exponents, "
        f"{document['weights']:,} weights, {'' if network.symmetric else 'not '}symmetric; "
        f"{document['bytes'] / 1e6:,.1f} MB"
    )
    yield Result(text, document)
