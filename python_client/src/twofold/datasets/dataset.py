"""Datasets: transitions in a Parquet file that says how they were made, so that it can be checked.

A file holds row groups of T steps on N lanes, lane after lane, each lane's steps in order. The
steps on which a lane only begins its next episode (NEXT_STEP autoreset) are no transitions and left
out.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from twofold import _arguments
from twofold.envs import served_policies
from twofold.envs.results import Array
from twofold.envs.rollout import Rollout
from twofold.envs.seeding import draw_seed
from twofold.envs.vector import TwofoldVectorEnv
from twofold.errors import InvalidArgument, InvalidDataset, MissingDependency
from twofold.games.rewards import read_reward
from twofold.policies import functions

FORMAT, VERSION = "twofold-dataset", 1
_KEY = b"twofold"
_NUM_ACTIONS = 4
_GROUP_ROWS = 262_144  # a row group; what is in memory at a time is a few of them

Progress: TypeAlias = "Callable[[int, int], None]"
"""Called with the number of transitions done, and of all."""


def write(
    path: str | Path,
    policy: functions.PolicyLike = "random",
    *,
    transitions: int,
    env: str = "twofold/Game2048-v0",
    num_envs: int = 1024,
    seed: int | None = None,
    policy_timeout: float = 60.0,
    progress: Progress | None = None,
    **env_arguments: Any,
) -> int:
    """Plays with a policy and writes every transition to a Parquet file; memory stays bounded.

    Columns: lane, time (the step, from 0), observation and next_observation (the board's exponents,
    one byte for each cell, row by row), action, action_mask (bit a for action a), reward,
    terminated, truncated. `docs/datasets.md` describes the file.

    Args:
        path: The file; it appears when it is complete.
        policy: As `evaluate` takes it; one in the server plays by rollouts.
        transitions: At least this many are written: whole steps of all lanes.
        env: The environment's id.
        num_envs: Lanes N.
        seed: Of the boards, seed + i for lane i; drawn from the system by default.
        policy_timeout: Seconds that one call of the policy may take.
        progress: Called after each row group.
        **env_arguments: The environment's arguments, which go into the file too.

    Returns:
        How many transitions the file has.

    Raises:
        MissingDependency: pyarrow is not installed.
        PolicyError, InvalidArgument, TransportError: As `evaluate`.
    """
    arrow, parquet = _require_arrow()
    transitions = _arguments.integer("transitions", transitions, 1, 2**40)
    num_envs = _arguments.integer("num_envs", num_envs, 1, _GROUP_ROWS)
    seed = draw_seed(num_envs) if seed is None else _arguments.integer("seed", seed, 0, 2**64 - 1)
    chosen = functions.resolve(policy)
    if "reward" in env_arguments:
        env_arguments["reward"] = read_reward(env_arguments["reward"])
    arguments = _as_written(env_arguments)
    envs = gym.make_vec(env, num_envs=num_envs, **env_arguments)
    try:
        base = _base(envs)
        chosen = chosen.for_env(envs)
        told = {
            "format": FORMAT,
            "version": VERSION,
            "environment": env,
            "arguments": arguments,
            "num_envs": num_envs,
            "seed": seed,
            "policy": chosen.name,
            "twofold": version("twofold"),
            "server": base._session.server_version,
        }
        shape = envs.single_observation_space.shape
        assert shape is not None
        schema = _schema(arrow, int(np.prod(shape)))
        schema = schema.with_metadata({_KEY: json.dumps(told).encode()})
        temporary = Path(f"{path}.{os.getpid()}.part")
        try:
            with parquet.ParquetWriter(temporary, schema, compression="zstd") as writer:
                caller = None
                if chosen.in_server is None:
                    caller = functions.Caller(chosen, base, policy_timeout)
                player = _Player(base, seed, chosen.in_server, caller)
                written = 0
                while written < transitions:
                    most = max(1, _GROUP_ROWS // num_envs)
                    steps = min(most, -(-(transitions - written) // num_envs))
                    columns = player.collect(steps)
                    writer.write_batch(_batch(arrow, schema, columns), row_group_size=_GROUP_ROWS)
                    written += len(columns["action"])
                    if progress is not None:
                        progress(min(written, transitions), transitions)
                told |= {"transitions": written, "steps": player.time}
                writer.add_key_value_metadata({_KEY: json.dumps(told)})
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        return written
    finally:
        envs.close()


def read(path: str | Path) -> Iterator[dict[str, Array]]:
    """The transitions of a dataset, some hundred thousand at a time.

    Yields:
        For each column an array (rows, …): observation and next_observation as uint8 (rows, rows
        and columns of the board), action_mask as int8 (rows, actions).

    Raises:
        InvalidDataset: The file is no dataset, or damaged.
        MissingDependency: pyarrow is not installed.
    """
    dataset = _Dataset(path)
    for group in range(dataset.num_groups):
        columns = dataset.read(group)
        for name in ("observation", "next_observation"):
            columns[name] = columns[name].reshape(-1, *dataset.shape)
        bits = columns["action_mask"][:, None] >> np.arange(_NUM_ACTIONS, dtype=np.uint8)
        columns["action_mask"] = (bits & 1).astype(np.int8)
        yield columns


def verify(
    path: str | Path, *, endpoint: str | None = None, progress: Progress | None = None
) -> dict[str, Any]:
    """Plays a dataset's actions again and compares every transition, bit by bit.

    Args:
        path: The file.
        endpoint: Of a server to play on; by default one of this process's own.
        progress: Called after each row group.

    Returns:
        What the file tells about itself: environment, arguments, seed, policy, versions, and
        `transitions`, how many there are.

    Raises:
        InvalidDataset: A transition is wrong, missing or too many, or the file is damaged; the text
            tells the first row that is wrong, and in which column.
        MissingDependency: pyarrow is not installed.
    """
    dataset = _Dataset(path)
    told = dataset.told
    try:
        envs = _make(told, endpoint)
    except (InvalidArgument, TypeError, gym.error.Error) as error:
        raise InvalidDataset(
            f"{path}: its environment cannot be made: {type(error).__name__}: {error}"
        ) from None
    try:
        player = _Player(envs, told["seed"])
        row = 0
        for group in range(dataset.num_groups):
            recorded = dataset.read(group)
            row = _compare(f"{path}", player, recorded, row)
            if progress is not None:
                progress(row, told["transitions"])
    finally:
        envs.close()
    if row != told["transitions"] or player.time != told["steps"]:
        raise InvalidDataset(
            f"{path}: it holds {row} transitions of {player.time} steps; it says "
            f"{told['transitions']} of {told['steps']}"
        )
    return dict(told)


# ---- playing -------------------------------------------------------------------------------------


class _Player:
    """Plays on and tells the transitions, some steps at a time.

    Args:
        envs: Not reset yet.
        seed: Of the boards.
        policy: In the server, where one is; None for actions that are given.
        caller: A policy that is not.
    """

    def __init__(
        self,
        envs: TwofoldVectorEnv,
        seed: int,
        policy: served_policies.Policy | None = None,
        caller: functions.Caller | None = None,
    ) -> None:
        self.envs, self._policy, self._caller = envs, policy, caller
        self._observations, self._infos = envs.reset(seed=seed)
        self._finished = np.zeros(envs.num_envs, np.bool_)
        if caller is not None:
            caller.reset(~self._finished)
        self.time = self._now = 0

    def collect(self, steps: int, actions: NDArray[np.uint8] | None = None) -> dict[str, Array]:
        """The transitions of the next steps, lane after lane.

        Args:
            steps: How many.
            actions: uint8 (steps, N), to play these; by default the policy's.
        """
        if self._caller is not None:
            told = self._step(steps)
        elif actions is not None:
            told = self.envs.rollout(steps, actions=actions)
        else:
            told = self.envs.rollout(steps, self._policy)
        valid = told.valid.T
        # A board as one element, to be moved as such.
        cells = math.prod(told.observations.shape[2:])
        boards = told.observations.reshape(steps + 1, -1, cells).view(f"V{cells}")[..., 0]
        times = np.arange(self.time, self.time + steps, dtype=np.uint32)
        lanes = np.arange(len(valid), dtype=np.uint32)
        masks = np.packbits(told.action_masks, axis=2, bitorder="little")[..., 0]
        columns: dict[str, Array] = {
            "lane": np.broadcast_to(lanes, (steps, len(lanes))),
            "time": np.broadcast_to(times[:, None], (steps, len(lanes))),
            "observation": boards[:-1],
            "action": told.actions,
            "action_mask": masks[:-1],
            "reward": told.rewards,
            "next_observation": boards[1:],
            "terminated": told.terminations,
            "truncated": told.truncations,
        }
        self.time += steps
        # Lane first: what one lane does stays together.
        columns = {name: column.T[valid] for name, column in columns.items()}
        for name in ("observation", "next_observation"):
            columns[name] = columns[name].view(np.uint8).reshape(-1, cells)
        return columns

    def _step(self, steps: int) -> Rollout:
        """What `rollout` would tell, with a policy of this process."""
        envs, caller = self.envs, self._caller
        assert caller is not None
        shape = steps, envs.num_envs
        board = self._observations.shape[1:]
        told = Rollout(
            observations=np.empty((steps + 1, envs.num_envs, *board), np.uint8),
            action_masks=np.empty((steps + 1, *self._infos["action_mask"].shape), np.int8),
            actions=np.empty(shape, np.uint8),
            rewards=np.empty(shape, np.float32),
            terminations=np.empty(shape, np.bool_),
            truncations=np.empty(shape, np.bool_),
            valid=np.empty(shape, np.bool_),
            infos={},
            finals=None,
        )
        for t in range(steps):
            begins, mask = self._finished, self._infos["action_mask"]
            self._now = self.time + t
            told.observations[t], told.action_masks[t] = self._observations, mask
            actions = caller(self._observations, mask, ~begins, self._place)
            told.valid[t], told.actions[t] = ~begins, actions
            self._observations, told.rewards[t], terminated, truncated, self._infos = envs.step(
                actions
            )
            told.terminations[t], told.truncations[t] = terminated, truncated
            self._finished = terminated | truncated
            if begins.any():
                caller.reset(begins)
        told.observations[steps] = self._observations
        told.action_masks[steps] = self._infos["action_mask"]
        return told

    def _place(self, lane: int) -> dict[str, int]:
        """What there is to tell about a lane."""
        return {"lane": lane, "time": self._now}


def _compare(path: str, player: _Player, recorded: dict[str, Array], row: int) -> int:
    """Plays a row group again; the number of the row behind it."""
    lanes = player.envs.num_envs
    number = len(recorded["time"])
    start = player.time
    steps = int(recorded["time"].max()) + 1 - start if number else 0
    is_here = (recorded["time"] >= start) & (recorded["lane"] < lanes)
    if not is_here.all() or not 0 < steps * lanes <= 2 * number + _GROUP_ROWS:
        bad = row + int((~is_here).argmax())
        raise InvalidDataset(f"{path}: row {bad} has a lane or time that cannot be there")
    actions = np.zeros((steps, lanes), np.uint8)
    actions[recorded["time"] - start, recorded["lane"]] = recorded["action"]
    if recorded["action"].max() >= _NUM_ACTIONS:
        bad = row + int((recorded["action"] >= _NUM_ACTIONS).argmax())
        raise InvalidDataset(f"{path}: row {bad} has an action that there is not")
    replayed = player.collect(steps, actions)
    most = min(number, len(replayed["time"]))
    first, what = most, ""
    for name, values in replayed.items():
        different = recorded[name][:most] != values[:most]
        if different.ndim > 1:
            different = different.any(axis=1)
        if different.any() and int(different.argmax()) < first:
            first, what = int(different.argmax()), name
    if what:
        lane, time = int(replayed["lane"][first]), int(replayed["time"][first])
        raise InvalidDataset(
            f"{path}: row {row + first} (lane {lane}, time {time}): {what} is "
            f"{recorded[what][first].tolist()}; the replay has {replayed[what][first].tolist()}"
        )
    if number != len(replayed["time"]):
        raise InvalidDataset(
            f"{path}: row {row + most}: the group has {number} rows; the replay has "
            f"{len(replayed['time'])}"
        )
    return row + number


# ---- the file ------------------------------------------------------------------------------------


class _Dataset:
    """An open file, and what it tells about itself."""

    def __init__(self, path: str | Path) -> None:
        arrow, parquet = _require_arrow()
        self._path = path
        self._error = arrow.ArrowException
        if not Path(path).is_file():
            raise FileNotFoundError(2, "No such file", str(path))
        try:
            self._file = parquet.ParquetFile(path)
        except (arrow.ArrowException, OSError) as error:
            raise InvalidDataset(f"{path}: no Parquet file, or not complete: {error}") from None
        entry = (self._file.metadata.metadata or {}).get(_KEY)
        try:
            told = json.loads(entry or b"")
            assert told["format"] == FORMAT
            assert isinstance(told["arguments"], dict)
            for name in ("num_envs", "seed", "transitions", "steps"):
                assert type(told[name]) is int
                assert told[name] >= 0
        except (ValueError, KeyError, TypeError, AssertionError):
            raise InvalidDataset(f"{path}: Parquet, but no dataset of Twofold") from None
        if told["version"] != VERSION:
            raise InvalidDataset(
                f"{path}: version {told['version']}; this program reads version {VERSION}"
            )
        self.told: dict[str, Any] = told
        self.num_groups = int(self._file.num_row_groups)
        size = told["arguments"].get("size", 4)
        self.shape = tuple(size) if isinstance(size, list) else (size, size)
        expected = _schema(arrow, int(np.prod(self.shape)))
        if not self._file.schema_arrow.equals(expected, check_metadata=False):
            raise InvalidDataset(f"{path}: it has other columns than a dataset of Twofold")

    def read(self, group: int) -> dict[str, Array]:
        """A row group's columns; boards as uint8 (rows, cells)."""
        try:
            table = self._file.read_row_group(group).combine_chunks()
        except (self._error, OSError) as error:
            raise InvalidDataset(f"{self._path}: row group {group}: {error}") from None
        columns: dict[str, Array] = {}
        for name in table.column_names:
            column = table.column(name).combine_chunks()
            if name in ("observation", "next_observation"):
                cells = int(np.prod(self.shape))
                data = np.frombuffer(column.buffers()[1], np.uint8)
                data = data[column.offset * cells : (column.offset + len(column)) * cells]
                columns[name] = data.reshape(-1, cells)
            else:
                columns[name] = column.to_numpy(zero_copy_only=False)
        return columns


