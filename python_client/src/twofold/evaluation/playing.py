"""The one loop that plays whole games, and its observers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from twofold.envs.results import Array
from twofold.errors import GameFailed
from twofold.evaluation.schedule import Schedule

Progress: TypeAlias = "Callable[[int, int, int], None]"
"""Called with the number of finished episodes, of all episodes, and of steps so far."""


class Segment(NamedTuple):
    """Some steps T of all lanes N.

    Attributes:
        actions: (T, N).
        playing: bool (T, N), true for the steps that count.
        boards: (T, N, …), the boards before the steps; None if no observer needs them.
        infos: The infos that observers need, (T, N) each; of the move that was played in the place
            of a failed game, too.
        ended: The lanes whose episodes have ended, (k,).
        results: For these lanes `score`, `moves`, `length` and, in games with tiles,
            `max_exponent`, (k,) each.
        failures: The games that a player failed in.
    """

    actions: Array
    playing: NDArray[np.bool_]
    boards: Array | None
    infos: Mapping[str, Array]
    ended: NDArray[np.intp]
    results: Mapping[str, Array]
    failures: Collection[GameFailed] = ()


class Observer:
    """An onlooker of games as they are played.

    Attributes:
        infos: The infos that it needs of each step.
        needs_boards: Whether it needs the boards before each step.
    """

    infos: tuple[str, ...] = ()
    needs_boards = False

    def add(self, segment: Segment, schedule: Schedule) -> None:
        """Adds some steps."""

    def end(self, segment: Segment, schedule: Schedule) -> None:
        """Ends the episodes of the lanes `segment.ended`, after `add`."""


class Source(Protocol):
    """A player of a schedule's games, some steps at a time."""

    def begin(self, schedule: Schedule, lanes: NDArray[np.bool_]) -> None:
        """Begins the episodes that these lanes, bool (N,), play now; at first all lanes."""
        ...

    def play(self, schedule: Schedule) -> Segment:
        """Plays some steps of all lanes."""
        ...


def play(source: Source, schedule: Schedule, observers: Sequence[Observer]) -> None:
    """Plays all episodes: a lane that finishes one takes the next one's seed."""
    source.begin(schedule, np.ones(len(schedule.active), np.bool_))
    while not schedule.is_finished:
        segment = source.play(schedule)
        for observer in observers:
            observer.add(segment, schedule)
        if not len(segment.ended):
            continue
        for observer in observers:
            observer.end(segment, schedule)
        begins = schedule.end(segment.ended)
        if begins.any():
            source.begin(schedule, begins)


class Results(Observer):
    """The results of all games, in the seeds' order.

    Args:
        total: Number of games.
    """

    def __init__(self, total: int) -> None:
        self._results: dict[str, Array] = {
            "score": np.zeros(total, np.float64),
            "moves": np.zeros(total, np.int64),
            "length": np.zeros(total, np.int64),
            "max_exponent": np.zeros(total, np.uint8),
        }
        self._has_whole_scores = True
        self._has_tiles = False
        self._failures: list[GameFailed] = []

    def add(self, segment: Segment, schedule: Schedule) -> None:
        """Keeps the failures."""
        self._failures += segment.failures

    def end(self, segment: Segment, schedule: Schedule) -> None:
        """Keeps the results of the games that have ended."""
        for name, values in segment.results.items():
            self._results[name][schedule.episode[segment.ended]] = values
        self._has_whole_scores &= segment.results["score"].dtype.kind in "iu"
        self._has_tiles |= "max_exponent" in segment.results

    def sorted_failures(self) -> tuple[GameFailed, ...]:
        """Returns the games that a player failed in, in their order."""
        return tuple(sorted(self._failures, key=lambda failure: failure.episode or 0))

    def fields(self) -> dict[str, Any]:
        """Returns fields of `Evaluation`."""
        scores = self._results["score"]
        return {
            "scores": scores.astype(np.int64) if self._has_whole_scores else scores,
            "moves": self._results["moves"],
            "lengths": self._results["length"],
            "max_exponents": self._results["max_exponent"] if self._has_tiles else None,
        }


class ProgressReport(Observer):
    """Calls a function as games finish.

    Args:
        progress: The function.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._finished = self._steps = 0

    def add(self, segment: Segment, schedule: Schedule) -> None:
        """Counts the steps."""
        self._steps += np.count_nonzero(segment.playing)

    def end(self, segment: Segment, schedule: Schedule) -> None:
        """Reports the games that have ended."""
        self._finished += len(segment.ended)
        self._progress(self._finished, len(schedule.seeds), self._steps)
