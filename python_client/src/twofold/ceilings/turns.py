"""All states of Concentration for a player with limited memory, and all ways to play a turn."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from twofold.ceilings.memory import Array, Known, Memory, Numbering

_BATCH = 2**16
"""The maximum number of states explored or solved at once."""


class StepRewards(NamedTuple):
    """The reward of each kind of step. Illegal steps and peeks do not occur."""

    first: float
    """The reward of a turn's first card."""
    match: float
    """The reward of a pair that is not the last one."""
    last_match: float
    """The reward of the last pair."""
    mismatch: float
    """The reward of a second card that does not match the first."""


FIRST, MATCH, LAST_MATCH, MISMATCH = range(len(StepRewards._fields))


class Ways(NamedTuple):
    """Ways to flip a card, grouped by state: W ways in S states."""

    number: Array
    """uint8 (S,), the number of ways in each state."""
    target: Array
    """int32 (W,), the number of the next state."""
    kind: Array
    """uint8 (W,), the kind of the step, as an index into `StepRewards`."""
    weight: Array
    """uint8 (W,), the number of cards that can be flipped in this way: 1 for a remembered card.
    Otherwise, all forgotten cards of this symbol and of symbols with an identical column."""
    choice: Array
    """uint8 (W,), the choice, as in `Solution`: 0 for a forgotten card, else 1 + k."""


class Part(NamedTuple):
    """All ways to flip a card in some consecutive states."""

    states: slice
    """The numbers of the states."""
    unknown: Ways
    """The ways to flip a forgotten card, one for each distinct column of a state."""
    known: Ways
    """The ways to flip a remembered card, one for each choice."""


@dataclass(frozen=True)
class Game:
    """All reachable states of a game. Each state has a number.

    A state is a row of `Memory.pack`. A state with an open card has that card's symbol in column 0.
    State 0 of `begins` is the start of the game. States are sorted by the number of turns needed to
    reach them.

    Attributes:
        begins: The states at the beginning of a turn.
        opens: The states with an open card.
        first: The ways to flip the first card, which lead from `begins` to `opens`. Entry t covers
            the states that are reachable in t turns, but not in fewer.
        second: The ways to flip the second card, which lead from `opens` to `begins`. Entry t
            covers the states that can follow entry t of `first`, but no earlier entry.
    """

    memory: Memory
    begins: Numbering
    opens: Numbering
    first: Sequence[Sequence[Part]]
    second: Sequence[Sequence[Part]]


def explore(symbols: int, copies: int, capacity: int | None) -> Game:
    """Finds every reachable state.

    Args:
        symbols: The number of different symbols.
        copies: The number of cards of each symbol.
        capacity: The number of cards that the player remembers; None for all.
    """
    memory = Memory(capacity, copies)
    begins, opens = Numbering(symbols, memory.dtype), Numbering(symbols, memory.dtype)
    start = Known(np.full((1, symbols), copies), np.zeros((1, symbols), np.int64))
    begins.number(memory.pack(start))
    first: list[list[Part]] = []
    second: list[list[Part]] = []
    explored = opened = 0
    while explored < len(begins):
        new = _batches(explored, len(begins))
        explored = len(begins)
        first.append([_first(memory, some, begins, opens) for some in new])
        second.append(
            [_second(memory, some, opens, begins) for some in _batches(opened, len(opens))]
        )
        opened = len(opens)
    return Game(memory, begins, opens, first, second)


def _batches(start: int, end: int) -> Iterator[slice]:
    """Yields the states numbered start ... end - 1, in batches of `_BATCH`."""
    for first in range(start, end, _BATCH):
        yield slice(first, min(first + _BATCH, end))


