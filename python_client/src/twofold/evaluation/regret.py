"""Regret: what a policy's moves cost against optimal play, and where."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twofold.envs.results import Array
from twofold.errors import InvalidArgument
from twofold.evaluation.observers import Observer
from twofold.evaluation.schedule import Schedule, Segment
from twofold.evaluation.statistics import bootstrap_mean, bootstrap_ratio
from twofold.games.game2048 import Game2048

INFOS = ("regret", "optimal_value")
"""The infos that a step reports it in."""
# The info that counts what a game has got of an objective.
_GOT = {"score": "score", "moves": "moves", "goal": "goal_reached"}
# At most nine cells: no tile sum reaches 2^11.
_SUMS, _CELLS = 2048, 10


@dataclass(frozen=True, eq=False)
class Regret:
    """What the moves of some games cost: the value of each board, less that of the chosen action.

    A game's regrets sum up, on average, to the optimum's value less the policy's own. So a game
    that failed or was truncated is charged what optimal play would still have got from there.

    Attributes:
        objective: "score", "moves" or "goal": what the optimum is the best for.
        games: float64 (E,), the sum of each game's regrets, and what it left unplayed.
        unplayed: float64 (E,), the latter alone.
        by_tile_sum: float64 (2048, 2): for boards by the sum of their tiles before the move, the
            number of steps and the sum of their regrets.
        by_empty_cells: float64 (10, 2): the same, by the number of empty cells.
    """

    objective: str
    games: NDArray[np.float64] = field(repr=False)
    unplayed: NDArray[np.float64] = field(repr=False)
    by_tile_sum: NDArray[np.float64] = field(repr=False)
    by_empty_cells: NDArray[np.float64] = field(repr=False)

    @staticmethod
    def join(parts: Sequence[Regret]) -> Regret:
        """The regret of the parts' games together, in their order."""
        return Regret(
            parts[0].objective,
            np.concatenate([part.games for part in parts]),
            np.concatenate([part.unplayed for part in parts]),
            np.sum([part.by_tile_sum for part in parts], axis=0),
            np.sum([part.by_empty_cells for part in parts], axis=0),
        )

    def summary(self, lengths: Array, results: Array | None) -> dict[str, Any]:
        """The figures for a report.

        Args:
            lengths: (E,), each game's steps.
            results: (E,), what each game got of the objective; None where that is not known.
        """
        total, played = float(self.games.sum()), self.games - self.unplayed
        steps = int(lengths.sum())
        summary = {
            "objective": self.objective,
            "unit": Game2048.objectives[self.objective],
            "per_game": {
                "mean": total / len(self.games),
                "mean_interval": list(bootstrap_mean(self.games)),
            },
            "per_move": {
                "mean": float(played.sum()) / steps if steps else math.nan,
                "mean_interval": list(bootstrap_ratio(played, lengths)),
            },
            "unplayed": {
                "games": int(np.count_nonzero(self.unplayed)),
                "mean": float(self.unplayed.mean()),
                "share": float(self.unplayed.sum() / total) if total > 0 else 0.0,
            },
            "by_tile_sum": _shares(_octaves(self.by_tile_sum), total),
            "by_empty_cells": _shares(
                {str(cells): row for cells, row in enumerate(self.by_empty_cells)}, total
            ),
        }
        if results is not None:
            together = results + self.games
            summary["optimum"] = {
                "mean": float(together.mean()),
                "mean_interval": list(bootstrap_mean(together)),
            }
        return summary

    def document(self) -> dict[str, Any]:
        """In JSON's types."""
        arrays = {name: getattr(self, name).tolist() for name in _ARRAYS}
        return {"objective": self.objective, **arrays}

    @staticmethod
    def of_document(document: dict[str, Any]) -> Regret:
        """From `document`."""
        # Earlier documents have games that were charged nothing.
        document = {"unplayed": [0.0] * len(document["games"]), **document}
        arrays = [np.array(document[name], np.float64) for name in _ARRAYS]
        return Regret(document["objective"], *arrays)


