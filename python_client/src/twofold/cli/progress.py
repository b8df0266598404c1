"""A line on the terminal that tells how far something is."""

from __future__ import annotations

import sys
import time


class ProgressLine:
    """Shown on standard error while that is a terminal; otherwise nothing.

    Args:
        name: What is under way.
        unit: What is counted.
    """

    def __init__(self, name: str, unit: str) -> None:
        self._name, self._unit = name, unit
        self._is_shown = sys.stderr.isatty()
        self._start, self._next = time.monotonic(), 0.0

    def __call__(self, done: int, total: int, steps: int | None = None) -> None:
        """Tells how many are done, and how fast the steps (or else these) are made."""
        now = time.monotonic()
        if self._is_shown and now >= self._next:
            self._next = now + 0.2
            speed = (done if steps is None else steps) / (now - self._start)
            text = f"{self._name}: {done:,} of {total:,} {self._unit}, {speed:,.0f} steps/s"
            print(f"\r{text:78}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Takes the line away."""
        if self._is_shown:
            print("\r" + " " * 78 + "\r", end="", file=sys.stderr, flush=True)
