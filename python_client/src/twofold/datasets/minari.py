"""Exports a dataset to Minari as whole episodes."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from twofold import _arguments, _text, rules
from twofold._optional import optional_import
from twofold.datasets.reader import DatasetFile
from twofold.datasets.writer import Progress
from twofold.envs.results import Array
from twofold.errors import InvalidArgument, InvalidDataset
from twofold.games.game2048 import Game2048


def to_minari(
    path: str | Path,
    dataset_id: str,
    *,
    author: str | None = None,
    author_email: str | None = None,
    code_permalink: str | None = None,
    description: str | None = None,
    progress: Progress | None = None,
) -> Any:
    """Writes a dataset's episodes to Minari's local storage; keeps unfinished episodes in memory.

    An episode has T actions, rewards, terminations and truncations, and T + 1 observations. Its
    only info is `action_mask`, with T + 1 rows. An episode that is unfinished at the end of the
    file is marked as truncated, which Minari's own collector does too. The seed of lane i's first
    episode is the dataset's seed + i. Later episodes have no seed, because they continue the lane's
    random stream.

    Args:
        path: The dataset's file.
        dataset_id: Minari's id, "namespace/name-v0". It appears only when the dataset is complete.
        author: The author in Minari's metadata. Minari recommends this and the next two arguments.
        author_email: The author's email address in the metadata.
        code_permalink: The URL of the code in the metadata.
        description: The description in the metadata; None derives one from the file's metadata.
        progress: A function to call after each row group.

    Returns:
        The `minari.MinariDataset`. Its environment has the recorded arguments.

    Raises:
        InvalidArgument: Minari already has a dataset with this id, or the id is malformed.
        InvalidDataset: The file is not a dataset, or is damaged.
        TransportError: The service did not answer.
        MissingDependency: minari, h5py or pyarrow is not installed.
    """
    minari = optional_import("minari", "Minari exports", "minari")
    optional_import("h5py", "Minari exports", "minari")
    dataset = DatasetFile(path)
    found = dataset.metadata
    folder = _folder(dataset_id)
    if description is None:
        description = (
            f"{found['transitions']:,} transitions of the policy {found['policy']} on "
            f"{found['environment']}: {found['num_envs']} lanes from seed {found['seed']}, played "
            f"by twofold {found['twofold']}"
        )
    prefix = dataset_id.removesuffix(folder.name)
    with _text.whole_folder(folder, "dataset_id") as temporary:
        if prefix:
            # If two exports make the namespace at the same time, Minari refuses one by ValueError.
            with contextlib.suppress(ValueError):
                minari.namespace.create_namespace(prefix[:-1])
        with contextlib.closing(_make_env(dataset)) as env:
            made = minari.create_dataset_from_buffers(
                prefix + temporary.name,
                [],
                env=env,
                eval_env=env,
                algorithm_name=found["policy"],
                author=author,
                author_email=author_email,
                code_permalink=code_permalink,
                description=description,
                requirements=[f"twofold>={found['twofold']}"],
            )
        # Minari lists only datasets whose id is their folder's name, so no incomplete one.
        metadata = temporary / "data" / "metadata.json"
        content = json.loads(metadata.read_text()) | {"dataset_id": dataset_id}
        metadata.write_text(json.dumps(content))
        for buffers in _buffers(dataset, progress):
            made.update_dataset_from_buffer(buffers)
    return minari.load_dataset(dataset_id)


def _folder(dataset_id: str) -> Path:
    """Returns Minari's folder for a dataset."""
    parse = optional_import("minari.dataset.minari_dataset", "Minari exports", "minari")
    storage = optional_import("minari.storage", "Minari exports", "minari")
    try:
        parse.parse_dataset_id(dataset_id)
    except (TypeError, ValueError):  # TypeError if the version is missing
        expected = "namespace/name-v0, with a namespace of two or more characters"
        raise _arguments.wrong("dataset_id", dataset_id, expected) from None
    folder: Path = storage.get_dataset_path(dataset_id)
    return folder


def _make_env(dataset: DatasetFile) -> gym.Env[Any, Any]:
    dataset.check_environment()
    # `copy` is an argument of vector environments only.
    arguments = {name: value for name, value in dataset.arguments.items() if name != "copy"}
    try:
        return gym.make(Game2048.environment_id, **arguments)
    except (InvalidArgument, TypeError) as error:
        raise InvalidDataset(f"{dataset.path}: its environment: {error}") from None


def _buffers(dataset: DatasetFile, progress: Progress | None) -> Iterator[list[Any]]:
    """Yields lists of episodes as Minari episode buffers.

    There is one list per row group, with the episodes that end in it. The last list contains the
    unfinished episodes.
    """
    rows = 0
    begun: dict[int, list[dict[str, Array]]] = {}
    for columns in dataset.transitions():
        lanes, is_end = columns["lane"], columns["terminated"] | columns["truncated"]
        is_last = np.append(lanes[1:] != lanes[:-1], np.True_)
        ended = []
        for first, last in pairwise([0, *(np.flatnonzero(is_end | is_last) + 1)]):
            part = {name: values[first:last] for name, values in columns.items()}
            part |= {name: part[name][-1:] for name in ("lane", "next_observation")}
            part["time"] = part["time"][:1]
            lane = int(lanes[first])
            if is_end[last - 1]:
                ended.append([*begun.pop(lane, []), part])
            else:  # copied, so that the part does not keep its whole row group
                parts = begun.setdefault(lane, [])
                parts.append({name: values.copy() for name, values in part.items()})
                # Many short parts would take much more memory than their data.
                while len(parts) > 1 and len(parts[-2]["reward"]) <= len(parts[-1]["reward"]):
                    parts[-2:] = [_join(parts[-2:])]
        yield _episodes(dataset, ended)
        rows += len(lanes)
        if progress is not None:
            progress(rows, dataset.metadata["transitions"])
    for _, parts in sorted(begun.items()):
        parts[-1]["truncated"][-1] = True
    yield _episodes(dataset, [parts for _, parts in sorted(begun.items())])


def _join(parts: list[dict[str, Array]]) -> dict[str, Array]:
    """Joins consecutive parts of an episode into one."""
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    joined |= {name: joined[name][-1:] for name in ("lane", "next_observation")}
    return joined | {"time": joined["time"][:1]}


def _episodes(dataset: DatasetFile, episodes: list[list[dict[str, Array]]]) -> list[Any]:
    """Converts episodes to Minari episode buffers.

    Each episode is a list of consecutive parts. A part contains the columns for its transitions.
    """
    if not episodes:
        return []
    buffer = optional_import("minari.data_collector", "Minari exports", "minari").EpisodeBuffer
    masks = rules.legal([parts[-1]["next_observation"][0] for parts in episodes])
    masks = dataset.game.in_user_order(masks, 1)
    made = []
    for parts, mask in zip(episodes, masks, strict=True):
        whole = _join(parts)
        if whole["terminated"][-1]:
            mask[:] = 0
        seed = (dataset.metadata["seed"] + int(whole["lane"][0])) % 2**64
        made.append(
            buffer(
                seed=None if whole["time"][0] else seed,
                observations=np.concatenate([whole["observation"], whole["next_observation"]]),
                actions=whole["action"].astype(np.int64),
                rewards=whole["reward"],
                terminations=whole["terminated"],
                truncations=whole["truncated"],
                infos={"action_mask": np.concatenate([whole["action_mask"], mask[np.newaxis]])},
            )
        )
    return made
