"""Evaluation: all episodes count equally, intervals are right, and bad policies are reported."""

import contextlib
import dataclasses
import io
import json
import math
import re
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import gymnasium as gym
import numpy as np
import pytest
from exact_concentration import fewest_turns
from gymnasium.vector import AutoresetMode, VectorEnv
from servers import Server

import twofold
from twofold import cli, errors
from twofold.evaluation import report as reports
from twofold.evaluation import statistics
from twofold.evaluation.results import Comparison
from twofold.evaluation.run import join
from twofold.policies import PerfectMemory, PolicyWithMemory, SB3Policy
from twofold.policies.baselines import RandomPolicy
from twofold.policies.choosers import FunctionChooser
from twofold.policies.lookup import load

FIRST_SEED = 2**63
CONCENTRATION = "twofold/Concentration-v0"


def first_legal(observations: Any, action_mask: Any) -> Any:
    return action_mask.argmax(axis=1)


class Queue(VectorEnv[Any, Any, Any]):
    """Episodes of 1 step (four in five) or 50 steps, depending on the seed. All rewards are 1.

    The mean return is 0.8 * 1 + 0.2 * 50 = 10.8. An evaluation that takes the episodes that finish
    first sees hardly any of the long ones.
    """

    MEAN = 10.8

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs
        self.single_observation_space = gym.spaces.Box(0, 50, (1,), np.float32)
        self.single_action_space = gym.spaces.Discrete(2)
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        self.left = np.zeros(num_envs, np.int64)
        self.finished = np.zeros(num_envs, bool)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        mask = (options or {}).get("reset_mask", np.ones(self.num_envs, bool))
        seed = np.array(seed, np.uint64)
        mixed = (seed ^ (seed >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
        is_long = (mixed >> np.uint64(40)) % np.uint64(5) == 0
        self.left[mask] = np.where(is_long, 50, 1)[mask]
        self.finished[mask] = False
        return self.left[:, None].astype(np.float32), {}

    def step(self, actions: Any) -> Any:
        rewards = np.where(self.finished, 0.0, 1.0)
        self.left[self.finished] = 2  # any number, because nobody looks at an autoreset lane
        self.left -= 1
        self.finished = self.left == 0
        none = np.zeros(self.num_envs, bool)
        return self.left[:, None].astype(np.float32), rewards, self.finished, none, {}


def anything(observations: Any, action_mask: Any) -> Any:
    return np.zeros(len(observations), int)


# ---- statistics ----------------------------------------------------------------------------------


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


def test_fewer_than_six_games_show_neither_an_interval_nor_a_verdict() -> None:
    comparison = by_hand("a", (5, 9, 7, 8)).compare(by_hand("b", (3, 3, 1, 2)))
    assert np.isnan(comparison.difference_interval).all()
    assert not comparison.is_significant
    assert "\nsignificant   at the 5 % level: unknown, because there is no interval\n" in str(
        comparison
    )


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


def test_a_report_of_few_games_shows_no_interval_of_the_median() -> None:
    result = by_hand()
    assert re.search(r"^score +6,175 .* +2,000 +- +745 ", str(result), re.MULTILINE)
    assert json.loads(result.to_json())["score"]["median_interval"] == [None, None]


# ---- no length bias ------------------------------------------------------------------------------


def test_the_interval_holds_the_known_mean_in_95_of_100_evaluations() -> None:
    envs, inside, naive_inside = Queue(32), 0, 0
    for repeat in range(60):
        result = twofold.evaluate(
            anything, env=envs, episodes=200, first_seed=FIRST_SEED + 1000 * repeat
        )
        inside += Queue.MEAN in statistics.Interval(*result.summary["score"]["mean_interval"])
        # The result of "the first games that finish" on 200 lanes: all games of one step.
        order = np.argsort(result.lengths, kind="stable")[:100]
        naive_inside += Queue.MEAN in statistics.bootstrap_mean(result.scores[order])
    assert 52 <= inside <= 60
    assert naive_inside == 0


def test_every_episode_counts_once_for_any_number_of_lanes() -> None:
    results = [twofold.evaluate(anything, env=Queue(n), episodes=100) for n in (1, 7, 100, 130)]
    for result in results:
        assert set(result.lengths) == {1, 50}
        np.testing.assert_array_equal(result.scores, results[0].scores)
        np.testing.assert_array_equal(result.scores, result.lengths)


@pytest.mark.parametrize("env", ["twofold/Game2048-v0", CONCENTRATION])
def test_a_given_name_is_in_the_report_whoever_plays(env: str) -> None:
    found = twofold.evaluate("random", name="mine", env=env, episodes=2, endpoint="embedded")
    assert found.policy == "mine"


def test_an_episode_is_a_function_of_its_seed_on_the_server_too() -> None:
    one, many = (
        twofold.evaluate(first_legal, episodes=40, num_envs=n, endpoint="embedded") for n in (40, 7)
    )
    assert one.max_exponents is not None
    for name in ("seeds", "scores", "moves", "lengths", "max_exponents"):
        np.testing.assert_array_equal(getattr(one, name), getattr(many, name))
    assert one.seeds.tolist() == [FIRST_SEED + k for k in range(40)]

    envs = gym.make_vec("twofold/Game2048-v0", num_envs=1, endpoint="embedded")
    observations, infos = envs.reset(seed=FIRST_SEED + 17)
    finished = False
    while not finished:
        observations, _, ended, _, infos = envs.step(
            first_legal(observations, infos["action_mask"])
        )
        finished = bool(ended[0])
    envs.close()
    assert one.scores[17] == infos["score"][0]
    assert one.moves[17] == infos["moves"][0]
    assert one.max_exponents[17] == observations.max()


# ---- evaluations in parts ------------------------------------------------------------------------


def parts_of(policy: Any, *sizes: int, **arguments: Any) -> list[twofold.Evaluation]:
    """Returns consecutive evaluations with these numbers of episodes."""
    firsts = np.cumsum([FIRST_SEED, *sizes[:-1]], dtype=np.uint64).tolist()
    return [
        twofold.evaluate(policy, episodes=size, first_seed=first, num_envs=5, **arguments)
        for size, first in zip(sizes, firsts, strict=True)
    ]


@pytest.mark.parametrize("env", ["twofold/Game2048-v0", CONCENTRATION])
def test_parts_are_joined_to_the_whole(env: str) -> None:
    parts = parts_of(first_legal, 7, 1, 12, env=env, max_episode_steps=200)
    joined = join(parts, seconds=2 * sum(part.seconds for part in parts))
    whole = parts_of(first_legal, 20, env=env, max_episode_steps=200)[0]
    for name in ("seeds", "scores", "moves", "lengths", "max_exponents"):
        np.testing.assert_array_equal(getattr(joined, name), getattr(whole, name), err_msg=name)
    assert (joined.policy, joined.card) == (whole.policy, whole.card)
    # The policy's share stays.
    shares = [part.policy_seconds for part in parts]
    assert joined.policy_seconds == pytest.approx(2 * sum(shares))


def test_the_recorded_games_of_parts_are_joined() -> None:
    joined = join(parts_of("random", 3, 4, record=True), seconds=1.0)
    whole = parts_of("random", 7, record=True)[0]
    for which in ("best", "worst", *range(7)):
        ours, alone = joined.recording(which), whole.recording(which)
        np.testing.assert_array_equal(ours.actions, alone.actions)
        assert (ours.seed, ours.score, ours.about) == (alone.seed, alone.score, alone.about)


def test_parts_of_different_versions_are_not_joined() -> None:
    first, second = parts_of("random", 2, 2)
    second.card["server"] = "twofold-server 9.9.9"
    told = r"different values for 'server': .*9\.9\.9"
    with pytest.raises(errors.FailedPrecondition, match=told):
        join([first, second], seconds=1.0)


# ---- environments of others ----------------------------------------------------------------------


def falls_slowly(observations: Any, action_mask: Any) -> Any:
    return (observations[:, 2] > 0).astype(int)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_environments_of_gymnasium_are_evaluated(mode: Any) -> None:
    result = twofold.evaluate(
        falls_slowly, env="CartPole-v1", vectorization_mode=mode, episodes=9, num_envs=4
    )
    env, lengths = gym.make("CartPole-v1"), []
    for seed in range(FIRST_SEED, FIRST_SEED + 9):
        observation, _ = env.reset(seed=seed)
        steps, is_over = 0, False
        while not is_over:
            action = falls_slowly(observation[np.newaxis], None)[0]
            observation, _, terminated, truncated, _ = env.step(action)
            steps, is_over = steps + 1, terminated or truncated
        lengths.append(steps)
    env.close()
    assert len(set(lengths)) > 3
    assert result.lengths.tolist() == lengths
    assert result.scores.tolist() == lengths
    assert result.card["environment"] == "CartPole-v1"


def test_infos_of_only_some_lanes_belong_to_these_lanes() -> None:
    arguments: dict[str, Any] = {"size": 3, "endpoint": "embedded"}
    envs = gym.make_vec("twofold/Game2048-v0", 7, vectorization_mode="sync", **arguments)
    apart = twofold.evaluate(first_legal, env=envs, episodes=20)
    envs.close()
    together = twofold.evaluate(first_legal, episodes=20, **arguments)
    for name in ("scores", "moves", "lengths", "max_exponents"):
        np.testing.assert_array_equal(getattr(apart, name), getattr(together, name))


class Reporting(gym.Env[Any, Any]):
    """An environment with a reward of 1 for each of 5 to 7 steps, and infos in some of them."""

    observation_space, action_space = gym.spaces.Discrete(1), gym.spaces.Discrete(2)

    def __init__(self, is_reported: Callable[[int, bool], bool], name: str) -> None:
        self._is_reported, self._name = is_reported, name

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps, self._length = 0, int(self.np_random.integers(5, 8))
        return 0, self._infos()

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        return 0, 1.0, self._steps == self._length, False, self._infos()

    def _infos(self) -> dict[str, Any]:
        is_reported = self._is_reported(self._steps, self._steps == self._length)
        return {self._name: self._steps} if is_reported else {}


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("name", ["score", "moves", "max_exponent"])
@pytest.mark.parametrize(
    "is_reported",
    [
        lambda step, is_last: step == 0,
        lambda step, is_last: not is_last,
        lambda step, is_last: step < 7,
    ],
    ids=["in the reset", "before the last step", "in short games"],
)
def test_an_info_that_a_last_step_lacks_does_not_count(
    num_envs: int, name: str, is_reported: Callable[[int, bool], bool]
) -> None:
    envs = gym.vector.SyncVectorEnv([lambda: Reporting(is_reported, name)] * num_envs)
    result = twofold.evaluate(lambda observations, mask: mask.argmax(axis=1), env=envs, episodes=9)
    envs.close()
    assert len(set(result.lengths)) == 3
    np.testing.assert_array_equal(result.scores, result.lengths)
    np.testing.assert_array_equal(result.moves, result.lengths)
    assert result.max_exponents is None


def test_observations_may_be_tuples() -> None:
    def sticks(observations: Any, action_mask: Any) -> Any:
        own_sum, _, _ = observations
        return (own_sum < 17).astype(int)

    envs = gym.make_vec("Blackjack-v1", 5, vectorization_mode="sync")
    result = twofold.evaluate(sticks, env=envs, episodes=40)
    envs.close()
    assert set(result.scores) == {-1, 0, 1}


def test_an_environment_that_takes_one_seed_for_all_is_refused_by_name() -> None:
    with pytest.raises(
        errors.InvalidArgument,
        match=r"CartPoleVectorEnv refuses a list of seeds .*mode='sync'",
    ) as info:
        twofold.evaluate(anything, env="CartPole-v1", episodes=3)
    assert info.value.field == "env"


def test_an_environment_that_ignores_the_reset_mask_is_refused_by_name() -> None:
    class ResetsAll(gym.vector.SyncVectorEnv):
        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            return super().reset(seed=seed)

    envs = ResetsAll([lambda: gym.make("CartPole-v1")] * 4)
    with pytest.raises(errors.InvalidArgument, match=r"ResetsAll also resets .* excludes") as info:
        twofold.evaluate(anything, env=envs, episodes=9)
    assert info.value.field == "env"
    envs.close()


def test_an_environment_of_another_autoreset_is_refused_by_its_id_too() -> None:
    with pytest.raises(errors.InvalidArgument, match="NEXT_STEP"):
        twofold.evaluate(first_legal, episodes=3, autoreset_mode="same_step", endpoint="embedded")


def test_random_play_on_2x2_agrees_with_the_exact_solution() -> None:
    result = twofold.evaluate("random", episodes=4000, size=2, endpoint="embedded")
    score, moves = result.summary["score"], result.summary["moves"]
    assert abs(score["mean"] - 19.65654018) < 4 * score["standard_error"]
    assert abs(moves["mean"] - 5.60072300) < 4 * moves["standard_error"]
    low, high = result.summary["reached"][16]["interval"]
    assert low - 0.003 < 0.121752664444 < high + 0.003
    assert result.card["size"] == "2 x 2"


def test_random_play_on_4x4_agrees_with_twenty_million_games() -> None:
    result = twofold.evaluate("random", episodes=4_000, endpoint="embedded")
    assert abs(result.scores.mean() - 1094.91) < 4 * 534.9 / 4_000**0.5
    assert abs(result.moves.mean() - 118.387) < 4 * 37.76 / 4_000**0.5
    low, high = result.summary["reached"][256]["interval"]
    assert low - 0.005 < 0.07835 < high + 0.005


def test_random_actions_are_legal_and_equally_likely() -> None:
    policy = RandomPolicy(3)
    masks = np.array([[b >> a & 1 for a in range(4)] for b in range(1, 16)] * 4000, np.int8)
    actions = policy(None, masks)
    assert (np.take_along_axis(masks, actions[:, None].astype(int), 1) == 1).all()
    for mask in np.unique(masks, axis=0):
        chosen = actions[(masks == mask).all(axis=1)]
        counts = np.bincount(chosen, minlength=4)[mask == 1]
        expected = len(chosen) / mask.sum()
        assert ((counts - expected) ** 2 / expected).sum() < 16.3  # chi-square, 3 degrees, 0.001
    wide = policy(None, np.eye(9, dtype=np.int8))
    assert wide.tolist() == list(range(9))


def test_a_random_number_of_zero_chooses_a_legal_action(monkeypatch: pytest.MonkeyPatch) -> None:
    class Zeros:
        def random(self, shape: tuple[int, ...], dtype: Any) -> Any:
            return np.zeros(shape, dtype)

    policy = RandomPolicy()
    monkeypatch.setattr(policy, "_rng", Zeros())
    masks = np.eye(9, dtype=np.int8)
    assert policy(None, masks).tolist() == list(range(9))


# ---- policies in the server ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "dialect", "size"),
    [
        ("greedy", None, 4),
        ("fixed-order", None, 4),
        ("greedy", "pgx", 4),
        ("greedy", None, (3, 4)),
        (twofold.policies.Random(), None, 4),
        (twofold.policies.Random(), None, 2),
        (twofold.policies.Random(), None, (4, 5)),
    ],
)
def test_an_episode_is_a_function_of_its_seed_with_policies_in_the_server(
    policy: Any, dialect: str | None, size: Any, server: Server
) -> None:
    arguments: dict[str, Any] = {"dialect": dialect, "size": size, "endpoint": "embedded"}
    one, many = (
        twofold.evaluate(policy, episodes=60, num_envs=n, record=True, **arguments) for n in (60, 7)
    )
    for name in ("scores", "moves", "lengths", "max_exponents"):
        np.testing.assert_array_equal(getattr(one, name), getattr(many, name))
    assert one.max_exponents is not None
    for result, episode in ((one, 0), (many, 41), (many, 59)):
        made = result.recording(episode)
        verified = made.verify()
        assert (verified.score, verified.moves) == (one.scores[episode], one.moves[episode])
        assert verified.is_over
        assert made.board.max() == one.max_exponents[episode]
    assert "the policy in the service" in str(one)
    assert json.loads(one.to_json())["policy_seconds"] is None
    again = twofold.Evaluation.from_json(one.to_json(games=True))
    assert np.isnan(again.policy_seconds)


def test_random_play_in_the_server_agrees_too() -> None:
    result = twofold.evaluate(twofold.policies.Random(), episodes=4_000, endpoint="embedded")
    assert abs(result.scores.mean() - 1094.91) < 4 * 534.9 / 4_000**0.5
    assert abs(result.moves.mean() - 118.387) < 4 * 37.76 / 4_000**0.5


@pytest.mark.parametrize("dialect", [None, "pgx", "jumanji", "envpool"])
def test_fixed_order_plays_up_right_down_left_in_the_server_and_as_a_function(
    dialect: str | None,
) -> None:
    arguments: Any = {"dialect": dialect, "endpoint": "embedded"}
    served = twofold.evaluate("fixed-order", episodes=100, **arguments)
    with contextlib.closing(gym.make_vec("twofold/Game2048-v0", num_envs=50, **arguments)) as envs:
        called = twofold.evaluate("fixed-order", env=envs, episodes=100)
    assert np.isnan(served.policy_seconds)
    assert called.policy_seconds > 0
    np.testing.assert_array_equal(served.scores, called.scores)
    assert served.policy == called.policy == "fixed-order"
    if dialect is None:
        plain = twofold.evaluate(first_legal, episodes=100, **arguments)
        np.testing.assert_array_equal(served.scores, plain.scores)


def test_fixed_order_scores_twice_as_much_as_random_play() -> None:
    fixed, random = (
        twofold.evaluate(policy, episodes=4_000, endpoint="embedded")
        for policy in ("fixed-order", "random")
    )
    assert 1.8 < fixed.scores.mean() / random.scores.mean() < 2.4


def test_fixed_order_is_refused_where_it_would_never_end() -> None:
    with pytest.raises(errors.InvalidArgument) as info:
        twofold.evaluate("fixed-order", env=CONCENTRATION, episodes=1)
    assert info.value.field == "max_episode_steps"
    result = twofold.evaluate("fixed-order", env=CONCENTRATION, episodes=9, max_episode_steps=20)
    assert (result.lengths == 20).any()


def test_truncated_episodes_count_too() -> None:
    result = twofold.evaluate("greedy", episodes=20, max_episode_steps=9, endpoint="embedded")
    assert result.lengths.tolist() == [9] * 20


def test_a_search_and_a_network_are_evaluated_by_name(tmp_path: Path) -> None:
    result = twofold.evaluate("expectimax:1", episodes=3, endpoint="embedded")
    assert result.card["search depth"] == "1 max layer (1 ply)"
    assert result.scores.mean() > 3000
    table = np.zeros(16**2, np.float32)
    network = twofold.policies.NTuple([[0, 1]], [table])
    network.save(tmp_path / "a.npz")
    result = twofold.evaluate(f"ntuple:{tmp_path}/a.npz", episodes=3, endpoint="embedded")
    assert result.policy == "ntuple (a.npz)"
    assert result.card["weights, MB"] == 1024 / 1e6
    assert result.card["symmetry averaging"] == "yes"


def test_a_policy_in_the_server_needs_a_server(server: Server) -> None:
    with pytest.raises(errors.InvalidArgument, match="runs in the server"):
        twofold.evaluate("greedy", env=Queue(2))
    for mode in ("sync", "vector_entry_point"):
        with pytest.raises(
            errors.InvalidArgument, match="greedy plays Twofold's environments only"
        ):
            twofold.evaluate("greedy", env="CartPole-v1", vectorization_mode=mode)
    with pytest.raises(errors.InvalidArgument, match="or these arguments make another environment"):
        twofold.evaluate("greedy", vectorization_mode="sync")


# ---- policies with a memory ----------------------------------------------------------------------


class Counting:
    """A policy that counts each board's steps. It plays an invalid action if the count is off."""

    def __init__(self) -> None:
        self.steps = np.zeros(0, np.int64)
        self.begun = 0

    def reset(self, lanes: Any) -> None:
        if not len(self.steps):
            self.steps = np.zeros(len(lanes), np.int64)
            self.lengths = np.zeros(len(lanes), np.int64)
        self.steps[lanes] = 0
        self.begun += int(lanes.sum())

    def __call__(self, observations: Any, action_mask: Any) -> Any:
        left = observations[:, 0]
        self.lengths = np.where(self.steps == 0, left, self.lengths)
        wrong = left + self.steps != self.lengths
        self.steps += 1
        # If it has lost count, it plays an action that is refused.
        return np.where(wrong, 9, 0)


@pytest.mark.parametrize("lanes", [1, 7, 50, 60])
def test_a_policy_with_a_memory_learns_which_boards_begin_an_episode(lanes: int) -> None:
    policy = Counting()
    assert isinstance(policy, PolicyWithMemory)
    result = twofold.evaluate(policy, env=Queue(lanes), episodes=50)
    assert policy.begun == 50
    np.testing.assert_array_equal(
        result.scores, twofold.evaluate(anything, env=Queue(50), episodes=50).scores
    )


class SeesMasks(Counting):
    """A policy that records, for each call, how many boards have a legal action."""

    def __init__(self) -> None:
        self.playing: list[int] = []

    def reset(self, lanes: Any) -> None:
        pass

    def __call__(self, observations: Any, action_mask: Any) -> Any:
        self.playing.append(int(action_mask.any(axis=1).sum()))
        return action_mask.argmax(axis=1)


@pytest.mark.parametrize("env", ["twofold/Game2048-v0", Queue(12)], ids=["2048", "no masks"])
def test_a_policy_with_a_memory_sees_clear_masks_of_boards_out_of_play(env: Any) -> None:
    made: dict[str, Any] = {"num_envs": 12, "size": 2} if isinstance(env, str) else {}
    policy = SeesMasks()
    result = twofold.evaluate(policy, env=env, episodes=8, **made)
    assert policy.playing == [
        int((result.lengths > call).sum()) for call in range(len(policy.playing))
    ]
    assert policy.playing[0] == 8
    assert policy.playing[-1] < 8


def test_a_policy_whose_reset_raises_is_reported() -> None:
    class Bad(Counting):
        def reset(self, lanes: Any) -> None:
            raise KeyError("lost")

    with pytest.raises(
        errors.PolicyError, match=r"call 0: reset raised KeyError: 'lost' \(.*in re"
    ):
        twofold.evaluate(Bad(), env=Queue(2), episodes=2)


def test_a_reset_that_fails_with_another_number_of_boards_is_reported_with_that_number() -> None:
    policy = Counting()
    twofold.evaluate(policy, env=Queue(2), episodes=2)
    with pytest.raises(errors.PolicyError, match=r"raised IndexError.*; there are 3 boards: "):
        twofold.evaluate(policy, env=Queue(3), episodes=2)


def test_a_policy_that_exits_does_not_end_the_program() -> None:
    def leave(observations: Any, action_mask: Any) -> Any:
        sys.exit(0)

    with pytest.raises(errors.PolicyError, match="call 0: raised SystemExit"):
        twofold.evaluate(leave, episodes=2, endpoint="embedded")


class Forgetful:
    """A policy that counts each board's steps, but has no `reset`."""

    def __init__(self) -> None:
        self.steps: Any = None

    def __call__(self, observations: Any, action_mask: Any) -> Any:
        if self.steps is None:
            self.steps = np.zeros(len(observations), np.int64)
        self.steps += (action_mask > 0).any(axis=1)
        return action_mask.argmax(axis=1)


def returns_eight(observations: Any, action_mask: Any) -> Any:
    return np.resize(action_mask.argmax(axis=1), 8)


@pytest.mark.parametrize(
    ("policy", "problem"),
    [(Forgetful(), "raised ValueError"), (returns_eight, "returned int64 of shape")],
)
def test_a_policy_that_counts_on_all_boards_without_reset_reads_that_it_needs_one(
    policy: Any, problem: str
) -> None:
    hint = "; K went from 8 to 7: a policy that remembers boards needs a method reset"
    with pytest.raises(errors.PolicyError, match=f"{problem}.*{hint}"):
        twofold.evaluate(policy, episodes=8, endpoint="embedded")


@pytest.mark.parametrize("pairs", [2, 3])
def test_perfect_memory_is_evaluated_and_agrees_with_the_exact_solution(pairs: int) -> None:
    # 700 games at once, so that most begin while others are in progress.
    result = twofold.evaluate(
        "perfect-memory",
        env=CONCENTRATION,
        size=(2, pairs),
        episodes=3000,
        num_envs=700,
        endpoint="embedded",
    )
    moves = result.summary["moves"]
    assert (
        abs(moves["mean"] / 2 - float(fewest_turns(0, 0, 2 * pairs))) < 2 * moves["standard_error"]
    )
    assert result.policy == "perfect-memory"

    envs = gym.make_vec(CONCENTRATION, num_envs=700, size=(2, pairs), endpoint="embedded")
    again = twofold.evaluate(PerfectMemory(envs), env=envs, episodes=3000)
    envs.close()
    np.testing.assert_array_equal(again.scores, result.scores)
    assert again.policy == "PerfectMemory"


def test_perfect_memory_is_evaluated_by_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["evaluate", "perfect-memory", "--against", "random", "--env", CONCENTRATION]
    command += ["--size", "2x4", "--episodes", "300", "--endpoint", "embedded"]
    assert cli.main(command) == 0
    assert "perfect-memory against random, the same 300 seeds each" in capsys.readouterr().out
    assert cli.main(["evaluate", "perfect-memory", "--endpoint", "embedded"]) == 2
    error = capsys.readouterr().err
    assert "expected a Concentration environment" in error
    assert "--env" in error


# ---- bad policies and arguments ------------------------------------------------------------------


def raises(observations: Any, action_mask: Any) -> Any:
    return observations[0, 99]


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (raises, r"call 0: raised IndexError.*test_evaluate\.py:\d+ in raises"),
        (lambda o, m: np.zeros((len(o), 4), int), r"int64 of shape \(8, 4\); expected .* \(8,\)"),
        (lambda o, m: m.argmax(axis=1)[:-1], r"shape \(7,\); expected integers of shape \(8,\)"),
        (lambda o, m: np.zeros(len(o)), "returned float64"),
        (lambda o, m: None, "returned object"),
        (
            lambda o, m: m.argmax(axis=1) + 256,
            r"chose action \d+ instead of .* in row 0 \(episode 0",
        ),
        (lambda o, m: -np.ones(len(o), int), "chose action -1"),
        (lambda o, m: m.argmin(axis=1), r"call \d+: chose action \d instead of .*seed 922337"),
    ],
)
def test_a_bad_policy_is_reported_with_call_row_and_seed(policy: Any, text: str) -> None:
    with pytest.raises(errors.PolicyError, match=text) as info:
        twofold.evaluate(policy, episodes=8, endpoint="embedded")
    assert info.value.policy == policy.__name__
    if info.value.row is not None:
        assert info.value.seed == FIRST_SEED + (info.value.episode or 0)


