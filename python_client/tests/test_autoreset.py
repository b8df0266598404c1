"""The end of an episode: each mode, step by step, and compared with Gymnasium's environments."""

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers.vector import (
    DictInfoToList,
    NormalizeObservation,
    NormalizeReward,
    RecordEpisodeStatistics,
    TransformReward,
)
from reference import Game

import twofold
from twofold import errors

MODES = list(AutoresetMode)
NUM_ENVS = 6  # as `make` does by default
INFOS = {"action_mask", "score", "max_exponent", "episode_length", "moves", "goal_reached"}
FINAL_KEYS = {"final_obs", "_final_obs", "final_info", "_final_info"}

# Before Gymnasium 1.4, RecordEpisodeStatistics forgets the first step of each later episode, even
# around Gymnasium's own environments.
COUNTS_SAME_STEP = tuple(map(int, gym.__version__.split(".")[:2])) >= (1, 4)
COUNTED_MODES = [one for one in MODES if COUNTS_SAME_STEP or one is not AutoresetMode.SAME_STEP]

Make = Callable[..., twofold.Game2048VectorEnv]


@pytest.fixture
def endpoint() -> str:
    """The service's endpoint: the client handles replies in the same way on every carrier."""
    return "embedded"


def finished(terminations: Any, truncations: Any) -> Any:
    """Returns the mask of the boards whose episode has ended."""
    return np.logical_or(terminations, truncations)


# ---- each mode, step by step ---------------------------------------------------------------------


def test_next_step_ends_an_episode_and_then_starts_another(make: Make) -> None:
    envs = make(1, max_episode_steps=2, autoreset_mode=AutoresetMode.NEXT_STEP)
    game = Game(3, max_episode_steps=2)
    envs.reset(seed=3)
    expected = [  # reward?, truncated, episode_length
        (False, 1),
        (True, 2),
        (False, 0),  # the action was ignored
        (False, 1),
        (True, 2),
        (False, 0),
    ]
    for truncated, length in expected:
        observations, rewards, _, truncations, infos = envs.step([3])
        assert rewards.tolist() == [game.step(3)]
        assert truncations.tolist() == [truncated]
        assert infos["episode_length"].tolist() == [length]
        assert observations[0].ravel().tolist() == list(game.board)
        assert not FINAL_KEYS & infos.keys()


def test_same_step_ends_an_episode_and_starts_another_at_once(make: Make) -> None:
    envs = make(1, max_episode_steps=2, autoreset_mode=AutoresetMode.SAME_STEP)
    game = Game(3, max_episode_steps=2)
    envs.reset(seed=3)
    for _ in range(4):
        envs_before = game.step(3)
        observations, rewards, _, truncations, infos = envs.step([3])
        assert (rewards.tolist(), truncations.tolist()) == ([envs_before], [False])
        assert infos["episode_length"].tolist() == [1]
        assert not FINAL_KEYS & infos.keys(), "no episode has ended"

        reward = game.step(3)
        last = game.board, game.score, game.mask()
        game.start()
        observations, rewards, terminations, truncations, infos = envs.step([3])
        assert (rewards.tolist(), truncations.tolist()) == ([reward], [True])
        assert not terminations.any()
        assert observations[0].ravel().tolist() == list(game.board), "the new episode's first"
        assert infos["score"].tolist() == infos["episode_length"].tolist() == [0]
        assert infos["action_mask"].tolist() == [game.mask()]
        assert infos["_final_obs"].tolist() == infos["_final_info"].tolist() == [True]
        assert infos["final_obs"].dtype == object
        final = infos["final_info"]
        assert infos["final_obs"][0].ravel().tolist() == list(last[0])
        assert infos["final_obs"][0] in envs.single_observation_space
        assert final.keys() == INFOS | {f"_{name}" for name in INFOS}
        assert final["score"].tolist() == [last[1]]
        assert final["action_mask"].tolist() == [last[2]]
        assert final["episode_length"].tolist() == [2]


