"""Measures in rounds: in each round, every contestant runs for one slice of time."""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from contestants import ALONE, NOTHING, Condition, Contestant
from machine import busy_cores
from worker_process import WorkerFailed, WorkerProcess

PEERS = Path(__file__).parent / "peers"
# A CPU-bound process, in a separate session as if it were another user's.
BUSY = [sys.executable, "-c", "while True: pass"]

Slice = dict[str, float]


@dataclass
class Result:
    """The result of one contestant with N boards under one condition."""

    contestant: str
    size: int
    condition: str
    slices: list[Slice] = field(default_factory=list)
    """The worker's measurements, one slice per round."""
    failure: str | None = None
    """The reason for missing slices."""
    details: dict[str, str] = field(default_factory=dict)
    """The details that the contestant reports about itself."""

    @property
    def rates(self) -> list[float]:
        """The steps per second in each round; with a learner, the rate of the whole loop."""
        return [self.size * one["steps"] / one["elapsed"] for one in self._timed]

    @property
    def times(self) -> list[float]:
        """The mean time per call in each round, in microseconds."""
        return [1e6 * one["elapsed"] / one["calls"] for one in self._timed]

    @property
    def tails(self) -> list[float]:
        """The 99th percentile of the time per call in each round, in microseconds."""
        return [one["p99_us"] for one in self.slices]

    @property
    def rate(self) -> float | None:
        """The median of the rates; None if the contestant did not finish all rounds."""
        return None if self.failure or not self.slices else statistics.median(self.rates)

    @property
    def _timed(self) -> list[Slice]:
        if self.condition.startswith("learner"):
            return self.slices
        return [one | {"elapsed": one["seconds"]} for one in self.slices]


Results = dict[tuple[str, int, str], Result]


@contextlib.contextmanager
def neighbours(count: int) -> Iterator[None]:
    """Runs `count` CPU-bound processes for the duration of the context."""
    processes = [subprocess.Popen(BUSY, start_new_session=True) for _ in range(count)]
    try:
        # The scheduler needs some time to place them.
        time.sleep(0.2 if count else 0.0)
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


class Rounds:
    """The rounds of the benchmark, all results, and the machine's load from other work.

    Args:
        pythons: Each contestant's interpreter by name, or why it has none.
        folder: The folder for the workers' logs.
    """

    def __init__(self, pythons: dict[str, Path | str], folder: Path) -> None:
        self.results: Results = {}
        self.busy_cores: list[float] = []
        self._pythons = pythons
        self._folder = folder
        self._seconds_of_work: float | None = None

    def run(
        self,
        chosen: list[Contestant],
        size: int,
        conditions: Sequence[Condition],
        rounds: int,
        seconds: float,
    ) -> None:
        """Measures all contestants with `size` boards. One runs at a time; the others wait.

        All contestants create and compile their boards before the first round. Rounds then follow
        each other immediately, so other work on the machine affects all contestants alike.
        """
        workers: dict[str, WorkerProcess] = {}
        try:
            for contestant in chosen:
                worker = self._start(contestant, size)
                if worker is not None:
                    workers[contestant.name] = worker
            self.busy_cores.append(busy_cores())
            for number in range(rounds):
                _say(f"N = {size}: round {number + 1} of {rounds}")
                for condition in conditions:
                    with neighbours(condition.busy):
                        self._round(workers, chosen, size, condition, seconds)
            self.busy_cores.append(busy_cores())
        finally:
            for worker in workers.values():
                worker.stop()

    def _round(
        self,
        workers: dict[str, WorkerProcess],
        chosen: list[Contestant],
        size: int,
        condition: Condition,
        seconds: float,
    ) -> None:
        """Measures one slice of each contestant under this condition."""
        for contestant in chosen:
            name = contestant.name
            is_learner = condition.thinking > 0
            takes_part = contestant.has_learner if is_learner else contestant is not NOTHING
            if name not in workers or not takes_part:
                continue
            result = self.results.setdefault(
                (name, size, condition.name), Result(name, size, condition.name)
            )
            try:
                work = self._work_of(condition, workers[NOTHING.name]) if is_learner else 0
                result.slices.append(workers[name].run(seconds, work))
            except WorkerFailed as failure:
                result.failure = str(failure)
                workers.pop(name).stop()
                _say(f"  {name} {failure}")

    def _work_of(self, condition: Condition, nothing: WorkerProcess) -> int:
        """Returns how many network layers fill the condition's thinking time on this machine."""
        if self._seconds_of_work is None:
            # Long enough that the rest of the loop does not matter.
            loops = [nothing.run(0.1, 100) for _ in range(9)]
            seconds = statistics.median(one["elapsed"] / one["calls"] for one in loops)
            self._seconds_of_work = seconds / 100
        return max(1, round(condition.thinking / self._seconds_of_work))

    def drop_unfinished(self) -> None:
        """Drops incomplete rounds after an interruption."""
        measured = [one for one in self.results.values() if not one.failure and one.slices]
        for kind in {(one.size, one.condition) for one in measured}:
            alike = [one for one in measured if (one.size, one.condition) == kind]
            whole = min((len(one.slices) for one in alike), default=0)
            for result in alike:
                del result.slices[whole:]

    def _start(self, contestant: Contestant, size: int) -> WorkerProcess | None:
        name = contestant.name
        result = self.results[name, size, ALONE.name] = Result(name, size, ALONE.name)
        python = self._pythons[name]
        if isinstance(python, str):
            result.failure = python
            return None
        if size > contestant.largest:
            result.failure = f"left out: too slow for more than {contestant.largest} boards"
            return None
        script, *arguments = contestant.command
        log = self._folder / f"{name}-{size}.log"
        started = time.monotonic()
        worker = WorkerProcess(
            [str(python), str(PEERS / script), *arguments, str(size)],
            log,
        )
        try:
            result.details = worker.ready()
        except WorkerFailed as failure:
            result.failure = str(failure)
            worker.stop()
            _say(f"N = {size}: {name} {failure}")
            return None
        except BaseException:
            worker.stop()
            raise
        _say(f"N = {size}: {name} is ready after {time.monotonic() - started:.1f} s")
        return worker


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
