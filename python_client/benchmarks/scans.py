"""Compares Twofold with pgx and Jumanji inside `jax.lax.scan`, on the CPU, in one run.

    .venv/bin/python python_client/benchmarks/scans.py
    .venv/bin/python python_client/benchmarks/scans.py --quick

Each package steps N boards, with given actions and with random legal actions drawn inside the scan
(`peers/jax_packages.py`). The packages take turns, in several rounds. Prints the medians of the
rates, and the medians of the rounds' ratios. The packages are installed on the first run, each into
a virtual environment under .build/.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
from pathlib import Path

import environments
import figures
import machine
import tables
from contestants import ALONE, Contestant
from rounds import Results, Rounds

SIZES = (1, 64, 4096)
PACKAGES = {"twofold": "twofold-jax", "pgx": "pgx", "jumanji": "jumanji"}
"""The packages, and the names of their virtual environments."""

CONTESTANTS = [
    Contestant(f"{package}-{actions}", "", ("jax_packages.py", package, actions), environment)
    for actions in ("given", "random")
    for package, environment in PACKAGES.items()
]


def rows_of(results: Results) -> list[figures.Row]:
    """Returns a row for each contestant and number of boards.

    Raises:
        SystemExit: A contestant failed.
    """
    rows = []
    for contestant, size in itertools.product(CONTESTANTS, SIZES):
        _, package, actions = contestant.command
        result = results[contestant.name, size, ALONE.name]
        if result.rate is None:
            raise SystemExit(f"{contestant.name}, N = {size}: {result.failure}")
        twofold = results[f"twofold-{actions}", size, ALONE.name].rates
        ratios = [ours / theirs for ours, theirs in zip(twofold, result.rates, strict=True)]
        rows.append(
            {
                "package": package,
                "actions": actions,
                "size": size,
                "rate": result.rate,
                "range": [min(result.rates), max(result.rates)],
                "ratio": statistics.median(ratios),
            }
        )
    return rows


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, help="rounds for each N (7)")
    parser.add_argument("--seconds", type=float, help="seconds per slice (0.5)")
    parser.add_argument("--quick", action="store_true", help="3 rounds, slices of 0.1 s")
    parser.add_argument("--publish", action="store_true", help=figures.HELP)
    options = parser.parse_args()
    count = options.rounds or (3 if options.quick else 7)
    seconds = options.seconds or (0.1 if options.quick else 0.5)
    with machine.alone(environments.VENVS), tempfile.TemporaryDirectory() as logs:
        pythons, _ = environments.install(CONTESTANTS)
        rounds = Rounds(pythons, Path(logs))
        for size in SIZES:
            rounds.run(CONTESTANTS, size, [ALONE], count, seconds)
    busy = max(rounds.busy_cores)
    print(f"{figures.processor()}; while the benchmark waited, up to {busy:.2f} cores were busy\n")
    rows = rows_of(rounds.results)
    print(tables.scans(rows), end="")
    if options.publish:
        figures.publish("jax", rows)


if __name__ == "__main__":
    main()
