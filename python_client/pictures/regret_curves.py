"""The exact regret of learners on small boards, as `make regret` measured it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import matplotlib.style
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, PercentFormatter

STYLE = Path(__file__).with_name("twofold.mplstyle")
BOARDS = {"2x2": "2 x 2", "2x3": "2 x 3", "3x3": "3 x 3"}


class Line(NamedTuple):
    """A line of the picture, which shows a learner."""

    learner: str
    label: str
    color: str
    marker: str


LINES = (
    Line("ntuple", "n-tuple network, TC", "#d55e00", "o"),
    Line("td", "TD, afterstates", "#009e73", "s"),
    Line("q", "Q-learning", "#1f83c6", "^"),
    Line("ppo", "PPO", "#b8659a", "D"),
)


def draw(path: Path, runs: Path) -> None:
    """Draws the median and range of the seeds, as shares of each board's optimum.

    Args:
        path: The picture's file.
        runs: The folder with the results of `make regret`.
    """
    known = runs / "known.json"
    if not known.exists():
        raise SystemExit(f"no runs in {runs}; run: make regret")
    optima = json.loads(known.read_text())
    with matplotlib.style.context(STYLE):
        figure = Figure(figsize=(11, 4))
        panels = figure.subplots(1, len(BOARDS), sharey=True)
        for axes, (board, title) in zip(panels, BOARDS.items(), strict=True):
            optimum = optima[board]["optimum"]
            for line in LINES:
                files = sorted(runs.glob(f"{line.learner}-{board}-*.json"))
                if not files:
                    raise SystemExit(f"no run of {line.learner} on {board} in {runs}")
                points = [json.loads(file.read_text())["points"] for file in files]
                moves = [point["moves"] for point in points[0]]
                regrets = np.array([[p["regret_of_a_game"] for p in one] for one in points])
                regrets /= optimum
                axes.fill_between(
                    moves, regrets.min(axis=0), regrets.max(axis=0), color=line.color, alpha=0.2
                )
                middle = np.median(regrets, axis=0)
                marks = {"color": line.color, "marker": line.marker, "markersize": 4}
                axes.plot(moves, middle, label=line.label, **marks)
            axes.axhline(optima[board]["random"] / optimum, color="#7a7a7a", linestyle="--")
            axes.text(
                moves[-1], optima[board]["random"] / optimum, "random play", ha="right", va="bottom"
            )
            axes.set(xscale="log", title=title, xlabel="moves of training")
            axes.set_ylim(0, 1)
            axes.xaxis.set_major_formatter(EngFormatter(sep=""))
            axes.yaxis.set_major_formatter(PercentFormatter(1))
        panels[0].set_ylabel("regret of a game, of the optimum's score")
        panels[-1].legend(loc="lower left", frameon=False, labelcolor="linecolor")
        figure.savefig(path)
