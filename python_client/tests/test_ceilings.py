"""Concentration's ceilings, compared with exact fractions, known formulas and played games."""

import gc
import math
import weakref
from fractions import Fraction
from pathlib import Path
from typing import Any

import ceilings as printed
import numpy as np
import pytest
import tables
from exact_concentration import Rewards, best_return, fewest_turns

import twofold
from twofold import ConcentrationVectorEnv, ceilings, errors
from twofold.ceilings import ceiling, turns
from twofold.ceilings.memory import Numbering
from twofold.ceilings.solution import solve
from twofold.ceilings.turns import StepRewards, count_states, explore
from twofold.games.concentration import Concentration
from twofold.policies import LastKMemory, PerfectMemory

ID = "twofold/Concentration-v0"
PRESETS: tuple[Any, ...] = ("playground", "popgym-easy", "popgym-medium", "popgym-hard")

# ---- exact mathematics ---------------------------------------------------------------------------

POPGYM: Rewards = (Fraction(0), Fraction(1, 3), Fraction(1, 3), Fraction(-1, 6))
EVERYTHING: Rewards = (Fraction(-1, 8), Fraction(7, 8), Fraction(3), Fraction(-5, 8))
DECLARED: dict[Rewards, Any] = {
    POPGYM: {"match": 1 / 3, "mismatch": -1 / 6, "face_up_touch": -1},
    EVERYTHING: {"match": 1, "cleared": 2, "mismatch": -0.5, "survival": -0.125},
}


@pytest.mark.parametrize("memory", [0, 1, 2, 3, 4, 5, None])
@pytest.mark.parametrize(
    ("symbols", "copies", "steps", "rewards"),
    [
        (3, 2, 12, POPGYM),
        (4, 2, 9, EVERYTHING),
        (2, 4, 14, EVERYTHING),
        (1, 4, 3, EVERYTHING),
        (2, 6, 11, POPGYM),
    ],
)
def test_the_ceiling_is_the_best_of_all_strategies(
    symbols: int, copies: int, steps: int, memory: int | None, rewards: Rewards
) -> None:
    cards = symbols * copies
    found = ceilings.concentration(
        memory=memory,
        size=(1, cards),
        symbols=symbols,
        max_episode_steps=steps,
        reward=DECLARED[rewards],
    )
    most = cards if memory is None else memory
    exact = best_return((copies,) * symbols, (), most, steps, rewards)
    assert found.mean_return == pytest.approx(float(exact), abs=1e-13)


@pytest.mark.parametrize("pairs", [2, 3, 4, 8])
def test_remembering_all_cards_takes_the_fewest_turns(pairs: int) -> None:
    found = ceilings.concentration(size=(2, pairs))
    assert found.mean_turns == pytest.approx(float(fewest_turns(0, 0, 2 * pairs)), rel=1e-12)
    assert found.mean_length == 2 * found.mean_turns
    assert found.mean_return == pytest.approx(pairs - 0.1 * (found.mean_turns - pairs), rel=1e-12)
    assert found.cleared == pytest.approx(1, rel=1e-12)


def test_26_pairs_take_the_known_number_of_turns() -> None:
    found = ceilings.concentration(size=(4, 13), peeks=0)
    assert round(found.mean_turns, 4) == 41.4435


@pytest.mark.parametrize("memory", [0, 1, 100, None])
def test_with_one_symbol_every_turn_finds_a_pair(memory: int | None) -> None:
    found = ceilings.concentration(memory=memory, size=(8, 16), symbols=1)
    assert (found.mean_return, found.mean_turns, found.cleared) == pytest.approx((64, 64, 1))


@pytest.mark.parametrize("pairs", [1, 2, 5, 8])
def test_without_a_memory_the_turns_are_the_square_of_the_pairs(pairs: int) -> None:
    found = ceilings.concentration(memory=0, size=(2, pairs))
    assert found.mean_turns == pytest.approx(pairs**2, rel=1e-11)


@pytest.mark.parametrize("preset", ["playground", "popgym-easy"])
def test_more_memory_never_lowers_the_ceiling(preset: Any) -> None:
    memories = [0, 1, 2, 3, 4] + [None] * (preset == "playground")
    returns = [ceilings.concentration(memory=k, preset=preset).mean_return for k in memories]
    assert returns == sorted(returns)
    assert len(set(returns)) == len(returns)


def test_a_memory_for_all_cards_equals_an_unlimited_memory() -> None:
    some: Any = {"size": (2, 4), "symbols": 2, "max_episode_steps": 14}
    unlimited = ceilings.concentration(memory=None, **some)
    assert ceilings.concentration(memory=8, **some) == unlimited
    assert ceilings.concentration(memory=100, **some) == unlimited
    assert ceilings.concentration(memory=7, **some).mean_return == pytest.approx(
        unlimited.mean_return, abs=1e-13
    )


