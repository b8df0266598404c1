"""Dialects, and observations that contain the mask.

`make certify` compares the dialects with the packages themselves.
"""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector.utils import batch_space
from reference import Game

import twofold
from twofold import errors


@pytest.mark.parametrize("name", ["jumanji", "envpool"])
def test_a_dialect_is_a_set_of_arguments(name: Any) -> None:
    envs = twofold.Game2048VectorEnv(64, endpoint="embedded", dialect=name)
    alike = twofold.Game2048VectorEnv(64, endpoint="embedded", start_tiles=1)
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(envs.reset(seed=5)[0], alike.reset(seed=5)[0])
    for _ in range(100):
        actions = rng.integers(0, 4, 64)
        for one, other in zip(envs.step(actions)[:4], alike.step(actions)[:4], strict=True):
            np.testing.assert_array_equal(one, other)
    envs.close()
    alike.close()


@pytest.mark.parametrize(
    ("dialect", "field", "value"),
    [
        ("jumanji", "start_tiles", 2),
        ("jumanji", "illegal_action", "terminate"),
        ("jumanji", "four_probability", 0.2),
        ("jumanji", "stop_at_goal", True),
        ("jumanji", "size", (3, 4)),
        ("jumanji", "reward", "score"),
        ("envpool", "size", 5),
        ("pgx", "size", (4, 3)),
        ("pgx", "illegal_action", "noop"),
        ("pgx", "start_tiles", 1),
        ("pgx", "reward", {"merge_score": 1.0}),
        ("envpool", "start_tiles", 2),
    ],
)
def test_an_argument_that_contradicts_a_dialect_is_refused_by_name(
    dialect: str, field: str, value: Any
) -> None:
    arguments: Any = {"endpoint": "embedded", "dialect": dialect, field: value}
    with pytest.raises(errors.InvalidArgument, match=dialect) as caught:
        twofold.Game2048VectorEnv(2, **arguments)
    assert caught.value.field == field


@pytest.mark.parametrize(
    "arguments",
    [
        {"dialect": "jumanji", "start_tiles": 1, "illegal_action": "noop", "size": (5, 5)},
        {"dialect": "envpool", "max_episode_steps": 1000, "goal": 64, "size": [4, 4]},
    ],
)
def test_an_argument_that_agrees_with_a_dialect_is_accepted(arguments: Any) -> None:
    envs = twofold.Game2048VectorEnv(2, endpoint="embedded", **arguments)
    observations, _ = envs.reset(seed=0)
    assert np.count_nonzero(observations) == 2
    envs.close()


def test_pgx_counts_from_the_left_everywhere_and_pays_for_an_illegal_action() -> None:
    order = (3, 0, 1, 2)  # left, up, right, down
    envs = twofold.Game2048VectorEnv(8, endpoint="embedded", dialect="pgx")
    games = [Game(seed, illegal_action="terminate") for seed in range(8)]
    ends = 0
    rng = np.random.default_rng(1)
    _, infos = envs.reset(seed=0)
    for _ in range(200):
        mask = np.array([game.mask() for game in games])[:, order]
        np.testing.assert_array_equal(infos["action_mask"], mask)
        np.testing.assert_array_equal(envs.observe()[1]["action_mask"], mask)
        boards, rewards, legal = envs.afterstates()
        np.testing.assert_array_equal(legal, mask)
        for lane, game in enumerate(games):
            for action in np.flatnonzero(mask[lane]):
                after, reward = game.afterstate(order[action])
                assert boards[lane, action].ravel().tolist() == list(after)
                assert rewards[lane, action] == reward
        actions = rng.integers(0, 4, 8)
        observations, rewards, terminations, _, infos = envs.step(actions)
        for lane, (game, action) in enumerate(zip(games, actions, strict=True)):
            is_new, is_illegal = game.terminated, not game.mask()[order[action]]
            earned = game.step(order[action])
            assert rewards[lane] == (-1 if is_illegal and not is_new else earned)
            assert terminations[lane] == game.terminated
            ends += game.terminated
        np.testing.assert_array_equal(observations.reshape(8, 16), [game.board for game in games])
    assert ends > 8
    envs.close()


