"""Deadlines, interrupts, deaths, forks: nothing hangs, is applied twice, or is left behind."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import zmq
from faults import FaultProxy
from games import MakeBatch
from loops import hurried, interrupt_when
from raw import RawSession
from servers import (
    PATIENCE,
    Server,
    child_servers,
    is_running,
    no_more_descriptors,
    private_server_pid,
    wait_until,
)

import twofold
from twofold.client import lookup, private_server, system
from twofold.client.carrier import Call
from twofold.client.zeromq import ZeroMQCarrier
from twofold.v1 import envelope_pb2 as envelope

ID = "twofold/Game2048-v0"


def script(code: str, **keywords: Any) -> "subprocess.Popen[str]":
    """Starts a Python process that runs this code, and can import these tests' modules."""
    return subprocess.Popen(
        [sys.executable, "-c", "import gymnasium as gym, os, sys, twofold, servers\n" + code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent,
        **keywords,
    )


def line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


# ---- deadlines and interrupts --------------------------------------------------------------------


def test_a_deadline_after_a_refusal_does_not_report_the_time_of_the_last_try() -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
    with context.socket(zmq.REP) as socket:
        socket.set(zmq.LINGER, 0)
        port = socket.bind_to_random_port("tcp://127.0.0.1")
        carrier = ZeroMQCarrier(f"tcp://127.0.0.1:{port}")
        with pytest.raises(twofold.errors.DeadlineExceeded) as caught:
            # The deadline of a call whose first tries took nearly all of its time.
            carrier.exchange(Call("step", 2, b""), time.monotonic() + 0.001)
        carrier.close()
    assert str(caught.value) == (
        f"no reply to step from tcp://127.0.0.1:{port} within the timeout; the request stays "
        "pending, and repeating the call collects its reply"
    )


def test_an_address_without_a_server_is_a_deadline() -> None:
    for endpoint in ("tcp://127.0.0.1:9", "ipc:///tmp/twofold-nobody-here"):
        with pytest.raises(twofold.errors.DeadlineExceeded):
            twofold.Game2048VectorEnv(1, endpoint=endpoint, timeout=0.3)


def test_another_program_at_the_address_is_a_protocol_error() -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
    with context.socket(zmq.REP) as socket:
        socket.set(zmq.LINGER, 0)
        port = socket.bind_to_random_port("tcp://127.0.0.1")

        def echo() -> None:
            socket.send(b"\xff" + socket.recv())

        thread = threading.Thread(target=echo)
        thread.start()
        with pytest.raises(twofold.errors.ProtocolError, match="twofold server"):
            twofold.Game2048VectorEnv(1, endpoint=f"tcp://127.0.0.1:{port}", timeout=PATIENCE)
        thread.join()


@pytest.mark.parametrize("trouble", ["deadline", "interrupt"])
def test_repeating_an_unanswered_step_collects_its_reply(
    own_server: Server, trouble: str, make_batch: MakeBatch
) -> None:
    with FaultProxy(own_server.ipc) as proxy:
        envs = make_batch(3, endpoint=proxy.endpoint)
        twin = make_batch(3, endpoint=own_server.ipc)
        envs.reset(seed=0)
        twin.reset(seed=0)
        for actions in ([0, 1, 2], [1, 2, 3], [2, 3, 0]):
            with own_server.stopped():
                if trouble == "interrupt":
                    interrupt_when(proxy.passes_another())
                    with pytest.raises(KeyboardInterrupt):
                        envs.step(actions)
                else:
                    with (
                        hurried(envs),
                        pytest.raises(twofold.errors.DeadlineExceeded, match="stays pending"),
                    ):
                        envs.step(actions)
            observations, *_, infos = envs.step(actions)
            expected, *_ = twin.step(actions)
            np.testing.assert_array_equal(observations, expected)
            assert infos["episode_length"].tolist() == twin.observe()[1]["episode_length"].tolist()
        envs.close()
        twin.close()


def test_another_call_after_an_unanswered_reset_knows_its_seeds(
    own_server: Server, make_batch: MakeBatch
) -> None:
    envs = make_batch(2, endpoint=own_server.ipc)
    with own_server.stopped(), hurried(envs), pytest.raises(twofold.errors.DeadlineExceeded):
        envs.reset(seed=77)
    envs.reset()
    assert envs.np_random_seed == 77
    envs.close()


# ---- deaths --------------------------------------------------------------------------------------


def test_a_killed_private_server_is_a_typed_error_and_the_next_make_starts_another() -> None:
    envs = gym.make_vec(ID, num_envs=2, endpoint="private")
    envs.reset(seed=0)
    pid = private_server_pid(envs)
    os.kill(pid, signal.SIGKILL)
    for _ in range(2):
        with pytest.raises(twofold.errors.ServerDied, match=f"{pid}.*signal 9"):
            envs.step([0, 0])
    assert isinstance(envs, twofold.TwofoldVectorEnv)
    directory = Path(envs.token.partition("#")[0].removeprefix("ipc://")).parent
    assert directory.exists()
    another = gym.make_vec(ID, num_envs=2, endpoint="private")
    another.reset(seed=0)
    assert private_server_pid(another) != pid
    assert not directory.exists()
    envs.close()
    envs.close()
    another.step([0, 0])
    another.close()


def test_a_killed_server_at_an_address_is_a_deadline(
    own_server: Server, make_batch: MakeBatch
) -> None:
    addresses = (own_server.ipc, own_server.tcp)
    batches = [make_batch(2, endpoint=endpoint) for endpoint in addresses]
    for envs in batches:
        envs.reset(seed=0)
    own_server.kill()
    for envs in batches:
        with hurried(envs), pytest.raises(twofold.errors.DeadlineExceeded):
            envs.step([0, 0])
        envs.close()


@pytest.mark.parametrize("ending", ["raise RuntimeError", "env.close()"])
def test_the_end_of_python_ends_its_server_and_removes_the_directory(
    tmp_path: Path, ending: str
) -> None:
    process = script(
        f"env = gym.make('{ID}', endpoint='private'); env.reset(seed=0)\n"
        f"print(servers.private_server_pid(env), flush=True)\n{ending}",
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    pid = int(line(process))
    process.communicate(timeout=PATIENCE)
    wait_until(lambda: not is_running(pid))
    assert list(tmp_path.iterdir()) == []


def test_only_this_user_can_access_a_private_server() -> None:
    envs = twofold.Game2048VectorEnv(2, endpoint="private")
    directory = Path(envs.token.partition("#")[0].removeprefix("ipc://")).parent
    assert directory.stat().st_mode & 0o777 == 0o700
    envs.close()


def test_python_ends_even_if_its_servers_are_unreachable(own_server: Server) -> None:
    process = script(
        f"envs = [gym.make('{ID}', endpoint='{own_server.tcp}') for _ in range(5)]\n"
        "print('made', flush=True); sys.stdin.readline()"
    )
    assert line(process) == "made"
    with own_server.stopped():
        process.communicate("\n", timeout=PATIENCE)
    assert process.returncode == 0


def test_a_garbage_collected_environment_is_closed(own_server: Server) -> None:
    envs = twofold.Game2048VectorEnv(2, endpoint=own_server.ipc)
    session_id = bytes.fromhex(envs.token.partition("#")[2])
    with RawSession(own_server.ipc) as session:
        observe = session.request(session=session_id, seq=3, observe={})
        assert session.call(observe).error.code == envelope.ERROR_CODE_OUT_OF_SEQUENCE
        del envs
        assert session.call(observe).error.code == envelope.ERROR_CODE_NOT_FOUND


def test_ctrl_c_in_the_terminal_reaches_python_only() -> None:
    process = script(
        f"envs = gym.make_vec('{ID}', num_envs=2, endpoint='private'); envs.reset(seed=0)\n"
        "print(servers.private_server_pid(envs), flush=True)\n"
        "try:\n"
        "    while True: envs.step([0, 1]); print('playing', flush=True)\n"
        "except KeyboardInterrupt: pass\n"
        # The interrupt may have cut a line short.
        "envs.step([0, 1]); print('\\nstill there', flush=True)",
        start_new_session=True,
    )
    server = int(line(process))
    assert os.getpgid(server) != process.pid, "the server would stop a moment later"
    assert line(process) == "playing"
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=PATIENCE)
    assert output.split("\n")[-2] == "still there"
    assert process.returncode == 0


# ---- one private server --------------------------------------------------------------------------


def test_an_environment_made_50_times_leaves_one_server() -> None:
    kept = gym.make_vec(ID, num_envs=2, endpoint="private")
    pid = private_server_pid(kept)
    for _ in range(50):
        envs = gym.make_vec(ID, num_envs=2, endpoint="private")
        envs.reset(seed=0)
        assert private_server_pid(envs) == pid
        del envs
    assert child_servers() == [pid]
    kept.close()


def test_an_environment_made_and_closed_50_times_starts_one_server() -> None:
    pids = set()
    for _ in range(50):
        envs = gym.make_vec(ID, num_envs=2, endpoint="private")
        envs.reset(seed=0)
        pids.add(private_server_pid(envs))
        envs.close()
    assert len(pids) == 1
    assert child_servers() == list(pids)


def test_a_stopped_server_leaves_no_descriptor_and_may_be_stopped_again() -> None:
    process = script(
        "import time; from twofold.client.private_server import PrivateServer\n"
        "before = os.listdir('/proc/self/fd')\n"
        f"server = PrivateServer(time.monotonic() + {PATIENCE})\n"
        "for _ in range(2):\n"
        "    server.stop(); print(os.listdir('/proc/self/fd') == before)\n"
    )
    output, errors = process.communicate(timeout=PATIENCE)
    assert output.split() == ["True", "True"], errors


def test_threads_share_the_server() -> None:
    pids = []

    def run() -> None:
        envs = gym.make_vec(ID, num_envs=2, endpoint="private")
        envs.reset(seed=0)
        for _ in range(50):
            envs.step([0, 1])
        pids.append(private_server_pid(envs))
        envs.close()

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(pids) == 8
    assert len(set(pids)) == 1


def test_a_forked_child_has_its_own_server_and_leaves_its_parents_server_alone() -> None:
    process = script(
        f"envs = gym.make_vec('{ID}', num_envs=2, endpoint='private'); envs.reset(seed=0)\n"
        "mine = servers.private_server_pid(envs)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    try: envs.step([0, 1])\n"
        "    except twofold.errors.ClosedError as error: print('closed', flush=True)\n"
        f"    own = gym.make_vec('{ID}', num_envs=2, endpoint='private')\n"
        "    own.reset(seed=0); own.step([0, 1])\n"
        "    print(servers.private_server_pid(own) != mine, flush=True)\n"
        "    envs.close()\n"
        "    print(servers.private_server_pid(own), flush=True)\n"
        "    sys.exit(0)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)\n"
        "envs.step([0, 1]); print('fine', flush=True)\n"
    )
    output, errors = process.communicate(timeout=PATIENCE)
    closed, is_other, childs_server, status, fine = output.split()
    assert (closed, is_other, status, fine) == ("closed", "True", "0", "fine"), errors
    assert process.returncode == 0
    assert not is_running(int(childs_server))


@pytest.mark.parametrize("context", ["fork", pytest.param("spawn", marks=pytest.mark.long)])
def test_gymnasiums_async_workers_have_their_own_servers_and_leave_nothing_behind(
    tmp_path: Path, context: str
) -> None:
    process = script(
        "if __name__ == '__main__':\n"
        f"    envs = gym.make_vec('twofold:{ID}', num_envs=2, vectorization_mode='async',\n"
        f"                        endpoint='private',\n"
        f"                        vector_kwargs=dict(context='{context}'))\n"
        "    first, _ = envs.reset(seed=0)\n"
        "    envs.step([0, 1])\n"
        "    again, _ = envs.reset(seed=0)\n"
        "    print((first == again).all(), flush=True); envs.close()",
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    output, errors = process.communicate(timeout=PATIENCE)
    assert output.split() == ["True"], errors
    assert list(tmp_path.glob("twofold-*")) == []


# ---- starting ------------------------------------------------------------------------------------


def use_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    program = tmp_path / "server"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    monkeypatch.setenv("TWOFOLD_SERVER", str(program))
    private_server.stop_at_exit()


def test_a_server_that_fails_at_its_start_shows_the_end_of_its_log(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use_program(monkeypatch, tmp_path, r"seq 21 >&2; printf '\377' >&2; exit 3")
    with pytest.raises(twofold.errors.ServerStartFailed, match="status 3 during") as caught:
        gym.make(ID, endpoint="private")
    _, *shown = str(caught.value).splitlines()
    assert shown == [f"    {number}" for number in (*range(3, 22), "\N{REPLACEMENT CHARACTER}")]


def test_a_program_that_the_system_can_not_start_is_named_and_leaves_no_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use_program(monkeypatch, tmp_path, "")
    (tmp_path / "server").write_bytes(b"\x7fELF")
    (tmp_path / "files").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "files"))
    with pytest.raises(twofold.errors.ServerStartFailed, match="server could not be started: "):
        gym.make(ID, endpoint="private")
    assert list((tmp_path / "files").iterdir()) == []


def test_a_lack_of_descriptors_for_a_server_is_reported_with_its_remedy() -> None:
    private_server.stop_at_exit()
    refused = pytest.raises(twofold.errors.ServerStartFailed, match="raise the limit on open files")
    with no_more_descriptors(), refused:
        twofold.Game2048VectorEnv(1, endpoint="private")


@pytest.mark.parametrize(
    ("program", "outcome"),
    [
        ("exit 0", "exited with status 0"),
        ("kill -9 $$", "was killed by signal 9"),
        ("exec sleep 1000 >&-", "closed its output"),
    ],
)
def test_a_server_that_ends_at_its_start_is_reported_with_its_outcome(
    program: str, outcome: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use_program(monkeypatch, tmp_path, program)
    if outcome == "closed its output":  # only this program does not end
        monkeypatch.setattr(private_server, "_STOP_DEADLINE", 0.1)
    expected = rf"\(process \d+\) {outcome} during startup; its log is empty$"
    with pytest.raises(twofold.errors.ServerStartFailed, match=expected):
        gym.make(ID, endpoint="private")


@pytest.mark.parametrize("program", ["exec sleep 1000", "trap '' TERM; exec sleep 1000"])
def test_a_server_that_never_starts_is_abandoned(
    program: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    processes, popen = [], subprocess.Popen

    def start(*arguments: Any, **keywords: Any) -> Any:
        processes.append(popen(*arguments, **keywords))
        return processes[-1]

    use_program(monkeypatch, tmp_path, program)
    monkeypatch.setattr(private_server, "_STOP_DEADLINE", 0.1)
    monkeypatch.setattr(subprocess, "Popen", start)
    with pytest.raises(twofold.errors.ServerStartFailed, match="in time"):
        gym.make(ID, endpoint="private", timeout=0.5)
    assert [is_running(process.pid) for process in processes] == [False]


def test_a_program_that_is_not_a_server_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use_program(monkeypatch, tmp_path, "echo hello; exec sleep 60")
    with pytest.raises(twofold.errors.ServerStartFailed, match="not a twofold-server"):
        gym.make(ID, endpoint="private")


def test_a_missing_directory_for_temporary_files_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use_program(monkeypatch, tmp_path, "exec sleep 60")
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    with pytest.raises(twofold.errors.ServerStartFailed, match="TMPDIR"):
        gym.make(ID, endpoint="private")


def test_a_missing_server_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWOFOLD_SERVER", "/nowhere/twofold-server")
    with pytest.raises(twofold.errors.ServerStartFailed, match=r"TWOFOLD_SERVER.*nowhere"):
        lookup.find_program()


def test_the_program_is_looked_for_in_order(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def program(*parts: str) -> Path:
        path = tmp_path.joinpath(*parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
        return path

    package = tmp_path / "checkout" / "python_client" / "src" / "twofold"
    package.mkdir(parents=True)
    monkeypatch.setattr(lookup, "__file__", str(package / "client" / "lookup.py"))
    monkeypatch.delenv("TWOFOLD_SERVER", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(twofold.errors.ServerStartFailed, match="make server"):
        lookup.find_program()
    expected = program("bin", "twofold-server")
    assert lookup.find_program() == expected
    expected = program("checkout", ".build", "release", "twofold-server")
    assert lookup.find_program() != expected, "that is not a checkout of Twofold"
    (tmp_path / "checkout" / "Package.swift").touch()
    assert lookup.find_program() == expected
    expected = program("checkout", "python_client", "src", "twofold", "_bin", "twofold-server")
    assert lookup.find_program() == expected
    expected = program("named")
    monkeypatch.setenv("TWOFOLD_SERVER", str(expected))
    assert lookup.find_program() == expected


def test_a_long_tmpdir_does_not_make_the_socket_path_too_long(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    private_server.stop_at_exit()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    envs = twofold.Game2048VectorEnv(2, endpoint="private")
    envs.reset(seed=0)
    assert envs.token.startswith("ipc:///tmp/")
    assert list(long.iterdir()) == []
    envs.close()


def test_the_longest_path_of_a_socket_counts_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    room = system.LONGEST_IPC_PATH - len("/twofold-server-xxxxxxxx/s")
    longest = "/\N{LATIN SMALL LETTER A WITH DIAERESIS}" + "x" * (room - 3)
    for directory, expected in ((longest, longest), (f"{longest}x", "/tmp")):
        monkeypatch.setattr(tempfile, "tempdir", directory)
        assert private_server.temporary_directory() == expected


def test_a_killed_python_leaves_an_empty_directory_that_a_later_server_removes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = script(
        f"env = gym.make('{ID}', endpoint='private'); env.reset(seed=0)\n"
        "print(servers.private_server_pid(env), flush=True); sys.stdin.read()",
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    pid = int(line(process))
    process.kill()
    process.communicate()
    wait_until(lambda: not is_running(pid))
    (directory,) = tmp_path.iterdir()
    assert list(directory.iterdir()) == []
    os.utime(directory, (0, 0))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    private_server._remove_abandoned_directories()
    assert not directory.exists()