class Network:
    """A stand-in for a PyTorch network: a call passes all arguments to `forward`."""

    def __call__(self, *arguments: Any) -> Any:
        return self.forward(*arguments)

    def forward(self, observations: Any) -> Any:
        return observations


@pytest.mark.parametrize("policy", [Network(), lambda observations: observations])
def test_a_function_that_takes_no_mask_is_refused_with_the_form_that_is_expected(
    policy: Any,
) -> None:
    with pytest.raises(errors.InvalidArgument, match="observations, action_mask") as caught:
        twofold.evaluate(policy, episodes=8, endpoint="embedded")
    assert caught.value.field == "policy"


def test_a_policy_that_changes_the_mask_makes_no_action_legal() -> None:
    def cheats(observations: Any, action_mask: Any) -> Any:
        worst = action_mask.argmin(axis=1)
        action_mask[:] = 1
        return worst

    with pytest.raises(errors.PolicyError, match="the legal actions"):
        twofold.evaluate(cheats, episodes=8, endpoint="embedded")


def test_a_slow_policy_is_reported() -> None:
    import time

    def slow(observations: Any, action_mask: Any) -> Any:
        time.sleep(0.05)
        return np.zeros(len(observations), int)

    with pytest.raises(errors.PolicyError, match=r"'slow', call 0: took [\d.]+ s for 4 boards"):
        twofold.evaluate(slow, env=Queue(4), episodes=4, policy_timeout=0.01)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"episodes": 0}, "episodes"),
        ({"episodes": 10, "protocol": "quick"}, "episodes"),
        ({"protocol": "fast"}, "protocol"),
        ({"first_seed": 5}, "first_seed"),
        ({"policy": "clever"}, "policy"),
        ({"policy": 7}, "policy"),
        ({"policy": RandomPolicy}, "policy"),
        ({"env": 3}, "env"),
        ({"num_envs": 3}, "num_envs"),
        ({"policy_timeout": 0}, "policy_timeout"),
        ({"name": 5}, "name"),
        ({"progress": 5}, "progress"),
        ({"executor": 5}, "executor"),
        ({"card": 5}, "card"),
        ({"card": {"depth": 3}}, "card"),
        ({"card": {"threads": "two"}}, "card['threads']"),
    ],
)
def test_wrong_arguments_are_refused_by_name(arguments: Any, field: str) -> None:
    given = {"policy": anything, "env": Queue(2), "episodes": 1, **arguments}
    if "protocol" in arguments and "episodes" not in arguments:
        del given["episodes"]
    with pytest.raises(errors.InvalidArgument) as info:
        twofold.evaluate(given.pop("policy"), **given)
    assert info.value.field == field


