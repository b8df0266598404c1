"""Encrypted endpoints: admitted keys, owners of sessions, and the errors for everyone else."""

import concurrent.futures
import contextlib
import contextvars
import os
import pickle
import re
import signal
import socket
import stat
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zmq
import zmq.auth
from keys import Keys, keygen
from raw import RawSession
from servers import LATE, PATIENCE, Server, running, wait_until

import twofold
from twofold import CurveKeys, Game2048VectorEnv, errors
from twofold.cli import main
from twofold.client import sockets
from twofold.client.curve import HandshakeWatch
from twofold.client.lookup import find_program
from twofold.client.sockets import context
from twofold.client.surroundings import Surroundings, surroundings
from twofold.v1 import envelope_pb2 as envelope


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def server(keys: Keys) -> Iterator[Server]:
    with Server(*keys.arguments) as server:
        yield server


def test_a_client_with_a_key_plays_as_everywhere(server: Server, keys: Keys) -> None:
    envs = Game2048VectorEnv(300, endpoint=server.tcp, keys=keys.of("alice"))
    plain = Game2048VectorEnv(300, endpoint=server.ipc)
    assert np.array_equal(envs.reset(seed=5)[0], plain.reset(seed=5)[0])
    rng = np.random.default_rng(0)
    one: Any
    other: Any
    for _ in range(50):
        actions = rng.integers(0, 4, 300)
        for one, other in zip(envs.step(actions)[:4], plain.step(actions)[:4], strict=True):
            assert np.array_equal(one, other)
    envs.close()
    plain.close()


def test_a_client_without_a_key_is_refused(server: Server) -> None:
    with pytest.raises(errors.AuthenticationFailed, match="requires a key") as caught:
        Game2048VectorEnv(1, endpoint=server.tcp, timeout=LATE)
    for advice in ("another program listens", "keys=twofold.CurveKeys.load", "--curve-server"):
        assert advice in str(caught.value)


class LostConnection:
    """A socket whose connection libzmq has discarded after a failed handshake: it can't send."""

    def __init__(self, socket: sockets.Socket) -> None:
        self._socket = socket

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def send(self, *_: object) -> None:
        raise zmq.Again


def test_a_refusal_before_the_first_request_is_sent_has_the_same_error(server: Server) -> None:
    def connect(*arguments: Any) -> Any:
        return LostConnection(sockets.connect(*arguments))

    token = surroundings.set(Surroundings(connect=connect))
    try:
        with pytest.raises(errors.AuthenticationFailed, match="requires a key"):
            Game2048VectorEnv(1, endpoint=server.tcp, timeout=LATE)
    finally:
        surroundings.reset(token)


@contextlib.contextmanager
def disconnecting(address: tuple[str, int]) -> Iterator[tuple[str, threading.Semaphore]]:
    """Accepts connections and ends each at once, like a proxy whose server is down.

    Yields the endpoint, and a semaphore that is released for each connection.
    """
    ended = threading.Semaphore(0)
    with socket.create_server(address) as listener:

        def run() -> None:
            with contextlib.suppress(OSError):
                while True:
                    listener.accept()[0].close()
                    ended.release()

        thread = threading.Thread(target=run)
        thread.start()
        try:
            host, port = listener.getsockname()
            yield f"tcp://{host}:{port}", ended
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def message_of_a_deadline(endpoint: str, reason: str) -> str:
    """Returns the message after the first of several deadlines that is late enough for a reason."""
    for timeout in (0.5, 2, 8, 32):
        with pytest.raises(errors.DeadlineExceeded) as caught:
            Game2048VectorEnv(1, endpoint=endpoint, timeout=timeout)
        if reason in str(caught.value):
            break
    return str(caught.value)


def test_a_server_that_disconnects_during_the_handshake_may_require_a_key() -> None:
    with disconnecting(("127.0.0.1", 0)) as (endpoint, _):
        message = message_of_a_deadline(endpoint, "disconnects during")
    assert re.search("disconnects during .* may require a key", message)


