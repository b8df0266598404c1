"""Chat models as players: how their replies are read, and how service errors are handled."""

import json
import re
import resource
import signal
import socket
import ssl
import subprocess
import sys
import threading
import urllib.error
from pathlib import Path
from typing import Any
from urllib.parse import unquote_plus

import numpy as np
import pytest
from chat_server import Answer, ChatServer, dripping, raw_server
from evaluations import first_legal
from servers import LATE, PATIENCE, wait_until

import twofold
from twofold import cli, errors
from twofold.judging import chat_api
from twofold.judging.chat import PROMPT, read_move
from twofold.judging.chat_api import ChatEndpoint
from twofold.policies import ChatModel

PAGE = Path(__file__).resolve().parents[2] / "docs/language_models/judging.md"
# Makes the games the same each time.
SECRET = "5a" * 32
LEGAL = re.compile(r"Moves that change the board: ([\w, ]+)\.")
USAGE = {"prompt_tokens": 100, "completion_tokens": 7}
# The beginning of a ServerHello in a record of 16 KiB.
HANDSHAKE = b"\x16\x03\x03\x40\x00\x02"


def no_wait(seconds: float) -> None:
    """Returns at once."""


def asked(document: dict[str, Any]) -> list[str]:
    """Returns the legal moves in the first message of a conversation."""
    found = LEGAL.search(document["messages"][0]["content"])
    assert found is not None
    return found[1].split(", ")


def first_legal_reply(document: dict[str, Any], number: int) -> Answer:
    return Answer(f"I think {asked(document)[0]}.", usage=USAGE)


def evaluated(
    server: ChatServer, episodes: int = 3, size: int = 2, **arguments: Any
) -> twofold.Evaluation:
    chat = ChatModel(server.url, "stub", **arguments)
    return twofold.evaluate(chat, episodes=episodes, endpoint="embedded", size=size, secret=SECRET)


def test_the_page_shows_the_prompt() -> None:
    board = "2 0 0 4\n0 0 0 0\n0 2 0 0\n0 0 0 0"
    prompt = PROMPT.format(board=board, legal="up, right, down, left")
    assert " ".join(prompt.split()) in " ".join(PAGE.read_text().split())


# ---- replies -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "move"),
    [
        ("up", "up"),
        ("  Right.\n", "right"),
        ("LEFT", "left"),
        ("Not up, because down keeps the corner: **Down**", "down"),
        ('{"move": "left"}', "left"),
        (r"So \boxed{\text{up}}.", "up"),
        ("Not up. My move: _left_", "left"),
        ("__Down__", "down"),
        ("move_right", "right"),
        ("up2, 4left, righté", None),
        ("<think>down? no, right</think>left", "left"),
        ("<think>down</think>", None),
        ("<think>it must be up", None),
        ("up</think><think>left", None),
        ("upwards, rightly, downhill", None),
        ("r\u0131ght, r\u0130ght", None),
        ("überup, upé", None),
        ("left. r\u0131ght", "left"),
        ("W", None),
        ("0", None),
        ("", None),
    ],
)
def test_the_move_is_the_last_direction_that_a_reply_names(text: str, move: str | None) -> None:
    assert read_move(text) == move


# ---- play ----------------------------------------------------------------------------------------


def test_a_model_plays_the_games_of_the_same_function() -> None:
    with ChatServer(first_legal_reply) as server:
        result = evaluated(server, size=3, options={"temperature": 0}, api_key="secret-1")
    expected = twofold.evaluate(first_legal, episodes=3, size=3, endpoint="embedded", secret=SECRET)
    np.testing.assert_array_equal(result.scores, expected.scores)
    assert result.failures == ()
    assert result.policy == "stub"
    path, headers, document = server.requests[0]
    assert path == "/v1/chat/completions"
    assert headers["authorization"] == "Bearer secret-1"
    assert document.keys() == {"model", "messages", "temperature"}
    assert (document["model"], document["temperature"]) == ("stub", 0)
    (message,) = document["messages"]
    assert message["role"] == "user"
    rows = message["content"].split("empty cell:\n")[1].split("\n\n")[0].splitlines()
    board = [[int(word) for word in row.split()] for row in rows]
    assert np.shape(board) == (3, 3)
    assert sorted(value for row in board for value in row)[-2:] in ([2, 2], [2, 4], [4, 4])
    moves = int(result.moves.sum())
    model = result.summary["model"]
    assert {name: model[name] for name in ("moves", "requests", "completions")} == {
        "moves": moves,
        "requests": moves,
        "completions": moves,
    }
    assert (model["prompt_tokens"], model["completion_tokens"]) == (100 * moves, 7 * moves)
    assert (model["malformed"], model["illegal"]) == (0, 0)
    assert model["seconds_per_move"] > 0
    assert "secret-1" not in repr(result) + str(result) + result.to_json()
    assert PROMPT.splitlines()[0] in str(result)