def test_an_environment_with_another_autoreset_is_refused() -> None:
    envs = gym.make_vec(
        "twofold/Game2048-v0", num_envs=2, autoreset_mode="disabled", endpoint="embedded"
    )
    with pytest.raises(errors.InvalidArgument, match="NEXT_STEP"):
        twofold.evaluate("random", env=envs)
    envs.close()


# ---- reports -------------------------------------------------------------------------------------


def by_hand(policy: str = "by hand", scores: Any = (700, 1000, 3000, 20000)) -> Any:
    return twofold.Evaluation(
        policy=policy,
        card={"environment": "twofold/Game2048-v0", "size": "4 x 4", "weights, MB": 256.0},
        seeds=np.arange(4, dtype=np.uint64) + np.uint64(FIRST_SEED),
        scores=np.array(scores),
        moves=np.array([90, 110, 210, 1000]),
        lengths=np.array([90, 110, 210, 1000]),
        max_exponents=np.array([6, 6, 8, 11], np.uint8),
        seconds=2.0,
        policy_seconds=1.0,
    )


@pytest.mark.parametrize(("size", "highest"), [((2, 3), 128), ((2, 2), 32), ((3, 3), 1024)])
def test_a_report_lists_only_tiles_that_the_board_can_have(
    size: tuple[int, int], highest: int
) -> None:
    result = twofold.evaluate("random", size=size, episodes=50, endpoint="embedded")
    assert max(result.summary["reached"]) == highest


