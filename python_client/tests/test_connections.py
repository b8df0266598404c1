"""More connections than a server has descriptors: connected clients are not affected."""

import contextlib
import resource
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from loops import make, one_step, undisturbed
from servers import Server

from twofold import errors
from twofold.client.lookup import find_program


@pytest.fixture
def small_server() -> Iterator[Server]:
    """A server that may open 64 descriptors."""
    with Server(limits=["--nofile=64:64"]) as server:
        yield server


def flood(endpoint: str, connections: int) -> contextlib.ExitStack:
    """Opens connections that send nothing, and holds them."""
    scheme, _, address = endpoint.partition("://")
    held = contextlib.ExitStack()
    for _ in range(connections):
        family = socket.AF_UNIX if scheme == "ipc" else socket.AF_INET
        connection = held.enter_context(socket.socket(family))
        connection.settimeout(5)
        host, _, port = address.rpartition(":")
        connection.connect(address if scheme == "ipc" else (host, int(port)))
    return held


def rests(server: Server) -> bool:
    """Whether the server leaves the processor idle for a second."""
    before = server.processor_seconds
    time.sleep(1)
    return server.processor_seconds - before < 0.3


def test_clients_keep_playing_while_connections_fill_a_tcp_endpoint(small_server: Server) -> None:
    expected = undisturbed(small_server.tcp, 20)
    envs = make(small_server.tcp)
    results = [one_step(envs, step) for step in range(10)]
    with flood(small_server.tcp, 100):
        assert rests(small_server)
        results += [one_step(envs, step) for step in range(10, 20)]
        newcomer = make(small_server.ipc)
        newcomer.reset(seed=0)
        newcomer.close()
    assert results == expected
    make(small_server.tcp).close()
    envs.close()


def test_clients_keep_playing_while_connections_fill_all_endpoints(small_server: Server) -> None:
    expected = undisturbed(small_server.ipc, 20)
    envs = make(small_server.ipc)
    results = [one_step(envs, step) for step in range(10)]
    with flood(small_server.tcp, 100), flood(small_server.ipc, 100):
        assert rests(small_server)
        for endpoint in (small_server.tcp, small_server.ipc):
            with pytest.raises(errors.DeadlineExceeded):
                make(endpoint, timeout=0.5)
        results += [one_step(envs, step) for step in range(10, 20)]
    assert results == expected
    make(small_server.tcp).close()
    envs.close()


def test_sessions_are_kept_while_connections_fill_all_endpoints(tmp_path: Path) -> None:
    with Server("--state-dir", str(tmp_path / "state"), limits=["--nofile=64:64"]) as server:
        expected = undisturbed(server.tcp, 20)
        envs = make(server.ipc)
        results = [one_step(envs, step) for step in range(10)]
        with flood(server.tcp, 100), flood(server.ipc, 100):
            server.terminate()
        assert server.process.returncode == 0
        server.start_again()
        results += [one_step(envs, step) for step in range(10, 20)]
        assert results == expected
        envs.close()


def test_a_limit_that_is_lowered_while_it_serves_ends_nothing(small_server: Server) -> None:
    envs = make(small_server.ipc)
    envs.reset(seed=0)
    resource.prlimit(small_server.process.pid, resource.RLIMIT_NOFILE, (10, 64))
    with flood(small_server.tcp, 10), flood(small_server.ipc, 10):
        assert rests(small_server)
    resource.prlimit(small_server.process.pid, resource.RLIMIT_NOFILE, (64, 64))
    envs.step([0] * envs.num_envs)
    make(small_server.ipc).close()
    envs.close()


def test_a_limit_without_room_for_clients_is_an_error_at_startup() -> None:
    command = ["prlimit", "--nofile=40:40", str(find_program()), "serve"]
    command += ["--endpoint", "tcp://127.0.0.1:0"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert ended.returncode == 1
    assert "limit of descriptors (ulimit -n) is 40" in ended.stderr
    assert ended.stdout == ""