def test_a_reply_may_be_a_list_of_parts_of_which_only_text_counts() -> None:
    def in_parts(document: dict[str, Any], number: int) -> Answer:
        legal = asked(document)
        thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm, up or left?"}]}
        text = f"Not {legal[-1]}.\n{legal[0]}"
        parts = [{"type": "text", "text": part} for part in (text[:2], text[2:])]
        return Answer([thinking, *parts])

    with ChatServer(in_parts) as server:
        result = evaluated(server)
    with ChatServer(first_legal_reply) as server:
        expected = evaluated(server)
    assert result.failures == ()
    np.testing.assert_array_equal(result.scores, expected.scores)


def test_as_many_requests_are_in_progress_as_boards() -> None:
    together = threading.Barrier(4)

    def rule(document: dict[str, Any], number: int) -> Answer:
        if number < 4:
            together.wait(PATIENCE)
        return first_legal_reply(document, number)

    with ChatServer(rule) as server:
        result = evaluated(server, episodes=4)
    assert result.failures == ()
    assert not together.broken


def test_requests_leave_no_thread_behind() -> None:
    before = set(threading.enumerate())
    with ChatServer(first_legal_reply) as server:
        evaluated(server, episodes=1, timeout=LATE)
    wait_until(lambda: before.issuperset(threading.enumerate()))


def test_the_limit_on_open_files_is_raised_for_the_requests() -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (250, limits[1]))
    try:
        with ChatServer(first_legal_reply) as server:
            evaluated(server, episodes=2)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 2 * 2 + 256
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_bad_replies_are_corrected_and_counted() -> None:
    def rule(document: dict[str, Any], number: int) -> Answer:
        messages, legal = document["messages"], asked(document)
        if len(messages) == 1:
            return Answer("I resign.", usage=USAGE)
        if len(messages) == 3:
            illegal = [each for each in ("up", "right", "down", "left") if each not in legal]
            return Answer((illegal or ["nothing"])[0])
        return Answer(legal[0], usage=USAGE)

    with ChatServer(rule) as server:
        result = evaluated(server)
    expected = twofold.evaluate(first_legal, episodes=3, size=2, endpoint="embedded", secret=SECRET)
    np.testing.assert_array_equal(result.scores, expected.scores)
    moves, model = int(result.moves.sum()), result.summary["model"]
    assert model["completions"] == 3 * moves
    assert model["malformed"] + model["illegal"] == 2 * moves
    assert 0 < model["illegal"] < moves
    assert model["completions_without_tokens"] == moves
    assert model["prompt_tokens"] == 2 * 100 * moves
    third = next(document for _, _, document in server.requests if len(document["messages"]) == 5)
    assert [each["role"] for each in third["messages"]] == ["user", "assistant"] * 2 + ["user"]
    assert third["messages"][1]["content"] == "I resign."
    legal = ", ".join(asked(third))
    assert third["messages"][2]["content"] == (
        f"The reply names no direction. Moves that change the board: {legal}. Reply with one of "
        "them."
    )


@pytest.mark.parametrize(
    ("useless", "problem"),
    [
        (Answer(None), "The reply names no direction"),
        (Answer(" \n"), "The reply names no direction"),
        (Answer("<think>up, but " * 99, finish="length"), "The reply was cut off by its limit on"),
        (Answer("<think>up?</think>\n"), "The reply names no direction"),
    ],
)
def test_an_empty_reply_and_a_cut_off_one_are_not_sent_back(useless: Answer, problem: str) -> None:
    def rule(document: dict[str, Any], number: int) -> Answer:
        messages = document["messages"]
        if any(not each["content"].strip() or "<think>" in each["content"] for each in messages):
            return Answer(status=400, body=b"a message is empty, or too long for this model")
        if len(messages) == 3:
            return Answer(asked(document)[0])
        return Answer("None.") if problem in messages[0]["content"] else useless

    with ChatServer(rule) as server:
        result = evaluated(server, episodes=1)
    assert (result.failures, result.summary["model"]["malformed"]) == ((), 2 * result.moves[0])
    first, second, third = (document["messages"] for _, _, document in server.requests[:3])
    question, _, correction = second[0]["content"].rpartition("\n\n")
    assert question == first[0]["content"]
    assert correction.startswith(problem)
    assert third[:2] == [*second, {"role": "assistant", "content": "None."}]


