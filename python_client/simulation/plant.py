"""Plants each defect in a copy of the sources, builds the copy, and runs the simulation on it.

    make defects                              # with the recorded runs that find the defects
    make defects DEFECTS_ARGS='--search'      # with new runs, starting at the first seed
    make defects DEFECTS_ARGS='--record'      # records runs for defects that have none

Prints a line for each defect: the time and the requests until the simulation found it, and the
violation. The simulation gets a minute on one core for each defect. `--publish` also writes the
results to docs/figures. The exit status is 1 if a defect was not found.
"""

from __future__ import annotations

import argparse
import filecmp
import itertools
import json
import os
import re
import shutil
import signal
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
PUBLISHED = ("defect", "in", "seconds", "requests")


def copy() -> None:
    """Updates the source copy. Unchanged files keep their timestamps, to avoid a rebuild."""
    wanted = {path.relative_to(REPOSITORY) for name in COPIED for path in _files(REPOSITORY / name)}
    for path in wanted:
        target = COPY / path
        if not target.exists() or not filecmp.cmp(REPOSITORY / path, target, shallow=False):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / path, target)
    # Package.resolved is kept: without it, SwiftPM fetches and compiles all dependencies again.
    for target in itertools.chain.from_iterable(_files(COPY / name) for name in COPIED):
        if target.relative_to(COPY) not in wanted:
            target.unlink()


def _files(place: Path) -> list[Path]:
    everything = [place] if place.is_file() else place.rglob("*")
    return [one for one in everything if one.is_file() and "__pycache__" not in one.parts]


def build() -> str | None:
    """Builds the simulation's library from the copy. Returns the errors if the build failed."""
    words = ["swift", "build", "-c", "release", "--product", "twofold-simulation"]
    done = subprocess.run(
        [*words, "--package-path", COPY, "--scratch-path", BUILD / "build"],
        capture_output=True,
        text=True,
    )
    return f"{done.stdout[-4000:]}{done.stderr[-2000:]}" if done.returncode != 0 else None


def search(arguments: list[str]) -> tuple[str, float]:
    """Runs simulate.py with these arguments. Returns its output, and its duration in seconds."""
    words = [sys.executable, str(COPY / "python_client/simulation/simulate.py"), *arguments]
    environment = os.environ | {
        "PYTHONPATH": str(COPY / "python_client/src"),
        "TWOFOLD_LIBRARY": str(REPOSITORY / ".build" / "release" / "libtwofold.so"),
        "TWOFOLD_SIMULATION_LIBRARY": str(LIBRARY),
    }
    began = time.monotonic()
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    output, seconds = done.stdout + done.stderr, time.monotonic() - began
    if done.returncode < 0:
        output += f"\nviolation: the process ended with {signal.Signals(-done.returncode).name}\n"
    return output, seconds


def new_runs(defect: Defect, seconds: float) -> list[str]:
    """Returns simulate.py's arguments for new runs that end at the first violation."""
    words = ["--minutes", str(seconds / 60), "--workers", "1", "--shrink-seconds", "5"]
    return words + (["--steps", "3000", "--models"] if defect.is_swift else [])


def one_run(run: Run) -> list[str]:
    """Returns simulate.py's arguments for a recorded run."""
    numbers = ["--seed", str(run.seed), "--steps", str(run.steps), "--shrink-seconds", "0"]
    return numbers + run.options()


def record(defect: Defect, output: str) -> None:
    """Records the smallest run that found the defect."""
    found = next((line for line in output.splitlines() if line.startswith('{"seed"')), None)
    if found is not None:
        runs = recorded() | {defect.name: Run.from_json(json.loads(found))}
        lines = [json.dumps({"finds": name} | runs[name].as_json()) for name in sorted(runs)]
        RECORDED.write_text("[\n" + ",\n".join(lines) + "\n]\n")


def row(defect: Defect, output: str, seconds: float) -> figures.Row:
    """Returns the results for a defect. The time is None if the simulation did not find it."""
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
    """Returns the line to print for a defect."""
    if row["seen"] is None:
        return f"NOT FOUND: {row['defect']} ({row['in']})"
    requests = "" if row["requests"] is None else f", {row['requests']:,} requests"
    name = f"{row['defect']} ({row['in']})"
    return f"found after {row['seconds']:.1f} s{requests}: {name}: {row['seen']}"


def publish(rows: Iterable[figures.Row], is_unseen: bool) -> None:
    """Writes a row for each defect. If `is_unseen`, writes a row for each kind of defect."""
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
    """Plants the defects that the command line chooses, and prints a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="only defects whose names contain this")
    parser.add_argument(
        "--unseen", action="store_true", help="the defects by an author who had not read this code"
    )
    parser.add_argument("--search", action="store_true", help="do not use the recorded runs")
    parser.add_argument(
        "--record", action="store_true", help="record runs for defects that have none"
    )
    parser.add_argument("--seconds", type=float, default=60, help="seconds for each defect")
    parser.add_argument("--publish", action="store_true", help=figures.HELP)
    options = parser.parse_args()
    copy()
    if failure := build():
        raise SystemExit(f"the build failed:\n{failure}")
    rows = []
    chosen = itertools.chain.from_iterable(UNSEEN.values()) if options.unseen else DEFECTS
    # Python defects come first, because only Swift defects require a build.
    for defect in sorted(chosen, key=lambda defect: defect.is_swift):
        if options.only not in defect.name:
            continue
        path = COPY / defect.path
        text = path.read_text()
        path.write_text(text.replace(defect.text, defect.instead))
        try:
            failure = build() if defect.is_swift else None
            if failure is not None:
                print(f"the build failed:\n{failure}")
                output, seconds = "", 0.0
            else:
                known = None if options.search else recorded().get(defect.name)
                arguments = one_run(known) if known else new_runs(defect, options.seconds)
                output, seconds = search(arguments)
                if options.record and known is None:
                    record(defect, output)
            rows.append(row(defect, output, seconds))
        finally:
            path.write_text(text)
        print(line(rows[-1]), flush=True)
    if options.publish:
        publish(rows, options.unseen)
    return int(any(row["seen"] is None for row in rows))


if __name__ == "__main__":
    sys.exit(main())
