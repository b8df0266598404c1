"""The documents' charts, drawn from the figures in docs/figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import figures
import matplotlib
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter
from plot import chart, label

GREY = "C5"
UNTRAINED = ", without learning"


def draw_regret(path: Path) -> None:
    """Draws the regret of each learner on each small board, as a share of the optimal score."""
    rows = figures.read("regret")["rows"]
    optima = {row["board"]: row for row in rows if "score" in row}
    with chart(path, 2.9) as figure:
        panels = figure.subplots(1, len(optima), sharey=True)
        for axes, (board, optimum) in zip(panels, optima.items(), strict=True):
            found = [row for row in rows if row["board"] == board and row.get("regret")]
            # Commands have Markdown's backticks.
            names = [row["learner"].replace(UNTRAINED, "").replace("`", "") for row in found]
            colors = [GREY if row["learner"].endswith(UNTRAINED) else "C0" for row in found]
            parts = [[regret / optimum["score"] for regret in row["regret"]] for row in found]
            _draw_dots(axes, names, parts, colors)
            axes.set_title(f"{board.replace('x', ' x ')}, {optimum['moves'] / 1e6:g} M moves")
            axes.set_xlim(-0.03, 1.03)
            axes.xaxis.set_major_formatter(PercentFormatter(1))
        figure.supxlabel(
            "regret of a game after training, as a share of the optimum's score; grey: no learning",
            fontsize=matplotlib.rcParams["font.size"],
        )


def draw_training(path: Path) -> None:
    """Draws the score and the speed of the training program for each RL library."""
    rows = sorted(figures.read("training")["rows"], key=lambda row: -row["score"][0])
    fixed = next(row for row in figures.read("agents")["rows"] if row["agent"].startswith("fixed"))
    names = [row["learner"] for row in rows]
    with chart(path, 3.1) as figure:
        scores, rates = figure.subplots(1, 2, sharey=True)
        _draw_dots(scores, names, [row["score"] for row in rows], ["C0"] * len(rows))
        scores.axvline(fixed["mean"][0], color=GREY, linestyle="--")
        label(scores, "fixed order", (fixed["mean"][0], 0), GREY)
        scores.set_title(f"mean score after {rows[0]['minutes']} minutes")
        scores.set_xlabel("median and range of three seeds")
        _draw_dots(rates, names, [[row["steps_per_second"]] for row in rows], ["C0"] * len(rows))
        usual = {place: row["usual"] for place, row in enumerate(rows) if row["usual"]}
        rates.plot(list(usual.values()), list(usual), "s", color=GREY)
        # The labels go in the row with the largest gap between its two marks.
        place = max(usual, key=lambda place: rows[place]["steps_per_second"] - usual[place])
        label(rates, "gymnasium-2048", (usual[place], place), GREY)
        label(rates, "Twofold", (rows[place]["steps_per_second"], place), "C0", is_left=True)
        rates.set_title("steps per second of training")
        rates.set_xlabel("on one core")
        for axes in (scores, rates):
            axes.set_xlim(0)
            axes.xaxis.set_major_locator(MaxNLocator(4))
            axes.xaxis.set_major_formatter("{x:,.0f}")


def _draw_dots(
    axes: Axes, names: Sequence[str], values: Sequence[Sequence[float]], colors: Sequence[str]
) -> None:
    """Draws a row for each name, from the top: a dot, and a bar for its range if it has one."""
    for place, (middle, *ends) in enumerate(values):
        if ends:
            axes.plot(ends, [place, place], color=colors[place], linewidth=4, alpha=0.4)
        axes.plot(middle, place, "o", color=colors[place])
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)


def draw_score_per_second(path: Path) -> None:
    """Draws the score of each learner against the minutes of training."""
    rows = figures.read("score_per_second")["rows"]
    with chart(path, 4) as figure:
        axes = figure.subplots()
        for number, (row, marker) in enumerate(zip(rows, "osD^", strict=True)):
            minutes = [int(after) for after in row["scores"]]
            middle, low, high = zip(*row["scores"].values(), strict=True)
            color = f"C{number}"
            axes.fill_between(minutes, low, high, color=color, alpha=0.25, linewidth=0)
            axes.plot(minutes, middle, color=color, marker=marker)
            text = f"{row['learner']}\n{middle[-1]:,.0f}"
            label(axes, text, (minutes[-1], middle[-1]), color, is_bold=True)
        axes.set(xscale="log", yscale="log")
        axes.set_xticks(minutes, [f"{after}" for after in minutes])
        axes.set_yticks([5_000, 10_000, 20_000, 50_000, 100_000])
        axes.minorticks_off()
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.set_title("2048: mean score of 1,000 games after training")
        axes.set_xlabel("minutes of training on one core; bands: 95 % intervals")


def draw_ppo(path: Path) -> None:
    """Draws the score of each PPO program while it learns."""
    with chart(path, 3) as figure:
        axes = figure.subplots()
        for row, marker in zip(figures.read("ppo")["rows"], "os", strict=True):
            minutes = [float(end) for end in row["scores"]]
            axes.plot(minutes, row["scores"].values(), marker=marker, label=row["learner"])
        axes.set(xlim=0, ylim=0)
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.set_title("2048: mean score while learning")
        axes.set_xlabel("minutes of training on one core")
        axes.legend(loc="lower right", labelcolor="linecolor")


def draw_memory(path: Path) -> None:
    """Draws the return in Concentration against the number of cards that a player remembers."""
    rows = figures.read("memory_of_cards")["rows"]
    presets = list(dict.fromkeys(row["preset"] for row in rows))
    with chart(path, 3.6) as figure:
        panels = figure.subplots(1, len(presets))
        for axes, preset in zip(panels, presets, strict=True):
            played = {row["memory"]: row["return"] for row in rows if row["preset"] == preset}
            random = played.pop("random")[0]
            computed = {
                row["memory"]: row["return"]
                for row in figures.read("ceilings")["rows"]
                if row["preset"] == preset
            }
            middle, low, high = zip(*played.values(), strict=True)
            places = _places(played)
            axes.vlines(places, low, high, color="C0", linewidth=4, alpha=0.4)
            axes.plot(places, middle, color="C0", marker="o", label="mean of 1,000 games")
            square = {"markersize": 9, "markerfacecolor": "none"}
            values = list(computed.values())
            axes.plot(_places(computed), values, "s", color="C1", label="computed", **square)
            axes.axhline(random, color=GREY, linestyle="--", label="random play")
            axes.set_xticks(_places(computed), list(computed))
            axes.set_title(preset)
            axes.set_xlabel("remembered cards")
        panels[0].set_ylabel("return of a game")
        panels[0].legend(loc="center right", labelcolor="linecolor")


def _places(memories: Iterable[str]) -> list[int]:
    """Returns the axis positions of card counts, with "all" to the right of the numbers."""
    return [10 if memory == "all" else int(memory) for memory in memories]
