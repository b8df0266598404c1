"""The plot: steps per second against the number of boards, both logarithmic."""

from __future__ import annotations

import statistics
from pathlib import Path

from contestants import CONTESTANTS
from matplotlib.figure import Figure
from rounds import Result

# (colour, line, width): the limit is a grey border, Twofold stands out, peers have a hue each.
_STYLES = {
    "limit-ipc": ("#888888", "--", 1.5),
    "limit-tcp": ("#bbbbbb", "--", 1.2),
    "twofold-ipc": ("#c8102e", "-", 2.8),
    "raw-ipc": ("#c8102e", ":", 1.5),
    "bare-ipc": ("#e0909c", ":", 1.2),
    "twofold-tcp": ("#e8772e", "-", 2.2),
    "raw-tcp": ("#e8772e", ":", 1.5),
    "numba": ("#1f5fa8", "-", 1.5),
    "numba-bitboard": ("#4f9bd9", "-", 1.5),
    "numba-parallel": ("#4f9bd9", "-.", 1.5),
    "numpy": ("#2a8f57", "-", 1.5),
    "envpool": ("#7a4fb0", "-", 1.5),
    "pgx": ("#b8860b", "-", 1.5),
    "jumanji": ("#8c564b", "-", 1.5),
    "gymnasium-2048": ("#333333", "-", 1.5),
}


def draw(results: dict[tuple[str, int], Result], title: str, path: Path) -> None:
    """Draws every contestant that was measured; bars reach from the lowest to the highest round."""
    figure = Figure(figsize=(9.5, 6), layout="constrained")
    axes = figure.subplots()
    sizes = sorted({size for _, size in results})
    for contestant in CONTESTANTS:
        measured = [results.get((contestant.name, size)) for size in sizes]
        points = [one for one in measured if one is not None and one.rate is not None]
        if not points:
            continue
        color, line, width = _STYLES[contestant.name]
        medians = [statistics.median(one.rates) for one in points]
        below = [median - min(one.rates) for median, one in zip(medians, points, strict=True)]
        above = [max(one.rates) - median for median, one in zip(medians, points, strict=True)]
        axes.errorbar(
            [one.size for one in points],
            medians,
            yerr=[below, above],
            label=contestant.label.replace("*", "").replace("`", ""),
            color=color,
            linestyle=line,
            linewidth=width,
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
