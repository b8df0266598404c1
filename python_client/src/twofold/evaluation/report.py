"""Reports: an evaluation's summary as text, Markdown, HTML or a plot."""

from __future__ import annotations

import html as html_module
import io
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from twofold._optional import optional_import
from twofold._tables import Style, significant, table
from twofold._text import check_writable, printable, whole_file
from twofold._text import markdown as escaped
from twofold.envs.results import Array
from twofold.errors import InvalidArgument
from twofold.evaluation.statistics import wilson

# The highest number of decimals. Further digits are rounding errors of added rewards.
_DECIMALS = 6


def decimals(value: float, ends: Sequence[float]) -> int:
    """Returns the number of decimals for an estimate and the ends of its interval.

    Whole numbers get none. Otherwise, half of the interval's width gets two significant digits. If
    the interval is unknown (nan) or has no width, the estimate gets four. Numbers below 10,000 get
    at least one decimal, and no number gets more than six.
    """
    numbers = [each for each in (value, *ends) if math.isfinite(each)]
    if all(each == int(each) for each in numbers):
        return 0
    places = 0 if min(map(abs, numbers)) >= 10_000 else 1
    half = (ends[1] - ends[0]) / 2
    if math.isfinite(half) and half >= 10**-_DECIMALS:
        places = max(places, 1 - math.floor(math.log10(half)))
    elif value and math.isfinite(value):
        places = max(places, 3 - math.floor(math.log10(abs(value))))
    return min(places, _DECIMALS)


def fixed(value: float, places: int) -> str:
    """Formats a number with the decimals that `decimals` returned; "-" for nan."""
    return "-" if math.isnan(value) else f"{value:,.{places}f}"


def estimate(value: float, ends: Sequence[float]) -> tuple[str, str]:
    """Formats an estimate and its interval: "7.569", "7.556 ... 7.582". See `decimals`."""
    places = decimals(value, ends)
    return fixed(value, places), interval(ends, lambda end: fixed(end, places))


def share(value: float) -> str:
    """Formats a share as a percentage: "12.34 %"; "-" for nan."""
    return "-" if math.isnan(value) else f"{value:.2%}".replace("%", " %")


def figure(value: float) -> str:
    """Formats a number with four significant digits: "5,468", "0.01235"; "-" for nan."""
    return "-" if math.isnan(value) else significant(value, 4)


def interval(ends: Sequence[float], form: Callable[[float], str]) -> str:
    """Formats an interval as its two ends: "1 ... 2"; "-" if they are unknown."""
    return "-" if math.isnan(ends[0]) else f"{form(ends[0])} ... {form(ends[1])}"


def _tables(summary: dict[str, Any], style: Style) -> list[str]:
    """Returns the report's tables, without those for which the summary has no data."""
    header = ["", "mean", "95 % interval", "median", "95 % interval", "5 %", "95 %", "highest"]
    described = {"score": summary["score"]}
    failures = summary.get("failures")
    if failures and failures["games"] and failures["finished"]:
        described["score of finished"] = failures["finished"]
    described["moves"] = summary["moves"]
    figures = [[name, *_row(statistics)] for name, statistics in described.items()]
    tables = [table(header, figures, "lrrrrrrr", style)]
    if "reached" in summary:
        tiles = []
        for tile, e in summary["reached"].items():
            ends = interval(e["interval"], share)
            tiles.append([str(tile), f"{e['games']:,}", share(e["share"]), ends])
            if not e["games"]:  # then no game reaches a higher tile
                break
        tables.append(table(["tile", "games", "reached", "95 % interval"], tiles, "lrrr", style))
    if "regret" in summary:
        tables += _regret(summary["regret"], style)
    if "failures" in summary:
        tables.append(_failures(summary["failures"], style))
    if "model" in summary:
        tables.append(table(["model", ""], _model(summary["model"]), "lr", style))
    return tables


def _row(s: dict[str, Any]) -> list[str]:
    """Returns the table row of a mean, a median and quantiles."""
    others = (s["median"], s["quantiles"]["0.05"], s["quantiles"]["0.95"], s["max"])
    median, *quantiles = map(figure, others)
    ends = interval(s["median_interval"], figure)
    return [*estimate(s["mean"], s["mean_interval"]), median, ends, *quantiles]


