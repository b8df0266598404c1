"""Statistics of ended episodes, and the infos that Gymnasium's wrappers would add for them."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from twofold.envs.results import Array, Stepped
from twofold.games.spec import Measure

EPISODE = "episode"
"""The name of the extra info that this module adds."""
RETURN = "episode_return"
"""The name of the server's info that it requires."""

_OF_EVERY_GAME = (
    Measure("return_mean", RETURN, np.add),
    Measure("return_min", RETURN, np.minimum),
    Measure("return_max", RETURN, np.maximum),
    Measure("length_mean", "episode_length", np.add),
)
_NO_LANES = np.empty(0, np.intp)
# The number of steps whose ended episodes are added up together; fewer if one step ends many.
_STEPS_AT_A_TIME = 64
_MANY = 1024


class _Window(NamedTuple):
    """The episodes since the statistics were reset.

    A single assignment replaces the window, so a step that is interrupted and repeated counts only
    once.
    """

    last: object
    """The step that ended the newest episodes."""
    episodes: int
    totals: dict[str, float]
    """The sum, minimum or maximum of each measure, by name, without the episodes in `rest`."""
    rest: tuple[dict[str, Array], ...]
    """For each step that ended k episodes, their last infos, (k,) each."""


class Episodes:
    """The infos that `RecordEpisodeStatistics` would add, and statistics over many episodes.

    Attributes:
        counted: bool (N,), the lanes whose episodes count; all at first. The caller of a step
            clears the lanes that it restores after the step.
    """

    def __init__(self, num_envs: int, mode: AutoresetMode, measures: tuple[Measure, ...]) -> None:
        self._num_envs = num_envs
        self.counted = np.ones(num_envs, np.bool_)
        self._mode = mode
        self._measures = (*_OF_EVERY_GAME, *measures)
        self._infos = {measure.info for measure in self._measures}
        self._began = np.empty(num_envs)
        # The lanes that begin an episode in the next step.
        self._waiting: NDArray[np.intp] | None = None
        self._window = _Window(None, 0, {}, ())
        self._steps = 0
        self._since = time.perf_counter()
        self.begin()

    def begin(self, lanes: NDArray[np.bool_] | None = None) -> None:
        """Starts the episode clocks of `lanes`, bool (N,); None for all lanes."""
        if lanes is None:
            lanes = np.ones(self._num_envs, np.bool_)
        self._began[lanes] = time.perf_counter()
        if self._waiting is not None:
            self._waiting = self._waiting[~lanes[self._waiting]]

    def add(self, stepped: Stepped[Any, Any], step: object) -> None:
        """Adds the episodes that a step ended to the step's infos and to the statistics.

        `step` identifies the step. A repeated call with the same object does not count it again.
        """
        now = time.perf_counter()
        self._steps += 1
        if self._waiting is not None:
            self._began[self._waiting] = now
            self._waiting = None
        lanes, ended = self._report(stepped, now)
        if not lanes.size:
            return
        if self._mode is AutoresetMode.NEXT_STEP:
            self._waiting = lanes
        elif self._mode is AutoresetMode.SAME_STEP:
            self._began[lanes] = now
        window = self._window
        if step is not window.last:
            if len(window.rest) >= _STEPS_AT_A_TIME or lanes.size > _MANY:
                window = window._replace(totals=self._totals(window), rest=())
            number = window.episodes + lanes.size
            self._window = _Window(step, number, window.totals, (*window.rest, ended))

    def add_inherited(self, stepped: Stepped[Any, Any], step: object) -> None:
        """Acts like `add`, for the last step before a resume.

        The statistics count this step only if they have not counted any other.
        """
        if self._window.last is None:
            self.add(stepped, step)
        else:
            self._report(stepped, time.perf_counter())

    def _report(
        self, stepped: Stepped[Any, Any], now: float
    ) -> tuple[NDArray[np.intp], dict[str, Array]]:
        """Adds ended episodes to the infos alone; returns their lanes (k,) and last infos (k,)."""
        _, _, terminations, truncations, infos = stepped
        if not np.count_nonzero(terminations) and not np.count_nonzero(truncations):
            return _NO_LANES, {}
        mask = (terminations | truncations) & self.counted
        lanes = mask.nonzero()[0]
        last = infos.get("final_info", infos)
        ended = {name: last[name][lanes] for name in self._infos}
        infos[EPISODE] = {
            "r": self._spread(ended[RETURN], lanes),
            "l": self._spread(ended["episode_length"].astype(int), lanes),
            "t": self._spread((now - self._began[lanes]).round(6), lanes),
        }
        infos["_" + EPISODE] = mask
        return lanes, ended

    def _spread(self, values: Array, lanes: NDArray[np.intp]) -> Array:
        """Returns an array (N,) with the values (k,) in these lanes, and 0 in all others."""
        array = np.zeros(self._num_envs, values.dtype)
        array[lanes] = values
        return array

    def statistics(self, *, reset: bool) -> dict[str, float]:
        """Returns the measures over all episodes since the statistics were last reset."""
        window, now = self._window, time.perf_counter()
        totals = self._totals(window)
        statistics = {"episodes": float(window.episodes)}
        for name, _, fold, _ in self._measures:
            total = totals.get(name, np.nan)
            statistics[name] = total / max(window.episodes, 1) if fold is np.add else total
        # A program under test may have stopped the clock.
        seconds = max(now - self._since, 1e-9)
        statistics["steps_per_second"] = self._steps * self._num_envs / seconds
        if reset:
            self._window = _Window(window.last, 0, {}, ())
            self._steps, self._since = 0, now
        return statistics

    def _totals(self, window: _Window) -> dict[str, float]:
        """Returns the window's totals, including the episodes in `rest`."""
        if not window.rest:
            return window.totals
        infos = {name: np.concatenate([one[name] for one in window.rest]) for name in self._infos}
        totals = {}
        for name, info, fold, of in self._measures:
            total = fold.reduce(of(infos[info]))
            totals[name] = float(fold(total, window.totals[name]) if window.totals else total)
        return totals