def test_disabled_ends_an_episode_and_waits(make: Make) -> None:
    envs = make(2, max_episode_steps=2, autoreset_mode=AutoresetMode.DISABLED)
    envs.reset(seed=0)
    envs.step([0, 0])
    observations, *_, truncations, infos = envs.step([1, 1])
    assert truncations.all()
    assert not FINAL_KEYS & infos.keys()
    with pytest.raises(errors.FailedPrecondition) as caught:
        envs.step([0, 0])
    assert (caught.value.field, caught.value.lane) == ("actions", 0)
    after, infos = envs.reset(options={"reset_mask": np.array([True, False])})
    np.testing.assert_array_equal(after[1], observations[1])
    assert infos["episode_length"].tolist() == [0, 2]
    with pytest.raises(errors.FailedPrecondition) as caught:
        envs.step([0, 0])
    assert caught.value.lane == 1
    envs.reset(options={"reset_mask": np.array([False, True])})
    envs.step([0, 0])


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_a_masked_reset_cancels_the_pending_autoreset(make: Make, mode: AutoresetMode) -> None:
    envs = make(2, max_episode_steps=1, autoreset_mode=mode)
    games = [Game(0), Game(1)]
    envs.reset(seed=0)
    envs.step([0, 0])  # both episodes are over
    for game in games:
        game.step(0)
    if mode is AutoresetMode.SAME_STEP:
        for game in games:
            game.start()
    observations, infos = envs.reset(options={"reset_mask": np.array([True, False])})
    games[0].start()
    assert observations.reshape(2, 16).tolist() == [list(game.board) for game in games]
    *_, infos = envs.step([0, 0])
    expected = 0 if mode is AutoresetMode.NEXT_STEP else 1
    assert infos.get("final_info", infos)["episode_length"].tolist() == [1, expected]


def test_same_step_starts_only_the_boards_whose_episode_has_ended(make: Make) -> None:
    envs = make(4, autoreset_mode="same_step", max_episode_steps=3, illegal_action="terminate")
    board = np.zeros((4, 4, 4), np.uint8)
    board[:, 0, 0] = 1
    envs.reset(seed=0, options={"boards": board})
    infos: Any
    # Up is illegal, and ends the episodes of the boards 1 and 3.
    _, _, terminations, truncations, infos = envs.step([1, 0, 2, 0])
    ended = [False, True, False, True]
    assert terminations.tolist() == infos["_final_obs"].tolist() == ended
    assert infos["_final_info"].tolist() == ended
    assert not truncations.any()
    assert [observation is None for observation in infos["final_obs"]] == [True, False, True, False]
    assert infos["episode_length"].tolist() == [1, 0, 1, 0]
    assert all(infos[f"_{name}"].all() for name in INFOS), "all boards have infos"
    final = infos["final_info"]
    for lane in (1, 3):
        np.testing.assert_array_equal(infos["final_obs"][lane], board[lane])
    assert all(final[f"_{name}"].tolist() == ended for name in INFOS)
    assert final["episode_length"].tolist() == [0, 1, 0, 1]
    assert final["action_mask"].tolist() == [[0] * 4] * 4, "no action is legal at the end"
    assert final["max_exponent"].tolist() == [0, 1, 0, 1]
    # The results belong to the caller: the next step changes none of them.
    kept = infos["final_obs"][1].copy()
    envs.step([1, 1, 2, 1])
    np.testing.assert_array_equal(infos["final_obs"][1], kept)
    assert final["score"].flags.writeable
    assert infos["final_obs"][1].flags.writeable


def test_infos_of_the_transition_describe_the_ended_episode(make: Make) -> None:
    extras: dict[str, Any] = {
        "reward": {"empty_cells": {"gamma": 0.9}},
        "extra_infos": ["reward_terms", "chance"],
    }
    envs = make(size=2, autoreset_mode="same_step", **extras)
    twin = make(size=2, autoreset_mode="disabled", **extras)
    envs.reset(seed=5)
    twin.reset(seed=5)
    rng = np.random.default_rng(5)
    seen = 0
    infos: Any
    told: Any
    for _ in range(60):
        actions = rng.integers(0, 4, NUM_ENVS)
        _, rewards, terminations, _, infos = envs.step(actions)
        _, expected, _, _, told = twin.step(actions)
        np.testing.assert_array_equal(rewards, expected)
        for name in ("reward_terms", "chance"):
            np.testing.assert_array_equal(infos[f"_{name}"], ~terminations)
            np.testing.assert_array_equal(infos[name][~terminations], told[name][~terminations])
            if terminations.any():
                final = infos["final_info"]
                np.testing.assert_array_equal(final[f"_{name}"], terminations)
                np.testing.assert_array_equal(final[name][terminations], told[name][terminations])
        if terminations.any():
            seen += 1
            twin.reset(options={"reset_mask": terminations})
    assert seen > 5


# ---- beside Gymnasium's own ----------------------------------------------------------------------


def same(mine: Any, theirs: Any, where: Any = slice(None)) -> None:
    """Checks that observations or infos are the same: keys, values and masks."""
    if not isinstance(theirs, dict):
        np.testing.assert_array_equal(mine, theirs)
        return
    assert mine.keys() == theirs.keys()
    for key, value in theirs.items():
        if isinstance(value, dict):
            same(mine[key], value, where)
        elif value.dtype == object:
            assert mine[key].dtype == object
            for one, other in zip(mine[key], value, strict=True):
                assert (one is None) == (other is None)
                same(one, other)
        else:
            np.testing.assert_array_equal(mine[key][where], value[where], err_msg=key)
            assert (mine[key].dtype == np.bool_) == (value.dtype == np.bool_), key