@pytest.mark.parametrize(
    ("long", "repeated"),
    [
        ("x" * 9_999 + "I resign. \n", "x" * 991 + "I resign."),
        ("<think>" + "up? " * 9_999 + "</think>\n\nI resign.", "I resign."),
        ("<think>" + "up? " * 9_999, " up?" * 250),
    ],
)
def test_only_the_end_of_a_long_reply_is_sent_back(long: str, repeated: str) -> None:
    """The whole reply could exceed the model's context, which would end the evaluation."""

    def rule(document: dict[str, Any], number: int) -> Answer:
        messages = document["messages"]
        if sum(len(each["content"]) for each in messages) > 5_000:
            return Answer(status=400, body=b"too long for this model")
        return Answer(asked(document)[0]) if len(messages) == 3 else Answer(long)

    with ChatServer(rule) as server:
        result = evaluated(server, episodes=1)
    assert (result.failures, result.summary["model"]["malformed"]) == ((), result.moves[0])
    contents = [each["content"] for each in server.requests[1][2]["messages"]]
    assert contents[1] == repeated


@pytest.mark.parametrize(
    ("answer", "reason", "detail"),
    [
        (Answer("what?"), "malformed", "The reply names no direction"),
        (Answer("up", finish="length"), "malformed", "cut off by its limit on tokens"),
    ],
)
def test_a_model_that_can_not_be_corrected_fails_in_that_game(
    answer: Answer, reason: str, detail: str
) -> None:
    def rule(document: dict[str, Any], number: int) -> Answer:
        board = document["messages"][0]["content"].split("empty cell:\n")[1]
        return answer if "16" in board else first_legal_reply(document, number)

    with ChatServer(rule) as server:
        result = evaluated(server, episodes=4, size=3, retries=1)
    assert result.failures is not None
    assert len(result.failures) > 1
    assert {each.reason for each in result.failures} == {reason}
    assert detail in result.failures[0].detail
    assert result.summary["model"]["malformed"] == 2 * len(result.failures)
    assert result.max_exponents is not None
    for each in result.failures:
        assert each.episode is not None
        assert result.max_exponents[each.episode] == 4
        assert each.step == result.moves[each.episode] > 0


def test_half_of_a_surrogate_pair_is_not_sent_back() -> None:
    def rule(document: dict[str, Any], number: int) -> Answer:
        messages = document["messages"]
        if any("\ud83d" in each["content"] for each in messages):
            return Answer(status=400, body=b"not Unicode")
        return Answer(asked(document)[0] if len(messages) == 3 else "\ud83d hm")

    with ChatServer(rule) as server:
        result = evaluated(server, episodes=1)
    assert (result.failures, result.summary["model"]["malformed"]) == ((), result.moves[0])


def test_a_model_that_plays_illegal_moves_fails_and_both_reports_say_so() -> None:
    def rule(document: dict[str, Any], number: int) -> Answer:
        return Answer("left", usage=None)

    with ChatServer(rule) as server:
        result = evaluated(server, episodes=5)
    summary = json.loads(result.to_json())
    assert summary["failures"]["reasons"]["illegal"]["games"] == 5
    assert summary["model"]["prompt_tokens"] is None
    assert re.search(r"^illegal +5 +100.00 %", str(result), re.MULTILINE)
    assert re.search(r"^prompt tokens +-$", str(result), re.MULTILINE)
    again = twofold.Evaluation.from_json(result.to_json(games=True))
    assert again.summary == result.summary


def test_another_prompt_can_be_given() -> None:
    def rule(document: dict[str, Any], number: int) -> Answer:
        (message,) = document["messages"]
        assert re.fullmatch(r"(\d+ \d+\n){2}pick: [\w, ]+ \{x\}", message["content"])
        return Answer(message["content"].split("pick: ")[1].split(",")[0].split()[0])

    with ChatServer(rule) as server:
        result = evaluated(server, prompt="{board}\npick: {legal} {x}")
    assert result.failures == ()


# ---- services ------------------------------------------------------------------------------------