def _schema(arrow: Any, cells: int) -> Any:
    return arrow.schema(
        [
            arrow.field(name, kind, nullable=False)
            for name, kind in (
                ("lane", arrow.uint32()),
                ("time", arrow.uint32()),
                ("observation", arrow.binary(cells)),
                ("action", arrow.uint8()),
                ("action_mask", arrow.uint8()),
                ("reward", arrow.float32()),
                ("next_observation", arrow.binary(cells)),
                ("terminated", arrow.bool_()),
                ("truncated", arrow.bool_()),
            )
        ]
    )


def _batch(arrow: Any, schema: Any, columns: dict[str, Array]) -> Any:
    arrays = []
    for item in schema:
        values = np.ascontiguousarray(columns[item.name])
        if values.ndim == 2:
            buffer = arrow.py_buffer(values)
            arrays.append(arrow.Array.from_buffers(item.type, len(values), [None, buffer]))
        else:
            arrays.append(arrow.array(values, item.type))
    return arrow.RecordBatch.from_arrays(arrays, schema=schema)


def _as_written(arguments: dict[str, Any]) -> dict[str, Any]:
    """The environment's arguments as a file has them; those of this machine are not in it.

    Raises:
        InvalidArgument: A dataset cannot have one of them.
    """
    for name in ("autoreset_mode", "obs", "render_mode", "observation_key", "mask_key"):
        if name in arguments:
            raise InvalidArgument(f"{name} has no use in a dataset", field=name)
    here = ("endpoint", "curve", "timeout")
    arguments = {name: value for name, value in arguments.items() if name not in here}
    try:
        written: dict[str, Any] = json.loads(json.dumps(arguments, default=_arguments.plain))
        return written
    except TypeError as error:
        raise InvalidArgument(f"an argument cannot be written down: {error}") from None


def _base(envs: VectorEnv[Any, Any, Any]) -> TwofoldVectorEnv:
    base = envs.unwrapped
    if not isinstance(base, TwofoldVectorEnv) or not base._session.create.HasField("game2048"):
        raise InvalidArgument("a dataset needs an environment of 2048", field="env")
    return base


def _make(told: dict[str, Any], endpoint: str | None) -> TwofoldVectorEnv:
    """The environment that a dataset tells."""
    arguments = dict(told["arguments"])
    # JSON has made a list of (rows, columns).
    if isinstance(arguments.get("size"), list):
        arguments["size"] = tuple(arguments["size"])
    envs = gym.make_vec(
        told["environment"], num_envs=told["num_envs"], endpoint=endpoint, **arguments
    )
    try:
        return _base(envs)
    except InvalidArgument:
        envs.close()
        raise


def _require_arrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingDependency("datasets need pyarrow: pip install 'twofold[data]'") from None
    return pyarrow, pyarrow.parquet
