"""Tests that the vector environment works as Gymnasium and its users expect."""

import copy
import warnings
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from gymnasium.wrappers.vector import (
    ClipReward,
    FlattenObservation,
    NormalizeObservation,
    RescaleObservation,
)
from reference import Game
from servers import Server

import twofold
from twofold import errors

ID = "twofold/Game2048-v0"
INFOS = {"action_mask", "score", "max_exponent", "episode_length", "moves", "goal_reached"}

# The client handles replies in the same way on every carrier.
in_this_process = pytest.mark.parametrize("endpoint", ["embedded"], indirect=True)


@pytest.fixture
def envs(endpoint: str) -> Iterator[twofold.Game2048VectorEnv]:
    envs = twofold.Game2048VectorEnv(6, endpoint=endpoint)
    yield envs
    envs.close()


def actions_from(rng: np.random.Generator, mask: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns a random legal action for each board, or any action if none is legal."""
    actions: np.ndarray[Any, Any] = np.argmax(rng.random(mask.shape) * (mask + 1e-9), axis=1)
    return actions


def test_make_vec_makes_the_native_environment() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        envs = gym.make_vec("twofold:twofold/Game2048-v0", num_envs=3, size=(3, 5))
    assert isinstance(envs, twofold.Game2048VectorEnv)
    assert envs.num_envs == 3
    assert envs.spec is not None
    assert envs.spec.id == ID
    assert envs.metadata["autoreset_mode"] is envs.autoreset_mode is AutoresetMode.NEXT_STEP
    assert envs.single_observation_space == gym.spaces.Box(0, 31, (3, 5), np.uint8)
    assert envs.single_action_space == gym.spaces.Discrete(4)
    assert envs.observation_space == batch_space(envs.single_observation_space, 3)
    assert envs.action_space == gym.spaces.MultiDiscrete([4, 4, 4])
    envs.close()


def test_a_step_returns_arrays_of_the_documented_dtypes(
    envs: twofold.Game2048VectorEnv,
) -> None:
    infos: Any
    observations, infos = envs.reset(seed=0)
    assert observations in envs.observation_space
    assert infos.keys() == INFOS | {f"_{name}" for name in INFOS}
    observations, rewards, terminations, truncations, infos = envs.step(np.zeros(6, np.int64))
    assert observations in envs.observation_space
    assert infos.keys() == INFOS | {f"_{name}" for name in INFOS}
    dtypes = {
        "action_mask": np.int8,
        "score": np.int32,
        "max_exponent": np.uint8,
        "episode_length": np.int32,
        "moves": np.int32,
        "goal_reached": np.bool_,
    }
    assert {name: infos[name].dtype for name in INFOS} == dtypes
    assert infos["action_mask"].shape == (6, 4)
    assert rewards.dtype == np.float32
    assert terminations.dtype == truncations.dtype == np.bool_
    for array in (rewards, terminations, truncations, *(infos[f"_{name}"] for name in INFOS)):
        assert array.shape == (6,)
    assert all(infos[f"_{name}"].all() for name in INFOS)


def test_arrays_are_fresh_aligned_and_writable(envs: twofold.Game2048VectorEnv) -> None:
    def arrays(result: tuple[Any, ...]) -> list[np.ndarray[Any, Any]]:
        *plain, infos = result
        return [*plain, *infos.values()]

    results = [arrays(envs.reset(seed=0))]
    results += [arrays(envs.step([0, 1, 2, 3, 0, 1])) for _ in range(3)]
    results += [arrays((*envs.afterstates(), {}))]
    before = copy.deepcopy(results)
    envs.step([1, 2, 3, 0, 1, 2])
    for result, kept in zip(results, before, strict=True):
        for array, same in zip(result, kept, strict=True):
            assert array.flags.aligned
            assert array.flags.writeable
            np.testing.assert_array_equal(array, same)
    flat = [array for result in results for array in result]
    for index, array in enumerate(flat):
        assert not any(np.shares_memory(array, other) for other in flat[index + 1 :])


def test_a_step_agrees_with_the_reference(envs: twofold.Game2048VectorEnv) -> None:
    games = [Game(40 + lane) for lane in range(6)]
    rng = np.random.default_rng(0)
    observations, infos = envs.reset(seed=40)
    for _ in range(200):
        np.testing.assert_array_equal(observations.reshape(6, 16), [g.board for g in games])
        np.testing.assert_array_equal(infos["score"], [g.score for g in games])
        np.testing.assert_array_equal(infos["action_mask"], [g.mask() for g in games])
        actions = actions_from(rng, infos["action_mask"])
        observations, rewards, terminations, truncations, infos = envs.step(actions)
        expected = [game.step(int(action)) for game, action in zip(games, actions, strict=True)]
        np.testing.assert_array_equal(rewards, expected)
        np.testing.assert_array_equal(terminations, [g.terminated for g in games])
        assert not truncations.any()


@in_this_process
def test_boards_can_be_given(envs: twofold.Game2048VectorEnv) -> None:
    boards = np.zeros((6, 4, 4), np.int64)
    boards[:, 0, 0] = np.arange(6) + 1
    options = {"boards": boards.copy()}
    observations, infos = envs.reset(seed=0, options=options)
    np.testing.assert_array_equal(observations, boards)
    np.testing.assert_array_equal(options["boards"], boards)
    assert infos["max_exponent"].tolist() == [1, 2, 3, 4, 5, 6]
    mask = np.array([False] * 5 + [True])
    boards[:5] = 99  # ignored outside the mask
    boards[5, 0, 0] = 17
    observations, _ = envs.reset(options={"boards": boards, "reset_mask": mask})
    assert observations.max(axis=(1, 2)).tolist() == [1, 2, 3, 4, 5, 17]


@pytest.mark.parametrize(
    ("field", "lane", "options"),
    [
        ("options", None, {"mask": 1}),
        ("options", None, {1: 2}),
        ("options", None, "abc"),
        ("options", None, []),
        ("reset_mask", None, {"reset_mask": [True] * 6}),
        ("reset_mask", None, {"reset_mask": np.ones(6, np.int8)}),
        ("reset_mask", None, {"reset_mask": np.ones(5, np.bool_)}),
        ("reset_mask", None, {"reset_mask": np.zeros(6, np.bool_)}),
        ("boards", None, {"boards": np.ones((6, 4), np.uint8)}),
        ("boards", None, {"boards": np.ones((6, 4, 4))}),
        ("boards", 2, {"boards": np.array([1, 1, 32, 1, 1, 1]).repeat(16).reshape(6, 4, 4)}),
        ("boards", 1, {"boards": np.array([1, 21, 1, 1, 1, 1]).repeat(16).reshape(6, 4, 4)}),
        ("boards", 0, {"boards": np.zeros((6, 4, 4), np.uint8)}),
    ],
)
def test_a_wrong_option_is_refused(
    envs: twofold.Game2048VectorEnv, field: str, lane: int | None, options: Any
) -> None:
    before, _ = envs.reset(seed=0)
    with pytest.raises(errors.InvalidArgument) as caught:
        envs.reset(seed=1, options=options)
    assert (caught.value.field, caught.value.lane) == (field, lane)
    np.testing.assert_array_equal(envs.observe()[0], before)
    assert envs.np_random_seed == 0


@pytest.mark.parametrize(
    ("actions", "lane", "complaint"),
    [
        ([0, 1, 2, 3, 7, 9], 4, r"actions\[4\] is 7"),
        (np.array([0, 256, 0, 0, 0, 0]), 1, r"actions\[1\] is 256"),
        ([0, 0, 0, 0, 0, -1], 5, r"actions\[5\] is -1"),
        (np.array([0, 0, 2**64 - 1, 0, 0, 0], np.uint64), 2, r"actions\[2\] is 1844"),
        (np.zeros(6), None, "float64"),
        ([False] * 6, None, "bool"),
        (["up"] * 6, None, "dtype"),
        ([2**70] * 6, None, "object"),
        ([0] * 5, None, r"\(5,\)"),
        ([0] * 7, None, r"\(7,\)"),
        ([[0] * 6], None, r"\(1, 6\)"),
        (0, None, r"\(\)"),
    ],
)
def test_wrong_actions_are_refused_and_change_nothing(
    envs: twofold.Game2048VectorEnv, actions: Any, lane: int | None, complaint: str
) -> None:
    before, _ = envs.reset(seed=0)
    with pytest.raises(errors.InvalidArgument, match=complaint) as caught:
        envs.step(actions)
    assert (caught.value.field, caught.value.lane) == ("actions", lane)
    np.testing.assert_array_equal(envs.observe()[0], before)


def test_a_step_before_the_first_reset_names_the_lane(envs: twofold.Game2048VectorEnv) -> None:
    with pytest.raises(errors.FailedPrecondition) as caught:
        envs.step([0] * 6)
    assert caught.value.lane == 0
    mask = np.array([True, True, False, True, True, True])
    with pytest.raises(errors.FailedPrecondition) as caught:
        envs.reset(seed=0, options={"reset_mask": mask})
    assert caught.value.lane == 2
    envs.reset()
    envs.step([0] * 6)


# ---- seeds ---------------------------------------------------------------------------------------


def start(seed: int) -> list[int]:
    return list(Game(seed % 2**64).board)


@pytest.mark.parametrize("seed", [0, 1, 2**63 + 5, 2**64 - 3, np.int64(9), np.uint64(2**64 - 1)])
def test_an_integer_seeds_board_i_with_seed_plus_i(
    envs: twofold.Game2048VectorEnv, seed: int
) -> None:
    observations, _ = envs.reset(seed=seed)
    assert observations.reshape(6, 16).tolist() == [start(int(seed) + i) for i in range(6)]
    assert envs.np_random_seed == seed


@pytest.mark.parametrize("kind", [list, tuple, np.array])
def test_a_list_gives_each_board_its_own_seed(envs: twofold.Game2048VectorEnv, kind: Any) -> None:
    seeds = [9, 0, 5, 5, 2**40, 1]
    observations, _ = envs.reset(seed=kind(seeds))
    assert observations.reshape(6, 16).tolist() == [start(seed) for seed in seeds]
    assert envs.np_random_seed == -1


def test_none_in_a_list_continues_that_boards_stream(envs: twofold.Game2048VectorEnv) -> None:
    envs.reset(seed=0)
    second, _ = envs.reset()
    envs.reset(seed=0)
    observations, _ = envs.reset(seed=[None, 50, None, None, 51, None])
    np.testing.assert_array_equal(observations[[0, 2, 3, 5]], second[[0, 2, 3, 5]])
    assert observations[1].ravel().tolist() == start(50)
    assert observations[4].ravel().tolist() == start(51)


def test_a_board_without_a_seed_gets_one_from_the_system(envs: twofold.Game2048VectorEnv) -> None:
    announced = envs.np_random_seed
    assert announced is not None
    assert 0 <= announced < 2**63
    observations, _ = envs.reset(seed=[7, None, None, None, None, None])
    expected = [start(announced + lane) for lane in range(6)]
    assert observations.reshape(6, 16).tolist() == [start(7), *expected[1:]]


def test_the_first_unseeded_reset_draws_a_seed_once_and_reports_it() -> None:
    seeds = set()
    for _ in range(3):
        envs = twofold.Game2048VectorEnv(6, endpoint="embedded")
        first, _ = envs.reset()
        second, _ = envs.reset()
        seed = envs.np_random_seed
        seeds.add(seed)
        np.testing.assert_array_equal(envs.reset(seed=seed)[0], first)
        np.testing.assert_array_equal(envs.reset()[0], second)
        assert not np.array_equal(first, second)
        envs.close()
    assert len(seeds) == 3


@pytest.mark.parametrize(
    ("seed", "lane"),
    [
        (-1, None),
        (0.0, None),
        (True, None),
        ("0", None),
        ({}, None),
        ([1, 2, 3, 4, 5], None),
        ([1, 2, 3, 4, 5, 6, 7], None),
        ([1, 2, 3, -4, 5, 6], 3),
        ([1, 2.0, 3, 4, 5, 6], 1),
        ([1, 2, True, 4, 5, 6], 2),
        (np.arange(6.0), 0),
        (np.zeros((6, 1), np.int64), 0),
    ],
    ids=str,
)
def test_a_wrong_seed_is_refused(
    envs: twofold.Game2048VectorEnv, seed: Any, lane: int | None
) -> None:
    with pytest.raises(errors.InvalidArgument) as caught:
        envs.reset(seed=seed)
    assert (caught.value.field, caught.value.lane) == ("seed", lane)


# ---- wrappers ------------------------------------------------------------------------------------


def test_other_wrappers_accept_the_environment() -> None:
    def make() -> twofold.Game2048VectorEnv:
        return twofold.Game2048VectorEnv(5, endpoint="embedded")

    for envs in (
        ClipReward(make(), 0, 1),
        FlattenObservation(make()),
        RescaleObservation(make(), np.float32(0), np.float32(1)),
        NormalizeObservation(make()),
    ):
        observations, _ = envs.reset(seed=0)
        assert observations.shape[0] == 5
        envs.step(envs.action_space.sample())
        envs.close()


def test_the_batched_mask_samples_legal_actions(envs: twofold.Game2048VectorEnv) -> None:
    _, infos = envs.reset(seed=0)
    envs.action_space.seed(0)
    for step in range(1, 20):
        masks = tuple(infos["action_mask"])
        *_, infos = envs.step(envs.action_space.sample(mask=masks))
        assert (infos["moves"] == step).all()


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_gymnasiums_own_vector_environments_give_the_same_results(
    server: Server, mode: str
) -> None:
    native = gym.make_vec(ID, num_envs=3, endpoint=server.tcp)
    theirs = gym.make_vec(ID, num_envs=3, endpoint=server.tcp, vectorization_mode=mode)
    rng = np.random.default_rng(0)
    observations, infos = native.reset(seed=11)
    np.testing.assert_array_equal(theirs.reset(seed=11)[0], observations)
    for _ in range(150):
        actions = actions_from(rng, infos["action_mask"])
        observations, rewards, terminations, _, infos = native.step(actions)
        other = theirs.step(actions)
        np.testing.assert_array_equal(other[0], observations)
        np.testing.assert_array_equal(other[1], rewards)
        np.testing.assert_array_equal(other[2], terminations)
        assert {name for name in other[4] if not name.startswith("_")} == INFOS
        for name in INFOS:
            np.testing.assert_array_equal(other[4][name], infos[name])
    native.close()
    theirs.close()


def test_render_gives_one_text_for_each_board() -> None:
    envs = gym.make_vec(ID, num_envs=3, endpoint="embedded", render_mode="ansi", size=(2, 3))
    envs.reset(seed=0)
    texts = envs.render()
    assert isinstance(texts, tuple)
    assert len(texts) == 3
    for text in texts:
        assert isinstance(text, str)
        assert [len(line.split()) for line in text.splitlines()] == [3, 3]
    envs.close()


def test_closing_twice_is_safe_and_use_afterwards_is_an_error(endpoint: str) -> None:
    envs = twofold.Game2048VectorEnv(2, endpoint=endpoint)
    envs.close()
    envs.close()
    assert envs.closed
    for use in (envs.reset, envs.observe, envs.afterstates, lambda: envs.step([0, 0])):
        with pytest.raises(errors.ClosedError):
            use()
