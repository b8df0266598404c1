"""OpenEnv's server and clients that send too much, too little, or invalid messages."""

import contextlib
import http.client
import json
import logging
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from servers import PATIENCE

pytest.importorskip("openenv", reason="`make openenv-test` has it")

from openenv.core.generic_client import GenericEnvClient
from openenv_servers import Connection, serving

from twofold.integrations import serving as http_server

TOO_MUCH = 2**18 + 1


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(allow=["size"]) as url:
        yield url


@pytest.fixture
def connection(url: str) -> Iterator[Connection]:
    connection = Connection(url)
    yield connection
    connection.close()


def address(url: str) -> tuple[str, int]:
    host, port = url.removeprefix("http://").split(":")
    return host, int(port)


def answer_of(url: str, path: str, body: Any) -> tuple[int, Any]:
    """Returns the status and the content of the answer to a POST."""
    connection = http.client.HTTPConnection(*address(url), timeout=PATIENCE)
    with contextlib.closing(connection):
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


def post(url: str, path: str, body: Any) -> tuple[int, str]:
    """Returns the status and the detail of an answer, which must be an error."""
    status, answer = answer_of(url, path, body)
    return status, answer["detail"]


@pytest.mark.parametrize("path", ["/reset", "/step", "/mcp"])
@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_body_that_is_too_long_is_refused(url: str, path: str, is_chunked: bool) -> None:
    body = b" " * TOO_MUCH
    status, detail = post(url, path, iter([body]) if is_chunked else body)
    assert (status, detail) == (413, "the body is larger than 262,144 bytes")


@pytest.mark.parametrize(
    ("path", "body", "status", "detail"),
    [
        ("/step", {"action": {"direction": "up"}}, 409, "this connection has no episode"),
        ("/reset", {"size": 99}, 422, "size is 99; expected 2 ... 8"),
        ("/reset", {"goal": 64}, 422, "this server's reset does not accept 'goal'"),
    ],
)
def test_a_refusal_over_http_gives_the_reason(
    url: str, path: str, body: Any, status: int, detail: str
) -> None:
    answer = post(url, path, json.dumps(body))
    assert answer[0] == status
    assert answer[1].startswith(detail)


@pytest.mark.parametrize("path", ["/reset", "/step", "/twofold_2048/tasks"])
@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"\xff\xfe",
        b'{"seed": NaN}',
        b'{"seed": 1e400}',
        b'{"seed": ' + b"1" * 5000 + b"}",
        b'{"episode_id": "\\ud800"}',
        b'{"\\ud800": 1}',
        b'{"episode_id": {"a": Infinity}}',
        b'{"action": {"direction": NaN}}',
        b'{"action": {"direction": "\\ud800"}}',
        b'{"action": {"direction": "up"}, "timeout_s": NaN}',
        b'{"action": ' + b"[" * 300 + b"]" * 300 + b"}",
    ],
)
def test_a_body_that_is_not_json_gets_the_reason(url: str, path: str, body: bytes) -> None:
    status, detail = post(url, path, body)
    assert status == 422
    assert detail.startswith("Invalid JSON: ")


@pytest.mark.parametrize("name", ["self", "func"])
def test_names_of_openenvs_own_parameters_are_refused(url: str, name: str) -> None:
    detail = f"this server's reset does not accept {name!r}"
    assert post(url, "/reset", json.dumps({name: 1})) == (422, detail)


@pytest.mark.parametrize(
    ("first", "frame"),
    [
        pytest.param(b"", b"\x89\xfd" + bytes(4 + 125), id="unread answers to pings"),
        pytest.param(
            b"\x01\x81" + bytes(4) + b"{", b"\x00\x80" + bytes(4), id="empty fragments of a message"
        ),
    ],
)
def test_a_client_that_fills_the_servers_memory_is_closed(first: bytes, frame: bytes) -> None:
    opening = (
        b"GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    with serving() as url, socket.create_connection(address(url)) as deaf:
        deaf.settimeout(PATIENCE)
        deaf.sendall(opening)
        deaf.recv(1000)
        deaf.sendall(first)
        # Much more than the buffers of both ends hold.
        with pytest.raises(ConnectionError):
            deaf.sendall(frame * ((200 << 20) // len(frame)))


def test_a_reset_over_http_keeps_no_episode() -> None:
    with serving(keep_episodes=1) as url:
        lost = Connection(url)
        episode_id = lost.reset(seed=1)["episode_id"]
        lost.close()
        for _ in range(3):
            seen = answer_of(url, "/reset", '{"seed": 1}')[1]["observation"]
            assert seen["step"] == 0
        again = Connection(url)
        assert again.reset(episode_id=episode_id)["resumed"]
        assert not again.reset(episode_id=seen["episode_id"])["resumed"]
        again.close()


def test_unreachable_boards_are_not_an_internal_error(own_server: Any) -> None:
    with serving(endpoint=own_server.tcp, timeout=0.2) as url:
        own_server.kill()
        assert post(url, "/reset", "{}")[0] == 503


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ('{"jsonrpc": "2.0", "id": 1, "method": "\\ud800"}', -32700),
        ('{"jsonrpc": "2.0", "id": NaN, "method": "tools/list"}', -32700),
        ('{"id": 1, "method": "tools/list"}', -32601),
        ('{"id": 1, "method": "tools/call", "params": {"session_id": [1]}}', -32601),
        ('{"id": 1, "method": "openenv/session/close", "params": {"session_id": {}}}', -32601),
    ],
)
def test_a_wrong_body_for_mcp_gets_an_error_of_json_rpc(url: str, body: str, code: int) -> None:
    status, answer = answer_of(url, "/mcp", body)
    assert (status, answer["error"]["code"]) == (200, code)
    assert answer["id"] == (1 if code == -32601 else None)


def test_requests_over_http_do_not_count_as_connections() -> None:
    with serving(max_sessions=2) as url:
        for _ in range(3):
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create"})
            assert "twofold mcp" in answer_of(url, "/mcp", body)[1]["error"]["message"]
        player = Connection(url)
        assert player.reset(seed=1)["step"] == 0
        player.close()


@pytest.mark.parametrize("method", ["openenv/session/create", "openenv/session/close"])
def test_a_connection_can_neither_share_its_session_nor_end_another(
    connection: Connection, method: str
) -> None:
    connection.reset(seed=1)
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"session_id": "x"}}
    error = connection.error("mcp", request)
    assert error["code"] == "UNKNOWN_TYPE"
    assert "run `twofold mcp`" in error["message"]
    assert connection.step(direction="up")["step"] == 1


