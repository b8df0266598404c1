"""Searches for smaller runs that also fail: fewer steps, fewer kinds of faults, fewer faults."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

from runs import Run
from world import KINDS, Faults, Report

Fails = Callable[[Run], Report | None]
"""A function that executes a run. Returns the report if there was a violation, else None."""


def failing(run: Run) -> Report | None:
    """Executes a run. Returns the report if there was a violation, else None."""
    report = run.report()
    return report if report.violation is not None else None


def shrink(
    run: Run, seconds: float, fails: Fails = failing, say: Callable[[str], None] = print
) -> tuple[Run, Report]:
    """Searches for the smallest failing run for `seconds` s. Returns that run and its report.

    The smaller runs may fail with a different violation.

    Args:
        run: A run that fails.
        seconds: The time after which no further run begins.
        fails: The function that executes a run.
        say: Called with a line for each smaller run.
    """
    report = fails(run)
    if report is None:
        raise ValueError(f"this run does not fail: {run.command()}")
    search = _Search(run, report, time.monotonic() + seconds, fails, say)
    search.steps()
    search.kinds()
    search.single_faults()
    search.steps()
    return search.run, search.report


class _Search:
    def __init__(
        self, run: Run, report: Report, end: float, fails: Fails, say: Callable[[str], None]
    ) -> None:
        self.run, self.report = run, report
        self._end, self._fails, self._say = end, fails, say

    def _is_smaller(self, **changes: object) -> bool:
        """Tries these changes, and keeps them if the run still fails. Returns True if it does."""
        if time.monotonic() >= self._end:
            return False
        run = dataclasses.replace(self.run, **changes)  # type: ignore[arg-type]
        report = self._fails(run)
        if report is None:
            return False
        self.run, self.report = run, report
        self._say(f"smaller: {run.command()}")
        return True

    def steps(self) -> None:
        """Removes steps while the run still fails: half of the steps, a quarter, and so on."""
        part = self.run.steps // 2
        while part > 0:
            while self.run.steps > part and self._is_smaller(steps=self.run.steps - part):
                pass
            part //= 2

    def kinds(self) -> None:
        """Removes each kind of fault without which the run still fails."""
        for kind in range(len(KINDS)):
            disabled = self.run.faults.disabled
            if kind not in disabled:
                # The same ordinals would belong to other faults.
                self._is_smaller(faults=Faults(disabled | {kind}))

    def single_faults(self) -> None:
        """Removes halves of the faults, then quarters, and so on (delta debugging)."""
        count = self.report.faults
        needed = [one for one in range(count) if one not in self.run.faults.suppressed]
        size = -(-len(needed) // 2)
        while size > 0:
            for start in range(0, len(needed), size):
                left = [
                    one for place, one in enumerate(needed) if not start <= place < start + size
                ]
                # Keeps new faults that appear because others are left out.
                suppressed = frozenset(range(count)) - frozenset(left)
                faults = Faults(self.run.faults.disabled, suppressed)
                if self._is_smaller(faults=faults):
                    needed = left
                    break
            else:
                size //= 2
