"""Records a package's 2048 games for comparison. Runs in the package's virtual environment.

Needs only numpy. Boards are uint8 exponents (4, 4). Actions and masks keep the package's dtypes.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Recorder:
    """The recorded transitions and start boards, in the order in which they were added."""

    def __init__(self) -> None:
        self._transitions: dict[str, list[Array]] = {}
        self._starts: list[Array] = []

    def transitions(self, kept: Array | None = None, **columns: Any) -> None:
        """Adds one transition of each board, or only of the boards that `kept` (N,) selects."""
        for name, column in columns.items():
            array = np.asarray(column)
            chosen = array if kept is None else array[kept]
            self._transitions.setdefault(name, []).append(chosen.copy())

    def starts(self, boards: Any) -> None:
        """Adds the boards (N, 4, 4) at the start of episodes."""
        self._starts.append(np.asarray(boards).astype(np.uint8).reshape(-1, 4, 4))

    def save(self, path: str, **facts: Any) -> None:
        """Writes the transitions, the start boards and each of `facts` to an .npz file."""
        columns = {name: np.concatenate(parts) for name, parts in self._transitions.items()}
        for name in ("before", "after"):
            columns[name] = columns[name].astype(np.uint8).reshape(-1, 4, 4)
        columns["starts"] = np.concatenate(self._starts)
        np.savez_compressed(path, **{**columns, **facts})


def choose(rng: np.random.Generator, mask: Array, any_share: float = 0.1) -> Array:
    """Returns a random action for each board.

    With probability `any_share` the action is any of the four, otherwise a legal one.
    """
    legal = ((1 - rng.random(mask.shape)) * mask).argmax(axis=1)
    free = rng.random(len(mask)) < any_share
    return np.where(free, rng.integers(0, 4, len(mask)), legal).astype(np.int32)


def boards_of_all_kinds(rng: np.random.Generator, count: int) -> Array:
    """Returns at most `count` random boards with tiles up to 65,536. None is empty.

    Some boards are impossible in a real game.
    """
    boards = np.zeros((count, 4, 4), np.int32)
    for index in range(count):
        highest = rng.choice([2, 3, 5, 9, 16])
        boards[index] = rng.integers(1, highest + 1, (4, 4)) * (rng.random((4, 4)) < rng.random())
    return boards[(boards > 0).any(axis=(1, 2))]


def arguments() -> argparse.Namespace:
    """Parses a peer script's command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--boards", type=int, default=256)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--given", type=int, default=256, help="maximum number of random boards")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()
