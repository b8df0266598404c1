"""Verifying of datasets."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np

from twofold.datasets import file_format
from twofold.datasets.reader import DatasetFile
from twofold.datasets.transitions import columns_of
from twofold.datasets.writer import Progress
from twofold.envs.results import Array
from twofold.envs.vector import TwofoldVectorEnv
from twofold.errors import InvalidDataset


def verify(
    path: str | Path, *, endpoint: str | None = None, progress: Progress | None = None
) -> dict[str, Any]:
    """Plays a dataset's actions again and compares every transition, bit by bit.

    Args:
        path: The file.
        endpoint: The server to play on; by default one of this process's own.
        progress: Called after each row group.

    Returns:
        The file's metadata: environment, arguments, seed, policy, versions, and the number of
        `transitions`.

    Raises:
        InvalidDataset: A transition is wrong, missing or surplus, or the file is damaged; the text
            names the first wrong row and its column.
        MissingDependency: pyarrow is not installed.
    """
    dataset = DatasetFile(path)
    metadata = dataset.metadata
    row = time = 0
    with contextlib.closing(dataset.make_env(endpoint)) as envs:
        envs.reset(seed=metadata["seed"])
        for group in range(dataset.num_groups):
            recorded = dataset.read(group)
            time += _verify_group(f"{path}: row", envs, recorded, row, time)
            row += len(recorded["time"])
            if progress is not None:
                progress(row, metadata["transitions"])
    if row != metadata["transitions"] or time != metadata["steps"]:
        raise InvalidDataset(
            f"{path}: it holds {row} transitions of {time} steps; it says "
            f"{metadata['transitions']} of {metadata['steps']}"
        )
    return dict(metadata)


def _verify_group(
    name: str, envs: TwofoldVectorEnv, recorded: dict[str, Array], row: int, time: int
) -> int:
    """Plays a row group again, from its first row and step on; returns its number of steps."""
    lanes, rows = envs.num_envs, len(recorded["time"])
    steps = int(recorded["time"].max()) + 1 - time if rows else 0
    is_possible = (recorded["time"] >= time) & (recorded["lane"] < lanes)
    if not is_possible.all() or not 0 < steps * lanes <= 2 * rows + file_format.GROUP_ROWS:
        bad = row + int((~is_possible).argmax())
        raise InvalidDataset(f"{name} {bad} has an impossible lane or time")
    is_action = recorded["action"] < file_format.NUM_ACTIONS
    if not is_action.all():
        raise InvalidDataset(f"{name} {row + int((~is_action).argmax())} has an invalid action")
    actions = np.zeros((steps, lanes), np.uint8)
    actions[recorded["time"] - time, recorded["lane"]] = recorded["action"]
    replayed = columns_of(envs.rollout(steps, actions=actions), time)
    _compare(name, recorded, replayed, row)
    return steps


def _compare(name: str, recorded: dict[str, Array], replayed: dict[str, Array], row: int) -> None:
    """Raises InvalidDataset at the first row of a group that differs."""
    rows, expected = len(recorded["time"]), len(replayed["time"])
    both = min(rows, expected)
    first, column = both, ""
    for each, values in replayed.items():
        is_other = recorded[each][:both] != values[:both]
        if is_other.ndim > 1:
            is_other = is_other.any(axis=1)
        if is_other.any() and int(is_other.argmax()) < first:
            first, column = int(is_other.argmax()), each
    if column:
        lane, time = int(replayed["lane"][first]), int(replayed["time"][first])
        raise InvalidDataset(
            f"{name} {row + first} (lane {lane}, time {time}): {column} is "
            f"{recorded[column][first].tolist()}; the replay has {replayed[column][first].tolist()}"
        )
    if rows != expected:
        raise InvalidDataset(
            f"{name} {row + both}: the group has {rows} rows; the replay has {expected}"
        )
