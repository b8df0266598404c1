"""Finds optimal play with limited memory, by backward induction over turns."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import numpy as np

from twofold.ceilings.memory import Array, Memory, Numbering
from twofold.ceilings.turns import Game, Part, StepRewards, Ways

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
    of_kinds = np.array(rewards)
    # For each state: the expected return, the expected turns, and the probability of finding all
    # pairs from here on.
    values, opened = np.zeros((3, len(game.begins))), np.zeros((3, len(game.opens)))
    is_over = ~game.begins.rows.any(axis=1)
    values[2, is_over] = 1
    if max_steps is not None and max_steps % 2:
        values[0, ~is_over] = rewards.first  # one step remains after the last whole turn
    # Row 0 stays empty, because without a turn left nothing is chosen.
    first = np.zeros((1 if limit is None else limit + 1, len(game.begins)), np.int8)
    second = np.zeros((len(first), len(game.opens)), np.int8)
    turns = 0
    while turns != limit:
        turns += 1
        # With a limit, only states that are reachable in the other turns.
        row, reached = (0, None) if limit is None else (turns, limit - turns + 1)
        before = values.copy() if limit is None else values
        for part in chain.from_iterable(game.second[:reached]):
            _choose(part, of_kinds, values, opened, second[row])
        opened[1] += 1
        for part in chain.from_iterable(game.first[:reached]):
            _choose(part, of_kinds, opened, values, first[row])
        if limit is None:
            change = np.abs(values - before).max(axis=1)
            if (change < _TOLERANCE * np.abs(values).max(axis=1).clip(1)).all():
                break
    expected = (float(values[0, 0]), float(values[1, 0]), float(values[2, 0]))
    return Solution(game.memory, game.begins, game.opens, first, second, expected)


def _choose(part: Part, rewards: Array, after: Array, values: Array, chosen: Array) -> None:
    """Finds the best card to flip in each state of a part.

    Args:
        part: The ways to flip a card.
        rewards: float64 (4,), the `StepRewards`.
        after: float64 (3, targets), the values of the states that can follow.
        values: float64 (3, S), the output: the values of the best choices. A state without choices
            keeps its values.
        chosen: int8 (S,), the output: the best choices.
    """
    states, unknown, known = part
    values, chosen = values[:, states], chosen[states]
    best = np.full(len(chosen), -np.inf)
    chosen[:] = 0
    if len(unknown.target):
        has, starts = _runs(unknown)
        cards = np.add.reduceat(unknown.weight, starts, dtype=np.float64)
        for index, of_target in enumerate(after):
            found = of_target.take(unknown.target)
            if index == 0:
                found += rewards.take(unknown.kind)
            found *= unknown.weight
            values[index, has] = np.add.reduceat(found, starts) / cards
        best[has] = values[0, has]
    if len(known.target):
        has, starts = _runs(known)
        found = after[0].take(known.target) + rewards.take(known.kind)
        highest = np.maximum.reduceat(found, starts)
        wanted = np.where(highest > best[has], highest, np.inf)
        (ways,) = np.nonzero(found == np.repeat(wanted, known.number[has]))
        # Backwards, so that the first of several equally good choices wins.
        ways = ways[::-1]
        state = np.repeat(has, known.number[has])[ways]
        chosen[state] = known.choice[ways]
        values[0, state] = found[ways]
        values[1:, state] = after[1:, known.target[ways]]


def _runs(ways: Ways) -> tuple[Array, Array]:
    """Returns the states with at least one way, and the index of each such state's first way."""
    (has,) = np.nonzero(ways.number)
    ends = ways.number.cumsum(dtype=np.int64)
    return has, (ends - ways.number)[has]
