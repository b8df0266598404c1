"""The learning curve of the demo's agent, from three runs of examples/train_ntuple.py."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib.style
import numpy as np
from matplotlib.figure import Figure

EXAMPLE = Path(__file__).parents[1] / "examples" / "train_ntuple.py"
STYLE = Path(__file__).with_name("twofold.mplstyle")
SEEDS = (0, 1, 2)


def draw(path: Path, seconds: float, reports: Path) -> None:
    """Trains three agents, one after the other, and draws the mean and range of their scores.

    Args:
        path: The picture's file.
        seconds: The training time of each run, in seconds.
        reports: The folder for the runs' reports.
    """
    runs = []
    for seed in SEEDS:
        arguments = {"--seed": seed, "--seconds": seconds, "--out": reports}
        words = [str(word) for argument in arguments.items() for word in argument]
        subprocess.run([sys.executable, str(EXAMPLE), *words], check=True)
        runs.append(json.loads(max(reports.glob("*.json")).read_text()))
    with matplotlib.style.context(STYLE):
        _figure(runs, seconds).savefig(path)


def _figure(runs: list[dict[str, Any]], seconds: float) -> Figure:
    """Returns a figure with the curves and the mean score of random play from the same runs."""
    curves = [
        np.array([(point["seconds"], point["mean_score"]) for point in run["training"]["curve"]]).T
        for run in runs
    ]
    times = np.linspace(max(curve[0, 0] for curve in curves), seconds, 400)
    scores = np.array([np.interp(times, curve[0], curve[1]) for curve in curves])
    mean, random = scores.mean(axis=0), np.mean([run["table"][0]["mean_score"] for run in runs])

    figure = Figure(figsize=(8.5, 4))
    axes = figure.subplots()
    axes.fill_between(times, scores.min(axis=0), scores.max(axis=0), color="#d55e00", alpha=0.25)
    axes.plot(times, mean, color="#d55e00", linewidth=2.5)
    axes.axhline(random, color="#1f83c6", linewidth=1.6)
    for height, text, color in (
        (mean[-1], f"n-tuple network\n{mean[-1]:,.0f}", "#d55e00"),
        (random, f"random play\n{random:,.0f}", "#1f83c6"),
    ):
        axes.annotate(
            text,
            (seconds, height),
            (9, 0),
            textcoords="offset points",
            verticalalignment="center",
            color=color,
            fontweight="bold",
        )
    boards = runs[0]["config"]["num_envs"]
    axes.set_title(f"2048: mean score of the last {boards:,} games")
    axes.set_xlabel(f"seconds of training (mean and range of {len(runs)} runs)")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlim(0, seconds)
    axes.set_ylim(bottom=0)
    return figure
