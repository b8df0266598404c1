"""Regret: a policy's loss compared with optimal play, by game and by kind of board."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twofold.envs.results import Array
from twofold.errors import InvalidArgument
from twofold.evaluation.schedule import Schedule, Segment
from twofold.evaluation.statistics import bootstrap_mean, bootstrap_ratio
from twofold.games.game2048 import OBJECTIVES, Game2048

INFOS = ("regret", "optimal_value")
"""The names of the infos from which the regret of a step is computed."""
# The info that contains a game's result, for each objective.
_GOT = {"score": "score", "moves": "moves", "goal": "goal_reached"}


@dataclass(frozen=True, eq=False)
class Regret:
    """The regrets of an evaluation's games.

    The regret of a move is the board's optimal value minus the value of the chosen action.

    On average, the regrets of a whole game add up to the optimal result minus the policy's result.
    If a game fails or is truncated, it ends early, and this sum would be too small. The optimal
    value of the last board is therefore added to the game's regret, as a charge for the early end.

    Attributes:
        objective: The quantity that optimal play maximises: "score", "moves" or "goal".
        games: float64 (E,), the regret of each game, including the charge for an early end.
        unplayed: float64 (E,), each game's charge for an early end; 0 for a normal end.
        by_tile_sum: float64 (2048, 2). Row s contains the number of moves on boards with the tile
            sum s, and the sum of these moves' regrets.
        by_empty_cells: float64 (10, 2). Row c contains the same two numbers for boards with c empty
            cells.
    """

    objective: str
    games: NDArray[np.float64] = field(repr=False)
    unplayed: NDArray[np.float64] = field(repr=False)
    by_tile_sum: NDArray[np.float64] = field(repr=False)
    by_empty_cells: NDArray[np.float64] = field(repr=False)

    @staticmethod
    def join(parts: Sequence[Regret]) -> Regret:
        """Joins the regrets of consecutive parts of an evaluation."""
        return Regret(
            parts[0].objective,
            np.concatenate([part.games for part in parts]),
            np.concatenate([part.unplayed for part in parts]),
            np.sum([part.by_tile_sum for part in parts], axis=0),
            np.sum([part.by_empty_cells for part in parts], axis=0),
        )

    def summary(self, lengths: Array, results: Array | None) -> dict[str, Any]:
        """Returns the means, intervals and shares for a report.

        Args:
            lengths: (E,), each game's number of steps.
            results: (E,), each game's score or number of moves, whichever is the objective; None
                for the objective "goal".
        """
        total, played = float(self.games.sum()), self.games - self.unplayed
        steps = int(lengths.sum())
        summary = {
            "objective": self.objective,
            "unit": OBJECTIVES[self.objective][1],
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
        """Returns the regret as a dict that can be saved as JSON."""
        arrays = {name: getattr(self, name).tolist() for name in _ARRAYS}
        return {"objective": self.objective, **arrays}

    @staticmethod
    def of_document(document: dict[str, Any]) -> Regret:
        """Restores a regret from the dict that its method `document` returned."""
        arrays = [np.array(document[name], np.float64) for name in _ARRAYS]
        return Regret(document["objective"], *arrays)


_ARRAYS = ("games", "unplayed", "by_tile_sum", "by_empty_cells")


def _octaves(by_tile_sum: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Adds up the rows in each range of tile sums: 2-3, 4-7, 8-15, …, 1024-2047."""
    starts = [2**k for k in range(1, 11)]
    return {f"{low}-{2 * low - 1}": by_tile_sum[low : 2 * low].sum(axis=0) for low in starts}


def _shares(rows: dict[str, NDArray[np.float64]], total: float) -> dict[str, dict[str, float]]:
    """Returns each row's number of steps, mean regret and share of `total`.

    Rows without steps are omitted.
    """
    return {
        name: {
            "steps": int(steps),
            "mean": float(regret / steps),
            "share": float(regret / total) if total > 0 else 0.0,
        }
        for name, (steps, regret) in rows.items()
        if steps
    }


class RegretMeter:
    """An observer that adds up the regrets of games.

    Attributes:
        infos: The names of the infos that the meter needs from each step. It also needs the boards
            before each step.
        regret: The regret of the games that have ended, and of all steps so far.
    """

    def __init__(self, envs: Any, episodes: int) -> None:
        game = Game2048.played_by(envs)
        if game is None or not set(INFOS) <= set(envs.unwrapped.extra_infos):
            raise InvalidArgument(
                f"regret=True requires a 2048 environment made with extra_infos={INFOS}",
                field="regret",
            )
        self.infos = (*INFOS, _GOT[game.objective])
        games, unplayed = np.zeros((2, episodes))
        # On at most nine cells, no tile sum reaches 2^11.
        tables = np.zeros((2048, 2)), np.zeros((10, 2))
        self.regret = Regret(game.objective, games, unplayed, *tables)
        self._lanes = np.zeros(envs.num_envs)
        # Each lane's result so far, before and after the newest steps.
        self._before, self._got = np.zeros(envs.num_envs), np.zeros(envs.num_envs)

    def add(self, segment: Segment, schedule: Schedule) -> None:
        """Adds the regrets of a segment's steps, and stores the totals of ended games."""
        boards, playing = segment.boards, segment.playing
        assert boards is not None
        regrets = np.where(playing, segment.infos["regret"], 0).astype(np.float64)
        self._lanes += regrets.sum(axis=0)
        self._before, self._got = self._got, segment.infos[self.infos[-1]][-1].astype(np.float64)
        cells = boards[playing].reshape(-1, boards.shape[-2] * boards.shape[-1]).astype(np.int64)
        sums = np.where(cells > 0, 1 << cells, 0).sum(axis=1)
        for table, bins in (
            (self.regret.by_tile_sum, sums),
            (self.regret.by_empty_cells, (cells == 0).sum(axis=1)),
        ):
            table[:, 0] += np.bincount(bins, minlength=len(table))
            table[:, 1] += np.bincount(bins, regrets[playing], minlength=len(table))
        if len(segment.ended):
            self._end(segment, schedule)

    def _end(self, segment: Segment, schedule: Schedule) -> None:
        """Stores the regrets of ended games, including the charge for an early end.

        The charge is the optimal value of the last board, which is 0 after a normal end. In the
        step in which a player failed, the environment played a substitute move. Therefore, the last
        board of a failed game is the board before that move. Its optimal value is, on average, the
        move's regret plus its gain plus the optimal value of the next board.
        """
        lanes, playing = segment.ended, segment.playing
        last = len(playing) - 1 - playing[::-1, lanes].argmax(axis=0)
        regrets, values, got = (segment.infos[name][last, lanes] for name in self.infos)
        failed = ~playing[last, lanes]
        unplayed = values + np.where(failed, regrets + (got - self._before[lanes]), 0)
        episodes = schedule.episode[lanes]
        self.regret.games[episodes] = self._lanes[lanes] + unplayed
        self.regret.unplayed[episodes] = unplayed
        self._lanes[lanes] = self._got[lanes] = 0
