"""Measures the processor time of almost idle sessions, on the server and in the client."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import twofold
from twofold.client.zeromq import ZeroMQCarrier

THINKING_SECONDS = 0.3e-3


class Cost(NamedTuple):
    """The processor time that one session of 256 boards costs."""

    endpoint: str
    idle: tuple[float, float]
    """The processor time of server and client in a minute without requests, in milliseconds."""
    thinking: tuple[float, float]
    """The shares of a core that server and client use if the client computes 0.3 ms per step."""
    rate: float
    """The steps per second of a client that computes for 0.3 ms per step."""


def cost(endpoint: str, idle_seconds: float, thinking_seconds: float) -> Cost:
    """Measures the cost of a session without requests and of one with occasional requests."""
    envs = twofold.Game2048VectorEnv(256, endpoint=endpoint)
    envs.reset(seed=0)
    carrier = envs._session.link.carrier
    server: int | None = None
    if isinstance(carrier, ZeroMQCarrier) and carrier.server is not None:
        server = carrier.server.pid

    def spent() -> tuple[float, float]:
        return (0.0 if server is None else _seconds(server)), _seconds("self")

    before = spent()
    time.sleep(idle_seconds)
    idle = tuple(60e3 * (b - a) / idle_seconds for a, b in zip(before, spent(), strict=True))
    before, started, steps = spent(), time.perf_counter(), 0
    actions = [0] * 256
    while time.perf_counter() - started < thinking_seconds:
        envs.step(actions)
        thought = time.perf_counter()
        while time.perf_counter() - thought < THINKING_SECONDS:
            pass
        steps += 1
    elapsed = time.perf_counter() - started
    shares = tuple((b - a) / elapsed for a, b in zip(before, spent(), strict=True))
    envs.close()
    return Cost(endpoint, (idle[0], idle[1]), (shares[0], shares[1]), steps / elapsed)


def _seconds(process: int | str) -> float:
    """Returns the processor time of all threads of a process so far, in seconds."""
    threads = Path(f"/proc/{process}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9
