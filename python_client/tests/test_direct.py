"""On one machine requests go over a direct connection; results do not show it."""

import os
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zmq
from games import MakeBatch
from servers import Server, wait_until
from test_shared_memory import play

import twofold
from twofold import Game2048VectorEnv, TwofoldVectorEnv, _carriers, _connection
from twofold._carriers import DirectCarrier
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment


def carriers(envs: TwofoldVectorEnv) -> tuple[bool, bool]:
    """Whether it has a direct connection, and whether a ZeroMQ socket."""
    connection = envs._session._connection
    return connection._direct is not None, connection._zeromq is not None


def steps(envs: TwofoldVectorEnv, count: int = 5) -> list[bytes]:
    return [envs.step(np.full(envs.num_envs, turn % 4))[0].tobytes() for turn in range(count)]


@pytest.mark.parametrize("lanes", [1, 70, 1000, 4096])
@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_a_direct_connection_tells_what_zeromq_tells(
    make_batch: MakeBatch, server: Server, lanes: int, mode: str
) -> None:
    told = []
    for endpoint in (server.ipc, server.tcp):
        envs = make_batch(lanes, endpoint=endpoint, autoreset_mode=mode, max_episode_steps=7)
        told.append(play(envs))
        assert carriers(envs)[0] == (endpoint == server.ipc)
        envs.close()
    assert told[0] == told[1]


def test_zeromq_is_not_even_asked_where_everything_fits(server: Server) -> None:
    with closing(Game2048VectorEnv(100, endpoint=server.ipc)) as envs:
        envs.reset(seed=1)
        steps(envs)
        assert carriers(envs) == (True, False)


def test_what_does_not_fit_goes_over_zeromq(server: Server) -> None:
    """Actions of 200,000 boards do not; a close does."""
    with (
        closing(Game2048VectorEnv(200_000, endpoint=server.ipc)) as envs,
        closing(Game2048VectorEnv(200_000, endpoint=server.tcp)) as calm,
    ):
        assert np.array_equal(envs.reset(seed=1)[0], calm.reset(seed=1)[0])
        assert steps(envs, 3) == steps(calm, 3)
        assert carriers(envs)[1]


def test_a_reply_that_does_not_fit_is_asked_for_over_zeromq(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that can't read the server's memory is sent 5000 boards' replies."""
    monkeypatch.setattr(os, "readlink", _raising(FileNotFoundError("no /proc")))
    with (
        closing(Game2048VectorEnv(5000, endpoint=server.ipc)) as envs,
        closing(Game2048VectorEnv(5000, endpoint=server.tcp)) as calm,
    ):
        assert np.array_equal(envs.reset(seed=1)[0], calm.reset(seed=1)[0])
        assert steps(envs) == steps(calm)
        envs.keepalive()
        assert envs._session._connection._too_large == {"reset", "step"}
        assert carriers(envs)[1]


def _raising(error: Exception) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


# ---- where there is none -------------------------------------------------------------------------


def test_without_the_socket_everything_goes_over_zeromq(own_server: Server) -> None:
    path = Path(own_server.ipc.removeprefix("ipc://") + ".direct")
    path.unlink()
    with closing(Game2048VectorEnv(3, endpoint=own_server.ipc)) as envs:
        envs.reset(seed=1)
        steps(envs)
        assert carriers(envs) == (False, True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_socket_of_somebody_else_is_not_used(
    own_server: Server,
) -> None:
    """In a directory that is open to all, another user could have put it there."""
    path = own_server.ipc.removeprefix("ipc://")
    os.chown(path, 12345, -1)
    with pytest.raises(PermissionError, match="somebody else's"):
        DirectCarrier(path)
    with closing(Game2048VectorEnv(3, endpoint=own_server.ipc)) as envs:
        envs.reset(seed=1)
        assert carriers(envs) == (False, True)


def test_a_server_without_descriptors_left_goes_on_and_is_not_busy(own_server: Server) -> None:
    with closing(Game2048VectorEnv(3, endpoint=own_server.ipc)) as envs:
        envs.reset(seed=1)
        before = steps(envs)
        pid = own_server.process.pid
        used = len(os.listdir(f"/proc/{pid}/fd"))
        limit = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + 3, limit[1]))
        path = own_server.ipc.removeprefix("ipc://") + ".direct"
        others = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(20)]
        for other in others:
            other.settimeout(10)
            other.connect(path)
        # Those that are too many are hung up on.
        assert sum(_is_ended(other) for other in others[3:]) == 17
        start, begin = _seconds_run(pid), time.monotonic()
        time.sleep(0.5)
        assert _seconds_run(pid) - start < (time.monotonic() - begin) / 2
        for other in others:
            other.close()
        after = steps(envs)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limit)
        assert carriers(envs) == (True, False)
    with closing(Game2048VectorEnv(3)) as calm:
        calm.reset(seed=1)
        assert before + after == steps(calm) + steps(calm)


