"""The report in Markdown: rates, round trips, ratios, and what each contestant did."""

from __future__ import annotations

import statistics
from typing import Any

from contestants import CONTESTANTS, TARGETS, Target
from rounds import Result

Results = dict[tuple[str, int], Result]

# Busy cores up to which a machine counts as quiet.
QUIET = 0.15

METHOD = """\
Each contestant is a process of its own, and only one runs at a time; the clock runs inside the step
call only. Between steps, untimed and the same for all, actions are drawn uniformly from those that
the mask allows (from all four where there is no mask). Everything a contestant gives its user is
there as numpy when the clock stops. The echo sends and receives exactly the frames of a real step.\
"""


def markdown(run: dict[str, Any], results: Results) -> str:
    """The whole report.

    Args:
        run: Machine, versions, settings and dates, as the JSON has them.
        results: By contestant and N.
    """
    sizes: list[int] = run["sizes"]
    parts = [
        "# End-to-end benchmark",
        _setting(run),
        "## Steps per second\n\nOne step is one move of one board. Medians of the rounds, "
        "with the lowest and the highest.",
        _rates(results, sizes),
        _failures(results),
    ]
    if 1 in sizes:
        parts += ["## Round trip with one board, microseconds", _round_trips(results)]
    parts += [
        _ratios(results),
        "## Contestants",
        _contestants(results),
        METHOD,
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def ratio(target: Target, results: Results) -> list[float] | None:
    """The target's ratio in each round; None where one of the two was not measured."""
    of, to = (results.get((name, target.size)) for name in (target.of, target.to))
    if of is None or to is None or of.rate is None or to.rate is None:
        return None
    if target.measure == "rate":
        return [a / b for a, b in zip(of.rates, to.rates, strict=True)]
    return [a / b for a, b in zip(of.latencies, to.latencies, strict=True)]


def _setting(run: dict[str, Any]) -> str:
    machine = run["machine"]
    changes = " and uncommitted changes" if run["has_uncommitted_changes"] else ""
    lines = [
        f"`{run['command']}`",
        f"{run['started']}: {machine['processor']}, {_cores(machine)}, "
        f"{machine['memory_bytes'] / 2**30:.0f} GiB, {machine['system']}. "
        f"Commit {run['commit'][:12]}{changes}. {run['rounds']} interleaved rounds of "
        f"{run['seconds']:g} s for each contestant and N.",
    ]
    busy = run["busy_cores"] or [0.0]
    span = f"{min(busy):.2f} … {max(busy):.2f} of {_cores(machine)}"
    if max(busy) > QUIET:
        lines.append(
            f"**Other work was running**: {span} were busy while the benchmark waited. Its numbers "
            "are too low and its ratios uncertain."
        )
    else:
        lines.append(f"The machine was quiet: {span} were busy while the benchmark waited.")
    return "\n\n".join(lines)


def _cores(machine: dict[str, Any]) -> str:
    return "1 core" if machine["cores"] == 1 else f"{machine['cores']} cores"


def _rates(results: Results, sizes: list[int]) -> str:
    table = [["", *(f"N = {size}" for size in sizes)]]
    for contestant in CONTESTANTS:
        row = [results.get((contestant.name, size)) for size in sizes]
        if any(row):
            table.append([contestant.label, *map(_rate, row)])
    return _table(table)


def _rate(result: Result | None) -> str:
    if result is None:
        return ""
    if result.rate is None:
        return "left out" if (result.failure or "").startswith("left out") else "**failed**"
    low, high = si(min(result.rates)), si(max(result.rates))
    return f"{si(result.rate)} ({low} … {high})"


def _failures(results: Results) -> str:
    reasons: dict[str, list[str]] = {}
    for (name, size), result in results.items():
        if result.failure:
            reasons.setdefault(f"{name}: {result.failure}", []).append(str(size))
    return "\n".join(f"- {reason} (N = {', '.join(at)})" for reason, at in reasons.items())


def _round_trips(results: Results) -> str:
    table = [["", "median", "lowest and highest round"]]
    for contestant in CONTESTANTS:
        result = results.get((contestant.name, 1))
        if contestant.is_stepwise and result is not None and result.rate is not None:
            times = result.latencies
            median = f"{statistics.median(times):.1f}"
            table.append([contestant.label, median, f"{min(times):.1f} … {max(times):.1f}"])
    return _table(table)


def _ratios(results: Results) -> str:
    table = [["N", "ratio", "measured", "target"]]
    for target in TARGETS:
        if (target.of, target.size) not in results and (target.to, target.size) not in results:
            continue
        values = ratio(target, results)
        measured, wanted = _ratio(target, values), _bound(target, values)
        table.append([str(target.size), target.what, measured, wanted])
    if len(table) == 1:
        return ""
    return (
        "## Ratios\n\nEach round gives one ratio; this is their median, with the lowest and the "
        f"highest.\n\n{_table(table)}"
    )


def _ratio(target: Target, values: list[float] | None) -> str:
    if values is None:
        return "not measured"
    shown = [
        f"{value * 100:.0f} %" if target.is_percentage else f"{value:.2f}"
        for value in (statistics.median(values), min(values), max(values))
    ]
    return f"{shown[0]} ({shown[1]} … {shown[2]})"


def _bound(target: Target, values: list[float] | None) -> str:
    if target.bound is None:
        return ""
    bound = f"{target.bound * 100:.0f} %" if target.is_percentage else f"{target.bound:g}"
    wanted = f"{'at least' if target.measure == 'rate' else 'at most'} {bound}"
    if values is None:
        return wanted
    median = statistics.median(values)
    is_met = median >= target.bound if target.measure == "rate" else median <= target.bound
    return f"{wanted}: {'met' if is_met else '**missed**'}"


def _contestants(results: Results) -> str:
    lines = []
    for contestant in CONTESTANTS:
        # Those with the most boards: the bytes of the echo depend on N.
        own = [one for (name, _), one in results.items() if name == contestant.name and one.details]
        if own:
            details = max(own, key=lambda one: one.size).details
            said = "; ".join(f"{key}: {value}" for key, value in details.items())
            lines.append(f"- {contestant.label} (`{contestant.name}`): {said}")
    return "\n".join(lines)


def si(value: float) -> str:
    """Three digits and a unit: 51.2 M."""
    factor, unit = next(
        one for one in ((1e9, " G"), (1e6, " M"), (1e3, " k"), (0, "")) if value >= one[0]
    )
    value /= factor or 1
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{digits}f}{unit}"


def _table(rows: list[list[str]]) -> str:
    head, *body = rows
    lines = ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *body)]
    return "\n".join(lines)
