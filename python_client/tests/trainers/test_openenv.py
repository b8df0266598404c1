"""Tests of games over OpenEnv's WebSockets: the same boards as text, and bad input does no harm."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from servers import PATIENCE, Server

import twofold
from twofold.errors import InvalidArgument, TransportError

pytest.importorskip("openenv", reason="`make openenv-test` has it")

from openenv.core.generic_client import GenericEnvClient
from openenv_servers import Connection, serving

from twofold.games.game2048 import Game2048
from twofold.integrations.openenv import app
from twofold.integrations.openenv.app import make_openenv_app
from twofold.integrations.openenv.episode import Episode
from twofold.integrations.text_games import TextGame

WORDS = ["up", "right", "down", "left"]
REWARD = {"merge_score": 1.0, "illegal_action": -2.0}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A 2048 server with high limits. All tests share it, so none may break it."""
    allowed = ["size", "goal", "stop_at_goal", "max_episode_steps", "reward", "illegal_action"]
    with serving(max_sessions=20, allow=[*allowed, "dialect"]) as url:
        yield url


@pytest.fixture
def connection(url: str) -> Iterator[Connection]:
    connection = Connection(url)
    yield connection
    connection.close()


def picked(generator: np.random.Generator, legal: list[Any]) -> Any:
    return legal[generator.integers(len(legal))]


@pytest.mark.parametrize("game", ["2048", "concentration"])
def test_openenvs_own_client_plays_a_game_to_its_end(game: str) -> None:
    name = {"2048": "direction", "concentration": "card"}[game]
    generator = np.random.default_rng(0)
    with serving(game) as url, GenericEnvClient(base_url=url).sync() as client:
        result = client.reset(seed=5)
        rewards = []
        while not result.done:
            assert result.observation["legal_actions"]
            result = client.step({name: picked(generator, result.observation["legal_actions"])})
            rewards.append(result.reward)
        state = client.state()
    assert result.observation["terminated"]
    assert not result.observation["truncated"]
    assert state["step_count"] == len(rewards)
    assert state["episode_return"] == sum(rewards)
    assert state["seed"] == 5
    if game == "2048":
        assert state["score"] == sum(rewards) > 0
    else:
        assert state["pairs"] == 8


def test_2048_plays_as_in_gymnasium_over_every_carrier(endpoint: str) -> None:
    generator = np.random.default_rng(1)
    boards = gym.make("twofold/Game2048-v0", endpoint="embedded")
    batch = gym.make_vec("twofold/Game2048-v0", num_envs=1, endpoint="embedded")
    expected, infos = boards.reset(seed=9)
    batch.reset(seed=9)
    with serving(endpoint=endpoint) as url:
        connection = Connection(url)
        seen = connection.reset(seed=9)
        for number in range(400):
            assert seen["board"] == twofold.tile_values(expected).tolist()
            assert seen["text"] == Game2048.text(expected)
            assert seen["legal_actions"] == [WORDS[a] for a in np.flatnonzero(infos["action_mask"])]
            assert (seen["score"], seen["step"]) == (infos["score"], number)
            assert seen["highest_tile"] == 2 ** infos["max_exponent"]
            if not seen["legal_actions"]:
                break
            word = picked(generator, WORDS)  # including illegal ones
            expected, reward, _, _, infos = boards.step(WORDS.index(word))
            np.testing.assert_array_equal(batch.step([WORDS.index(word)])[0][0], expected)
            data = connection.ask("step", {"direction": word})
            assert data["reward"] == reward
            seen = data["observation"]
        assert number > 80
        connection.close()
    boards.close()
    batch.close()


def test_concentration_plays_as_in_gymnasium_over_every_carrier(endpoint: str) -> None:
    generator = np.random.default_rng(2)
    table = gym.make("twofold/Concentration-v0", peeks=3, endpoint="embedded")
    expected, infos = table.reset(seed=4)
    names = [*range(1, 9), "?", "."]
    with serving("concentration", peeks=3, endpoint=endpoint) as url:
        connection = Connection(url)
        seen = connection.reset(seed=4)
        for _ in range(300):
            assert seen["cards"] == [[names[code] for code in row] for row in expected.tolist()]
            legal = np.flatnonzero(infos["action_mask"]).tolist()
            assert seen["legal_actions"] == ["peek" if card == 16 else card for card in legal]
            assert seen["open_card"] == (None if infos["open_card"] < 0 else infos["open_card"])
            for name in ("pairs", "turns", "peeks"):
                assert seen[name] == infos[name]
            if seen["terminated"]:
                break
            card = int(generator.integers(17))
            expected, reward, _, _, infos = table.step(card)
            data = connection.ask("step", {"card": "peek" if card == 16 else card})
            assert data["reward"] == reward
            seen = data["observation"]
        assert seen["terminated"]
        connection.close()
    table.close()


