"""Reads and verifies datasets."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from typing_extensions import Unpack

from twofold import _arguments, _text
from twofold.datasets import file_format
from twofold.datasets.writer import Progress
from twofold.envs.arguments import ServiceArguments, check_service
from twofold.envs.game2048 import Game2048VectorEnv
from twofold.envs.results import Array
from twofold.envs.vector import TwofoldVectorEnv
from twofold.errors import InvalidArgument, InvalidDataset
from twofold.games.game2048 import Game2048

TEXTS = ("environment", "policy", "twofold")
"""The metadata's entries whose values must be strings."""


class DatasetFile:
    """An open dataset.

    Attributes:
        metadata: The file's JSON metadata: environment, arguments, num_envs, seed, policy,
            transitions, steps and versions.
        game: The rules of the recorded game.
        shape: A board's shape, (rows, columns).
    """

    def __init__(self, path: str | Path) -> None:
        arrow, parquet = file_format.pyarrow()
        self.path = path
        self._error = arrow.ArrowException
        if not Path(path).is_file():
            Path(path).stat()
            raise InvalidDataset(f"{path}: not a regular file")
        try:
            with _text.naming(path):
                self._file = parquet.ParquetFile(
                    # As bytes, because arrow encodes a string as UTF-8.
                    arrow.OSFile(os.fsencode(path)),
                    page_checksum_verification=True,
                    pre_buffer=False,  # buffering in advance needs a thread
                )
        except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
            if _is_of_system(error):
                raise
            raise InvalidDataset(f"{path}: not a Parquet file, or incomplete: {error}") from None
        self.metadata = self._read_metadata()
        self.arguments = dict(self.metadata["arguments"])
        self.game = self._read_game()
        self.shape = self.game.rows, self.game.columns
        expected = file_format.schema(self.game)
        if not self._file.schema_arrow.equals(expected, check_metadata=False):
            raise InvalidDataset(
                f"{path}: its columns are {self._file.schema_arrow.names}; expected "
                f"{expected.names} with the types that a dataset uses"
            )

    def _read_metadata(self) -> dict[str, Any]:
        entry = (self._file.metadata.metadata or {}).get(file_format.METADATA_KEY)
        try:
            found: dict[str, Any] = json.loads(entry or b"", parse_constant=_refuse)
            is_right = found["format"] == file_format.FORMAT
            is_right &= isinstance(found["arguments"], dict)
            is_right &= all(isinstance(found[name], str) for name in TEXTS)
            # If the reward were a path, the client would read that file on the reader's machine.
            is_right &= not isinstance(found["arguments"].get("reward"), str)
            is_right &= ServiceArguments.__optional_keys__.isdisjoint(found["arguments"])
            is_right &= not any(name in found["arguments"] for name in file_format.NOT_RECORDED)
            for name in ("num_envs", "seed", "transitions", "steps"):
                is_right &= type(found[name]) is int and found[name] >= 0
            is_right &= 1 <= found["num_envs"] <= file_format.GROUP_ROWS
            format_version = found["version"]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            is_right = False
        if not is_right:
            raise InvalidDataset(f"{self.path}: a Parquet file, but not a Twofold dataset")
        if format_version != file_format.VERSION:
            raise InvalidDataset(
                f"{self.path}: its version is {format_version!r}; this program reads version "
                f"{file_format.VERSION}"
            )
        return found | {name: _text.printable(found[name]) for name in TEXTS}

    def _read_game(self) -> Game2048:
        try:
            return Game2048.split(self.arguments)[0]
        except (InvalidArgument, RecursionError) as error:  # a message quotes a nested value
            raise InvalidDataset(f"{self.path}: its environment: {error}") from None

    def check_environment(self) -> None:
        """Raises InvalidDataset unless the file names Twofold's environment for 2048.

        A file must not choose the code that runs.
        """
        found, expected = self.metadata["environment"], Game2048.environment_id
        if found != expected:
            raise InvalidDataset(f"{self.path}: its environment is {found!r}; expected {expected}")

    def make_env(self, **service: Unpack[ServiceArguments]) -> Game2048VectorEnv[Any]:
        """Makes the environment in which the dataset was recorded.

        Raises:
            InvalidDataset: The environment can't be made.
            InvalidArgument: An argument in `service` is invalid.
        """
        self.check_environment()
        try:
            return Game2048VectorEnv(self.metadata["num_envs"], **self.arguments, **service)
        except (InvalidArgument, TypeError) as error:
            if getattr(error, "field", "") in ServiceArguments.__optional_keys__:
                raise
            raise InvalidDataset(f"{self.path}: its environment: {error}") from None

    def groups(self) -> Iterator[dict[str, Array]]:
        """Yields the columns of each row group with rows.

        Board columns are uint8 (rows, cells). Other columns are (rows,).
        """
        groups = range(self._file.num_row_groups)
        sizes = [self._file.metadata.row_group(group).num_rows for group in groups]
        for group, rows in enumerate(sizes):
            if rows > file_format.GROUP_ROWS:
                raise InvalidDataset(
                    f"{self.path}: row group {group} has {rows} rows; a dataset has at most "
                    f"{file_format.GROUP_ROWS} in each"
                )
        if sum(sizes) != self.metadata["transitions"]:
            raise InvalidDataset(
                f"{self.path}: it contains {sum(sizes)} transitions; its metadata says "
                f"{self.metadata['transitions']}"
            )
        for group in groups:
            try:
                with _text.naming(self.path):
                    table = self._file.read_row_group(group, use_threads=False)
            except (self._error, OSError) as error:
                if _is_of_system(error):
                    raise
                raise InvalidDataset(f"{self.path}: row group {group}: {error}") from None
            if not table.num_rows:
                continue
            columns: dict[str, Array] = {}
            for name in table.column_names:
                column = table.column(name).combine_chunks()
                if name in file_format.BOARDS:
                    data = np.frombuffer(column.buffers()[1], np.uint8)
                    data = data.reshape(-1, column.type.byte_width)
                    columns[name] = data[column.offset : column.offset + len(column)]
                else:
                    columns[name] = column.to_numpy(zero_copy_only=False)
            yield columns

    def transitions(self) -> Iterator[dict[str, Array]]:
        """Yields the columns of each row group, with the shapes that `read` documents."""
        for columns in self.groups():
            for name in file_format.BOARDS:
                columns[name] = columns[name].reshape(-1, *self.shape)
            masks, count = columns["action_mask"][:, np.newaxis], file_format.NUM_ACTIONS
            bits = np.unpackbits(masks, axis=1, count=count, bitorder="little")
            yield columns | {"action_mask": bits.view(np.int8)}


