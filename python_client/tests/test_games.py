"""Descriptions of games: arguments, words for actions, pickling, and conversion to JSON."""

import json
import pickle
from types import MappingProxyType
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import twofold
from twofold import errors
from twofold.envs import BY_NAME, GAMES
from twofold.envs.json_form import as_json
from twofold.games.concentration import Concentration, ConcentrationArguments
from twofold.games.game2048 import Game2048, Game2048Arguments
from twofold.games.spec import GameSpec, full_id
from twofold.integrations.text_games import TextGame


def test_an_id_without_a_version_means_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("v9", "v10", "variant"):
        name = f"others/Game-{version}"
        monkeypatch.setitem(gym.registry, name, gym.envs.registration.EnvSpec(name))
    assert full_id("module:others/Game") == "others/Game-v10"


@pytest.mark.parametrize(
    ("spec", "arguments"),
    [(Game2048, Game2048Arguments), (Concentration, ConcentrationArguments)],
)
def test_a_game_knows_the_arguments_that_type_checkers_see(
    spec: type[GameSpec], arguments: Any
) -> None:
    assert spec.known_arguments.keys() == arguments.__optional_keys__


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("2048", {}),
        ("2048", {"size": (3, 4), "dialect": None, "reward": {"merge_count": 1.0}}),
        ("2048", {"dialect": "pgx"}),
        ("concentration", {"preset": "popgym-hard"}),
    ],
)
def test_a_game_can_be_pickled(name: str, arguments: dict[str, Any]) -> None:
    game = BY_NAME[name].spec.of(**arguments)
    assert pickle.loads(pickle.dumps(game)) == game
    assert game.arguments == arguments


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("2048", {"size": (3, np.int64(4)), "goal": np.uint8(64), "dialect": None}),
        ("2048", {"reward": {"merge_count": np.float32(0.5)}, "max_episode_steps": 9}),
        ("2048", {"reward": {"merge_score", "merge_count"}, "four_probability": np.longdouble(0)}),
        ("2048", {"reward": MappingProxyType({"survival": 1})}),
        ("concentration", {"preset": "popgym-hard", "peeks": 3}),
    ],
)
def test_a_game_written_as_json_is_read_as_the_same_game(
    name: str, arguments: dict[str, Any]
) -> None:
    spec = BY_NAME[name].spec
    written = as_json({**arguments, "copy": False, "endpoint": "embedded", "timeout": 1.0})
    again, others = spec.split(json.loads(json.dumps(written)))
    assert again.request == spec.of(**arguments).request
    assert others == {"copy": False}


@pytest.mark.parametrize("registered", GAMES, ids=lambda game: game.spec.name)
def test_each_action_has_a_word_that_names_it(registered: Any) -> None:
    envs = registered.vector(1)
    game = envs.game
    assert len(game.actions) == envs.num_actions
    assert [game.number(word) for word in game.actions] == list(range(envs.num_actions))
    with pytest.raises(errors.InvalidArgument):
        game.number("sideways")
    envs.close()


def test_a_dialect_has_its_own_order_of_the_same_words() -> None:
    game = Game2048.of(dialect="pgx")
    assert game.actions == ("left", "up", "right", "down")
    server = game.to_server(np.arange(4))
    assert server.tolist() == [3, 0, 1, 2]
    assert game.from_server(server).tolist() == [0, 1, 2, 3]
    assert game.in_user_order(np.array([[10, 11, 12, 13]]), 1).tolist() == [[13, 10, 11, 12]]


def test_an_environment_shows_its_game() -> None:
    envs = twofold.Game2048VectorEnv(2, size=3, goal=64)
    assert envs.game == Game2048.of(size=3, goal=64)
    assert Game2048.played_by(envs) is envs.game
    assert Concentration.played_by(envs) is None
    envs.close()


# ---- what others call ----------------------------------------------------------------------------


def test_a_single_environment_shows_its_action_mask_as_bools() -> None:
    env = twofold.Game2048Env(size=2)
    with pytest.raises(errors.FailedPrecondition):
        env.action_masks()
    _, infos = env.reset(seed=0)
    for _ in range(10):
        masks = env.action_masks()
        assert masks.dtype == np.bool_
        np.testing.assert_array_equal(masks, infos["action_mask"] == 1)
        if not masks.any():
            break
        *_, infos = env.step(int(masks.argmax()))
    env.close()


def test_keys_name_the_actions_of_any_dialect() -> None:
    for dialect in (None, "pgx"):
        env = twofold.Game2048Env(dialect=dialect)
        keys = env.get_keys_to_action()
        assert [env.game.actions[keys[key]] for key in "wdsa"] == ["up", "right", "down", "left"]
        env.close()


def test_a_batch_answers_for_each_of_its_boards() -> None:
    envs = twofold.Game2048VectorEnv(3, render_mode="ansi")
    _, infos = envs.reset(seed=0)
    np.testing.assert_array_equal(np.stack(envs.call("action_masks")), infos["action_mask"] == 1)
    assert envs.call("render") == envs.render()
    assert envs.get_attr("render_mode") == ("ansi",) * 3
    assert envs.get_attr("action_space") == (envs.single_action_space,) * 3
    envs.set_attr("render_mode", ["rgb_array"] * 3)
    assert envs.render_mode == "rgb_array"
    table = np.arange(3)
    for shared in (table, [table] * 3, [table, table.copy(), table.tolist()]):
        envs.set_attr("table", shared)
        np.testing.assert_array_equal(envs.get_attr("table"), [table] * 3)
    for refused in (
        lambda: envs.set_attr("table", [table, table, table + 1]),
        lambda: envs.call("keepalive"),
        lambda: envs.set_attr("render_mode", [1, 2, 3]),
    ):
        with pytest.raises(AttributeError, match="one batch"):
            refused()
    envs.close()


def test_a_misspelt_argument_is_refused_with_the_right_spelling() -> None:
    wrong: Any = {"autoreset": "same_step"}
    told = r"^twofold/Game2048-v0 got .* 'autoreset'; did you mean 'autoreset_mode'\?"
    with pytest.raises(TypeError, match=told):
        twofold.Game2048VectorEnv(2, **wrong)
    wrong = {"start_tile": 1}
    with pytest.raises(TypeError, match=r"did you mean 'start_tiles'\?"):
        twofold.Game2048Env(**wrong)


def test_a_single_environment_sums_up_its_episodes() -> None:
    env = twofold.Game2048Env(size=2, extra_infos=("episode",))
    env.reset(seed=0)
    is_over = False
    while not is_over:
        *_, is_over, _, _ = env.step(int(env.action_masks().argmax()))
    assert env.statistics()["episodes"] == 1
    assert "reached_16" in env.statistics()
    env.close()


def test_a_table_that_is_cleared_in_the_last_allowed_step_is_cleared() -> None:
    arguments = {"size": (1, 2), "max_episode_steps": 2, "endpoint": "embedded"}
    game = TextGame.for_models("concentration", arguments)
    game.start(0)
    game.play(0)
    assert game.play(1).endswith("The game is over: all pairs are found.")
    game.start(0)
    game.play(0)
    assert game.play(0).endswith("The game is over: the step limit was reached.")
    game.env.close()


def test_a_game_without_peeks_does_not_know_their_word() -> None:
    assert Concentration.of(peeks=1).number("peek") == 16
    with pytest.raises(errors.InvalidArgument, match="card is 'peek'") as caught:
        Concentration.of(peeks=0).number("peek")
    assert caught.value.field == "card"
