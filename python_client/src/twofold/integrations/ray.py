"""Ray: evaluations and datasets that several machines play, with the results of a single one.

An episode is a function of its seeds, and a lane of its own. So each worker plays a part that is
known beforehand, and the parts are put together in their order.

Each worker has a service of its own in its process, unless `endpoint=` names a server. The package
has to be installed on all nodes; Ray's `runtime_env` can do that, and brings modules of a policy.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from twofold.datasets import file_format, writer
from twofold.envs.results import Array
from twofold.errors import FailedPrecondition, InvalidArgument
from twofold.evaluation.episodes import Progress
from twofold.evaluation.results import Evaluation
from twofold.evaluation.run import Protocol, episode_seeds, join, play
from twofold.evaluation.seeds import Seeds
from twofold.integrations import ray_pool
from twofold.integrations.ray_pool import Pool
from twofold.judging import ChatModel
from twofold.policies.choosers import PolicyLike
from twofold.policies.lookup import resolve

# Episodes of a part, at most: so many are lost with a worker.
_MOST_EPISODES = 16_384


def evaluate(
    policy: PolicyLike,
    *,
    workers: int | None = None,
    env: str = "twofold/Game2048-v0",
    episodes: int | None = None,
    protocol: Protocol | None = None,
    num_envs: int | None = None,
    first_seed: int | None = None,
    secret: str | None = None,
    name: str | None = None,
    card: Mapping[str, Any] | None = None,
    policy_timeout: float = 60.0,
    progress: Progress | None = None,
    record: bool = False,
    regret: bool = False,
    ray_options: Mapping[str, Any] | None = None,
    **env_arguments: Any,
) -> Evaluation:
    """`twofold.evaluate` on the machines of a Ray cluster: the same games with the same results.

    Policies that run in the server play the same games wherever they run. So do functions whose
    action in a row depends on that row, or on what they remember of its game, and on nothing else:
    not on the other rows, and not on a generator that all rows share.

    A part of the episodes whose worker or node was lost is played again, up to three times.

    Args:
        policy: A policy as for `twofold.evaluate`, but no chat model. Each part gets a copy of it,
            made by Ray's cloudpickle, which takes functions and lambdas too.
        workers: Ray actors; as many as the cluster has CPUs by default.
        env: An environment's id.
        episodes: Number of games; 1,000 by default.
        protocol: Instead of `episodes`: "quick", "1ply", "search" or "deep".
        num_envs: Boards at once on each worker; by default as many as a part has episodes, at most
            4096 (16 for a program).
        first_seed: The first episode's seed, 2^63 or more; not for a program.
        secret: `Evaluation.secret` of an earlier evaluation, to play its games.
        name: The policy's name in reports; by default its own.
        card: Entries of the rule card.
        policy_timeout: Seconds that one call of the policy may take.
        progress: Called as parts finish.
        record: Whether to keep every game's actions, for `Evaluation.recording`.
        regret: Whether to report what the moves cost against optimal play.
        ray_options: Options of the actors, as `ray.remote` takes them: num_cpus, num_gpus,
            max_task_retries, runtime_env.
        **env_arguments: Arguments for making `env`, such as size=3 or endpoint="tcp://…".

    Returns:
        The evaluation. Its `seconds` are those of the whole, and `policy_seconds` the policy's
        share of the workers' time.

    Raises:
        PolicyError, InvalidArgument: As for `twofold.evaluate`.
        FailedPrecondition: The machines have different versions of Twofold or Python.
        TransportError: No server, or a part was lost too often.
        MissingDependency: Ray is not installed.
    """
    if isinstance(policy, ChatModel):
        raise InvalidArgument(
            f"{policy.name} waits for its endpoint, which more workers don't make faster; use "
            "twofold.evaluate",
            field="policy",
        )
    chosen = resolve(policy, name)
    seeds = episode_seeds(chosen, episodes, protocol, first_seed, secret)
    if not isinstance(env, str):
        raise InvalidArgument(
            f"env is {env!r}; expected an environment's id: each worker makes its own", field="env"
        )
    workers = ray_pool.number_of_workers(workers)
    start = time.perf_counter()
    parts = _split(len(seeds), max(workers, -(-len(seeds) // _MOST_EPISODES)))
    arguments = {
        "env": env,
        "num_envs": min(len(parts[0]), chosen.lanes) if num_envs is None else num_envs,
        "card": card,
        "policy_timeout": policy_timeout,
        "record": record,
        "regret": regret,
        "env_arguments": env_arguments,
    }
    packed = ray_pool.packed(chosen, arguments)
    played: dict[int, Evaluation] = {}
    games = steps = 0
    with Pool(_Evaluator, min(workers, len(parts)), ray_options) as pool:
        for index, evaluation in _each(pool, packed, seeds, parts):
            played[index] = evaluation
            games += evaluation.episodes
            steps += int(evaluation.lengths.sum())
            if progress is not None:
                progress(games, len(seeds), steps)
    in_order = [played[index] for index in range(len(parts))]
    return join(in_order, time.perf_counter() - start)


class _Evaluator:
    """An actor that plays one part of an evaluation after another."""

    def play(self, packed: list[Any], seeds: Seeds, first: int) -> Evaluation:
        """Plays some episodes, the first of which has this number."""
        policy, arguments = ray_pool.unpacked(packed)
        return play(policy, seeds, first, progress=ray_pool.stop_if_canceled, **arguments)

    def close(self) -> None:
        """Returns after the last part."""


def _each(
    pool: Pool, packed: Any, seeds: Seeds, parts: Sequence[range]
) -> Iterator[tuple[int, Evaluation]]:
    """The parts' numbers and results, as they finish."""
    idle, begun = list(pool.workers), 0
    running: dict[Any, tuple[int, Any]] = {}
    while begun < len(parts) or running:
        while begun < len(parts) and idle:
            part, worker = parts[begun], idle.pop()
            some = seeds.part(part)
            ref = pool.begun(worker.play.remote([packed], some, part.start), "episodes", part)
            running[ref] = begun, worker
            begun += 1
        ref = pool.first_of(list(running))
        index, worker = running.pop(ref)
        idle.append(worker)
        yield index, pool.result(ref)


