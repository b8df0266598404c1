"""Peers send arbitrary messages while a correct client plays. Longer in `make test-long`."""

import json
import subprocess
import sys
import time
from pathlib import Path

import fuzz
import numpy as np
import pytest
from raw import statistics_of
from servers import Server, wait_until

from twofold import Game2048VectorEnv
from twofold.v1 import envelope_pb2 as envelope

MESSAGES = 4_000
MESSAGES_AT_LENGTH = 25_000
PEERS = 2
LANES = 64
# Small, so that the peers reach the limits, and leaked memory shows.
LIMITS = ["--max-sessions", "500", "--max-boards", "1000000", "--max-bytes", "200000000"]
LIMITS += ["--idle-timeout", "5", "--max-message-bytes", "1000000"]


class Worker:
    """A correct client that records a digest of each game."""

    def __init__(self, endpoint: str) -> None:
        self._envs = Game2048VectorEnv(LANES, endpoint=endpoint)
        self._actions = np.random.default_rng(7).integers(0, 4, (1000, LANES))
        self.digests: list[bytes] = []

    def play(self, turns: int) -> None:
        """Plays `turns` steps, always from the same start."""
        observations, _ = self._envs.reset(seed=11)
        digest = [observations.tobytes()]
        for turn in range(turns):
            step = self._envs.step(self._actions[turn])
            digest += [array.tobytes() for array in step[:4]]
        self.digests.append(b"".join(digest))

    def close(self) -> None:
        self._envs.close()


def start(endpoint: str, seed: int, count: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "fuzz", endpoint, str(seed), str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent)


def start_peers(server: Server, count: int) -> "list[subprocess.Popen[str]]":
    """Starts peers that send `count` messages in total, over ipc and tcp."""
    endpoints = [server.ipc, server.tcp]
    return [start(endpoints[peer % 2], peer, count // PEERS) for peer in range(PEERS)]


def play_beside(worker: Worker, peers: "list[subprocess.Popen[str]]", server: Server) -> None:
    """Plays until the peers have sent all their messages to the server."""
    while any(peer.poll() is None for peer in peers):
        worker.play(100)
        time.sleep(0.2)  # leaves the processors to the peers
        assert server.process.poll() is None, "it has crashed"
    for peer in peers:
        assert peer.returncode == 0


def usage(server: Server) -> tuple[int, int]:
    """Returns the resident memory in bytes and the number of open descriptors."""
    return server.memory, len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))


@pytest.mark.timeout(3600)
def test_malformed_messages_harm_no_other_client(scale: int) -> None:
    count = MESSAGES if scale == 1 else MESSAGES_AT_LENGTH * min(scale, 20)
    with Server(*LIMITS) as server:
        # Once before measuring, because the server remembers closed sessions and the like.
        tallies = [fuzz.run(server.ipc, 99, count // 10)]
        wait_until(lambda: statistics_of(server.ipc).usage.sessions == 0)
        worker = Worker(server.ipc)
        worker.play(100)
        memory, descriptors = usage(server)

        peers = start_peers(server, count - count // 10)
        play_beside(worker, peers, server)
        worker.play(100)
        for peer in peers:
            assert peer.stdout is not None
            tallies.append(json.loads(peer.stdout.read()))

        # Each message was answered, or dropped and counted; repeats of a request in progress share
        # one answer.
        stats = statistics_of(server.ipc)
        assert stats.usage.in_progress == 0
        counters = stats.counters
        known = counters.executed + counters.refused + counters.resent
        assert counters.received == known + counters.parked + counters.dropped + 1
        assert sum(tally["internal"] for tally in tallies) == 0
        unanswered = sum(tally["unanswered"] for tally in tallies)
        assert unanswered <= counters.parked
        assert counters.dropped > 0
        # There were messages of all kinds, and many kinds of refusals.
        slots = {field.name for field in envelope.Request.DESCRIPTOR.oneofs[0].fields}
        assert {row.name for row in stats.requests} == slots
        executed = {row.name for row in stats.requests if row.executed}
        assert executed >= {"hello", "create", "reset", "step", "observe", "keepalive", "close"}
        assert len(stats.refusals) >= 6

        # The correct client's results are the same as without peers.
        assert len(worker.digests) > 1
        assert set(worker.digests) == {worker.digests[0]}
        worker.close()

        # And nothing is left behind.
        wait_until(lambda: statistics_of(server.ipc).usage.sessions == 0)
        assert statistics_of(server.ipc).usage.boards == 0
        wait_until(lambda: usage(server)[0] < memory + (16 << 20))
        wait_until(lambda: usage(server)[1] <= descriptors + 2)


def test_the_fuzzer_makes_all_kinds_of_requests() -> None:
    fuzzer = fuzz.Fuzzer(1)
    slots, readable, answered = set(), 0, 0
    for _ in range(3000):
        frames = fuzzer.message()
        answered += fuzz.is_answered(frames)
        try:
            request = envelope.Request.FromString(frames[1])
        except Exception:
            continue
        readable += 1
        slots.add(request.WhichOneof("op"))
    names = {field.name for field in envelope.Request.DESCRIPTOR.oneofs[0].fields}
    assert slots == names | {None}
    assert 1500 < readable < 2900
    assert 2500 < answered < 3000