def test_a_drawn_seed_repeats_the_episode(connection: Connection) -> None:
    first = connection.reset()["board"]
    seed = connection.ask("state")["seed"]
    assert seed < 2**53  # exact in JavaScript
    connection.reset()
    assert connection.ask("state")["seed"] != seed
    assert connection.reset(seed=seed)["board"] == first


def test_a_direction_is_a_word_or_its_number(connection: Connection) -> None:
    played = []
    for actions in (WORDS, range(4)):
        connection.reset(seed=1)
        played.append([connection.step(direction=action)["board"] for action in actions])
    assert played[0] == played[1]


def test_words_mean_the_same_under_the_rules_of_another_package(connection: Connection) -> None:
    connection.reset(seed=1, dialect="pgx")
    board = gym.make("twofold/Game2048-v0", dialect="pgx")
    board.reset(seed=1)
    for word, number in {"left": 0, "up": 1, "right": 2, "down": 3}.items():
        expected = board.step(number)[0]
        assert connection.step(direction=word)["board"] == twofold.tile_values(expected).tolist()
    board.close()


def illegal(connection: Connection, **arguments: Any) -> tuple[Any, Any]:
    """Returns an observation of a 2 x 2 board, and a direction that is illegal on it."""
    for seed in range(100):
        seen = connection.reset(seed=seed, size=2, **arguments)
        if len(seen["legal_actions"]) < 4:
            return seen, next(word for word in WORDS if word not in seen["legal_actions"])
    raise AssertionError("every direction is legal on every board")


def test_an_illegal_action_gets_a_sentence_and_the_same_board(connection: Connection) -> None:
    seen, word = illegal(connection)
    data = connection.ask("step", {"direction": word})
    after = data["observation"]
    legal = ", ".join(seen["legal_actions"])
    assert after["message"] == f"Nothing moves {word}; legal actions: {legal}."
    assert after["board"] == seen["board"]
    assert (data["reward"], data["done"], after["step"]) == (0.0, False, 1)
    assert connection.step(direction=seen["legal_actions"][0])["message"] == ""


def test_reward_and_rules_determine_the_effect_of_an_illegal_action(connection: Connection) -> None:
    _, word = illegal(connection, reward=REWARD)
    assert connection.ask("step", {"direction": word})["reward"] == -2.0
    seen, word = illegal(connection, illegal_action="terminate")
    data = connection.ask("step", {"direction": word})
    assert data["done"]
    assert data["observation"]["board"] == seen["board"]
    assert data["observation"]["message"].endswith(". The game is over after 1 step.")


@pytest.mark.parametrize(
    ("cards", "message"),
    [([3, 3], "Card 3 is face up already"), (["peek", "peek"], "No peek is left")],
)
def test_a_card_that_cannot_be_flipped_gets_a_sentence(cards: list[Any], message: str) -> None:
    with serving("concentration", size=(2, 2), peeks=1) as url:
        connection = Connection(url)
        connection.reset(seed=1)
        first, second = (connection.step(card=card) for card in cards)
        assert first["message"] == ""
        assert second["message"].startswith(f"{message}; legal actions: ")
        assert second["legal_actions"] == [c for c in (0, 1, 2, 3, "peek") if c not in cards]
        assert connection.error("step", {"card": 4})["message"].startswith("card is 4; expected")
        connection.close()


def test_the_sentence_names_the_legal_actions_after_the_step() -> None:
    with serving("concentration", illegal_action="end_turn", peeks=0, size=(1, 4)) as url:
        connection = Connection(url)
        connection.reset(seed=1)
        connection.step(card=2)
        after = connection.step(card=2)
        legal = ", ".join(map(str, after["legal_actions"]))
        assert after["message"] == f"Card 2 is face up already; legal actions: {legal}."
        assert after["turns"] == 1
        connection.close()


def test_a_found_pair_is_out_of_play() -> None:
    with serving("concentration", size=(1, 4)) as url:
        connection = Connection(url)
        connection.reset(seed=1)
        [row] = connection.step(card="peek")["cards"]
        pair = [card for card in range(4) if row[card] == row[0]]
        others = [card for card in range(4) if row[card] != row[0]]
        for card in pair:
            connection.step(card=card)
        connection.step(card=others[0])
        assert connection.step(card=pair[0])["message"].startswith(f"Card {pair[0]} is out of play")
        end = connection.step(card=others[1])
        assert end["message"] == "The game is over after 6 steps."
        connection.close()