def count_states(symbols: int, copies: int, capacity: int | None) -> int:
    """Returns the number of states at the beginning of a turn, including unreachable ones.

    Takes the arguments of `explore`.
    """
    pairs = copies // 2
    if capacity is None:
        # A state is a multiset of kinds: the number of a symbol's cards in play, 0, 2, 4 ..., and
        # the number of known cards among them.
        kinds = sum(2 * pair + 1 for pair in range(pairs + 1))
        return math.comb(symbols + kinds - 1, symbols)

    @functools.cache
    def memories(places: int, known: int) -> int:
        """Counts the states in which `known` symbols have `places` remembered cards in total.

        Each of these symbols has at least one remembered card.
        """
        if not places or not known:
            return int(places == known)
        # The sum is over the number of known cards of the newest card's symbol. The second factor
        # counts the possible numbers of that symbol's cards in play.
        return sum(
            math.comb(places - 1, cards - 1)
            * (pairs - (cards + 1) // 2 + 1)
            * memories(places - cards, known - 1)
            for cards in range(1, min(places, copies) + 1)
        )

    return sum(
        memories(places, known) * math.comb(symbols - known + pairs, pairs)
        for places in range(min(capacity, symbols * copies) + 1)
        for known in range(min(places, symbols) + 1)
    )


def _first(memory: Memory, states: slice, begins: Numbering, opens: Numbering) -> Part:
    """Returns every way to flip the first card of a turn."""
    known = memory.unpack(begins.rows[states])

    def step(before: Known, column: Array) -> tuple[Array, Array]:
        return opens.number(pack_opened(memory, before, column)), np.full(len(column), FIRST)

    return _part(memory, states, known, known.in_play - memory.count(known.held), 0, step)


def _second(memory: Memory, states: slice, opens: Numbering, begins: Numbering) -> Part:
    """Returns every way to flip the second card. A pair leaves play; other cards are remembered."""
    known = memory.unpack(opens.rows[states])

    def step(before: Known, column: Array) -> tuple[Array, Array]:
        match = np.where(before.in_play.sum(axis=1) == 2, LAST_MATCH, MATCH)
        kind = np.where(column == 0, match, MISMATCH)
        return begins.number(_ended(memory, before, column)), kind

    unseen = known.in_play - memory.count(known.held)
    unseen[:, 0] -= 1
    return _part(memory, states, known, unseen, 1, step)


def _part(
    memory: Memory,
    states: slice,
    known: Known,
    unseen: Array,
    opened: int,
    step: Callable[[Known, Array], tuple[Array, Array]],
) -> Part:
    """Returns every way to flip a card.

    Args:
        memory: The memory.
        states: The numbers of the states.
        known: The knowledge in each state.
        unseen: For each symbol, the number of face-down cards that are not remembered.
        opened: 1 if column 0 belongs to an open card's symbol, else 0.
        step: A function that returns the next states and the kinds of the steps. Its arguments are
            the knowledge without the flipped cards, and the columns of the cards' symbols.
    """

    def ways(rows: Array, held: Array, column: Array, weight: Array, choice: Array) -> Ways:
        target, kind = step(Known(known.in_play[rows], held), column)
        of_state = np.bincount(rows, minlength=len(unseen))
        number, *small = (array.astype(np.uint8) for array in (of_state, kind, weight, choice))
        return Ways(number, target, *small)

    for right in range(unseen.shape[1] - 1, opened, -1):
        left = right - 1
        is_same = known.in_play[:, left] == known.in_play[:, right]
        is_same &= known.held[:, left] == known.held[:, right]
        unseen[:, left] += np.where(is_same, unseen[:, right], 0)
        unseen[is_same, right] = 0
    rows, column = np.nonzero(unseen)
    unknown = ways(rows, known.held[rows], column, unseen[rows, column], np.zeros_like(rows))
    rows, choice, column, held = memory.take(known.held)
    return Part(states, unknown, ways(rows, held, column, np.ones_like(rows), choice + 1))


def pack_opened(memory: Memory, known: Known, column: Array) -> Array:
    """Returns the codes of states in which a card of the symbol in `column` is open."""
    rows, columns = np.ogrid[: len(column), : known.held.shape[1]]
    # The open card's symbol comes first, then the others in their order.
    order = np.where(columns == 0, column[:, None], columns - (columns <= column[:, None]))
    return memory.pack(Known(known.in_play[rows, order], known.held[rows, order]), opened=1)


def _ended(memory: Memory, known: Known, column: Array) -> Array:
    """Returns the codes of the states after the second card of a turn.

    The second card's symbol is in `column`, and the first card's symbol is in column 0.
    """
    is_match = column == 0
    in_play = known.in_play.copy()
    in_play[is_match, 0] -= 2
    after = memory.remember(known.held, np.zeros_like(column), column)
    held = np.where(is_match[:, None], known.held, after)
    return memory.pack(Known(in_play, held))