def test_a_limit_that_never_binds_changes_nothing() -> None:
    limited = ceilings.concentration(memory=1, size=(2, 3), max_episode_steps=400)
    unlimited = ceilings.concentration(memory=1, size=(2, 3))
    assert limited.mean_return == pytest.approx(unlimited.mean_return, rel=1e-12)
    assert limited.mean_length == pytest.approx(unlimited.mean_length, rel=1e-12)


@pytest.mark.parametrize(
    "reward",
    [
        {"match": 1, "mismatch": -1e-9},
        {"match": 1e-9, "mismatch": -1e-9, "scale": 1e-9},
        {"match": 1e-9, "mismatch": -1e9, "scale": 1e9},
    ],
    ids=str,
)
def test_the_size_of_the_penalty_does_not_change_the_best_play(reward: Any) -> None:
    found = ceilings.concentration(size=2, reward=reward)
    assert found.cleared == pytest.approx(1, rel=1e-12)
    assert found.mean_turns == pytest.approx(float(fewest_turns(0, 0, 4)), rel=1e-12)


def test_turns_without_a_cost_need_a_step_limit() -> None:
    with pytest.raises(errors.InvalidArgument, match="a turn without a pair costs 0, and"):
        ceilings.concentration(size=2, reward={"mismatch": 0})


@pytest.mark.parametrize(
    ("reward", "plain"),
    [
        (
            {"match": 4, "mismatch": -9, "scale": 0.5, "clip": (-0.5, None)},
            {"match": 2, "mismatch": -0.5},
        ),
        (
            {"mismatch": -0.5, "clip": (None, -0.25)},
            {"survival": -0.25, "mismatch": -0.25, "cleared": -0.25},
        ),
        ([("match", 1.5), ("mismatch", -0.5), "match"], {"match": 2.5, "mismatch": -0.5}),
    ],
)
def test_scale_clip_and_repeated_terms_apply_as_in_the_environment(reward: Any, plain: Any) -> None:
    some: Any = {"memory": 2, "size": (2, 3), "max_episode_steps": 16}
    assert ceilings.concentration(reward=reward, **some) == ceilings.concentration(
        reward=plain, **some
    )


@pytest.mark.parametrize("memory", [0, 1, 2, 3, 4, 5, 8, None])
@pytest.mark.parametrize(("symbols", "copies"), [(1, 2), (5, 2), (2, 6), (3, 4)])
def test_no_more_states_exist_than_are_counted(
    symbols: int, copies: int, memory: int | None
) -> None:
    game = explore(symbols, copies, memory)
    assert len(game.begins) <= count_states(symbols, copies, memory)
    assert len(np.unique(game.begins.rows, axis=0)) == len(game.begins)


@pytest.mark.parametrize(("memory", "steps"), [(3, None), (None, 41)])
def test_a_game_solved_in_many_parts_has_the_same_ceiling(
    monkeypatch: pytest.MonkeyPatch, memory: int | None, steps: int | None
) -> None:
    rewards = StepRewards(first=0, match=1, last_match=1, mismatch=-0.1)
    whole = explore(5, 4, memory)
    expected = solve(whole, rewards, steps).expected
    monkeypatch.setattr(turns, "_BATCH", 40)
    parts = explore(5, 4, memory)
    assert (len(parts.begins), len(parts.opens)) == (len(whole.begins), len(whole.opens))
    assert min(len(parts.begins), len(parts.opens)) > 5 * 40
    assert solve(parts, rewards, steps).expected == pytest.approx(expected, rel=1e-13)


def test_a_peek_never_pays_for_a_memory_of_all_cards_on_the_playground() -> None:
    # A peek costs as much as five turns without a pair. After the start, at most one turn without a
    # pair comes before the next of these states.
    in_vain = {
        (k, p, u): fewest_turns(k, p, u) - p - (k + u) // 2
        for k in range(9)
        for p in range(9)
        for u in range(k, 17 - k - 2 * p, 2)
    }
    start = in_vain.pop((0, 0, 16))
    assert 4 < start < 5
    assert max(in_vain.values()) + 1 < 5


@pytest.mark.parametrize("memory", ["0", "1", "2", pytest.param("4", marks=pytest.mark.long)])
@pytest.mark.parametrize("preset", PRESETS)
def test_the_page_has_the_printed_table(preset: Any, memory: str) -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "reference" / "results.md"
    found = printed.row(preset, memory)
    assert found is not None
    assert tables.ceilings([found]).splitlines()[-1] in page.read_text().splitlines()


