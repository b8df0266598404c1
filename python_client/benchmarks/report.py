"""The benchmark's report in Markdown: tables of all contestants, and their details."""

from __future__ import annotations

import statistics
from typing import Any

import tables
from contestants import CONTESTANTS, LEARNER_SIZE, NOTHING
from figures import Row
from rounds import Results

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
    bench = tables.Bench(rows(run, results))
    names = {name for name, _, _ in results}
    measured = [one for one in CONTESTANTS if one.name in names]
    stepwise = {one.label: one.name for one in measured if one.is_stepwise}
    looped = {one.label: one.name for one in (NOTHING, *measured) if one.has_learner}
    parts = [
        "# End-to-end benchmark",
        _setting(run),
        "## Alone: million steps per second\n\nOne step is one move of one board. All figures are "
        "medians of the rounds; end_to_end.json has each round.",
        bench.rates({one.label: [one.name] for one in measured}),
        _failures(results),
        "## Microseconds of a call: mean / p99, alone and next to a busy process",
        bench.calls(stepwise, run["sizes"]),
    ]
    if run["split"]:
        parts += [
            "## One step in the process, microseconds\n\n`VectorEnv.step` with `copy=False`. The "
            "crossing is a call of the library that is refused immediately.",
            bench.split(),
        ]
    if LEARNER_SIZE in run["sizes"]:
        parts += [
            "## Next to a learner: loops per second\n\nA policy computes on all cores between two "
            f"steps of {LEARNER_SIZE} boards. In parentheses: the rate relative to the loop "
            "without an environment.",
            bench.loops(looped),
        ]
    parts += ["## Contestants", _contestants(results), METHOD]
    return "\n\n".join(part.rstrip() for part in parts if part) + "\n"


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


def _failures(results: Results) -> str:
    reasons: dict[str, list[str]] = {}
    for result in results.values():
        if result.failure:
            reason = f"{result.contestant}: {result.failure}"
            reasons.setdefault(reason, []).append(str(result.size))
    return "\n".join(f"- {reason} (N = {', '.join(at)})" for reason, at in reasons.items())


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
