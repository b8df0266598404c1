"""Measures the parts of an in-process step: Python, the call into the library, and so on."""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import figures
import numpy as np

import twofold
from twofold.client.embedded import EmbeddedCarrier
from twofold.client.session.states import Idle

# The seconds of each measurement in a round, and the untimed steps before it.
SECONDS = 0.1
WARM_UP = 200


class Split(NamedTuple):
    """The time of a step with `copy=False`, and of its parts, in microseconds."""

    size: int
    step: float
    """The time of `VectorEnv.step`."""
    python: float
    """The time that Python takes outside the call into the library."""
    crossing: float
    """The time of a call into the library that is refused immediately."""
    engine: float
    """The time of the kernel with Dispatch, which gives small batches to one thread."""
    session: float
    """The remaining time: the session, its locks, and the reply stored for repeated requests."""


def split(size: int, rounds: int) -> Split:
    """Measures each part in every round, and returns the medians over the rounds."""
    envs = twofold.Game2048VectorEnv(size, copy=False, endpoint="embedded")
    envs.reset(seed=0)
    carrier = envs._session.link.carrier
    assert isinstance(carrier, EmbeddedCarrier)
    rng = np.random.default_rng(0)
    actions = [rng.integers(0, 4, size, np.uint8) for _ in range(64)]
    envs.step(actions[0])
    nobody = type(carrier._steps).from_buffer_copy(carrier._steps)
    nobody.service = 0

    def call(steps: Any, first: int, at: int) -> Any:
        return carrier._step(steps, first + at, actions[at % 64].tobytes())

    rows = []
    for _ in range(rounds):
        whole, _ = _time(lambda at: envs.step(actions[at % 64]))
        first = envs._session.last_seq + 1
        inside, calls = _time(functools.partial(call, carrier._steps, first))
        # These calls bypass the session, whose sequence numbers must continue after them.
        envs._session.state = Idle(envs._session.last_seq + calls)
        turned_away, _ = _time(functools.partial(call, nobody, first))
        rows.append((whole, inside, turned_away))
    envs.close()
    step, library, crossing = (statistics.median(column) for column in zip(*rows, strict=True))
    engine = _kernel(size, carrier.service.threads)
    session = library - crossing - engine
    return Split(size, step, step - library, crossing, engine, session)


def _time(call: Callable[[int], object]) -> tuple[float, int]:
    """Calls `call(0)`, `call(1)`, … Returns the mean time in µs and the number of calls."""
    for at in range(WARM_UP):
        call(at)
    at = WARM_UP
    started = time.perf_counter()
    while time.perf_counter() - started < SECONDS:
        for _ in range(10):
            call(at)
            at += 1
    return 1e6 * (time.perf_counter() - started) / (at - WARM_UP), at


def _kernel(size: int, threads: int) -> float:
    """Returns the microseconds that the fastest kernel takes to step `size` boards."""
    report = figures.output("bench", "--boards", str(size))
    rows = [row for row in report["rows"] if row["engine"] in ("kernel, AVX2", "kernel, baseline")]
    return 1e6 * size / max(float(row["median"]) for row in rows if row["threads"] == threads)