def _regret(regret: dict[str, Any], style: Style) -> list[str]:
    """Returns the regret tables: per game and move, by tile sum, and by empty cells."""
    unit = regret["unit"]
    named = {"regret of a game": "per_game", "of a move": "per_move", "the optimum": "optimum"}
    rows = []
    for name, key in named.items():
        if key in regret:
            mean, ends = regret[key]["mean"], regret[key]["mean_interval"]
            rows.append([name, figure(mean), interval(ends, figure)])
    unplayed = regret["unplayed"]
    if unplayed["games"]:
        games = "1 game" if unplayed["games"] == 1 else f"{unplayed['games']:,} games"
        name = f"unplayed, in {games}"
        rows.insert(1, [name, figure(unplayed["mean"]), f"{share(unplayed['share'])} of all"])
    tables = [table([unit, "mean", "95 % interval"], rows, "lrr", style)]
    for name, key in (("tile sum", "by_tile_sum"), ("empty cells", "by_empty_cells")):
        rows = [
            [place, f"{entry['steps']:,}", figure(entry["mean"]), share(entry["share"])]
            for place, entry in regret[key].items()
        ]
        tables.append(table([name, "steps", "mean regret", "of all"], rows, "lrrr", style))
    return tables


def _failures(failures: dict[str, Any], style: Style) -> str:
    """Returns a table that counts failed games by reason and shows each reason's first case."""
    rows = [["failed", f"{failures['games']:,}", share(failures["share"]), ""]]
    total = failures["games"] / failures["share"] if failures["games"] else 1
    for reason, entry in failures["reasons"].items():
        first = entry["first"]
        detail, longest = first["detail"], 80 if style == "plain" else 1000
        if len(detail) > longest:
            detail = f"{detail[: longest - 1]}…"
        place = f"episode {first['episode']}, step {first['step']}: {detail}"
        rows.append([reason, f"{entry['games']:,}", share(entry["games"] / total), place])
    return table(["games", "number", "share", "first case"], rows, "lrrl", style)


def _model(model: dict[str, Any]) -> list[list[str]]:
    """Returns the table rows about a chat model, except the prompt, which `_prompt` returns."""
    rows = []
    for name, value in model.items():
        if isinstance(value, int):
            cell = f"{value:,}"
        elif isinstance(value, float):
            cell = significant(value)
        else:
            cell = "-" if value is None else json.dumps(value)
        rows.append([name.replace("_", " "), cell])
    return [row for row in rows if row[0] != "prompt"]


def _prompt(summary: dict[str, Any]) -> list[str]:
    """Returns the paragraph with a chat model's prompt, if there is one."""
    if "model" not in summary:
        return []
    lines = summary["model"]["prompt"].splitlines()
    return ["\n".join(["prompt of each move", "", *(f"    {line}".rstrip() for line in lines)])]


def _title(summary: dict[str, Any]) -> str:
    environment = summary["rule_card"].get("environment", "")
    games = "1 game" if summary["episodes"] == 1 else f"{summary['episodes']:,} games"
    if failed := summary.get("failures", {}).get("games"):
        games += f", {failed:,} of them failed"
    return f"{printable(summary['policy'])} on {environment}: {games}"


def _speed(summary: dict[str, Any]) -> str:
    seconds = summary["seconds"]
    part = summary["policy_seconds"] / seconds
    policy = "the policy in the service" if math.isnan(part) else f"{part:.0%} in the policy"
    highest = f"highest tile {summary['highest_tile']}; " if "highest_tile" in summary else ""
    rate = f"{summary['moves_per_second']:,.0f} moves per second"
    return f"{highest}{significant(seconds)} s, {rate}, {policy}"


