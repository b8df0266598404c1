"""Writing of datasets."""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

from twofold import _arguments
from twofold.datasets import file_format
from twofold.envs import make_vec
from twofold.envs.rollout import Rollout
from twofold.envs.seeding import draw_seed
from twofold.envs.vector import TwofoldVectorEnv
from twofold.errors import InvalidArgument
from twofold.games.rewards import read_reward
from twofold.policies.functions import PolicyCaller, PolicyLike
from twofold.policies.lookup import resolve

Progress: TypeAlias = "Callable[[int, int], None]"
"""Called with the number of transitions so far, and of all."""


def write(
    path: str | Path,
    policy: PolicyLike = "random",
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
    terminated, truncated. `docs/guides/datasets.md` describes the file.

    Args:
        path: The file; it appears when it is complete.
        policy: A policy as for `evaluate`; one in the server plays by rollouts.
        transitions: Number of transitions, rounded up to whole steps of all lanes.
        env: The environment's id.
        num_envs: Lanes N.
        seed: Seed of the boards, seed + i for lane i; drawn from the system by default.
        policy_timeout: Seconds that one call of the policy may take.
        progress: Called after each row group.
        **env_arguments: The environment's arguments; the file records them.

    Returns:
        The number of transitions written.

    Raises:
        MissingDependency: pyarrow is not installed.
        PolicyError, InvalidArgument, TransportError: As for `evaluate`.
    """
    file_format.pyarrow()
    transitions = _arguments.integer("transitions", transitions, 1, 2**40)
    num_envs = _arguments.integer("num_envs", num_envs, 1, file_format.GROUP_ROWS)
    seed = draw_seed(num_envs) if seed is None else _arguments.integer("seed", seed, 0, 2**64 - 1)
    chosen = resolve(policy)
    if "reward" in env_arguments:
        env_arguments["reward"] = read_reward(env_arguments["reward"])
    arguments = _recorded(env_arguments)
    with contextlib.closing(make_vec(env, num_envs=num_envs, **env_arguments)) as envs:
        base = file_format.env_of_2048(envs)
        metadata = {
            "format": file_format.FORMAT,
            "version": file_format.VERSION,
            "environment": env,
            "arguments": arguments,
            "num_envs": num_envs,
            "seed": seed,
            "policy": chosen.name,
            "twofold": version("twofold"),
            "server": base._session.server_version,
        }
        base.reset(seed=seed)
        caller = None if chosen.served else PolicyCaller(chosen, base, policy_timeout)

        def play(steps: int, time: int) -> Rollout:
            if caller is None:
                return base.rollout(steps, chosen.served)
            return base._play_function(caller, steps, first=time)

        temporary = Path(f"{path}.{os.getpid()}.part")
        try:
            written = _write_file(temporary, metadata, base, play, transitions, progress)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    return written


def _write_file(
    path: Path,
    metadata: dict[str, Any],
    envs: TwofoldVectorEnv,
    play: Callable[[int, int], Rollout],
    transitions: int,
    progress: Progress | None,
) -> int:
    _, parquet = file_format.pyarrow()
    shape = envs.single_observation_space.shape
    assert shape is not None
    schema = file_format.schema(math.prod(shape))
    entry = {file_format.METADATA_KEY: json.dumps(metadata).encode()}
    written = time = 0
    with parquet.ParquetWriter(path, schema.with_metadata(entry), compression="zstd") as writer:
        while written < transitions:
            most = max(1, file_format.GROUP_ROWS // envs.num_envs)
            steps = min(most, -(-(transitions - written) // envs.num_envs))
            columns = file_format.columns_of(play(steps, time), time)
            batch = file_format.record_batch(schema, columns)
            writer.write_batch(batch, row_group_size=file_format.GROUP_ROWS)
            written += len(columns["action"])
            time += steps
            if progress is not None:
                progress(min(written, transitions), transitions)
        metadata = metadata | {"transitions": written, "steps": time}
        writer.add_key_value_metadata({file_format.METADATA_KEY: json.dumps(metadata)})
    return written


def _recorded(arguments: dict[str, Any]) -> dict[str, Any]:
    """The environment's arguments as the file records them, without those of this machine.

    Raises:
        InvalidArgument: A dataset cannot have one of them.
    """
    for name in ("autoreset_mode", "obs", "render_mode", "observation_key", "mask_key"):
        if name in arguments:
            raise InvalidArgument(f"{name} has no use in a dataset", field=name)
    local = ("endpoint", "curve", "timeout")
    kept = {name: value for name, value in arguments.items() if name not in local}
    try:
        recorded: dict[str, Any] = json.loads(json.dumps(kept, default=_arguments.plain))
        return recorded
    except TypeError as error:
        raise InvalidArgument(f"an argument cannot be recorded: {error}") from None
