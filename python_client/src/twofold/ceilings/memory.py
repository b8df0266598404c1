"""What a player knows of a table of Concentration, as one row of numbers, and what it forgets."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Known(NamedTuple):
    """The knowledge of N players: one row for each, one column for each symbol.

    A bounded memory is a set of bits for each symbol: bit p is set where the card turned p-th most
    recently, of those remembered, has the symbol. With four cards of each symbol in play, after
    turning B, A, C and A again, whoever remembers three cards has

                   A      B      C
        in_play    4      4      4
        held     0b101  0b000  0b010

    An unbounded memory has the number of known cards instead: 2, 1, 1.
    """

    in_play: Array
    """int64 (N, symbols), cards in play, an open one included."""
    held: Array
    """int64 (N, symbols), the remembered ones, without an open one."""


class Memory:
    """A memory for the cards turned most recently.

    Args:
        capacity: The most cards; None for all.
        copies: Cards of each symbol in the deck.

    Attributes:
        capacity: The same.
    """

    def __init__(self, capacity: int | None, copies: int) -> None:
        self.capacity = capacity
        self._base = copies + 1 if capacity is None else 2**capacity

    def choices(self, symbols: int) -> int:
        """Number of ways to choose a remembered card: its place in the memory, or its symbol."""
        return symbols if self.capacity is None else self.capacity

    def count(self, held: Array) -> Array:
        """Number of remembered cards of each symbol."""
        if self.capacity is None:
            return held
        bits = np.arange(self.capacity)
        return np.asarray((held[..., None] >> bits & 1).sum(axis=-1))

    def take(self, held: Array, choice: int) -> tuple[Array, Array]:
        """Takes a remembered card out.

        Returns:
            The column of its symbol (N,), -1 where there is no such card; and what remains held.
        """
        held = held.copy()
        if self.capacity is None:
            has = held[:, choice] > 0
            held[has, choice] -= 1
            return np.where(has, choice, -1), held
        has_it = held >> choice & 1
        column = np.where(has_it.any(axis=1), has_it.argmax(axis=1), -1)
        newer, older = held & (1 << choice) - 1, held >> choice + 1
        return column, newer | older << choice

    def remember(self, held: Array, first: Array, second: Array) -> Array:
        """What is held after two cards, of the symbols in these columns, were turned in vain."""
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
        """The same knowledge as codes (N, symbols), equal up to the names of symbols.

        Args:
            known: The knowledge.
            opened: 1 if column 0 is the symbol of an open card, which stays first; else 0.
        """
        codes = known.in_play * self._base + known.held
        codes[:, opened:] = -np.sort(-codes[:, opened:], axis=1)
        return codes

    def unpack(self, codes: Array) -> Known:
        """The inverse of `pack`."""
        return Known(*np.divmod(codes, self._base))


class Numbering:
    """Consecutive numbers for rows of codes, in the order in which they are first met.

    Args:
        width: Columns of a row.

    Attributes:
        rows: int64 (numbers, width), the rows.
    """

    def __init__(self, width: int) -> None:
        self.rows: Array = np.empty((0, width), np.int64)
        # Odd factors for a hash; rows of equal hashes are compared.
        rng = np.random.default_rng(2048)
        self._factors = rng.integers(0, 2**63, width, np.uint64) * np.uint64(2) + np.uint64(1)
        self._hashes: Array = np.empty(0, np.uint64)
        self._numbers: Array = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self.rows)

    def find(self, rows: Array) -> Array:
        """The numbers (N,) of rows; -1 for a row that has none."""
        hashes = self._hash(rows)
        if not len(self):
            return np.full(len(rows), -1)
        at = np.minimum(np.searchsorted(self._hashes, hashes), len(self) - 1)
        numbers = self._numbers[at]
        is_it = (self._hashes[at] == hashes) & (self.rows[numbers] == rows).all(axis=1)
        return np.where(is_it, numbers, -1)

    def number(self, rows: Array) -> Array:
        """The numbers (N,) of rows; those that have none get the next ones."""
        numbers = self.find(rows)
        is_new = numbers < 0
        if is_new.any():
            hashes, first = np.unique(self._hash(rows[is_new]), return_index=True)
            numbers_of_new = np.arange(len(self), len(self) + len(first))
            at = np.searchsorted(self._hashes, hashes)
            self._hashes = np.insert(self._hashes, at, hashes)
            self._numbers = np.insert(self._numbers, at, numbers_of_new)
            self.rows = np.concatenate([self.rows, rows[is_new][first]])
            numbers[is_new] = self.find(rows[is_new])
            if (numbers < 0).any():
                raise RuntimeError("two rows have the same hash")
        return numbers

    def _hash(self, rows: Array) -> Array:
        hashes = np.zeros(len(rows), np.uint64)
        for column, factor in zip(rows.T, self._factors, strict=True):
            hashes = (hashes ^ column.astype(np.uint64)) * factor
            hashes ^= hashes >> np.uint64(29)
        return hashes
