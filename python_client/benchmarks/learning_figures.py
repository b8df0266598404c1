"""Compares runs of `twofold train`: median and range of their mean scores over time.

    twofold train 1.npz --seed 1 --seconds 1800 --evaluate-every 300 --json > 1.json
    twofold train 2.npz --seed 2 --seconds 1800 --evaluate-every 300 --json > 2.json
    python learning_figures.py 1.json 2.json

Prints a Markdown table of the mean scores after the same number of games, moves or minutes of
training, interpolated linearly between evaluations. Each of the three comparisons ends where the
shortest run ends.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tables
from figures import Row

AXES = {"episodes": "games", "steps": "million moves", "seconds": "minutes"}
"""The axes of the comparison: their names in a report, and in the table."""
ROWS = 5


def evaluations(path: Path) -> list[dict[str, Any]]:
    """Returns the evaluations of one training run."""
    found: list[dict[str, Any]] = json.loads(path.read_text())["evaluations"]
    if len(found) < 2:
        raise SystemExit(f"{path} has fewer than two evaluations; train with --evaluate-every")
    return found


def compared(trainings: list[list[dict[str, Any]]]) -> Iterator[Row]:
    """Yields the median, lowest and highest mean score after the same games, moves or seconds."""
    for axis, name in AXES.items():
        end = min(training[-1][axis] for training in trainings)
        begin = max(training[0][axis] for training in trainings)
        for at in np.linspace(begin, end, ROWS):
            scores = [
                np.interp(
                    at,
                    [point[axis] for point in training],
                    [point["evaluation"]["score"]["mean"] for point in training],
                )
                for training in trainings
            ]
            found = {"median": np.median(scores), "lowest": min(scores), "highest": max(scores)}
            yield {"axis": name, "after": float(at), **{k: float(v) for k, v in found.items()}}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Compares runs of `twofold train`.")
    parser.add_argument("reports", type=Path, nargs="+", help="outputs of --json")
    paths = parser.parse_args().reports
    print(tables.learning(compared([evaluations(path) for path in paths])), end="")