def write_dataset(
    path: str | Path,
    policy: PolicyLike = "random",
    *,
    transitions: int,
    workers: int | None = None,
    env: str = "twofold/Game2048-v0",
    num_envs: int = 1024,
    seed: int | None = None,
    policy_timeout: float = 60.0,
    progress: writer.Progress | None = None,
    ray_options: Mapping[str, Any] | None = None,
    **env_arguments: Any,
) -> int:
    """`twofold.datasets.write` on the machines of a Ray cluster: the same file, byte for byte.

    Each worker plays some of the lanes; this process puts their row groups together and writes
    them, while the workers play the next one. Two row groups are in memory at a time. For policies
    the same conditions hold as for `evaluate`.

    When a worker or its node is lost, another one plays its lanes from their seeds, at first up to
    where they were, up to three times.

    Args:
        path: The file; it appears when it is complete.
        policy: A policy as for `twofold.datasets.write`. Each worker gets a copy of it.
        transitions: Number of transitions, rounded up to whole steps of all lanes.
        workers: Ray actors, at most one for each lane; as many as the cluster has CPUs by default.
        env: The environment's id.
        num_envs: Lanes N, of all workers together.
        seed: Seed of the boards, seed + i for lane i; drawn from the system by default.
        policy_timeout: Seconds that one call of the policy may take.
        progress: Called after each row group.
        ray_options: Options of the actors, as `ray.remote` takes them: num_cpus, num_gpus,
            max_task_retries, runtime_env.
        **env_arguments: The environment's arguments; the file records them.

    Returns:
        The number of transitions written.

    Raises:
        MissingDependency: Ray or pyarrow is not installed.
        PolicyError, InvalidArgument, FailedPrecondition, TransportError: As for `evaluate`.
    """
    plan = writer.Plan.read(policy, transitions, env, num_envs, seed, policy_timeout, env_arguments)
    parts = _split(plan.num_envs, ray_pool.number_of_workers(workers))
    packed = ray_pool.packed(plan)
    with Pool(_Player, len(parts), ray_options) as pool:
        players = list(zip(pool.workers, parts, strict=True))
        asked = [
            pool.begun(worker.facts.remote([packed], lanes), "lanes", lanes)
            for worker, lanes in players
        ]
        first, *others = map(pool.result, asked)
        for facts in others:
            if facts != first:
                raise FailedPrecondition(f"the machines differ: {first} and {facts}")
        step = 0

        def ask(steps: int) -> writer.Answer:
            nonlocal asked, step
            asked = [
                pool.begun(worker.play.remote([packed], lanes, step, steps), "lanes", lanes)
                for worker, lanes in players
            ]
            step += steps
            return answer

        def answer() -> dict[str, Array]:
            each = list(map(pool.result, asked))
            return {name: np.concatenate([some[name] for some in each]) for name in each[0]}

        return writer.write_file(path, plan, first, ask, progress)


class _Player:
    """An actor that plays some lanes of a dataset."""

    def __init__(self) -> None:
        self._lanes: writer.Lanes | None = None

    def facts(self, packed: list[Any], numbers: range) -> writer.Facts:
        """The facts about the boards."""
        return self._lanes_at(0, packed, numbers).facts

    def play(self, packed: list[Any], numbers: range, time: int, steps: int) -> dict[str, Array]:
        """The transitions of the lanes with these numbers, of the steps from `time` on."""
        return self._lanes_at(time, packed, numbers).play(steps, ray_pool.stop_if_canceled)

    def close(self) -> None:
        """Ends the session."""
        if self._lanes is not None:
            self._lanes.close()
            self._lanes = None

    def _lanes_at(self, time: int, packed: list[Any], numbers: range) -> writer.Lanes:
        """The lanes after this number of steps.

        An actor that Ray has begun again, or asks again, plays them from their seeds up to there.
        """
        if self._lanes is None or self._lanes.time > time:
            self.close()
            [plan] = ray_pool.unpacked(packed)
            self._lanes = writer.Lanes(plan, numbers)
        most = max(1, file_format.GROUP_ROWS // len(numbers))
        while self._lanes.time < time:
            self._lanes.play(min(most, time - self._lanes.time), ray_pool.stop_if_canceled)
        return self._lanes


def _split(number: int, parts: int) -> list[range]:
    """0 ... number - 1 in so many consecutive parts, at most; the first one is the longest."""
    parts = min(parts, number)
    ends = [-(-number * part // parts) for part in range(parts + 1)]
    return [range(*ends[part : part + 2]) for part in range(parts)]
