"""More connections than a server has descriptors: connected clients are not affected."""

import contextlib
import errno
import json
import os
import platform
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq
from loops import make, one_step, undisturbed
from servers import PATIENCE, Server, processor_seconds, running, wait_until

from twofold import errors
from twofold.client.lookup import find_program
from twofold.judging import seccomp

REFUSED = """
import ctypes, os, struct, sys

# A seccomp filter that fails accept with the given error, and allows everything else.
code, number = int(sys.argv[1]), {"x86_64": 43, "aarch64": 202}[os.uname().machine]
fail, allow = 0x50000 + code, 0x7FFF0000
instructions = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (6, 0, 0, fail), (6, 0, 0, allow)]
filter = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in instructions))
program = struct.pack("HxxxxxxP", len(instructions), ctypes.addressof(filter))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
os.execv(sys.argv[2], sys.argv[2:])
"""
"""A program that executes another one, in which each accept fails with a given errno."""


@pytest.mark.parametrize("host", ["localhost", "*", "[::1]"])
def test_a_server_listens_on_the_names_of_its_own_machine(host: str) -> None:
    if host == "[::1]":
        try:
            with socket.socket(socket.AF_INET6) as own:
                own.bind(("::1", 0))
        except OSError:
            pytest.skip("this machine has no IPv6")
    command = [str(find_program()), "serve", "--endpoint", f"tcp://{host}:0"]
    with running(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stderr is not None
        endpoint = server.stdout.readline().removeprefix("listening on ").strip()
        make(endpoint).close()
        # As a health check does, which gets the server's own variables.
        serves = {**os.environ, "TWOFOLD_ENDPOINT": f"tcp://{host}:{endpoint.rpartition(':')[2]}"}
        ping = [str(find_program()), "ping", "--timeout", "60"]
        assert subprocess.run(ping, env=serves).returncode == 0
        server.terminate()
        assert server.wait(PATIENCE) == 0
        assert ("ANYBODY WHO REACHES" in server.stderr.read()) == (host == "*")


def test_a_log_line_that_is_cut_does_not_spoil_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("w") as log, Server("--log-format", "json", log=log.fileno()) as server:
        make(server.ipc).close()
        wait_until(lambda: " ended" in path.read_text())
        before = path.stat().st_size
        limit = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (before + 20, limit[1]))
        make(server.ipc).close()
        wait_until(lambda: path.stat().st_size == before + 20)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, limit)
        make(server.ipc).close()
        wait_until(lambda: "dropped" in path.read_text() and path.read_text().endswith("}\n"))
        lines = path.read_text()[before:].splitlines()
    assert len(lines[0]) == 20
    assert "dropped log lines" in json.loads(lines[1])["message"]
    assert all(json.loads(line) for line in lines[1:])


@pytest.fixture
def small_server() -> Iterator[Server]:
    """A server that may open 64 descriptors."""
    with Server(limits=["--nofile=64:64"]) as server:
        yield server


def flood(endpoint: str, connections: int) -> contextlib.ExitStack:
    """Opens connections that send nothing, and keeps them open."""
    scheme, _, address = endpoint.partition("://")
    held = contextlib.ExitStack()
    for _ in range(connections):
        family = socket.AF_UNIX if scheme == "ipc" else socket.AF_INET
        connection = held.enter_context(socket.socket(family))
        connection.settimeout(PATIENCE)
        host, _, port = address.rpartition(":")
        connection.connect(address if scheme == "ipc" else (host, int(port)))
    return held


def rests(pid: int) -> bool:
    """Returns True if a process is idle while this one uses some processor time.

    A process that spins would get as much processor time as this one. An idle process wakes at
    intervals, so it uses more on a busy machine, where this one takes longer. A process that was
    still working at the beginning is watched again, for longer.
    """
    return any(is_idle(pid, seconds) for seconds in (0.2, 0.5))


def is_idle(pid: int, seconds: float) -> bool:
    """Returns True if a process is idle while this one uses `seconds` of processor time."""
    before, begin, end = processor_seconds(pid), time.monotonic(), time.process_time() + seconds
    while time.process_time() < end:
        pass
    return processor_seconds(pid) - before < 0.3 * seconds + 0.05 * (time.monotonic() - begin)


