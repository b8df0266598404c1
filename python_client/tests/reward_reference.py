"""A second implementation of 2048's reward terms: each formula in plain Python, on flat boards.

It shares no code with the server. From reference.py, it uses only the order of the lines. A
transition is (board before, action, board after the spawn, terminated). A spec is the longest form
of the argument `reward`, {"terms": [{"term": …, "weight": …, …}], "scale": …, "clip": [low, high]}.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from reference import Board, lines

POTENTIALS = {
    "empty_cells",
    "monotonicity",
    "smoothness",
    "corner",
    "cell_weights",
    "tile_sum",
}
EVENTS = {
    "merge_score",
    "merge_exponent",
    "merge_count",
    "merge_table",
    "new_max_tile",
    "goal",
    "survival",
    "illegal_action",
    "game_over",
}


@dataclass
class Transition:
    """One played step."""

    before: Board
    action: int
    after: Board
    terminated: bool
    rows: int = 4
    columns: int = 4
    goal: int = 2048

    def __post_init__(self) -> None:
        afterstate, made = [0] * len(self.before), [0] * len(self.before)
        self.made_in_order: list[int] = []
        for cells in lines(self.rows, self.columns, self.action):
            tiles = [self.before[cell] for cell in cells if self.before[cell]]
            for cell in cells:
                if not tiles:
                    break
                tile = tiles.pop(0)
                if tiles and tiles[0] == tile:
                    made[cell] = tile = tiles.pop(0) + 1
                    self.made_in_order.append(tile)
                afterstate[cell] = tile
        self.afterstate: Board = tuple(afterstate)
        self.merges: Board = tuple(made)
        self.is_legal = self.afterstate != self.before

    @property
    def chance(self) -> int:
        """The chance outcome: cell for a 2, cells + cell for a 4, -1 for none."""
        if not self.is_legal:
            return -1
        [cell] = [i for i, tile in enumerate(self.after) if tile != self.afterstate[i]]
        return cell + {1: 0, 2: len(self.after)}[self.after[cell]]


def event(name: str, step: Transition, table: list[float]) -> float:
    """Returns the value of a term that is not a potential."""
    made = step.made_in_order
    formulas: dict[str, Callable[[], float]] = {
        "merge_score": lambda: sum(2**exponent for exponent in made),
        "merge_exponent": lambda: sum(made),
        "merge_count": lambda: len(made),
        "merge_table": lambda: _sum(table[exponent] for exponent in made),
        "new_max_tile": lambda: max(step.after) > max(step.before),
        "goal": lambda: 2 ** max(step.before) < step.goal <= 2 ** max(step.after),
        "survival": lambda: step.is_legal and not step.terminated,
        "illegal_action": lambda: not step.is_legal,
        "game_over": lambda: step.terminated,
    }
    return float(formulas[name]())


def potential(name: str, board: Board, rows: int, columns: int, table: list[float]) -> float:
    """Returns phi of a board."""
    grid = np.array(board, np.int64).reshape(rows, columns)
    if name == "empty_cells":
        return float(np.sum(grid == 0))
    if name == "tile_sum":
        return float(np.sum(2 ** grid[grid > 0]))
    if name == "corner":
        corners = {grid[row, column] for row in (0, -1) for column in (0, -1)}
        return float(grid.max() if grid.max() in corners else 0)
    if name == "cell_weights":
        return float(np.dot(np.array(table, np.int64), np.array(board, np.int64)))
    phi = 0
    for line in [*grid, *grid.T]:
        if name == "monotonicity":
            steps = np.diff(line)
            phi -= min(int(steps[steps > 0].sum()), -int(steps[steps < 0].sum()))
        else:
            assert name == "smoothness"
            phi -= sum(abs(int(a) - int(b)) for a, b in itertools.pairwise(line) if a and b)
    return float(phi)


def terms(spec: dict[str, Any], step: Transition) -> list[float]:
    """Returns the weighted value of each term, in float64."""
    values = []
    for term in spec["terms"]:
        name, table = term["term"], term.get("table", [])
        if name in EVENTS:
            value = event(name, step, table)
        else:
            size = (step.rows, step.columns, table)
            now = potential(name, step.before, *size)
            then = 0.0 if step.terminated else potential(name, step.after, *size)
            value = term["gamma"] * then - now
        values.append(term["weight"] * value)
    return values


def reward(spec: dict[str, Any], values: list[float]) -> float:
    """Returns the reward, as the environment's float32, of a transition's `terms`."""
    scaled = _sum(values) * spec.get("scale", 1.0)
    low, high = spec.get("clip", (-math.inf, math.inf))
    return float(np.float32(min(max(scaled, low), high)))


def _sum(values: Any) -> float:
    """Sums from the left, rounding each time. Python's `sum` compensates rounding since 3.12."""
    total = 0.0
    for value in values:
        total += value
    return total