def test_a_busy_service_is_asked_again_after_the_time_that_it_names() -> None:
    troubles = [
        Answer(status=429, headers={"Retry-After": "7"}),
        Answer(status=500, headers={"Retry-After": "nan"}),
        Answer(status=503, headers={"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}),
        Answer(body=b"<html>"),
        Answer(body=b'{"choices": []}'),
    ]
    slept: list[float] = []

    def rule(document: dict[str, Any], number: int) -> Answer:
        return troubles[number] if number < len(troubles) else Answer("up", usage=USAGE)

    with ChatServer(rule) as server:
        completion = ChatEndpoint(server.url, "", 60.0, slept.append).complete([], {})
    assert (completion.text, completion.attempts, completion.prompt_tokens) == ("up", 6, 100)
    assert slept == [7, 2, 4, 8, 16]
    assert "authorization" not in server.requests[0][1]


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503])
def test_a_status_that_may_pass_is_followed_by_another_try(status: int) -> None:
    def rule(document: dict[str, Any], number: int) -> Answer:
        return Answer(status=status) if number == 0 else Answer("up")

    with ChatServer(rule) as server:
        completion = ChatEndpoint(server.url, "", 60.0, no_wait).complete([], {})
    assert (completion.text, completion.attempts) == ("up", 2)


def test_requests_to_a_busy_service_are_counted() -> None:
    def rule(document: dict[str, Any], number: int) -> Answer:
        busy = Answer(status=429, headers={"Retry-After": "0"})
        return busy if number % 2 == 0 else first_legal_reply(document, number)

    with ChatServer(rule) as server:
        result = evaluated(server, episodes=1)
    model = result.summary["model"]
    assert model["requests"] == len(server.requests) == 2 * model["completions"]


def test_an_endpoint_can_not_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"

    def rule(document: dict[str, Any], number: int) -> Answer:
        return Answer(status=400, reason=f"No {evil[:-1]}", body=f"no {evil} such model".encode())

    with ChatServer(rule) as server:
        command = ["evaluate", "--chat", server.url, "--model", "stub", "--episodes", "1"]
        assert cli.main(command) == 1
        said = capsys.readouterr().err
        assert cli.main([*command, "--json"]) == 1
        printed = json.loads(capsys.readouterr().out)["error"]["message"]
    assert "HTTP 400 No ?]0;owned??[2J?31m: no ?]0;owned??[2J?31m? such model" in said
    assert said.removesuffix("\n").isprintable()
    assert printed.isprintable()


def test_a_message_contains_the_beginning_of_an_endpoints_text() -> None:
    with (
        ChatServer(lambda document, number: Answer(status=400, reason="x" * 50_000)) as server,
        pytest.raises(errors.ModelUnavailable, match="HTTP 400 xxx") as info,
    ):
        ChatEndpoint(server.url, "", 60.0).complete([], {})
    assert len(str(info.value)) < 600


def test_a_long_wait_is_cut_short() -> None:
    slept: list[float] = []

    def rule(document: dict[str, Any], number: int) -> Answer:
        return Answer("up") if number else Answer(status=429, headers={"Retry-After": "86400"})

    with ChatServer(rule) as server:
        ChatEndpoint(server.url, "", 60.0, slept.append).complete([], {})
    assert slept == [60]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"[" * 100_000, "): [[["),
        (b"null", "not a chat completion (TypeError): null"),
        (b"", "not a chat completion (JSONDecodeError)"),
        (b'{"choices": [{"message": null}]}', "not a chat completion (AttributeError): {"),
        (b'{"error":\n"no such model, hidden-1"}', '(KeyError): {"error": "no such model, ***"}'),
        (b"<title>Please log in</title>", "(JSONDecodeError): <title>Please log in</title>"),
        (b" " * (5 << 20), "larger than 4,194,304 bytes"),
        (b"\xff\xfe", "not a chat completion"),
    ],
)
def test_a_reply_that_is_not_a_completion_is_an_error_after_six_attempts(
    body: bytes, problem: str
) -> None:
    slept: list[float] = []
    with ChatServer(lambda document, number: Answer(body=body)) as server:
        endpoint = ChatEndpoint(server.url, "hidden-1", 60.0, slept.append)
        with pytest.raises(errors.ModelUnavailable, match="6 attempts failed") as info:
            endpoint.complete([], {})
    assert problem in str(info.value)
    assert len(server.requests) == 6
    assert info.value.status is None


@pytest.mark.parametrize("status", [b"200 OK", b"400 Wrong"])
@pytest.mark.parametrize("head", [b"\r\n", b"Transfer-Encoding: chunked\r\n\r\n-1\r\n"])
def test_an_endless_reply_is_read_only_up_to_the_limit(status: bytes, head: bytes) -> None:
    sent = 0

    def flood(connection: socket.socket) -> None:
        nonlocal sent
        connection.sendall(b"HTTP/1.1 " + status + b"\r\n" + head)
        while sent < 1 << 28:
            connection.sendall(b" " * (1 << 20))
            sent += 1 << 20

    with raw_server(flood) as url:
        endpoint = ChatEndpoint(url, "", PATIENCE, no_wait)
        with pytest.raises(errors.ModelUnavailable, match=r"larger than 4,194,304 bytes"):
            endpoint.complete([], {})
    # Six attempts, each with what the sockets hold.
    assert sent < 1 << 27


