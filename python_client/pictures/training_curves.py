"""The learning curves of examples/, as `make training` measured them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import matplotlib.style
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

STYLE = Path(__file__).with_name("twofold.mplstyle")


class Line(NamedTuple):
    """A line of the picture, which shows a program of examples/."""

    program: str
    label: str
    color: str


LINES = (
    Line("ppo", "PPO, one file", "#d55e00"),
    Line("maskable_ppo", "MaskablePPO", "#1f83c6"),
    Line("dqn_afterstates", "DQN on afterstates", "#009e73"),
)


def draw(path: Path, runs: Path) -> None:
    """Draws the scores of the games played during training: median and range of the seeds.

    Args:
        path: The picture's file.
        runs: The folder with the results of `make training`.
    """
    with matplotlib.style.context(STYLE):
        figure = Figure(figsize=(8.5, 4))
        axes = figure.subplots()
        for line in LINES:
            files = sorted(runs.glob(f"{line.program}-[0-9]*/curve.json"))
            if not files:
                raise SystemExit(f"no runs of {line.program} in {runs}; run: make training")
            curves = [json.loads(file.read_text())["curve"] for file in files]
            first = max(curve[0]["seconds"] for curve in curves)
            last = min(curve[-1]["seconds"] for curve in curves)
            times = np.linspace(first, last, 100)
            scores = np.array([_smooth(curve, times) for curve in curves])
            middle = np.median(scores, axis=0)
            axes.fill_between(
                times / 60, scores.min(axis=0), scores.max(axis=0), color=line.color, alpha=0.2
            )
            label = f"{line.label}: {middle[-1]:,.0f} at the end"
            axes.plot(times / 60, middle, color=line.color, linewidth=2.5, label=label)
        axes.legend(loc="lower right", frameon=False, labelcolor="linecolor")
        axes.set_ylim(0)
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.set_title("2048: mean score of the games played while training")
        axes.set_xlabel("minutes of training on one core; three seeds, median and range")
        figure.savefig(path)


def _smooth(curve: list[dict[str, float]], times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns a curve's scores at these times, each a mean over half a minute."""
    rows = [row for row in curve if row["episodes"] > 0]
    seconds = np.array([row["seconds"] for row in rows])
    scores = np.array([row["score_mean"] for row in rows])
    means = [scores[abs(seconds - time) <= 15].mean() for time in seconds]
    smooth: NDArray[np.float64] = np.interp(times, seconds, means)
    return smooth