def _is_ended(other: socket.socket) -> bool:
    return other.recv(10) == b""


def _seconds_run(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# ---- where it breaks -----------------------------------------------------------------------------


def cut(envs: TwofoldVectorEnv) -> None:
    """Ends the direct connection as if the server had."""
    direct = envs._session._connection._direct
    assert direct is not None
    direct._socket.shutdown(socket.SHUT_RDWR)


def test_a_connection_that_ends_is_made_good_over_zeromq_and_comes_back(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_connection, "_DIRECT_PAUSE", 0.2)
    with (
        closing(Game2048VectorEnv(3, endpoint=server.ipc)) as envs,
        closing(Game2048VectorEnv(3)) as calm,
    ):
        assert np.array_equal(envs.reset(seed=1)[0], calm.reset(seed=1)[0])
        for _ in range(3):
            cut(envs)
            assert steps(envs) == steps(calm)
            assert carriers(envs)[1]
            time.sleep(0.25)
            assert steps(envs) == steps(calm)
            assert carriers(envs)[0]


def test_a_reply_that_was_on_its_way_is_told_again(server: Server) -> None:
    with (
        closing(Game2048VectorEnv(3, endpoint=server.ipc)) as envs,
        closing(Game2048VectorEnv(3)) as calm,
    ):
        envs.reset(seed=1)
        calm.reset(seed=1)
        for turn in range(8):
            request = envelope.Request(step=environment.StepRequest())
            actions = np.full(3, turn % 4, np.uint8)
            envs._session.begin("step", request, actions.tobytes(), 0)
            if turn % 2:
                time.sleep(0.02)
            direct = envs._session._connection._direct
            if direct is not None:
                direct._socket.shutdown(socket.SHUT_RDWR)
            assert np.array_equal(envs.step(actions)[0], calm.step(actions)[0])
            assert envs.requests == calm.requests


def test_a_server_that_comes_back_is_talked_to_directly_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_connection, "_DIRECT_PAUSE", 0.2)
    with (
        Server("--state-dir", str(tmp_path / "state")) as server,
        closing(Game2048VectorEnv(3, endpoint=server.ipc)) as envs,
        closing(Game2048VectorEnv(3)) as calm,
    ):
        assert np.array_equal(envs.reset(seed=1)[0], calm.reset(seed=1)[0])
        for _ in range(3):
            server.terminate()
            server.start_again()
            assert steps(envs) == steps(calm)
            time.sleep(0.25)
            assert steps(envs) == steps(calm)
            assert carriers(envs)[0]


def test_a_request_that_takes_long_is_sent_once(own_server: Server) -> None:
    """Nothing gets lost on a direct connection, so there is no reason to ask again."""
    with closing(Game2048VectorEnv(3, endpoint=own_server.ipc)) as envs:
        envs.reset(seed=1)
        process = own_server.process
        process.send_signal(signal.SIGSTOP)
        # Over ZeroMQ it would be sent again after 20, 60 and 140 ms.
        threading.Timer(0.3, process.send_signal, (signal.SIGCONT,)).start()
        steps(envs)
        counters = _stats(own_server).counters
        assert counters.parked == counters.resent == 0
        assert carriers(envs) == (True, False)


def test_two_who_resume_while_a_search_goes_on_both_get_an_answer(own_server: Server) -> None:
    """The server keeps only the newest that waits; the other has to ask again."""
    envs = Game2048VectorEnv(3000, endpoint=own_server.ipc)
    envs.reset(seed=1)
    token = envs.token
    found: list[TwofoldVectorEnv] = []

    def search() -> None:
        with suppress(twofold.StaleEpoch):
            envs.rollout(500, policy=twofold.policies.Expectimax(depth=2))

    def resume() -> None:
        found.append(twofold.resume(token, timeout=30))

    threads = [threading.Thread(target=target) for target in (search, resume, resume)]
    for thread in threads:
        thread.start()
        time.sleep(0.05)
    for thread in threads:
        thread.join(25)
    assert len(found) == 2
    for each in (envs, *found):
        each.close()


def _stats(server: Server) -> Any:
    with zmq.Context() as context, context.socket(zmq.REQ) as peer:
        peer.connect(server.tcp)
        peer.send(envelope.Request(stats={}).SerializeToString())
        return envelope.Reply.FromString(peer.recv()).stats