CONFIGS: list[dict[str, Any]] = [
    {"size": 2},
    {"size": 2, "max_episode_steps": 4},
    {"size": (2, 3), "goal": 16, "stop_at_goal": True},
    {"illegal_action": "terminate"},
    {"max_episode_steps": 1},
    {"size": 2, "obs": "dict", "mask_key": "legal"},
    {"dialect": "envpool", "max_episode_steps": 12},
]


def beside(mode: AutoresetMode, config: dict[str, Any]) -> VectorEnv[Any, Any, Any]:
    """Wraps our single environments in Gymnasium's vector environment."""
    return SyncVectorEnv(
        [lambda: twofold.Game2048Env(endpoint="embedded", **config)] * NUM_ENVS,
        autoreset_mode=mode,
    )


def play(
    ours: VectorEnv[Any, Any, Any], theirs: VectorEnv[Any, Any, Any], steps: int
) -> Iterator[tuple[Any, Any]]:
    """Plays the same actions in both environments. With DISABLED, resets the ended boards."""
    rng = np.random.default_rng(0)
    yield ours.reset(seed=20), theirs.reset(seed=20)
    for _ in range(steps):
        actions = rng.integers(0, 4, NUM_ENVS)
        mine, other = ours.step(actions), theirs.step(actions)
        yield mine, other
        ended = finished(mine[2], mine[3])
        if ours.metadata["autoreset_mode"] is AutoresetMode.DISABLED and ended.any():
            options = [{"reset_mask": ended.copy()} for _ in range(2)]
            yield ours.reset(options=options[0]), theirs.reset(options=options[1])


@pytest.mark.parametrize("config", CONFIGS, ids=str)
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_each_mode_behaves_as_in_gymnasium(
    make: Make, mode: AutoresetMode, config: dict[str, Any]
) -> None:
    theirs = beside(mode, config)
    ended = 0
    for mine, other in play(make(autoreset_mode=mode, **config), theirs, 40):
        for one, two in zip(mine[:-1], other[:-1], strict=True):
            same(one, two)
        # After a masked reset theirs has infos of the reset boards only, ours of all boards.
        has_infos = other[-1]["_score"]
        mine[-1].update({key: has_infos for key in mine[-1] if len(mine) == 2 and key[0] == "_"})
        same(mine[-1], other[-1], has_infos)
        ended += 0 if len(mine) == 2 else finished(mine[2], mine[3]).sum()
    assert ended > 10, "the test has seen the end of episodes"
    theirs.close()


WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "TransformReward": lambda envs: TransformReward(envs, lambda rewards: 2 * rewards + 1),
    "NormalizeReward over RecordEpisodeStatistics": lambda envs: NormalizeReward(
        RecordEpisodeStatistics(envs)
    ),
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_wrappers_see_the_same_as_around_gymnasiums_own_environments(
    make: Make, mode: AutoresetMode, wrapper: str
) -> None:
    ours = WRAPPERS[wrapper](make(autoreset_mode=mode, size=2))
    inner = beside(mode, {"size": 2})
    theirs = WRAPPERS[wrapper](inner)
    for mine, other in play(ours, theirs, 60):
        if len(mine) == 2 and mode is AutoresetMode.DISABLED:
            # Gymnasium's own removes the mask from the options before its wrapper sees it.
            for layer in (ours, ours.env):
                if isinstance(layer, RecordEpisodeStatistics):
                    copy_statistics(layer, theirs if layer is ours else theirs.env)
        for one, two in zip(mine[:-1], other[:-1], strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-6)
        for infos in (mine[-1], other[-1]):
            infos.get("episode", {}).pop("t", None)
        if len(mine) > 2:
            same(mine[-1], other[-1])
    theirs.close()


def copy_statistics(ours: Any, theirs: Any) -> None:
    theirs.episode_returns = ours.episode_returns.copy()
    theirs.episode_lengths = ours.episode_lengths.copy()
    theirs.prev_dones = ours.prev_dones.copy()


def test_next_step_under_normalize_observation(make: Make) -> None:
    theirs = beside(AutoresetMode.NEXT_STEP, {"size": 2})
    ours = NormalizeObservation(make(size=2))
    for mine, other in play(ours, NormalizeObservation(theirs), 60):
        np.testing.assert_allclose(mine[0], other[0])
    theirs.close()


