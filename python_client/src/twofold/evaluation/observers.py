"""Observers that collect results, failures and progress while an evaluation plays.

Their method `add` gets each segment before the schedule counts it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from twofold.envs.results import Array
from twofold.errors import GameFailed
from twofold.evaluation.schedule import Schedule, Segment

Progress: TypeAlias = Callable[[int, int, int], None]
"""A callback that runs when episodes finish.

Its arguments are three numbers: finished episodes, all episodes, and steps so far.
"""


class GameResults:
    """An observer that stores the results of all games, in the order of their seeds.

    Attributes:
        finished: bool (E,), True for the games that have ended.
    """

    def __init__(self, total: int) -> None:
        self.finished = np.zeros(total, np.bool_)
        self._results: dict[str, Array] = {
            "score": np.zeros(total, np.float64),
            "moves": np.zeros(total, np.int64),
            "episode_length": np.zeros(total, np.int64),
            "max_exponent": np.zeros(total, np.uint8),
            "reward": np.zeros(total, np.float64),
        }
        # The results that every ended game has.
        self._names = set(self._results)
        self._has_whole_scores = True
        self._failures: list[GameFailed] = []

    def add(self, segment: Segment, schedule: Schedule) -> None:
        """Stores the failures and the results of ended games."""
        if not len(segment.ended):
            return
        for name, values in segment.results.items():
            self._results[name][schedule.episode[segment.ended]] = values
        self._names &= segment.results.keys()
        if "score" in segment.results:
            self._has_whole_scores &= segment.results["score"].dtype.kind in "iu"
        self.finished[schedule.episode[segment.ended]] = True
        self._failures += segment.failures

    def sorted_failures(self) -> tuple[GameFailed, ...]:
        """Returns the failures, sorted by episode."""
        return tuple(sorted(self._failures, key=lambda failure: failure.episode or 0))

    def fields(self) -> dict[str, Any]:
        """Returns the results of the finished games as keyword arguments for `Evaluation`.

        If a game has no score, the scores of all games are sums of rewards.
        """
        results = {name: self._results[name][self.finished] for name in self._names}
        scores = results.get("score")
        if scores is None:
            scores = results["reward"]
        elif self._has_whole_scores:
            scores = scores.astype(np.int64)
        return {
            "scores": scores,
            "moves": results.get("moves", results["episode_length"]),
            "lengths": results["episode_length"],
            "max_exponents": results.get("max_exponent"),
        }


class ProgressReport:
    """An observer that calls a function as games finish."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._steps = 0

    def add(self, segment: Segment, schedule: Schedule) -> None:
        """Counts the steps of a segment, and calls the function if games ended."""
        self._steps += np.count_nonzero(segment.playing)
        if len(segment.ended):
            finished = schedule.finished + len(segment.ended)
            self._progress(finished, len(schedule.seeds), self._steps)
