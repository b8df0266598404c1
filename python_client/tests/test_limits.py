"""A server's limits: reported in Hello, named by refusals, and freed again."""

import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from raw import RawSession, statistics_of
from servers import PATIENCE, Server, wait_until

import twofold
from twofold import Game2048VectorEnv, errors
from twofold.client import private_server
from twofold.client.lookup import find_program
from twofold.client.zeromq import Backoff
from twofold.v1 import envelope_pb2 as envelope

RESOURCE_EXHAUSTED = envelope.ERROR_CODE_RESOURCE_EXHAUSTED


def test_boards_of_all_sessions_together_are_limited_and_freed() -> None:
    with Server("--max-boards", "1000", "--max-boards-per-session", "600") as server:
        first = Game2048VectorEnv(600, endpoint=server.ipc)
        with pytest.raises(errors.ResourceExhausted, match="max_boards = 1000") as caught:
            Game2048VectorEnv(401, endpoint=server.ipc)
        assert caught.value.field == "num_envs"
        second = Game2048VectorEnv(400, endpoint=server.ipc)
        first.close()
        third = Game2048VectorEnv(600, endpoint=server.ipc)
        third.reset(seed=0)
        second.close()
        third.close()


def test_one_process_has_hundreds_of_environments_at_one_endpoint(server: Server) -> None:
    many = [twofold.Game2048VectorEnv(1, endpoint=server.tcp) for _ in range(300)]
    for envs in many:
        envs.reset(seed=0)
    for envs in many:
        envs.close()


