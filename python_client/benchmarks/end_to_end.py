"""Compares Twofold with its peers and with the limit of its transport in one run.

Measures each contestant alone, next to a CPU-bound process, and inside a learner's loop:

    .venv/bin/python python_client/benchmarks/end_to_end.py
    .venv/bin/python python_client/benchmarks/end_to_end.py --quick
    .venv/bin/python python_client/benchmarks/end_to_end.py --only 'twofold*,limit-*' --sizes 1

Prints a report, and saves it in runs/bench/ with a plot and all measurements as JSON. Peers are
installed from PyPI on the first run, each into a virtual environment under .build/.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shlex
import sys
from dataclasses import asdict
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import environments
import figures
import machine
import plot
import report
from contestants import (
    ALONE,
    BESIDE,
    CONTESTANTS,
    LEARNER_SIZE,
    LEARNERS,
    NOTHING,
    SIZES,
    SPLIT_SIZES,
    Contestant,
)
from environments import VENVS
from figures import REPOSITORY
from rounds import Rounds
from split import split

from twofold.errors import ServerStartFailed


def main() -> int:
    """Runs the command."""
    arguments = parse()
    with machine.alone(VENVS):
        return measure(arguments)


def measure(arguments: argparse.Namespace) -> int:
    """Installs the peers, measures everything, writes the report, and returns the exit status."""
    started = datetime.datetime.now(datetime.timezone.utc)
    out: Path = arguments.out or REPOSITORY / "runs" / "bench" / f"{started:%Y%m%d-%H%M%S}"
    logs = out / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    run = {
        "started": f"{started:%Y-%m-%d %H:%M} UTC",
        "command": " ".join(["python", *map(shlex.quote, sys.argv)]),
        "sizes": arguments.sizes,
        "rounds": arguments.rounds,
        "seconds": arguments.seconds,
        **machine.describe(),
    }
    pythons, run["packages"] = environments.install(arguments.only)
    # jax takes seconds to compile each shape; later runs reuse the programs in this folder.
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(VENVS / "jax-cache"))
    rounds = Rounds(pythons, logs)
    run["split"] = []
    try:
        for size in arguments.sizes:
            chosen, conditions = list(arguments.only), [ALONE, BESIDE]
            if size == LEARNER_SIZE:
                chosen.insert(0, NOTHING)
                conditions += LEARNERS
            rounds.run(chosen, size, conditions, arguments.rounds, arguments.seconds)
            if size in SPLIT_SIZES:
                run["split"].append(split(size, arguments.rounds)._asdict())
    except KeyboardInterrupt:
        print("interrupted: reporting the results so far", file=sys.stderr)
        run["interrupted"] = True
        rounds.drop_unfinished()
    run["busy_cores"] = rounds.busy_cores
    run["finished"] = f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC"
    write(out, run, rounds, publish=arguments.publish and not run.get("interrupted"))
    return 1 if run.get("interrupted") else 0


def write(out: Path, run: dict[str, Any], rounds: Rounds, *, publish: bool) -> None:
    """Writes the report, JSON and plot, prints the report, and optionally publishes the figures."""
    text = report.markdown(run, rounds.results)
    (out / "end_to_end.md").write_text(text)
    results = rounds.results
    content = run | {
        "results": [asdict(one) | {"rates": one.rates} for one in results.values()],
    }
    (out / "end_to_end.json").write_text(json.dumps(content, indent=1) + "\n")
    rows = report.rows(run, results)
    where = f"{run['machine']['processor']}, {report.cores(run['machine'])}"
    plot.draw(rows, where, out / "end_to_end.png")
    print(text)
    print(f"In {out}: end_to_end.md, end_to_end.json, end_to_end.png", file=sys.stderr)
    if publish:
        figures.publish("bench", [*rows, *engines()])


def engines() -> list[figures.Row]:
    """Measures the engines without a session, on one thread. Returns the fastest engine first."""
    found = figures.output("bench", "--boards", "4096")["rows"]
    rates = {row["engine"]: row for row in found if row["game"] == "2048" and row["threads"] == 1}
    return [
        {"engine": name, "boards": 4096, "threads": 1, "rate": rates[name]["median"]}
        for name in ("kernel, AVX2", "kernel, baseline")
        if name in rates
    ]


def parse() -> argparse.Namespace:
    """Reads and checks the command line."""
    parser = argparse.ArgumentParser(
        description="Compares Twofold with its peers and with the limit of its transport.",
        epilog="contestants: " + ", ".join(contestant.name for contestant in CONTESTANTS),
    )
    parser.add_argument(
        "--sizes", type=_sizes, help="board counts, separated by commas (1,16,256,4096,65536)"
    )
    parser.add_argument("--rounds", type=_positive_int, help="rounds for each N (5)")
    parser.add_argument("--seconds", type=_positive_float, help="seconds per slice (0.5)")
    parser.add_argument(
        "--only",
        type=_contestants,
        default=list(CONTESTANTS),
        help="contestants or patterns such as 'twofold*', separated by commas",
    )
    parser.add_argument(
        "--quick", action="store_true", help="only N = 1 and 4096, 3 rounds, slices of 0.2 s"
    )
    parser.add_argument("--out", type=Path, help="output folder (runs/bench/<date>-<time>)")
    parser.add_argument("--publish", action="store_true", help=f"{figures.HELP}; full runs only")
    arguments = parser.parse_args()
    quick = arguments.quick
    arguments.sizes = arguments.sizes or ([1, 4096] if quick else list(SIZES))
    arguments.rounds = arguments.rounds or (3 if quick else 5)
    arguments.seconds = arguments.seconds or (0.2 if quick else 0.5)
    is_full = arguments.sizes == list(SIZES) and arguments.only == list(CONTESTANTS)
    if arguments.publish and not is_full:
        parser.error("--publish requires all sizes and all contestants; omit --sizes and --only")
    return arguments


def _positive_int(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError
    return value


def _positive_float(text: str) -> float:
    value = float(text)
    if not 0 < value < 3600:
        raise ValueError
    return value


def _sizes(text: str) -> list[int]:
    return sorted({_positive_int(part) for part in text.split(",")})


def _contestants(text: str) -> list[Contestant]:
    chosen = []
    for pattern in text.split(","):
        found = [one for one in CONTESTANTS if fnmatch(one.name, pattern)]
        if not found:
            raise argparse.ArgumentTypeError(f"no contestant matches {pattern!r}; see --help")
        chosen += [one for one in found if one not in chosen]
    return chosen


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ServerStartFailed as failure:
        sys.exit(str(failure))
