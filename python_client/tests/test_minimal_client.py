"""Tests of docs/reference/minimal_client.c, a complete client, and of the session that it plays."""

import contextlib
import queue
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zmq
from faults import DROP, KINDS, FaultProxy
from raw import statistics_of
from servers import PATIENCE, Server

import twofold
from twofold.v1 import envelope_pb2 as envelope

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"
SOURCE = REFERENCE / "minimal_client.c"
PAGE = (REFERENCE / "protocol.md").read_text()
(PRINTED,) = re.findall(r"^```\n(board 0: .*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, compiled with the documented command. Swift's clang replaces a missing cc."""
    (command,) = re.findall(r"^cc .*$", PAGE, re.MULTILINE)
    assert f"//     {command}\n" in SOURCE.read_text()
    directory = tmp_path_factory.mktemp("minimal_client")
    (directory / SOURCE.name).symlink_to(SOURCE)
    compiler = shutil.which("cc") or "clang"
    subprocess.run([compiler, *command.split()[1:]], cwd=directory, check=True)
    return directory / "minimal_client"


def run(client: Path, endpoint: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([client, endpoint], capture_output=True, text=True, timeout=PATIENCE)


def plays_the_session(client: Path, endpoint: str) -> str:
    """Runs the program, which must print the page's output. Returns its standard error."""
    ran = run(client, endpoint)
    assert (ran.returncode, ran.stdout) == (0, PRINTED), ran.stderr
    return ran.stderr


def test_the_client_has_fewer_than_150_lines() -> None:
    assert len(SOURCE.read_text().splitlines()) < 150


@pytest.mark.parametrize("transport", ["ipc", "tcp"])
def test_the_client_prints_the_pages_output_and_closes_its_session(
    client: Path, server: Server, transport: str
) -> None:
    before = statistics_of(server.ipc)
    assert plays_the_session(client, getattr(server, transport)) == ""
    after = statistics_of(server.ipc)
    assert after.counters.sessions_created == before.counters.sessions_created + 1
    assert after.usage.sessions == before.usage.sessions


def test_the_python_client_gets_the_same_bytes(server: Server) -> None:
    envs = twofold.Game2048VectorEnv(num_envs=4, endpoint=server.ipc)
    step = envs._session.spec.step
    names = [array.name for array in step.arrays]
    digest = 14695981039346656037

    def add(arrays: dict[str, Any]) -> None:
        """Adds the payload that contains the layout's first array."""
        nonlocal digest
        payload = bytearray()
        for array in list(step.arrays)[: len(arrays)]:
            payload += bytes(array.offset - len(payload)) + arrays[array.name].tobytes()
        for byte in payload:
            digest = (digest ^ byte) * 1099511628211 % 2**64

    def infos_of(infos: Any) -> dict[str, Any]:
        return {name: infos[name] for name in names if name in infos}

    observations, infos = envs.reset(seed=0)
    add({"observation": observations} | infos_of(infos))
    word = 0
    for _ in range(100):
        actions = []
        for mask in infos["action_mask"]:
            word = (1664525 * word + 1013904223) % 2**32
            (legal,) = np.nonzero(mask)
            actions.append(legal[word * len(legal) // 2**32] if len(legal) else 0)
        observations, rewards, terminated, truncated, infos = envs.step(actions)
        ends = {"reward": rewards, "terminated": terminated, "truncated": truncated}
        add({"observation": observations} | infos_of(infos) | ends)
    envs.close()
    assert f"hash {digest:016x}\n" in PRINTED


@pytest.mark.parametrize("kinds", [(DROP,), KINDS], ids=["lost messages", "a bad network"])
def test_a_bad_network_changes_nothing(
    client: Path, own_server: Server, kinds: tuple[str, ...]
) -> None:
    with FaultProxy(own_server.ipc, rate=0.1, kinds=kinds, seed=1) as proxy:
        plays_the_session(client, proxy.endpoint)
        assert proxy.counts[DROP] > 0
    counters = statistics_of(own_server.ipc).counters
    assert counters.resent > 0
    assert counters.steps == 4 * 100


# A function of a request, and of whether it has passed before, that returns an error or None.
Refuse = Callable[[envelope.Request, bool], envelope.Error | None]


@contextlib.contextmanager
def refusing(server: Server, refuse: Refuse) -> Iterator[str]:
    """Serves an address that passes requests on to a server, or answers them with an error."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    context.linger = 0
    endpoint: queue.Queue[str] = queue.Queue()

    def pass_on() -> None:
        seen: list[list[bytes]] = []
        with context.socket(zmq.ROUTER) as front, context.socket(zmq.DEALER) as back:
            front.bind("tcp://127.0.0.1:*")
            back.connect(server.ipc)
            endpoint.put(front.get_string(zmq.LAST_ENDPOINT))
            while True:
                frames = front.recv_multipart()
                start = frames.index(b"") + 1
                route, request = frames[:start], frames[start:]
                header = envelope.Request.FromString(request[0])
                error = refuse(header, request in seen)
                seen.append(request)
                if error is None:
                    back.send_multipart([b"", *request])
                    reply = back.recv_multipart()[1:]
                else:
                    reply = [envelope.Reply(seq=header.seq, error=error).SerializeToString()]
                front.send_multipart(route + reply)

    def until_the_end() -> None:
        with contextlib.suppress(zmq.ContextTerminated):
            pass_on()

    thread = threading.Thread(target=until_the_end)
    thread.start()
    try:
        yield endpoint.get(timeout=PATIENCE)
    finally:
        context.term()
        thread.join()


def test_a_server_that_stops_gets_the_same_bytes_again_later(
    client: Path, own_server: Server
) -> None:
    stopping = envelope.Error(code=envelope.ERROR_CODE_SHUTTING_DOWN, retry_after_ms=1)
    refused = []

    def refuse(request: envelope.Request, again: bool) -> envelope.Error | None:
        if again:
            return None
        refused.append(request)
        return stopping

    with refusing(own_server, refuse) as endpoint:
        errors = plays_the_session(client, endpoint)
    assert len(refused) == 1 + 1 + 100 + 1
    # A late refusal is not printed, because the client has already sent the request again.
    assert set(errors.splitlines()) == {"error 10, field '', lane -1: "}


def test_a_refused_request_is_printed_and_the_session_closed(
    client: Path, own_server: Server
) -> None:
    wrong = envelope.Error(
        code=envelope.ERROR_CODE_INVALID_ARGUMENT, field="actions", lane=2, message="too late"
    )

    def refuse(request: envelope.Request, _: bool) -> envelope.Error | None:
        return wrong if request.seq == 50 and request.HasField("step") else None

    with refusing(own_server, refuse) as endpoint:
        ran = run(client, endpoint)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == "error 1, field 'actions', lane 2: too late\n"
    assert statistics_of(own_server.ipc).usage.sessions == 0


def test_a_refused_create_is_printed(client: Path) -> None:
    with Server("--max-boards-per-session", "3") as small:
        ran = run(client, small.ipc)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith("error 8, field 'num_envs', lane -1: num_envs is 4; ")


@pytest.fixture
def silent() -> Iterator[str]:
    """Serves an address that accepts connections and never replies."""
    with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
        socket.bind("tcp://127.0.0.1:*")
        yield str(socket.get_string(zmq.LAST_ENDPOINT))


def test_an_unreachable_server_is_an_error(client: Path, silent: str) -> None:
    processes = [
        subprocess.Popen([client, endpoint], stderr=subprocess.PIPE, text=True)
        for endpoint in ("tcp://127.0.0.1:1", silent)
    ]
    for process in processes:
        assert "no reply" in process.communicate(timeout=PATIENCE)[1]
        assert process.returncode == 1


@pytest.mark.parametrize(
    "reply",
    [
        [b""],
        [b"hello"],
        [b"\xff" * 20],
        [b"\x8a\x01\x7f"],
        [b"\x09" + bytes(8) + b"\x8a\x01\x00", b"x"],
    ],
    ids=["nothing", "words", "an endless number", "a field that is cut short", "no layouts"],
)
def test_another_kind_of_server_is_an_error(client: Path, reply: list[bytes]) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with context.socket(zmq.REP) as socket:
        socket.bind("tcp://127.0.0.1:*")
        endpoint = str(socket.get_string(zmq.LAST_ENDPOINT))
        with subprocess.Popen([client, endpoint], stderr=subprocess.PIPE, text=True) as process:
            while process.poll() is None:
                if socket.poll(10):
                    socket.recv_multipart()
                    socket.send_multipart(reply)
            assert process.stderr is not None
            assert "Twofold server?" in process.stderr.read()
        assert process.returncode == 1
    context.term()
