"""The loop that plays episodes, for evaluations and rollouts of Python functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray


class Schedule(Protocol):
    """The episodes or steps that remain to be played.

    Attributes:
        begins: The lanes that are about to begin an episode, bool (N,).
    """

    begins: NDArray[np.bool_]

    @property
    def is_finished(self) -> bool:
        """Whether nothing remains to be played."""
        ...

    def advance(self, segment: Any, /) -> None:
        """Counts a played segment, and sets `begins` to the lanes that begin an episode next."""
        ...


SegmentT = TypeVar("SegmentT", covariant=True)
ScheduleT = TypeVar("ScheduleT", bound=Schedule, contravariant=True)


class Source(Protocol[ScheduleT, SegmentT]):
    """An object that plays a schedule, a few steps at a time."""

    def begin(self, schedule: ScheduleT, /) -> None:
        """Begins the episodes of the lanes in `schedule.begins`."""
        ...

    def play(self, schedule: ScheduleT, /) -> SegmentT:
        """Plays and returns one segment: some steps of all lanes."""
        ...


def play(
    source: Source[ScheduleT, SegmentT],
    schedule: ScheduleT,
    observers: Sequence[Callable[[SegmentT, ScheduleT], object]],
) -> None:
    """Plays a schedule to its end. The observers get each segment before the schedule counts it."""
    source.begin(schedule)
    while True:
        segment = source.play(schedule)
        for observe in observers:
            observe(segment, schedule)
        schedule.advance(segment)
        if schedule.is_finished:
            return
        if schedule.begins.any():
            source.begin(schedule)
