"""Arrays that encode what a Concentration player knows about the cards."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Known(NamedTuple):
    """The knowledge of N players: a row for each player, and a column for each symbol.

    For a bounded memory, each element of `held` is a set of bits. Bit p is set if the p-th newest
    remembered card, counted from 0, has the column's symbol. In this example, each symbol has four
    cards in play, and a player that remembers three cards has flipped B, A, C and another A:

                   A      B      C
        in_play    4      4      4
        held     0b101  0b000  0b010

    For an unbounded memory, `held` contains the number of remembered cards per symbol: 2, 1, 1.
    """

    in_play: Array
    """int64 (N, symbols), the number of cards in play, including an open card."""
    held: Array
    """int64 (N, symbols), the remembered cards, encoded as above, excluding an open card."""


class Memory:
    """The encoding of a memory that keeps the most recently flipped cards.

    Args:
        capacity: The maximum number of remembered cards; None for all.
        copies: The number of cards of each symbol in the deck.

    Attributes:
        dtype: The smallest dtype that can hold a code from `pack`.
    """

    def __init__(self, capacity: int | None, copies: int) -> None:
        self.capacity = capacity
        self._base = copies + 1 if capacity is None else 2**capacity
        self.dtype = np.min_scalar_type((copies + 1) * self._base - 1)

    def count(self, held: Array) -> Array:
        """Returns the number of remembered cards of each symbol."""
        if self.capacity is None:
            return held
        number = np.zeros_like(held)
        for place in range(self.capacity):
            number += held >> place & 1
        return number

    def take(self, held: Array) -> tuple[Array, Array, Array, Array]:
        """Returns every way to take a remembered card out of the memory.

        Returns:
            Four arrays with an entry for each of the W ways, sorted by row. The first three are
            int64 (W,): the row of `held`, the choice, and the column of the card's symbol. The
            choice is the card's place in a bounded memory, or the column of its symbol in an
            unbounded one. The fourth array is `held` without the card, int64 (W, symbols).
        """
        if self.capacity is None:
            rows, column = np.nonzero(held)
            held = held[rows]
            held[np.arange(len(rows)), column] -= 1
            return rows, column, column, held
        places = np.bitwise_or.reduce(held, axis=1)[:, None] >> np.arange(self.capacity) & 1
        rows, place = np.nonzero(places)
        held, at = held[rows], place[:, None]
        column = (held >> at & 1).argmax(axis=1)
        newer = held & (1 << at) - 1
        return rows, place, column, newer | (held >> at + 1) << at

    def remember(self, held: Array, first: Array, second: Array) -> Array:
        """Returns `held` after a turn of two different symbols, given their columns (N,)."""
        rows = np.arange(len(held))
        if self.capacity is None:
            held = held.copy()
            held[rows, first] += 1
            held[rows, second] += 1
            return held
        held = held << 2
        held[rows, first] |= 2
        held[rows, second] |= 1
        return held & self._base - 1

    def pack(self, known: Known, opened: int = 0) -> Array:
        """Returns the knowledge as codes (N, symbols), with the columns of each row sorted.

        States that differ only in the names of their symbols have the same codes. `opened` is 1 if
        column 0 is the symbol of an open card and must stay first; else 0.
        """
        codes = (known.in_play * self._base + known.held).astype(self.dtype)
        codes[:, opened:].sort(axis=1)
        return codes

    def unpack(self, codes: Array) -> Known:
        """Decodes codes that `pack` returned. The columns remain sorted."""
        return Known(*np.divmod(codes.astype(np.int64), self._base))


class Numbering:
    """A table that gives each distinct row of codes a number: 0, 1, 2 and so on.

    Attributes:
        rows: (rows, width), the rows in the order of their numbers.
    """

    def __init__(self, width: int, dtype: np.dtype[Any]) -> None:
        self.rows: Array = np.empty((0, width), dtype)
        # The numbers in the order of the rows' keys.
        self._sorted: Array = np.empty(0, np.int32)

    def __len__(self) -> int:
        return len(self.rows)

    def find(self, rows: Array) -> Array:
        """Returns the number of each row, (N,), or -1 for a row that has no number."""
        return self._look_up(_keys(rows))[0]

    def number(self, rows: Array) -> Array:
        """Returns the number of each row, int32 (N,). Adds new rows with the next numbers."""
        keys, first, inverse = np.unique(_keys(rows), return_index=True, return_inverse=True)
        numbers, at = self._look_up(keys)
        (new,) = np.nonzero(numbers < 0)
        if len(new):
            numbers[new] = np.arange(len(self), len(self) + len(new))
            self._sorted = np.insert(self._sorted, at[new], numbers[new])
            self.rows = np.concatenate([self.rows, rows[first[new]]])
        return numbers[inverse]

    def _look_up(self, keys: Array) -> tuple[Array, Array]:
        """Returns the number of each key's row, or -1, and the key's place among the sorted."""
        if not len(self):
            return np.full(len(keys), -1, np.int32), np.zeros(len(keys), np.intp)
        known = _keys(self.rows)
        at = np.searchsorted(known, keys, sorter=self._sorted)
        numbers = self._sorted[np.minimum(at, len(self) - 1)]
        return np.where(known[numbers] == keys, numbers, np.int32(-1)), at


def _keys(rows: Array) -> Array:
    """Returns the rows as strings of bytes, (N,), which can be compared and sorted."""
    rows = np.ascontiguousarray(rows)
    return rows.view(f"S{rows.shape[1] * rows.itemsize}")[:, 0]
