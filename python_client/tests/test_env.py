"""The single environment, as Gymnasium and its users expect it."""

import re
import warnings
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import RecordEpisodeStatistics, TimeLimit
from reference import Game
from servers import Server

import twofold
from twofold import errors

ID = "twofold/Game2048-v0"
CONCENTRATION = "twofold/Concentration-v0"


@pytest.fixture
def env() -> Iterator[gym.Env[Any, Any]]:
    env = gym.make(ID, render_mode="ansi")
    yield env
    env.close()


def play(env: gym.Env[Any, Any], info: Any) -> tuple[int, float, bool, Any]:
    """Plays random legal actions; returns the steps, the return, `truncated`, and the infos."""
    steps, total = 0, 0.0
    while True:
        action = env.action_space.sample(mask=info["action_mask"])
        _, reward, terminated, truncated, info = env.step(action)
        steps, total = steps + 1, total + float(reward)
        if terminated or truncated:
            return steps, total, truncated, info


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        (ID, {}),
        (ID, {"size": (2, 5)}),
        (ID, {"render_mode": "ansi"}),
        (CONCENTRATION, {}),
        (CONCENTRATION, {"preset": "popgym-easy"}),
        (CONCENTRATION, {"preset": "popgym-medium"}),
        (CONCENTRATION, {"preset": "popgym-hard"}),
        (
            CONCENTRATION,
            {"size": (2, 3), "peeks": 2, "observe_last_action": True, "deck_info": True},
        ),
        (CONCENTRATION, {"size": 2, "obs": "dict", "illegal_action": "terminate"}),
    ],
    ids=str,
)
def test_check_env_finds_nothing(name: str, arguments: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gym.make(name, **arguments)
        check_env(env.unwrapped)
        env.close()


def test_check_env_finds_nothing_in_the_wrapped_environment() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # check_env warns about this for everything that gymnasium.make returns.
        warnings.filterwarnings("ignore", message=".*is different from the unwrapped version")
        env = gym.make(ID)
        check_env(env)
        env.close()


def test_spaces_are_exponents_and_four_actions(env: gym.Env[Any, Any]) -> None:
    assert env.observation_space == gym.spaces.Box(0, 31, (4, 4), np.uint8)
    assert env.action_space == gym.spaces.Discrete(4)


def test_a_step_returns_python_values_and_its_infos_numpy_scalars(env: gym.Env[Any, Any]) -> None:
    _, info = env.reset(seed=0)
    assert type(info["score"]) is np.int64
    observation, reward, terminated, truncated, info = env.step(0)
    assert observation.dtype == np.uint8
    assert observation.shape == (4, 4)
    assert observation.flags.writeable
    assert observation.flags.aligned
    assert type(reward) is float
    assert type(terminated) is bool
    assert type(truncated) is bool
    assert info["goal_reached"].dtype == np.bool_
    assert info["goal_reached"].shape == ()
    for name in ("score", "max_exponent", "episode_length", "moves"):
        assert type(info[name]) is np.int64
    assert 2 ** info["max_exponent"] >= 2
    assert 2 ** (info["max_exponent"] + 16) > 65_000
    assert info["action_mask"].shape == (4,)
    assert info["action_mask"].dtype == np.int8
    assert not any(name.startswith("_") for name in info)


def test_the_action_mask_samples_legal_actions(env: gym.Env[Any, Any]) -> None:
    _, info = env.reset(seed=3)
    env.action_space.seed(3)
    for _ in range(50):
        moves = info["moves"]
        *_, terminated, _, info = env.step(env.action_space.sample(mask=info["action_mask"]))
        assert info["moves"] == moves + 1
        if terminated:
            break


def test_an_episode_ends_with_an_empty_mask_and_has_to_be_reset(env: gym.Env[Any, Any]) -> None:
    env.action_space.seed(1)
    _, info = env.reset(seed=1)
    steps, total, truncated, info = play(env, info)
    assert not truncated
    assert info["action_mask"].sum() == 0
    assert info["score"] == total
    assert info["episode_length"] == info["moves"] == steps
    with pytest.raises(errors.FailedPrecondition) as caught:
        env.step(0)
    assert caught.value.lane == 0
    _, info = env.reset()
    assert info["score"] == info["moves"] == 0


def test_a_step_before_the_first_reset_is_refused(env: gym.Env[Any, Any]) -> None:
    with pytest.raises(errors.FailedPrecondition):
        env.unwrapped.step(0)
    env.reset(seed=0)
    env.step(0)


@pytest.mark.parametrize("action", [4, -1, 256, 0.0, "up", None, True, [0]], ids=repr)
def test_a_wrong_action_is_refused(env: gym.Env[Any, Any], action: Any) -> None:
    env.reset(seed=0)
    with pytest.raises(errors.InvalidArgument) as caught:
        env.unwrapped.step(action)
    assert caught.value.field == "action"


@pytest.mark.parametrize("action", [1, np.int8(1), np.uint64(1), np.array(1)], ids=repr)
def test_an_action_may_be_any_integer(env: gym.Env[Any, Any], action: Any) -> None:
    env.reset(seed=0)
    *_, info = env.unwrapped.step(action)
    assert info["moves"] == 1


def test_equal_seeds_agree_and_different_seeds_differ(env: gym.Env[Any, Any]) -> None:
    boards = [env.reset(seed=seed)[0].tobytes() for seed in (5, 5, 6, 7, 8, np.int64(5))]
    assert boards[0] == boards[1] == boards[5]
    assert len(set(boards)) > 2


def test_an_unseeded_reset_continues_the_stream(env: gym.Env[Any, Any]) -> None:
    first = [env.reset(seed=5)[0], env.reset()[0], env.reset()[0]]
    again = [env.reset(seed=5)[0], env.reset()[0], env.reset()[0]]
    np.testing.assert_array_equal(first, again)
    assert len({board.tobytes() for board in first}) > 1


def test_the_first_unseeded_reset_reports_its_seed(env: gym.Env[Any, Any]) -> None:
    announced = env.unwrapped.np_random_seed
    board, _ = env.reset()
    assert env.unwrapped.np_random_seed == announced
    np.testing.assert_array_equal(env.reset(seed=announced)[0], board)
    env.reset(seed=9)
    assert env.unwrapped.np_random_seed == 9


def test_a_board_can_be_given(env: gym.Env[Any, Any]) -> None:
    board = np.arange(16).reshape(4, 4)
    options = {"board": board}
    observation, info = env.reset(options=options)
    np.testing.assert_array_equal(observation, board)
    assert info["score"] == 0
    assert info["max_exponent"] == 15
    assert options == {"board": board}


@pytest.mark.parametrize(
    ("field", "options", "text"),
    [
        ("options", {"boards": 1}, "unknown options"),
        ("options", "abc", "options"),
        ("options", [], "options"),
        ("board", {"board": np.zeros((4, 3), int)}, "board has shape (4, 3); expected (4, 4)"),
        ("board", {"board": np.zeros((4, 4))}, "board"),
        ("board", {"board": np.full((4, 4), 32)}, "board contains 32; expected"),
        ("board", {"board": np.zeros((4, 4), np.uint8)}, "board has no legal action"),
    ],
)
def test_a_wrong_option_is_refused_and_a_wrong_board_is_called_a_board(
    env: gym.Env[Any, Any], field: str, options: Any, text: str
) -> None:
    before = env.unwrapped.np_random.bit_generator.state
    with pytest.raises(errors.InvalidArgument, match=f"^{re.escape(text)}") as caught:
        env.reset(seed=0, options=options)
    assert caught.value.field == field
    assert env.unwrapped.np_random.bit_generator.state == before


def test_render_draws_the_board(env: gym.Env[Any, Any]) -> None:
    board = np.zeros((4, 4), np.uint8)
    board[0] = [1, 11, 0, 17]
    env.reset(options={"board": board})
    text = env.render()
    assert isinstance(text, str)
    assert [line.split() for line in text.splitlines()] == [
        ["2", "2048", ".", "131072"],
        *[["."] * 4] * 3,
    ]
    assert len({len(line) for line in text.splitlines()}) == 1


def test_render_without_a_render_mode_warns_and_returns_none() -> None:
    env = twofold.Game2048Env()
    env.reset(seed=0)
    with pytest.warns(UserWarning, match="render_mode"):
        assert env.render() is None
    env.close()


def test_afterstates_match_the_reference(env: gym.Env[Any, Any]) -> None:
    env.reset(seed=4)
    game = Game(4)
    for action in [0, 1, 2, 3] * 5:
        boards, rewards, mask = env.unwrapped.afterstates()  # type: ignore[attr-defined]
        assert mask.tolist() == game.mask()
        for legal in game.legal():
            board, reward = game.afterstate(legal)
            assert boards[legal].ravel().tolist() == list(board)
            assert rewards[legal] == reward
        env.step(action)
        game.step(action)


def test_observe_returns_the_state_again(env: gym.Env[Any, Any]) -> None:
    env.reset(seed=4)
    observation, *_, info = env.step(0)
    again, info_again = env.unwrapped.observe()  # type: ignore[attr-defined]
    np.testing.assert_array_equal(observation, again)
    assert info.keys() == info_again.keys()
    for name, value in info.items():
        np.testing.assert_array_equal(value, info_again[name])


def test_the_server_truncates_an_episode_at_the_environments_limit() -> None:
    env = twofold.Game2048Env(max_episode_steps=5)
    for _ in range(2):
        _, info = env.reset(seed=0)
        steps, _, truncated, info = play(env, info)
        assert (steps, truncated, info["episode_length"]) == (5, True, 5)
        assert info["action_mask"].any(), "a truncated board is not terminated"
    env.close()


def test_gymnasium_truncates_an_episode_at_the_limit_of_make() -> None:
    env = gym.make(ID, max_episode_steps=5)
    assert isinstance(env, TimeLimit)
    for _ in range(2):
        _, info = env.reset(seed=0)
        steps, _, truncated, _ = play(env, info)
        assert (steps, truncated) == (5, True)
    env.close()


def test_record_episode_statistics_agrees_with_the_server(server: Server) -> None:
    env = RecordEpisodeStatistics(gym.make(ID, endpoint=server.tcp))
    env.action_space.seed(2)
    _, info = env.reset(seed=2)
    steps, total, _, info = play(env, info)
    assert info["episode"]["l"] == steps == info["episode_length"]
    assert info["episode"]["r"] == total == info["score"]
    env.close()


def test_a_with_statement_closes_its_environment() -> None:
    with gym.make(ID) as env:
        env.reset(seed=0)
    with pytest.raises(errors.ClosedError):
        env.unwrapped.step(0)
    env.close()