def test_a_server_that_disconnects_at_first_and_is_silent_later_is_only_silent() -> None:
    with contextlib.ExitStack() as stack, concurrent.futures.ThreadPoolExecutor() as pool:
        starting = stack.enter_context(contextlib.ExitStack())
        endpoint, ended = starting.enter_context(disconnecting(("127.0.0.1", 0)))
        has_asked = threading.Event()
        clock = Surroundings(now=lambda: time.monotonic() + 1e6 * has_asked.is_set())
        token = surroundings.set(clock)
        within = contextvars.copy_context().run
        surroundings.reset(token)
        made: concurrent.futures.Future[Game2048VectorEnv] = pool.submit(
            within, Game2048VectorEnv, 1, endpoint=endpoint, timeout=PATIENCE
        )
        assert ended.acquire(timeout=PATIENCE)
        starting.close()
        silent = stack.enter_context(context().socket(zmq.ROUTER))
        silent.bind(endpoint)
        assert silent.poll(int(PATIENCE * 1000))
        has_asked.set()
        with pytest.raises(errors.DeadlineExceeded, match=r"\d within the timeout"):
            made.result()


@pytest.mark.parametrize("name", [None, "alice"])
def test_a_client_that_has_played_waits_behind_a_proxy_until_its_server_runs_again(
    keys: Keys, tmp_path: Path, name: str | None
) -> None:
    arguments = ["--state-dir", str(tmp_path / "state")]
    if name is not None:
        arguments += keys.arguments
    with Server(*arguments) as server:
        given = None if name is None else keys.of(name)
        envs = Game2048VectorEnv(2, endpoint=server.tcp, keys=given, timeout=PATIENCE)
        envs.reset(seed=0)
        server.terminate()
        host, port = server.tcp.removeprefix("tcp://").split(":")

        def restart() -> None:
            with disconnecting((host, int(port))) as (_, ended):
                for _ in range(6):
                    assert ended.acquire(timeout=PATIENCE)
            server.start_again()

        with concurrent.futures.ThreadPoolExecutor() as pool:
            restarting = pool.submit(restart)
            envs.step([0, 0])
            restarting.result()
        envs.close()


def test_a_client_whose_key_is_not_in_the_list_is_refused(server: Server, keys: Keys) -> None:
    with pytest.raises(errors.AuthenticationFailed, match="refuses this client's key") as caught:
        Game2048VectorEnv(1, endpoint=server.tcp, keys=keys.of("eve"), timeout=LATE)
    assert keys.of("eve").public_key in str(caught.value)
    assert "--curve-clients" in str(caught.value)


def test_a_client_that_expects_another_servers_key_gets_an_error(
    server: Server, keys: Keys
) -> None:
    with pytest.raises(errors.AuthenticationFailed, match="its key is not the given server_key"):
        Game2048VectorEnv(1, endpoint=server.tcp, keys=keys.of("alice", server="eve"), timeout=LATE)


def test_a_client_with_a_key_at_a_plain_server_gets_an_error(
    own_server: Server, keys: Keys
) -> None:
    with pytest.raises(errors.AuthenticationFailed, match="does not encrypt"):
        Game2048VectorEnv(1, endpoint=own_server.tcp, keys=keys.of("alice"), timeout=LATE)


def test_an_address_without_a_server_is_told_from_a_server_that_is_silent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(
            errors.DeadlineExceeded, match=r"within the timeout; check that a server"
        ):
            Game2048VectorEnv(1, endpoint=address, timeout=0.3)
    reason = "where nothing accepts connections, within"
    assert reason in message_of_a_deadline(address, reason)


def test_a_connection_is_made_while_libzmq_holds_the_address_of_an_earlier_monitor(
    server: Server, keys: Keys
) -> None:
    with context().socket(zmq.PAIR) as earlier:
        for descriptor in range(1024):
            earlier.bind(f"inproc://monitor.s-{descriptor}")
        Game2048VectorEnv(1, endpoint=server.tcp, keys=keys.of("alice")).close()


def test_keys_in_a_pipe_are_refused_and_nobody_waits_for_its_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(errors.InvalidArgument, match="pipe is not a regular file") as caught:
        twofold.CurveKeys.load(tmp_path / "pipe", tmp_path / "pipe")
    assert caught.value.field == "keys"