def test_the_summary_has_the_figures() -> None:
    summary = by_hand().summary
    assert summary["score"]["mean"] == 6175
    assert summary["score"]["median"] == 2000
    assert summary["moves"]["max"] == 1000
    assert summary["highest_tile"] == 2048
    assert summary["tiles"] == {64: 2, 256: 1, 2048: 1}
    reached = {tile: entry["games"] for tile, entry in summary["reached"].items()}
    assert list(reached) == [256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536]
    assert reached == {256: 2, 512: 1, 1024: 1, 2048: 1} | dict.fromkeys(
        (4096, 8192, 16384, 32768, 65536), 0
    )
    assert summary["moves_per_second"] == 705


def test_text_markdown_and_html_contain_figures_and_rule_card() -> None:
    result = by_hand("<b>")
    for report in (str(result), result.to_markdown(), result._repr_html_()):
        for part in ("6,175", "25.00 %", "4 x 4", "705 moves per second", "2^63"):
            assert part in report
    assert "&lt;b&gt;" in result._repr_html_()
    assert re.search(r"^\| score +\| +6,175 \|", result.to_markdown(), re.MULTILINE)


@pytest.mark.parametrize(
    ("value", "ends", "mean", "interval"),
    [
        (7.5690, (7.5595, 7.5785), "7.5690", "7.5595 ... 7.5785"),
        (0.213, (0.181, 0.246), "0.213", "0.181 ... 0.246"),
        (24.6, (24.43, 24.81), "24.60", "24.43 ... 24.81"),
        (1109.66, (1001.2, 1204.0), "1,109.7", "1,001.2 ... 1,204.0"),
        (31714.2, (30000.4, 33000.6), "31,714", "30,000 ... 33,001"),
        (31714.2, (31713.9, 31714.5), "31,714.20", "31,713.90 ... 31,714.50"),
        (0.0, (0.0, 0.0), "0", "0 ... 0"),
        (0.0466, (0.0466, 0.0466), "0.04660", "0.04660 ... 0.04660"),
        (7.55, (math.nan, math.nan), "7.550", "-"),
        (math.inf, (1.0, math.inf), "inf", "1 ... inf"),
        (-math.inf, (-math.inf, -math.inf), "-inf", "-inf ... -inf"),
        (math.nan, (1.5, 2.0), "-", "1.50 ... 2.00"),
        # The differences are rounding errors.
        (7.6, (7.6 - 1e-15, 7.6 + 1e-15), "7.600", "7.600 ... 7.600"),
    ],
)
def test_an_estimate_has_two_digits_of_half_its_interval(
    value: float, ends: tuple[float, float], mean: str, interval: str
) -> None:
    assert reports.estimate(value, ends) == (mean, interval)


