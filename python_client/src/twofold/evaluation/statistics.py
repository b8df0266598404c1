"""Confidence intervals for estimates from the results of independent games."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95
_NORMAL = NormalDist()
_Z = _NORMAL.inv_cdf((1 + CONFIDENCE) / 2)

_FEWEST = 6  # values; the median of fewer has no interval either
_RESAMPLES = 2000
# A larger sample is first summed in this many blocks of adjacent games. The blocks are independent
# because the games are.
_LARGEST_SAMPLE = 10_000


class Interval(NamedTuple):
    """A 95 % confidence interval. Both ends are nan if it is unknown."""

    low: float
    high: float

    def __contains__(self, value: object) -> bool:
        if isinstance(value, np.number):
            value = value.item()
        return isinstance(value, (int, float)) and self.low <= value <= self.high


UNKNOWN = Interval(math.nan, math.nan)


def wilson(hits: int, number: int) -> Interval:
    """Returns the interval of a proportion: `hits` out of `number` games (Wilson 1927).

    Unlike hits +- 2 sqrt(hits), it stays inside 0 ... 1 and is valid for shares near 0 and 1.
    """
    if number == 0:
        return UNKNOWN
    share, z2 = hits / number, _Z * _Z / number
    middle = (share + z2 / 2) / (1 + z2)
    half = _Z * math.sqrt(share * (1 - share) / number + z2 / (4 * number)) / (1 + z2)
    # At 0 and 1 the formula is exact, but its floating-point result is not.
    low = 0.0 if hits == 0 else max(0.0, middle - half)
    high = 1.0 if hits == number else min(1.0, middle + half)
    return Interval(low, high)


def bootstrap_mean(values: NDArray[Any]) -> Interval:
    """Returns the bootstrap interval of a mean, from 2000 resampled means (Efron 1979)."""
    return bootstrap_ratio(values, np.ones(len(values)))


def bootstrap_ratio(values: NDArray[Any], counts: NDArray[Any]) -> Interval:
    """Returns the bootstrap interval of sum(values) / sum(counts).

    Each value is resampled together with its count. Resamples in which all counts are 0 are
    skipped, because their ratio is undefined. The interval is unknown with fewer than six values,
    or if one of them is not finite.
    """
    number = len(values)
    if number < _FEWEST or not np.isfinite(values).all():
        return UNKNOWN
    starts = np.linspace(0, number, min(number, _LARGEST_SAMPLE), endpoint=False).astype(np.intp)
    sums = np.add.reduceat(values.astype(np.float64), starts)
    counts = np.add.reduceat(counts.astype(np.float64), starts)
    rng = np.random.default_rng(20480)
    together = max(1, 200_000 // len(sums))  # resamples per call: few calls, but bounded memory
    means = np.empty(_RESAMPLES)
    for start in range(0, _RESAMPLES, together):
        rows = min(together, _RESAMPLES - start)
        chosen = rng.integers(0, len(sums), (rows, len(sums)))
        total = counts[chosen].sum(axis=1)
        ratios = np.full(rows, np.nan)
        np.divide(sums[chosen].sum(axis=1), total, out=ratios, where=total > 0)
        means[start : start + rows] = ratios
    means = means[~np.isnan(means)]
    if not means.size:
        return UNKNOWN
    tail = _tail(len(sums))
    low, high = np.quantile(means, (tail, 1 - tail))
    return Interval(float(low), float(high))


def _tail(number: int) -> float:
    """Returns the share of resampled means on each side of the interval, for a sample of this size.

    The means of resamples vary less than the means of new samples would, especially for small
    samples. The expanded percentile interval (Hesterberg 2015) corrects the difference: it spans as
    many standard errors as Student's interval. Fisher and Cornish's expansion approximates the
    quantile of Student's t with `number` - 1 degrees of freedom. Its error is at most 0.2 % for
    five or more degrees.
    """
    degrees = number - 1
    t = (
        _Z
        + (_Z**3 + _Z) / (4 * degrees)
        + (5 * _Z**5 + 16 * _Z**3 + 3 * _Z) / (96 * degrees**2)
        + (3 * _Z**7 + 19 * _Z**5 + 17 * _Z**3 - 15 * _Z) / (384 * degrees**3)
    )
    return _NORMAL.cdf(-math.sqrt(number / degrees) * t)


def median_interval(values: NDArray[Any]) -> Interval:
    """Returns the interval of a median, without assumptions about the distribution.

    The number of values below the true median is binomially distributed. The interval's ends are
    the values at the ranks that bound this number with 95 % confidence. If even the lowest and the
    highest value don't bound it (with fewer than six values), the interval is unknown.
    """
    number = len(values)
    if 2 * 0.5**number > 1 - CONFIDENCE:
        return UNKNOWN
    half = _Z * math.sqrt(number) / 2
    low = max(0, math.floor(number / 2 - half) - 1)
    high = min(number - 1, math.ceil(number / 2 + half))
    ordered = np.partition(values, (low, high))
    return Interval(float(ordered[low]), float(ordered[high]))
