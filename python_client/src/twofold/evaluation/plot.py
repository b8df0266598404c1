"""A picture of evaluations: the distribution of scores, and the tiles reached."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from twofold._optional import optional_import
from twofold.envs.results import Array
from twofold.errors import InvalidArgument
from twofold.evaluation.report import number


def plot(
    scores: Sequence[Array], summaries: Sequence[dict[str, Any]], path: str | Path | None
) -> Any:
    """The matplotlib Figure of evaluations, from their scores (E,) and their summaries."""
    matplotlib = optional_import("matplotlib.figure", "plots", "plot")
    has_tiles = all("reached" in summary for summary in summaries)
    figure = matplotlib.Figure(figsize=(11 if has_tiles else 6, 4.5), layout="constrained")
    panels: Any = figure.subplots(1, 2 if has_tiles else 1, squeeze=False)[0]
    _plot_scores(panels[0], scores, summaries)
    if has_tiles:
        _plot_tiles(panels[1], [summary["reached"] for summary in summaries])
    for panel in panels:
        panel.grid(alpha=0.3)
    if path is not None:
        try:
            figure.savefig(path, dpi=150)
        except ValueError as error:  # an unknown suffix
            raise InvalidArgument(f"{path}: {error}", field="path") from None
    return figure


def _plot_scores(panel: Any, scores: Sequence[Array], summaries: Sequence[dict[str, Any]]) -> None:
    highest, lowest = max(float(s.max()) for s in scores), min(float(s.min()) for s in scores)
    bins = np.linspace(lowest, max(highest, lowest + 1), 61)
    for i, (values, summary) in enumerate(zip(scores, summaries, strict=True)):
        label = f"{summary['policy']}: mean {number(float(values.mean()))}"
        weights = np.full(len(values), 1 / len(values))
        panel.hist(values, bins, weights=weights, alpha=0.6, color=f"C{i}", label=label)
        panel.axvline(values.mean(), color=f"C{i}", linestyle="--")
    panel.set(xlabel="final score", ylabel="share of games", title="Scores; dashed: the mean")
    panel.xaxis.set_major_formatter("{x:,.0f}")
    panel.legend()


def _plot_tiles(panel: Any, reached: Sequence[dict[int, dict[str, Any]]]) -> None:
    nothing = {"share": 0.0, "interval": [0.0, 0.0]}
    tiles = [tile for tile in reached[0] if any(r.get(tile, nothing)["share"] > 0 for r in reached)]
    tiles = tiles or list(reached[0])[:1]
    width = 0.8 / len(reached)
    for i, r in enumerate(reached):
        entries = [r.get(tile, nothing) for tile in tiles]
        shares = np.array([entry["share"] for entry in entries])
        ends = np.array([entry["interval"] for entry in entries]).T
        error = np.maximum(0, [shares - ends[0], ends[1] - shares])
        at = np.arange(len(tiles)) + (i - (len(reached) - 1) / 2) * width
        panel.bar(at, shares, width, yerr=error, capsize=3, color=f"C{i}", alpha=0.8)
    panel.set_xticks(range(len(tiles)), [str(tile) for tile in tiles])
    panel.set(xlabel="tile", ylabel="share of games", title="Games that reach the tile")
    panel.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    panel.set_ylim(0, 1)
