"""The results of an evaluation as text, Markdown, HTML, TDL2048's block, and a picture."""

from __future__ import annotations

import html as html_module
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twofold.errors import InvalidArgument, MissingDependency

if TYPE_CHECKING:
    from twofold.evaluation.evaluation import Comparison, Evaluation

Table = tuple[list[str], list[list[str]]]
"""A header and rows; the first column is a name, the others are numbers."""


# ---- the parts -----------------------------------------------------------------------------------


def _number(value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 10_000 or value == int(value) else f"{value:,.1f}"


def _share(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2%}".replace("%", " %")


def _interval(ends: Sequence[float], form: Any = _number) -> str:
    return f"{form(ends[0])} ... {form(ends[1])}"


def _figures(summary: dict[str, Any]) -> Table:
    header = ["", "mean", "95 % interval", "median", "95 % interval", "5 %", "95 %", "highest"]
    rows = []
    for name in ("score", "moves"):
        s = summary[name]
        rows.append(
            [
                name,
                _number(s["mean"]),
                _interval(s["mean_interval"]),
                _number(s["median"]),
                _interval(s["median_interval"]),
                _number(s["quantiles"]["0.05"]),
                _number(s["quantiles"]["0.95"]),
                _number(s["max"]),
            ]
        )
    return header, rows


def _tiles(summary: dict[str, Any]) -> Table:
    header = ["tile", "games", "reached", "95 % interval"]
    rows = [
        [
            str(tile),
            f"{entry['games']:,}",
            _share(entry["share"]),
            _interval(entry["interval"], _share),
        ]
        for tile, entry in summary.get("reached", {}).items()
    ]
    return header, rows


def _title(summary: dict[str, Any]) -> str:
    environment = summary["rule_card"].get("environment", "")
    games = "1 game" if summary["episodes"] == 1 else f"{summary['episodes']:,} games"
    return f"{summary['policy']} on {environment}: {games}"


def _speed(summary: dict[str, Any]) -> str:
    seconds = summary["seconds"]
    share = summary["policy_seconds"] / seconds
    policy = "the policy in the server" if math.isnan(share) else f"{share:.0%} in the policy"
    highest = f"highest tile {summary['highest_tile']}; " if "highest_tile" in summary else ""
    return (
        f"{highest}{seconds:.3g} s, {summary['moves_per_second']:,.0f} moves per second, {policy}"
    )


def _card(summary: dict[str, Any]) -> list[tuple[str, str]]:
    first, number = summary["first_seed"], summary["episodes"]
    seeds = f"2^63 + {first - 2**63:,}" if first != 2**63 else "2^63"
    lines = [(key, _entry(value)) for key, value in summary["rule_card"].items()]
    return [*lines, ("seeds", f"{seeds} and the {number - 1:,} after it")]


def _entry(value: Any) -> str:
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


# ---- the whole -----------------------------------------------------------------------------------


def _aligned(table: Table) -> str:
    header, rows = table
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    return "\n".join(
        (
            line[0].ljust(widths[0])
            + "".join(c.rjust(w + 2) for c, w in zip(line[1:], widths[1:], strict=True))
        ).rstrip()
        for line in (header, *rows)
    )


def text(summary: dict[str, Any]) -> str:
    """The tables for a terminal."""
    parts = [_title(summary), _aligned(_figures(summary))]
    if "reached" in summary:
        parts.append(_aligned(_tiles(summary)))
    parts.append(_speed(summary))
    card = _card(summary)
    width = max(len(key) for key, _ in card)
    parts.append("\n".join(f"{key.ljust(width)}  {value}" for key, value in card))
    return "\n\n".join(parts)


def markdown(summary: dict[str, Any]) -> str:
    """The tables for a README."""

    def table(content: Table) -> str:
        header, rows = content
        rule = ["---", *["---:"] * (len(header) - 1)]
        return "\n".join(f"| {' | '.join(line)} |" for line in (header, rule, *rows))

    parts = [f"### {_title(summary)}", table(_figures(summary))]
    if "reached" in summary:
        parts.append(table(_tiles(summary)))
    parts.append(_speed(summary))
    rows = [[key, value] for key, value in _card(summary)]
    parts.append(
        "\n".join(["| rule card | |", "| --- | --- |", *[f"| {a} | {b} |" for a, b in rows]])
    )
    return "\n\n".join(parts)


def html(summary: dict[str, Any]) -> str:
    """The tables for a notebook."""
    escape = html_module.escape

    def table(content: Table) -> str:
        header, rows = content
        head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    parts = [f"<p><b>{escape(_title(summary))}</b></p>", table(_figures(summary))]
    if "reached" in summary:
        parts.append(table(_tiles(summary)))
    parts.append(f"<p>{escape(_speed(summary))}</p>")
    card = table((["", ""], [[key, value] for key, value in _card(summary)]))
    parts.append(f"<details><summary>Rule card</summary>{card}</details>")
    return "".join(parts)


def preformatted(plain: str) -> str:
    """Text as HTML."""
    return f"<pre>{html_module.escape(plain)}</pre>"


def tdl(evaluation: Evaluation) -> str:
    """The summary block of TDL2048: a line for each highest tile, figures cut to integers.

    `rate` is the share of games that end with this highest tile, `win` of those that reach it.
    """
    if evaluation.max_exponents is None:
        raise InvalidArgument("this environment has no tiles; TDL2048's table needs them")
    scores, moves, exponents = evaluation.scores, evaluation.moves, evaluation.max_exponents
    total = evaluation.episodes
    wins = (exponents >= 11).mean()
    lines = [
        f"summary {evaluation.seconds * 1000:.0f}ms {evaluation.moves_per_second:.2f}ops",
        f"total:  avg={int(scores.sum()) // total} max={int(scores.max())} "
        f"tile={2 ** int(exponents.max())} win={wins:.2%}",
        f"{'tile':<6}{'count':>8}{'score':>8}{'move':>8}{'rate':>9}{'win':>9}",
    ]
    for exponent in range(int(exponents.min()), int(exponents.max()) + 1):
        here = exponents == exponent
        count = int(here.sum())
        if count:
            score, move = int(scores[here].sum()) // count, int(moves[here].sum()) // count
            rate, reached = f"{count / total:.2%}", f"{(exponents >= exponent).mean():.2%}"
            lines.append(f"{2**exponent:<6}{count:>8}{score:>8}{move:>8}{rate:>9}{reached:>9}")
    return "\n".join(lines)


def comparison_text(comparison: Comparison) -> str:
    """The two policies and their difference, for a terminal."""
    c = comparison
    games = "1 seed" if c.episodes == 1 else f"{c.episodes:,} seeds"
    verdict = "the interval leaves out 0" if c.is_significant else "the interval includes 0"
    decided = c.episodes - c.ties
    share = c.wins / decided if decided else math.nan
    return "\n".join(
        [
            f"{c.first} against {c.second}, the same {games} each",
            f"mean scores   {_number(c.means[0])} and {_number(c.means[1])}",
            f"difference    {_number(c.difference)}, 95 % interval "
            f"{_interval(c.difference_interval)}: {verdict}",
            f"pairs         {c.wins:,} won by {c.first}, {decided - c.wins:,} by {c.second}, "
            f"{c.ties:,} ties; {_share(share)}, 95 % interval "
            f"{_interval(c.win_interval, _share)}",
            f"correlation   {'-' if math.isnan(c.correlation) else f'{c.correlation:.3f}'}",
        ]
    )


def plot(evaluations: Sequence[Evaluation], path: Path | None) -> Any:
    """Two panels: how scores are distributed, and which tiles are reached."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingDependency("plots need matplotlib: pip install 'twofold[plot]'") from None
    has_tiles = all(e.max_exponents is not None for e in evaluations)
    figure = Figure(figsize=(11 if has_tiles else 6, 4.5), layout="constrained")
    panels: Any = figure.subplots(1, 2 if has_tiles else 1, squeeze=False)[0]

    scores = panels[0]
    highest = max(float(e.scores.max()) for e in evaluations)
    lowest = min(float(e.scores.min()) for e in evaluations)
    bins = np.linspace(lowest, max(highest, lowest + 1), 61)
    for i, e in enumerate(evaluations):
        label = f"{e.policy}: mean {_number(float(e.scores.mean()))}"
        weights = np.full(e.episodes, 1 / e.episodes)
        scores.hist(e.scores, bins, weights=weights, alpha=0.6, color=f"C{i}", label=label)
        scores.axvline(e.scores.mean(), color=f"C{i}", linestyle="--")
    scores.set(xlabel="final score", ylabel="share of games", title="Scores; dashed: the mean")
    scores.xaxis.set_major_formatter("{x:,.0f}")
    scores.legend()

    if has_tiles:
        tiles = panels[1]
        reached = [e.summary["reached"] for e in evaluations]
        names = [t for t in reached[0] if any(r.get(t, {"share": 0})["share"] > 0 for r in reached)]
        names = names or list(reached[0])[:1]
        width = 0.8 / len(evaluations)
        for i, r in enumerate(reached):
            entries = [r.get(tile, {"share": 0.0, "interval": [0.0, 0.0]}) for tile in names]
            shares = np.array([entry["share"] for entry in entries])
            ends = np.array([entry["interval"] for entry in entries]).T
            error = np.maximum(0, [shares - ends[0], ends[1] - shares])
            at = np.arange(len(names)) + (i - (len(reached) - 1) / 2) * width
            tiles.bar(at, shares, width, yerr=error, capsize=3, color=f"C{i}", alpha=0.8)
        tiles.set_xticks(range(len(names)), [str(tile) for tile in names])
        tiles.set(xlabel="tile", ylabel="share of games", title="Games that reach the tile")
        tiles.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        tiles.set_ylim(0, 1)
    for panel in panels:
        panel.grid(alpha=0.3)
    if path is not None:
        try:
            figure.savefig(path, dpi=150)
        except ValueError as error:  # an ending that matplotlib does not know
            raise InvalidArgument(f"{path}: {error}", field="path") from None
    return figure
