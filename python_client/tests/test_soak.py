"""Many kinds of requests in a long run: results stay right, and memory and descriptors don't grow.

TWOFOLD_SOAK_SECONDS=3600 python -m pytest -s tests/test_soak.py

A short run proves nothing, because the allocator's memory varies by megabytes.
"""

import ctypes
import gc
import os
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from games import GAMES
from raw import create_and_close
from servers import Server

import twofold

SECONDS = float(os.environ.get("TWOFOLD_SOAK_SECONDS", "300"))
# The number of measurements, and how many of the first are ignored, because caches still fill.
MEASUREMENTS, WARM_UP = 40, 16
POOL = 6


def descriptors(pid: int) -> int:
    """Returns the number of a process's open descriptors."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def resident(pid: int) -> int:
    """Returns the resident memory of a process in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Visitor:
    """A series of sessions, each with a twin session that must return the same results."""

    def __init__(self, server: Server, seed: int) -> None:
        self._server = server
        self._random = random.Random(seed)
        self._pair: list[Any] = []
        self.steps = 0
        self.sessions = 0

    def act(self) -> None:
        """Performs a random action on the session, or starts or closes one."""
        if not self._pair:
            self._begin()
            return
        deeds: list[Callable[[], None]] = [self._step] * 60
        deeds += (
            [self._reset] * 2
            + [self._masked_reset] * 4
            + [self._look] * 4
            + [self._go_back] * 4
            + [self._roll_out] * 2
            + [self._resume, self.end]
        )
        self._random.choice(deeds)()

    def end(self) -> None:
        """Closes the session."""
        for envs in self._pair:
            envs.close()
        self._pair = []

    def _begin(self) -> None:
        arguments: dict[str, Any] = {
            "num_envs": self._random.choice([1, 3, 64, 1000]),
            "endpoint": self._random.choice([self._server.ipc, self._server.tcp]),
            "max_episode_steps": self._random.choice([None, 20]),
            "autoreset_mode": self._random.choice(["NextStep", "SameStep"]),
        }
        make: Callable[..., Any] = self._random.choice(list(GAMES.values()))
        if make is twofold.Game2048VectorEnv:
            arguments["size"] = self._random.choice([2, 3, 4, 4])
        self._pair = [make(**arguments) for _ in range(2)]
        self.sessions += 2
        seed = self._random.randrange(1000)
        self._agree([envs.reset(seed=seed) for envs in self._pair])

    def _step(self) -> None:
        count, choices = self._pair[0].num_envs, self._pair[0].single_action_space.n
        actions = np.random.default_rng(self._random.randrange(2**32)).integers(0, choices, count)
        self._agree([envs.step(actions) for envs in self._pair])
        self.steps += 2 * count

    def _reset(self) -> None:
        self._agree([envs.reset() for envs in self._pair])

    def _masked_reset(self) -> None:
        mask = np.zeros(self._pair[0].num_envs, np.bool_)
        mask[self._random.randrange(mask.size)] = True
        self._agree([envs.reset(options={"reset_mask": mask}) for envs in self._pair])

    def _look(self) -> None:
        self._agree([envs.observe() for envs in self._pair])
        if isinstance(self._pair[0], twofold.Game2048VectorEnv):
            self._agree([envs.afterstates() for envs in self._pair])

    def _go_back(self) -> None:
        blob = self._pair[0].snapshot()
        self._step()
        self._agree([envs.restore(blob) for envs in self._pair])

    def _roll_out(self) -> None:
        rollouts = [envs.rollout(20, "random") for envs in self._pair]
        self._agree([(each.observations, each.actions, each.rewards) for each in rollouts])
        self.steps += 2 * rollouts[0].actions.size

    def _resume(self) -> None:
        self._pair[0] = twofold.resume(self._pair[0].token)
        self._look()

    @staticmethod
    def _agree(results: list[tuple[Any, ...]]) -> None:
        one, other = (
            [np.asarray(value) for value in each if not isinstance(value, dict)] for each in results
        )
        for mine, its in zip(one, other, strict=True):
            np.testing.assert_array_equal(mine, its)


@pytest.mark.long
@pytest.mark.timeout(0)
def test_memory_does_not_grow_over_time(own_server: Server) -> None:
    # The server remembers the ids of the last ten thousand closed sessions.
    create_and_close(own_server.ipc, 12_000)
    visitors = [Visitor(own_server, seed) for seed in range(POOL)]
    processes = {"server": own_server.process.pid, "client": os.getpid()}
    memory: dict[str, list[int]] = {name: [] for name in processes}
    files: dict[str, list[int]] = {name: [] for name in processes}
    started = time.monotonic()
    while len(memory["server"]) < MEASUREMENTS:
        until = started + SECONDS * (len(memory["server"]) + 1) / MEASUREMENTS
        while time.monotonic() < until:
            for visitor in visitors:
                visitor.act()
        # Excludes the memory that open sessions and the allocator hold.
        for visitor in visitors:
            visitor.end()
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        for name, pid in processes.items():
            memory[name].append(resident(pid))
            files[name].append(descriptors(pid))
    steps = sum(visitor.steps for visitor in visitors)
    sessions = sum(visitor.sessions for visitor in visitors)
    print(f"\n{steps:,} steps of {sessions:,} sessions in {SECONDS:g} s")
    for name in processes:
        middle = (WARM_UP + MEASUREMENTS) // 2
        early = statistics.median(memory[name][WARM_UP:middle])
        late = statistics.median(memory[name][middle:])
        print(f"{name}: {early / 1e6:.1f} MB, later {late / 1e6:.1f} MB; {files[name]} descriptors")
        # The server's allocator holds up to 10 MB more or less of freed memory.
        assert late < early + max(8e6, 0.05 * early), f"the {name}'s memory grows: {memory[name]}"
        assert max(files[name][middle:]) <= max(files[name][WARM_UP:middle]) + 2
    assert sessions > 10
