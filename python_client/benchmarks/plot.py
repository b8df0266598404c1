"""The documents' style of charts, and a log-log plot of steps per second against boards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import matplotlib.style
import numpy as np
from contestants import ALONE
from figures import Row
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

Rates = Mapping[tuple[str, int], float]
"""The steps per second, by contestant and N."""
STYLE = Path(__file__).parents[1] / "pictures" / "twofold.mplstyle"
"""The matplotlib style of all pictures in the documents."""
WIDTH = 8
"""The width of charts in inches. Pages show them 800 pixels wide, at 100 pixels per inch."""


class Line(NamedTuple):
    """A line in the plot."""

    label: str
    contestants: tuple[str, ...]
    """The contestants. The line shows the fastest of them at each N."""
    color: str
    marker: str
    style: str = "-"
    is_bold: bool = False


# Each line has a different marker, for colour-blind readers.
LINES = (
    Line("Twofold, in the process", ("twofold",), "C0", "o", is_bold=True),
    Line("Twofold, over ipc", ("twofold-ipc",), "C0", "o"),
    Line("Twofold, over tcp", ("twofold-tcp",), "C0", "o", "--"),
    Line("numba loop", ("numba-bitboard", "numba-parallel"), "C5", "s"),
    Line("EnvPool", ("envpool", "envpool-play"), "C3", "^"),
    Line("pgx", ("pgx",), "C2", "D"),
    Line("Jumanji", ("jumanji",), "C1", "v"),
    Line("gymnasium-2048", ("gymnasium-2048",), "C4", "X"),
)
# The minimum distance between two labels at the same N, in decades.
LABEL_DISTANCE = 0.24


def draw(rows: Sequence[Row], machine: str, path: Path) -> None:
    """Draws the rates that the contestants reach when they run alone.

    Args:
        rows: The rows of docs/figures/bench.json, which `end_to_end.py` writes.
        machine: The machine's name.
        path: The image file.
    """
    # Some rows have only the time of a call.
    rates = {
        (row["contestant"], row["size"]): row.get("rate") or 1e6 * row["size"] / row["microseconds"]
        for row in rows
        if row.get("condition") == ALONE.name
    }
    with chart(path, 4.6) as figure:
        axes = figure.subplots()
        sizes = sorted({size for _, size in rates})
        axes.set_xscale("log")
        axes.set_yscale("log")
        _draw_lines(axes, sizes, rates)
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axes.minorticks_off()
        axes.yaxis.set_major_formatter(EngFormatter(sep=" "))
        axes.set_title("2048: board steps per second")
        axes.set_xlabel(f"boards stepped in one call ({machine})")


@contextmanager
def chart(path: Path, height: float) -> Iterator[Figure]:
    """Yields a figure in the documents' style, `height` inches high, then writes it to `path`."""
    with matplotlib.style.context(STYLE):
        figure = Figure(figsize=(WIDTH, height))
        yield figure
        figure.savefig(path)


def label(
    axes: Axes,
    text: str,
    place: tuple[float, float],
    color: str,
    *,
    is_left: bool = False,
    is_bold: bool = False,
) -> None:
    """Writes text to the right of a point, or to its left."""
    axes.annotate(
        text,
        place,
        (-9 if is_left else 9, 0),
        textcoords="offset points",
        horizontalalignment="right" if is_left else "left",
        verticalalignment="center",
        color=color,
        fontweight="bold" if is_bold else "normal",
    )


def _draw_lines(axes: Axes, sizes: list[int], known: Rates) -> None:
    """Draws the lines, each with a label at its end."""
    lowest: dict[int, float] = {}
    ends = []
    for line in LINES:
        rates = {size: _fastest(line, size, known) for size in sizes}
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
    # From the highest label down, each far enough below the previous one.
    for end, rate, line in sorted(ends, key=lambda one: -one[1]):
        height = lowest[end] = min(np.log10(rate), lowest.get(end, np.inf) - LABEL_DISTANCE)
        label(axes, line.label, (end, 10**height), line.color, is_bold=line.is_bold)


def _fastest(line: Line, size: int, known: Rates) -> float | None:
    """Returns the highest rate of a line's contestants, or None if none was measured."""
    rates = [known[name, size] for name in line.contestants if (name, size) in known]
    return max(rates, default=None)