def test_nothing_is_played_after_the_end(connection: Connection) -> None:
    connection.reset(seed=1, max_episode_steps=3)
    for _ in range(3):
        last = connection.step(direction=0)
    assert (last["truncated"], last["terminated"]) == (True, False)
    assert last["message"].endswith("The limit of 3 steps ended the episode.")
    data = connection.ask("step", {"direction": "down"})
    after = data["observation"]
    assert (data["reward"], data["done"], after["step"]) == (0.0, True, 3)
    assert after["board"] == last["board"]
    assert after["message"].endswith("The action was not played.")
    state = connection.ask("state")
    assert (state["step_count"], state["truncated"], state["terminated"]) == (3, True, False)
    assert connection.reset(seed=1)["step"] == 0


def test_a_goal_can_end_the_game(connection: Connection) -> None:
    seen = connection.reset(seed=1, goal=16, stop_at_goal=True)
    while not seen["terminated"]:
        seen = connection.step(direction=seen["legal_actions"][0])
    assert seen["highest_tile"] == 16
    state = connection.ask("state")
    assert (state["goal_reached"], state["terminated"], state["truncated"]) == (True, True, False)


def test_arguments_of_a_reset_apply_to_its_episode(connection: Connection) -> None:
    assert np.shape(connection.reset(size=[2, 3])["board"]) == (2, 3)
    assert connection.ask("state")["arguments"] == {"size": [2, 3]}
    assert np.shape(connection.reset()["board"]) == (4, 4)
    assert connection.ask("state")["arguments"] == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": 99}, "size is 99; expected 2 ... 8"),
        ({"goal": "x"}, "goal is 'x'; expected an integer"),
        ({"reward": "/etc/passwd"}, "reward is a string; expected an object"),
        ({"endpoint": "private"}, "this server's reset does not accept 'endpoint'; accepted"),
        ({"start_tiles": 3}, "this server's reset does not accept 'start_tiles'; accepted"),
        ({"seed": -1}, "seed is -1; expected at least 0"),
        ({"seed": 1.5}, "seed is 1.5; expected an integer"),
        ({"episode_id": ""}, "episode_id has 0 characters; expected 1 ... 255"),
        ({"episode_id": ["a"]}, "episode_id is ['a']; expected a string"),
    ],
)
def test_a_reset_that_is_refused_changes_nothing(
    connection: Connection, arguments: dict[str, Any], message: str
) -> None:
    seen = connection.reset(seed=1)
    assert connection.error("reset", arguments)["message"].startswith(message)
    assert connection.ask("state")["episode_id"] == seen["episode_id"]
    assert connection.step(direction=0)["step"] == 1


def test_a_step_before_the_first_reset_is_refused(connection: Connection) -> None:
    assert connection.ask("state")["episode_id"] is None
    error = connection.error("step", {"direction": 0})
    assert error["message"].startswith("this connection has no episode; send reset first")
    assert connection.reset(seed=1)["step"] == 0


def test_after_a_reset_without_an_answer_there_is_no_episode(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unanswered(game: TextGame, seed: int) -> None:
        raise TransportError("no answer")

    connection.reset(seed=1)
    with monkeypatch.context() as patch:
        patch.setattr(TextGame, "start", unanswered)
        assert connection.error("reset", {"seed": 1})["message"] == "no answer"
    assert connection.ask("state")["episode_id"] is None
    error = connection.error("step", {"direction": 0})
    assert error["message"].startswith("this connection has no episode")
    assert connection.reset(seed=1)["step"] == 0


def test_an_episodes_id_has_at_most_255_characters(connection: Connection) -> None:
    assert connection.reset(episode_id="e" * 255)["episode_id"] == "e" * 255
    error = connection.error("reset", {"episode_id": "e" * 256})
    assert error["message"] == "episode_id has 256 characters; expected 1 ... 255"


@pytest.mark.parametrize(
    "action",
    [
        {},
        {"direction": "north"},
        {"direction": "UP"},
        {"direction": 4},
        {"direction": -1},
        {"direction": 1.0},
        {"direction": True},
        {"direction": None},
        {"direction": ["up"]},
        {"direction": "up", "step": -1},
        {"direction": "up", "step": "0"},
        {"direction": "up", "steps": 0},
    ],
)
def test_an_invalid_action_gets_openenvs_error_and_plays_nothing(
    connection: Connection, action: dict[str, Any]
) -> None:
    seen = connection.reset(seed=1)
    error = connection.error("step", action)
    assert error["code"] == "VALIDATION_ERROR"
    assert error["errors"][0]["msg"]
    if "direction" in action and len(action) == 1:
        assert error["errors"][0]["msg"] == "Input should be 'up', 'right', 'down' or 'left'"
    assert connection.ask("state")["step_count"] == 0
    assert connection.step(direction=seen["legal_actions"][0])["step"] == 1


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", "INVALID_JSON"),
        ("", "INVALID_JSON"),
        ('{"type": "dance"}', "UNKNOWN_TYPE"),
        ('{"type": "step"}', "VALIDATION_ERROR"),
        ('{"type": "step", "data": 3}', "VALIDATION_ERROR"),
        ('{"type": "step", "data": {"direction": NaN}}', "INVALID_JSON"),
        ('{"type": "reset", "data": [1]}', "VALIDATION_ERROR"),
        ('{"type": "reset", "data": {"seed": 1e400}}', "INVALID_JSON"),
        (json.dumps({"type": "step", "data": {"direction": "x" * 100_000}}), "VALIDATION_ERROR"),
    ],
)
def test_a_wrong_message_gets_an_error_and_the_connection_stays_open(
    connection: Connection, text: str, code: str
) -> None:
    connection.reset(seed=1)
    connection.send_text(text)
    reply = connection.receive()
    assert (reply["type"], reply["data"]["code"]) == ("error", code)
    assert reply["data"]["message"]
    assert connection.step(direction=0)["step"] == 1