_ARRAYS = ("games", "unplayed", "by_tile_sum", "by_empty_cells")


def _octaves(by_tile_sum: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Tile sums from each power of two up to the next."""
    starts = [2**k for k in range(2, 11)]
    return {f"{low}-{2 * low - 1}": by_tile_sum[low : 2 * low].sum(axis=0) for low in starts}


def _shares(rows: dict[str, NDArray[np.float64]], total: float) -> dict[str, dict[str, float]]:
    """Steps, their mean regret and their share of all regret, where there were steps."""
    return {
        name: {
            "steps": int(steps),
            "mean": float(regret / steps),
            "share": float(regret / total) if total > 0 else 0.0,
        }
        for name, (steps, regret) in rows.items()
        if steps
    }


class RegretMeter(Observer):
    """Adds up the regrets of games as they are played.

    Args:
        envs: The environment, which reports the infos.
        episodes: Number of games E.

    Raises:
        InvalidArgument: The environment does not report them.
    """

    needs_boards = True

    def __init__(self, envs: Any, episodes: int) -> None:
        game = Game2048.played_by(envs)
        if game is None or not set(INFOS) <= set(envs.unwrapped.extra_infos):
            raise InvalidArgument(
                f"regret needs an environment of 2048 made with extra_infos={INFOS}",
                field="regret",
            )
        self._objective = game.objective
        self.infos = (*INFOS, _GOT[game.objective])
        self._games, self._unplayed = np.zeros(episodes), np.zeros(episodes)
        self._lanes = np.zeros(envs.num_envs)
        # The lanes' counters before the newest steps, and after them.
        self._before, self._got = np.zeros(envs.num_envs), np.zeros(envs.num_envs)
        self._by_tile_sum = np.zeros((_SUMS, 2))
        self._by_empty_cells = np.zeros((_CELLS, 2))

    def add(self, segment: Segment, schedule: Schedule) -> None:
        """Adds the regrets of some steps, and keeps those of the games that have ended."""
        boards, playing = segment.boards, segment.playing
        assert boards is not None
        regrets = np.where(playing, segment.infos["regret"], 0).astype(np.float64)
        self._lanes += regrets.sum(axis=0)
        self._before, self._got = self._got, segment.infos[self.infos[-1]][-1].astype(np.float64)
        cells = boards[playing].reshape(-1, boards.shape[-2] * boards.shape[-1]).astype(np.int64)
        sums = np.where(cells > 0, 1 << cells, 0).sum(axis=1)
        for table, bins in (
            (self._by_tile_sum, sums),
            (self._by_empty_cells, (cells == 0).sum(axis=1)),
        ):
            table[:, 0] += np.bincount(bins, minlength=len(table))
            table[:, 1] += np.bincount(bins, regrets[playing], minlength=len(table))
        if len(segment.ended):
            self._end(segment, schedule)

    def _end(self, segment: Segment, schedule: Schedule) -> None:
        """Keeps the regrets of the games that have ended, and charges what they left unplayed.

        In a step in which a game failed, another move was played in its place: its regret, what it
        got and the value of the next board are on average the value of the board before.
        """
        lanes, playing = segment.ended, segment.playing
        last = len(playing) - 1 - playing[::-1, lanes].argmax(axis=0)
        regrets, values, got = (segment.infos[name][last, lanes] for name in self.infos)
        failed = ~playing[last, lanes]
        unplayed = values + np.where(failed, regrets + (got - self._before[lanes]), 0)
        episodes = schedule.episode[lanes]
        self._games[episodes], self._unplayed[episodes] = self._lanes[lanes] + unplayed, unplayed
        self._lanes[lanes] = self._got[lanes] = 0

    def result(self) -> Regret:
        """Of all games."""
        arrays = self._games, self._unplayed, self._by_tile_sum, self._by_empty_cells
        return Regret(self._objective, *arrays)
