"""Tests of `twofold mcp` with the official client, over standard input and output and over HTTP."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import pytest
from raw import statistics_of
from servers import PATIENCE, Server

from twofold import cli
from twofold.client.lookup import VERSION
from twofold.envs.concentration import ConcentrationEnv
from twofold.envs.single import TwofoldEnv
from twofold.errors import InvalidArgument, ServerStartFailed
from twofold.games.encoding import tile_values
from twofold.games.game2048 import DIRECTIONS, Game2048
from twofold.integrations.text_games import TextGame
from twofold.policies import PerfectMemory

pytest.importorskip("mcp", reason="`make trainers` has it")

import httpx2
import mcp
from anyio.from_thread import start_blocking_portal
from mcp.client.streamable_http import streamable_http_client

from twofold.integrations import mcp as served
from twofold.integrations.mcp import make_mcp_server
from twofold.integrations.serving import Runner

COMMAND = [sys.executable, "-m", "twofold", "mcp"]
# The newer protocol, which has no sessions over HTTP, and the previous one.
MODES = ["auto", "legacy"]


class Answer(NamedTuple):
    """A tool's answer."""

    is_error: bool
    text: str
    facts: dict[str, Any]


Call = Callable[..., Answer]
Connect = Callable[[], contextlib.AbstractContextManager[Call]]


@contextlib.contextmanager
def connected(target: Any, mode: str) -> Iterator[Call]:
    """Yields a function that calls a tool on a separate connection: `call("move", game_id=…)`."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(
            mcp.Client(target, mode=mode, read_timeout_seconds=PATIENCE)
        ) as session,
    ):

        def call(tool: str, **arguments: object) -> Answer:
            result = portal.call(session.call_tool, tool, arguments).model_dump(by_alias=True)
            text = "\n".join(part["text"] for part in result["content"])
            return Answer(bool(result["isError"]), text, result["structuredContent"] or {})

        call.tools = lambda: portal.call(session.list_tools).tools  # type: ignore[attr-defined]
        yield call


def over_stdio(*options: str) -> Any:
    """Connects to a server that the client starts."""
    return mcp.StdioServerParameters(
        command=COMMAND[0], args=[*COMMAND[1:], *options], env=dict(os.environ)
    )


@contextlib.contextmanager
def over_http(*options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Runs a server; yields its address and its process."""
    command = [*COMMAND, "--http", "--port", "0", "--json", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["url"], process
        finally:
            process.kill()


INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "a", "version": "1"},
}