# ---- arguments -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("memory", {"memory": -1}),
        ("memory", {"memory": 1.5}),
        ("max_episode_steps", {"memory": 1, "size": (1, 4), "max_episode_steps": 2**62}),
        ("memory", {"memory": 9, "preset": "popgym-hard"}),
        ("memory", {"memory": 103, "preset": "popgym-medium"}),
        ("preset", {"preset": "popgym"}),
        ("symbols", {"symbols": 3}),
        ("reward", {"reward": {"match": 1}}),
        ("reward", {"reward": {"match": 1, "mismatch": -0.1, "survival": 0.1}}),
        ("reward", {"size": 2, "memory": 2, "reward": {"match": 1, "mismatch": -1e-16}}),
        ("reward", {"size": 2, "memory": 1, "reward": {"match": 1e9, "mismatch": -1e-4}}),
    ],
    ids=str,
)
def test_arguments_without_a_ceiling_are_refused_by_name(field: str, arguments: Any) -> None:
    with pytest.raises(errors.InvalidArgument) as caught:
        ceilings.concentration(**arguments)
    assert caught.value.field == field


@pytest.mark.parametrize("k", [-1, 1.5, 9])
def test_the_policys_memory_is_refused_by_its_own_name(k: Any) -> None:
    envs = ConcentrationVectorEnv(1, preset="popgym-hard", endpoint="embedded")
    with pytest.raises(errors.InvalidArgument, match=f"^k is {k}") as caught:
        LastKMemory(envs, k)
    envs.close()
    assert caught.value.field == "k"


@pytest.mark.parametrize("name", ["symbol", "num_envs", "obs"])
def test_an_argument_that_is_not_the_games_is_refused(name: str) -> None:
    arguments: Any = {name: 2}
    with pytest.raises(TypeError, match=f"concentration got an unexpected .* '{name}'; .* symbols"):
        ceilings.concentration(size=(2, 4), **arguments)


@pytest.mark.parametrize(
    "reward",
    [
        {"merge_score": 1},
        {"mismatch": {"weight": -1, "gamma": 0.9}},
        {},
        {"terms": {"match": 1}, "clip": (1, -1)},
    ],
    ids=str,
)
def test_rewards_that_the_environment_refuses_have_no_ceiling(reward: Any) -> None:
    arguments: Any = {"size": (2, 2), "max_episode_steps": 10, "reward": reward}
    with pytest.raises(errors.InvalidArgument) as expected:
        twofold.ConcentrationVectorEnv(1, endpoint="embedded", **arguments)
    with pytest.raises(errors.InvalidArgument) as caught:
        ceilings.concentration(**arguments)
    assert caught.value.field == expected.value.field


# ---- games on the server -------------------------------------------------------------------------


def assert_attained(memory: int | None, **arguments: Any) -> twofold.Evaluation:
    """Checks that the mean return and length of 1000 games equal the ceiling's."""
    ceiling = ceilings.concentration(memory=memory, **arguments)
    played = twofold.evaluate(
        f"last-k-memory:{'all' if memory is None else memory}",
        env=ID,
        episodes=1000,
        num_envs=250,
        endpoint="embedded",
        **arguments,
    )
    for sample, mean in (
        (played.scores, ceiling.mean_return),
        (played.lengths, ceiling.mean_length),
    ):
        error = sample.std(ddof=1) / math.sqrt(len(sample))
        assert abs(sample.mean() - mean) < 3 * error + 1e-6
    return played


@pytest.mark.parametrize("memory", [0, 2, None])
def test_the_policy_attains_the_ceiling_of_the_playground(memory: int | None) -> None:
    played = assert_attained(memory)
    assert played.policy == f"last-k-memory:{'all' if memory is None else memory}"


@pytest.mark.parametrize(
    ("preset", "memory"),
    [
        ("popgym-easy", 1),
        ("popgym-easy", None),
        ("popgym-medium", 2),
        ("popgym-hard", 1),
    ],
)
def test_the_policy_attains_the_ceiling_under_popgyms_rules(
    preset: Any, memory: int | None
) -> None:
    assert_attained(memory, preset=preset)


@pytest.mark.parametrize(
    ("memory", "arguments"),
    [
        (3, {"size": (2, 6), "symbols": 3, "matched_cards": "removed", "max_episode_steps": 17}),
        (2, {"preset": "popgym-easy", "max_episode_steps": 71}),
        (None, {"size": (3, 8), "symbols": 6, "max_episode_steps": 41}),
        (5, {"size": (2, 4), "reward": {"match": 1, "cleared": 2, "mismatch": -0.5}}),
        (None, {"size": (2, 3), "max_episode_steps": 6}),
    ],
    ids=str,
)
def test_the_policy_attains_other_ceilings(memory: int | None, arguments: Any) -> None:
    assert_attained(memory, **arguments)