def test_a_comparison_of_small_scores_with_the_same_difference_shows_their_means() -> None:
    a = twofold.evaluate("perfect-memory", env=CONCENTRATION, episodes=20, endpoint="embedded")
    small = dataclasses.replace(a, scores=np.full(20, 0.04))
    assert "mean scores   0.04000 and 0.04000" in str(small.compare(small))
    assert "mean scores   0.04000 and 1.040" in str(
        small.compare(dataclasses.replace(a, scores=np.full(20, 1.04)))
    )


def test_the_report_comparison_and_plot_of_small_scores_show_the_same_digits() -> None:
    a, b = (
        twofold.evaluate(policy, env=CONCENTRATION, episodes=200, peeks=0, endpoint="embedded")
        for policy in ("perfect-memory", "last-k-memory:4")
    )
    mean, interval = reports.estimate(a.scores.mean(), a.summary["score"]["mean_interval"])
    assert re.fullmatch(r"7\.\d{3,4}", mean)
    assert re.search(rf"^score +{mean} +{interval} ", str(a), re.MULTILINE)
    assert re.search(rf"\| +{mean} \| +{interval} \|", a.to_markdown())
    comparison = str(a.compare(b))
    assert re.search(r"mean scores +7\.\d{3} and 7\.\d{3}\n", comparison)
    assert re.search(r"difference +0\.\d{3}, 95 % interval 0\.\d{3} \.\.\. 0\.\d{3}\n", comparison)
    pytest.importorskip("matplotlib")
    legend = a.plot().axes[0].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == [f"perfect-memory: mean {mean}"]


def test_the_table_of_tiles_ends_with_the_first_that_no_game_reaches() -> None:
    text = str(by_hand())
    assert re.search(r"^2048 +1 ", text, re.MULTILINE)
    assert re.search(r"^4096 +0 ", text, re.MULTILINE)
    assert not re.search(r"^8192 ", text, re.MULTILINE)


def test_names_in_a_report_do_not_control_the_terminal() -> None:
    result = by_hand("\x1b[2J\x9b31m\u202eevil\nname")
    comparison = result.compare(by_hand("\x1b]0;other\x07"))
    for report in (
        str(result),
        result.to_markdown(),
        str(comparison),
        comparison.to_markdown(),
    ):
        assert all(line.isprintable() for line in report.split("\n"))
    assert "?[2J?31m?evil?name on" in str(result)
    assert "against ?]0;other?, the same" in str(comparison)


def test_rounding_errors_of_added_rewards_are_no_difference() -> None:
    comparison = Comparison.of_scores("a", np.full(6, 0.1 + 0.2), "b", np.full(6, 0.3))
    assert (comparison.wins, comparison.ties, comparison.difference) == (0, 6, 0)
    assert not comparison.is_significant


def test_a_saved_evaluation_loads_unchanged() -> None:
    result = by_hand()
    again = twofold.Evaluation.from_json(result.to_json(games=True))
    assert again.summary == result.summary
    np.testing.assert_array_equal(again.seeds, result.seeds)
    for text in ("", "{}", result.to_json(), "[1]", "[" * 100_000):
        with pytest.raises(errors.InvalidArgument, match="not an evaluation saved"):
            twofold.Evaluation.from_json(text)


@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
@pytest.mark.parametrize(
    ("entry", "value", "message"),
    [
        ("seeds", [-1, 1, 2, 3], "OverflowError"),
        ("moves", [2**70, 1, 2, 3], "OverflowError"),
        ("max_exponents", [300, 1, 2, 3], "OverflowError"),
        ("scores", ["a", "b", "c", "d"], "scores does not have a number for each game"),
        ("lengths", [1, 2, 3], "lengths does not have a number for each game"),
        ("seeds", [], "seeds does not have a number"),
        (None, {"version": 2}, "version 2; this program reads version 1"),
        (None, {"rule_card": []}, "AttributeError"),
        (None, {"rule_card": {"size": "9999999 x 9"}}, "OverflowError"),
        (None, {"seconds": 0}, "ZeroDivisionError"),
        (None, {"model": {"model": "a"}}, "KeyError"),
    ],
)
def test_a_damaged_evaluation_is_refused(entry: str | None, value: Any, message: str) -> None:
    document = json.loads(by_hand().to_json(games=True))
    if entry is None:
        document |= value
    else:
        document["games"][entry] = value
    with pytest.raises(errors.InvalidArgument, match=message):
        twofold.Evaluation.from_json(json.dumps(document))


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_json_has_null_for_an_infinite_score() -> None:
    document = json.loads(by_hand(scores=(1.0, 2.0, 3.0, np.inf)).to_json())
    assert document["score"]["mean"] is None
    json.dumps(document, allow_nan=False)


def test_the_plot_is_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "a.png"
    by_hand().plot(path, by_hand("other", (1, 2, 3, 4)))
    assert path.read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(errors.InvalidArgument, match="unknownformat"):
        by_hand().plot(tmp_path / "a.unknownformat")


