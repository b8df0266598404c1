"""Every state of Concentration for a player with some memory, and every way to play a turn."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from twofold.ceilings.memory import Known, Memory, Numbering
from twofold.errors import InvalidArgument

Array = NDArray[Any]

MAX_STATES = 3_500_000
"""The largest number of states at the beginning of a turn; that many take 6 GB."""

_PART = 2**16
"""States that are explored at once."""


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


FIRST, MATCH, LAST_MATCH, MISMATCH = range(len(StepRewards._fields))


class Ways(NamedTuple):
    """Ways to turn a card, grouped by state: W ways in S states."""

    number: Array
    """uint8 (S,), the number of ways that each state has."""
    target: Array
    """int32 (W,), the state that follows."""
    kind: Array
    """uint8 (W,), the kind of the step, by its place in `StepRewards`."""
    weight: Array
    """uint8 (W,), for a forgotten card the number of forgotten cards of its symbol, with equal
    columns counted in the first; else 1."""
    choice: Array
    """uint8 (W,), 0 if the card is not remembered, else 1 and its number among the choices."""


class Half(NamedTuple):
    """The choices of one card of a turn, and the states that follow."""

    unknown: Ways
    """The ways to turn a forgotten card, an entry for each symbol."""
    known: Ways
    """The ways to turn a remembered card, all with probability 1."""


@dataclass(frozen=True)
class Game:
    """All states that can be reached, numbered.

    A state at the beginning of a turn is a row of `Memory.pack`; one with an open card has that
    card's symbol in column 0. State 0 of `begins` is the start. States are in the order of the
    turns that it takes to reach them.

    Attributes:
        memory: The memory.
        begins: The states at the beginning of a turn.
        opens: The states with an open card.
        first: From `begins` to `opens`.
        second: From `opens` to `begins`.
        reached: For 0, 1, 2 ... turns, the number of `begins` that these turns can reach, and of
            `opens` that can follow; the last entry has all.
        is_over: bool, for each of `begins`, whether all pairs are found.
    """

    memory: Memory
    begins: Numbering
    opens: Numbering
    first: Half
    second: Half
    reached: Sequence[tuple[int, int]]
    is_over: Array


def explore(symbols: int, copies: int, capacity: int | None) -> Game:
    """Finds every state.

    Args:
        symbols: Different symbols.
        copies: Cards of each.
        capacity: Cards that the player remembers; None for all.

    Raises:
        InvalidArgument: There are too many.
    """
    states = count_states(symbols, copies, capacity)
    if states > MAX_STATES:
        raise InvalidArgument(
            f"memory is {capacity}: the game has {states:,} states; expected a smaller memory or "
            f"deck, at most {MAX_STATES:,} states",
            field="memory",
        )
    memory = Memory(capacity, copies)
    begins, opens = Numbering(symbols, memory.dtype), Numbering(symbols, memory.dtype)
    start = Known(np.full((1, symbols), copies), np.zeros((1, symbols), np.int64))
    begins.number(memory.pack(start))
    firsts: list[Half] = []
    seconds: list[Half] = []
    reached: list[tuple[int, int]] = [(0, 0)]
    while len(begins) > reached[-1][0]:
        with_begins = len(begins)
        for codes in _parts(begins, reached[-1][0]):
            firsts.append(_first(memory, memory.unpack(codes), opens))
        for codes in _parts(opens, reached[-1][1]):
            seconds.append(_second(memory, memory.unpack(codes), begins))
        reached.append((with_begins, len(opens)))
    return Game(
        memory,
        begins,
        opens,
        _joined(firsts),
        _joined(seconds),
        reached[1:],
        np.logical_not(begins.rows.any(axis=1)),
    )


def _parts(states: Numbering, start: int) -> Iterator[Array]:
    """Yields the rows of the states that are there now, from a number on."""
    end = len(states)
    for first in range(start, end, _PART):
        yield states.rows[first : min(first + _PART, end)]


def count_states(symbols: int, copies: int, capacity: int | None) -> int:
    """Returns the number of different states at the beginning of a turn, if all can be reached.

    Args:
        symbols: Different symbols.
        copies: Cards of each.
        capacity: Cards that the player remembers; None for all.
    """
    pairs = copies // 2
    if capacity is None:
        # A multiset of kinds; a kind is a number of cards in play, 0, 2, 4 ..., and of known ones.
        kinds = sum(2 * pair + 1 for pair in range(pairs + 1))
        return math.comb(symbols + kinds - 1, symbols)

    @functools.cache
    def memories(places: int, known: int) -> int:
        """Counts memories of `known` cards and `places` symbols, with the cards in play of each."""
        if not places or not known:
            return int(places == known)
        # The number of known cards of the newest card's symbol, and its choices in play.
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


def _first(memory: Memory, known: Known, opens: Numbering) -> Half:
    """Turns the first card of a turn."""

    def step(before: Known, column: Array) -> tuple[Array, Array]:
        return opens.number(pack_opened(memory, before, column)), np.full(len(column), FIRST)

    return _half(memory, known, known.in_play - memory.count(known.held), 0, step)


def _second(memory: Memory, known: Known, begins: Numbering) -> Half:
    """Turns the second card: a pair leaves play, or both are remembered as the newest."""

    def step(before: Known, column: Array) -> tuple[Array, Array]:
        match = np.where(before.in_play.sum(axis=1) == 2, LAST_MATCH, MATCH)
        kind = np.where(column == 0, match, MISMATCH)
        return begins.number(_ended(memory, before, column)), kind

    unseen = known.in_play - memory.count(known.held)
    unseen[:, 0] -= 1
    return _half(memory, known, unseen, 1, step)


def _half(
    memory: Memory,
    known: Known,
    unseen: Array,
    opened: int,
    step: Callable[[Known, Array], tuple[Array, Array]],
) -> Half:
    """Returns every way to turn a card.

    Args:
        memory: The memory.
        known: The knowledge in each state.
        unseen: For each symbol, the number of face-down cards that are not remembered.
        opened: 1 if column 0 is the symbol of an open card, else 0.
        step: Returns the next states and the kinds of the steps, from the knowledge without the
            turned cards and the columns of their symbols.
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
    return Half(unknown, ways(rows, held, column, np.ones_like(rows), choice + 1))


def _joined(halves: Sequence[Half]) -> Half:
    """Returns the choices in all of these states, one after another."""
    unknown, known = zip(*halves, strict=True)
    return Half(*(Ways(*map(np.concatenate, zip(*ways, strict=True))) for ways in (unknown, known)))


def pack_opened(memory: Memory, known: Known, column: Array) -> Array:
    """Returns the codes of states in which a card of the symbol in this column lies open."""
    rows, columns = np.ogrid[: len(column), : known.held.shape[1]]
    # The open card's symbol first, then the others in their order.
    order = np.where(columns == 0, column[:, None], columns - (columns <= column[:, None]))
    return memory.pack(Known(known.in_play[rows, order], known.held[rows, order]), opened=1)


def _ended(memory: Memory, known: Known, column: Array) -> Array:
    """Returns the codes after a second card of this column's symbol; column 0 has the first's."""
    is_match = column == 0
    in_play = known.in_play.copy()
    in_play[is_match, 0] -= 2
    after = memory.remember(known.held, np.zeros_like(column), column)
    held = np.where(is_match[:, None], known.held, after)
    return memory.pack(Known(in_play, held))
