"""Tests of sessions that outlive their server: saved to --state-dir, restored at the next start."""

import contextlib
import os
import re
import signal
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loops import BOARDS, hurried, make, one_step, play, undisturbed
from raw import RawSession, statistics_of
from servers import PATIENCE, Server, running, wait_until

import twofold
from twofold import errors
from twofold.client.lookup import find_program
from twofold.v1 import envelope_pb2 as envelope


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def keeping(directory: Path) -> Iterator[Server]:
    """Starts a server with a state directory."""
    with Server("--state-dir", str(directory)) as server:
        yield server


def restart(server: Server) -> None:
    server.terminate()
    server.start_again()


def files(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.session*"))


def test_a_restart_only_delays_a_client(keeping: Server, game: str, directory: Path) -> None:
    expected = undisturbed(keeping.ipc, 90, game)
    envs = make(keeping.ipc, game)
    results = []
    for step in range(90):
        if step in (0, 1, 30, 31, 60):
            restart(keeping)
            assert files(directory) == []
        results.append(one_step(envs, step))
    assert results == expected
    envs.close()
    keeping.terminate()
    assert files(directory) == []
    keeping.start_again()


@pytest.mark.parametrize("autoreset_mode", ["NextStep", "SameStep", "Disabled"])
def test_boards_of_every_mode_continue(keeping: Server, autoreset_mode: str) -> None:
    keywords: dict[str, Any] = {"autoreset_mode": autoreset_mode, "max_episode_steps": 8}
    envs, twin = make(keeping.ipc, **keywords), make("private", **keywords)
    results = []
    for each in (envs, twin):
        results.append([one_step(each, step) for step in range(8)])
    restart(keeping)
    for each, told in zip((envs, twin), results, strict=True):
        if autoreset_mode == "Disabled":
            _, infos = each.reset(options={"reset_mask": np.ones(16, np.bool_)})
            told.append(int(infos["action_mask"].sum()))
        told += [one_step(each, step) for step in range(8, 14)]
        each.close()
    assert results[0] == results[1]


def test_networks_and_the_streams_of_policies_are_saved(keeping: Server) -> None:
    generator = np.random.default_rng(0)
    weights = [generator.normal(size=16**2).astype(np.float32) for _ in range(2)]
    network = twofold.policies.NTuple(tuples=((0, 1), (1, 5)), weights=weights, exponents=16)
    envs, twin = make(keeping.ipc), make("private")
    for each in (envs, twin):
        each.reset(seed=3)
        each.rollout(5, "random")
        each.rollout(5, network)
    restart(keeping)
    for policy in (network, "random", network):
        mine, its = envs.rollout(30, policy), twin.rollout(30, policy)
        np.testing.assert_array_equal(mine.actions, its.actions)
        np.testing.assert_array_equal(mine.observations, its.observations)
    envs.close()
    twin.close()


def test_a_repeat_gets_the_reply_from_before_the_restart(keeping: Server) -> None:
    with RawSession(keeping.ipc) as session:
        session.create()
        session.reset()
        step = session.request(step={})
        answer = session.call(step, bytes(3))
        restart(keeping)
        for _ in range(2):
            assert session.call(step, bytes(3)) == answer
        conflict = session.call(step, bytes([1, 0, 0])).error
        assert conflict.code == envelope.ERROR_CODE_CONFLICT
        assert session.step(0, 0, 0).slot == "step"


@pytest.mark.parametrize("is_executed", [False, True])
def test_a_step_too_large_for_the_next_server_is_refused_unless_it_was_executed(
    keeping: Server, is_executed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server does not answer a message above its limit."""
    envs, twin = (
        twofold.Game2048VectorEnv(1000, endpoint=endpoint, timeout=PATIENCE)
        for endpoint in (keeping.ipc, "embedded")
    )
    envs.reset(seed=0)
    twin.reset(seed=0)

    def lose_reply(*_: object) -> None:
        wait_until(lambda: statistics_of(keeping.ipc).sessions[0].requests == 3)
        raise errors.DeadlineExceeded

    step = np.zeros(1000, np.uint8)
    if is_executed:
        with monkeypatch.context() as patch:
            patch.setattr(envs._session.link.carrier, "_receive", lose_reply)
            with pytest.raises(errors.DeadlineExceeded):
                envs.step(step)
    keeping._arguments += ("--max-message-bytes", "600")
    restart(keeping)
    if is_executed:
        np.testing.assert_array_equal(envs.step(step)[1], twin.step(step)[1])
    with pytest.raises(errors.ResourceExhausted, match="max_message_bytes = 600"):
        envs.step(step)
    np.testing.assert_array_equal(envs.boards(), twin.boards())
    envs.close()
    twin.close()


@pytest.mark.parametrize("method", ["step", "step_async"])
def test_an_environment_uses_the_higher_limit_on_messages_of_its_next_server(
    keeping: Server, method: str
) -> None:
    envs, usual = twofold.Game2048VectorEnv(700, endpoint=keeping.ipc), keeping._arguments
    envs.reset()
    keeping._arguments += ("--max-message-bytes", "600")
    restart(keeping)
    with pytest.raises(errors.ResourceExhausted, match="max_message_bytes = 600"):
        envs.step(np.zeros(700, np.uint8))
    keeping._arguments = usual
    restart(keeping)
    getattr(envs, method)(np.zeros(700, np.uint8))
    envs.close()


def test_a_request_above_the_last_servers_limit_waits_for_the_next_server(keeping: Server) -> None:
    usual = keeping._arguments
    keeping._arguments += ("--max-message-bytes", "4096")
    restart(keeping)
    envs = twofold.Game2048VectorEnv(1000, endpoint=keeping.ipc, timeout=PATIENCE)
    with pytest.raises(errors.ResourceExhausted, match="max_message_bytes = 4096"):
        envs.reset(seed=0)
    keeping.terminate()
    with hurried(envs), pytest.raises(errors.DeadlineExceeded):
        envs.reset(seed=0)
    keeping._arguments = usual
    keeping.start_again()
    envs.reset(seed=0)
    envs.close()


def test_a_client_that_was_shut_out_stays_shut_out(keeping: Server) -> None:
    first = make(keeping.ipc)
    play(first, 5)
    second = twofold.resume(first.token)
    restart(keeping)
    with pytest.raises(errors.StaleEpoch):
        one_step(first, 5)
    one_step(second, 5)
    second.close()


def test_a_server_that_is_killed_later_does_not_restore_old_sessions(
    keeping: Server, directory: Path
) -> None:
    envs = make(keeping.ipc)
    play(envs, 5)
    restart(keeping)
    one_step(envs, 5)
    keeping.replace()
    with pytest.raises(errors.NotFound):
        one_step(envs, 6)
    envs.close()
    assert files(directory) == []


def test_only_the_owner_can_read_the_files(keeping: Server, directory: Path) -> None:
    envs = make(keeping.ipc)
    envs.reset(seed=0)
    keeping.terminate()
    assert directory.stat().st_mode & 0o777 == 0o700
    assert [file.stat().st_mode & 0o777 for file in files(directory)] == [0o600]
    keeping.start_again()
    envs.close()


@pytest.mark.parametrize("kind", ["empty", "text", "version", "cut", "flipped"])
def test_a_damaged_session_stays_in_the_directory_and_does_not_stop_the_server(
    keeping: Server, directory: Path, kind: str
) -> None:
    damaged, whole = make(keeping.ipc), make(keeping.ipc)
    damaged.reset(seed=0)
    keeping.terminate()
    (file,) = files(directory)
    # Each session's record begins like this, and the damaged record keeps its id.
    begin = b"TWOFOLDT\x02\0\0\0"
    records = [begin + record for record in file.read_bytes().split(begin)[1:]]
    (identity,) = re.findall(r"[0-9a-f]{32}", damaged.token)
    other, content = sorted(records, key=lambda record: bytes.fromhex(identity) in record)
    assert bytes.fromhex(identity) in content
    broken = {
        "empty": b"",
        "text": b"a session",
        "version": content[:8] + b"\x03" + content[9:],
        "cut": content[:-20],
        "flipped": content[:-9] + bytes([content[-9] ^ 1]) + content[-8:],
    }[kind]
    file.write_bytes(other + broken)
    for _ in range(2):
        keeping.start_again()
        with pytest.raises(errors.NotFound):
            damaged.step(np.zeros(16, int))
        whole.reset(seed=0)
        kept = [each.read_bytes() for each in files(directory)]
        restored = other.replace(b"TWOFOLDT", b"TWOFOLDR", 1)
        assert kept == ([restored + broken] if broken else [])
        keeping.terminate()
    keeping.start_again()
    whole.close()
    damaged.close()


def test_of_two_copies_of_a_session_the_newer_is_restored(keeping: Server, directory: Path) -> None:
    envs = make(keeping.ipc)
    envs.reset(seed=0)
    keeping.terminate()
    (file,) = files(directory)
    older = file.read_bytes()
    keeping.start_again()
    envs.step(np.zeros(16, int))
    boards = envs.boards()
    keeping.terminate()
    newer = file.read_bytes()
    # In both orders of the files, and of the records in a file.
    for contents in ([older, newer], [newer, older], [older + newer], [newer + older]):
        for number, content in enumerate(contents, 1):
            (directory / f"{number}.sessions").write_bytes(content)
        keeping.start_again()
        resumed = twofold.resume(envs.token, endpoint=keeping.ipc)
        assert np.array_equal(resumed.boards(), boards)
        assert files(directory) == []
        keeping.kill()


@pytest.fixture
def session_bytes() -> int:
    """The memory in bytes that a server reserves for a session of 10,000 boards."""
    with Server() as server:
        envs = twofold.Game2048VectorEnv(10_000, endpoint=server.ipc)
        (session,) = statistics_of(server.ipc).sessions
        envs.close()
    return int(session.bytes)


def test_a_session_that_takes_all_memory_is_restored(session_bytes: int, tmp_path: Path) -> None:
    boards = 10_000
    state = ["--state-dir", str(tmp_path / "state")]
    with Server(*state, "--max-bytes", str(session_bytes + 1000)) as server:
        envs = twofold.Game2048VectorEnv(boards, endpoint=server.ipc)
        envs.reset(seed=0)
        envs.step(np.zeros(boards, np.uint8))
        restart(server)
        envs.step(np.zeros(boards, np.uint8))
        restart(server)
        envs.reset(seed=1)
        restart(server)
        envs.close()


def test_of_two_copies_of_a_session_the_newer_is_restored_without_memory_for_both(
    session_bytes: int, directory: Path
) -> None:
    boards, limit = 10_000, str(session_bytes * 3 // 2)
    with Server("--state-dir", str(directory), "--max-bytes", limit) as server:
        envs = twofold.Game2048VectorEnv(boards, endpoint=server.ipc)
        envs.reset(seed=0)
        server.terminate()
        (file,) = files(directory)
        older = file.read_bytes()
        server.start_again()
        envs.step(np.zeros(boards, np.uint8))
        expected = envs.boards()
        server.terminate()
        (directory / "2.sessions").write_bytes(file.read_bytes())
        (directory / "1.sessions").write_bytes(older)
        server.start_again()
        np.testing.assert_array_equal(envs.boards(), expected)
        assert files(directory) == []


def test_of_two_copies_of_a_session_the_one_resumed_last_is_restored(
    keeping: Server, directory: Path
) -> None:
    envs = make(keeping.ipc)
    keeping.terminate()
    (file,) = files(directory)
    older = file.read_bytes()
    keeping.start_again()
    resumed = twofold.resume(envs.token, endpoint=keeping.ipc)
    keeping.terminate()
    file.write_bytes(older + file.read_bytes())
    keeping.start_again()
    resumed.reset(seed=0)
    resumed.close()


def test_a_file_larger_than_memory_stays_in_the_directory_and_does_not_stop_the_server(
    keeping: Server, directory: Path
) -> None:
    keeping.terminate()
    head = struct.pack("<8sIIQ", b"TWOFOLDT", 2, 0, 1 << 40)
    old = directory / "old.session"
    old.write_bytes(struct.pack("<8sII", b"TWOFOLDT", 1, 0))
    new = directory / "new.sessions"
    new.write_bytes(head + struct.pack("<I", zlib.crc32(head)))
    for file in (old, new):
        os.truncate(file, 2 << 40)  # a sparse file, which takes no space
    keeping.start_again()
    make(keeping.ipc).close()
    assert files(directory) == [new, old]


def test_a_session_too_large_for_the_memory_harms_no_other(tmp_path: Path) -> None:
    """A stop needs memory for two copies of a session, and a start for three."""

    def limits(megabytes: int) -> list[str]:
        megabytes += 8 * ((os.cpu_count() or 2) - 2)  # each thread has a stack of 8 MiB
        return [f"--as={megabytes << 20}"]

    weights = [np.zeros(16**6, np.float32)]
    network = twofold.policies.NTuple([range(6)], weights, exponents=16)
    with Server("--state-dir", str(tmp_path / "state")) as server:
        small, large = make(server.ipc), make(server.ipc)
        expected = [one_step(small, 0), one_step(large, 0)]
        large.rollout(1, network)
        server.terminate()
        server.limits = limits(310)
        server.start_again()
        one_step(small, 1)
        with pytest.raises(errors.NotFound):
            one_step(large, 1)
        server.terminate()
        server.limits = []
        server.start_again()
        one_step(large, 2)
        server.kill()

    with Server("--state-dir", str(tmp_path / "other"), limits=limits(350)) as server:
        small, large = make(server.ipc), make(server.ipc)
        assert [one_step(small, 0), one_step(large, 0)] == expected
        large.rollout(1, network)
        server.process.terminate()
        assert server.process.wait(PATIENCE) == 1, "it has lost a session, and says so"
        server.start_again()
        one_step(small, 1)


@pytest.fixture
def memory_limit() -> Iterator[Path]:
    """The file with the limit on memory of a new control group, which has no processes yet."""
    files = {"": "memory.max", "memory": "memory.limit_in_bytes"}  # of versions 2 and 1
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        group = Path(f"/sys/fs/cgroup/{controllers}{path}/twofold-{os.getpid()}")
        try:
            limit = group / files[controllers]
            group.mkdir()
        except (KeyError, OSError):
            continue
        try:
            if limit.exists():
                yield limit
                return
        finally:
            group.rmdir()
    pytest.skip("only root can limit the memory of a control group, and not in every container")


def test_a_stop_in_a_small_container_saves_the_sessions_that_fit(
    keeping: Server, memory_limit: Path
) -> None:
    weights = [np.zeros(16**6, np.float32)]
    network = twofold.policies.NTuple([range(6)], weights, exponents=16)
    small, large = make(keeping.ipc), make(keeping.ipc)
    one_step(small, 0)
    one_step(large, 0)
    large.rollout(1, network)
    memory_limit.write_text(str(keeping.memory + (100 << 20)))
    (memory_limit.parent / "cgroup.procs").write_text(str(keeping.process.pid))
    keeping.process.terminate()
    assert keeping.process.wait(PATIENCE) == 1, "it has lost a session, and says so"
    keeping.start_again()
    one_step(small, 1)
    with pytest.raises(errors.NotFound):
        one_step(large, 1)


@pytest.mark.parametrize("limit", ["--max-sessions=2", f"--max-boards={2 * BOARDS}"])
def test_sessions_beyond_a_limit_stay_in_the_directory(
    keeping: Server, directory: Path, limit: str
) -> None:
    played = [make(keeping.ipc) for _ in range(3)]
    for envs in played:
        one_step(envs, 0)
    keeping.terminate()
    keeping._arguments += (limit,)
    keeping.start_again()
    assert len(files(directory)) == 1
    restored = 0
    for envs in played:
        with contextlib.suppress(errors.NotFound):
            one_step(envs, 1)
            restored += 1
    assert restored == 2


def test_a_killed_stop_keeps_its_files_and_a_stopped_start_keeps_all(
    keeping: Server, directory: Path
) -> None:
    sessions = [make(keeping.ipc) for _ in range(20)]
    for envs in sessions:
        envs.reset(seed=0)
    keeping.terminate()
    (file,) = files(directory)
    content = file.read_bytes()
    # The signal waits until this start catches it, which is before it restores any session.
    command = [str(find_program()), "serve", "--endpoint", f"ipc://{directory}/s"]
    command += ["--state-dir", str(directory), "--parent-pid", str(os.getpid())]
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    process.terminate()
    assert "the saved sessions stay" in process.communicate(timeout=PATIENCE)[1]
    assert process.returncode == 0
    assert [each.stat().st_size for each in files(directory)] == [len(content)]
    (file,) = files(directory)
    file.write_bytes(content[: len(content) // 2])
    keeping.start_again()
    outcomes = []
    for envs in sessions:
        try:
            envs.step(np.zeros(16, int))
            outcomes.append("kept")
        except errors.NotFound:
            outcomes.append("lost")
        envs.close()
    assert 9 <= outcomes.count("kept") <= 10


def test_a_leading_tilde_has_no_special_meaning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "~").mkdir()
    with Server("--state-dir", "~/state") as server:
        envs = make(server.ipc)
        one_step(envs, 0)
        server.terminate()
        assert len(files(tmp_path / "~" / "state")) == 1
        server.start_again()
        one_step(envs, 1)
        envs.close()


def test_a_directory_belongs_to_one_server(
    keeping: Server, directory: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    for path, reason in (
        (directory, "another process uses the state directory"),
        (tmp_path / "file" / "state", "Not a directory"),
    ):
        command = [str(find_program()), "serve", "--endpoint", f"ipc://{tmp_path}/s"]
        other = subprocess.run(
            [*command, "--state-dir", str(path)], capture_output=True, text=True, timeout=PATIENCE
        )
        assert other.returncode != 0
        assert reason in other.stderr


def test_ignored_hangups_and_interrupts_stay_ignored(tmp_path: Path) -> None:
    """The command `nohup` ignores hangups, and a shell interrupts of programs in the background."""
    command = [str(find_program()), "serve", "--endpoint", f"ipc://{tmp_path}/s"]
    trap = 'trap "" HUP INT; exec "$0" "$@"'
    with running(["sh", "-c", trap, *command], stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stdout.readline().startswith(b"listening on ")
        status = Path(f"/proc/{server.pid}/status").read_text()
        server.terminate()
        assert server.wait(PATIENCE) == 0
    ignored = int(status.partition("SigIgn:")[2].split()[0], 16)
    assert all(ignored >> number - 1 & 1 for number in (signal.SIGHUP, signal.SIGINT))


@pytest.mark.parametrize("closed", ["<&- >&-", "<&- 2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_server_runs_without_standard_descriptors(closed: str, tmp_path: Path) -> None:
    command = [str(find_program()), "serve", "--endpoint", f"ipc://{tmp_path}/s"]
    with running(["sh", "-c", f'exec "$0" "$@" {closed}', *command]) as server:
        envs = make(f"ipc://{tmp_path}/s")
        play(envs, 3)
        envs.close()
        assert server.poll() is None
        server.terminate()
        assert server.wait(PATIENCE) == 0


def test_a_directory_that_can_not_be_listed_is_refused(tmp_path: Path) -> None:
    """In the past, it counted as empty, so its sessions were not restored."""
    program = """
import os, sys
program = os.open(sys.argv[1], os.O_RDONLY)  # which another user may not see
if os.getuid() == 0:  # who may list every directory
    os.setuid(65534)
os.mkdir("sessions", 0o300)
arguments = ["serve", "--endpoint", "tcp://127.0.0.1:0", "--state-dir", "sessions"]
os.set_inheritable(program, True)
os.execve(program, ["twofold-server", *arguments], os.environ)
"""
    tmp_path.chmod(0o777)
    command = [sys.executable, "-c", program, str(find_program())]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
    assert ran.returncode == 1
    assert "can't list the state directory 'sessions'" in ran.stderr


def test_a_hangup_signal_stops_the_server(keeping: Server, directory: Path) -> None:
    envs = make(keeping.ipc)
    play(envs, 3)
    keeping.process.send_signal(signal.SIGHUP)
    assert keeping.process.wait(PATIENCE) == 0
    assert len(files(directory)) == 1
    keeping.start_again()
    one_step(envs, 3)
    envs.close()