def messages(**calls: Any) -> bytes:
    """Returns requests as a client writes them: the parameters of each method."""
    lines = [{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": INITIALIZE}]
    lines += [
        {"jsonrpc": "2.0", "id": number, "method": method.replace("_", "/"), "params": params}
        for number, (method, params) in enumerate(calls.items(), 1)
    ]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def has_ipv6() -> bool:
    """Returns True if this machine has the address ::1."""
    with contextlib.suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
        return True
    return False


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Returns the address of an HTTP server that all tests share."""
    with over_http() as (url, _):
        yield url


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["stdio", "http"])
def connect(request: pytest.FixtureRequest, mode: str) -> Connect:
    """Makes connections to a server."""
    http = request.param == "http"
    target = request.getfixturevalue("url") if http else over_stdio()
    return lambda: connected(target, mode)


def test_a_game_of_2048_equals_the_environments_game(connect: Connect) -> None:
    env = gym.make("twofold/Game2048-v0", size=(3, 4)).unwrapped
    board, infos = env.reset(seed=5)
    generator = np.random.default_rng(1)
    total, illegal, is_over = 0.0, 0, False
    with connect() as call:
        answer = call("new_game", rows=3, seed=5)
        game = answer.facts["game_id"]
        assert answer.facts["seed"] == 5
        assert answer.text.startswith(f"Game {game}, seed 5.\n")
        while not is_over:
            assert Game2048.text(board) in answer.text
            action = int(generator.integers(4))
            is_legal = infos["action_mask"][action] == 1
            board, reward, is_over, _, infos = env.step(action)
            total += float(reward)
            illegal += not is_legal
            answer = call("move", game_id=game, direction=DIRECTIONS[action])
            legal = [] if is_over else np.flatnonzero(infos["action_mask"]).tolist()
            assert answer.facts == {
                "game_id": game,
                "board": tile_values(board).tolist(),
                "score": infos["score"],
                "highest_tile": 2 ** infos["max_exponent"],
                "moves": infos["moves"],
                "legal": [DIRECTIONS[number] for number in legal],
                "over": is_over,
                "return": total,
            }
            assert not answer.is_error
            assert (f"Nothing moves {DIRECTIONS[action]}." in answer.text) == (not is_legal)
        assert illegal > 3
        assert answer.text.endswith("The game is over: no tile can move.")
        assert call("look", game_id=game) == answer
        for tool, arguments in (("move", {"direction": "up"}), ("hint", {})):
            refused = call(tool, game_id=game, **arguments)
            assert refused == (True, "the game is over: no tile can move", {})


def test_a_hint_is_the_action_of_expectimax_and_changes_nothing(connect: Connect) -> None:
    env: Any = gym.make("twofold/Game2048-v0").unwrapped
    board, _ = env.reset(seed=9)
    seen = set()
    with connect() as call:
        game = call("new_game", seed=9).facts["game_id"]
        for _ in range(12):
            before = call("look", game_id=game)
            hint = call("hint", game_id=game)
            assert call("look", game_id=game) == before
            snapshot = env.snapshot()
            expected = int(env._batch.rollout(1, policy="expectimax").actions[0, 0])
            env.restore(snapshot)
            assert hint.text == f"Expectimax moves {DIRECTIONS[expected]}."
            assert hint.facts == {"game_id": game, "hint": DIRECTIONS[expected]}
            assert hint.facts["hint"] in before.facts["legal"]
            seen.add(expected)
            board, *_ = env.step(expected)
            answer = call("move", game_id=game, direction=hint.facts["hint"])
            assert answer.facts["board"] == tile_values(board).tolist()
        assert len(seen) > 1
        small = call("new_game", rows=3, columns=3).facts["game_id"]
        assert call("hint", game_id=small) == (True, "hints in 2048 need a 4 x 4 board", {})


def test_a_hint_comes_from_the_server_of_the_boards(own_server: Server, mode: str) -> None:
    with connected(make_mcp_server(endpoint=own_server.tcp), mode) as call:
        game = call("new_game").facts["game_id"]
        assert not call("hint", game_id=game).is_error
        assert statistics_of(own_server.ipc).counters.sessions_created == 2


def test_concentration_ends_as_soon_as_a_perfect_memory_can(connect: Connect) -> None:
    env: Any = ConcentrationEnv(size=(2, 5), peeks=0)
    cards, infos = env.reset(seed=3)
    policy = PerfectMemory(env)
    text = env.game.text
    with connect() as call:
        answer = call("new_game", game="concentration", rows=2, columns=5, seed=3)
        game, is_over, turned = answer.facts["game_id"], False, 0
        while not is_over:
            assert text(cards) in answer.text
            card = policy(cards, infos["action_mask"])
            if turned % 3 == 2:  # the memory also sees the cards that are turned without a hint
                hint = call("hint", game_id=game)
                assert hint.facts["hint"] == card
                assert hint.text == f"With a perfect memory, turn card {card}."
            turned += 1
            cards, _, is_over, _, infos = env.step(card)
            answer = call("turn_card", game_id=game, card=card)
            visible = [
                ["?" if code == 5 else "." if code == 6 else code + 1 for code in row]
                for row in cards.tolist()
            ]
            assert answer.facts["cards"] == visible
            assert answer.facts["over"] == is_over
        assert (answer.facts["pairs"], answer.facts["turns"]) == (5, infos["turns"])
        assert answer.text.endswith("The game is over: all pairs are found.")


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("new_game", {"game": "chess"}, "game: 'chess' is not one of ['2048', 'concentration']"),
    ("new_game", {"rows": 99}, "rows is 99; expected 2 ... 8"),
    ("new_game", {"columns": 9}, "columns is 9; expected 2 ... 8"),
    ("new_game", {"game": "concentration", "rows": 17}, "rows is 17; expected 1 ... 16"),
    ("new_game", {"rows": "four"}, "rows: 'four' is not of type 'integer'"),
    (
        "new_game",
        {"game": "concentration", "rows": 3, "columns": 3},
        "3 rows of 3 are 9 cards; expected an even number of cards, at most 128",
    ),
    ("new_game", {"seed": -1}, "seed: -1 is less than the minimum of 0"),
    ("new_game", {"seed": 2**53}, "seed: 9007199254740992 is greater than the maximum"),
    ("new_game", {"seed": 1.5}, "seed: 1.5 is not of type 'integer'"),
    ("move", {"game_id": "nonsense", "direction": "up"}, "there is no game 'nonsense'; start one"),
    ("move", {"game_id": 7, "direction": "up"}, "game_id: 7 is not of type 'string'"),
    ("move", {"game_id": "[7]", "direction": "up"}, "there is no game '[7]'"),
    ("new_game", {"size": 5}, "('size' was unexpected)"),
    ("new_game", {"rows": 3, "colums": 2}, "('colums' was unexpected)"),
    ("move", {"game_id": "{tiles}", "direction": "up", "context": 1}, "('context' was unexpected)"),
    ("move", {"direction": "up"}, "'game_id' is a required property"),
    ("move", {"game_id": "{tiles}"}, "'direction' is a required property"),
    ("fly", {"direction": "up"}, "Unknown tool: fly"),
    (
        "move",
        {"game_id": "{tiles}", "direction": "north"},
        "direction: 'north' is not one of ['up', 'right', 'down', 'left']",
    ),
    ("move", {"game_id": "{tiles}", "direction": 3}, "direction: 3 is not one of ['up'"),
    ("move", {"game_id": "{cards}", "direction": "up"}, "is played with turn_card"),
    ("turn_card", {"game_id": "{tiles}", "card": 1}, "is played with move"),
    ("turn_card", {"game_id": "{cards}", "card": 16}, "card is 16; expected 0 ... 15"),
    ("turn_card", {"game_id": "{cards}", "card": "one"}, "card: 'one' is not of type 'integer'"),
    ("look", {"game_id": ["a"]}, "game_id: ['a'] is not of type 'string'"),
    ("hint", {"game_id": None}, "'game_id' is a required property"),
    ("end_game", {"game_id": "nonsense"}, "there is no game 'nonsense'"),
]


def test_bad_input_gets_a_sentence_and_plays_nothing(connect: Connect) -> None:
    with connect() as call:
        games = {
            "tiles": call("new_game").facts["game_id"],
            "cards": call("new_game", game="concentration").facts["game_id"],
        }
        before = [call("look", game_id=game) for game in games.values()]
        for tool, arguments, sentence in WRONG:
            filled = {
                name: value.format(**games) if isinstance(value, str) else value
                for name, value in arguments.items()
            }
            answer = call(tool, **filled)
            assert answer.is_error, (tool, arguments)
            assert sentence in answer.text, (tool, arguments, answer.text)
            assert not answer.facts
        assert [call("look", game_id=game) for game in games.values()] == before


def test_two_clients_play_at_the_same_time_and_only_their_own_games(connect: Connect) -> None:
    with connect() as first, connect() as second:
        games = [call("new_game", seed=8).facts["game_id"] for call in (first, second)]
        assert games[0] != games[1]
        answers: list[list[Answer]] = [[], []]

        def play(index: int) -> None:
            call = (first, second)[index]
            for _ in range(15):
                for direction in DIRECTIONS:
                    answer = call("move", game_id=games[index], direction=direction)
                    answers[index].append(answer)

        threads = [threading.Thread(target=play, args=[index]) for index in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # Equal seeds and moves give equal games, so neither client has moved in the other's game.
        assert [answer.text for answer in answers[0]] == [answer.text for answer in answers[1]]
        assert answers[0][-1].facts["moves"] > 20


def test_a_drawn_seed_is_exact_in_javascript_and_starts_the_same_game(connect: Connect) -> None:
    seeds = set()
    with connect() as call:
        for _ in range(5):
            begun = call("new_game").facts
            again = call("new_game", seed=int(float(begun["seed"]))).facts
            assert (again["seed"], again["board"]) == (begun["seed"], begun["board"])
            seeds.add(begun["seed"])
            for facts in (begun, again):
                call("end_game", game_id=facts["game_id"])
    assert len(seeds) == 5


def test_zero_is_a_seed(mode: str) -> None:
    with connected(make_mcp_server(), mode) as call:
        assert call("new_game", seed=0).facts["seed"] == 0


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_session_has_no_access_to_anothers_game(transport: str, url: str) -> None:
    target = url if transport == "http" else over_stdio()
    with connected(target, "legacy") as first, connected(target, "legacy") as second:
        game = first("new_game").facts["game_id"]
        for tool in ("look", "hint", "end_game"):
            assert second(tool, game_id=game).text.startswith(f"there is no game '{game}'")
        assert not first("look", game_id=game).is_error


def test_without_sessions_a_game_is_found_by_its_id(url: str) -> None:
    with connected(url, "auto") as call:
        begun = call("new_game", seed=4)
    with connected(url, "auto") as call:
        again = call("look", game_id=begun.facts["game_id"])
        assert again.facts["board"] == begun.facts["board"]


def test_a_hundred_calls_without_an_answer_delay_no_other_call(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, answer = threading.Semaphore(0), threading.Event()
    for_models = TextGame.for_models

    def without_answer(name: str, arguments: Mapping[str, Any]) -> TextGame:
        if name == "concentration":
            started.release()
            assert answer.wait(PATIENCE)
        return for_models(name, arguments)

    monkeypatch.setattr(TextGame, "for_models", without_answer)
    with (
        connected(make_mcp_server(max_games=200), mode) as call,
        ThreadPoolExecutor(100) as threads,
    ):
        waiting = [threads.submit(call, "new_game", game="concentration") for _ in range(100)]
        try:
            assert all(started.acquire(timeout=PATIENCE) for _ in range(100))
            assert not call("new_game").is_error
            assert not any(each.done() for each in waiting)
        finally:
            answer.set()
        assert not any(each.result().is_error for each in waiting)


def test_a_new_game_does_not_wait_for_the_end_of_an_idle_one(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_closing, answer = threading.Event(), threading.Event()

    def without_answer(env: Any) -> None:
        is_closing.set()
        assert answer.wait(PATIENCE)

    monkeypatch.setattr(served, "_IDLE_SECONDS", -PATIENCE)
    monkeypatch.setattr(TwofoldEnv, "close", without_answer)
    with connected(make_mcp_server(), mode) as call:
        idle = call("new_game").facts["game_id"]
        try:
            assert not call("new_game").is_error
            assert is_closing.wait(PATIENCE)
            assert call("look", game_id=idle).is_error
        finally:
            answer.set()


def test_a_new_game_closes_the_games_without_a_call_for_half_an_hour(mode: str) -> None:
    server = make_mcp_server()
    with connected(server, mode) as call:
        games = [call("new_game").facts["game_id"] for _ in range(3)]
        for game, minutes in zip(games, (31, 31, 29), strict=True):
            server._games._games[game].used -= 60 * minutes
        assert not call("look", game_id=games[0]).is_error
        assert not call("new_game").is_error
        ended = [call("look", game_id=game).is_error for game in games]
    assert ended == [False, True, False]


def test_a_game_with_a_call_in_progress_is_not_idle(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_playing, answer = threading.Event(), threading.Event()
    play = TextGame.play

    def slowly(game: TextGame, action: object) -> str:
        is_playing.set()
        assert answer.wait(PATIENCE)
        return play(game, action)

    monkeypatch.setattr(served, "_IDLE_SECONDS", -PATIENCE)
    monkeypatch.setattr(TextGame, "play", slowly)
    with connected(make_mcp_server(), mode) as call, ThreadPoolExecutor() as pool:
        game_id = call("new_game").facts["game_id"]
        move = pool.submit(call, "move", game_id=game_id, direction="up")
        try:
            assert is_playing.wait(PATIENCE)
            assert not call("new_game").is_error
        finally:
            answer.set()
        assert not move.result().is_error
        assert not call("look", game_id=game_id).is_error


def test_a_session_has_at_most_the_allowed_number_of_games(mode: str) -> None:
    with over_http("--max-games", "2") as (url, _), connected(url, mode) as call:
        games = [call("new_game").facts["game_id"] for _ in range(2)]
        refused = call("new_game")
        assert refused.is_error
        # Without sessions, the games may belong to other clients at the same address.
        others = f" ({games[0]}, {games[1]})" if mode == "legacy" else ", or try again later"
        assert refused.text == (
            f"2 games are open, which is the maximum; close one with end_game{others}"
        )
        with connected(url, "legacy") as other_session:
            assert not other_session("new_game").is_error
        assert call("end_game", game_id=games[0]).text == f"Game {games[0]} is closed."
        assert call("look", game_id=games[0]).is_error
        assert not call("new_game").is_error
        assert not call("look", game_id=games[1]).is_error


def test_a_client_without_sessions_can_not_invent_a_session() -> None:
    with over_http("--max-games", "1") as (url, _):

        def named(session_id: str) -> Any:
            headers = {"mcp-session-id": session_id}
            return streamable_http_client(url, http_client=httpx2.AsyncClient(headers=headers))

        with connected(named("first"), "auto") as call:
            assert not call("new_game").is_error
        with connected(named("second"), "auto") as call:
            assert call("new_game").text.startswith("1 games are open, which is the maximum")


def test_the_games_of_a_session_end_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "_MAX_GAMES", 2)
    server = make_mcp_server()
    runner = Runner(server.streamable_http_app(), port=0)
    thread = threading.Thread(target=runner.run)
    thread.start()
    url = f"{runner.url}/mcp"
    try:
        with connected(url, "legacy") as others:
            game = others("new_game").facts["game_id"]
            with connected(url, "legacy") as call:
                assert not call("new_game").is_error
                assert others("new_game").text == "the server already has 2 games; try again later"
            assert not others("new_game").is_error
            # A page of another site may not end a session.
            session_id = server._games._games[game].owner.name
            headers = {"mcp-session-id": session_id, "origin": "http://elsewhere"}
            assert httpx2.delete(url, headers=headers).status_code == 403
            assert not others("look", game_id=game).is_error
    finally:
        runner.stop()
        thread.join(PATIENCE)


def test_a_game_that_starts_while_its_session_ends_frees_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(served, "_MAX_GAMES", 1)
    begins, has_ended = threading.Event(), threading.Event()
    start = TextGame.start

    def wait(game: TextGame, seed: Any) -> None:
        begins.set()
        assert has_ended.wait(PATIENCE)
        start(game, seed)

    runner = Runner(make_mcp_server().streamable_http_app(), port=0)
    thread = threading.Thread(target=runner.run)
    thread.start()
    url = f"{runner.url}/mcp"
    try:
        with ThreadPoolExecutor() as pool:
            with monkeypatch.context() as patch:
                patch.setattr(TextGame, "start", wait)
                with connected(url, "legacy") as call:
                    answer = pool.submit(call, "new_game")
                    assert begins.wait(PATIENCE)
                has_ended.set()
                with contextlib.suppress(Exception):  # a session that has ended gets no answer
                    answer.result(PATIENCE)
            with connected(url, "legacy") as others:
                assert not others("new_game").is_error
    finally:
        has_ended.set()
        runner.stop()
        thread.join(PATIENCE)


def test_a_restarted_server_of_boards_continues_its_games(own_server: Server, mode: str) -> None:
    env = gym.make("twofold/Game2048-v0").unwrapped
    env.reset(seed=1)
    options = ["--endpoint", own_server.tcp, "--timeout", "10"]
    with connected(over_stdio(*options), mode) as call:
        game = call("new_game", seed=1).facts["game_id"]
        for action in (0, 1):
            board, *_ = env.step(action)
            answer = call("move", game_id=game, direction=DIRECTIONS[action])
            assert answer.facts["board"] == tile_values(board).tolist()
        own_server.kill()
        lost = call("move", game_id=game, direction="down")
        assert lost.is_error
        assert own_server.tcp in lost.text
        other = call("move", game_id=game, direction="up")
        assert other == (True, "the last action got no answer; repeat 'down' first", {})
        own_server.start_again()
        board, *_ = env.step(2)
        answer = call("move", game_id=game, direction="down")
        while answer.is_error:  # the client pauses between attempts to connect
            answer = call("move", game_id=game, direction="down")
        assert answer.facts["board"] == tile_values(board).tolist()
        assert answer.facts["moves"] == 3


def test_a_killed_server_is_an_error_for_its_client_over_stdio(mode: str, tmp_path: Path) -> None:
    script = f"echo $$ >{tmp_path}/pid; exec {COMMAND[0]} -m twofold mcp"
    target = mcp.StdioServerParameters(command="sh", args=["-c", script], env=dict(os.environ))
    with pytest.raises(Exception) as caught, connected(target, mode) as call:  # noqa: PT011, PT012
        game = call("new_game").facts["game_id"]
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
        call("look", game_id=game)
    assert "closed" in repr(caught.value).lower()


def test_a_killed_server_is_an_error_for_its_client_over_http(mode: str) -> None:
    with over_http() as (url, process):
        with pytest.raises(Exception) as caught, connected(url, mode) as call:  # noqa: PT011, PT012
            game = call("new_game").facts["game_id"]
            process.kill()
            process.wait()
            call("look", game_id=game)
        assert not isinstance(caught.value, (AssertionError, TimeoutError))


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_server(number: int, status: int, mode: str) -> None:
    with over_http() as (url, process), connected(url, mode) as call:
        assert not call("new_game").is_error
        process.send_signal(number)
        assert process.wait(PATIENCE) == status
    command = [*COMMAND]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
        assert started.stdin is not None
        assert started.stdout is not None
        started.stdin.write(messages())
        started.stdin.flush()
        result = json.loads(started.stdout.readline())["result"]
        server = result["serverInfo"]
        assert (server["name"], server["version"]) == ("twofold", VERSION)
        assert "start with new_game" in result["instructions"]
        started.send_signal(number)
        assert started.wait(PATIENCE) == status


def test_a_server_on_all_addresses_has_clients_with_any_name_for_it(mode: str) -> None:
    with over_http("--host", "0.0.0.0") as (url, _), connected(url, mode) as call:
        assert url.startswith("http://0.0.0.0:")
        assert not call("new_game").is_error
        assert httpx2.post(url, headers={"host": "games.example"}).status_code != 421


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
def test_an_ipv6_address_is_served(mode: str) -> None:
    with over_http("--host", "::1") as (url, _), connected(url, mode) as call:
        assert url.startswith("http://[::1]:")
        assert not call("new_game").is_error


def test_the_end_of_the_input_ends_the_server() -> None:
    ran = subprocess.run(COMMAND, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE)
    assert (ran.returncode, ran.stdout) == (0, b"")


def test_the_end_of_the_input_does_not_wait_for_calls_without_an_answer() -> None:
    command = [*COMMAND, "--endpoint", "tcp://127.0.0.1:1", "--timeout", str(2 * PATIENCE)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(messages(tools_call={"name": "new_game"}, ping={}))
        process.stdin.flush()
        # The reply to the ping comes while the call waits.
        assert [json.loads(process.stdout.readline())["id"] for _ in range(2)] == [0, 2]
        process.stdin.close()
        try:
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("streams", "message"),
    [
        ("<&-", "standard input or output is closed; serve over HTTP with --http"),
        (">&-", "standard input or output is closed; serve over HTTP with --http"),
        (">/dev/full", "[Errno 28] No space left on device"),
    ],
)
def test_closed_and_full_streams_are_reported_in_one_line(streams: str, message: str) -> None:
    shell = ["sh", "-c", f'"$@" {streams}', "sh", *COMMAND]
    ran = subprocess.run(shell, input=messages(), capture_output=True, timeout=PATIENCE)
    assert (ran.returncode, ran.stderr.decode()) == (1, f"twofold mcp: {message}\n")


def test_a_client_can_read_the_arguments_of_each_tool(connect: Connect) -> None:
    with connect() as call:
        tools = {tool.name: tool.model_dump(by_alias=True) for tool in call.tools()}  # type: ignore[attr-defined]
    assert tools.keys() == {"new_game", "move", "turn_card", "look", "hint", "end_game"}
    read_only = {
        name for name, tool in tools.items() if (tool["annotations"] or {}).get("readOnlyHint")
    }
    assert read_only == {"look", "hint"}
    move = tools["move"]["inputSchema"]
    assert move["required"] == ["game_id", "direction"]
    assert move["properties"]["direction"]["enum"] == list(DIRECTIONS)
    new_game = tools["new_game"]["inputSchema"]
    assert new_game["properties"]["game"]["enum"] == ["2048", "concentration"]
    assert new_game["properties"]["rows"]["default"] == 4
    seed = new_game["properties"]["seed"]
    assert (seed["minimum"], seed["maximum"]) == (0, 2**53 - 1)
    turn_card = tools["turn_card"]["inputSchema"]["properties"]
    assert [turn_card[name]["type"] for name in ("game_id", "card")] == ["string", "integer"]
    assert "required" not in new_game
    assert not any(tool["inputSchema"]["additionalProperties"] for tool in tools.values())
    assert all(tool["description"] for tool in tools.values())


def test_a_port_in_use_is_named(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    address = url.removeprefix("http://").removesuffix("/mcp")
    port = address.rpartition(":")[2]
    assert cli.main(["mcp", "--http", "--port", port]) == cli.FAILED
    assert capsys.readouterr().err == f"twofold mcp: {address}: Address already in use\n"


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["--json"], 2, "--json requires --http"),
        (["--host", "0.0.0.0"], 2, "--host requires --http"),
        (["--port=8000"], 2, "--port requires --http"),
        (["--http", "--max-games", "0"], 2, "max_games is 0; expected at least 1"),
        (["--http", "--host", "192.0.2.1"], 1, "192.0.2.1:8000: Cannot assign requested address"),
        (["--http", "--host", "2001:db8::1", "--port", "80"], 1, "mcp: [2001:db8::1]:80: "),
        (["--http", "--host", ""], 2, "host is ''; expected the address or the name of this"),
        (["--http", "--host", "\x00"], 2, "host is '\\x00'; expected the address"),
        (["--http", "--host", "é" * 70], 2, "ééé'; expected the address"),
        (["--http", "--port", "70000"], 2, "port is 70000; expected 0 ... 65535"),
        (["--http", "--port", "x"], 2, "invalid int value"),
        (["--endpoint", "bogus"], 2, "endpoint 'bogus' is not an address; expected"),
        (["--http", "--endpoint", "tcp://x:99999"], 2, "has a port outside 1 ... 65535"),
    ],
)
def test_wrong_usage_is_reported(
    words: list[str], status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["mcp", *words]) == status
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [{"endpoint": "bogus"}, {"endpoint": 5}, {"timeout": -1}, {"keys": "a"}]
)
def test_a_server_with_a_wrong_service_is_refused(arguments: Any) -> None:
    with pytest.raises(InvalidArgument) as raised:
        make_mcp_server(**arguments)
    assert [raised.value.field] == list(arguments)


@pytest.mark.usefixtures("_unstarted")
def test_a_wrong_variable_is_refused_before_the_first_game(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TWOFOLD_THREADS", "none")
    with pytest.raises(ServerStartFailed, match="TWOFOLD_THREADS is 'none'"):
        make_mcp_server()


def test_a_server_with_an_unknown_argument_is_refused() -> None:
    unknown: Any = {"size": 3}
    with pytest.raises(TypeError, match="unexpected keyword argument 'size'"):
        make_mcp_server(**unknown)
