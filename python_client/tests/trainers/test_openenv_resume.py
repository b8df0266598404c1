"""Tests that episodes outlive their connections, and that no action is lost or played twice."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from servers import Server

import twofold
from twofold.errors import NotFound

pytest.importorskip("openenv", reason="`make openenv-test` has it")

from openenv_servers import Connection, serving

from twofold.games.game2048 import Game2048
from twofold.integrations.openenv import client as clients
from twofold.integrations.openenv.client import ConcentrationClient, Game2048Client
from twofold.integrations.openenv.environment import GameEnvironment, Service
from twofold.integrations.openenv.episode import Episode
from twofold.integrations.openenv.models import MODELS, ConcentrationAction, Game2048Action
from twofold.integrations.openenv.registry import Registry

WORDS = ["up", "right", "down", "left"]


class Clock:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(max_sessions=20, allow=["size"]) as url:
        yield url


def test_200_cut_connections_lose_no_action_and_play_none_twice(url: str) -> None:
    generator = np.random.default_rng(7)
    board = gym.make("twofold/Game2048-v0")
    connection, cuts, episodes = Connection(url), 0, 0
    kinds = {"before": 0, "with the action": 0, "before the reply": 0}
    while cuts < 200:
        episodes += 1
        seen = connection.reset(seed=episodes)
        episode_id = seen["episode_id"]
        expected, _ = board.reset(seed=episodes)
        rewards = played = 0.0
        while not seen["terminated"]:
            word = str(generator.choice(seen["legal_actions"]))
            action = {"direction": word, "step": seen["step"]}
            expected, reward, _, _, _ = board.step(WORDS.index(word))
            rewards += float(reward)
            if generator.random() < 0.5:
                kind = str(generator.choice(list(kinds)))
                kinds[kind] += 1
                cuts += 1
                if kind != "before":
                    connection.send("step", action)
                if kind == "before the reply":
                    connection.wait_for_reply()
                connection.cut()
                connection = Connection(url)
                back = connection.reset(episode_id=episode_id)
                assert back["resumed"]
                taken = back["step"] - seen["step"]
                assert taken in {"before": {0}, "before the reply": {1}}.get(kind, {0, 1})
            data = connection.ask("step", action)  # repeated, whether it was played or not
            seen = data["observation"]
            played += data["reward"]
            assert seen["step"] == action["step"] + 1
            assert seen["board"] == twofold.tile_values(expected).tolist()
        assert played == rewards
        assert connection.ask("state")["episode_return"] == rewards
    assert min(kinds.values()) > 20
    connection.close()
    board.close()


def test_a_resumed_episode_shows_its_last_step_again(url: str) -> None:
    first = Connection(url)
    episode_id = first.reset(seed=1)["episode_id"]
    while not (data := first.ask("step", {"direction": "left"}))["reward"]:
        first.step(direction="down")
    first.cut()
    second = Connection(url)
    again = second.ask("reset", {"episode_id": episode_id})
    assert again["observation"].pop("resumed")
    assert not data["observation"].pop("resumed")
    assert again == data
    second.close()


def test_a_resumed_episode_that_is_over_shows_its_end_again(url: str) -> None:
    first = Connection(url)
    seen = first.reset(seed=1, size=2)
    while not seen["terminated"]:
        seen = first.step(direction=seen["legal_actions"][0], step=seen["step"])
    first.cut()
    second = Connection(url)
    data = second.ask("reset", {"episode_id": seen["episode_id"]})
    assert data["done"]
    assert data["observation"] == {**seen, "resumed": True}
    second.close()


def test_a_repeated_number_returns_the_stored_observation(url: str) -> None:
    connection = Connection(url)
    connection.reset(seed=1)
    first = connection.ask("step", {"direction": "left", "step": 0})
    for _ in range(3):
        assert connection.ask("step", {"direction": "left", "step": 0}) == first
    assert connection.ask("state")["step_count"] == 1
    connection.close()


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (
            {"direction": "up", "step": 3},
            "step is 3, but the episode has taken 2 steps; send the step of the last observation",
        ),
        ({"direction": "up", "step": 0}, "step is 0, but the episode has already taken 2 steps; "),
        ({"direction": "up", "step": 1}, "step 1 played 'left', not 'up'; "),
    ],
)
def test_a_number_out_of_sequence_is_refused_and_plays_nothing(
    url: str, action: dict[str, Any], message: str
) -> None:
    connection = Connection(url)
    connection.reset(seed=1)
    for number in range(2):
        last = connection.step(direction="left", step=number)
    assert connection.error("step", action)["message"].startswith(message)
    assert connection.ask("state")["step_count"] == 2
    assert connection.step(direction="left", step=1) == last
    connection.close()


def observed(connection: Connection, kind: str, data: dict[str, Any]) -> Any:
    """Sends a message until its reply is an observation, which a busy machine may send too late."""
    while True:
        connection.send(kind, data)
        reply = connection.receive()
        if reply["type"] == "observation":
            return reply["data"]["observation"]


def test_after_a_step_without_an_answer_the_error_names_the_action_to_repeat(
    own_server: Server,
) -> None:
    with serving(endpoint=own_server.tcp, timeout=0.3) as url:
        connection = Connection(url)
        observed(connection, "reset", {"seed": 1})
        with own_server.stopped():
            lost = connection.error("step", {"direction": "up", "step": 0})
            assert own_server.tcp in lost["message"]
            other = connection.error("step", {"direction": "left", "step": 0})
            assert other["message"] == "the last action got no answer; repeat 'up' first"
        assert observed(connection, "step", {"direction": "up", "step": 0})["step"] == 1
        connection.close()


def test_a_second_connection_takes_over_an_episode_and_shuts_the_first_one_out(url: str) -> None:
    first, second = Connection(url), Connection(url)
    episode_id = first.reset(seed=1)["episode_id"]
    assert second.reset(episode_id=episode_id)["resumed"]
    for kind, data in (("step", {"direction": "left"}), ("state", None)):
        error = first.error(kind, data)
        assert error["message"].startswith("another connection has taken over episode")
    assert second.step(direction="left", step=0)["step"] == 1
    assert first.reset(seed=2)["step"] == 0  # a separate episode
    first.cut()
    assert second.step(direction="left")["step"] == 2
    second.close()


def test_a_known_episode_keeps_its_seed_and_its_arguments(url: str) -> None:
    first, second = Connection(url), Connection(url)
    first.reset(seed=1, size=3, episode_id="mine")
    for arguments in ({"seed": 2}, {"size": 4}):
        error = second.error("reset", {"episode_id": "mine", **arguments})
        assert error["message"].startswith("episode 'mine' has s")
    assert first.step(direction="left")["step"] == 1  # the episode was not taken over
    assert second.reset(episode_id="mine", seed=1, size=3)["resumed"]
    second.close()
    first.close()


def test_an_episode_continues_if_its_arguments_equal_the_given_ones_in_json() -> None:
    with serving(size=(2, 3), allow=["size"]) as url:
        first, second = Connection(url), Connection(url)
        episode_id = first.reset(seed=1)["episode_id"]
        assert second.reset(episode_id=episode_id, size=[2, 3])["resumed"]
        assert second.ask("state")["arguments"] == {"size": [2, 3]}
        second.close()
        first.close()


def test_episodes_of_lost_connections_are_kept_up_to_a_time_and_a_number() -> None:
    clock = Clock()
    with serving(keep_seconds=10, keep_episodes=2, clock=clock) as url:
        for name in ("a", "b", "c"):
            connection = Connection(url)
            connection.reset(episode_id=name)
            connection.close()
        assert is_resumed(url, "c")
        assert not is_resumed(url, "a")
        clock.seconds = 9.9
        assert is_resumed(url, "c")
        clock.seconds = 20
        assert not is_resumed(url, "c")


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of the episodes whose boards have been closed."""
    ids: list[str] = []
    close = Episode.close

    def noting(episode: Episode) -> None:
        ids.append(episode.id)
        close(episode)

    monkeypatch.setattr(Episode, "close", noting)
    return ids


