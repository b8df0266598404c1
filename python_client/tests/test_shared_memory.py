"""On one machine large payloads are read in the memory of the server; results do not show it."""

import builtins
import gc
import mmap
import os
import resource
import signal
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from games import MakeBatch
from numpy.typing import NDArray
from servers import Server

import twofold
from twofold import Game2048VectorEnv, TwofoldVectorEnv, _rollout, _shared_memory
from twofold._shared_memory import ServerMemory
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment

# Enough that a step's reply is read and not sent.
LANES = 2000


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes of each payload that was read in the server's memory."""
    sizes: list[int] = []
    copy = ServerMemory.copy

    def counted(
        self: ServerMemory, place: envelope.PayloadInMemory, payload: NDArray[np.uint8]
    ) -> bool:
        sizes.append(place.size)
        return copy(self, place, payload)

    copy_known = ServerMemory.copy_known

    def counted_known(
        self: ServerMemory, words: bytes, stamp: bytes, room: NDArray[np.uint8]
    ) -> NDArray[np.uint8] | None:
        payload = copy_known(self, words, stamp, room)
        if payload is not None:
            sizes.append(payload.size)
        return payload

    monkeypatch.setattr(ServerMemory, "copy", counted)
    monkeypatch.setattr(ServerMemory, "copy_known", counted_known)
    return sizes


def play(envs: TwofoldVectorEnv, turns: int = 20) -> list[bytes]:
    """Everything that a run of resets, steps and the other requests tells."""
    rng = np.random.default_rng(3)
    observations, infos = envs.reset(seed=5)
    told: list[Any] = [observations, *infos.values()]
    for _ in range(turns):
        actions = np.argmax(rng.random(infos["action_mask"].shape) * infos["action_mask"], axis=1)
        *arrays, infos = envs.step(actions)
        finals = infos.pop("final_info", {})
        told += [*arrays, *(each[name] for each in (infos, finals) for name in sorted(each))]
    blob = envs.snapshot()
    rollout = envs.rollout(8, policy="random", policy_seed=1)
    told += [rollout.observations, rollout.actions, rollout.rewards, rollout.valid]
    observations, _ = envs.restore(blob)
    told.append(observations)
    return [blob, *map(as_bytes, told)]


def as_bytes(array: Any) -> bytes:
    """An array's bytes; those of its elements where these are arrays, or None."""
    if array.dtype == object:
        return b"".join(element.tobytes() for element in array if element is not None)
    return bytes(array.tobytes())


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_what_is_read_is_what_would_be_sent(
    make_batch: MakeBatch, server: Server, copies: list[int], mode: str
) -> None:
    read = play(make_batch(LANES, endpoint=server.ipc, autoreset_mode=mode, max_episode_steps=7))
    assert len(copies) > 20
    copies.clear()
    sent = play(make_batch(LANES, endpoint=server.tcp, autoreset_mode=mode, max_episode_steps=7))
    assert copies == []
    assert read == sent


def test_a_private_server_is_read(copies: list[int]) -> None:
    with closing(Game2048VectorEnv(LANES)) as envs:
        envs.reset(seed=1)
        envs.step(np.zeros(LANES, np.int64))
        assert len(copies) == 2


def test_what_is_small_is_sent(server: Server, copies: list[int]) -> None:
    with closing(Game2048VectorEnv(16, endpoint=server.ipc)) as envs:
        envs.reset(seed=1)
        envs.step(np.zeros(16, np.int64))
    assert copies == []


def test_results_are_of_their_own_memory(server: Server) -> None:
    with closing(Game2048VectorEnv(LANES, endpoint=server.ipc)) as envs:
        envs.reset(seed=1)
        held = [envs.step(np.full(LANES, turn % 4)) for turn in range(12)]
        kept = [step[0].copy() for step in held]
        for step in held:
            assert step[0].flags.writeable
        held[0][0][:] = 99
        for turn in range(12):
            envs.step(np.full(LANES, turn % 4))
        assert (held[0][0] == 99).all()
        for step, copy in zip(held[1:], kept[1:], strict=True):
            assert np.array_equal(step[0], copy)


# ---- where it can't be read ----------------------------------------------------------------------


def raising(error: Exception) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


@pytest.mark.parametrize(
    ("module", "function", "error"),
    [
        (os, "readlink", FileNotFoundError("no /proc")),
        (os, "readlink", PermissionError("another user's")),
        (builtins, "open", PermissionError("another user's")),
        (mmap, "mmap", OSError("no memory")),
    ],
    ids=["no /proc", "another user's link", "another user's memory", "no room"],
)
def test_a_client_that_cannot_read_the_memory_is_sent_everything(
    server: Server,
    copies: list[int],
    monkeypatch: pytest.MonkeyPatch,
    module: Any,
    function: str,
    error: Exception,
) -> None:
    monkeypatch.setattr(module, function, raising(error))
    with closing(Game2048VectorEnv(LANES, endpoint=server.ipc)) as envs:
        sent = envs.reset(seed=1)[0]
    monkeypatch.undo()
    assert copies == []
    with closing(Game2048VectorEnv(LANES, endpoint=server.ipc)) as envs:
        assert np.array_equal(envs.reset(seed=1)[0], sent)


