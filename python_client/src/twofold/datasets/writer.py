"""Writes datasets."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from twofold import _arguments, _text
from twofold.client.lookup import VERSION
from twofold.datasets import file_format
from twofold.envs.game2048 import Game2048VectorEnv
from twofold.envs.json_form import as_json
from twofold.envs.results import Array
from twofold.envs.seeding import draw_seed
from twofold.errors import InvalidArgument
from twofold.games.game2048 import Game2048
from twofold.games.spec import read_arguments
from twofold.policies.choosers import Chooser, OpenFunction, PolicyLike
from twofold.policies.lookup import open_for_rollouts, resolve

Columns: TypeAlias = dict[str, Array]
"""The transitions of some steps, as `file_format.columns_of` returns them."""
Progress: TypeAlias = Callable[[int, int], None]
"""A callback that receives the number of transitions so far and the total number."""


def write(
    path: str | Path,
    policy: PolicyLike = "random",
    *,
    transitions: int,
    num_envs: int = 1024,
    seed: int | None = None,
    policy_timeout: float = 60.0,
    progress: Progress | None = None,
    executor: Executor | None = None,
    **env_arguments: Any,
) -> int:
    """Plays 2048 with a policy and writes every transition to a Parquet file, in bounded memory.

    Columns: lane, time (the step, from 0), observation and next_observation (the board's exponents,
    one byte for each cell, row by row), action, action_mask (bit a for action a), reward,
    terminated, truncated. The page "Datasets" describes the file.

    Args:
        path: The file to write. It appears only when it is complete.
        policy: The policy, as for `evaluate`.
        transitions: The number of transitions, rounded up to whole steps of all lanes.
        num_envs: The number of lanes N.
        seed: The seed of lane 0; lane i has seed + i. By default, it is random.
        policy_timeout: The time limit for one call of the policy, in seconds. It is checked when
            the call returns.
        progress: A function to call after each row group.
        executor: The executor that plays the games, such as
            `twofold.integrations.ray.RayExecutor()` (default: this process).
        **env_arguments: The environment's arguments; the file records them.

    Returns:
        The number of transitions written.

    Raises:
        MissingDependency: pyarrow is not installed.
        PolicyError, InvalidArgument, TransportError: See `evaluate`.
    """
    _arguments.progress(progress)
    _arguments.executor(executor, "write")
    file_format.pyarrow()
    num_envs = _arguments.integer("num_envs", num_envs, 1, file_format.GROUP_ROWS)
    # `time` is uint32, and up to half of the steps only start an episode.
    longest = min(2**40, num_envs * 2**31)
    transitions = _arguments.integer("transitions", transitions, 1, longest)
    if seed is None:
        seed = draw_seed(num_envs)
    seed = _arguments.integer("seed", seed, 0, 2**64 - 1)
    policy_timeout = _arguments.policy_timeout(policy_timeout)
    chosen = resolve(policy)
    env_arguments = read_arguments(env_arguments)
    plan = Plan(
        policy=chosen,
        transitions=transitions,
        num_envs=num_envs,
        seed=seed,
        policy_timeout=policy_timeout,
        env_arguments=env_arguments,
        recorded=_recorded(env_arguments),
    )
    if executor is not None:
        return executor.write(path, plan, progress)
    with contextlib.closing(Lanes(plan, range(plan.num_envs))) as lanes:
        return write_file(path, plan, lanes.metadata, lanes.columns, progress)


@dataclass(frozen=True)
class Plan:
    """The checked arguments of `write`. A plan can be pickled if its policy can be pickled."""

    policy: Chooser
    transitions: int
    num_envs: int
    seed: int
    policy_timeout: float
    env_arguments: dict[str, Any]
    recorded: dict[str, Any]
    """The environment's arguments in the JSON form that the file contains."""

    def steps_after(self, rows: int) -> int:
        """Returns the number of steps in the row group that follows `rows` transitions.

        It is 0 if all transitions have been played.
        """
        most = max(1, file_format.GROUP_ROWS // self.num_envs)
        return max(0, min(most, -(-(self.transitions - rows) // self.num_envs)))


class Executor(Protocol):
    """An object that plays datasets outside this process, such as `RayExecutor`."""

    def write(self, path: str | Path, plan: Plan, progress: Progress | None, /) -> int:
        """Plays a dataset, writes its file, and returns the number of transitions."""
        ...


class Lanes:
    """A range of a dataset's lanes, played from their seeds. Lanes do not affect each other.

    Attributes:
        metadata: The file's metadata, without the numbers of transitions and steps.
        time: The number of steps so far.
    """

    def __init__(self, plan: Plan, lanes: range) -> None:
        self._envs = Game2048VectorEnv(len(lanes), **plan.env_arguments)
        self._first, self.time = lanes.start, 0
        try:
            self.metadata: dict[str, Any] = {
                "format": file_format.FORMAT,
                "version": file_format.VERSION,
                "environment": Game2048.environment_id,
                "arguments": plan.recorded,
                "num_envs": plan.num_envs,
                "seed": plan.seed,
                "policy": plan.policy.name,
                "twofold": VERSION,
                "server": self._envs.server_version,
            }
            self._opened = open_for_rollouts(plan.policy, self._envs, plan.policy_timeout)
            if isinstance(self._opened, OpenFunction):
                self._opened.first_lane = lanes.start
            self._envs.reset(seed=plan.seed + lanes.start)
        except BaseException:
            self.close()
            raise

    def columns(self, steps: int, progress: Callable[[int], object] | None = None) -> Columns:
        """Plays some steps and returns their transitions. Passes `progress` to the rollout."""
        rollout = self._envs.rollout(steps, self._opened, progress=progress)
        columns = file_format.columns_of(rollout, self.time, self._first)
        self.time += steps
        return columns

    def close(self) -> None:
        """Ends the session."""
        self._envs.close()


def write_file(
    path: str | Path,
    plan: Plan,
    metadata: dict[str, Any],
    play: Callable[[int], Columns],
    progress: Progress | None,
) -> int:
    """Writes a dataset's file, and returns its number of transitions.

    The file appears only when it is complete. `metadata` comes from the lanes. `play` returns the
    next row group, given its number of steps. `progress` is called after each row group.
    """
    game, _ = Game2048.split(metadata["arguments"])
    schema = file_format.schema(game)
    rows = time = 0
    with (
        _text.whole_file(path) as file,
        file_format.open_writer(file, schema, store_schema=False) as writer,
    ):
        while (steps := plan.steps_after(rows)) > 0:
            columns = play(steps)
            if len(columns["action"]):  # none if every lane only begins its next episode
                batch = file_format.record_batch(schema, columns)
                writer.write_batch(batch, row_group_size=file_format.GROUP_ROWS)
            rows, time = rows + len(columns["action"]), time + steps
            if progress is not None:
                progress(min(rows, plan.transitions), plan.transitions)
        metadata = metadata | {"transitions": rows, "steps": time}
        writer.add_key_value_metadata({file_format.METADATA_KEY: json.dumps(metadata)})
    return rows


def _recorded(arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns the environment's arguments in the form that the file records."""
    for name in file_format.NOT_RECORDED:
        if name in arguments:
            raise InvalidArgument(
                f"a dataset is always written with the default {name}; leave it out", field=name
            )
    try:
        return as_json(arguments)
    except TypeError as error:
        raise InvalidArgument(f"the file can't record an argument: {error}") from None
