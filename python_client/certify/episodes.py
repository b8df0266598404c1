"""Episodes of 2048, played on any vector environment and recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Choose = Callable[[Array, Array], Array]
"""A function from boards (N, rows, columns) and action masks (N, 4) to actions (N,)."""


class Environment(Protocol):
    """The interface of an engine under test, with NEXT_STEP autoreset.

    The engine is Twofold's vector environment or an engine with a known defect (mutants.py).
    """

    num_envs: int

    def reset(self, *, seed: Any = None) -> tuple[Any, Any]:
        """Returns the boards, and infos that include `action_mask`."""

    def step(self, actions: Array) -> tuple[Any, Array, Array, Array, Any]:
        """Returns boards, rewards, terminations, truncations and infos.

        The infos include `action_mask`, `score` and `moves`.
        """


@dataclass(frozen=True)
class Episodes:
    """The records of E episodes.

    Each board contributes the same number of episodes, because the first E episodes to finish on
    any boards would be shorter than average.
    """

    starts: Array
    """uint8 (E, rows, columns): each episode's first board."""
    ends: Array
    """uint8 (E, rows, columns): each episode's last board."""
    score: Array
    """int64 (E,): each episode's score, from the environment's infos."""
    returns: Array
    """float64 (E,): the sum of each episode's rewards."""
    moves: Array
    """int64 (E,): the number of legal actions in each episode, from the environment's infos."""
    length: Array
    """int64 (E,): the number of steps in each episode, counted by `play`."""

    @property
    def count(self) -> int:
        """The number of episodes, E."""
        return len(self.score)

    @property
    def highest(self) -> Array:
        """int64 (E,): the highest exponent on the last board."""
        highest: Array = self.ends.max(axis=(1, 2)).astype(np.int64)
        return highest

    @property
    def tile_sum(self) -> Array:
        """int64 (E,): the sum of the tiles' values on the last board."""
        sums: Array = _over_cells(np.array([0] + [2**k for k in range(1, 32)]), self.ends)
        return sums

    @property
    def paid(self) -> Array:
        """int64 (E,): the score for making the last board's tiles if all spawned tiles were 2s."""
        paid: Array = _over_cells(np.array([0] + [(k - 1) * 2**k for k in range(1, 32)]), self.ends)
        return paid


def _over_cells(table: Array, boards: Array) -> Array:
    sums: Array = table[boards].sum(axis=(1, 2), dtype=np.int64)
    return sums


def play(envs: Environment, choose: Choose, episodes: int, seed: int) -> Episodes:
    """Plays and records at least `episodes` episodes, the same number on each board."""
    boards, infos = envs.reset(seed=seed)
    num_envs, each = envs.num_envs, -(-episodes // envs.num_envs)
    shape = (num_envs, each + 1)  # the last column receives surplus episodes
    starts = np.zeros((*shape, *boards.shape[1:]), np.uint8)
    ends = np.zeros_like(starts)
    score, moves, length = (np.zeros(shape, np.int64) for _ in range(3))
    returns = np.zeros(shape)
    done = np.zeros(num_envs, np.int64)
    steps, rewarded = np.zeros(num_envs, np.int64), np.zeros(num_envs)
    starts[:, 0] = boards
    finished = np.zeros(num_envs, np.bool_)
    while done.min() < each:
        boards, rewards, terminations, truncations, infos = envs.step(
            choose(boards, infos["action_mask"])
        )
        reset = np.flatnonzero(finished)
        starts[reset, done[reset]] = boards[reset]
        steps += 1
        steps[reset] = 0
        rewarded += rewards
        finished = terminations | truncations
        over = np.flatnonzero(finished)
        if over.size:
            place = over, done[over]
            ends[place] = boards[over]
            score[place] = infos["score"][over]
            moves[place] = infos["moves"][over]
            length[place] = steps[over]
            returns[place] = rewarded[over]
            rewarded[over] = 0.0
            done[over] = np.minimum(done[over] + 1, each)

    def flat(array: Array) -> Array:
        kept: Array = array[:, :each].reshape(num_envs * each, *array.shape[2:])
        return kept

    return Episodes(*(flat(array) for array in (starts, ends, score, returns, moves, length)))


# ---- policies ------------------------------------------------------------------------------------


def uniform_legal(rng: np.random.Generator) -> Choose:
    """Returns the policy that chooses uniformly among legal actions, or any if none is legal."""

    def choose(boards: Array, mask: Array) -> Array:
        # The numbers are in (0, 1], so that every legal action exceeds the zeros of the illegal
        # ones.
        actions: Array = ((1 - rng.random(mask.shape, np.float32)) * mask).argmax(axis=1)
        return actions

    return choose


def uniform_any(rng: np.random.Generator) -> Choose:
    """Returns the policy that chooses uniformly among the four actions, legal or not."""

    def choose(boards: Array, mask: Array) -> Array:
        actions: Array = rng.integers(0, 4, len(boards), np.uint8)
        return actions

    return choose


def from_table(policy: dict[str, int]) -> Choose:
    """Returns a policy that plays the actions in `policy`, such as `exact.Solver.policy`."""
    cells = len(next(iter(policy)))
    table = np.zeros(16**cells, np.uint8)
    weights = 16 ** np.arange(cells)
    for board, action in policy.items():
        exponents = [0 if cell == "." else ord(cell) - ord("a") + 1 for cell in board]
        table[weights @ exponents] = action

    def choose(boards: Array, mask: Array) -> Array:
        actions: Array = table[boards.reshape(len(boards), cells) @ weights]
        return actions

    return choose