def test_clients_keep_playing_while_connections_fill_a_tcp_endpoint(small_server: Server) -> None:
    expected = undisturbed(small_server.tcp, 20)
    envs = make(small_server.tcp)
    results = [one_step(envs, step) for step in range(10)]
    with flood(small_server.tcp, 100):
        assert rests(small_server.process.pid)
        results += [one_step(envs, step) for step in range(10, 20)]
        newcomer = make(small_server.ipc)
        newcomer.reset(seed=0)
        newcomer.close()
    assert results == expected
    make(small_server.tcp).close()
    envs.close()


def test_local_clients_are_admitted_while_clients_fill_a_tcp_endpoint(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with (
        path.open("w") as log,
        Server(limits=["--nofile=64:64"], log=log.fileno()) as server,
        zmq.Context() as context,
    ):
        # Unlike silent connections, these are never dropped.
        clients = [context.socket(zmq.DEALER) for _ in range(100)]
        for client in clients:
            client.connect(server.tcp)
        wait_until(lambda: "refused connections" in path.read_text())
        make(server.ipc).close()
        context.destroy(linger=0)


def test_clients_keep_playing_while_connections_fill_all_endpoints(small_server: Server) -> None:
    expected = undisturbed(small_server.ipc, 20)
    envs = make(small_server.ipc)
    results = [one_step(envs, step) for step in range(10)]
    with flood(small_server.tcp, 100), flood(small_server.ipc, 100):
        assert rests(small_server.process.pid)
        for endpoint in (small_server.tcp, small_server.ipc):
            # libzmq drops silent connections after 30 s, so a slow machine may serve this one.
            with contextlib.suppress(errors.DeadlineExceeded):
                make(endpoint, timeout=0.5).close()
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


def test_the_system_probes_connections_whose_client_is_silent(small_server: Server) -> None:
    port = f":{int(small_server.tcp.rpartition(':')[2]):04X}"

    def timers() -> list[str]:
        """Returns the kinds of the timers of the server's connections; 02 is keepalive."""
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return [row[5][:2] for row in rows if row[1].endswith(port) and row[3] == "01"]

    with contextlib.closing(make(small_server.tcp)):
        wait_until(lambda: timers() != [] and set(timers()) == {"02"})


def test_a_limit_that_is_lowered_while_it_serves_ends_nothing(small_server: Server) -> None:
    envs = make(small_server.ipc)
    envs.reset(seed=0)
    resource.prlimit(small_server.process.pid, resource.RLIMIT_NOFILE, (10, 64))
    with flood(small_server.tcp, 10), flood(small_server.ipc, 10):
        assert rests(small_server.process.pid)
    resource.prlimit(small_server.process.pid, resource.RLIMIT_NOFILE, (64, 64))
    envs.step([0] * envs.num_envs)
    make(small_server.ipc).close()
    envs.close()


@pytest.mark.skipif(platform.machine() not in seccomp.ARCHITECTURES, reason="another processor")
@pytest.mark.parametrize(
    ("scheme", "code"),
    [
        ("ipc", errno.EPERM),
        ("ipc", errno.EOPNOTSUPP),
        ("ipc", errno.ETIMEDOUT),
        ("tcp", errno.EACCES),
        ("tcp", errno.ENETDOWN),
    ],
)
def test_a_system_that_accepts_no_connections_does_not_end_the_server(
    scheme: str, code: int, tmp_path: Path
) -> None:
    endpoint = f"ipc://{tmp_path}/s" if scheme == "ipc" else "tcp://127.0.0.1:0"
    command = [sys.executable, "-c", REFUSED, str(code), str(find_program()), "serve"]
    command += ["--endpoint", endpoint]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            with flood(line.split()[2], 3):
                assert rests(process.pid)
                assert process.poll() is None
        finally:
            process.terminate()
    assert process.returncode == 0


def test_a_limit_without_room_for_clients_is_an_error_at_startup() -> None:
    command = ["prlimit", "--nofile=40:40", str(find_program()), "serve"]
    command += ["--endpoint", "tcp://127.0.0.1:0"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ended.returncode == 1
    assert "limit on open files (ulimit -n) is 40" in ended.stderr
    assert ended.stdout == ""
