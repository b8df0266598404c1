"""Intervals of evaluations hold the truth as often as they promise."""

import dataclasses
import json
import math
import re

import numpy as np
import pytest
from evaluations import Queue, anything

import twofold
from twofold.evaluation import statistics


@pytest.mark.parametrize(
    ("hits", "number", "low", "high"),
    [  # computed with mpmath from Wilson's formula
        (0, 10, 0.0, 0.27753),
        (5, 10, 0.23659, 0.76341),
        (10, 10, 0.72247, 1.0),
        (912, 1000, 0.89284, 0.92801),
    ],
)
def test_shares_have_wilson_intervals(hits: int, number: int, low: float, high: float) -> None:
    assert statistics.wilson(hits, number) == pytest.approx((low, high), abs=1e-4)


def test_intervals_of_means_and_medians_hold_the_truth_in_95_of_100_samples() -> None:
    rng = np.random.default_rng(0)
    means = medians = 0
    for _ in range(200):
        sample = rng.exponential(1.0, 150)
        means += 1.0 in statistics.bootstrap_mean(sample)
        medians += float(np.log(2)) in statistics.median_interval(sample)
    assert 180 <= means <= 198
    assert 182 <= medians <= 200


def test_blocks_of_many_values_give_the_interval_of_the_values() -> None:
    sample = np.random.default_rng(1).normal(5, 2, 45_001)
    low, high = statistics.bootstrap_mean(sample)
    half = 1.96 * sample.std() / len(sample) ** 0.5
    assert (low, high) == pytest.approx((sample.mean() - half, sample.mean() + half), abs=half / 8)


@pytest.mark.parametrize("games", [6, 20])
def test_intervals_of_the_means_of_few_games_hold_the_truth_in_95_of_100_samples(
    games: int,
) -> None:
    samples = np.random.default_rng(games).normal(5, 2, (400, games))
    inside = sum(5.0 in statistics.bootstrap_mean(sample) for sample in samples)
    assert 368 <= inside <= 393  # 380 +- 3 standard deviations


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_not_finite_leaves_no_interval_and_can_be_saved(score: float) -> None:
    scores = np.array([score, *[100.0] * 9])
    assert np.isnan(statistics.bootstrap_mean(scores)).all()
    other = twofold.evaluate(anything, env=Queue(10), episodes=10)
    result = dataclasses.replace(other, scores=scores)
    comparison = result.compare(dataclasses.replace(other, scores=np.arange(1.0, 11)))
    assert not comparison.is_significant
    assert comparison.wins == 9 + (score > 1)
    assert comparison.ties == math.isnan(score)
    again = twofold.Evaluation.from_json(result.to_json(games=True))
    np.testing.assert_array_equal(again.scores[1:], scores[1:])
    assert np.isnan(again.scores[0])


def test_an_interval_contains_numbers_of_numpy() -> None:
    for number in (np.int64(5), np.float32(5), np.float64(5)):
        assert number in statistics.Interval(1, 10)
        assert number not in statistics.Interval(6, 10)
    assert 10**400 not in statistics.Interval(6, 10)


def test_one_value_has_no_interval() -> None:
    result = twofold.evaluate(anything, env=Queue(1), episodes=1)
    assert np.isnan(result.summary["score"]["mean_interval"]).all()
    assert json.loads(result.to_json())["score"]["mean_interval"] == [None, None]
    assert re.search(r"^score +1 +- +1 +- +1 +1 +1$", str(result), re.MULTILINE)
    assert "95 % interval -\n" in str(result.compare(result))


@pytest.mark.parametrize("games", [2, 5, 6, 7, 20, 101])
def test_a_median_has_an_interval_only_if_it_can_hold_the_truth_in_95_of_100_samples(
    games: int,
) -> None:
    low, high = statistics.median_interval(np.arange(games))
    if games < 6:  # the range of five values holds the median with 1 - 2 / 2^5 = 94 %
        assert np.isnan([low, high]).all()
    else:
        inside = sum(math.comb(games, below) for below in range(int(low) + 1, int(high) + 1))
        assert inside / 2**games >= 0.95
