"""Checkpoints of a training: the network's file, with everything that a learner needs to continue.

In addition to the arrays of `twofold.policies.NTuple.save`, the file has for table k the places of
the corrected weights (`places_k`) with their sums of errors (`errors_k`), and the boards (`state`)
and, as JSON, the arguments and the progress (`training`).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from twofold import _arguments, _text
from twofold.errors import InvalidArgument
from twofold.evaluation import Evaluation
from twofold.policies import NTuple
from twofold.policies.served_policies import network_form, read_arrays

if TYPE_CHECKING:
    from twofold.client.embedded import EmbeddedLearner

# The entries of `training` that every file has.
_TRAINING = {"arguments", "seconds", "counts", "last", "curve"}
# The types of the numbers in a point of the curve.
_POINT = [float, int, int, float, float]


def save(
    path: str | PathLike[str], network: NTuple, learner: EmbeddedLearner, training: dict[str, Any]
) -> None:
    """Writes a checkpoint. The file appears only when it is complete."""
    arrays = network.arrays()
    for table, errors in enumerate(_tables(network, learner)):
        places = np.flatnonzero(errors[:, 1])
        arrays[f"places_{table}"] = places.astype(np.uint32)
        arrays[f"errors_{table}"] = errors[places]
    arrays["state"] = learner.state
    arrays["training"] = np.array(json.dumps(training))
    with _text.whole_file(path) as file:
        np.savez(file, **arrays)


def load(path: str | PathLike[str]) -> dict[str, Any]:
    """Loads the `training` of a checkpoint, with an `Evaluation` for each text in `evaluations`.

    Raises:
        InvalidArgument: The file is not a checkpoint, or is damaged; `field` is "file".
        OSError: The file can't be read.
    """
    with _reading(path) as arrays:
        training: dict[str, Any] = json.loads(str(arrays["training"]))
        missing = _TRAINING - training.keys()
        if missing:
            raise InvalidArgument(f"training lacks {', '.join(sorted(missing))}")
        _arguments.integer("num_envs", training["arguments"]["num_envs"], 1)
        _check("seconds", [training["seconds"]], [float])
        _check("counts", training["counts"], [int] * 5)
        _check("last", training["last"], [int] * 3)
        for point in training["curve"]:
            _check("curve", point, _POINT)
        # Files of older versions have no evaluations.
        evaluations = training.setdefault("evaluations", [])
        for place, (point, found) in enumerate(evaluations):
            _check("evaluations", point, _POINT)
            evaluations[place] = point, Evaluation.from_json(found)
        return training


def _check(name: str, numbers: Any, types: Sequence[type]) -> None:
    """Checks numbers in an entry of `training`: finite, at least 0, and of these types."""
    if not isinstance(numbers, list) or len(numbers) != len(types):
        raise InvalidArgument(f"{name} is {numbers!r}; expected {len(types)} numbers")
    for number, kind in zip(numbers, types, strict=True):
        if kind is int:
            _arguments.integer(name, number, 0, 2**62)
        else:
            _arguments.real(name, number, 0, expected="a finite number, at least 0")


def restore(path: str | PathLike[str], learner: EmbeddedLearner) -> None:
    """Fills a learner with the network and the state of a checkpoint.

    Raises:
        InvalidArgument: The file is damaged, or belongs to another learner; `field` is "file".
        OSError: The file can't be read.
    """
    with _reading(path) as arrays:
        network = NTuple.load(path)
        form = network_form(network.tuples, network.exponents, symmetric=network.symmetric)
        if form != learner.form:
            raise InvalidArgument("its network has a different form from that of its training")
        np.concatenate(network.weights, out=learner.weights)
        for table, errors in enumerate(_tables(network, learner)):
            errors[arrays[f"places_{table}"]] = arrays[f"errors_{table}"]
        if not np.isfinite(learner.errors).all():
            raise InvalidArgument("errors are not finite")
        state = arrays["state"]
        if state.dtype != np.uint8 or state.shape != learner.state.shape:
            raise InvalidArgument(
                f"state is {state.dtype} {state.shape}; expected uint8 {learner.state.shape}"
            )
        learner.state[:] = state
        learner.run(0)  # checks the state


@contextlib.contextmanager
def _reading(path: str | PathLike[str]) -> Iterator[Any]:
    """Opens a checkpoint, as `read_arrays` does. The `field` of its errors is "file"."""
    try:
        with read_arrays(path, "checkpoint of a training") as arrays:
            yield arrays
    except InvalidArgument as error:
        error.field = "file"
        raise


def _tables(network: NTuple, learner: EmbeddedLearner) -> list[Any]:
    """Returns the learner's errors, as a view for each table of the network."""
    sizes = [table.size for table in network.weights]
    return np.split(learner.errors, np.cumsum(sizes)[:-1])
