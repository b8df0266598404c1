"""Evaluation: all episodes count equally, and bad policies are reported."""

import contextlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from evaluations import CONCENTRATION, FIRST_SEED, Queue, anything, first_legal
from exact_concentration import fewest_turns

import twofold
from twofold import cli, errors
from twofold.evaluation import statistics
from twofold.evaluation.run import join
from twofold.policies import PerfectMemory, PolicyWithMemory
from twofold.policies.baselines import RandomPolicy

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


@pytest.mark.filterwarnings("ignore:.*Using the latest versioned environment")
@pytest.mark.parametrize("env", ["twofold:twofold/Game2048-v0", "twofold/Game2048"])
def test_an_id_with_a_module_or_without_a_version_plays_the_same_games(env: str) -> None:
    plain = twofold.evaluate("random", episodes=6)
    named = twofold.evaluate("random", episodes=6, env=env)
    np.testing.assert_array_equal(named.scores, plain.scores)


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


# ---- random play ---------------------------------------------------------------------------------


def test_random_play_on_2x2_agrees_with_the_exact_solution() -> None:
    result = twofold.evaluate("random", episodes=4000, size=2, endpoint="embedded")
    score, moves = result.summary["score"], result.summary["moves"]
    assert abs(score["mean"] - 19.65654018) < 4 * score["standard_error"]
    assert abs(moves["mean"] - 5.60072300) < 4 * moves["standard_error"]
    low, high = result.summary["reached"][16]["interval"]
    assert low - 0.003 < 0.121752664444 < high + 0.003
    assert result.card["size"] == "2 x 2"


@pytest.mark.parametrize("policy", ["random", twofold.policies.Random()], ids=["here", "served"])
def test_random_play_on_4x4_agrees_with_twenty_million_games(policy: Any) -> None:
    result = twofold.evaluate(policy, episodes=4_000, endpoint="embedded")
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
    policy: Any, dialect: str | None, size: Any
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


def test_a_policy_in_the_server_needs_a_server() -> None:
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


class OnlyTheSecond(Queue):
    """A queue that refuses the first action, also on boards that nobody plays."""

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        observations, _ = super().reset(seed=seed, options=options)
        return observations, self._masks()

    def step(self, actions: Any) -> Any:
        assert (actions == 1).all()
        *results, _ = super().step(actions)
        return *results, self._masks()

    def _masks(self) -> dict[str, Any]:
        return {"action_mask": np.tile(np.array([0, 1], np.int8), (self.num_envs, 1))}


def test_boards_out_of_play_get_a_legal_action() -> None:
    for policy in (SeesMasks(), first_legal):
        result = twofold.evaluate(policy, env=OnlyTheSecond(12), episodes=8)
        np.testing.assert_array_equal(result.scores, result.lengths)


def test_a_policy_may_change_its_arguments() -> None:
    class Changes(SeesMasks):
        def reset(self, lanes: Any) -> None:
            lanes[:] = True

    result = twofold.evaluate(Changes(), env=Queue(12), episodes=8)
    expected = twofold.evaluate(anything, env=Queue(8), episodes=8)
    np.testing.assert_array_equal(result.scores, expected.scores)


def test_the_seconds_of_a_policy_include_its_reset() -> None:
    class Slow(SeesMasks):
        def reset(self, lanes: Any) -> None:
            time.sleep(0.05)

    result = twofold.evaluate(Slow(), env=Queue(2), episodes=2)
    assert 0.05 <= result.policy_seconds <= result.seconds


def test_a_policy_whose_reset_raises_is_reported() -> None:
    class Bad(Counting):
        def reset(self, lanes: Any) -> None:
            raise KeyError("lost")

    with pytest.raises(
        errors.PolicyError, match=r"call 0: reset raised KeyError: 'lost' \(.*in re"
    ):
        twofold.evaluate(Bad(), env=Queue(2), episodes=2)

    class BadLater(SeesMasks):
        def reset(self, lanes: Any) -> None:
            if self.playing:
                raise ValueError("lost")

    # The number of boards is not to blame, because the first reset was successful.
    with pytest.raises(
        errors.PolicyError, match=r"call 1: reset raised ValueError: lost \(.*in reset\)$"
    ):
        twofold.evaluate(BadLater(), env=Queue(2), episodes=9)


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


# ---- bad policies and arguments ------------------------------------------------------------------


def raises(observations: Any, action_mask: Any) -> Any:
    return observations[0, 99]


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (raises, r"call 0: raised IndexError.*test_evaluate\.py:\d+ in raises"),
        (lambda o, m: np.zeros((len(o), 4), int), r"int64 of shape \(8, 4\); expected .* \(8,\)"),
        (lambda o, m: m.argmax(axis=1)[:-1], r"shape \(7,\); expected integers of shape \(8,\)$"),
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
    def slow(observations: Any, action_mask: Any) -> Any:
        time.sleep(0.05)
        return np.zeros(len(observations), int)

    with pytest.raises(errors.PolicyError, match=r"'slow', call 0: took [\d.]+ s for 4 boards"):
        twofold.evaluate(slow, env=Queue(4), episodes=4, policy_timeout=0.01)


class Carded:
    def __init__(self, card: dict[str, Any]) -> None:
        self.card = card

    def __call__(self, observations: Any, action_mask: Any) -> Any:
        return action_mask.argmax(axis=1)


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
        ({"policy": Carded({"depth": 3})}, "policy"),
        ({"policy": Carded({"threads": "two"})}, "card['threads']"),
        ({"env": 3}, "env"),
        ({"num_envs": 3}, "num_envs"),
        ({"policy_timeout": 0}, "policy_timeout"),
        ({"name": 5}, "name"),
        ({"record": "no", "env": "twofold/Game2048-v0"}, "record"),
        ({"regret": 1, "env": "twofold/Game2048-v0", "size": 3}, "regret"),
        ({"progress": 5}, "progress"),
        ({"executor": 5}, "executor"),
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


# ---- evaluations that end early ------------------------------------------------------------------


class GivesUp:
    """Takes the first legal actions, and raises an error in its 40th call."""

    def __init__(self, error: BaseException) -> None:
        self.error, self.calls = error, 0

    def __call__(self, observations: Any, action_mask: Any) -> Any:
        self.calls += 1
        if self.calls == 40:
            raise self.error
        return action_mask.argmax(axis=1)


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
