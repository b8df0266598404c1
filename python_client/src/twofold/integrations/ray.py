"""Evaluations and datasets on a Ray cluster, with the same results as on a single machine.

An episode depends only on its seeds, and a lane only on its own seed. Therefore, each worker plays
a fixed part of the episodes or lanes, and the parts are joined in order.

Each worker runs a service in its own process, unless `endpoint=` names a server. The package must
be installed on all nodes; Ray's `runtime_env` can install it, and can copy a policy's modules.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from twofold import _arguments
from twofold.datasets import file_format, writer
from twofold.errors import FailedPrecondition, InvalidArgument
from twofold.evaluation.observers import Progress
from twofold.evaluation.results import Evaluation
from twofold.evaluation.run import Plan, join, keep
from twofold.integrations import ray_pool
from twofold.integrations.ray_pool import Pool
from twofold.judging import ChatModel
from twofold.policies.choosers import PlayerChooser

# The maximum number of episodes in a part. A lost worker loses its whole part.
_MAX_EPISODES = 16_384


class RayExecutor:
    """An executor that plays the games of evaluations and datasets on a Ray cluster.

        twofold.evaluate("greedy", episodes=1_000_000, executor=RayExecutor())

    The games and results are the same as on one machine, and a dataset's file is identical byte for
    byte. For a Python function, this is true only if its action for a row depends on nothing but
    that row and the function's memory of that row's game. The action must not depend on other rows
    or on a random generator that rows share. Each part gets a copy of the policy, made by Ray's
    cloudpickle, which also handles lambdas.

    If a worker or node is lost, its part of an evaluation is played again, at most three times. If
    an error or an interrupt ends an evaluation early, the finished parts are kept. An environment
    that reports its score only in some games is scored in each part separately. In a dataset,
    another worker replays the lost worker's lanes from their seeds and then continues.

    Args:
        workers: The number of Ray actors (default: the cluster's number of CPUs). A dataset has at
            most one per lane.
        options: The actors' options for `ray.remote`: num_cpus, num_gpus, max_task_retries,
            runtime_env.
    """

    def __init__(
        self, workers: int | None = None, options: Mapping[str, Any] | None = None
    ) -> None:
        self._workers, self._options = workers, options

    def evaluate(self, plan: Plan, progress: Progress | None) -> Evaluation:
        """Plays an evaluation. Each worker has separate boards.

        The result's `seconds` is the duration of the whole evaluation, and its `policy_seconds` is
        this duration multiplied by the policy's share of the workers' time.

        Raises:
            InvalidArgument: The policy is a chat model, or the environment is already open.
            FailedPrecondition: The machines have different versions of Twofold or Python.
            TransportError: A part was lost too many times.
        """
        chooser, total = plan.chooser, len(plan.seeds)
        if isinstance(chooser, PlayerChooser) and isinstance(chooser.policy, ChatModel):
            raise InvalidArgument(
                f"{chooser.name} waits for its endpoint, so more workers don't speed it up; "
                "omit executor",
                field="policy",
            )
        if not isinstance(plan.env, str):
            expected = "an id, because each worker makes its environment"
            raise _arguments.wrong("env", plan.env, expected)
        workers = ray_pool.number_of_workers(self._workers)
        start = time.perf_counter()
        parts = _split(total, max(workers, -(-total // _MAX_EPISODES)))
        if plan.num_envs is None:
            plan = dataclasses.replace(plan, num_envs=min(len(parts[0]), chooser.lanes))
        packed = ray_pool.packed(plan)
        played: dict[int, Evaluation] = {}
        games = steps = 0

        def joined() -> Evaluation:
            return join([played[index] for index in sorted(played)], time.perf_counter() - start)

        try:
            with Pool(_Evaluator, min(workers, len(parts)), self._options) as pool:
                for index, evaluation in _each(pool, packed, parts):
                    played[index] = evaluation
                    games += evaluation.episodes
                    steps += int(evaluation.lengths.sum())
                    if progress is not None:
                        progress(games, total, steps)
        except BaseException as error:
            if played:
                with contextlib.suppress(FailedPrecondition):  # the machines differ
                    keep(error, joined(), total)
            raise
        return joined()

    def write(self, path: str | Path, plan: writer.Plan, progress: writer.Progress | None) -> int:
        """Plays and writes a dataset, and returns its number of transitions.

        Each worker plays some of the lanes. This process joins their columns into a row group, and
        writes it while the workers play the next one. Two row groups are in memory at a time.

        Raises:
            FailedPrecondition: The machines have different versions of Twofold.
            TransportError: A part was lost too many times.
        """
        parts = _split(plan.num_envs, ray_pool.number_of_workers(self._workers))
        with Pool(_Player, len(parts), self._options) as pool:
            lanes = _RemoteLanes(pool, parts, plan)
            return writer.write_file(path, plan, lanes.metadata(), lanes.play, progress)


class _RemoteLanes:
    """The lanes of a dataset; each actor plays some of them."""

    def __init__(self, pool: Pool, parts: Sequence[range], plan: writer.Plan) -> None:
        self._pool, self._plan, self._packed = pool, plan, ray_pool.packed(plan)
        self._rows = self._time = 0
        self._players = list(zip(pool.workers, parts, strict=True))
        self._asked: list[Any] = []

    def metadata(self) -> dict[str, Any]:
        """Returns the file's metadata, on which all actors must agree."""
        self._ask("metadata")
        first: dict[str, Any]
        first, *others = self._answers()
        for metadata in others:
            if metadata != first:
                raise FailedPrecondition(
                    f"the machines report {first} and {metadata}; install the same version on all "
                    "of them"
                )
        return first

    def play(self, steps: int) -> writer.Columns:
        """Waits for a row group of `steps` steps, requests the next one, and returns this one."""
        if self._time == 0:
            self._ask("play", 0, steps)
        each = self._answers()
        columns = {name: np.concatenate([some[name] for some in each]) for name in each[0]}
        self._rows, self._time = self._rows + len(columns["action"]), self._time + steps
        following = self._plan.steps_after(self._rows)
        if following > 0:
            self._ask("play", self._time, following)
        return columns

    def _ask(self, method: str, *arguments: int) -> None:
        """Calls a method on all actors, without waiting for their results."""
        self._asked = []
        for worker, lanes in self._players:
            ref = getattr(worker, method).remote([self._packed], lanes, *arguments)
            self._asked.append(self._pool.begun(ref, "lanes", lanes))

    def _answers(self) -> list[Any]:
        return [self._pool.result(ref) for ref in self._asked]


class _Evaluator:
    """An actor that plays parts of an evaluation, one at a time."""

    def play(self, packed: list[Any], part: range) -> Evaluation:
        """Plays the episodes in `part` and returns their evaluation."""
        plan: Plan = ray_pool.unpacked(packed)
        return plan.play(ray_pool.stop_if_canceled, part)

    def close(self) -> None:
        """Does nothing. Calls run one at a time, so it returns once the last part has ended."""


def _each(pool: Pool, packed: Any, parts: Sequence[range]) -> Iterator[tuple[int, Evaluation]]:
    """Yields the number and the result of each part as it finishes."""
    idle, begun = list(pool.workers), 0
    running: dict[Any, tuple[int, Any]] = {}
    while begun < len(parts) or running:
        while begun < len(parts) and idle:
            part, worker = parts[begun], idle.pop()
            ref = pool.begun(worker.play.remote([packed], part), "episodes", part)
            running[ref] = begun, worker
            begun += 1
        ref = pool.first_of(list(running))
        index, worker = running.pop(ref)
        idle.append(worker)
        yield index, pool.result(ref)


class _Player:
    """An actor that plays some lanes of a dataset."""

    def __init__(self) -> None:
        self._lanes: writer.Lanes | None = None

    def metadata(self, packed: list[Any], numbers: range) -> dict[str, Any]:
        """Returns the file's metadata."""
        return self._lanes_at(0, packed, numbers).metadata

    def play(self, packed: list[Any], numbers: range, time: int, steps: int) -> writer.Columns:
        """Returns the transitions of the lanes in `numbers`, for `steps` steps from step `time`."""
        return self._lanes_at(time, packed, numbers).columns(steps, ray_pool.stop_if_canceled)

    def close(self) -> None:
        if self._lanes is not None:
            self._lanes.close()
            self._lanes = None

    def _lanes_at(self, time: int, packed: list[Any], numbers: range) -> writer.Lanes:
        """Returns the lanes after `time` steps.

        If Ray restarted the actor or repeats a call, the lanes are played again from their seeds.
        """
        if self._lanes is None or self._lanes.time > time:
            self.close()
            self._lanes = writer.Lanes(ray_pool.unpacked(packed), numbers)
        most = max(1, file_format.GROUP_ROWS // len(numbers))
        while self._lanes.time < time:
            self._lanes.columns(min(most, time - self._lanes.time), ray_pool.stop_if_canceled)
        return self._lanes


def _split(number: int, parts: int) -> list[range]:
    """Splits 0 ... number - 1 into at most `parts` ranges; none is longer than the first."""
    parts = min(parts, number)
    ends = [-(-number * part // parts) for part in range(parts + 1)]
    return [range(*ends[part : part + 2]) for part in range(parts)]
