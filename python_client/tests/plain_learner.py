"""A second implementation of the learner behind `twofold.train`, in readable plain Python.

It shares no code and no method with the library. With one thread, `PlainLearner` computes the same
float32 numbers in the same order as the library, so weights and errors are equal, bit for bit.
"""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import reference
from numpy.typing import NDArray

# The boards of a block compute the values of all afterstates before they correct any weight.
BLOCK = 64


def images(rows: int, columns: int) -> list[list[int]]:
    """Returns the cells that each image of a board shows: four turns, each with its transpose."""
    cells = np.arange(rows * columns).reshape(rows, columns)
    turned = [np.rot90(cells, turns) for turns in range(4)]
    both = [image for each in turned for image in (each, each.T)]
    return [image.ravel().tolist() for image in both if image.shape == cells.shape]


class PlainLearner:
    """A network and its boards. Board i has the seed `seed` + i.

    Args:
        tuples: The cells of each tuple.
        num_envs, seed, learning_rate, initial_value, exponents: As for `twofold.train`.
        rules: The arguments of `reference.Game`.
    """

    def __init__(
        self,
        tuples: Sequence[Sequence[int]],
        *,
        num_envs: int,
        seed: int,
        exponents: int,
        learning_rate: float = 1.0,
        initial_value: float = 0.0,
        **rules: Any,
    ) -> None:
        self.games = [reference.Game((seed + i) % 2**64, **rules) for i in range(num_envs)]
        # For each tuple, the cells of each feature (images, cells), and the start of its table.
        self.tables: list[tuple[NDArray[Any], int]] = []
        size, shown = 0, np.array(images(self.games[0].rows, self.games[0].columns))
        for cells in tuples:
            self.tables.append((shown[:, list(cells)], size))
            size += exponents ** len(cells)
        count = len(tuples) * len(shown)
        self.weights = np.full(size, initial_value / count, np.float32)
        self.errors = np.zeros((size, 2), np.float32)
        self.exponents, self.rate = exponents, np.float32(learning_rate) / np.float32(count)
        self.previous: list[reference.Board | None] = [None] * num_envs
        self._places: dict[reference.Board, list[list[int]]] = {}
        self.moves = self.episodes = self.score = self.goals = 0

    def places(self, board: reference.Board) -> list[list[int]]:
        """Returns the index of the weight of each feature, by tuple."""
        if board not in self._places:
            digits = np.minimum(board, self.exponents - 1)
            self._places[board] = [
                (start + digits[cells] @ self.exponents ** np.arange(cells.shape[1])).tolist()
                for cells, start in self.tables
            ]
        return self._places[board]

    def value(self, board: reference.Board) -> Any:
        """Returns V: the sum over the tuples of the sum over the images."""
        value = np.float32(0)
        for of_tuple in self.places(board):
            total = np.float32(0)
            for place in of_tuple:
                total += self.weights[place]
            value += total
        return value

    def correct(self, board: reference.Board, target: Any) -> None:
        """Moves V(board) towards the target, by temporal coherence."""
        error = target - self.value(board)
        change = self.rate * error
        for place in (place for of_tuple in self.places(board) for place in of_tuple):
            total, size = self.errors[place, 0], self.errors[place, 1]
            coherence = min(np.float32(1), abs(total) / size) if size > 0 else np.float32(1)
            self.weights[place] += change * coherence
            self.errors[place, 0], self.errors[place, 1] = total + error, size + abs(error)

    def best(self, game: reference.Game) -> tuple[Any, int, reference.Board] | None:
        """Returns the highest reward + V(afterstate), its action and its afterstate."""
        best = None
        for action in range(0 if game.terminated else 4):
            after, reward = game.afterstate(action)
            if after != game.board:
                value = np.float32(reward) + self.value(after)
                if best is None or value > best[0]:
                    best = value, action, after
        return best

    def run(self, steps: int) -> None:
        """Plays this number of steps on each board."""
        lanes = range(len(self.games))
        for _, first in product(range(steps), lanes[::BLOCK]):
            block = lanes[first : first + BLOCK]
            choices = [self.best(self.games[lane]) for lane in block]
            for lane, best in zip(block, choices, strict=True):
                before = self.previous[lane]
                if before is not None:
                    self.correct(before, best[0] if best else np.float32(0))
                self.previous[lane] = best[2] if best else None
            for lane, best in zip(block, choices, strict=True):
                game = self.games[lane]
                self.moves += best is not None
                game.step(best[1] if best else 0)
                if best and game.terminated:
                    self.episodes += 1
                    self.score += game.score
                    self.goals += game.goal_reached
