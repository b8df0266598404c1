"""Plants each defect in a copy of the sources, builds it, and has the simulation find it.

    make defects                              # by the runs that have found them before
    make defects DEFECTS_ARGS='--search'      # by new runs, from the first seed on
    make defects DEFECTS_ARGS='--record'      # keeps the runs of defects that have none

Prints a table: each defect, the time and the requests until it was found, and what was seen. Each
has a minute on one core. With `--publish`, the table of the documents has these figures. Exit
status 1 if one was not found.
"""

from __future__ import annotations

import argparse
import filecmp
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))

import figures
from defects import DEFECTS, REPOSITORY, Defect
from runs import RECORDED, Run, recorded
from unseen import UNSEEN

BUILD = REPOSITORY / ".build" / "defects"
COPY = BUILD / "sources"
LIBRARY = BUILD / "build" / "release" / "libtwofold-simulation.so"
COPIED = ("Package.swift", "Sources", "Tests", "python_client/src", "python_client/simulation")
HEAD = """\
| defect | in | found after | requests | seen |
|---|---|---:|---:|---|"""
PUBLISHED = ("defect", "in", "seconds", "requests")


def copy() -> None:
    """Brings the copy up to date; a file that has not changed is not built again."""
    wanted = {path.relative_to(REPOSITORY) for name in COPIED for path in _files(REPOSITORY / name)}
    for path in wanted:
        target = COPY / path
        if not target.exists() or not filecmp.cmp(REPOSITORY / path, target, shallow=False):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / path, target)
    # Package.resolved stays: without it all dependencies are fetched and compiled again.
    for target in itertools.chain.from_iterable(_files(COPY / name) for name in COPIED):
        if target.relative_to(COPY) not in wanted:
            target.unlink()


def _files(place: Path) -> list[Path]:
    everything = [place] if place.is_file() else place.rglob("*")
    return [one for one in everything if one.is_file() and "__pycache__" not in one.parts]


def build() -> None:
    """Builds the copy's library."""
    words = ["swift", "build", "-c", "release", "--product", "twofold-simulation"]
    done = subprocess.run(
        [*words, "--package-path", COPY, "--scratch-path", BUILD / "build"],
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise SystemExit(f"the build failed:\n{done.stdout[-4000:]}{done.stderr[-2000:]}")


def search(defect: Defect, arguments: list[str]) -> tuple[str, float]:
    """Runs the simulation with some arguments; its output, and how long it took."""
    words = [sys.executable, str(COPY / "python_client/simulation/simulate.py"), *arguments]
    environment = os.environ | {
        "PYTHONPATH": str(COPY / "python_client/src"),
        "TWOFOLD_LIBRARY": str(REPOSITORY / ".build" / "release" / "libtwofold.so"),
        "TWOFOLD_SIMULATION_LIBRARY": str(LIBRARY),
    }
    began = time.monotonic()
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    return done.stdout + done.stderr, time.monotonic() - began


def new_runs(defect: Defect, seconds: float) -> list[str]:
    """Returns the arguments of a campaign that ends at the first violation."""
    words = ["--minutes", str(seconds / 60), "--workers", "1", "--shrink-seconds", "5"]
    return words + (["--steps", "3000", "--models"] if defect.is_swift else [])


def one_run(run: Run) -> list[str]:
    """Returns the arguments of a run that is known."""
    numbers = ["--seed", str(run.seed), "--steps", str(run.steps), "--shrink-seconds", "0"]
    return numbers + run.options()


def record(defect: Defect, output: str) -> None:
    """Keeps the smallest run that has found the defect."""
    found = next((line for line in output.splitlines() if line.startswith('{"seed"')), None)
    if found is not None:
        runs = recorded() | {defect.name: Run.from_json(json.loads(found))}
        lines = [json.dumps({"finds": name} | runs[name].as_json()) for name in sorted(runs)]
        RECORDED.write_text("[\n" + ",\n".join(lines) + "\n]\n")


def row(defect: Defect, output: str, seconds: float) -> figures.Row:
    """Returns what the table says of the defect; the time is None if it was not found."""
    seen = re.search(r"^violation: (.*)", output, re.MULTILINE)
    requests = re.search(r"([\d,]+) requests in", output)
    return {
        "defect": defect.name,
        "in": "Swift" if defect.is_swift else "Python",
        "seconds": round(seconds, 1) if seen else None,
        "requests": int(requests[1].replace(",", "")) if seen and requests else None,
        "seen": seen[1] if seen else None,
    }


def line(row: figures.Row) -> str:
    """Returns a defect's line of the table."""
    found = "" if row["seconds"] is None else f"{row['seconds']:.1f} s"
    requests = "" if row["requests"] is None else f"{row['requests']:,}"
    seen = row["seen"] or "NOT FOUND"
    return f"| {row['defect']} | {row['in']} | {found} | {requests} | {seen} |"


def publish(rows: Iterable[figures.Row], is_unseen: bool) -> None:
    """Writes the figures: of each defect, or of each kind of those by another author."""
    by_name = {row["defect"]: row for row in rows}
    if not is_unseen:
        chosen = (by_name[defect.name] for defect in DEFECTS if defect.name in by_name)
        figures.publish("defects", [{key: one[key] for key in PUBLISHED} for one in chosen])
        return
    kinds = []
    for kind, defects in UNSEEN.items():
        names = [defect.name for defect in defects if defect.name in by_name]
        missed = [name for name in names if by_name[name]["seen"] is None]
        kinds.append({"kind": kind, "defects": len(names), "missed": missed})
    figures.publish("unseen", [kind for kind in kinds if kind["defects"]])


def main() -> int:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="defects whose name contains this")
    parser.add_argument(
        "--unseen", action="store_true", help="the defects whose author had not read the simulation"
    )
    parser.add_argument("--search", action="store_true", help="do not use the runs that are known")
    parser.add_argument(
        "--record", action="store_true", help="keep the runs of defects without one"
    )
    parser.add_argument("--seconds", type=float, default=60, help="how long to look for each")
    parser.add_argument("--publish", action="store_true", help=figures.HELP)
    options = parser.parse_args()
    copy()
    build()
    print(HEAD, flush=True)
    rows = []
    chosen = itertools.chain.from_iterable(UNSEEN.values()) if options.unseen else DEFECTS
    # Those in Python first: the library is built again only for one in Swift.
    for defect in sorted(chosen, key=lambda defect: defect.is_swift):
        if options.only not in defect.name:
            continue
        path = COPY / defect.path
        text = path.read_text()
        path.write_text(text.replace(defect.text, defect.instead))
        try:
            if defect.is_swift:
                build()
            known = None if options.search else recorded().get(defect.name)
            arguments = one_run(known) if known else new_runs(defect, options.seconds)
            output, seconds = search(defect, arguments)
            rows.append(row(defect, output, seconds))
            if options.record and known is None:
                record(defect, output)
        finally:
            path.write_text(text)
        print(line(rows[-1]), flush=True)
    if options.publish:
        publish(rows, options.unseen)
    return int(any(row["seen"] is None for row in rows))


if __name__ == "__main__":
    sys.exit(main())
