"""Runs in a contestant's process: makes one player, and measures slices of time on request.

Each contestant is a separate process that runs one of the scripts next to this one. It runs in the
contestant's own virtual environment, so this module needs only numpy. The benchmark and the worker
exchange lines:

    worker ──►  {"ready": true, "details": {…}}
           ◄──  run 0.5 0
           ──►  {"calls": 1234, "steps": 1234, "seconds": 0.5, "median_us": 401.2, "p99_us": 600.1,
                 "elapsed": 0.6}
           ◄──  (end of input: the worker ends)

The clock runs only inside `Player.step`. Between two steps, the worker chooses the next actions,
untimed and in the same way for every contestant: uniformly among the legal actions if the player
has a mask, otherwise among all four. `run 0.5 12` also emulates a learner, whose policy multiplies
matrices twelve times on all cores before each step. The whole loop then takes half a second, and
"elapsed" is its time.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

# The seconds of untimed steps before the first slice, for compilation and allocation.
WARM_UP_SECONDS = 0.3
# The untimed steps before each slice, as a share of it: other contestants have used the caches.
LEAD_IN = 0.1
# A slice ends when its timed part is over, or when it has taken this many times as long in total.
MAX_OVERHEAD = 4.0


class Player(Protocol):
    """One implementation of the game, with N boards."""

    action_dtype: type[np.integer[Any]]
    """The dtype of the actions that `step` accepts."""
    details: dict[str, str]
    """Details for the report: versions, number of threads, contents of the outputs."""

    def step(self, actions: NDArray[Any]) -> Any:
        """Plays one action on each board. On return, all outputs exist as numpy arrays.

        A player with an attribute `steps_per_call` plays that many steps and chooses the actions
        itself.
        """

    def mask(self, outputs: Any) -> NDArray[Any] | None:
        """Returns the legal actions after the last step, bytes (N, 4), or None if unknown."""


class ActionChooser:
    """A chooser of random legal actions for N boards, with random numbers drawn in advance.

        mask    1 0 1 1  ──► code 0b1101 ┐
        number  7 of 0 ... 11            ┴──► TABLE[code, 7] = 2

    The random numbers are 0 ... 11, because 12 is divisible by any number of legal actions, 1 to 4.
    """

    def __init__(self, num_envs: int, dtype: type[np.integer[Any]]) -> None:
        rng = np.random.default_rng(2048)
        batches = max(4, 4096 // num_envs)
        self._numbers = rng.integers(0, 12, (batches, num_envs), np.uint32)
        self._next = 0
        self._dtype = dtype
        self._table = np.zeros((16, 12), dtype)
        for code in range(16):
            legal = [action for action in range(4) if code >> action & 1] or range(4)
            self._table[code] = [legal[number % len(legal)] for number in range(12)]

    def choose(self, mask: NDArray[Any] | None) -> NDArray[Any]:
        """Returns the next actions (N,), in a new array."""
        numbers = self._numbers[self._next]
        self._next = (self._next + 1) % len(self._numbers)
        if mask is None:
            return np.asarray(numbers & 3, self._dtype)
        # The product moves the lowest bit of each of a board's four bytes into bits 24 ... 27.
        codes = (mask.view(np.uint32).ravel() * np.uint32(0x01020408)) >> np.uint32(24)
        places: NDArray[np.uint32] = codes * np.uint32(12) + numbers
        return np.take(self._table, places)


def serve(make: Callable[[int], Player]) -> None:
    """Runs a worker with N boards, where N is the script's last argument.

    Args:
        make: A function that makes the player for N boards.
    """
    num_envs = int(sys.argv[-1])
    # Libraries may print, so they get standard error, and the protocol gets a separate descriptor.
    with os.fdopen(os.dup(1), "w") as protocol:
        os.dup2(2, 1)
        slices = _Slices(make(num_envs), num_envs)
        slices.run(WARM_UP_SECONDS)
        _tell(protocol, {"ready": True, "details": slices.details})
        for line in sys.stdin:
            seconds, work = float(line.split()[1]), int(line.split()[2])
            slices.run(seconds * LEAD_IN, work)
            _tell(protocol, slices.run(seconds, work))


class Policy:
    """A network layer for 256 boards, which numpy computes on all cores."""

    def __init__(self) -> None:
        rng = np.random.default_rng(1)
        self._features, self._weights = (
            rng.random(shape, np.float32) for shape in ((256, 64), (64, 64))
        )
        self._outputs = np.empty((256, 64), np.float32)

    def think(self, work: int) -> None:
        """Computes the layer `work` times."""
        for _ in range(work):
            np.matmul(self._features, self._weights, out=self._outputs)


class _Slices:
    def __init__(self, player: Player, num_envs: int) -> None:
        self.details = player.details
        self._player = player
        self._chooser = ActionChooser(num_envs, player.action_dtype)
        self._mask: NDArray[Any] | None = None
        self._policy = Policy()
        self._steps_per_call: int = getattr(player, "steps_per_call", 1)

    def run(self, seconds: float, work: int = 0) -> dict[str, float]:
        """Steps for `seconds` s, including the policy's time unless `work` is 0."""
        think, step, mask_of, choose = (
            self._policy.think,
            self._player.step,
            self._player.mask,
            self._chooser.choose,
        )
        clock = time.perf_counter_ns
        mask = self._mask
        durations: list[int] = []
        total, wanted = 0, int(seconds * 1e9)
        started = clock()
        end = started + int(wanted * (MAX_OVERHEAD if work == 0 else 1))
        outputs: Any = None
        while True:
            think(work)
            actions = choose(mask)
            before = clock()
            # This includes freeing the last step's outputs, which users also pay for.
            outputs = step(actions)
            after = clock()
            durations.append(after - before)
            total += after - before
            mask = mask_of(outputs)
            if total >= wanted or after >= end:
                break
        self._mask = mask
        return {
            "calls": len(durations),
            "steps": len(durations) * self._steps_per_call,
            "seconds": total / 1e9,
            "median_us": float(np.median(durations)) / 1e3,
            "p99_us": float(np.percentile(durations, 99)) / 1e3,
            "elapsed": (after - started) / 1e9,
        }


def _tell(protocol: Any, message: dict[str, Any]) -> None:
    protocol.write(json.dumps(message) + "\n")
    protocol.flush()