@pytest.mark.parametrize("status", [400, 401, 404, 302, 307])
def test_a_refusal_and_a_redirect_end_the_evaluation_at_once(status: int) -> None:
    with ChatServer(lambda document, number: Answer("up")) as elsewhere:

        def rule(document: dict[str, Any], number: int) -> Answer:
            return Answer(
                status=status,
                body=b'{"error":\n "no such model"}',
                headers={"Location": elsewhere.url},
            )

        with (
            ChatServer(rule) as server,
            pytest.raises(
                errors.ModelUnavailable, match=f'HTTP {status}.*{{"error": "no su'
            ) as info,
        ):
            evaluated(server, episodes=1, api_key="secret-1")
    assert info.value.status == status
    assert len(server.requests) == 1
    assert elsewhere.requests == []
    assert "secret-1" not in str(info.value)


def test_a_service_that_does_not_answer_is_an_error() -> None:
    slept: list[float] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:  # nobody accepts
        port = listening.getsockname()[1]
        endpoint = ChatEndpoint(f"http://127.0.0.1:{port}", "", 0.05, slept.append)
        with pytest.raises(errors.ModelUnavailable, match="timed out"):
            endpoint.complete([], {})
    endpoint = ChatEndpoint(f"http://127.0.0.1:{port}", "", 5.0, slept.append)
    with pytest.raises(errors.ModelUnavailable, match="Connection refused"):
        endpoint.complete([], {})
    assert slept == [1, 2, 4, 8, 16] * 2


@pytest.mark.parametrize(
    "beginning",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nX-Slow: ",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n{",
        b"HTTP/1.1 500 Wrong\r\nContent-Length: 1000000\r\n\r\n",
        b"HTTP/1.1 400 Wrong\r\n\r\n",
        HANDSHAKE,
    ],
)
def test_a_slowly_dripping_reply_ends_at_the_time_limit(beginning: bytes) -> None:
    slept: list[float] = []
    with dripping(beginning) as url:
        url = url.replace("http", "https") if beginning == HANDSHAKE else url
        endpoint = ChatEndpoint(url, "", 0.2, slept.append)
        with pytest.raises(errors.ModelUnavailable, match="timed out"):
            endpoint.complete([], {})
    assert slept == [1, 2, 4, 8, 16]


def test_a_close_ends_a_wait_for_the_next_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_api, "_LONGEST_WAIT", LATE)
    busy = Answer(status=503, headers={"Retry-After": str(LATE)})
    with ChatServer(lambda *_: busy) as server:
        endpoint = ChatEndpoint(server.url, "", LATE)

        def close() -> None:
            wait_until(lambda: bool(server.requests))
            endpoint.close()

        threading.Thread(target=close).start()
        with pytest.raises(errors.ModelUnavailable, match="this client was closed"):
            endpoint.complete([], {})
        assert len(server.requests) == 1


def test_an_error_on_one_board_does_not_wait_for_the_others() -> None:
    is_over = threading.Event()

    def rule(document: dict[str, Any], number: int) -> Answer:
        if number == 3:
            return Answer(status=401)
        is_over.wait(PATIENCE)
        return Answer("up")

    with ChatServer(rule) as server:
        with pytest.raises(errors.ModelUnavailable, match="HTTP 401"):
            evaluated(server, episodes=4, timeout=600.0)
        is_over.set()


