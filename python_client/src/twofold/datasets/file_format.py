"""The Parquet format of a dataset: columns, filled from rollouts, and JSON metadata.

The page "Datasets" describes the format.
"""

from __future__ import annotations

import math
from importlib import import_module
from typing import IO, Any

import numpy as np

from twofold._optional import optional_import
from twofold.envs.results import Array
from twofold.envs.rollout import Rollout
from twofold.games.game2048 import Game2048

FORMAT, VERSION = "twofold-dataset", 1
METADATA_KEY = b"twofold"
NUM_ACTIONS = 4
BOARDS = ("observation", "next_observation")
"""The names of the columns that contain boards."""
NOT_RECORDED = (
    *("autoreset_mode", "render_mode"),
    *("obs", "observation_key", "mask_key"),
)
"""The arguments of an environment that no file records: datasets are written with the defaults."""
GROUP_ROWS = 262_144
"""The maximum number of rows in a row group. Only a few row groups are in memory at a time."""


def pyarrow() -> tuple[Any, Any]:
    """Returns the modules pyarrow and pyarrow.parquet; raises MissingDependency without them."""
    parquet = optional_import("pyarrow.parquet", "datasets", "data")
    return import_module("pyarrow"), parquet


def schema(game: Game2048) -> Any:
    """Returns the Arrow schema of a dataset of this game."""
    arrow, _ = pyarrow()
    cells = game.rows * game.columns
    columns = {
        "lane": arrow.uint32(),
        "time": arrow.uint32(),
        "observation": arrow.binary(cells),
        "action": arrow.uint8(),
        "action_mask": arrow.uint8(),
        "reward": arrow.float32(),
        "next_observation": arrow.binary(cells),
        "terminated": arrow.bool_(),
        "truncated": arrow.bool_(),
    }
    return arrow.schema([arrow.field(name, kind, nullable=False) for name, kind in columns.items()])


def open_writer(file: IO[bytes], schema: Any, *, store_schema: bool = True) -> Any:
    """Returns a Parquet writer that writes to an open file.

    With `store_schema`, the file also contains the Arrow schema, which has types that Parquet
    lacks. Arrow's readers then ignore the file's other metadata.
    """
    _, parquet = pyarrow()
    return parquet.ParquetWriter(
        file, schema, compression="zstd", write_page_checksum=True, store_schema=store_schema
    )


def record_batch(schema: Any, columns: dict[str, Array]) -> Any:
    """Converts columns to an Arrow record batch.

    A column is (rows, …). If it has more than one dimension, its type is binary, uint8 (rows,
    cells), or a list for each further dimension.
    """
    arrow, _ = pyarrow()
    arrays = []
    for item in schema:
        values = np.ascontiguousarray(columns[item.name])
        if arrow.types.is_fixed_size_binary(item.type):
            buffer = arrow.py_buffer(values)
            array = arrow.Array.from_buffers(item.type, len(values), [None, buffer])
        else:
            array = arrow.array(values.ravel())
            for size in reversed(values.shape[1:]):
                array = arrow.FixedSizeListArray.from_arrays(array, size)
        arrays.append(array.cast(item.type))
    return arrow.RecordBatch.from_arrays(arrays, schema=schema)


def columns_of(rollout: Rollout, time: int, lane: int = 0) -> dict[str, Array]:
    """Returns the valid transitions of a rollout, sorted by lane and then by step.

    `time` and `lane` are the numbers of the rollout's first step and of its first lane.

    Returns:
        An array for each column: boards are uint8 (transitions, cells), the rest (transitions,).
    """
    valid = rollout.valid.T
    steps, lanes = rollout.valid.shape
    # Each board becomes one element, so that numpy copies it as a whole.
    cells = math.prod(rollout.observations.shape[2:])
    boards = rollout.observations.reshape(steps + 1, -1, cells).view(f"V{cells}")[..., 0]
    times = np.arange(time, time + steps, dtype=np.uint32)
    numbers = np.arange(lane, lane + lanes, dtype=np.uint32)
    masks = np.packbits(rollout.action_masks, axis=2, bitorder="little")[..., 0]
    columns: dict[str, Array] = {
        "lane": np.broadcast_to(numbers, (steps, lanes)),
        "time": np.broadcast_to(times[:, None], (steps, lanes)),
        "observation": boards[:-1],
        "action": rollout.actions,
        "action_mask": masks[:-1],
        "reward": rollout.rewards,
        "next_observation": boards[1:],
        "terminated": rollout.terminations,
        "truncated": rollout.truncations,
    }
    columns = {name: column.T[valid] for name, column in columns.items()}
    for name in BOARDS:
        columns[name] = columns[name].view(np.uint8).reshape(-1, cells)
    return columns
