"""Evaluates networks published by other authors, and prints the table of their results.

    make published                                   # 50,000 games, a few minutes
    make published PUBLISHED_ARGS="--games 1000"

Each network is downloaded once, into .build/published, and its SHA-256 digest is verified.
`twofold convert-weights` converts it, and `twofold evaluate` plays with it. A network that can't be
downloaded is skipped and listed. Results are kept in runs/published.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import figures
import tables
from downloads import REPOSITORY, Download, Unavailable
from figures import output


@dataclass(frozen=True)
class Network:
    """A published network."""

    name: str
    label: str
    download: Download


NETWORKS = (
    Network(
        "szubert-jaskowski",
        "Szubert and Jaśkowski's best standard network, 17 four-tuples",
        Download(
            "https://raw.githubusercontent.com/mszubert/2048/"
            "163d3d95d96e04073cdae0ffc1782ba55a7292f1/players/best_standard_network.bin",
            "fb09b010194f52405e7aa62fed7ac678e45fbf84c009dfc7c112215b8ba8fcbd",
            "published",
        ),
    ),
)


def evaluate(network: Network, games: int, out: Path) -> dict[str, Any]:
    """Evaluates a network, and saves the evaluation in `out`.

    Raises:
        Unavailable: The network can't be fetched.
    """
    file = network.download.fetch()
    converted = file.with_suffix(".npz")
    output("convert-weights", str(file), str(converted))
    result = output("evaluate", f"ntuple:{converted}", "--episodes", str(games))
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{network.name}.json").write_text(json.dumps(result, indent=1) + "\n")
    return result


def main(words: list[str] | None = None) -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--games", type=int, default=50_000, help="games per network")
    add("--out", type=Path, default=REPOSITORY / "runs" / "published", help="folder for results")
    add("--publish", action="store_true", help=figures.HELP)
    options = parser.parse_args(words)
    rows = []
    for network in NETWORKS:
        try:
            found = evaluate(network, options.games, options.out)
            rows.append({"agent": network.label, **tables.evaluated(found)})
        except Unavailable as error:
            print(f"skipped {network.name}: {error}", file=sys.stderr)
    if rows:
        print(tables.published(rows), end="")
    if options.publish:
        figures.publish("published", rows)


if __name__ == "__main__":
    main()