def _card(summary: dict[str, Any]) -> list[list[str]]:
    lines = [
        [key, f"{value:,.4g}" if isinstance(value, float) else str(value)]
        for key, value in summary["rule_card"].items()
    ]
    if "secret" in summary:
        return [*lines, ["secret", summary["secret"]]]
    first, games = summary["first_seed"], summary["episodes"]
    seeds = f"2^63 + {first - 2**63:,}" if first != 2**63 else "2^63"
    if "ended early" in summary["rule_card"]:
        seeds += " and later ones"
    elif games > 1:
        seeds += f" and the next {games - 1:,}"
    return [*lines, ["seeds", seeds]]


def printed(parts: Sequence[str]) -> str:
    """Joins paragraphs. Removes control characters, because policies' names are untrusted."""
    lines = "\n\n".join(parts).split("\n")
    return "\n".join(printable(line.expandtabs()) for line in lines)


def text(summary: dict[str, Any]) -> str:
    """Returns the report as text for a terminal."""
    (first, *rest), tables = _card(summary), _tables(summary, "plain")
    card, prompt = table(first, rest, "ll"), _prompt(summary)
    return printed([_title(summary), *tables, _speed(summary), card, *prompt])


def markdown(summary: dict[str, Any]) -> str:
    """Returns the report as Markdown for a README."""
    card = table(["rule card", ""], _card(summary), "ll", "pipe")
    title, tables = f"### {escaped(_title(summary))}", _tables(summary, "pipe")
    return printed([title, *tables, _speed(summary), card, *_prompt(summary)])


def html(summary: dict[str, Any]) -> str:
    """Returns the report as HTML for a notebook."""
    title, speed = html_module.escape(_title(summary)), html_module.escape(_speed(summary))
    card = table(["", ""], _card(summary), "ll", "html")
    tables = "".join(_tables(summary, "html"))
    prompt = "".join(f"<pre>{html_module.escape(each)}</pre>" for each in _prompt(summary))
    return (
        f"<p><b>{title}</b></p>{tables}<p>{speed}</p>"
        f"<details><summary>Rule card</summary>{card}</details>{prompt}"
    )


def plot(
    scores: Sequence[Array], summaries: Sequence[dict[str, Any]], path: str | Path | None
) -> Any:
    """Plots one or more evaluations and returns the matplotlib Figure.

    `scores` and `summaries` have an entry for each evaluation.
    """
    matplotlib = _matplotlib()
    has_tiles = all("reached" in summary for summary in summaries)
    has_regret = all("regret" in summary for summary in summaries)
    columns, rows = 1 + has_tiles, 1 + has_regret  # an evaluation with regret also has tiles
    figure = matplotlib.Figure(figsize=(5.5 * columns, 4.5 * rows), layout="constrained")
    panels: Any = figure.subplots(rows, columns, squeeze=False)
    _plot_scores(panels[0][0], scores, summaries)
    if has_tiles:
        _plot_tiles(panels[0][1], summaries)
    if has_regret:
        _plot_regret(panels[1][0], "tile sum", "by_tile_sum", summaries)
        _plot_regret(panels[1][1], "empty cells", "by_empty_cells", summaries)
    for panel in panels.flat:
        panel.grid(alpha=0.3)
    return save_plot(figure, path)


def plot_curve(seconds: Sequence[float], scores: Sequence[float], path: str | Path | None) -> Any:
    """Plots the mean scores of a training run over time, and returns the matplotlib Figure."""
    figure = _matplotlib().Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    axes.plot(seconds, scores)
    axes.set_xlabel("seconds of training")
    axes.set_ylabel("mean score while learning")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    return save_plot(figure, path)


def save_plot(figure: Any, path: str | Path | None) -> Any:
    """Saves a figure to a file, if any, and returns it."""
    if path is not None:
        file, picture = _drawn(figure, Path(path))
        with whole_file(file) as opened:
            opened.write(picture)
    return figure


def check_plot(path: Path) -> Path:
    """Checks that a plot can be saved, before its data is computed. Returns its file.

    Draws an empty figure.
    """
    file, _ = _drawn(_matplotlib().Figure(), path)
    check_writable(file)
    return file


