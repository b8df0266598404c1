"""The result of verifying a recording, and the test of listed tiles against the spawn law."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from twofold.recordings.replay import RecordingRules

_PLAUSIBLE = 1e-4  # a spawn law with a smaller p-value is reported as not fitting


@dataclass(frozen=True)
class Verification:
    """The facts that a replay confirmed.

    Attributes:
        moves: Legal moves.
        illegal_actions: Actions that moved nothing.
        score: The final score.
        highest_tile: The highest tile on the final board.
        is_over: Whether the final board has no legal action.
        cells_p: With listed tiles, the probability under the spawn law of cells chosen at least as
            unevenly as these (chi-square); None otherwise.
        fours_p: The same for the number of 4s.
    """

    moves: int
    illegal_actions: int
    score: int
    highest_tile: int
    is_over: bool
    cells_p: float | None
    fours_p: float | None

    @property
    def spawns_fit(self) -> bool:
        """Whether the new tiles are plausible under the spawn law; always with a generator."""
        return all(p is None or p >= _PLAUSIBLE for p in (self.cells_p, self.fours_p))

    def __str__(self) -> str:
        over = "game over" if self.is_over else "the game could go on"
        text = (
            f"{self.moves:,} moves, score {self.score:,}, highest tile {self.highest_tile}, {over}"
        )
        if self.illegal_actions:
            text += f", {self.illegal_actions} illegal actions"
        if self.cells_p is None or self.fours_p is None:
            return f"{text}; every new tile follows from the generator"
        fit = "fit" if self.spawns_fit else "do NOT fit"
        return (
            f"{text}; the new tiles {fit} the spawn law (chi-square: cells p = {self.cells_p:.3g}, "
            f"fours p = {self.fours_p:.3g})"
        )


class SpawnLawTest:
    """Two chi-square tests of new tiles against the spawn law, fed move by move."""

    def __init__(self, rules: RecordingRules) -> None:
        self._rules = rules
        self._surplus = np.zeros(rules.cells)  # observed minus expected tiles in each cell
        self._covariance = np.zeros((rules.cells, rules.cells))
        self._spawns = self._fours = 0

    def add(self, board: list[int], outcome: int) -> None:
        """Adds one chance outcome, with the board after it."""
        cell = outcome % self._rules.cells
        chances = np.array(board) == 0
        chances[cell] = True
        p = chances / chances.sum()
        self._surplus -= p
        self._surplus[cell] += 1
        self._covariance += np.diag(p) - np.outer(p, p)
        self._spawns += 1
        self._fours += outcome >= self._rules.cells

    def cells_p(self) -> float:
        """The p-value of the cells.

        Each spawn has its own covariance, since the empty cells change.
        """
        rank = int(np.linalg.matrix_rank(self._covariance))
        if rank == 0:
            return 1.0
        inverse = np.linalg.pinv(self._covariance, hermitian=True)
        return chi_square_tail(float(self._surplus @ inverse @ self._surplus), rank)

    def fours_p(self) -> float:
        """The p-value of the number of 4s."""
        p, n = self._rules.four_probability, self._spawns
        variance = n * p * (1 - p)
        if variance == 0:
            return 1.0 if self._fours == n * p else 0.0
        return chi_square_tail((self._fours - n * p) ** 2 / variance, 1)


def chi_square_tail(value: float, degrees: int) -> float:
    """The probability that a chi-square variable is at least `value`.

    For whole degrees it is a finite sum (Abramowitz and Stegun, 26.4.4 odd and 26.4.5 even).
    """
    half = value / 2
    if degrees % 2:
        tail, k = math.erfc(math.sqrt(half)), 0.5
        term = math.exp(-half) * math.sqrt(half) / math.gamma(1.5)
    else:
        tail, k, term = 0.0, 0.0, math.exp(-half)
    for _ in range(degrees // 2):  # term = exp(-half) half^k / gamma(k + 1)
        k += 1
        tail += term
        term *= half / k
    return min(1.0, tail)
