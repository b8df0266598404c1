"""Checkpoints of a training: the network's file, with everything that a learner needs to continue.

In addition to the arrays of `twofold.policies.NTuple.save`, the file has for table k the places of
the corrected weights (`places_k`) with their sums of errors (`errors_k`), and the boards (`state`)
and, as JSON, the arguments and the progress (`training`).
"""

from __future__ import annotations

import json
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from twofold import _text
from twofold.errors import InvalidArgument
from twofold.policies import NTuple
from twofold.policies.served_policies import read_arrays

if TYPE_CHECKING:
    from twofold.client.embedded import EmbeddedLearner


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


def load(path: str | PathLike[str]) -> tuple[NTuple, dict[str, Any]]:
    """Loads the network and the `training` of a checkpoint.

    Raises:
        InvalidArgument: The file is not a checkpoint, or is damaged; `field` is "file".
        OSError: The file can't be read.
    """
    network = NTuple.load(path)
    with read_arrays(path, "checkpoint of a training") as arrays:
        return network, dict(json.loads(str(arrays["training"])))


def restore(path: str | PathLike[str], network: NTuple, learner: EmbeddedLearner) -> None:
    """Fills a learner with the state of a checkpoint, whose network is `network`."""
    with read_arrays(path, "checkpoint of a training") as arrays:
        for table, errors in enumerate(_tables(network, learner)):
            errors[arrays[f"places_{table}"]] = arrays[f"errors_{table}"]
        state = arrays["state"]
        if state.dtype != np.uint8 or state.shape != learner.state.shape:
            raise InvalidArgument(
                f"state is {state.dtype} {state.shape}; expected uint8 {learner.state.shape}"
            )
        learner.state[:] = state
    np.concatenate(network.weights, out=learner.weights)


def _tables(network: NTuple, learner: EmbeddedLearner) -> list[Any]:
    """Returns the learner's errors, as a view for each table of the network."""
    sizes = [table.size for table in network.weights]
    return np.split(learner.errors, np.cumsum(sizes)[:-1])
