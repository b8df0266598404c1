"""The benchmark's report in Markdown: rates, round trips, ratios, and contestants' details."""

from __future__ import annotations

import statistics
from typing import Any

import tables
from contestants import (
    ALONE,
    BESIDE,
    CONTESTANTS,
    LEARNER_SIZE,
    LEARNERS,
    NOTHING,
    TARGETS,
    Condition,
    Contestant,
    Target,
)
from figures import Row
from rounds import Result, Results

from twofold.cli.stats import rate

# The number of busy cores up to which a machine counts as quiet.
QUIET = 0.15

METHOD = """\
Each contestant is a separate process, and only one runs at a time. The clock runs only inside the
step call. Next to a learner, it runs during the whole loop of policy, choice and step. Between
steps, actions are drawn uniformly from the legal actions, or from all four without a mask. The
draws are untimed and the same for all contestants. When the clock stops, all results for the user
are numpy arrays. The echo sends and receives exactly the frames of a real step.\
"""


def markdown(run: dict[str, Any], results: Results) -> str:
    """Returns the whole report.

    Args:
        run: The machine, versions, settings and dates, as in the JSON.
        results: The results by contestant and N.
    """
    sizes: list[int] = run["sizes"]
    parts = [
        "# End-to-end benchmark",
        _setting(run),
        "## Alone: steps per second\n\nOne step is one move of one board. The figures are medians "
        "of the rounds, with the lowest and the highest.",
        _rates(results, sizes),
        _failures(results),
        "## Alone: microseconds of a call",
        _times(results, sizes),
        _split(run["split"]),
        _beside(results, sizes),
        _learners(results),
        _halves(run["halves"]),
        _idle(run["idle"]),
        _targets(results),
        "## Contestants",
        _contestants(results),
        METHOD,
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def figures(target: Target, results: Results) -> list[float] | None:
    """Returns the target's figure for each round, or None if it was not measured."""
    names = [target.of, *([target.to] if target.to else [])]
    found = [results.get((name, target.size, target.condition.name)) for name in names]
    measured = [one for one in found if one is not None and one.rate is not None]
    if len(measured) < len(names):
        return None
    if len(names) == 1:
        return measured[0].times
    values = [one.times if target.is_time else one.rates for one in measured]
    return [a / b for a, b in zip(*values, strict=True)]


def rows(run: dict[str, Any], results: Results) -> list[Row]:
    """Returns the rows for docs/figures: the medians over the rounds, and the parts of a step."""
    measured = [
        {
            "contestant": one.contestant,
            "size": one.size,
            "condition": one.condition,
            "rate": one.rate,
            "microseconds": statistics.median(one.times),
            "p99": statistics.median(one.tails),
        }
        for one in results.values()
        if one.rate is not None
    ]
    return [*measured, *run["split"]]


def _setting(run: dict[str, Any]) -> str:
    machine = run["machine"]
    changes = " and uncommitted changes" if run["has_uncommitted_changes"] else ""
    lines = [
        f"`{run['command']}`",
        f"{run['started']}: {machine['processor']}, {cores(machine)}, "
        f"{machine['memory_bytes'] / 2**30:.0f} GiB, {machine['system']}. "
        f"Commit {run['commit'][:12]}{changes}. {run['rounds']} interleaved rounds of "
        f"{run['seconds']:g} s for each contestant and N.",
    ]
    busy = run["busy_cores"] or [0.0]
    span = f"{min(busy):.2f} … {max(busy):.2f} of {cores(machine)}"
    if max(busy) > QUIET:
        lines.append(
            f"**Other work was running**: {span} were busy while the benchmark waited. The rates "
            "are too low and the ratios uncertain."
        )
    else:
        lines.append(f"The machine was quiet: {span} were busy while the benchmark waited.")
    return "\n\n".join(lines)


def cores(machine: dict[str, Any]) -> str:
    """Returns the machine's number of cores in words."""
    return "1 core" if machine["cores"] == 1 else f"{machine['cores']} cores"


def _rates(results: Results, sizes: list[int]) -> str:
    table = [["", *(f"N = {size}" for size in sizes)]]
    for contestant in CONTESTANTS:
        row = [results.get((contestant.name, size, ALONE.name)) for size in sizes]
        if any(row):
            table.append([contestant.label, *map(_rate, row)])
    return _table(table)


def _rate(result: Result | None) -> str:
    if result is None:
        return ""
    if result.rate is None:
        return "left out" if (result.failure or "").startswith("left out") else "**failed**"
    low, high = rate(min(result.rates)), rate(max(result.rates))
    return f"{rate(result.rate)} ({low} … {high})"


def _failures(results: Results) -> str:
    reasons: dict[str, list[str]] = {}
    for result in results.values():
        if result.failure:
            reason = f"{result.contestant}: {result.failure}"
            reasons.setdefault(reason, []).append(str(result.size))
    return "\n".join(f"- {reason} (N = {', '.join(at)})" for reason, at in reasons.items())


def _stepwise() -> list[Contestant]:
    return [one for one in CONTESTANTS if one.is_stepwise]


def _times(results: Results, sizes: list[int]) -> str:
    table = [["mean / p99", *(f"N = {size}" for size in sizes)]]
    for contestant in _stepwise():
        row = [_time(results.get((contestant.name, size, ALONE.name))) for size in sizes]
        if any(row):
            table.append([contestant.label, *row])
    return _table(table)


def _time(result: Result | None) -> str:
    if result is None or result.rate is None:
        return ""
    mean, tail = statistics.median(result.times), statistics.median(result.tails)
    return f"{mean:.{0 if mean >= 100 else 1}f} / {tail:,.0f}"


def _split(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return ""
    names = ("step", "python", "crossing", "session", "engine", "kernel")
    head = ["a step", "Python", "crossing", "session", "kernel and Dispatch", "kernel, one thread"]
    table = [["N", *head]]
    for row in rows:
        table.append([str(row["size"]), *(f"{row[name]:.1f}" for name in names)])
    return (
        "## One step in the process, microseconds\n\n`VectorEnv.step` with `copy=False`. The "
        "crossing is a call of the library that is refused immediately; `twofold-server bench` "
        f"measures the kernel's time.\n\n{_table(table)}"
    )


def _beside(results: Results, sizes: list[int]) -> str:
    """Returns a section on the time of calls next to busy processes, relative to calls alone."""
    names = [ALONE.name, *(condition.name + " busy process" for condition in BESIDE)]
    parts = []
    for size in sizes:
        table = [["mean / p99", *names]]
        for contestant in _stepwise():
            row = [
                results.get((contestant.name, size, condition.name))
                for condition in (ALONE, *BESIDE)
            ]
            if row[0] is not None and any(one is not None for one in row[1:]):
                cells = [_time(row[0]), *(_multiple(one, row[0]) for one in row[1:])]
                table.append([contestant.label, *cells])
        if len(table) > 1:
            parts.append(f"N = {size}:\n\n{_table(table)}")
    if not parts:
        return ""
    return "\n\n".join(
        [
            "## Next to busy processes: microseconds of a call",
            "In parentheses: the mean relative to the mean alone.",
            *parts,
        ]
    )


def _multiple(result: Result | None, alone: Result) -> str:
    if result is None or result.rate is None or alone.rate is None:
        return ""
    times = statistics.median(a / b for a, b in zip(result.times, alone.times, strict=True))
    return f"{_time(result)} ({times:.2f})"


def _learners(results: Results) -> str:
    table = [["loops per second", *(f"policy of {one.thinking * 1e3:g} ms" for one in LEARNERS)]]
    for contestant in (NOTHING, *CONTESTANTS):
        row = [_loops(contestant, condition, results) for condition in LEARNERS]
        if any(row):
            table.append([contestant.label, *row])
    if len(table) == 1:
        return ""
    return (
        f"## Next to a learner\n\nA policy computes on all cores between two steps of "
        f"{LEARNER_SIZE} boards. In parentheses: the rate relative to the loop without an "
        "environment.\n\n" + _table(table)
    )


def _loops(contestant: Contestant, condition: Condition, results: Results) -> str:
    result, nothing = (
        results.get((name, LEARNER_SIZE, condition.name))
        for name in (contestant.name, NOTHING.name)
    )
    if result is None or result.rate is None or nothing is None or nothing.rate is None:
        return ""
    share = statistics.median(a / b for a, b in zip(result.rates, nothing.rates, strict=True))
    return f"{result.rate / LEARNER_SIZE:,.0f} ({share * 100:.0f} %)"


def _halves(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return ""
    table = [["N", "policy, us", "step, us", "lock-step", "two halves", "times"]]
    for row in rows:
        times = [f"{1e6 * row[name]:,.0f}" for name in ("policy", "step")]
        rates = [rate(row[name]) for name in ("lock_step", "halves")]
        table.append([str(row["size"]), *times, *rates, f"{row['ratio']:.2f}"])
    return (
        "## Two halves over tcp\n\n`examples/two_halves.py`: steps per second of N boards in "
        "lock-step with a policy as slow as a step, and of two environments of N / 2 boards in "
        f"turn (target: at least 1.4 times).\n\n{_table(table)}"
    )


def _idle(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return ""
    table = [["256 boards", "server", "client"]]
    for row in rows:
        idle = [f"{milliseconds:.1f} ms" for milliseconds in row["idle"]]
        shares = [f"{share * 100:.0f} %" for share in row["thinking"]]
        table.append([f"{row['endpoint']}: idle, in a minute", *idle])
        what = f"{row['endpoint']}: 0.3 ms between steps, {row['rate']:,.0f} steps/s"
        table.append([what, *shares])
    return f"## Processor time of almost idle sessions\n\n{_table(table)}"


def _targets(results: Results) -> str:
    table = [["N", "", "measured", "target"]]
    for target in TARGETS:
        values = figures(target, results)
        if values is not None:
            table.append([str(target.size), target.what, *_judged(target, values)])
    if len(table) == 1:
        return ""
    return (
        "## Targets\n\nEach round gives one figure. The table shows the median, the lowest and the "
        f"highest.\n\n{_table(table)}"
    )


def _judged(target: Target, values: list[float]) -> tuple[str, str]:
    def shown(value: float) -> str:
        return f"{value * 100:.0f} %" if target.is_percentage else f"{value:.3g}"

    median = statistics.median(values)
    is_met = median <= target.bound if target.is_time else median >= target.bound
    wanted = f"{'at most' if target.is_time else 'at least'} {shown(target.bound)}"
    measured = f"{shown(median)} ({shown(min(values))} … {shown(max(values))})"
    return measured, f"{wanted}: {'met' if is_met else '**missed**'}"


def _contestants(results: Results) -> str:
    lines = []
    for contestant in CONTESTANTS:
        # The details for the most boards, because the echo's size depends on N.
        own = [one for one in results.values() if one.contestant == contestant.name and one.details]
        if own:
            details = max(own, key=lambda one: one.size).details
            said = "; ".join(f"{key}: {value}" for key, value in details.items())
            lines.append(f"- {contestant.label} (`{contestant.name}`): {said}")
    return "\n".join(lines)


def _table(rows: list[list[str]]) -> str:
    return tables.markdown(rows[0], rows[1:]).rstrip()
