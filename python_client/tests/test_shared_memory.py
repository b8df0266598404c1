"""On one machine large payloads are read in the memory of the server; results do not show it."""

import mmap
import os
from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np
import pytest
from games import MakeBatch
from numpy.typing import NDArray
from servers import Server

import twofold
from twofold import Game2048VectorEnv, TwofoldVectorEnv, _shared_memory
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

    monkeypatch.setattr(ServerMemory, "copy", counted)
    return sizes


def play(envs: TwofoldVectorEnv, turns: int = 20) -> list[bytes]:
    """Everything that a run of resets, steps and the other requests tells."""
    rng = np.random.default_rng(3)
    observations, infos = envs.reset(seed=5)
    told: list[Any] = [observations, *infos.values()]
    for _ in range(turns):
        actions = np.argmax(rng.random(infos["action_mask"].shape) * infos["action_mask"], axis=1)
        *arrays, infos = envs.step(actions)
        told += [*arrays, *(infos[name] for name in sorted(infos) if name != "final_info")]
    blob = envs.snapshot()
    rollout = envs.rollout(8, policy="random", policy_seed=1)
    told += [rollout.observations, rollout.actions, rollout.rewards, rollout.valid]
    observations, _ = envs.restore(blob)
    told.append(observations)
    return [blob, *(np.asarray(array).tobytes() for array in told)]


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_what_is_read_is_what_would_be_sent(
    make_batch: MakeBatch, server: Server, copies: list[int], mode: str
) -> None:
    with_memory = make_batch(LANES, endpoint=server.ipc, autoreset_mode=mode)
    read = play(with_memory)
    assert len(copies) > 20
    copies.clear()
    sent = play(make_batch(LANES, endpoint=server.tcp, autoreset_mode=mode))
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
        (os, "open", PermissionError("another user's")),
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
    monkeypatch.setattr(os, "open", raising(AssertionError("opened")))
    assert not ServerMemory().can_read(told)
    os.close(descriptor)


def test_memory_that_cannot_be_opened_later_is_told_and_loses_no_step(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with no descriptors left: the step was carried out, and its result is there afterwards."""
    with closing(Game2048VectorEnv(LANES, endpoint=server.ipc)) as envs:
        envs.reset(seed=1)
        with monkeypatch.context() as patch:
            patch.setattr(_shared_memory, "_open", raising(OSError(24, "Too many open files")))
            with pytest.raises(twofold.ProtocolError, match="Too many open files"):
                envs.step(np.ones(LANES, np.int64))
        first = envs.step(np.ones(LANES, np.int64))
        second = envs.step(np.full(LANES, 2))
    with closing(Game2048VectorEnv(LANES, endpoint=server.tcp)) as envs:
        envs.reset(seed=1)
        assert np.array_equal(envs.step(np.ones(LANES, np.int64))[0], first[0])
        assert np.array_equal(envs.step(np.full(LANES, 2))[0], second[0])


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


def test_few_memories_are_kept_open(server: Server) -> None:
    with closing(Game2048VectorEnv(LANES, endpoint=server.ipc)) as envs:
        envs.reset(seed=1)
        before = len(os.listdir("/proc/self/fd"))
        for count in range(1000, LANES, 50):
            envs.snapshot(range(count))
            envs.step(np.zeros(LANES, np.int64))
        assert len(os.listdir("/proc/self/fd")) <= before + 9
