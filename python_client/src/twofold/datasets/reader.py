"""Reading of datasets."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from twofold.datasets import file_format
from twofold.datasets.transitions import BOARDS
from twofold.envs.results import Array
from twofold.envs.vector import TwofoldVectorEnv
from twofold.errors import InvalidArgument, InvalidDataset


class DatasetFile:
    """An open dataset.

    Attributes:
        metadata: The JSON in its metadata: environment, arguments, num_envs, seed, policy,
            transitions, steps, versions.
        num_groups: Number of row groups.
        shape: Rows and columns of the boards.
    """

    def __init__(self, path: str | Path) -> None:
        arrow, parquet = file_format.pyarrow()
        self.path = path
        self._error = arrow.ArrowException
        if not Path(path).is_file():
            raise FileNotFoundError(2, "No such file", str(path))
        try:
            self._file = parquet.ParquetFile(path)
        except (arrow.ArrowException, OSError) as error:
            raise InvalidDataset(f"{path}: not a Parquet file, or incomplete: {error}") from None
        self.metadata = self._read_metadata()
        self.num_groups = int(self._file.num_row_groups)
        size = self.metadata["arguments"].get("size", 4)
        self.shape = tuple(size) if isinstance(size, list) else (size, size)
        self._cells = math.prod(self.shape)
        expected = file_format.schema(self._cells)
        if not self._file.schema_arrow.equals(expected, check_metadata=False):
            raise InvalidDataset(f"{path}: its columns are not those of a dataset of Twofold")

    def _read_metadata(self) -> dict[str, Any]:
        entry = (self._file.metadata.metadata or {}).get(file_format.METADATA_KEY)
        try:
            found: dict[str, Any] = json.loads(entry or b"")
            is_right = found["format"] == file_format.FORMAT
            is_right &= isinstance(found["arguments"], dict)
            for name in ("num_envs", "seed", "transitions", "steps"):
                is_right &= type(found[name]) is int and found[name] >= 0
        except (ValueError, KeyError, TypeError):
            is_right = False
        if not is_right:
            raise InvalidDataset(f"{self.path}: Parquet, but not a dataset of Twofold")
        if found["version"] != file_format.VERSION:
            raise InvalidDataset(
                f"{self.path}: version {found['version']}; this program reads version "
                f"{file_format.VERSION}"
            )
        return found

    def make_env(self, endpoint: str | None) -> TwofoldVectorEnv:
        """The environment that the dataset was recorded from.

        Raises:
            InvalidDataset: It cannot be made.
        """
        found = self.metadata
        arguments = dict(found["arguments"])
        if isinstance(arguments.get("size"), list):
            arguments["size"] = tuple(arguments["size"])  # JSON has no tuples
        try:
            envs = gym.make_vec(
                found["environment"], num_envs=found["num_envs"], endpoint=endpoint, **arguments
            )
            return file_format.env_of_2048(envs)
        except (InvalidArgument, TypeError, gym.error.Error) as error:
            raise InvalidDataset(
                f"{self.path}: its environment cannot be made: {type(error).__name__}: {error}"
            ) from None

    def read(self, group: int) -> dict[str, Array]:
        """A row group's columns (rows,); boards as uint8 (rows, cells)."""
        try:
            table = self._file.read_row_group(group).combine_chunks()
        except (self._error, OSError) as error:
            raise InvalidDataset(f"{self.path}: row group {group}: {error}") from None
        columns: dict[str, Array] = {}
        for name in table.column_names:
            column = table.column(name).combine_chunks()
            if name in BOARDS:
                data = np.frombuffer(column.buffers()[1], np.uint8).reshape(-1, self._cells)
                columns[name] = data[column.offset : column.offset + len(column)]
            else:
                columns[name] = column.to_numpy(zero_copy_only=False)
        return columns


def read(path: str | Path) -> Iterator[dict[str, Array]]:
    """The transitions of a dataset, some hundred thousand at a time.

    Yields:
        For each column an array (n, …): observation and next_observation as uint8 (n, rows,
        columns) of the board, action_mask as int8 (n, actions).

    Raises:
        InvalidDataset: The file is not a dataset, or damaged.
        MissingDependency: pyarrow is not installed.
    """
    dataset = DatasetFile(path)
    for group in range(dataset.num_groups):
        columns = dataset.read(group)
        for name in BOARDS:
            columns[name] = columns[name].reshape(-1, *dataset.shape)
        bits = columns["action_mask"][:, None] >> np.arange(file_format.NUM_ACTIONS, dtype=np.uint8)
        columns["action_mask"] = (bits & 1).astype(np.int8)
        yield columns
