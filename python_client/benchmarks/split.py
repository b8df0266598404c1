"""Where the time of one step in the process goes: Python, the crossing, the kernel, the rest."""

from __future__ import annotations

import functools
import json
import statistics
import subprocess
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import twofold
from twofold._embedded import EmbeddedCarrier
from twofold._lookup import find_program

# Each measurement of a round, and steps before it.
SECONDS = 0.1
WARM_UP = 200


class Split(NamedTuple):
    """Microseconds of a step of `copy=False`, and of what it consists of."""

    size: int
    step: float
    """`VectorEnv.step`, all of it."""
    python: float
    """What is not in the library's function."""
    crossing: float
    """A call of it that is turned away at once."""
    kernel: float
    """The engine's own time for these boards on one thread, divided by the threads in use."""
    rest: float
    """The session, its locks, the repeat's reply, and Dispatch."""
    threads: int


def split(size: int, rounds: int) -> Split:
    """Medians of rounds in which all of it is measured in turn."""
    envs = twofold.Game2048VectorEnv(size, copy=False, endpoint="embedded")
    envs.reset(seed=0)
    carrier = envs._session._carrier
    assert isinstance(carrier, EmbeddedCarrier)
    rng = np.random.default_rng(0)
    actions = [rng.integers(0, 4, size, np.uint8) for _ in range(64)]
    steps = envs._session._steps
    room = envs._results.room()
    reply = carrier._reply
    reply.payload, reply.payload_capacity = room[1], room[0].size

    def call(service: int, first: int, at: int) -> Any:
        payload, seq = actions[at % 64].tobytes(), first + at
        return carrier._step(service, steps.session, steps.epoch, seq, payload, size, 1, reply)

    rows = []
    for _ in range(rounds):
        whole, _ = _time(lambda at: envs.step(actions[at % 64]))
        first = envs._session.last_seq + 1
        inside, calls = _time(functools.partial(call, carrier._number, first))
        # The session's own numbers go on from where these calls end.
        envs._session._last_seq += calls
        turned_away, _ = _time(functools.partial(call, 2**63, first))
        rows.append((whole, inside, turned_away))
    envs.close()
    step, library, crossing = (statistics.median(column) for column in zip(*rows, strict=True))
    # As many as the batch is spread over.
    threads = min(carrier.threads, max(1, size // 64))
    kernel = _kernel(size) / threads
    return Split(
        size,
        step,
        step - library,
        crossing,
        kernel,
        library - crossing - kernel,
        threads,
    )


def _time(call: Callable[[int], object]) -> tuple[float, int]:
    """The mean microseconds of a call that is told how many came before it, and how many came."""
    for at in range(WARM_UP):
        call(at)
    at = WARM_UP
    started = time.perf_counter()
    while time.perf_counter() - started < SECONDS:
        for _ in range(10):
            call(at)
            at += 1
    return 1e6 * (time.perf_counter() - started) / (at - WARM_UP), at


def _kernel(size: int) -> float:
    """Microseconds of the best engine of this processor for so many boards, on one thread."""
    command = [str(find_program()), "bench", "--json", "--only", "kernel", "--boards", str(size)]
    report = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    rows = [row for row in report["rows"] if row["threads"] == 1 and "reward" not in row["engine"]]
    return 1e6 * size / max(float(row["median"]) for row in rows)