@pytest.mark.parametrize("trouble", ["deadline", "interrupt"])
def test_what_was_given_up_is_collected_by_the_same_call(own_server: Server, trouble: str) -> None:
    with (
        closing(Game2048VectorEnv(3, endpoint=own_server.ipc, timeout=0.5)) as envs,
        closing(Game2048VectorEnv(3)) as calm,
    ):
        envs.reset(seed=1)
        calm.reset(seed=1)
        actions = np.ones(3, np.int64)
        with own_server.stopped():
            if trouble == "interrupt":
                threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            expected = twofold.DeadlineExceeded if trouble == "deadline" else KeyboardInterrupt
            with pytest.raises(expected):
                envs.step(actions)
        assert np.array_equal(envs.step(actions)[0], calm.step(actions)[0])
        assert envs.requests == calm.requests
        assert steps(envs) == steps(calm)


def test_a_private_server_that_dies_is_noticed_at_once() -> None:
    with closing(Game2048VectorEnv(3)) as envs:
        envs.reset(seed=1)
        server = envs._session._server
        assert server is not None
        os.kill(server.pid, signal.SIGKILL)
        began = time.monotonic()
        with pytest.raises(twofold.ServerDied):
            envs.step(np.zeros(3, np.int64))
        assert time.monotonic() - began < 5


def test_connections_go_with_their_environments(own_server: Server) -> None:
    def descriptors() -> int:
        return len(os.listdir(f"/proc/{own_server.process.pid}/fd"))

    def own_sockets() -> int:
        """Not what a private server of another test gives back when its time is up."""
        count = 0
        for descriptor in Path("/proc/self/fd").iterdir():
            with suppress(FileNotFoundError):
                count += os.readlink(descriptor).startswith("socket:")
        return count

    with closing(Game2048VectorEnv(1, endpoint=own_server.ipc)) as envs:
        envs.reset(seed=1)
        before, own = descriptors(), own_sockets()
        for _ in range(30):
            with closing(Game2048VectorEnv(1, endpoint=own_server.ipc)) as other:
                other.reset(seed=1)
        assert own_sockets() == own
        wait_until(lambda: descriptors() <= before)


# ---- who is no server ----------------------------------------------------------------------------


@contextmanager
def impostor(tmp_path: Path, reply: bytes) -> Iterator[str]:
    """Answers every packet with the same; nobody is at its ZeroMQ endpoint."""
    path = str(tmp_path / "s")
    Path(path).touch()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path + ".direct")
        listener.listen(100)

        def answer() -> None:
            while True:
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return
                with peer:
                    while peer.recv(1 << 18):
                        peer.send(reply)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield f"ipc://{path}"
        listener.shutdown(socket.SHUT_RDWR)


def packet(header: bytes, payload: bytes | None = None) -> bytes:
    prefix = len(header) | (0 if payload is None else 1 << 31)
    return prefix.to_bytes(4, "little") + header + (payload or b"")


@pytest.mark.parametrize(
    "reply",
    [
        packet(b"\xff\xff\xff"),
        packet(b"\xff\xff\xff", b"abc"),
        packet(envelope.Reply(reset={}).SerializeToString()),
        packet(envelope.Reply(step={}).SerializeToString(), b"x" * 70_000),
    ],
    ids=["no protobuf", "no protobuf, a payload", "another reply", "a payload"],
)
def test_an_answer_that_makes_no_sense_is_a_protocol_error(tmp_path: Path, reply: bytes) -> None:
    with (
        impostor(tmp_path, reply) as endpoint,
        pytest.raises(twofold.ProtocolError, match="twofold server"),
    ):
        Game2048VectorEnv(1, endpoint=endpoint, timeout=2)


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"x",
        b"\0\0\0\0",
        (1 << 30).to_bytes(4, "little") + b"abc",
        packet(envelope.Reply(seq=77, hello={}).SerializeToString()),
    ],
    ids=["nothing", "too short", "not here", "cut short", "to another request"],
)
def test_who_gives_no_answer_is_asked_over_zeromq(tmp_path: Path, reply: bytes) -> None:
    with (
        impostor(tmp_path, reply) as endpoint,
        pytest.raises(twofold.DeadlineExceeded),
    ):
        Game2048VectorEnv(1, endpoint=endpoint, timeout=1)


def test_a_payload_is_the_users_own(server: Server) -> None:
    """The next packet comes into the same memory."""
    with closing(Game2048VectorEnv(70, endpoint=server.ipc)) as envs:
        envs.reset(seed=1)
        kept = envs.step(np.zeros(70, np.int64))
        copies = [array.copy() for array in kept[:4]]
        blob = envs.snapshot()
        steps(envs, 20)
        assert all(np.array_equal(*pair) for pair in zip(kept[:4], copies, strict=True))
        assert kept[0].flags.writeable
        envs.restore(blob)
        assert envs.snapshot() == blob
    assert _carriers._MAX_PACKET == 1 << 17
