"""The plot: steps per second against the number of boards, both logarithmic."""

from __future__ import annotations

import statistics
from pathlib import Path

from contestants import ALONE, CONTESTANTS
from matplotlib.figure import Figure
from rounds import Results


def draw(results: Results, title: str, path: Path) -> None:
    """Draws every measured contestant; bars reach from the lowest to the highest round."""
    figure = Figure(figsize=(9.5, 6), layout="constrained")
    axes = figure.subplots()
    sizes = sorted({one.size for one in results.values()})
    for contestant in CONTESTANTS:
        measured = [results.get((contestant.name, size, ALONE.name)) for size in sizes]
        points = [one for one in measured if one is not None and one.rate is not None]
        if not points:
            continue
        medians = [statistics.median(one.rates) for one in points]
        below = [median - min(one.rates) for median, one in zip(medians, points, strict=True)]
        above = [max(one.rates) - median for median, one in zip(medians, points, strict=True)]
        axes.errorbar(
            [one.size for one in points],
            medians,
            yerr=[below, above],
            label=contestant.label.replace("*", "").replace("`", ""),
            color=contestant.line.color,
            linestyle=contestant.line.style,
            linewidth=contestant.line.width,
            marker="o",
            markersize=4,
            capsize=2,
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.minorticks_off()
    axes.set_xlabel("boards N")
    axes.set_ylabel("steps per second")
    axes.grid(True, which="major", color="#e5e5e5", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title, loc="left", fontsize=10)
    if axes.lines:
        figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    figure.savefig(path, dpi=150)
