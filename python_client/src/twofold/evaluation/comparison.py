"""Two policies compared, game by game."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from twofold.envs.results import Array
from twofold.evaluation.report import interval, number, preformatted, share
from twofold.evaluation.statistics import Interval, bootstrap_mean, wilson


@dataclass(frozen=True)
class Comparison:
    """Two policies on the same seeds, game by game.

    Attributes:
        first: The first policy's name.
        second: The second policy's name.
        episodes: Number of pairs of games.
        means: Both mean scores.
        difference: The mean of (first's score - second's).
        difference_interval: Its 95 % interval (bootstrap over pairs).
        wins: Pairs in which the first's score is higher.
        ties: Pairs with equal scores.
        win_interval: The 95 % interval of the share of wins among the pairs without ties.
        correlation: The scores' correlation over the pairs; the higher, the more pairing helps.
    """

    first: str
    second: str
    episodes: int
    means: tuple[float, float]
    difference: float
    difference_interval: Interval
    wins: int
    ties: int
    win_interval: Interval
    correlation: float

    @staticmethod
    def of_scores(first: str, a: Array, second: str, b: Array) -> Comparison:
        """The comparison of two named policies' scores (E,), of the same games."""
        a, b = a.astype(np.float64), b.astype(np.float64)
        wins, ties = int((a > b).sum()), int((a == b).sum())
        is_varied = a.std() > 0 and b.std() > 0
        return Comparison(
            first=first,
            second=second,
            episodes=len(a),
            means=(float(a.mean()), float(b.mean())),
            difference=float((a - b).mean()),
            difference_interval=bootstrap_mean(a - b),
            wins=wins,
            ties=ties,
            win_interval=wilson(wins, len(a) - ties),
            correlation=float(np.corrcoef(a, b)[0, 1]) if is_varied else math.nan,
        )

    @property
    def is_significant(self) -> bool:
        """Whether the interval of the difference excludes 0."""
        return self.difference_interval[0] > 0 or self.difference_interval[1] < 0

    def __str__(self) -> str:
        games = "1 seed" if self.episodes == 1 else f"{self.episodes:,} seeds"
        verdict = "excludes 0" if self.is_significant else "includes 0"
        decided = self.episodes - self.ties
        won = share(self.wins / decided if decided else math.nan)
        correlation = "-" if math.isnan(self.correlation) else f"{self.correlation:.3f}"
        return "\n".join(
            [
                f"{self.first} against {self.second}, the same {games} each",
                f"mean scores   {number(self.means[0])} and {number(self.means[1])}",
                f"difference    {number(self.difference)}, 95 % interval "
                f"{interval(self.difference_interval)}: the interval {verdict}",
                f"pairs         {self.wins:,} won by {self.first}, {decided - self.wins:,} by "
                f"{self.second}, {self.ties:,} ties; {won}, 95 % interval "
                f"{interval(self.win_interval, share)}",
                f"correlation   {correlation}",
            ]
        )

    def _repr_html_(self) -> str:
        return preformatted(str(self))

    def to_json(self) -> str:
        """All attributes as JSON."""
        return json.dumps(without_nan({**vars(self), "is_significant": self.is_significant}))


def without_nan(value: Any) -> Any:
    """A value for JSON, which has no nan: null instead."""
    if isinstance(value, dict):
        return {str(key): without_nan(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_nan(entry) for entry in value]
    return None if isinstance(value, float) and math.isnan(value) else value
