"""The one loop that plays boards: whole games, rollouts by a function, and datasets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

SegmentT = TypeVar("SegmentT")
ScheduleT = TypeVar("ScheduleT", bound="Schedule[Any]")
_Played = TypeVar("_Played", covariant=True)
_Seen = TypeVar("_Seen", contravariant=True)
_Kept = TypeVar("_Kept", contravariant=True)


class Schedule(Protocol[_Seen]):
    """The part of the play that is left.

    Attributes:
        begins: The lanes that begin an episode now, bool (N,).
    """

    begins: NDArray[np.bool_]

    @property
    def is_finished(self) -> bool:
        """Whether nothing is left."""
        ...

    def advance(self, segment: _Seen, /) -> None:
        """Counts a segment that was played, and finds the lanes that begin an episode."""
        ...


class Source(Protocol[_Kept, _Played]):
    """A player of some steps at a time."""

    def begin(self, schedule: _Kept, /) -> None:
        """Begins the episodes of the lanes `schedule.begins`."""
        ...

    def play(self, schedule: _Kept, /) -> _Played:
        """Plays some steps of all lanes, and returns them as a segment."""
        ...


class Observer(Protocol[_Seen, _Kept]):
    """An onlooker."""

    def add(self, segment: _Seen, schedule: _Kept, /) -> None:
        """Adds a segment, before the schedule counts it."""
        ...


def play(
    source: Source[ScheduleT, SegmentT],
    schedule: ScheduleT,
    observers: Sequence[Observer[SegmentT, ScheduleT]],
) -> None:
    """Plays everything that a schedule holds."""
    source.begin(schedule)
    while True:
        segment = source.play(schedule)
        for observer in observers:
            observer.add(segment, schedule)
        schedule.advance(segment)
        if schedule.is_finished:
            return
        if schedule.begins.any():
            source.begin(schedule)
