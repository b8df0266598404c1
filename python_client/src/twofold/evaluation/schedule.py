"""The assignment of episodes to lanes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from twofold.envs.results import Array
from twofold.errors import GameFailed
from twofold.evaluation.seeds import Seeds


class Segment(NamedTuple):
    """T consecutive steps of all N lanes.

    Attributes:
        actions: (T, N), the actions of the steps.
        playing: bool (T, N), True for steps that count: the lane was playing an episode, and its
            player did not fail.
        boards: (T, N, …), the boards before the steps; None if no observer needs infos.
        infos: The infos that observers need, (T, N) each. If a player failed, the lane's infos
            describe the substitute move that the environment played.
        ended: (k,), the lanes whose episodes ended.
        results: The results of the ended episodes, (k,) each: `episode_length`; `score`, `moves`
            and `max_exponent` if the environment reports them; `reward`, their sums of rewards,
            unless it always reports `score`.
        failures: The games in which a player failed.
    """

    actions: Array
    playing: NDArray[np.bool_]
    boards: Array | None
    infos: Mapping[str, Array]
    ended: NDArray[np.intp]
    results: Mapping[str, Array]
    failures: Collection[GameFailed] = ()


class Schedule:
    """The assignment of episodes to lanes. A lane that finishes starts the next episode.

    Every started episode counts, so long episodes count as often as short ones. A lane is active
    while it plays an episode, and idle when no episode is left for it.

    Args:
        seeds: The episodes' seeds.
        lanes: The number of lanes N.
        first: The number of the first episode, used only in messages.

    Attributes:
        finished: The number of finished episodes.
        episode: int (N,), the number of each lane's episode, from 0. An idle lane keeps its last
            number; a lane that never plays has the last episode's.
        active: bool (N,), False for idle lanes.
        begins: bool (N,), True for lanes that are about to begin an episode. Initially, True for
            all lanes, including idle ones.
    """

    def __init__(self, seeds: Seeds, lanes: int, first: int = 0) -> None:
        self.seeds = seeds
        self._first = first
        self.finished = 0
        self.active = np.arange(lanes) < len(seeds)
        self.episode = np.minimum(np.arange(lanes), len(seeds) - 1)
        self.begins = np.ones(lanes, np.bool_)
        self._begun = min(len(seeds), lanes)

    @property
    def lane_seeds(self) -> Seeds:
        """The seeds of each lane's episode."""
        return self.seeds.of(self.episode)

    @property
    def is_finished(self) -> bool:
        """Whether all episodes are finished."""
        return self.finished == len(self.seeds)

    def advance(self, segment: Segment) -> None:
        """Ends the episodes of the lanes in `segment.ended`, and assigns them new episodes."""
        lanes = segment.ended
        self.finished += len(lanes)
        again = lanes[: len(self.seeds) - self._begun]
        self.active[lanes[len(again) :]] = False
        self.episode[again] = np.arange(self._begun, self._begun + len(again))
        self._begun += len(again)
        self.begins = np.zeros(len(self.active), np.bool_)
        self.begins[again] = True

    def place(self, lane: int) -> dict[str, int]:
        """Returns the number and the seed of a lane's episode, for use in messages."""
        episode = int(self.episode[lane])
        return {"episode": self._first + episode, "seed": int(self.seeds.games[episode])}
