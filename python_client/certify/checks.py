"""Checks that compare a measured value with its expected value."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from episodes import Episodes
from numpy.typing import NDArray

LIMIT = 4.0
"""The maximum distance between the measured and the expected value, in standard errors."""


@dataclass(frozen=True)
class Check:
    """A comparison of one measured number with its expected value."""

    what: str
    expected: float
    measured: float
    error: float = 0.0
    """The standard error of the difference; 0 if both values are exact."""

    @property
    def deviation(self) -> float:
        """The measured minus the expected value, as a multiple of the standard error `error`."""
        difference = self.measured - self.expected
        if self.error == 0.0:
            return 0.0 if difference == 0.0 else math.copysign(math.inf, difference)
        return difference / self.error

    @property
    def passed(self) -> bool:
        """Whether the values agree. NaN never agrees."""
        return abs(self.deviation) <= LIMIT


@dataclass(frozen=True)
class Expected:
    """The expected values for an episode, with their standard errors."""

    score: float
    moves: float
    reaching: dict[int, float]
    """Maps some tile values to the probability that the highest tile is at least that value."""
    score_error: float = 0.0
    moves_error: float = 0.0
    games: float = math.inf
    """The number of games from which `reaching` was estimated; infinite if `reaching` is exact."""


# Counted over 20 million games; agrees with a published count over 5 million.
RANDOM_4X4 = Expected(
    score=1094.91,
    score_error=0.12,
    moves=118.387,
    moves_error=37.76 / math.sqrt(20e6),
    reaching={
        16: 1 - 0.000017,
        32: 1 - 0.000017 - 0.00268,
        64: 0.3747 + 0.4765 + 0.07816 + 0.000194,
        128: 0.4765 + 0.07816 + 0.000194,
        256: 0.07816 + 0.000194,
        512: 0.000194,
    },
    games=20e6,
)


def mean(what: str, expected: float, sample: NDArray[Any], known: float = 0.0) -> Check:
    """Compares a sample's mean with an expected mean, whose standard error is `known`."""
    error = math.hypot(float(sample.std(ddof=1)) / math.sqrt(len(sample)), known)
    return Check(what, expected, float(sample.mean()), error)


def share(what: str, expected: float, sample: NDArray[np.bool_], games: float = math.inf) -> Check:
    """Compares the fraction of True in `sample` with an expected probability.

    `games` is the number of games from which the probability was estimated; infinite if exact.
    """
    variance = expected * (1 - expected)
    error = math.sqrt(variance / len(sample) + variance / games)
    return Check(what, expected, float(sample.mean()), error)


def alike(what: str, counts: NDArray[Any]) -> Check:
    """Checks that all outcomes are equally likely, with a chi-square test on their counts.

    The measured value is the chi-square statistic, transformed to a nearly standard normal
    variable. The transformation takes the cube root of chi-square over its degrees of freedom
    (Wilson and Hilferty). Negative values become 0.
    """
    degrees = counts.size - 1
    expected = counts.sum() / counts.size
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    spread = 2 / (9 * degrees)
    normal = ((chi_square / degrees) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)
    return Check(what, 0.0, max(normal, 0.0), 1.0)


def count(what: str, violations: Any) -> Check:
    """Checks that the number of violations is 0."""
    return Check(what, 0.0, float(violations.sum()))


def check_means(episodes: Episodes, expected: Expected) -> Iterator[Check]:
    """Checks the means of score and moves, and the distribution of highest tiles."""
    yield mean("mean score", expected.score, episodes.score, expected.score_error)
    yield mean("mean moves", expected.moves, episodes.moves, expected.moves_error)
    for value, probability in expected.reaching.items():
        # With fewer expected episodes, the count is not close to normally distributed.
        if min(probability, 1 - probability) * episodes.count >= 10:
            reached = episodes.highest >= value.bit_length() - 1
            yield share(f"highest tile at least {value}", probability, reached, expected.games)


