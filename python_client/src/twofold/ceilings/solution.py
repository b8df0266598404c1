"""Finds optimal play with limited memory, by backward induction over turns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from twofold.ceilings.memory import Array, Memory, Numbering
from twofold.ceilings.turns import Game, Half, StepRewards, Ways, batches

# Without a step limit, turns are added until no value changes by more than this fraction of the
# largest value of its kind: return, turns or probability.
_TOLERANCE = 1e-15


@dataclass(frozen=True)
class Solution:
    """The optimal choices in all states, and the expected results of a whole game.

    Choice 0 flips a random face-down card that is not remembered. Choice 1 + k flips the remembered
    card at place k. With an unbounded memory, it flips one with the symbol of column k.

    Attributes:
        begins: The states at the beginning of a turn.
        opens: The states with an open card.
        first: int8 (turns + 1, states), the choices of the first card. Row t applies when t turns
            are left. Without a step limit, there is only one row.
        second: int8 (turns + 1, states with an open card), the choices of the second card.
        expected: The expected return, the expected number of turns, and the probability that all
            pairs are found, from the start of a game.
    """

    memory: Memory
    begins: Numbering
    opens: Numbering
    first: Array
    second: Array
    expected: tuple[float, float, float]


def solve(game: Game, rewards: StepRewards, max_steps: int | None) -> Solution:
    """Returns the choices that maximise the expected return, together with their results.

    With no step limit (None), a turn without a pair must have a negative reward.
    """
    limit = None if max_steps is None else max_steps // 2
    choose_first, choose_second = _Chooser(game.first, rewards), _Chooser(game.second, rewards)
    states, open_states = game.reached[-1]
    # For each state: the expected return, the expected turns, and the probability of finding all
    # pairs from here on.
    values, opened = np.zeros((3, states)), np.zeros((3, open_states))
    values[2, game.is_over] = 1
    if max_steps is not None and max_steps % 2:
        values[0, ~game.is_over] = rewards.first  # one step remains after the last whole turn
    # Row 0 stays empty, because without a turn left nothing is chosen.
    first = np.zeros((1 if limit is None else limit + 1, states), np.int8)
    second = np.zeros((len(first), open_states), np.int8)
    turns = 0
    while turns != limit:
        turns += 1
        row = 0
        if limit is not None:
            row = turns
            states, open_states = game.reached[min(limit - turns, len(game.reached) - 1)]
        before = values.copy() if limit is None else values
        choose_second(values, opened, second[row], open_states)
        opened[1] += 1
        choose_first(opened, values, first[row], states)
        if limit is None:
            change = np.abs(values - before).max(axis=1)
            if (change < _TOLERANCE * np.abs(values).max(axis=1).clip(1)).all():
                break
    expected = (float(values[0, 0]), float(values[1, 0]), float(values[2, 0]))
    return Solution(game.memory, game.begins, game.opens, first, second, expected)


class _Chooser:
    """A callable that finds the best card to flip in every state."""

    def __init__(self, half: Half, rewards: StepRewards) -> None:
        self._rewards = np.array(rewards)
        states = batches(0, len(half.unknown.number))
        self._parts = list(zip(states, *map(_parts, half), strict=True))

    def __call__(self, after: Array, values: Array, chosen: Array, states: int) -> None:
        """Writes the best choices to `chosen`, and their values to `values`.

        Args:
            after: float64 (3, targets), the values of the states that can follow.
            values: float64 (3, S), the output. A state without choices keeps its values.
            chosen: int8 (S,), the output.
            states: The number of states to solve, counted from the first. Others may be skipped.
        """
        for some, unknown, known in self._parts:
            if some.start >= states:
                break
            self._choose(unknown, known, after, values[:, some], chosen[some])

    def _choose(
        self, unknown: Ways, known: Ways, after: Array, values: Array, chosen: Array
    ) -> None:
        best = np.full(len(chosen), -np.inf)
        chosen[:] = 0
        if len(unknown.target):
            has, starts = _runs(unknown)
            cards = np.add.reduceat(unknown.weight, starts, dtype=np.float64)
            for index, of_target in enumerate(after):
                found = of_target.take(unknown.target)
                if index == 0:
                    found += self._rewards.take(unknown.kind)
                found *= unknown.weight
                values[index, has] = np.add.reduceat(found, starts) / cards
            best[has] = values[0, has]
        if len(known.target):
            has, starts = _runs(known)
            found = after[0].take(known.target) + self._rewards.take(known.kind)
            highest = np.maximum.reduceat(found, starts)
            wanted = np.where(highest > best[has], highest, np.inf)
            (ways,) = np.nonzero(found == np.repeat(wanted, known.number[has]))
            # Backwards, so that the first of several equally good choices wins.
            ways = ways[::-1]
            state = np.repeat(has, known.number[has])[ways]
            chosen[state] = known.choice[ways]
            values[0, state] = found[ways]
            values[1:, state] = after[1:, known.target[ways]]


def _parts(ways: Ways) -> Iterator[Ways]:
    """Yields the ways of each batch of states."""
    start = 0
    for some in batches(0, len(ways.number)):
        number = ways.number[some]
        end = start + int(number.sum(dtype=np.int64))
        yield Ways(number, *(array[start:end] for array in ways[1:]))
        start = end


def _runs(ways: Ways) -> tuple[Array, Array]:
    """Returns the states with at least one way, and the index of each such state's first way."""
    (has,) = np.nonzero(ways.number)
    ends = ways.number.cumsum(dtype=np.int64)
    return has, (ends - ways.number)[has]
