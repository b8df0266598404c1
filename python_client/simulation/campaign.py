"""Campaigns, which execute many runs on all cores until time is up or a run fails."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from runs import Run
from world import KINDS, Report

EXPECTED_MARKS = (
    *("interrupted", "collected", "discarded", "step pending", "step in two calls"),
    *("deadline exceeded", "shutting down", "refused", "no room"),
    *("killed after its request was executed", "last results", "resumed in another process"),
    *("lost", "recovered", "forked", "restore", "rollout", "part of a rollout", "closed"),
    *("taken", "shut out", "a resume finds an executed request"),
)
"""The events (marks) that must occur in a campaign. Without them, its success proves little."""
ENOUGH_REQUESTS = 1_000_000
"""The number of requests after which every mark should have occurred."""


@dataclass
class Campaign:
    """The combined totals of many runs."""

    runs: int = 0
    requests: int = 0
    simulated_seconds: float = 0.0
    marks: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    violations: list[tuple[Run, str]] = field(default_factory=list)

    def add(self, run: Run, report: Report) -> None:
        """Adds a run's report to the totals."""
        self.runs += 1
        self.requests += report.requests
        self.simulated_seconds += report.time * 1e-9
        self.marks.update(report.marks)
        self.faults.update(report.by_kind)
        if report.violation is not None:
            self.violations.append((run, report.violation))

    def missing_marks(self, has_models: bool) -> list[str]:
        """Returns the expected marks that never occurred. After too few requests, returns []."""
        if self.requests < ENOUGH_REQUESTS:
            return []
        # Only models reach some of the marks, so runs with models count all of them.
        expected = self.marks if has_models else EXPECTED_MARKS
        return sorted(name for name in expected if not self.marks[name])

    def text(self, seconds: float) -> str:
        """Returns the campaign's report as text."""
        faults = ", ".join(f"{kind} {self.faults[kind]:,}" for kind in KINDS)
        marks = ", ".join(f"{name} {count:,}" for name, count in sorted(self.marks.items()))
        return (
            f"{self.runs:,} runs, {self.requests:,} requests in {seconds:.0f} s "
            f"({self.requests / max(seconds, 1e-9):,.0f} a second), "
            f"{self.simulated_seconds / 3600:,.1f} hours of simulated time\n"
            f"faults: {faults}\nmarks: {marks}"
        )


def execute(run: Run) -> tuple[Run, Report]:
    """Executes one run. Worker processes call this function."""
    return run, run.report()


def campaign(
    runs: Iterator[Run], seconds: float, workers: int, say: Callable[[str], None]
) -> Campaign:
    """Executes runs until time is up, all runs are done or a run fails.

    Args:
        runs: The runs, in order.
        seconds: The time after which no new run begins.
        workers: The number of processes; 1 uses only this process.
        say: Called occasionally with a line of progress.
    """
    total, end = Campaign(), time.monotonic() + seconds
    started = shown = time.monotonic()
    in_time = itertools.takewhile(lambda _: time.monotonic() < end and not total.violations, runs)
    for run, report in _reports(in_time, workers):
        total.add(run, report)
        if report.violation is not None:
            say(f"violation: {report.violation}\n  {run.command()}")
        if time.monotonic() > shown + 10:
            shown = time.monotonic()
            say(f"{total.runs:,} runs, {total.requests:,} requests, {shown - started:.0f} s")
    return total


def _reports(runs: Iterator[Run], workers: int) -> Iterator[tuple[Run, Report]]:
    if workers == 1:
        yield from map(execute, runs)
        return
    # Each process starts afresh: a fork of a process that has used the library has only one thread.
    context = multiprocessing.get_context("spawn")
    with context.Pool(workers) as pool:
        waiting = [pool.apply_async(execute, (run,)) for run in itertools.islice(runs, workers)]
        while waiting:
            yield waiting.pop(0).get()
            waiting += [pool.apply_async(execute, (run,)) for run in itertools.islice(runs, 1)]


def cores() -> int:
    """Returns the number of processors that this process may use."""
    return len(os.sched_getaffinity(0))
