"""Every state of Concentration for a player with some memory, and every way to play a turn."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from twofold.ceilings.memory import Known, Memory, Numbering
from twofold.errors import InvalidArgument

Array = NDArray[Any]

MAX_STATES = 2**19
"""States at the beginning of a turn, beyond which a game counts as too large."""


class Ways(NamedTuple):
    """Ways to turn a card, one entry for each and each of the states that has it."""

    state: Array
    """int32, the state, ascending."""
    target: Array
    """int32, the state that follows."""
    is_match: Array
    """bool, whether the card matches the open one."""
    chance: Array
    """float64, the probability of the card's symbol, if the card is not remembered; equal columns
    have theirs in the first."""
    choice: Array
    """int8, 0 if the card is not remembered, else 1 and its number among the choices."""


class Half(NamedTuple):
    """The choices of one card of a turn, and where they lead."""

    unknown: Ways
    """Of a card that is not remembered, an entry for each symbol."""
    known: Ways
    """Of the remembered cards, all with probability 1."""


@dataclass(frozen=True)
class Game:
    """All states that can be reached, numbered.

    A state at the beginning of a turn is a row of `Memory.pack`; one with an open card has that
    card's symbol in column 0. State 0 of `begins` is the start.

    Attributes:
        memory: The memory.
        begins: The states at the beginning of a turn.
        opens: The states with an open card.
        first: From `begins` to `opens`.
        second: From `opens` to `begins`.
        left: int64, the number of cards in play for each of `begins`.
        is_last: bool, for each of `opens`, whether only one pair is in play.
    """

    memory: Memory
    begins: Numbering
    opens: Numbering
    first: Half
    second: Half
    left: Array
    is_last: Array


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
    begins, opens = Numbering(symbols), Numbering(symbols)
    start = Known(np.full((1, symbols), copies), np.zeros((1, symbols), np.int64))
    begins.number(memory.pack(start))
    firsts: list[Half] = []
    seconds: list[Half] = []
    explored_begins = explored_opens = 0
    while explored_begins < len(begins):
        known, offset = memory.unpack(begins.rows[explored_begins:]), explored_begins
        explored_begins = len(begins)
        firsts.append(_first(memory, known, offset, opens))
        known, offset = memory.unpack(opens.rows[explored_opens:]), explored_opens
        explored_opens = len(opens)
        seconds.append(_second(memory, known, offset, begins))
    return Game(
        memory,
        begins,
        opens,
        Half(*map(_joined, zip(*firsts, strict=True))),
        Half(*map(_joined, zip(*seconds, strict=True))),
        memory.unpack(begins.rows).in_play.sum(axis=1),
        memory.unpack(opens.rows).in_play.sum(axis=1) == 2,
    )


def count_states(symbols: int, copies: int, capacity: int | None) -> int:
    """The number of different states at the beginning of a turn, if all can be reached.

    Args:
        symbols: Different symbols.
        copies: Cards of each.
        capacity: Cards that the player remembers; None for all.
    """
    pairs = copies // 2
    if capacity is None:
        # A multiset of kinds: so many cards in play, 0, 2, 4 ..., and so many of them known.
        kinds = sum(2 * pair + 1 for pair in range(pairs + 1))
        return math.comb(symbols + kinds - 1, symbols)

    @functools.cache
    def memories(places: int, known: int) -> int:
        """Memories of so many cards of so many symbols, with the numbers of these in play."""
        if not places or not known:
            return int(places == known)
        # So many cards of the newest card's symbol, and how many of it may be in play.
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


def _first(memory: Memory, known: Known, offset: int, opens: Numbering) -> Half:
    """Turns the first card of a turn, in states that are numbered from `offset` on."""
    unseen = known.in_play - memory.count(known.held)

    def next_state(before: Known, column: Array) -> Array:
        return opens.number(pack_opened(memory, before, column))

    return _half(memory, known, _chances(unseen, known, 0), offset, next_state, None)


def _second(memory: Memory, known: Known, offset: int, begins: Numbering) -> Half:
    """Turns the second card: a pair leaves play, or both are remembered as the newest."""
    unseen = known.in_play - memory.count(known.held)
    unseen[:, 0] -= 1

    def next_state(before: Known, column: Array) -> Array:
        return begins.number(_ended(memory, before, column))

    return _half(memory, known, _chances(unseen, known, 1), offset, next_state, 0)


def _half(
    memory: Memory,
    known: Known,
    chance: Array,
    offset: int,
    next_state: Callable[[Known, Array], Array],
    match: int | None,
) -> Half:
    """Every way to turn a card; one of the symbol in the column `match` matches."""

    def ways(rows: Array, column: Array, held: Array, chance: Array, choice: int) -> Ways:
        return Ways(
            (rows + offset).astype(np.int32),
            next_state(Known(known.in_play[rows], held), column).astype(np.int32),
            column == match,
            chance,
            np.full(len(rows), choice, np.int8),
        )

    symbols = known.in_play.shape[1]
    unknown_ways, known_ways = [], []
    for column in range(symbols):
        rows = np.flatnonzero(chance[:, column])
        columns = np.full(len(rows), column)
        unknown_ways.append(ways(rows, columns, known.held[rows], chance[rows, column], 0))
    for choice in range(memory.choices(symbols)):
        columns, held = memory.take(known.held, choice)
        rows = np.flatnonzero(columns >= 0)
        certain = np.ones(len(rows))
        known_ways.append(ways(rows, columns[rows], held[rows], certain, choice + 1))
    return Half(_sorted(unknown_ways), _sorted(known_ways))


def _sorted(parts: Sequence[Ways]) -> Ways:
    """Ways of the same states, by states."""
    joined = _joined(parts)
    order = joined.state.argsort(kind="stable")
    return Ways(*(array[order] for array in joined))


def _joined(parts: Sequence[Ways]) -> Ways:
    if not parts:  # nothing is remembered
        none = np.empty(0, np.int32)
        return Ways(none, none, none.astype(np.bool_), none.astype(np.float64), none)
    return Ways(*map(np.concatenate, zip(*parts, strict=True)))


def _chances(unseen: Array, known: Known, opened: int) -> Array:
    """The probability of each column, summed up in the first of equal columns."""
    total = np.maximum(unseen.sum(axis=1, keepdims=True), 1)
    chance = np.asarray(unseen / total)
    for column in range(unseen.shape[1] - 1, opened, -1):
        is_same = (known.in_play[:, column] == known.in_play[:, column - 1]) & (
            known.held[:, column] == known.held[:, column - 1]
        )
        chance[:, column - 1] += np.where(is_same, chance[:, column], 0)
        chance[is_same, column] = 0
    return chance


def pack_opened(memory: Memory, known: Known, column: Array) -> Array:
    """The codes of states in which a card of the symbol in this column lies open."""
    rows, columns = np.ogrid[: len(column), : known.held.shape[1]]
    # The open card's symbol first, then the others in their order.
    order = np.where(columns == 0, column[:, None], columns - (columns <= column[:, None]))
    return memory.pack(Known(known.in_play[rows, order], known.held[rows, order]), opened=1)


def _ended(memory: Memory, known: Known, column: Array) -> Array:
    """The codes after a second card of the symbol in this column; the open one's is in column 0."""
    is_match = column == 0
    in_play = known.in_play.copy()
    in_play[is_match, 0] -= 2
    after = memory.remember(known.held, np.zeros_like(column), column)
    held = np.where(is_match[:, None], known.held, after)
    return memory.pack(Known(in_play, held))