def test_the_plot_of_a_weak_policy_and_a_strong_one_shows_the_same_tiles_of_both() -> None:
    pytest.importorskip("matplotlib")
    weak, strong = (
        dataclasses.replace(by_hand(name), max_exponents=np.array(exponents, np.uint8))
        for name, exponents in (("weak", (5, 6, 7, 7)), ("strong", (6, 10, 11, 11)))
    )
    panel = weak.plot(None, strong).axes[1]
    tiles = [tick.get_text() for tick in panel.get_xticklabels()]
    assert tiles == ["16", "32", "64", "128", "256", "512", "1024", "2048"]
    shares = [bar.get_height() for bar in panel.patches]
    assert shares == [1, 1, 0.75, 0.5, 0, 0, 0, 0, 1, 1, 1, 0.75, 0.75, 0.75, 0.75, 0.5]


def test_a_plot_that_matplotlib_can_not_draw_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")

    def fail(*_: object, **__: object) -> NoReturn:
        raise RuntimeError("xelatex not found")  # as for .pgf without TeX

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", fail)
    with pytest.raises(errors.InvalidArgument, match="xelatex") as info:
        by_hand().plot(tmp_path / "a.pgf")
    assert info.value.field == "path"
    assert not any(tmp_path.iterdir())


def test_the_plot_shows_names_as_they_are_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    names = [r"x $\foo$ \$", "_private", "by \udcff"]
    figure = by_hand(names[0]).plot(tmp_path / "a.png", *map(by_hand, names[1:]))
    legend = figure.axes[0].get_legend().get_texts()
    shown = [text.get_text().strip().removesuffix(": mean 6,175") for text in legend]
    assert shown == [*names[:2], "by ?"]


def test_the_rule_card_shows_rules_and_means(server: Server) -> None:
    class Searching:
        card = {"search_max_layers": 2, "symmetry_averaging": True, "weights_mb": 1.5}  # noqa: RUF012

        def __call__(self, observations: Any, action_mask: Any) -> Any:
            return first_legal(observations, action_mask)

    result = twofold.evaluate(
        Searching(),
        episodes=2,
        card={"threads": 3, "notes": "remembers its last move"},
        size=(3, 4),
        four_probability=0.25,
        max_episode_steps=50,
        goal=64,
        endpoint="embedded",
    )
    expected = {
        "environment": "twofold/Game2048-v0",
        "size": "3 x 4",
        "spawn law": "2 with 0.75, 4 with 0.25, all empty cells alike",
        "start tiles": 2,
        "goal": "64, play goes on",
        "illegal action": "nothing happens",
        "step limit": 50,
        "policy": "Searching",
        "search depth": "2 max layers (3 plies with chance)",
        "symmetry averaging": "yes",
        "weights, MB": 1.5,
        "threads": 3,
        "notes": "remembers its last move",
    }
    assert expected.items() <= result.card.items()
    assert result.card["server"] == f"none, twofold {result.card['twofold']}"
    assert (result.lengths <= 50).all()


def test_a_rule_card_has_notes_only_if_the_policy_has_some() -> None:
    assert "notes" not in twofold.evaluate("random", episodes=2, endpoint="embedded").card


def test_the_rule_card_of_concentration_shows_deck_and_reward() -> None:
    def card(**arguments: Any) -> dict[str, Any]:
        made = twofold.evaluate(
            "random", env="twofold/Concentration-v0", episodes=2, endpoint="embedded", **arguments
        )
        return made.card

    assert {
        "size": "4 x 13",
        "symbols": 2,
        "peeks": 0,
        "found pairs": "stay face up",
        "illegal action": "ends the turn",
        "step limit": 104,
    }.items() <= card(preset="popgym-easy").items()
    assert card(peeks="unlimited")["peeks"] == "any number"
    reward = {"match": 2, "mismatch": -0.5}
    score = card(reward={"terms": reward, "scale": 0.1, "clip": (-1, None)})["score"]
    assert score == "sum of the rewards: 2 match + -0.5 mismatch, times 0.1, at least -1"


@pytest.mark.parametrize("other", [{"symbols": 2}, {"peeks": 1}, {"reward": {"match": 2}}])
def test_games_of_other_rules_are_not_compared(other: dict[str, Any]) -> None:
    a, b = (
        twofold.evaluate(
            "random", env="twofold/Concentration-v0", episodes=2, endpoint="embedded", **arguments
        )
        for arguments in ({}, other)
    )
    with pytest.raises(errors.InvalidArgument, match="differ in"):
        a.compare(b)


# ---- two policies --------------------------------------------------------------------------------


def test_a_policy_compared_with_itself_differs_by_nothing() -> None:
    a, b = (twofold.evaluate(first_legal, episodes=50, endpoint="embedded") for _ in range(2))
    comparison = a.compare(b)
    assert (comparison.difference, comparison.ties, comparison.wins) == (0, 50, 0)
    assert comparison.correlation == pytest.approx(1)
    assert not comparison.is_significant
    assert "\nsignificant   at the 5 % level: no, it includes 0\n" in str(comparison)
    assert "\npairs         all games tied\n" in str(comparison)


def test_the_better_of_two_policies_is_reported() -> None:
    a = twofold.evaluate(first_legal, episodes=200, endpoint="embedded")
    b = twofold.evaluate("random", episodes=200, endpoint="embedded")
    comparison = a.compare(b)
    assert comparison.is_significant
    assert comparison.difference == pytest.approx(a.scores.mean() - b.scores.mean())
    assert comparison.difference in comparison.difference_interval
    verdict = "\nsignificant   at the 5 % level: yes, the interval excludes 0\n"
    assert verdict in str(comparison)
    assert json.loads(comparison.to_json())["wins"] == (a.scores > b.scores).sum()


def test_a_comparison_in_markdown_is_a_table() -> None:
    comparison = by_hand("a_1").compare(by_hand("b", (700, 1000, 3000, 10000)))
    title, empty, *rows = comparison.to_markdown().split("\n")
    assert title == r"### a\_1 against b, the same 4 seeds each"
    assert not empty
    assert all(row.startswith("|") for row in rows)
    cells = [row.strip("| ").split(" | ") for row in rows]
    figures = {name.strip(): value for name, value in cells[2:]}
    assert figures["mean scores"] == "6,175 and 3,675"
    assert figures["significant"] == "at the 5 % level: unknown, because there is no interval"


def test_different_seeds_or_rules_are_not_compared() -> None:
    a, b = by_hand(), by_hand()
    b.seeds[0] += np.uint64(9)
    with pytest.raises(errors.InvalidArgument, match="different seeds"):
        a.compare(b)
    b = by_hand()
    b.card["size"] = "3 x 3"
    with pytest.raises(errors.InvalidArgument, match="differ in size"):
        a.compare(b)


# ---- the command ---------------------------------------------------------------------------------

POLICY_FILE = """
def up_first(observations, action_mask):
    return action_mask.argmax(axis=1)
not_a_policy = 5
class Corner:
    def __call__(self, observations, action_mask):
        return action_mask.argmax(axis=1)
corner = Corner()
"""


