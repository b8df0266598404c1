"""Exports a dataset for the Hugging Face Hub: a folder with a Parquet file and a dataset card."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from twofold import _text
from twofold.datasets import file_format
from twofold.datasets.reader import DatasetFile
from twofold.datasets.writer import Progress

_FILE = "data/train-00000-of-00001.parquet"
"""The name that the Hub expects of a single file."""

_CARD = """\
---
pretty_name: {name}
task_categories:
- reinforcement-learning
tags:
- offline-rl
- gymnasium
- twofold
dataset_info:
  features:
{features}
---

# {title}

{found[transitions]:,} transitions of 2048, played by the policy `{found[policy]}` on
`{found[environment]}`.

```python
import datasets

rows = datasets.load_dataset("<this repository or folder>", split="train").with_format("numpy")
rows[0]["observation"]
```

A row is a transition. Rows come in blocks of a few hundred steps. A block contains the steps of
lane 0 in order, then those of lane 1, and so on. After a row that is `terminated` or `truncated`,
the lane begins its next episode. Each lane's last episode may be unfinished.

| column | type | |
|---|---|---|
| `lane`, `time` | uint32 | the board, and its step; both from 0 |
| `observation`, `next_observation` | uint8 {shape} | exponents: 0 an empty cell, 3 an 8 |
| `action` | uint8 | {actions} |
| `action_mask` | int8 (4,) | 1 where the action is legal |
| `reward` | float32 | |
| `terminated`, `truncated` | bool | |

These values and the actions determine every trajectory. Lane i has the seed `seed` + i:

```json
{metadata}
```
"""


def to_huggingface(
    path: str | Path, folder: str | Path, *, progress: Progress | None = None
) -> Path:
    """Writes a dataset as a folder for the Hugging Face Hub, in bounded memory.

    The folder contains the dataset card README.md, and a Parquet file in `data` with the columns
    that `read` yields: boards are two-dimensional arrays, and masks are lists.
    `datasets.load_dataset(folder)` loads the folder, and `hf upload NAME FOLDER --repo-type
    dataset` uploads it.

    Args:
        path: The dataset's file.
        folder: The folder to create. It appears only when it is complete.
        progress: A function to call after each row group.

    Returns:
        The path of the Parquet file.

    Raises:
        InvalidArgument: The folder exists.
        InvalidDataset: The file is not a dataset, or is damaged.
        MissingDependency: pyarrow is not installed.
    """
    dataset, folder = DatasetFile(path), Path(folder)
    with _text.whole_folder(folder, "folder") as temporary:
        temporary.mkdir()
        (temporary / "data").mkdir()
        _write_transitions(dataset, temporary / _FILE, progress)
        (temporary / "README.md").write_text(_card(dataset), encoding="utf-8")
    return folder / _FILE


def _write_transitions(dataset: DatasetFile, file: Path, progress: Progress | None) -> None:
    schema, rows = _schema(dataset), 0
    with file.open("wb") as opened, file_format.open_writer(opened, schema) as writer:
        for columns in dataset.transitions():
            writer.write_batch(file_format.record_batch(schema, columns))
            rows += len(columns["action"])
            if progress is not None:
                progress(rows, dataset.metadata["transitions"])


def _schema(dataset: DatasetFile) -> Any:
    """Returns the Arrow schema of the exported files, in which boards and masks are lists."""
    arrow, _ = file_format.pyarrow()
    lists = dict.fromkeys(file_format.BOARDS, arrow.list_(arrow.list_(arrow.uint8())))
    lists["action_mask"] = arrow.list_(arrow.int8(), file_format.NUM_ACTIONS)
    fields = file_format.schema(dataset.game)
    return arrow.schema([(field.name, lists.get(field.name, field.type)) for field in fields])


def _card(dataset: DatasetFile) -> str:
    """Returns the text of README.md. Its YAML header lists the columns and their types."""
    found, (rows, columns) = dataset.metadata, dataset.shape
    kinds = dict.fromkeys(
        file_format.BOARDS, f"dtype: {{array2_d: {{shape: [{rows}, {columns}], dtype: uint8}}}}"
    )
    # Every version of `datasets` reads this form, although versions since 4 write `list`.
    kinds["action_mask"] = f"sequence: int8\n    length: {file_format.NUM_ACTIONS}"
    kinds["reward"] = "dtype: float32"  # Arrow's name is float
    features = [
        f"  - name: {field.name}\n    {kinds.get(field.name, f'dtype: {field.type}')}"
        for field in file_format.schema(dataset.game)
    ]
    title = f"2048 by {found['policy']}"
    return _CARD.format(
        # YAML does not join JSON's two escapes of a character such as an emoji.
        name=json.dumps(title, ensure_ascii=False),
        features="\n".join(features),
        title=title,
        found=found,
        shape=dataset.shape,
        actions=", ".join(f"{a} {name}" for a, name in enumerate(dataset.game.actions)),
        metadata=json.dumps(found, indent=2),
    )