def test_a_process_without_free_descriptors_reports_it_and_keeps_its_environments(
    server: Server,
) -> None:
    code = """
import itertools, os, resource, sys, time, twofold

def run_out(endpoint, allowed):
    first = twofold.Game2048VectorEnv(1, endpoint=endpoint)
    # A late reply is asked for again over a new connection, which needs descriptors.
    twofold.client.zeromq.Backoff.seconds = lambda *_: 300.0
    open_files = max(map(int, os.listdir("/proc/self/fd")))
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_files + allowed, most))
    many = []
    try:
        while True:
            many.append(twofold.Game2048VectorEnv(1, endpoint=endpoint))
    except twofold.TransportError as error:
        print(type(error).__name__, error, flush=True)
    first.reset(seed=0)
    first.step([0])
    while many:
        many.pop().close()
    # libzmq closes the descriptors in another thread, a moment later. Looking needs one, too.
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    deadline = time.monotonic() + 300
    while max(map(int, os.listdir("/proc/self/fd"))) > open_files and time.monotonic() < deadline:
        time.sleep(0.01)
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_files + allowed, most))
    twofold.Game2048VectorEnv(1, endpoint=endpoint).close()

for endpoint, allowed in itertools.product(sys.argv[1:], (20, 21)):
    child = os.fork()  # of a process that has no connection
    if child == 0:
        run_out(endpoint, allowed)
        sys.exit()
    assert os.waitpid(child, 0)[1] == 0
"""
    ran = subprocess.run(
        [sys.executable, "-c", code, server.tcp, server.ipc],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert ran.stderr == ""
    lines = ran.stdout.splitlines()
    assert len(lines) == 4
    for line in lines:
        assert line.startswith("TransportError can't open a connection: Too many open files. ")
        assert "(num_envs), or raise the limit on open files (ulimit -n)" in line


# Takes a limit away from a process that has used the library, but not its threads.
TAKE_AWAY = """
import os, resource, sys

def take_away(limit):
    if limit == "files":
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, 100))
    else:
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
        if os.geteuid() == 0:  # which has no such limit
            os.setgid(54321)
            os.setuid(54321)
"""


@pytest.mark.parametrize("limit", ["files", "threads"])
def test_a_process_that_can_start_no_thread_runs_a_batch_on_its_own(limit: str) -> None:
    code = """
import numpy as np, twofold
envs, few = twofold.Game2048VectorEnv(20_000), twofold.Game2048VectorEnv(4)
few.reset(seed=0)
take_away(sys.argv[1])
few.rollout(2, twofold.policies.Expectimax(depth=1))
print(envs.reset(seed=0)[0].sum(), envs.step(np.zeros(20_000, int))[0].sum())
"""
    ran = subprocess.run(
        [sys.executable, "-c", TAKE_AWAY + code, limit],
        env={**os.environ, "TWOFOLD_THREADS": "4"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert ran.returncode == 0, ran.stderr
    envs = twofold.Game2048VectorEnv(20_000)
    sums = envs.reset(seed=0)[0].sum(), envs.step(np.zeros(20_000, int))[0].sum()
    assert ran.stdout == f"{sums[0]} {sums[1]}\n"
    envs.close()


@pytest.mark.parametrize("free", [*range(7), "threads", "memory"], ids=str)
def test_a_process_in_which_zeromq_can_not_start_gets_an_error(free: int | str) -> None:
    """In the past, libzmq ended the process, with all its environments."""
    code = """
import mmap, twofold
mine = twofold.Game2048VectorEnv(4, endpoint="embedded")
mine.reset(seed=0)
if sys.argv[1] == "threads":
    take_away("threads")
elif sys.argv[1] == "memory":
    in_use = int(open("/proc/self/statm").read().split()[0]) * mmap.PAGESIZE
    resource.setrlimit(resource.RLIMIT_AS, (in_use + (10 << 20),) * 2)
else:
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
    held = []
    try:
        while True:
            held.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        for _ in range(int(sys.argv[1])):
            os.close(held.pop())
try:
    twofold.Game2048VectorEnv(4, endpoint="tcp://127.0.0.1:9", timeout=0.01)
except twofold.TransportError as error:
    print(type(error).__name__)
if sys.argv[1] != "memory":  # the service keeps more than is left in reserve
    mine.step([0] * 4)
"""
    ran = subprocess.run(
        [sys.executable, "-c", TAKE_AWAY + code, str(free)],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "TransportError\n"


@pytest.mark.parametrize("files", [5, 6, 7, 8])
def test_a_ping_that_can_not_start_zeromq_is_an_error(files: int) -> None:
    ping = [str(find_program()), "ping", "tcp://127.0.0.1:9", "--timeout", "0.01"]
    ran = subprocess.run(["prlimit", f"--nofile={files}", *ping], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (1, ""), ran.stderr
    assert ran.stderr.startswith("Error: ")


def test_a_server_that_can_start_too_few_threads_says_so_instead_of_starting() -> None:
    code = """
# By its descriptor, because another user may not see the file.
program = os.open(sys.argv[1], os.O_RDONLY)
take_away("threads")
os.execve(program, ["twofold-server", "serve", "--endpoint", "tcp://127.0.0.1:0"], os.environ)
"""
    ran = subprocess.run(
        [sys.executable, "-c", TAKE_AWAY + code, str(find_program())],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert re.search(r"can't start the \d+ threads .* raise its limits \(ulimit -u", ran.stderr)


def test_the_number_of_sessions_is_limited() -> None:
    with Server("--max-sessions", "2") as server:
        held = [Game2048VectorEnv(1, endpoint=server.ipc) for _ in range(2)]
        with pytest.raises(errors.ResourceExhausted, match="max_sessions = 2"):
            Game2048VectorEnv(1, endpoint=server.ipc)
        held.pop().close()
        Game2048VectorEnv(1, endpoint=server.ipc).close()
        held.pop().close()


def test_memory_of_all_sessions_is_limited_and_an_admitted_one_can_always_be_stepped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # libzmq may keep the first reply to a repeated step, and a later step needs a third buffer.
    monkeypatch.setattr(Backoff, "seconds", lambda *_: PATIENCE)
    with Server("--max-bytes", "10000000") as server:
        first = Game2048VectorEnv(40_000, endpoint=server.ipc)
        with pytest.raises(errors.ResourceExhausted, match="max_bytes = 10000000") as caught:
            Game2048VectorEnv(40_000, endpoint=server.ipc)
        assert caught.value.field == "num_envs"
        small = Game2048VectorEnv(10, endpoint=server.ipc)
        first.reset(seed=0)
        for _ in range(10):
            first.step(np.zeros(40_000, np.uint8))
        first.close()
        small.reset(seed=0)
        small.close()
        wait_until(lambda: can_create(server.ipc, 40_000))


def can_create(endpoint: str, num_envs: int) -> bool:
    try:
        Game2048VectorEnv(num_envs, endpoint=endpoint).close()
    except errors.ResourceExhausted:
        return False
    return True


def test_a_request_without_memory_for_its_reply_is_refused_and_changes_nothing() -> None:
    # Boards and steps of 60,000 lanes fit; the afterstates, 84 bytes a lane, don't.
    with Server("--max-bytes", "15000000") as server:
        envs = Game2048VectorEnv(60_000, endpoint=server.ipc)
        observations, _ = envs.reset(seed=0)
        with pytest.raises(errors.ResourceExhausted, match="max_bytes"):
            envs.afterstates()
        assert np.array_equal(envs.observe()[0], observations)
        envs.step(np.zeros(60_000, np.uint8))
        envs.close()


def test_networks_and_tables_count_against_the_memory_of_all_sessions() -> None:
    network = twofold.policies.NTuple([[0, 1, 2, 3, 4]], [np.zeros(16**5, np.float32)])  # 4 MiB
    search = twofold.policies.Expectimax(depth=1)
    with Server("--max-bytes", str(18 << 20)) as server:
        first, second = (Game2048VectorEnv(2, endpoint=server.ipc) for _ in range(2))
        first.reset(seed=0)
        second.reset(seed=0)
        first.rollout(2, search)
        for policy in (network, search):
            with pytest.raises(
                errors.ResourceExhausted, match="no memory for the policy"
            ) as caught:
                second.rollout(2, policy)
            assert caught.value.field == "policy"
        second.rollout(9, "random")
        first.close()
        second.rollout(2, network)
        second.close()


def test_a_message_beyond_the_limit_is_refused_before_it_is_sent() -> None:
    with Server("--max-message-bytes", "5000") as server:
        envs = Game2048VectorEnv(600, endpoint=server.ipc)
        envs.reset(seed=0)
        boards = np.ones((600, 4, 4), np.uint8)
        with pytest.raises(errors.ResourceExhausted, match="max_message_bytes = 5000"):
            envs.reset(options={"boards": boards})
        envs.step(np.zeros(600, np.uint8))
        envs.close()


def test_an_idle_session_ends_and_one_with_occasional_requests_stays() -> None:
    for seconds in (1, 4, 16, 64):
        # A busy machine may make a client wait for that long before its next request.
        with contextlib.suppress(TooIdle):
            return an_idle_session_ends_and_another_stays(seconds)
    pytest.fail("the session with requests was ended, too")


class TooIdle(Exception):
    """The error raised if the server ended a session although it was making requests."""


def an_idle_session_ends_and_another_stays(seconds: int) -> None:
    with Server("--idle-timeout", str(seconds)) as server:
        idle = Game2048VectorEnv(3, endpoint=server.ipc)
        alive = Game2048VectorEnv(3, endpoint=server.ipc)
        alive.reset(seed=0)
        idle.reset(seed=0)

        def is_alone() -> bool:
            try:
                alive.keepalive()
            except errors.NotFound:
                raise TooIdle from None
            return statistics_of(server.ipc).usage.sessions == 1

        wait_until(is_alone)
        with pytest.raises(errors.NotFound, match="idle"):
            idle.step([0, 0, 0])
        is_alone()
        alive.close()
        idle.close()


def test_a_single_environment_has_keepalive_too() -> None:
    env = twofold.Game2048Env()
    env.reset(seed=0)
    before = env._batch.requests
    env.keepalive()
    assert env._batch.requests == before + 1
    env.close()


def test_an_ended_session_frees_its_boards() -> None:
    with (
        Server("--idle-timeout", "1", "--max-boards", "10") as server,
        RawSession(server.ipc) as session,
    ):
        answer = session.create(num_envs=10)
        assert answer.slot == "create"
        while answer.slot == "create":  # on a busy machine, the session may have ended already
            session.begin()  # another session
            answer = session.create(num_envs=10)
        assert answer.error.code == RESOURCE_EXHAUSTED
        wait_until(lambda: session.create(num_envs=10).slot == "create")


def test_memory_returns_after_sessions_close(own_server: Server) -> None:
    def one_after_the_other() -> None:
        envs = [Game2048VectorEnv(65_536, endpoint=own_server.ipc) for _ in range(10)]
        for env in envs:
            env.reset(seed=0)
            env.step(np.zeros(65_536, np.uint8))
            env.afterstates()
        held.append(own_server.memory)
        for env in envs:
            env.close()

    held: list[int] = []
    one_after_the_other()
    wait_until(lambda: own_server.memory < held[0] / 3)
    after_one = own_server.memory
    for _ in range(2):
        one_after_the_other()
    # Glibc returns the end of a thread's arena only beyond some tens of MB; three times what one
    # round holds would be 420 MB.
    wait_until(lambda: own_server.memory < after_one + (128 << 20))


def test_a_private_server_leaves_another_servers_state_and_keys_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    private_server.stop_at_exit()
    monkeypatch.setenv("TWOFOLD_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("TWOFOLD_CURVE_SECRET_KEY", str(tmp_path / "missing"))
    monkeypatch.setenv("TWOFOLD_CURVE_CLIENTS", str(tmp_path / "missing"))
    envs = Game2048VectorEnv(1, endpoint="private")
    envs.reset(seed=0)
    envs.close()
    private_server.stop_at_exit()
    assert list(tmp_path.iterdir()) == []


def test_a_private_server_never_ends_an_idle_session(monkeypatch: pytest.MonkeyPatch) -> None:
    private_server.stop_at_exit()
    monkeypatch.setenv("TWOFOLD_IDLE_TIMEOUT", "1")
    envs = Game2048VectorEnv(1, endpoint="private")
    assert envs._session.link.carrier.service.limits.idle_timeout == 0
    envs.close()
    private_server.stop_at_exit()
