"""The measurement: for each N, rounds in which every contestant gets one slice of time in turn."""

from __future__ import annotations

import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from contestants import Contestant
from machine import busy_cores
from worker_process import WorkerFailed, WorkerProcess

PEERS = Path(__file__).parent / "peers"


@dataclass
class Result:
    """One contestant with N boards."""

    contestant: str
    size: int
    slices: list[dict[str, float]] = field(default_factory=list)
    """One for each round, as the worker measured it."""
    failure: str | None = None
    """Why there are no slices, or fewer."""
    details: dict[str, str] = field(default_factory=dict)
    """What the contestant says about itself."""

    @property
    def rates(self) -> list[float]:
        """Steps per second, one for each round."""
        return [self.size * one["steps"] / one["seconds"] for one in self.slices]

    @property
    def latencies(self) -> list[float]:
        """The median microseconds of a step, one for each round."""
        return [one["median_us"] for one in self.slices]

    @property
    def rate(self) -> float | None:
        """The median of the rates, if this one got through all rounds."""
        return None if self.failure else statistics.median(self.rates)


class Rounds:
    """All results, and how busy the machine was with other work.

    Args:
        pythons: The interpreter of each contestant, by its name; or why there is none.
        folder: Where the workers' logs go.
    """

    def __init__(self, pythons: dict[str, Path | str], folder: Path) -> None:
        self.results: dict[tuple[str, int], Result] = {}
        self.busy_cores: list[float] = []
        self._pythons = pythons
        self._folder = folder

    def run(self, chosen: list[Contestant], size: int, rounds: int, seconds: float) -> None:
        """Measures all contestants with `size` boards; one runs at a time, the others wait.

        All wait with their boards made and compiled, so that round follows round at once, and
        whatever else the machine does hits everybody.
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
                for name, worker in list(workers.items()):
                    result = self.results[name, size]
                    try:
                        result.slices.append(worker.run(seconds))
                    except WorkerFailed as failure:
                        result.failure = str(failure)
                        workers.pop(name).stop()
                        _say(f"  {name} {failure}")
            self.busy_cores.append(busy_cores())
        finally:
            for worker in workers.values():
                worker.stop()

    def drop_unfinished(self) -> None:
        """After an interruption: leaves the rounds that everybody had their slice of."""
        for size in {size for _, size in self.results}:
            alike = [one for one in self.results.values() if one.size == size and not one.failure]
            whole = min((len(one.slices) for one in alike), default=0)
            for result in alike:
                del result.slices[whole:]
                if whole == 0:
                    result.failure = "interrupted"

    def _start(self, contestant: Contestant, size: int) -> WorkerProcess | None:
        name = contestant.name
        result = self.results[name, size] = Result(name, size)
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