def test_a_list_of_clients_in_a_pipe_is_refused(keys: Keys, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    arguments = keys.admitting(tmp_path / "pipe")
    ran = subprocess.run(
        [find_program(), "serve", "--endpoint", "tcp://127.0.0.1:0", *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert ran.returncode == 1
    assert "pipe' is a pipe, but" in ran.stderr


CONNECTED, RETRIED = zmq.EVENT_CONNECTED, zmq.EVENT_CONNECT_RETRIED
SUCCEEDED, BROKEN = zmq.EVENT_HANDSHAKE_SUCCEEDED, zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
REFUSED = zmq.EVENT_HANDSHAKE_FAILED_AUTH


class Events(list[tuple[int, int]]):
    """A monitor whose events, with their values, are given."""

    def poll(self, _: int) -> bool:
        return bool(self)

    def recv_multipart(self, *_: Any) -> list[bytes]:
        return [struct.pack("=Hi", *self.pop(0)), b"tcp://127.0.0.1:1"]


@pytest.mark.parametrize(
    ("events", "is_last", "reason"),
    [
        ([(REFUSED, 400)], False, "unauthorised"),
        ([(REFUSED, 300)], True, None),  # the handler failed temporarily
        ([(BROKEN, 0)] * 3, False, "server_key"),
        ([(BROKEN, 0)] * 2, False, None),
        ([(BROKEN, 0)], True, "server_key"),
        ([(BROKEN, 0)] * 2 + [(SUCCEEDED, 0)] + [(BROKEN, 0)] * 2, False, None),
    ],
)
def test_only_a_refusal_and_handshakes_that_break_in_a_row_mean_a_wrong_key(
    keys: Keys, events: list[tuple[int, int]], is_last: bool, reason: str | None
) -> None:
    watch: Any = HandshakeWatch("tcp://127.0.0.1:1", keys.of("alice"))
    watch._monitor = Events(events)
    if reason is None:
        watch.check(is_last)
        return
    with pytest.raises(errors.AuthenticationFailed) as caught:
        watch.check(is_last)
    assert caught.value.reason == reason


def test_a_server_that_was_connected_before_it_failed_is_not_unreachable() -> None:
    watch: Any = HandshakeWatch("tcp://127.0.0.1:1", None)
    for events, is_unreachable in (
        ([(RETRIED, 0)], True),
        ([(CONNECTED, 0), (RETRIED, 0)], False),
        ([(RETRIED, 0)], True),
    ):
        with context().socket(zmq.REQ) as connection:
            watch.attach(connection)
            watch.detach()
        watch._monitor = Events(events)
        watch.check(is_last=True)
        assert ("nothing accepts connections" in watch.failure) == is_unreachable
        watch._monitor = None


def test_a_refused_client_with_a_short_deadline_gets_a_transport_error(
    server: Server, keys: Keys
) -> None:
    for given in (None, keys.of("eve"), keys.of("alice", server="eve")):
        with pytest.raises(twofold.TransportError):
            Game2048VectorEnv(1, endpoint=server.tcp, keys=given, timeout=0.05)


def test_a_session_kept_over_a_restart_still_belongs_to_its_owner(
    keys: Keys, tmp_path: Path
) -> None:
    with Server(*keys.arguments, "--state-dir", str(tmp_path / "state")) as server:
        envs = Game2048VectorEnv(2, endpoint=server.tcp, keys=keys.of("alice"))
        envs.reset(seed=0)
        server.terminate()
        server.start_again()
        with pytest.raises(errors.NotFound, match="belongs to another client's key"):
            twofold.resume(envs.token, endpoint=server.tcp, keys=keys.of("bob"))
        twofold.resume(envs.token, endpoint=server.tcp, keys=keys.of("alice")).close()


def test_only_its_owner_can_use_a_session_even_if_others_know_its_id(
    server: Server, keys: Keys
) -> None:
    with (
        RawSession(server.tcp, keys.of("alice")) as alice,
        RawSession(server.tcp, keys.of("bob")) as bob,
        RawSession(server.ipc) as local,
    ):
        assert alice.create().slot == "create"
        assert alice.reset().slot == "reset"
        own, bob.id, local.id = bob.id, alice.id, alice.id
        for stranger in (bob, local):
            for seq in (0, 1, 2, 3, 4):
                for op in ("step", "observe", "close", "keepalive", "reset"):
                    error = stranger.ask(None, seq=seq, **{op: {}}).error
                    assert error.code == envelope.ERROR_CODE_NOT_FOUND, op
            assert stranger.create().error.code == envelope.ERROR_CODE_NOT_FOUND
        # The same request over another connection of Alice's continues.
        with RawSession(server.tcp, keys.of("alice")) as again:
            again.id, again.seq = alice.id, alice.seq
            assert again.step(0, 0, 0).slot == "step"
            alice.seq = again.seq
            again.begin()
        bob.id = own
        local.begin()


def test_sessions_of_one_key_are_limited_and_others_are_not_affected(keys: Keys) -> None:
    with Server(*keys.arguments, "--max-sessions-per-client", "2") as server:
        held = [Game2048VectorEnv(1, endpoint=server.tcp, keys=keys.of("alice")) for _ in "ab"]
        with pytest.raises(errors.ResourceExhausted, match="max_sessions_per_client = 2"):
            Game2048VectorEnv(1, endpoint=server.tcp, keys=keys.of("alice"))
        Game2048VectorEnv(1, endpoint=server.tcp, keys=keys.of("bob")).close()
        held.pop().close()
        Game2048VectorEnv(1, endpoint=server.tcp, keys=keys.of("alice")).close()
        held.pop().close()


def is_admitted(server: Server, keys: CurveKeys) -> bool:
    with contextlib.suppress(errors.AuthenticationFailed):
        Game2048VectorEnv(1, endpoint=server.tcp, keys=keys).close()
        return True
    return False


def test_the_list_is_read_again_on_sighup(keys: Keys, tmp_path: Path) -> None:
    clients, log = tmp_path / "clients", tmp_path / "log"
    clients.write_text(keys.lines["alice"])
    with log.open("w") as file, Server(*keys.admitting(clients), log=file.fileno()) as server:
        alice = Game2048VectorEnv(2, endpoint=server.tcp, keys=keys.of("alice"))
        alice.reset(seed=0)
        assert not is_admitted(server, keys.of("bob"))

        clients.write_text("this is not a list of keys\n")
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "can't reread the list" in log.read_text())
        assert is_admitted(server, keys.of("alice")), "a list that can't be read changes nothing"
        assert not is_admitted(server, keys.of("bob"))

        clients.write_text(keys.lines["bob"])
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: is_admitted(server, keys.of("bob")))
        assert not is_admitted(server, keys.of("alice"))
        # Not even over her open connection, or over another one if the reply is late.
        refused = errors.PermissionDenied, errors.AuthenticationFailed
        with pytest.raises(refused, match=r"no longer authorises|refuses this client's key"):
            alice.step([0, 0])

        clients.write_text(keys.lines["bob"] + keys.lines["alice"])
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: is_admitted(server, keys.of("alice")))
        alice.step([0, 0])
        alice.close()