def environments(number: int, clock: Clock) -> list[GameEnvironment]:
    """Returns the environments of several connections to the same server."""
    episodes = Registry(10, 5, clock)
    arguments = {"endpoint": "embedded"}
    service = Service(Game2048, MODELS["2048"], episodes, arguments, frozenset({"size"}))
    return [GameEnvironment(service) for _ in range(number)]


def test_the_board_of_an_expired_episode_is_closed_when_another_episode_starts(
    closed: list[str],
) -> None:
    clock = Clock()
    lost, another = environments(2, clock)
    lost.reset(episode_id="lost")
    lost.close()
    another.reset()
    assert closed == []
    clock.seconds = 10
    another.reset()
    assert closed == ["lost"]


def test_a_connection_that_leaves_an_episode_closes_its_board_if_it_still_holds_it(
    closed: list[str],
) -> None:
    first, second, third = environments(3, Clock())
    first.reset(episode_id="a")
    second.reset(episode_id="b")
    third.reset(episode_id="c")
    second.reset(episode_id="a")  # takes it over, and leaves "b"
    assert closed == ["b"]
    first.reset(episode_id="c")  # leaves "a", which the second one holds
    second.reset(episode_id="a")  # stays there
    assert closed == ["b"]
    second.reset(episode_id="d", size=3)  # on another board
    assert closed == ["b", "a"]