# ---- statistics ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", COUNTED_MODES, ids=lambda mode: mode.name)
def test_episode_statistics_match_the_server(make: Make, mode: AutoresetMode) -> None:
    envs = RecordEpisodeStatistics(make(8, size=2, autoreset_mode=mode))
    rng = np.random.default_rng(1)
    _, infos = envs.reset(seed=1)
    ended = 0
    for _ in range(150):
        actions = np.argmax(rng.random((8, 4)) * (infos["action_mask"] + 1e-9), axis=1)
        _, _, terminations, _, infos = envs.step(actions)
        assert ("episode" in infos) == terminations.any()
        if not terminations.any():
            continue
        ended += int(terminations.sum())
        np.testing.assert_array_equal(infos["_episode"], terminations)
        told = infos["final_info"] if mode is AutoresetMode.SAME_STEP else infos
        lanes = np.flatnonzero(terminations)
        np.testing.assert_array_equal(infos["episode"]["r"][lanes], told["score"][lanes])
        np.testing.assert_array_equal(infos["episode"]["l"][lanes], told["episode_length"][lanes])
        if mode is AutoresetMode.DISABLED:
            _, infos = envs.reset(options={"reset_mask": terminations})
    assert envs.episode_count == ended > 50


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_a_masked_reset_keeps_the_other_boards_statistics(make: Make, mode: AutoresetMode) -> None:
    envs = RecordEpisodeStatistics(make(3, autoreset_mode=mode))
    envs.reset(seed=1)
    total = np.sum([envs.step([0, 1, 2])[1] for _ in range(20)], axis=0)
    options = {"reset_mask": np.array([False, True, False])}
    envs.reset(options=options)
    assert envs.episode_lengths.tolist() == [20, 0, 20]
    assert envs.episode_returns.tolist() == [total[0], 0, total[2]]
    *_, infos = envs.step([0, 1, 2])
    np.testing.assert_array_equal(envs.episode_lengths, infos["episode_length"])
    np.testing.assert_array_equal(envs.episode_returns, infos["score"])


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_dict_info_to_list_gives_each_board_its_own_infos(make: Make, mode: AutoresetMode) -> None:
    envs = DictInfoToList(RecordEpisodeStatistics(make(4, size=2, autoreset_mode=mode)))
    rng = np.random.default_rng(2)
    _, infos = envs.reset(seed=2)
    assert [info.keys() for info in infos] == [INFOS] * 4
    seen = 0
    for _ in range(60):
        _, _, terminations, _, infos = envs.step(rng.integers(0, 4, 4))
        for lane, info in enumerate(infos):
            assert info["action_mask"].shape == (4,)
            extra = {"episode"} if terminations[lane] else set()
            if mode is AutoresetMode.SAME_STEP and terminations[lane]:
                extra |= {"final_obs", "final_info"}
                assert info["final_info"].keys() == INFOS
                if COUNTS_SAME_STEP:
                    assert info["final_info"]["score"] == info["episode"]["r"]
                    assert info["final_info"]["episode_length"] == info["episode"]["l"]
                assert info["final_obs"].max() == info["final_info"]["max_exponent"]
                assert info["score"] == 0
                seen += 1
            assert info.keys() == INFOS | extra
        if mode is AutoresetMode.DISABLED and terminations.any():
            envs.reset(options={"reset_mask": terminations})
    assert seen > 5 or mode is not AutoresetMode.SAME_STEP


# ---- curricula and seeds in each mode ------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_given_boards_and_listed_seeds_work_in_each_mode(make: Make, mode: AutoresetMode) -> None:
    envs = make(3, size=2, autoreset_mode=mode)
    boards = np.array([[[3, 3], [1, 0]], [[1, 2], [2, 0]], [[0, 0], [0, 9]]])
    seeds: list[int | None] = [7, 2**64 - 1, 40]
    observations, _ = envs.reset(seed=seeds, options={"boards": boards})
    np.testing.assert_array_equal(observations, boards)
    games = [Game(seed or 0, rows=2, columns=2, start_tiles=0) for seed in seeds]
    for game, board in zip(games, boards, strict=True):
        game.board = tuple(board.ravel().tolist())
    for actions in ([3, 0, 0], [0, 1, 3], [1, 2, 0]):
        rewards = [game.step(action) for game, action in zip(games, actions, strict=True)]
        if any(game.terminated for game in games):
            break
        observations, told, *_ = envs.step(actions)
        assert told.tolist() == rewards
        assert observations.reshape(3, 4).tolist() == [list(game.board) for game in games]


def test_make_vec_accepts_the_mode_and_the_metadata_report_it() -> None:
    for mode in MODES:
        envs = gym.make_vec(
            "twofold/Game2048-v0", num_envs=2, endpoint="embedded", autoreset_mode=mode
        )
        assert envs.metadata["autoreset_mode"] is mode
        envs.close()