def test_a_removed_key_is_named_to_its_client_and_in_the_log(keys: Keys, tmp_path: Path) -> None:
    clients, log = tmp_path / "clients", tmp_path / "log"
    clients.write_text(keys.lines["alice"])
    with log.open("w") as file, Server(*keys.admitting(clients), log=file.fileno()) as server:
        alice = Game2048VectorEnv(2, endpoint=server.tcp, keys=keys.of("alice"))
        clients.write_text(keys.lines["bob"])
        server.process.send_signal(signal.SIGHUP)
        key = keys.of("alice").public_key

        def ask_until_refused() -> None:
            while True:
                alice.reset()

        with pytest.raises(errors.PermissionDenied) as caught:
            ask_until_refused()
        assert f" {key};" in str(caught.value)
        assert "--curve-clients" in str(caught.value)
        wait_until(lambda: "refused" in log.read_text())
        (line,) = (line for line in log.read_text().splitlines() if "refused" in line)
        assert key in line
        assert "127.0.0.1" in line


def test_requests_are_answered_while_the_list_is_read(keys: Keys, tmp_path: Path) -> None:
    clients, fresh = tmp_path / "clients", tmp_path / "fresh"
    clients.write_text(keys.lines["alice"])
    fresh.write_text(keys.lines["alice"] + keys.lines["bob"])
    with Server(*keys.admitting(clients)) as server:
        alice = Game2048VectorEnv(2, endpoint=server.tcp, keys=keys.of("alice"))
        alice.reset(seed=0)
        clients.unlink()
        os.mkfifo(clients)
        server.process.send_signal(signal.SIGHUP)
        with clients.open("w") as pipe:  # waits until the server reads it
            alice.step([0, 0])
            # The list changes again before this one was read.
            fresh.replace(clients)
            server.process.send_signal(signal.SIGHUP)
            alice.step([0, 0])
            pipe.write(keys.lines["alice"])
        wait_until(lambda: is_admitted(server, keys.of("bob")))
        alice.step([0, 0])
        alice.close()


