"""The plot: steps per second against the number of boards, both logarithmic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.style
import numpy as np
from contestants import ALONE
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter
from rounds import Result, Results

STYLE = Path(__file__).parents[1] / "pictures" / "twofold.mplstyle"


class Line(NamedTuple):
    """A line of the plot."""

    label: str
    contestants: tuple[str, ...]
    """At each N it shows the fastest of these."""
    color: str
    marker: str
    style: str = "-"
    is_bold: bool = False


# Each line has its own marker, for colour-blind readers.
LINES = (
    Line("Twofold, in the process", ("twofold",), "#d55e00", "o", is_bold=True),
    Line("Twofold, over ipc", ("twofold-ipc",), "#d55e00", "o"),
    Line("Twofold, over tcp", ("twofold-tcp",), "#d55e00", "o", "--"),
    Line("numba loop", ("numba", "numba-bitboard", "numba-parallel"), "#7a7a7a", "s"),
    Line("EnvPool", ("envpool", "envpool-play"), "#b8659a", "^"),
    Line("pgx", ("pgx",), "#009e73", "D"),
    Line("Jumanji", ("jumanji",), "#1f83c6", "v"),
    Line("gymnasium-2048", ("gymnasium-2048",), "#8f7d2a", "X"),
)
# Decades between two labels at the same N.
LABEL_DISTANCE = 0.24


def read(path: Path) -> tuple[dict[str, Any], Results]:
    """The run and its results, from the JSON that `end_to_end.py` writes."""
    run = json.loads(path.read_text())
    results = {}
    for one in run["results"]:
        one.pop("rates")
        result = Result(**one)
        results[result.contestant, result.size, result.condition] = result
    return run, results


def draw(run: dict[str, Any], results: Results, path: Path) -> None:
    """Draws the medians of the rounds, alone on the machine."""
    with matplotlib.style.context(STYLE):
        figure = Figure(figsize=(8.5, 5))
        axes = figure.subplots()
        sizes = sorted({one.size for one in results.values()})
        axes.set_xscale("log")
        axes.set_yscale("log")
        _draw_lines(axes, sizes, results)
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axes.minorticks_off()
        axes.yaxis.set_major_formatter(EngFormatter(sep=" "))
        axes.set_title("2048: board steps per second")
        machine = f"{run['machine']['processor']}, {run['machine']['cores']} cores"
        axes.set_xlabel(f"boards stepped in one call ({machine})")
        figure.savefig(path)


def _draw_lines(axes: Axes, sizes: list[int], results: Results) -> None:
    """The lines, each with its label at its end."""
    lowest: dict[int, float] = {}
    ends = []
    for line in LINES:
        rates = {size: _fastest(line, size, results) for size in sizes}
        points = {size: rate for size, rate in rates.items() if rate is not None}
        if points:
            axes.plot(
                list(points),
                list(points.values()),
                color=line.color,
                linestyle=line.style,
                linewidth=3 if line.is_bold else 1.6,
                marker=line.marker,
                markersize=7 if line.is_bold else 5,
            )
            ends.append((*max(points.items()), line))
    # From the highest label down, each far enough below the one before.
    for end, rate, line in sorted(ends, key=lambda one: -one[1]):
        height = lowest[end] = min(np.log10(rate), lowest.get(end, np.inf) - LABEL_DISTANCE)
        axes.annotate(
            line.label,
            (end, 10**height),
            (9, 0),
            textcoords="offset points",
            verticalalignment="center",
            color=line.color,
            fontweight="bold" if line.is_bold else "normal",
        )


def _fastest(line: Line, size: int, results: Results) -> float | None:
    """The highest rate of a line's contestants; None where none was measured."""
    found = [results.get((name, size, ALONE.name)) for name in line.contestants]
    rates = [one.rate for one in found if one is not None and one.rate is not None]
    return max(rates, default=None)