def _drawn(figure: Any, path: Path) -> tuple[Path, memoryview]:
    """Returns a plot's file and its content. A path without a suffix gets matplotlib's default."""
    if not path.name:
        raise InvalidArgument(f"{path} is a folder; expected a file", field="path")
    if not path.suffix:
        path = path.with_suffix(f".{figure.canvas.get_default_filetype()}")
    picture = io.BytesIO()
    try:
        figure.savefig(picture, dpi=150, format=path.suffix[1:])
    except (ValueError, RuntimeError) as error:  # an unknown suffix, or .pgf without TeX
        raise InvalidArgument(f"{path}: {error}", field="path") from None
    return path, picture.getbuffer()


def _matplotlib() -> Any:
    return optional_import("matplotlib.figure", "plots", "plot")


def _label(policy: str) -> str:
    """Returns a policy's name as a label; matplotlib would hide a label that starts with "_"."""
    name = printable(policy)
    return f" {name}" if name.startswith("_") else name


def _add_legend(panel: Any) -> None:
    """Adds a legend, in which "$" is not the start of a formula."""
    for text in panel.legend().get_texts():
        text.set_parse_math(False)


def _plot_scores(panel: Any, scores: Sequence[Array], summaries: Sequence[dict[str, Any]]) -> None:
    highest, lowest = max(float(s.max()) for s in scores), min(float(s.min()) for s in scores)
    bins = np.linspace(lowest, max(highest, lowest + 1), 61)
    for i, (values, summary) in enumerate(zip(scores, summaries, strict=True)):
        mean, _ = estimate(summary["score"]["mean"], summary["score"]["mean_interval"])
        label = f"{_label(summary['policy'])}: mean {mean}"
        weights = np.full(len(values), 1 / len(values))
        panel.hist(values, bins, weights=weights, alpha=0.6, color=f"C{i}", label=label)
        panel.axvline(values.mean(), color=f"C{i}", linestyle="--")
    panel.set(xlabel="final score", ylabel="share of games", title="Scores; dashed: the mean")
    panel.xaxis.set_major_formatter("{x:,.0f}")
    _add_legend(panel)


def _plot_tiles(panel: Any, summaries: Sequence[dict[str, Any]]) -> None:
    named = sorted({tile for summary in summaries for tile in summary["reached"]})
    highest = max(summary["highest_tile"] for summary in summaries)
    tiles = [tile for tile in named if tile <= highest] or named[:1]
    width = 0.8 / len(summaries)
    for i, summary in enumerate(summaries):
        # Counted, because an evaluation's "reached" may lack tiles that are in another's.
        counts, total = summary["tiles"], summary["episodes"]
        games = [sum(counts[each] for each in counts if each >= tile) for tile in tiles]
        shares = np.array(games) / total
        ends = np.array([wilson(each, total) for each in games]).T
        error = np.maximum(0, [shares - ends[0], ends[1] - shares])
        at = np.arange(len(tiles)) + (i - (len(summaries) - 1) / 2) * width
        panel.bar(at, shares, width, yerr=error, capsize=3, color=f"C{i}", alpha=0.8)
    panel.set_xticks(range(len(tiles)), [str(tile) for tile in tiles])
    panel.set(xlabel="tile", ylabel="share of games", title="Games that reach the tile")
    panel.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    panel.set_ylim(0, 1)


def _plot_regret(panel: Any, name: str, key: str, summaries: Sequence[dict[str, Any]]) -> None:
    """Plots the mean regret of a step by tile sum or by number of empty cells."""
    places = list(dict.fromkeys(place for each in summaries for place in each["regret"][key]))
    places.sort(key=lambda place: int(place.split("-")[0]))
    width = 0.8 / len(summaries)
    for i, summary in enumerate(summaries):
        entries = summary["regret"][key]
        means = [entries[place]["mean"] if place in entries else 0.0 for place in places]
        at = np.arange(len(places)) + (i - (len(summaries) - 1) / 2) * width
        panel.bar(at, means, width, color=f"C{i}", alpha=0.8, label=_label(summary["policy"]))
    panel.set_xticks(range(len(places)), places, rotation=30 if len(places) > 6 else 0)
    unit = summaries[0]["regret"]["unit"]
    panel.set(xlabel=name, ylabel=f"mean regret, {unit}", title=f"Regret of a step by {name}")
    _add_legend(panel)
