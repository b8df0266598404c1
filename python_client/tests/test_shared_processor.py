"""While one client steps over ZeroMQ, the socket and I/O threads share a processor."""

from __future__ import annotations

import os
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from servers import Server

pytestmark = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="needs Linux and two processors",
)


def processors(server: Server) -> dict[str, set[int]]:
    """Where each thread of the server may run, by its number and name."""
    found = {}
    for thread in Path(f"/proc/{server.process.pid}/task").iterdir():
        name = (thread / "comm").read_text().strip()
        found[f"{thread.name} {name}"] = os.sched_getaffinity(int(thread.name))
    return found


def seconds_run(server: Server) -> dict[str, float]:
    """For how long each thread of the server has run."""
    found = {}
    for thread in Path(f"/proc/{server.process.pid}/task").iterdir():
        name = (thread / "comm").read_text().strip()
        found[f"{thread.name} {name}"] = int((thread / "schedstat").read_text().split()[0]) / 1e9
    return found


def step_for(envs: gym.vector.VectorEnv, seconds: float) -> None:
    actions = np.zeros(envs.num_envs, np.uint8)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        envs.step(actions)


def test_one_conversation_is_held_on_one_processor_and_batches_on_all(own_server: Server) -> None:
    everywhere = os.sched_getaffinity(own_server.process.pid)
    with_workers = gym.make_vec("twofold/Game2048-v0", num_envs=100_000, endpoint=own_server.tcp)
    small = gym.make_vec("twofold/Game2048-v0", num_envs=1, endpoint=own_server.tcp)
    try:
        small.reset(seed=0)
        with_workers.reset(seed=0)
        seen: list[tuple[set[int], set[int]]] = []
        for _ in range(40):
            step_for(small, 0.02)
            threads = processors(own_server)
            (io,) = (mask for name, mask in threads.items() if "ZMQbg/IO" in name)
            main = threads[next(n for n in threads if n.startswith(f"{own_server.process.pid} "))]
            seen.append((main, io))
        # Once in a second both are free for a moment.
        shared = [main for main, io in seen if main == io and len(main) == 1]
        assert len(shared) > len(seen) / 2, seen
        before = seconds_run(own_server)
        step_for(with_workers, 0.5)
        after = seconds_run(own_server)
        loop_and_io = ("ZMQbg", f"{own_server.process.pid} ")
        workers = [
            mask
            for name, mask in processors(own_server).items()
            if after[name] > before.get(name, 0) + 0.05 and not any(n in name for n in loop_and_io)
        ]
        assert workers
        assert all(mask == everywhere for mask in workers), workers
    finally:
        small.close()
        with_workers.close()
