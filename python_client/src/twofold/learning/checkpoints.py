"""Checkpoints of a training run: the network, and everything that a learner needs to continue.

The file contains the arrays of `twofold.policies.NTuple.save`. For table k, it also contains the
places of the corrected weights (`places_k`) and their sums of errors (`errors_k`). Finally, it
contains the boards (`state`) and, as JSON, the arguments and the progress (`training`).

Functions that read a file raise InvalidArgument, with the `field` "file", if it is not a checkpoint
or is damaged, and OSError if it can't be read.
"""

from __future__ import annotations

import functools
import json
import zipfile
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from twofold import _text
from twofold.errors import InvalidArgument
from twofold.evaluation import Evaluation
from twofold.policies.served_policies import check_table, network_form, read_arrays, tuples_of
from twofold.v1 import rollout_pb2 as wire

if TYPE_CHECKING:
    from twofold.client.embedded import EmbeddedLearner

# The entries of `training` that every file has.
_TRAINING = {"arguments", "seconds", "checked_seconds", "counts", "last", "curve", "evaluations"}

# Opens a checkpoint.
_reading = functools.partial(read_arrays, content="checkpoint of a training run", field="file")


def save(path: str | PathLike[str], learner: EmbeddedLearner, training: dict[str, Any]) -> None:
    """Writes a checkpoint. The file appears only when it is complete.

    Unlike `numpy.savez` with all arrays, this function copies only one table at a time. It needs
    up to five times the memory of the largest table's weights.

    Args:
        path: The file.
        learner: The learner.
        training: The entry `training`, which `load` returns.
    """
    form = learner.form
    with _text.whole_file(path) as file, zipfile.ZipFile(file, "w") as archive:
        _write(archive, "exponents", np.array(form.exponents, np.int64))
        _write(archive, "symmetric", np.array(form.symmetric))
        _write(archive, "size", np.array(training["arguments"]["size"]))
        for index, weights in enumerate(tables(learner.weights, form)):
            cells = np.frombuffer(form.tuples[index].cells, np.uint8)
            _write(archive, f"tuple_{index}", cells)
            _write(archive, f"weights_{index}", weights)
        for index, errors in enumerate(tables(learner.errors, form)):
            places = np.flatnonzero(errors[:, 1]).astype(np.uint32)
            _write(archive, f"places_{index}", places)
            _write(archive, f"errors_{index}", errors[places])
        _write(archive, "state", learner.state)
        _write(archive, "training", np.array(json.dumps(training)))


def _write(archive: zipfile.ZipFile, name: str, array: NDArray[Any]) -> None:
    with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
        np.lib.format.write_array(entry, array, allow_pickle=False)


def load(path: str | PathLike[str]) -> dict[str, Any]:
    """Loads the `training` of a checkpoint, with an `Evaluation` for each text in `evaluations`."""
    with _reading(path) as arrays:
        training: dict[str, Any] = json.loads(str(arrays["training"]))
        missing = _TRAINING - training.keys()
        if missing:
            raise InvalidArgument(f"training lacks {', '.join(sorted(missing))}")
        training["evaluations"] = [
            (point, Evaluation.from_json(found)) for point, found in training["evaluations"]
        ]
        return training


def version(path: str | PathLike[str]) -> str | None:
    """Returns the text of the entry `training`; None if the file is missing or damaged.

    Each save has another text, because it contains the seconds of training.
    """
    try:
        with _reading(path) as arrays:
            return str(arrays["training"])
    except (InvalidArgument, OSError):
        return None


def restore(path: str | PathLike[str], learner: EmbeddedLearner) -> None:
    """Fills a learner with the network and the state of a checkpoint."""
    form = learner.form
    with _reading(path) as arrays:
        symmetric = bool(arrays["symmetric"])
        if network_form(tuples_of(arrays), int(arrays["exponents"]), symmetric=symmetric) != form:
            raise InvalidArgument("its network does not have the form that its training needs")
        # One table at a time, because a copy of all could exceed the memory.
        for index, weights in enumerate(tables(learner.weights, form)):
            weights[:] = _numbers(arrays, f"weights_{index}", weights.shape)
        for index, errors in enumerate(tables(learner.errors, form)):
            places = arrays[f"places_{index}"]
            errors[places] = _numbers(arrays, f"errors_{index}", (len(places), 2))
        learner.state[:] = arrays["state"]
        learner.run(0)  # checks the state


def _numbers(arrays: Any, name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Returns an entry of a checkpoint: finite numbers, float32 of this shape."""
    numbers: NDArray[np.float32] = arrays[name]
    check_table(name, numbers, shape)
    return numbers


def tables(array: NDArray[np.float32], form: wire.NTupleForm) -> list[NDArray[np.float32]]:
    """Returns a learner's weights or errors, as a view for each table of the network."""
    sizes = [form.exponents ** len(each.cells) for each in form.tuples]
    return np.split(array, np.cumsum(sizes)[:-1])