def test_the_finished_games_of_a_model_that_fails_can_be_repeated(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def rule(document: dict[str, Any], number: int) -> Answer:
        return Answer(status=402) if number == 20 else first_legal_reply(document, number)

    with ChatServer(rule) as server:
        given = ["--chat", server.url, "--model", "stub", "--size", "2", "--num-envs", "1"]
        assert cli.main(["evaluate", *given, "--json"]) == 1
        part, failure = map(json.loads, capsys.readouterr().out.splitlines())
        assert "HTTP 402" in failure["error"]["message"]
        assert 0 < part["episodes"] < 10
        assert part["model"]["completions"] == 20
        assert cli.main(["evaluate", *given, "--secret", part["secret"]]) == 0
        assert capsys.readouterr().out.startswith("stub on twofold/Game2048-v0: 10 games")


@pytest.mark.parametrize("refused_name", ["twofold-chat", "twofold-request"])
def test_a_limit_on_threads_is_reported_with_its_remedy(
    refused_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def start_some(thread: threading.Thread) -> None:
        if thread.name == refused_name:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_some)
    expected = r"play fewer boards at once \(num_envs\), or raise `ulimit -u` "
    refused = pytest.raises(errors.ResourceExhausted, match=expected)
    with ChatServer(first_legal_reply) as server, refused:
        evaluated(server)


def test_an_interrupt_ends_the_command_while_requests_and_retries_wait() -> None:
    is_over = threading.Event()

    def rule(document: dict[str, Any], number: int) -> Answer:
        if number % 2:
            is_over.wait(PATIENCE)
        return Answer(status=503, headers={"Retry-After": "60"})

    with ChatServer(rule) as server:
        command = [sys.executable, "-m", "twofold", "evaluate", "--chat", server.url]
        command += ["--model", "stub", "--episodes", "4", "--chat-timeout", "600"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            wait_until(lambda: len(server.requests) == 4)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=PATIENCE)
        is_over.set()
    assert (process.returncode, said) == (130, "")


def test_invalid_numbers_of_tokens_are_not_reported() -> None:
    invalid = ["9" * 4300, "9" * 5000, "-7", "1.5", "1e999", "true", '"7"', "[7]", "null", "1" * 14]

    def rule(document: dict[str, Any], number: int) -> Answer:
        good = Answer(asked(document)[0], usage={"prompt_tokens": 100, "completion_tokens": "X"})
        return Answer(body=good.body.replace(b'"X"', invalid[number % len(invalid)].encode()))

    with ChatServer(rule) as server:
        result = evaluated(server)
    model, moves = json.loads(result.to_json())["model"], int(result.moves.sum())
    assert (model["completions"], model["completions_without_tokens"]) == (moves, moves)
    assert (model["prompt_tokens"], model["completion_tokens"]) == (None, None)
    assert re.search(r"^completion tokens +-$", str(result), re.MULTILINE)
    assert len(server.requests) == moves > len(invalid)


def test_a_usage_that_is_not_an_object_costs_no_move() -> None:
    def rule(document: dict[str, Any], number: int) -> Answer:
        return Answer(asked(document)[0], usage=["100"])  # type: ignore[arg-type]

    with ChatServer(rule) as server:
        result = evaluated(server, episodes=1)
    assert result.summary["model"]["completions_without_tokens"] == result.moves.sum()


# ---- secrets -------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["secret/1+=\r\n", " secret/1+=\r", "secret/1+=\n"])
def test_white_space_around_a_key_is_not_sent(key: str) -> None:
    with ChatServer(lambda document, number: Answer("up")) as server:
        ChatEndpoint(server.url, key, 60.0).complete([], {})
    assert server.requests[0][1]["authorization"] == "Bearer secret/1+="


@pytest.mark.parametrize("key", ["secret\r\nX-More: 1", "secret 1", "sécret", "secret\x00"])
def test_a_key_that_no_header_can_contain_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(errors.InvalidArgument, match="api_key") as info:
        twofold.evaluate(ChatModel("http://127.0.0.1:9/v1", "m", api_key=key), episodes=1)
    assert info.value.field == "api_key"
    assert "cret" not in str(info.value)


@pytest.mark.parametrize("status", [400, 500])
@pytest.mark.parametrize(
    "echo",
    [
        "Bearer hidden/1+= is not known",
        r'{"key": "hidden\/1+="}',
        "?key=hidden%2F1%2B%3D",
        "?key=hidden%2F1%2B%3D and token-2",
        "?key=hidden%2f1%2b%3d and ?key=%68idden/1%2B=",
        r'{"url": "?key=hidden/1\u002B\u003d", "raw": "{\"key\": \"hidden\\/1+=\"}"}',
        "<pre>hidden&#x2F;1&#43;&#x3d;</pre>",
        "." * 290 + "hidden/1+=",
    ],
)
def test_a_key_that_the_endpoint_echoes_is_masked(echo: str, status: int) -> None:
    def rule(document: dict[str, Any], number: int) -> Answer:
        return Answer(status=status, body=echo.encode(), reason="No hidden/1+=, no token-2")

    with ChatServer(rule) as server:
        url = f"{server.url}?key=token-2"
        endpoint = ChatEndpoint(url, "hidden/1+=\r\n", 60.0, no_wait)
        with pytest.raises(errors.ModelUnavailable) as info:
            endpoint.complete([], {})
    message = str(info.value)
    assert "/v1/chat/completions?***: " in message
    assert f"HTTP {status} No ***, no ***: " in message
    assert "idden" not in message
    assert "token-2" not in message
    assert server.requests[0][0] == "/v1/chat/completions?key=token-2"


@pytest.mark.parametrize(
    ("key", "echo"),
    [
        (r"ab\cd1234%2Fx", r'{"key": "ab\\cd1234%2Fx"}'),
        ("sk-1+00%abcd&lt/=", "<pre>sk-1+00%abcd&amp;lt/=</pre>"),
        ("sk-1+00%abcd&lt/=", "?key=sk-1%2B00%25abcd%26lt%2F%3D"),
    ],
)
def test_a_key_that_contains_escapes_is_masked(key: str, echo: str) -> None:
    with ChatServer(lambda *_: Answer(status=400, body=echo.encode())) as server:
        endpoint = ChatEndpoint(server.url, key, 60.0, no_wait)
        with pytest.raises(errors.ModelUnavailable) as info:
            endpoint.complete([], {})
    assert "***" in str(info.value)
    assert "cd" not in str(info.value)


@pytest.mark.parametrize(
    "query",
    [
        "key=hidden%2f1%3d",
        "sig=hidden:1%2F2",
        "key=hid%64en%20a+b",
        "key=hidden%ff%fe1",
        "hidden",
        "hidden=",
        "version=1&hidden%2B1",
    ],
)
def test_a_query_that_the_endpoint_echoes_as_it_was_sent_is_masked(query: str) -> None:
    def rule(document: dict[str, Any], number: int) -> Answer:
        path, _, _ = server.requests[number]
        return Answer(status=404, body=f"Cannot POST {path} ({unquote_plus(path)})".encode())

    with (
        ChatServer(rule) as server,
        pytest.raises(errors.ModelUnavailable, match=r"Cannot POST .*\*\*\*") as info,
    ):
        ChatEndpoint(f"{server.url}?{query}", "", 60.0).complete([], {})
    assert server.requests[0][0].endswith(f"?{query}")
    assert "hid" not in str(info.value)


def test_a_key_of_a_few_letters_does_not_garble_messages() -> None:
    with (
        ChatServer(lambda *_: Answer(status=400, body=b"a bad table")) as server,
        pytest.raises(errors.ModelUnavailable, match="a bad table"),
    ):
        ChatEndpoint(server.url, "ab", 60.0).complete([], {})


def test_a_key_that_begins_like_the_query_is_masked_to_its_end() -> None:
    key = "secret-1-and-more"
    with ChatServer(lambda *_: Answer(status=400, body=f"no {key} here".encode())) as server:
        endpoint = ChatEndpoint(f"{server.url}?key=secret-1", key, 60.0)
        with pytest.raises(errors.ModelUnavailable, match=r"no \*\*\* here"):
            endpoint.complete([], {})


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://user:token-2@127.0.0.1:9/v1", "http://***@127.0.0.1:9/v1"),
        ("ftp://user:token-2@127.0.0.1/v1", "ftp://***@127.0.0.1/v1"),
        ("ftp://127.0.0.1/v1?key=token-2", "ftp://127.0.0.1/v1?***"),
        ("http://127.0.0.1:token-2/v1", "host or port"),
        ("http://[token-2/v1", "host or port"),
        ("http://127.0.0.1:9/v1?key=token-2 3", "printable"),
        ("http://127.0.0.1:99999/v1?key=token-2", "host or port"),
        ("http://127.0.0.1:0/v1?key=token-2", "host or port"),
        ("http://:80/v1?key=token-2", "host or port"),
        ("http://127.0.0.1\x1b/v1?key=token-2", "printable"),
        ("http://münchen.de/v1?key=token-2", "printable"),
        (b"http://127.0.0.1/token-2", "type bytes"),
    ],
)
def test_a_refused_url_does_not_reveal_its_secrets(url: Any, words: str) -> None:
    with pytest.raises(errors.InvalidArgument, match=re.escape(words)) as info:
        ChatEndpoint(url, "", 60.0)
    assert info.value.field == "url"
    assert "token-2" not in str(info.value)
    assert "token-2" not in repr(ChatModel(url, "m"))