# ---- obs="dict" ----------------------------------------------------------------------------------


def test_a_dict_observation_contains_the_mask() -> None:
    envs = twofold.Game2048VectorEnv(5, endpoint="embedded", obs="dict", size=(2, 3))
    plain = twofold.Game2048VectorEnv(5, endpoint="embedded", size=(2, 3))
    board = gym.spaces.Box(0, 31, (2, 3), np.uint8)
    single = gym.spaces.Dict({"observation": board, "action_mask": gym.spaces.MultiBinary(4)})
    assert envs.single_observation_space == single
    assert envs.observation_space == batch_space(single, 5)
    results: list[tuple[Any, ...]] = [(*envs.reset(seed=3), *plain.reset(seed=3))]
    for action in range(4):
        actions = np.full(5, action)
        observations, *_, infos = envs.step(actions)
        expected, *_, expected_infos = plain.step(actions)
        results.append((observations, infos, expected, expected_infos))
    results.append((*envs.observe(), *plain.observe()))
    for observations, infos, expected, expected_infos in results:
        assert observations in envs.observation_space
        assert observations.keys() == {"observation", "action_mask"}
        np.testing.assert_array_equal(observations["observation"], expected)
        np.testing.assert_array_equal(observations["action_mask"], expected_infos["action_mask"])
        np.testing.assert_array_equal(infos["action_mask"], expected_infos["action_mask"])
    envs.close()
    plain.close()


@pytest.mark.parametrize("mode", gym.vector.AutoresetMode)
def test_a_dict_observation_shares_no_memory_with_the_infos(mode: gym.vector.AutoresetMode) -> None:
    envs = twofold.Game2048VectorEnv(
        3, endpoint="embedded", obs="dict", autoreset_mode=mode, max_episode_steps=1
    )
    env = twofold.Game2048Env(endpoint="embedded", obs="dict")
    batches: list[Any] = [envs.reset(seed=0), envs.step([0, 1, 2])[::4], envs.observe()]
    ends = batches[1][1]
    if mode is gym.vector.AutoresetMode.SAME_STEP:
        batches += [(observation, ends["final_info"]) for observation in ends["final_obs"]]
    for observation, infos in [*batches, env.reset(seed=0), env.step(0)[::4], env.observe()]:
        mask, info = observation["action_mask"], infos["action_mask"]
        before = info.copy()
        mask[...] = 1 - mask
        np.testing.assert_array_equal(info, before)
        assert not np.shares_memory(mask, info)
    envs.close()
    env.close()


def test_the_keys_of_a_dict_observation_can_be_chosen() -> None:
    envs = twofold.Game2048VectorEnv(
        2, endpoint="embedded", obs="dict", observation_key="board", mask_key="legal"
    )
    observations, infos = envs.reset(seed=0)
    assert observations.keys() == {"board", "legal"}
    assert observations in envs.observation_space
    assert "action_mask" in infos
    boards = np.ones_like(observations["board"])
    assert (envs.reset(options={"boards": boards})[0]["board"] == 1).all()
    envs.close()


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("mask_key", {"mask_key": "observation"}),
        ("mask_key", {"observation_key": "x", "mask_key": "x"}),
        ("mask_key", {"mask_key": 1}),
        ("observation_key", {"observation_key": b"x"}),
    ],
)
def test_wrong_keys_are_refused(field: str, arguments: Any) -> None:
    with pytest.raises(errors.InvalidArgument) as caught:
        twofold.Game2048VectorEnv(2, endpoint="embedded", obs="dict", **arguments)
    assert caught.value.field == field


def test_the_single_environment_has_them_too() -> None:
    env = gym.make(
        "twofold/Game2048-v0",
        endpoint="embedded",
        obs="dict",
        mask_key="mask",
        render_mode="ansi",
    )
    check_env(env.unwrapped, skip_render_check=True)
    observation, info = env.reset(seed=0, options={"board": np.eye(4, dtype=np.uint8)})
    assert observation in env.observation_space
    np.testing.assert_array_equal(observation["mask"], info["action_mask"])
    assert "2" in str(env.render())
    env.close()