def test_statistics_show_a_client_only_its_own_sessions_with_its_name(
    server: Server, keys: Keys, capsys: pytest.CaptureFixture[str]
) -> None:
    alice = Game2048VectorEnv(7, endpoint=server.tcp, keys=keys.of("alice"))
    bob = Game2048VectorEnv(8, endpoint=server.tcp, keys=keys.of("bob"))
    files = ["--curve-server", str(keys.directory / "server.key")]
    files += ["--curve-client", str(keys.directory / "alice.key_secret")]
    assert main(["stats", "--endpoint", server.tcp, *files]) == 0
    text = capsys.readouterr().out
    assert "alice" in text
    assert "bob" not in text
    assert main(["stats", "--endpoint", server.ipc]) == 0
    text = capsys.readouterr().out
    assert "alice" in text
    assert "bob" in text
    assert main(["stats", "--endpoint", server.tcp, "--timeout", str(LATE)]) == 1
    assert "requires a key" in capsys.readouterr().err
    alice.close()
    bob.close()


def test_keys_are_taken_from_the_environment(
    server: Server, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWOFOLD_CURVE_SERVER", str(keys.directory / "server.key"))
    with pytest.raises(errors.InvalidArgument, match="set both"):
        Game2048VectorEnv(1, endpoint=server.tcp)
    monkeypatch.setenv("TWOFOLD_CURVE_CLIENT", str(keys.directory / "alice.key_secret"))
    Game2048VectorEnv(1, endpoint=server.tcp, keys=keys.of("alice")).close()
    # Keys are for tcp only.
    Game2048VectorEnv(1, endpoint=server.ipc).close()


def test_an_option_without_the_other_key_takes_it_from_the_environment(
    server: Server, keys: Keys, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"server": keys.directory / "server.key", "client": keys.directory / "alice.key_secret"}
    for given, other in (("server", "client"), ("client", "server")):
        command = ["stats", "--endpoint", server.tcp, f"--curve-{given}", str(files[given])]
        assert main(command) == 2
        assert f"pass --curve-{other} too, or set TWOFOLD_CURVE_{other.upper()}" in (
            capsys.readouterr().err
        )
        with monkeypatch.context() as patch:
            patch.setenv(f"TWOFOLD_CURVE_{given.upper()}", "/nowhere/the-option-is-given")
            patch.setenv(f"TWOFOLD_CURVE_{other.upper()}", str(files[other]))
            assert main(command) == 0


def test_every_way_to_a_server_accepts_keys(
    server: Server, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = keys.of("alice")
    twofold.ConcentrationVectorEnv(2, endpoint=server.tcp, keys=alice).close()
    twofold.Game2048Env(endpoint=server.tcp, keys=alice).close()
    with contextlib.closing(Game2048VectorEnv(2, endpoint=server.tcp, keys=alice)) as envs:
        envs.reset(seed=0)
        envs.fork([1]).close()
    rules: dict[str, Any] = {"endpoint": server.tcp, "keys": alice}
    board, after = np.zeros((4, 4), np.uint8), np.zeros((4, 4), np.uint8)
    board[1, 0] = after[0, 0] = after[3, 3] = 1
    assert twofold.rules.legal(board, **rules).tolist() == [1, 1, 1, 0]
    assert twofold.rules.afterstates(board, **rules).mask.tolist() == [1, 1, 1, 0]
    assert twofold.rules.move(board, 0, **rules).legal
    assert twofold.rules.spawn(board, 0, **rules).outcomes >= 0
    assert len(twofold.rules.explain(board, 0, after, **rules)) == 2
    monkeypatch.setenv("TWOFOLD_CURVE_SERVER", str(keys.directory / "server.key"))
    monkeypatch.setenv("TWOFOLD_CURVE_CLIENT", str(keys.directory / "alice.key_secret"))
    boards = np.ones((1, 4, 4), np.uint8)
    assert twofold.rules.legal(boards, endpoint=server.tcp).any()


def test_rules_use_the_keys_of_the_call(server: Server, keys: Keys) -> None:
    board = np.ones((4, 4), np.uint8)
    for _ in range(2):
        assert twofold.rules.legal(board, endpoint=server.tcp, keys=keys.of("alice")).any()
        with pytest.raises(errors.AuthenticationFailed):
            twofold.rules.legal(board, endpoint=server.tcp, keys=keys.of("eve"))
    no_keys: Any
    for no_keys in ("key", {}):
        with pytest.raises(errors.InvalidArgument) as caught:
            twofold.rules.legal(board, endpoint=server.tcp, keys=no_keys)
        assert caught.value.field == "keys"


def test_no_secret_is_printed_or_logged(keys: Keys, tmp_path: Path) -> None:
    alice = keys.of("alice")
    assert alice.secret_key not in repr(alice)
    assert alice.secret_key not in str(alice)
    assert pickle.loads(pickle.dumps(alice)) == alice
    log = tmp_path / "log"
    arguments = [*keys.arguments, "--log-level", "trace"]
    with log.open("w") as output, Server(*arguments, log=output.fileno()) as server:
        envs = Game2048VectorEnv(1, endpoint=server.tcp, keys=alice)
        session = envs.token.partition("#")[2]
        envs.close()
        assert not is_admitted(server, keys.of("eve"))
    text = log.read_text()
    for name in ("server", "alice", "bob", "eve"):
        assert keys.of(name).secret_key not in text
    assert session not in text
    assert "client=alice" in text
    assert keys.of("eve").public_key in text, "who was refused can be looked up"


def test_keygen_writes_certificates_that_only_their_owner_can_read(tmp_path: Path) -> None:
    line = keygen(tmp_path / "carol")
    public_file, secret_file = tmp_path / "carol.key", tmp_path / "carol.key_secret"
    assert stat.S_IMODE(secret_file.stat().st_mode) == 0o600
    public, secret = zmq.auth.load_certificate(secret_file)
    assert secret is not None
    assert zmq.auth.load_certificate(public_file) == (public, None)
    assert zmq.curve_public(secret) == public
    assert line == f"{public.decode()} carol\n"
    assert secret.decode() not in line + public_file.read_text()
    # Nothing is overwritten.
    before = secret_file.read_text()
    again = subprocess.run(
        [str(find_program()), "keygen", str(tmp_path / "carol")], capture_output=True, text=True
    )
    assert again.returncode == 1
    assert "File exists" in again.stderr
    assert secret_file.read_text() == before


def test_keygen_leaves_no_incomplete_file_on_a_full_disk(tmp_path: Path) -> None:
    # With a limit of 0 bytes for files, writes fail as on a full disk.
    command = ["prlimit", "--fsize=0:0", str(find_program()), "keygen", str(tmp_path / "carol")]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 1
    assert "carol.key_secret': File too large" in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_certificates_of_zmq_auth_are_read(tmp_path: Path) -> None:
    server_file, _ = zmq.auth.create_certificates(tmp_path, "server")
    _, client_file = zmq.auth.create_certificates(tmp_path, "dave")
    loaded = CurveKeys.load(server_file, client_file)
    assert loaded.public_key.encode() == zmq.auth.load_certificate(client_file)[0]


def test_a_leading_tilde_in_a_path_is_a_name_like_any_other(tmp_path: Path) -> None:
    (tmp_path / "~").mkdir()
    program = str(find_program())
    keygen = [program, "keygen", "~/server"]
    made = subprocess.run(keygen, cwd=tmp_path, capture_output=True, text=True, check=True)
    (tmp_path / "~/clients").write_text(made.stdout)
    arguments = ["--curve-secret-key", "~/server.key_secret", "--curve-clients", "~/clients"]
    command = [program, "serve", "--endpoint", "tcp://127.0.0.1:0", *arguments]
    with running(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        endpoint = process.stdout.readline().split()[-1]
        ping = [program, "ping", "--endpoint", endpoint, "--timeout", "60"]
        ping += ["--curve-server", "~/server.key", "--curve-client", "~/server.key_secret"]
        assert subprocess.run(ping, cwd=tmp_path).returncode == 0
        process.terminate()


def test_an_invalid_key_is_refused_by_name_and_not_repeated(keys: Keys, tmp_path: Path) -> None:
    good = keys.of("alice")
    for name in ("server_key", "public_key", "secret_key"):
        for bad in ("", "short", "x" * 41, "~" * 40):
            fields = {f: getattr(good, f) for f in ("server_key", "public_key", "secret_key")}
            with pytest.raises(errors.InvalidArgument, match=name) as caught:
                CurveKeys(**{**fields, name: bad})
            assert caught.value.field == "keys"
            assert not bad or bad not in str(caught.value)
    with pytest.raises(errors.InvalidArgument, match="not a pair"):
        CurveKeys(good.server_key, good.public_key, keys.of("bob").secret_key)
    with pytest.raises(errors.InvalidArgument, match="No such file"):
        CurveKeys.load(tmp_path / "none", tmp_path / "none")
    with pytest.raises(errors.InvalidArgument, match="has no line secret-key"):
        CurveKeys.load(keys.directory / "server.key", keys.directory / "alice.key")
    for text in (
        "public-key",
        'public-key = ""',
        f'public-key = ""\n secret-key = "{good.secret_key}"',
    ):
        (tmp_path / "cut").write_text(f"curve\n    {text}")
        with pytest.raises(errors.InvalidArgument, match="cut has no line public-key"):
            CurveKeys.load(tmp_path / "cut", tmp_path / "cut")
    os.truncate(tmp_path / "cut", 2 << 20)
    with pytest.raises(errors.InvalidArgument, match="cut is larger than 1,048,576 bytes"):
        CurveKeys.load(tmp_path / "cut", tmp_path / "cut")


@pytest.mark.parametrize("name", ["server.key", "alice.key_secret"])
def test_the_error_about_a_damaged_key_names_its_file(
    name: str, keys: Keys, tmp_path: Path
) -> None:
    files = {each: keys.directory / each for each in ("server.key", "alice.key_secret")}
    text = files[name].read_text()
    files[name] = tmp_path / name
    key = text.split('"')[-2]
    wrong = [key[:-1], f"~{key[1:]}"]
    if name == "alice.key_secret":  # nothing shows that another public key is wrong
        wrong.append(key[:7] + ("1" if key[7] == "0" else "0") + key[8:])
    for each in wrong:
        files[name].write_text(text.replace(key, each))
        with pytest.raises(errors.InvalidArgument, match=re.escape(str(files[name]))) as caught:
            CurveKeys.load(*files.values())
        assert caught.value.field == "keys"
        assert each not in str(caught.value)


def test_keys_for_endpoints_without_encryption_are_refused(server: Server, keys: Keys) -> None:
    for endpoint in (server.ipc, "private"):
        with pytest.raises(errors.InvalidArgument, match="requires a tcp endpoint"):
            Game2048VectorEnv(1, endpoint=endpoint, keys=keys.of("alice"))
    with pytest.raises(errors.InvalidArgument, match=r"expected twofold\.CurveKeys"):
        Game2048VectorEnv(1, endpoint=server.tcp, keys="alice")  # type: ignore[arg-type]


def test_ping_accepts_keys(server: Server, keys: Keys) -> None:
    files = ["--curve-server", str(keys.directory / "server.key")]
    files += ["--curve-client", str(keys.directory / "bob.key_secret")]
    ping = [str(find_program()), "ping", "--endpoint", server.tcp]
    assert subprocess.run([*ping, *files, "--timeout", "60"]).returncode == 0
    assert subprocess.run([*ping, "--timeout", "0.3"]).returncode == 1


def test_ping_waits_for_a_server_that_breaks_off_one_handshake(keys: Keys) -> None:
    files = ["--curve-server", str(keys.directory / "server.key")]
    files += ["--curve-client", str(keys.directory / "bob.key_secret")]
    with Server(*keys.arguments) as server:
        server.kill()
        host, port = server.tcp.removeprefix("tcp://").split(":")
        listener = socket.create_server((host, int(port)))
        command = [str(find_program()), "ping", "--endpoint", server.tcp, *files]
        with running([*command, "--timeout", str(PATIENCE)]) as ping:
            connection, _ = listener.accept()
            listener.close()
            connection.close()
            server.start_again()
            assert ping.wait(PATIENCE) == 0


def test_ping_accepts_an_address_without_keys(own_server: Server) -> None:
    ping = [str(find_program()), "ping", own_server.tcp, "--timeout", "60"]
    assert subprocess.run(ping).returncode == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["tcp://127.0.0.1:1", "--endpoint", "tcp://127.0.0.1:2"],
        ["ipc:///a", "--curve-server", "a", "--curve-client", "b"],
        ["ipc:///a", "--curve-server", "a"],
    ],
    ids=" ".join,
)
def test_ping_refuses_arguments_that_it_would_ignore(arguments: list[str]) -> None:
    ran = subprocess.run([str(find_program()), "ping", *arguments], capture_output=True, text=True)
    assert ran.returncode == 64, ran.stdout


def test_only_its_user_can_open_an_ipc_socket(own_server: Server) -> None:
    path = own_server.ipc.removeprefix("ipc://")
    assert stat.S_IMODE(os.stat(path).st_mode) & 0o077 == 0