def test_a_websocket_at_mcp_is_closed_with_the_reason_and_has_no_session() -> None:
    with serving(max_sessions=1) as url:
        player = Connection(url)
        player.reset(seed=1)
        with pytest.raises(ConnectionError, match="run `twofold mcp`"):
            Connection(url, "/mcp").receive()
        player.close()


def test_a_connection_can_not_join_a_session(url: str) -> None:
    error = Connection(url, "/ws?session_id=x").receive()["data"]
    assert (error["code"], error["message"]) == ("SESSION_ERROR", "Unknown session_id: x")


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /health HTTP/1.1\r\nHost: a",
        b"GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n",
        b"POST /reset HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n{",
        b"GET /health HTTP/1.1\r\nHost: a\r\n\r\nGET /health",
    ],
)
def test_a_connection_without_a_complete_request_is_closed(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "REQUEST_SECONDS", 0.1)
    with serving() as url, socket.create_connection(address(url)) as half:
        half.settimeout(PATIENCE)
        half.sendall(sent)
        while half.recv(65536):
            pass


def test_a_playing_connection_is_not_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "REQUEST_SECONDS", 0.1)
    with serving() as url:
        connection = None
        while connection is None:  # on a busy machine, a handshake may be cut off
            with contextlib.suppress(OSError, AssertionError):
                connection = Connection(url)
        connection.reset(seed=1)
        with socket.create_connection(address(url)) as later:
            later.settimeout(PATIENCE)
            assert later.recv(1) == b""
        assert connection.step(direction="up")["step"] == 1
        connection.close()


@pytest.mark.parametrize(
    "text",
    [
        "[1]",
        "null",
        "3",
        '"reset"',
        "1" * 5000,
        '{"type": "reset", "data": {"seed": ' + "1" * 5000 + "}}",
        '{"type": "step", "data": {"direction": "\\ud800"}}',
        '{"type": "\\udfff"}',
        '{"type": "step", "data": {"direction": ' + "[" * 300 + "]" * 300 + "}}",
        '{"type": "step", "data": ' + '{"a": ' * 40_000,
    ],
)
def test_text_that_is_not_a_json_object_gets_an_error_and_the_episode_continues(
    connection: Connection, text: str
) -> None:
    connection.reset(seed=1)
    connection.send_text(text)
    reply = connection.receive()
    assert (reply["type"], reply["data"]["code"]) == ("error", "INVALID_JSON")
    assert reply["data"]["message"].startswith("Invalid JSON: ")
    assert connection.step(direction="up")["step"] == 1


def test_bytes_get_an_error_and_the_episode_continues(connection: Connection) -> None:
    connection.reset(seed=1)
    connection.send_bytes(b'{"type": "state"}')
    assert connection.receive()["data"]["message"] == "Invalid JSON: expected text, not bytes"
    assert connection.step(direction="up")["step"] == 1


def test_openenvs_own_client_reads_which_values_are_accepted(url: str) -> None:
    with GenericEnvClient(base_url=url).sync() as client:
        client.reset(seed=1)
        words = r"direction: Input should be 'up', 'right', 'down' or 'left'"
        with pytest.raises(RuntimeError, match=words):
            client.step({"direction": "north"})
        with pytest.raises(RuntimeError, match="steps: Extra inputs are not permitted"):
            client.step({"direction": "up", "steps": 3})


def test_a_lost_client_leaves_nothing_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), serving() as url:
        for _ in range(5):
            lost = Connection(url)
            lost.reset(seed=1)
            for _ in range(500):
                lost.send("step", {"direction": "up"})
            lost.cut()
    assert not caplog.records