# ---- the policy ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_the_policy_forgets_between_episodes(mode: Any) -> None:
    envs = ConcentrationVectorEnv(128, size=(2, 4), autoreset_mode=mode, endpoint="embedded")
    policy = LastKMemory(envs, k=3)
    observations, infos = envs.reset(seed=3)
    lengths = []
    steps = np.zeros(128, np.int64)
    for _ in range(400):
        actions = policy(observations, infos["action_mask"])
        was_over = steps < 0
        observations, _, terminations, _, infos = envs.step(actions)
        steps = np.where(was_over, 0, steps + 1)
        lengths += steps[terminations].tolist()
        steps[terminations] = -1 if mode == "NextStep" else 0
    envs.close()
    expected = ceilings.concentration(memory=3, size=(2, 4)).mean_length
    assert abs(np.mean(lengths) - expected) < 0.2
    assert len(lengths) > 3_000


def test_the_policy_plays_a_single_environment_and_never_flips_a_card_needlessly() -> None:
    env = twofold.ConcentrationEnv(preset="popgym-hard", obs="dict", endpoint="embedded")
    policy = LastKMemory(env, k=2)
    observation, info = env.reset(seed=0)
    truncated = False
    while not truncated:
        action = policy(observation, info["action_mask"])
        assert isinstance(action, int)
        assert info["action_mask"][action] == 1
        observation, _, _, truncated, info = env.step(action)
    env.close()


def test_the_policys_seed_decides_between_equivalent_cards() -> None:
    envs = ConcentrationVectorEnv(64, endpoint="embedded")
    observations, infos = envs.reset(seed=0)
    first, again, other = (
        LastKMemory(envs, k=2, seed=seed)(observations, infos["action_mask"]) for seed in (1, 1, 2)
    )
    assert (first == again).all()
    assert (first != other).any()
    assert len(set(first)) > 8
    envs.close()


def test_the_policy_refuses_a_game_that_it_has_not_seen_from_the_start() -> None:
    envs = ConcentrationVectorEnv(3, size=(2, 2), endpoint="embedded")
    envs.reset(seed=0, options={"boards": [[[0, 0], [1, 1]]] * 3})
    envs.step([0, 0, 0])
    observations, *_, infos = envs.step([1, 2, 1])
    policy = LastKMemory(envs, k=1)
    policy(observations[:], np.where(infos["pairs"][:, None] > 0, 0, infos["action_mask"]))
    with pytest.raises(errors.InvalidArgument) as caught:
        LastKMemory(envs, k=1)(envs.step([2, 0, 2])[0], infos["action_mask"])
    assert caught.value.field == "observations"
    assert caught.value.lane == 0
    envs.close()


@pytest.mark.parametrize("name", ["last-k-memory:", "last-k-memory:few", "last-k-memory:-1"])
def test_a_name_without_a_number_is_refused(name: str) -> None:
    with pytest.raises(errors.InvalidArgument, match="last-k-memory:4"):
        twofold.evaluate(name, env=ID, episodes=1, endpoint="embedded")


def test_the_policy_refuses_another_game() -> None:
    envs = twofold.Game2048VectorEnv(2, endpoint="embedded")
    for make in (PerfectMemory, lambda envs: LastKMemory(envs, k=2)):
        for wrong in (envs, ID):
            with pytest.raises(errors.InvalidArgument, match="expected a Concentration") as info:
                make(wrong)
            assert info.value.field == "envs"
    envs.close()


def test_only_small_solutions_are_kept_while_unused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    game = Concentration.of(size=(2, 4), max_episode_steps=15)
    small = weakref.ref(ceiling.best_play(game, 2))
    gc.collect()
    assert ceiling.best_play(game, 2) is small()
    monkeypatch.setattr(ceiling, "_KEPT_STATES", 0)
    used = ceiling.best_play(game, 3)
    assert ceiling.best_play(game, 3) is used
    large = weakref.ref(used)
    del used
    gc.collect()
    assert large() is None


def test_a_row_keeps_its_number_and_an_unknown_row_has_none() -> None:
    rows = np.array([[1, 0], [256, 0], [1, 0], [0, 1]], np.uint16)
    states = Numbering(2, np.dtype(np.uint16))
    numbers = states.number(rows)
    assert (states.rows[numbers] == rows).all()
    assert len(states) == 3
    assert states.number(rows[::-1]).tolist() == numbers[::-1].tolist()
    assert states.find(np.array([[0, 1], [0, 0]], np.uint16)).tolist() == [numbers[3], -1]