@pytest.mark.parametrize("text", ['"' + "x" * 2**20 + '"', "[1]", '{"type": "step", "data": {'])
def test_the_worst_messages_do_not_affect_other_connections(
    connection: Connection, url: str, text: str
) -> None:
    seen = connection.reset(seed=1)
    bad = Connection(url)
    episode_id = bad.reset(seed=2)["episode_id"]
    bad.send_text(text)
    if len(text) > 2**18:
        with pytest.raises(ConnectionError, match=r"too big|reset by peer"):
            bad.receive()
    else:
        assert bad.receive()["type"] == "error"
    again = Connection(url)
    assert again.reset(episode_id=episode_id)["resumed"]
    again.close()
    assert connection.step(direction=seen["legal_actions"][0])["step"] == 1


def test_the_number_of_playing_connections_is_limited() -> None:
    with serving(max_sessions=2) as url:
        first, second = Connection(url), Connection(url)
        seen = first.reset(seed=1)
        second.reset(seed=1)
        refused = Connection(url).receive()["data"]
        assert refused["code"] == "CAPACITY_REACHED"
        assert "2/2" in refused["message"]
        first.close()
        again = Connection(url)
        assert again.reset(seed=1)["board"] == seen["board"]
        again.close()
        second.close()


@pytest.mark.parametrize("method", ["start", "step"])
def test_calls_without_an_answer_delay_no_other_connection(
    method: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, answer = threading.Semaphore(0), threading.Event()
    real = getattr(TextGame, method)

    def without_answer(game: TextGame, number: int) -> Any:
        if number == 2:
            started.release()
            assert answer.wait(PATIENCE)
        return real(game, number)

    monkeypatch.setattr(TextGame, method, without_answer)
    with serving(endpoint=server.ipc) as url:
        waiting = [Connection(url) for _ in range(50)]
        try:
            for connection in waiting:
                if method == "step":
                    connection.reset(seed=1)
                    connection.send("step", {"direction": 2})
                else:
                    connection.send("reset", {"seed": 2})
            assert all(started.acquire(timeout=PATIENCE) for _ in waiting)
            other = Connection(url)
            assert other.reset(seed=1)["step"] == 0
            assert other.step(direction=1)["step"] == 1
            assert other.ask("state")["step_count"] == 1
            other.close()
        finally:
            answer.set()
        for connection in waiting:
            assert connection.receive()["type"] == "observation"
            connection.close()


def test_a_server_that_stops_closes_all_boards_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    all_close = threading.Barrier(5)
    close = Episode.close

    def close_together(episode: Episode) -> None:
        all_close.wait(PATIENCE)
        close(episode)

    monkeypatch.setattr(Episode, "close", close_together)
    with serving() as url:
        for seed in range(5):
            Connection(url).reset(seed=seed)
    assert not all_close.broken


def test_a_server_may_open_files_for_all_connections_and_kept_episodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    allowed: list[int] = []
    monkeypatch.setattr(app, "allow_open_files", allowed.append)
    make_openenv_app(max_sessions=100, keep_episodes=1000)
    # A connection's socket, and two files for each board on a server.
    assert allowed[0] >= 100 * 3 + 1000 * 2


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"game": "chess"}, "game"),
        ({"obs": "flat"}, "obs"),
        ({"size": 99}, "size"),
        ({"allow": ["endpoint"]}, "allow"),
        ({"max_sessions": 0}, "max_sessions"),
        ({"game": "concentration", "allow": ["goal"]}, "allow"),
        ({"game": "concentration", "deck_info": True}, "deck_info"),
    ],
)
def test_a_server_with_a_wrong_argument_is_refused(arguments: Any, field: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        make_openenv_app(**arguments)
    assert raised.value.field == field