@pytest.mark.parametrize("proxy", ["http://a..b", "http://a:port"])
def test_an_invalid_proxy_is_not_tried_again(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.setenv("no_proxy", "")
    slept: list[float] = []
    with pytest.raises(errors.ModelUnavailable):
        ChatEndpoint("http://127.0.0.1:9/v1", "", 5.0, slept.append).complete([], {})
    assert slept == []


def test_a_certificate_that_is_refused_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    endpoint = ChatEndpoint("https://127.0.0.1:9/v1", "", 5.0, slept.append)

    def refuse(*_: Any, **__: Any) -> None:
        raise urllib.error.URLError(ssl.SSLCertVerificationError("self-signed"))

    monkeypatch.setattr(endpoint._opener, "open", refuse)
    with pytest.raises(errors.ModelUnavailable, match="self-signed"):
        endpoint.complete([], {})
    assert slept == []


def test_addresses_are_valid() -> None:
    for url in ("https://[::1]:8000/v1", "HTTP://Host:080/v1", "http://h:/"):
        ChatEndpoint(url, "", 1.0)


def test_a_url_with_a_key_is_in_no_report_and_in_no_message() -> None:
    with ChatServer(first_legal_reply) as server:
        chat = ChatModel(f"{server.url}?key=token-2", "stub")
        result = twofold.evaluate(chat, episodes=1, endpoint="embedded", size=2)
    assert "token-2" not in str(result) + repr(result) + result.to_json(games=True)
    endpoint = ChatEndpoint(chat.url, "", 5.0, no_wait)  # nobody listens there now
    with pytest.raises(errors.ModelUnavailable, match=r"completions\?\*\*\*: 6 attempts") as info:
        endpoint.complete([], {})
    assert "token-2" not in str(info.value)


# ---- arguments and the command -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"url": "file:///etc/passwd"}, "url"),
        ({"url": "localhost:8000"}, "url"),
        ({"model": 5}, "model"),
        ({"prompt": "choose"}, "prompt"),
        ({"options": [("a", 1)]}, "options"),
        ({"options": {"temperature": float("nan")}}, "options"),
        ({"options": {"stop": {1}}}, "options"),
        ({"options": {"stream": True}}, "options"),
        ({"options": {"model": "other"}}, "options"),
        ({"options": {"messages": []}}, "options"),
        ({"api_key": 5}, "api_key"),
        ({"retries": -1}, "retries"),
        ({"timeout": 0}, "timeout"),
    ],
)
def test_wrong_arguments_are_refused_by_name(arguments: Any, field: str) -> None:
    with pytest.raises(errors.InvalidArgument) as info:
        twofold.evaluate(ChatModel(**{"url": "http://x/v1", "model": "m", **arguments}), episodes=1)
    assert info.value.field == field