def check_starts(
    episodes: Episodes, start_tiles: int = 2, four_probability: float = 0.1
) -> Iterator[Check]:
    """Checks the start boards of all episodes, whether a reset or an autoreset made them."""
    boards = episodes.starts.reshape(episodes.count, -1)
    yield count("start boards with a wrong number of tiles", (boards > 0).sum(1) != start_tiles)
    yield count("start tiles that are neither 2 nor 4", (boards > 2).any(axis=1))
    for fours in range(start_tiles + 1):
        probability = math.comb(start_tiles, fours) * (
            four_probability**fours * (1 - four_probability) ** (start_tiles - fours)
        )
        if min(probability, 1 - probability) * episodes.count >= 10:
            yield share(
                f"start boards with {fours} fours", probability, (boards == 2).sum(1) == fours
            )
    yield alike("unevenness of the start tiles' cells", (boards > 0).sum(axis=0))
    yield count("1 if all start boards are the same", _repeats(boards))


def _repeats(boards: NDArray[Any]) -> NDArray[np.bool_]:
    """Returns an array with one entry, which is true if all boards are the same."""
    return np.array([len(boards) > 1 and bool((boards == boards[0]).all())])


def check_invariants(episodes: Episodes, start_tiles: int = 2) -> Iterator[Check]:
    """Checks arithmetic invariants that every episode satisfies, under any policy.

    A merge that makes a tile 2^k adds 2^k to the score. The last board and the score therefore
    determine how many 4s have spawned. The sum of the tiles then determines how many 2s have
    spawned. Each move has spawned one tile.
    """
    unpaid = episodes.paid - episodes.score
    fours = unpaid // 4
    twos = (episodes.tile_sum - 4 * fours) // 2
    yield count("episodes whose tiles do not fit their score", (unpaid % 4 != 0) | (fours < 0))
    yield count("episodes with more 4s than tiles", twos < 0)
    yield count(
        "episodes whose tiles do not fit their moves", episodes.moves != twos + fours - start_tiles
    )
    yield count("episodes whose rewards do not sum to score", episodes.returns != episodes.score)
    yield count("episodes with more moves than steps", episodes.moves > episodes.length)


def check_spawns(
    episodes: Episodes, start_tiles: int = 2, four_probability: float = 0.1
) -> Iterator[Check]:
    """Checks the mean value of spawned tiles. Each move increases the sum of tiles by one spawn."""
    worth = 2 + 2 * four_probability
    placed = episodes.tile_sum - worth * (episodes.moves + start_tiles)
    yield mean("sum of tiles minus the expected value of all placed tiles", 0.0, placed)


def check_ends(episodes: Episodes) -> Iterator[Check]:
    """Checks that episodes end only if no action is legal."""
    yield count("episodes that ended with a legal action left", movable(episodes.ends))


def movable(boards: NDArray[Any]) -> NDArray[np.bool_]:
    """Returns a bool array (B,): True for each board (B, rows, columns) with a legal action.

    Each board must have at least one tile.
    """
    has_room: NDArray[np.bool_] = (boards == 0).any(axis=(1, 2))
    has_pair: NDArray[np.bool_] = (boards[:, 1:] == boards[:, :-1]).any(axis=(1, 2))
    has_pair |= (boards[:, :, 1:] == boards[:, :, :-1]).any(axis=(1, 2))
    return has_room | has_pair


def certify_play(
    episodes: Episodes,
    expected: Expected,
    *,
    only_legal: bool = True,
    start_tiles: int = 2,
    four_probability: float = 0.1,
    until_stuck: bool = True,
) -> list[Check]:
    """Runs all checks on the game 2048 that apply to a set of episodes.

    Args:
        episodes: The episodes to check.
        expected: The expected values for the policy that played the episodes.
        only_legal: True if the policy plays only legal actions. Then every step is a move.
        start_tiles: The environment's argument `start_tiles`.
        four_probability: The environment's argument `four_probability`.
        until_stuck: True if episodes end only when no action is legal.
    """
    checks: list[Iterable[Check]] = [
        check_means(episodes, expected),
        check_starts(episodes, start_tiles, four_probability),
        check_invariants(episodes, start_tiles),
        check_spawns(episodes, start_tiles, four_probability),
    ]
    if until_stuck:
        checks.append(check_ends(episodes))
    if only_legal:
        other = episodes.moves != episodes.length
        checks.append([count("episodes with a step that moved nothing", other)])
    return [check for some in checks for check in some]