def test_the_command_evaluates_a_function_of_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text(POLICY_FILE)
    command = ["evaluate", f"{tmp_path}/mine.py:up_first", "--episodes", "20"]
    command += ["--endpoint", "embedded", "--size", "3x4"]
    saved = tmp_path / "a.json"
    assert cli.main([*command, "--json", "--save", str(saved)]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["episodes"] == 20
    assert printed["rule_card"]["size"] == "3 x 4"
    again = twofold.Evaluation.from_json(saved.read_text())
    direct = twofold.evaluate(first_legal, episodes=20, size=(3, 4), endpoint="embedded")
    np.testing.assert_array_equal(again.scores, direct.scores)

    assert cli.main([*command, "--against", "random", "--format", "markdown"]) == 0
    output = capsys.readouterr().out
    assert output.count("### ") == 3
    assert "against random, the same 20 seeds each" in output
    assert "| mean scores " in output

    assert cli.main([*command, "--name", "up first", "--against", "random"]) == 0
    output = capsys.readouterr().out
    assert output.startswith("up first on twofold/Game2048-v0: 20 games")
    assert "up first against random, the same 20 seeds each" in output

    assert cli.main([*command, "--against", "random", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed.keys() == {"evaluations", "comparison"}
    assert [one["episodes"] for one in printed["evaluations"]] == [20, 20]
    assert printed["evaluations"][0]["policy"] == printed["comparison"]["first"]
    assert printed["comparison"]["second"] == "random"


def test_the_command_evaluates_an_object_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(POLICY_FILE)
    assert isinstance(load(f"{tmp_path}/mine.py:corner"), FunctionChooser)


def test_the_command_finds_functions_of_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "twofold_test_policies.py").write_text(POLICY_FILE)
    monkeypatch.chdir(tmp_path)
    policy = load("twofold_test_policies:up_first")
    assert policy.name == "twofold_test_policies:up_first"
    assert isinstance(policy, FunctionChooser)
    function: Any = policy.make(VectorEnv())
    assert np.array_equal(function(None, np.array([[0, 1, 0, 1]], np.int8)), [1])


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("clever", "'clever' is unknown; expected random"),
        ("expectimax:deep", "expected a depth"),
        (f"expectimax:{'9' * 5000}", "expected a depth"),
        (f"last-k-memory:{'9' * 5000}", "expected a number of cards"),
        ("expectimax:0", "depth is 0"),
        ("ntuple:model.zip", "is not a readable n-tuple network"),
        ("ntuple:nowhere.npz", "No such file"),
        ("no_such_module:f", "no module 'no_such_module'"),
        ("nowhere.py:f", "no file 'nowhere.py'"),
        ("mine.py", "'mine.py' is a file. A program with strategy(board) is judged in a sandbox"),
        ("mine.py:g", "has no 'g'"),
        ("mine.py:not_a_policy", "expected a function"),
        ("mine.py:Corner", "is the class Corner; pass an instance, policy = Corner()"),
        ("broken.py:f", "importing 'broken.py' raised ZeroDivisionError"),
        ("broken.py:f", "broken.py:2 in divide)"),
        ("broken_module:f", "broken_module.py:2 in divide)"),
        ("unclosed.py:f", "SyntaxError: '(' was never closed (unclosed.py, line 1)\n"),
        ("unclosed_module:f", "was never closed (unclosed_module.py, line 1)\n"),
        ("leaves.py:f", "importing 'leaves.py' raised SystemExit"),
        ("lazy.py:f", "importing 'lazy.py' raised ImportError: no f"),
        ("lazy.py:f", "lazy.py:1 in __getattr__)"),
        ("nowhere.zip", "no file 'nowhere.zip'"),
        ("model.zip", "pass --trust-pickle"),
    ],
)
def test_the_command_reports_why_it_found_no_policy(
    word: str,
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "mine.py").write_text(POLICY_FILE)
    for end in (".py", "_module.py"):
        (tmp_path / f"broken{end}").write_text("def divide():\n    1 / 0\ndivide()")
        (tmp_path / f"unclosed{end}").write_text("f = (")
    (tmp_path / "leaves.py").write_text("import sys; sys.exit(0)")
    (tmp_path / "lazy.py").write_text("def __getattr__(name): raise ImportError('no f')")
    (tmp_path / "model.zip").write_bytes(b"no zip")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["evaluate", word]) == 2
    assert text in capsys.readouterr().err


def test_a_model_of_stable_baselines3_is_found_with_and_without_its_suffix(tmp_path: Path) -> None:
    (tmp_path / "model.zip").write_bytes(b"no zip")
    for name in ("model", "model.zip"):
        with pytest.raises(errors.InvalidArgument, match=r"model\.zip contains pickled objects"):
            SB3Policy.load(tmp_path / name)
    with pytest.raises(errors.NotFound, match=r"no file '.*nowhere\.zip'"):
        SB3Policy.load(tmp_path / "nowhere")


def test_a_text_as_trust_pickle_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.zip").write_bytes(b"no zip")
    with pytest.raises(errors.InvalidArgument, match="True or False") as info:
        SB3Policy.load(tmp_path / "model.zip", trust_pickle="false")  # type: ignore[arg-type]
    assert info.value.field == "trust_pickle"