def test_the_command_judges_a_model_with_the_key_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret-2")
    (tmp_path / "prompt.txt").write_text("Moves that change the board: {legal}.\n{board}")
    with ChatServer(first_legal_reply) as server:
        command = ["evaluate", "--chat", server.url, "--model", "stub", "--size", "2"]
        assert cli.main([*command, "--json"]) == 0
        printed = json.loads(capsys.readouterr().out)
        assert printed["episodes"] == 10
        assert len(printed["secret"]) == 64
        assert printed["rule_card"]["boards at once"] == 8
        assert printed["model"]["prompt"] == PROMPT
        assert printed["failures"]["games"] == 0
        prompt = f"{tmp_path}/prompt.txt"
        more = ["--prompt", prompt, "--options", '{"max_tokens": 9}', "--against", "random"]
        assert cli.main([*command, *more, "--retries", "5"]) == 0
        text = capsys.readouterr().out
        assert "stub against random, the same 10 seeds each" in text
        assert "the game ends after 5 corrections" in text
    _, headers, document = server.requests[-1]
    assert headers["authorization"] == "Bearer secret-2"
    assert document["max_tokens"] == 9
    assert document["messages"][0]["content"].startswith("Moves that change")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--chat", "http://127.0.0.1:9/v1"], "--chat requires --model NAME"),
        (["--chat", "ftp://x", "--model", "m"], "expected http"),
        (["--chat", "http://x", "--model", "m", "--options", "[]"], "expected a mapping"),
        (["--chat", "http://x", "--model", "m", "--options", "{a"], "'{a' is not JSON: Expecting"),
        (["--chat", "http://x", "--model", "m", "--options", "9" * 5000], "9' is not"),
        (["--chat", "http://x", "--model", "m", "--options", "[" + "9," * 5000 + "9]"], "mapping"),
        (["--chat", "http://x", "--model", "m", "--options", "[" * 100_000], "is not JSON"),
        (["--chat", "http://x", "--model", "m", "--options", '{"a": NaN}'], "options can't be"),
        (["--chat", "http://x:0", "--model", "m"], "host or port"),
        (["--chat", "http://x", "--model", "m", "--prompt", "/dev/null"], "not a regular file"),
    ],
)
def test_the_command_refuses_wrong_usage(
    words: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["evaluate", *words]) == 2
    said = capsys.readouterr().err
    assert text in said
    assert len(said.splitlines()[-1]) < 300