def test_a_file_of_another_name_is_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    descriptor = os.memfd_create("somebody-else")
    os.truncate(descriptor, 4096)
    told = environment.SharedMemory(process=os.getpid(), descriptor=descriptor, name=1, size=4096)
    monkeypatch.setattr(builtins, "open", raising(AssertionError("opened")))
    assert not ServerMemory().can_read(told)
    os.close(descriptor)


def test_a_payload_that_cannot_be_opened_is_asked_for_again_and_sent(
    server: Server, copies: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with no descriptors left."""
    with closing(Game2048VectorEnv(LANES, endpoint=server.ipc)) as envs:
        before = envs.reset(seed=1)[0]
        monkeypatch.setattr(_shared_memory, "_open", raising(OSError(24, "Too many open files")))
        steps = [envs.step(np.full(LANES, turn % 4)) for turn in range(8)]
    with closing(Game2048VectorEnv(LANES, endpoint=server.tcp)) as envs:
        assert np.array_equal(envs.reset(seed=1)[0], before)
        for turn, step in enumerate(steps):
            again = envs.step(np.full(LANES, turn % 4))
            assert np.array_equal(again[0], step[0])
            assert np.array_equal(again[4]["episode_length"], step[4]["episode_length"])
    # The reset's, and two steps' until one was at a place that was not open yet.
    assert len(copies) <= 4


def test_a_server_that_may_make_no_files_sends_everything(own_server: Server) -> None:
    resource.prlimit(own_server.process.pid, resource.RLIMIT_FSIZE, (1024, 1024))
    with closing(Game2048VectorEnv(LANES, endpoint=own_server.ipc)) as envs:
        observations = envs.reset(seed=1)[0]
        assert not envs._session._connection._memory._opened
    with closing(Game2048VectorEnv(LANES)) as envs:
        assert np.array_equal(envs.reset(seed=1)[0], observations)


# ---- where it goes -------------------------------------------------------------------------------


def send_ahead(envs: TwofoldVectorEnv, actions: NDArray[np.int64]) -> None:
    """A step whose reply is there, but not received yet."""
    request = envelope.Request(step=environment.StepRequest())
    envs._session.begin("step", request, actions.astype(np.uint8).tobytes(), 0)
    time.sleep(0.2)


@pytest.mark.parametrize("recover", [False, True])
def test_a_result_whose_server_has_gone_comes_from_the_next_one(
    tmp_path: Path, recover: bool
) -> None:
    actions = np.ones(LANES, np.int64)
    arguments = [] if recover else ["--state-dir", str(tmp_path / "sessions")]
    with closing(Game2048VectorEnv(LANES)) as calm, Server(*arguments) as server:
        calm.reset(seed=1)
        envs = Game2048VectorEnv(LANES, endpoint=server.ipc, recover=recover)
        envs.reset(seed=1)
        send_ahead(envs, actions)
        server.process.send_signal(signal.SIGKILL if recover else signal.SIGTERM)
        server.process.wait()
        server.start_again()
        for _ in range(3):
            assert np.array_equal(envs.step(actions)[0], calm.step(actions)[0])
        envs.close()


def test_a_result_of_a_session_that_somebody_else_has_closed_is_none(server: Server) -> None:
    envs = Game2048VectorEnv(LANES, endpoint=server.ipc)
    envs.reset(seed=1)
    send_ahead(envs, np.zeros(LANES, np.int64))
    twofold.resume(envs.token).close()
    with pytest.raises(twofold.StaleEpoch):
        envs.step(np.zeros(LANES, np.int64))


def test_memory_that_was_written_anew_is_no_result(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old holder of a session has its reply, and reads the payload only when it is gone."""
    old = Game2048VectorEnv(LANES, endpoint=server.ipc)
    old.reset(seed=1)
    copy = ServerMemory.copy
    taken_over: list[TwofoldVectorEnv] = []

    def late(
        self: ServerMemory, place: envelope.PayloadInMemory, payload: NDArray[np.uint8]
    ) -> bool:
        if not taken_over:
            new = twofold.resume(old.token)
            taken_over.append(new)
            for turn in range(4):
                new.step(np.full(LANES, turn))
        return copy(self, place, payload)

    monkeypatch.setattr(ServerMemory, "copy", late)
    with pytest.raises(twofold.StaleEpoch):
        old.step(np.zeros(LANES, np.int64))
    taken_over[0].close()


def test_known_memory_that_was_written_anew_is_no_result(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same, behind steps whose replies have told of that place before."""
    old = Game2048VectorEnv(LANES, endpoint=server.ipc)
    old.reset(seed=1)
    for turn in range(6):
        old.step(np.full(LANES, turn % 4))
    copy_known = ServerMemory.copy_known
    taken_over: list[TwofoldVectorEnv] = []

    def late(
        self: ServerMemory, words: bytes, stamp: bytes, room: NDArray[np.uint8]
    ) -> NDArray[np.uint8] | None:
        if not taken_over:
            assert words in self._known
            new = twofold.resume(old.token)
            taken_over.append(new)
            for _ in range(4):
                new.step(np.zeros(LANES, np.int64))
        return copy_known(self, words, stamp, room)

    monkeypatch.setattr(ServerMemory, "copy_known", late)
    with pytest.raises(twofold.StaleEpoch):
        old.step(np.zeros(LANES, np.int64))
    taken_over[0].close()


@pytest.mark.parametrize("size", [200_000, 16 << 20], ids=["in pieces", "at once"])
def test_a_rollout_is_read_where_it_lies_and_is_the_users_own(
    server: Server, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(_rollout, "reply_bytes", lambda _: size)
    views: list[int] = []
    view = ServerMemory.view

    def counted(self: ServerMemory, place: envelope.PayloadInMemory) -> NDArray[np.uint8]:
        views.append(place.size)
        return view(self, place)

    monkeypatch.setattr(ServerMemory, "view", counted)
    told: list[list[bytes]] = []
    for endpoint in (server.ipc, server.tcp):
        envs = Game2048VectorEnv(LANES, endpoint=endpoint)
        envs.reset(seed=3)
        rollouts = [envs.rollout(40, policy="random") for _ in range(4)]
        envs.close()
        arrays = [
            array
            for rollout in rollouts
            for array in (rollout.observations, rollout.action_masks, rollout.rewards)
        ]
        assert all(array.flags.writeable for array in arrays)
        told.append([array.tobytes() for array in arrays])
    assert told[0] == told[1]
    assert sum(views) > sum(map(len, told[0]))
    assert len(views) > 12 or size > 200_000


def test_a_payload_that_reaches_beyond_its_memory_is_not_read(server: Server) -> None:
    envs = Game2048VectorEnv(LANES, endpoint=server.ipc)
    envs.reset(seed=1)
    envs.step(np.zeros(LANES, np.int64))
    memory = envs._session._connection._memory
    name, opened = next(iter(memory._opened.items()))
    place = envelope.PayloadInMemory(size=opened._payload.size + 1)
    place.memory.name = name
    with pytest.raises(ValueError, match="beyond its memory"):
        memory.view(place)
    envs.close()


def test_a_rollout_that_somebody_else_writes_over_is_none(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old holder reads a piece while the new one has the next ones made."""
    monkeypatch.setattr(_rollout, "reply_bytes", lambda _: 200_000)
    old = Game2048VectorEnv(LANES, endpoint=server.ipc)
    old.reset(seed=1)
    add = _rollout._Parts.add
    taken_over: list[TwofoldVectorEnv] = []

    def late(self: Any, *arguments: Any) -> None:
        if not taken_over:
            new = twofold.resume(old.token)
            taken_over.append(new)
            for _ in range(2):
                new.rollout(20, policy="random")
        add(self, *arguments)

    monkeypatch.setattr(_rollout._Parts, "add", late)
    with pytest.raises(twofold.StaleEpoch):
        old.rollout(40, policy="random")
    taken_over[0].close()


def test_boards_of_a_server_that_was_killed_go_on_with_the_memory_of_the_next(
    own_server: Server, copies: list[int]
) -> None:
    envs = Game2048VectorEnv(LANES, endpoint=own_server.ipc, recover=True)
    calm = Game2048VectorEnv(LANES)
    assert np.array_equal(envs.reset(seed=1)[0], calm.reset(seed=1)[0])
    for turn in range(6):
        if turn == 3:
            own_server.process.kill()
            own_server.process.wait()
            own_server.start_again()
        actions = np.full(LANES, turn % 4)
        assert np.array_equal(envs.step(actions)[0], calm.step(actions)[0])
    assert len(copies) > 12
    envs.close()
    calm.close()


def test_few_memories_are_kept_open_and_none_after_the_end(server: Server) -> None:
    def count() -> int:
        maps = Path("/proc/self/maps").read_text()
        return maps.count("memfd:twofold-")

    # What other tests have left in cycles would go at any time.
    gc.collect()
    before, files = count(), len(os.listdir("/proc/self/fd"))
    envs = Game2048VectorEnv(LANES, endpoint=server.ipc)
    envs.reset(seed=1)
    for lanes in range(1000, LANES, 50):
        envs.snapshot(range(lanes))
        envs.step(np.zeros(LANES, np.int64))
        assert before < count() <= before + 4
    assert len(os.listdir("/proc/self/fd")) <= files + 8
    envs.close()
    assert count() == before