def zip_of(data: str, first_byte: int | None = None, method: int | None = None) -> bytes:
    """Makes a zip of the file `data`, optionally with another first byte or compression method."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data", data)
    content = bytearray(file.getvalue())
    if first_byte is not None:
        content[34] = first_byte
    if method is not None:
        content[content.index(b"PK\x01\x02") + 10] = method
    return bytes(content)


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (b"no zip", "BadZipFile"),
        (zip_of("[]"), "AttributeError"),
        (zip_of("null"), "TypeError"),
        (zip_of("[" * 100_000), "RecursionError"),
        (zip_of("{}", first_byte=0xFF), "error: Error -3"),
        (zip_of("{}", method=77), "NotImplementedError"),
    ],
    ids=["no zip", "a list", "null", "nested", "damaged", "an unknown compression"],
)
def test_a_zip_without_a_model_is_refused_before_anything_is_unpickled(
    content: bytes, cause: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model.zip").write_bytes(content)
    assert cli.main(["evaluate", f"{tmp_path}/model.zip", "--trust-pickle"]) == 2
    assert f"model.zip is not a Stable-Baselines3 model ({cause}" in capsys.readouterr().err


# ---- what actions an environment gets ------------------------------------------------------------


# ---- the command's files -------------------------------------------------------------------------


def played(observations: Any, action_mask: Any) -> Any:
    raise AssertionError("a game was played")


@pytest.mark.parametrize(
    ("words", "player"),
    [
        ("--model gpt", "chat"),
        ("--prompt nowhere", "chat"),
        ("--retries 5", "chat"),
        ("--unsafe", "strategy"),
        ("--move-timeout 1", "strategy"),
    ],
)
def test_the_command_refuses_options_of_another_player(
    words: str, player: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["evaluate", "random", "--episodes", "2", *words.split()]) == 2
    assert f"{words.split()[0]} is only for --{player}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        ("--save {}/nowhere/a.json", 1, "{}/nowhere: the folder does not exist; make it first"),
        ("--save {}/file/a.json", 1, "{}/file/a.json: Not a directory"),
        ("--save {}", 1, "{}: Is a directory"),
        ("--save {}/b.json --against random", 1, "{}/b.against.json: Is a directory"),
        ("--record best {}/nowhere/a.json", 1, "{}/nowhere: the folder"),
        ("--record longest {}/a.json", 2, "which is 'longest'"),
        ("--record 20 {}/a.json", 2, "which is 20; expected 0 ... 19"),
        (f"--record {'9' * 5000} {{}}/a.json", 2, "expected 'best'"),
        ("--plot {}/nowhere/a.png", 1, "{}/nowhere: the folder"),
        ("--plot {}/a.unknown", 2, "unknown"),
        ("--plot .", 2, ". is a folder; expected a file"),
        ("--save . --against random", 1, "Is a directory"),
        ("--save {}/a.json --record best {}/a.json", 2, "named for two results"),
    ],
)
def test_the_command_checks_its_files_before_the_first_game(
    words: str, status: int, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if "--plot" in words:
        pytest.importorskip("matplotlib")
    (tmp_path / "file").write_text("kept")
    (tmp_path / "b.against.json").mkdir()
    before = sorted(tmp_path.iterdir())
    command = ["evaluate", "test_evaluate:played", "--episodes", "20", *words.split()]
    assert cli.main([word.replace("{}", str(tmp_path)) for word in command]) == status
    message = capsys.readouterr().err
    assert text.replace("{}", str(tmp_path)) in message
    assert "a game was played" not in message
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "file").read_text() == "kept"


def test_the_command_looks_for_matplotlib_before_the_first_game(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    command = ["evaluate", "test_evaluate:played", "--plot", f"{tmp_path}/a.png"]
    assert cli.main(command) == 1
    assert "pip install 'twofold[plot]'" in capsys.readouterr().err


def test_a_file_that_can_not_be_written_costs_neither_the_report_nor_the_other_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "best.json"
    command = ["evaluate", "random", "--episodes", "20", "--save", "/dev/full"]
    command += ["--record", "best", str(file)]
    assert cli.main(command) == 1
    out, err = capsys.readouterr()
    assert out.startswith("random on twofold/Game2048-v0: 20 games")
    assert err == "twofold evaluate: /dev/full: No space left on device\n"
    assert file.read_text().startswith("{")
    assert cli.main([*command, "--json"]) == 1
    report, error = map(json.loads, capsys.readouterr().out.splitlines())
    assert report["episodes"] == 20
    assert "/dev/full" in error["error"]["message"]


def test_the_first_policy_is_reported_and_saved_where_the_second_one_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.json"
    command = ["evaluate", "random", "--episodes", "20", "--against", "test_evaluate:played"]
    assert cli.main([*command, "--save", str(file)]) == 1
    out, err = capsys.readouterr()
    assert out.startswith("random on twofold/Game2048-v0: 20 games")
    assert "a game was played" in err
    assert list(tmp_path.iterdir()) == [file]
    assert twofold.Evaluation.from_json(file.read_text()).episodes == 20


class GivesUp:
    """Takes the first legal actions, and raises an error in its 40th call."""

    def __init__(self, error: BaseException) -> None:
        self.error, self.calls = error, 0

    def __call__(self, observations: Any, action_mask: Any) -> Any:
        self.calls += 1
        if self.calls == 40:
            raise self.error
        return action_mask.argmax(axis=1)


def test_the_report_of_one_game_names_one_seed() -> None:
    assert "next" not in str(twofold.evaluate("fixed-order", episodes=1))


@pytest.mark.parametrize("error", [ValueError("no idea"), KeyboardInterrupt()])
def test_an_exception_contains_the_games_that_have_finished(error: BaseException) -> None:
    given: dict[str, Any] = {"episodes": 50, "num_envs": 4, "size": 2, "record": True}
    whole = twofold.evaluate("fixed-order", **given)
    with pytest.raises((errors.PolicyError, KeyboardInterrupt)) as info:
        twofold.evaluate(GivesUp(error), **given)
    part = vars(info.value)["evaluation"]
    assert 0 < part.episodes < 50
    assert part.card["ended early"].startswith(f"{part.episodes} of 50 games finished; long games")
    chosen = np.isin(whole.seeds, part.seeds)
    for name in ("seeds", "scores", "moves", "lengths", "max_exponents"):
        np.testing.assert_array_equal(getattr(part, name), getattr(whole, name)[chosen])
    assert part.log is None
    assert "2^63 and later ones" in str(part)
    again = twofold.Evaluation.from_json(part.to_json(games=True))
    np.testing.assert_array_equal(again.seeds, part.seeds)


def test_an_evaluation_without_a_finished_game_leaves_none() -> None:
    with pytest.raises(errors.PolicyError) as info:
        twofold.evaluate(GivesUp(ValueError()), episodes=50, num_envs=4)
    assert not hasattr(info.value, "evaluation")


def test_a_long_evaluation_reports_its_seconds_without_an_exponent() -> None:
    assert "; 3,721 s, " in str(dataclasses.replace(by_hand(), seconds=3721.4))


gives_up, is_interrupted = GivesUp(ValueError("no idea")), GivesUp(KeyboardInterrupt())


@pytest.mark.parametrize(("policy", "status"), [("gives_up", 1), ("is_interrupted", 130)])
@pytest.mark.parametrize("is_second", [False, True])
def test_finished_games_are_reported_and_saved_where_a_policy_fails(
    policy: str, status: int, is_second: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gives_up.calls = is_interrupted.calls = 0
    name = f"test_evaluate:{policy}"
    policies = ["random", "--against", name] if is_second else [name]
    command = ["evaluate", *policies, "--episodes", "50", "--num-envs", "4", "--size", "2"]
    command += ["--save", str(tmp_path / "a.json"), "--record", "best", str(tmp_path / "best.json")]
    assert cli.main([*command, "--json"]) == status
    *reports, failure = map(json.loads, capsys.readouterr().out.splitlines())
    assert [report["policy"] for report in reports] == ["random"] * is_second + [name]
    assert 0 < reports[-1]["episodes"] < 50
    assert "evaluation" not in failure["error"]
    saved = tmp_path / ("a.against.json" if is_second else "a.json")
    evaluation = twofold.Evaluation.from_json(saved.read_text())
    assert evaluation.summary["episodes"] == reports[-1]["episodes"]
    assert (tmp_path / "best.json").exists() == is_second


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("--against optimal", "optimal plays only 2048; in other games, pass a function, random"),
        ("--against greedy", "and in Concentration also perfect-memory or last-k-memory:4"),
        ("--against fixed-order", "pass max_episode_steps"),
        ("--regret", "twofold.ceilings computes the expected results of optimal play"),
        ("--against random --regret", "regret requires 2048 on a board with at most nine cells"),
    ],
)
def test_the_command_checks_its_second_policy_and_regret_before_the_first_game(
    words: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["evaluate", "test_evaluate:played", "--env", CONCENTRATION, *words.split()]
    assert cli.main(command) == 2
    out, err = capsys.readouterr()
    assert not out
    assert text in err


def test_the_command_checks_the_size_of_the_second_policys_board_before_the_first_game(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = ["evaluate", "test_evaluate:played", "--against", "optimal", "--episodes", "20"]
    assert cli.main(command) == 2
    out, err = capsys.readouterr()
    assert not out
    assert "optimal play is available for at most 9 cells" in err


def test_actions_have_the_dtype_of_the_action_space() -> None:
    """MountainCar subtracts 1 from its action, so an unsigned 0 would push to the right."""
    envs = gym.vector.SyncVectorEnv([lambda: gym.make("MountainCar-v0")] * 2)
    result = twofold.evaluate(lambda boards, _: np.zeros(len(boards), int), env=envs, episodes=3)
    assert result.scores.tolist() == [-200.0] * 3
    envs.close()


class Picky(gym.Env[Any, Any]):
    """An environment with one legal action of many in each step. Scores are multiples of 0.5."""

    observation_space = gym.spaces.Discrete(600)
    action_space = gym.spaces.Discrete(500)

    def __init__(self, start: int = 0) -> None:
        self.action_space = gym.spaces.Discrete(500, start=start)

    def _infos(self) -> dict[str, Any]:
        mask = np.zeros(500, np.int8)
        mask[300 + self._step] = 1
        return {"action_mask": mask, "score": self._step / 2}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._step, self._last = 0, 3 + int(self.np_random.integers(5))
        return 0, self._infos()

    def step(self, action: Any) -> Any:
        assert action == 300 + self._step, f"illegal action {action}"
        self._step += 1
        return self._step, 1.0, self._step == self._last, False, self._infos()


def test_lanes_that_wait_get_legal_actions_too_and_scores_keep_their_halves() -> None:
    envs = gym.vector.SyncVectorEnv([Picky] * 3)
    result = twofold.evaluate(lambda _, mask: mask.argmax(axis=1), env=envs, episodes=4)
    np.testing.assert_array_equal(result.scores, result.lengths / 2)
    envs.close()


def test_environments_that_can_not_be_evaluated_say_why() -> None:
    envs: Any = gym.vector.SyncVectorEnv([lambda: Picky(start=1)])
    with pytest.raises(errors.InvalidArgument, match="begin at 1"):
        twofold.evaluate(lambda _, mask: mask.argmax(axis=1), env=envs, episodes=1)
    envs.close()
    envs = gym.vector.AsyncVectorEnv([lambda: gym.make("CartPole-v1")], shared_memory=False)
    with pytest.raises(errors.InvalidArgument, match="shared_memory"):
        twofold.evaluate(lambda boards, _: np.zeros(len(boards), int), env=envs, episodes=1)
    envs.close()