def read(path: str | Path) -> Iterator[dict[str, Array]]:
    """Yields the transitions of a dataset, a few hundred thousand at a time.

    Yields:
        A dict with an array (n, …) for each column, where n is the number of transitions. The
        columns observation and next_observation are boards, uint8 (n, rows, columns), and
        action_mask is int8 (n, actions).

    Raises:
        InvalidDataset: The file is not a dataset, or is damaged.
        MissingDependency: pyarrow is not installed.
    """
    yield from DatasetFile(path).transitions()


def verify(
    path: str | Path, *, progress: Progress | None = None, **service: Unpack[ServiceArguments]
) -> dict[str, Any]:
    """Replays a dataset's actions and compares every transition bit by bit.

    Args:
        path: The dataset's file.
        progress: A function to call after each row group.
        **service: The service that replays the games: endpoint, keys, timeout.

    Returns:
        The file's metadata: environment, arguments, seed, policy, versions, and the number of
        `transitions`.

    Raises:
        InvalidDataset: A transition is wrong, missing or superfluous, or the file is damaged; the
            message names the first wrong row and its column.
        InvalidArgument, TransportError: The service can't be used.
        MissingDependency: pyarrow is not installed.
    """
    check_service(service)
    _arguments.progress(progress)
    dataset = DatasetFile(path)
    metadata = dataset.metadata
    row = time = 0
    with contextlib.closing(dataset.make_env(**service)) as envs:
        envs.reset(seed=metadata["seed"])
        for recorded in dataset.groups():
            time += _verify_group(f"{path}: row", envs, recorded, row, time)
            row += len(recorded["time"])
            if progress is not None:
                progress(row, metadata["transitions"])
    if time != metadata["steps"]:
        raise InvalidDataset(
            f"{path}: it contains {time} steps; its metadata says {metadata['steps']}"
        )
    return dict(metadata)


def _verify_group(
    name: str, envs: TwofoldVectorEnv, recorded: dict[str, Array], row: int, time: int
) -> int:
    """Replays a row group, compares its transitions, and returns its number of steps.

    Args:
        name: The prefix of error messages about a row.
        envs: The environment that replays the actions.
        recorded: The row group's columns.
        row: The number of the row group's first row in the file.
        time: The number of the row group's first step.
    """
    lanes, rows = envs.num_envs, len(recorded["time"])
    steps = int(recorded["time"].max()) + 1 - time
    is_possible = (recorded["time"] >= time) & (recorded["lane"] < lanes)
    if not is_possible.all() or not 0 < steps * lanes <= 2 * rows + file_format.GROUP_ROWS:
        bad = row + int((~is_possible).argmax())
        raise InvalidDataset(
            f"{name} {bad} has an impossible lane or time; expected a lane below {lanes} and a "
            f"time from {time}"
        )
    is_action = recorded["action"] < file_format.NUM_ACTIONS
    if not is_action.all():
        raise InvalidDataset(f"{name} {row + int((~is_action).argmax())} has an invalid action")
    actions = np.zeros((steps, lanes), np.uint8)
    actions[recorded["time"] - time, recorded["lane"]] = recorded["action"]
    replayed = file_format.columns_of(envs.rollout(steps, actions=actions), time)
    _compare(name, recorded, replayed, row)
    return steps


def _compare(name: str, recorded: dict[str, Array], replayed: dict[str, Array], row: int) -> None:
    """Raises InvalidDataset for the first row of a row group that differs from the replay."""
    rows, expected = len(recorded["time"]), len(replayed["time"])
    both = min(rows, expected)
    first, column = both, ""
    for each, values in replayed.items():
        found, wanted = recorded[each][:both], values[:both]
        if each == "reward":  # 0.0 equals -0.0, but its bits do not
            found, wanted = found.view(np.uint32), wanted.view(np.uint32)
        is_other = found != wanted
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


def _is_of_system(error: Exception) -> bool:
    """Returns True if the operating system or a lack of memory, not the file, caused the error."""
    return isinstance(error, MemoryError) or getattr(error, "errno", None) is not None


def _refuse(constant: str) -> NoReturn:
    """Refuses NaN and Infinity, which are not JSON."""
    raise ValueError(constant)
