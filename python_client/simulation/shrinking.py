"""Smaller runs that fail as a large one does: fewer steps, fewer kinds of faults, fewer faults."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

from runs import Run
from world import KINDS, Faults, Report

Fails = Callable[[Run], Report | None]
"""Does a run; its report if there is a violation."""


def failing(run: Run) -> Report | None:
    """Returns the report of a run in which something was wrong."""
    report = run.report()
    return report if report.violation is not None else None


def shrink(
    run: Run, seconds: float, fails: Fails = failing, say: Callable[[str], None] = print
) -> tuple[Run, Report]:
    """Returns the smallest failing run found in this many seconds, and its report.

    Any violation will do, not just the first one's.

    Args:
        run: One that fails.
        seconds: After this time no other run begins.
        fails: Does a run.
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
        """Whether the run fails with these changes, too; then it is the run from now on."""
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
        """Tries fewer steps, in smaller and smaller parts."""
        part = self.run.steps // 2
        while part > 0:
            while self.run.steps > part and self._is_smaller(steps=self.run.steps - part):
                pass
            part //= 2

    def kinds(self) -> None:
        """Removes each kind of fault that is not needed."""
        for kind in range(len(KINDS)):
            disabled = self.run.faults.disabled
            if kind not in disabled:
                # Ordinals would belong to other faults.
                self._is_smaller(faults=Faults(disabled | {kind}))

    def single_faults(self) -> None:
        """Delta debugging: without halves of the faults, quarters of them, and so on."""
        count = self.report.faults
        needed = [one for one in range(count) if one not in self.run.faults.suppressed]
        size = -(-len(needed) // 2)
        while size > 0:
            for start in range(0, len(needed), size):
                left = [
                    one for place, one in enumerate(needed) if not start <= place < start + size
                ]
                # Faults that are new when others are left out stay.
                suppressed = frozenset(range(count)) - frozenset(left)
                faults = Faults(self.run.faults.disabled, suppressed)
                if self._is_smaller(faults=faults):
                    needed = left
                    break
            else:
                size //= 2
