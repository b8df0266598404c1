"""Backward induction over turns: the best play with some memory, and what it attains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from twofold.ceilings.memory import Memory, Numbering
from twofold.ceilings.turns import Game, Half

Array = NDArray[Any]

# Without a limit of steps, turns are added until nothing changes by more, relative to the largest.
_TOLERANCE = 1e-15


class StepRewards(NamedTuple):
    """The reward of each kind of step that a legal turn without peeks has."""

    first: float
    """A turn's first card."""
    match: float
    """A pair, not the last one."""
    last_match: float
    """The last pair."""
    mismatch: float
    """Two different cards."""


@dataclass(frozen=True)
class Solution:
    """The best choices, and what they attain from the start.

    A choice is 0 for a card that is not remembered, and 1 + k for the remembered card k.

    Attributes:
        memory: The player's memory.
        begins: The states at the beginning of a turn.
        opens: The states with an open card.
        first: int8 (turns + 1, states), the choice of the first card with so many turns left; a
            single row if there is no limit.
        second: int8 (turns + 1, states with an open card), the choice of the second card.
        expected: The expected return, the expected number of turns, and the probability that all
            pairs are found.
    """

    memory: Memory
    begins: Numbering
    opens: Numbering
    first: Array
    second: Array
    expected: tuple[float, float, float]


def solve(game: Game, rewards: StepRewards, max_steps: int | None) -> Solution:
    """Maximises the expected return.

    Args:
        game: The states.
        rewards: The rewards.
        max_steps: The limit of steps; None for none, with rewards that no endless play increases.
    """
    limit = None if max_steps is None else max_steps // 2
    pair = np.where(game.is_last, rewards.last_match, rewards.match)
    choose_first = _Chooser(game.first, np.zeros(len(game.left)), 0.0)
    choose_second = _Chooser(game.second, pair, rewards.mismatch)
    is_over = game.left == 0
    # For each state: return, turns and probability of a cleared table from here on.
    values = np.zeros((3, len(game.left)))
    values[2, is_over] = 1
    if max_steps is not None and max_steps % 2:
        values[0, ~is_over] = rewards.first  # a single step is left when no turn is
    firsts: list[Array] = []
    seconds: list[Array] = []
    while limit is None or len(firsts) < limit:
        opened, second = choose_second(values)
        opened[1] += 1
        before = values
        values, first = choose_first(opened)
        values[0] += rewards.first
        values[:, is_over] = before[:, is_over]
        firsts.append(first)
        seconds.append(second)
        if limit is None:
            del firsts[:-1], seconds[:-1]
            if np.abs(values - before).max() < _TOLERANCE * max(1.0, np.abs(values).max()):
                break
    if limit is not None:
        # Nothing is chosen when no turn is left, but a last step may be.
        firsts.insert(0, np.zeros(len(game.left), np.int8))
        seconds.insert(0, np.zeros(len(game.is_last), np.int8))
    start = values[:, 0]
    expected = (float(start[0]), float(start[1]), float(start[2]))
    choices = np.array(firsts), np.array(seconds)
    return Solution(game.memory, game.begins, game.opens, *choices, expected)


class _Chooser:
    """The best choice of a card in every state.

    Args:
        half: The choices.
        pair: float64 (S,), for each state, the reward of a card that matches the open one.
        mismatch: The reward of another card.
    """

    def __init__(self, half: Half, pair: Array, mismatch: float) -> None:
        self._unknown, self._known = half
        self._states = len(pair)
        self._starts, self._known_starts = _starts(half.unknown.state), _starts(half.known.state)
        # The states that have such a card.
        self._with_unknown = half.unknown.state[self._starts]
        self._with_known = half.known.state[self._known_starts]
        rewards = [
            np.where(ways.is_match, pair[ways.state], mismatch)
            for ways in (half.unknown, half.known)
        ]
        self._reward, self._known_reward = rewards
        self._reward *= half.unknown.chance

    def __call__(self, after: Array) -> tuple[Array, Array]:
        """The values (3, S) of the best choices, and the choices (S,), from the values after."""
        best, chosen = np.zeros((3, self._states)), np.zeros(self._states, np.int8)
        best[0] = -np.inf
        if len(self._starts):
            for index, of_target in enumerate(after):
                products = of_target[self._unknown.target] * self._unknown.chance
                if index == 0:
                    products += self._reward
                best[index, self._with_unknown] = np.add.reduceat(products, self._starts)
        if len(self._known_starts):
            values = after[0, self._known.target] + self._known_reward
            highest = np.maximum.reduceat(values, self._known_starts)
            is_better = np.zeros(self._states, np.bool_)
            is_better[self._with_known] = highest > best[0, self._with_known]
            best[0, self._with_known] = np.maximum(highest, best[0, self._with_known])
            state = self._known.state
            (ways,) = np.nonzero(is_better[state] & (values == best[0, state]))
            # Backwards: of several, the first one stays.
            ways = ways[::-1]
            chosen[state[ways]] = self._known.choice[ways]
            best[1:, state[ways]] = after[1:, self._known.target[ways]]
        return best, chosen


def _starts(state: Array) -> Array:
    """The places where runs of the same state begin."""
    return np.flatnonzero(np.diff(state, prepend=-1))