def is_resumed(url: str, episode_id: str) -> bool:
    """Returns True if a new connection can resume this episode; then closes the connection."""
    connection = Connection(url)
    resumed = bool(connection.reset(episode_id=episode_id)["resumed"])
    connection.close()
    return resumed


def cut(client: Any) -> None:
    """Breaks the connection under OpenEnv's synchronous client."""

    def abort() -> None:
        if client.async_client._ws is not None:
            client.async_client._ws.transport.abort()

    client._loop.call_soon_threadsafe(abort)


@pytest.mark.parametrize("game", ["2048", "concentration"])
def test_our_client_continues_automatically(game: str) -> None:
    generator = np.random.default_rng(3)
    kind, action_of, name = {
        "2048": (Game2048Client, Game2048Action, "direction"),
        "concentration": (ConcentrationClient, ConcentrationAction, "card"),
    }[game]
    with serving(game) as url, kind(base_url=url).sync() as client, serving(game) as other:
        result, taken, rewards = client.reset(seed=2), 0, 0.0
        again = Connection(other)
        again.reset(seed=2)
        while not result.done:
            legal = result.observation.legal_actions
            action = action_of(**{name: legal[generator.integers(len(legal))]})
            if generator.random() < 0.2:
                threading.Timer(generator.random() / 1000, cut, [client]).start()
            result = client.step(action)
            rewards += result.reward
            taken += 1
            expected = again.ask("step", action.model_dump(exclude_defaults=True))
            assert result.observation.step == taken
            assert result.observation.text == expected["observation"]["text"]
            assert result.reward == result.observation.reward == expected["reward"]
            assert result.done == result.observation.done == expected["done"]
        assert client.state().episode_return == rewards
        again.close()


def test_our_client_continues_after_failed_attempts_to_connect(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "_PAUSES", (0.0,) * 3)
    connect = Game2048Client._connect_async
    right, failures = f"{url.replace('http', 'ws')}/ws", 0

    async def connect_later(client: Any) -> Any:
        nonlocal failures
        client._ws_url = "ws://127.0.0.1:1/ws" if failures else right
        failures = max(failures - 1, 0)
        return await connect(client)

    monkeypatch.setattr(Game2048Client, "_connect_async", connect_later)
    with Game2048Client(base_url=url).sync() as client:
        client.reset(seed=1)
        failures = 2
        cut(client)
        assert client.step(Game2048Action(direction="left")).observation.step == 1
        failures = 4
        cut(client)
        with pytest.raises(ConnectionError):
            client.step(Game2048Action(direction="down"))
        assert client.state().step_count == 1
        assert client.step(Game2048Action(direction="down")).observation.step == 2


def test_our_client_continues_after_an_answer_that_came_too_late(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "_PAUSES", (0.0,))
    with Game2048Client(base_url=url).sync() as client:
        client.reset(seed=1)
        client.async_client._message_timeout = 0
        with pytest.raises(asyncio.TimeoutError):
            client.step(Game2048Action(direction="left"))
        client.async_client._message_timeout = 60
        assert client.step(Game2048Action(direction="left")).observation.step == 1
        assert client.state().step_count == 1


def test_our_client_reports_that_the_server_has_lost_the_episode(url: str) -> None:
    with Game2048Client(base_url=url).sync() as client:
        episode_id = client.reset(seed=1).observation.episode_id
        other = Connection(url)
        other.reset(episode_id=episode_id)
        with pytest.raises(RuntimeError, match="another connection has taken over"):
            client.step(Game2048Action(direction="left"))
        other.reset(seed=1)  # ends the episode
        cut(client)
        with pytest.raises(NotFound, match="no longer has episode"):
            client.step(Game2048Action(direction="left"))
        assert client.reset(seed=2).observation.step == 0
        other.close()
