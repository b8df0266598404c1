"""Exact expected values for Concentration, as fractions, computed without the server's rules."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache


def decks(pairs: int) -> list[tuple[int, ...]]:
    """Returns every deck with `pairs` pairs. All decks are equally likely."""

    def extend(left: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if not any(left):
            yield ()
        for symbol, count in enumerate(left):
            if count:
                rest = (*left[:symbol], count - 1, *left[symbol + 1 :])
                yield from ((symbol, *deck) for deck in extend(rest))

    return list(extend((2,) * pairs))


def random_turns(pairs: int) -> tuple[Fraction, Fraction]:
    """Returns the mean and variance of a game's number of turns under random play.

    Random play turns random face-down cards. With m pairs left, a turn finds a pair with
    probability 1 / (2 m - 1), regardless of the past. The number of turns is therefore a sum of
    independent geometric variables, and its mean is the square of `pairs`.
    """
    chances = [Fraction(1, 2 * m - 1) for m in range(1, pairs + 1)]
    mean = sum((1 / p for p in chances), Fraction(0))
    variance = sum(((1 - p) / p**2 for p in chances), Fraction(0))
    return mean, variance


@cache
def fewest_turns(single: int, paired: int, unseen: int) -> Fraction:
    """Returns the lowest expected number of turns for a player who remembers all seen cards.

    Args:
        single: The number of seen cards whose mates are unseen.
        paired: The number of pairs whose cards are both seen.
        unseen: The number of unseen cards, including the mates of `single`.
    """
    if not (single or paired or unseen):
        return Fraction(0)
    return 1 + min(after_turns(single, paired, unseen))


def after_turns(k: int, p: int, u: int) -> Iterator[Fraction]:
    """Yields the expected number of later turns, for each reasonable way to play this turn."""
    if p:  # a known pair
        yield fewest_turns(k, p - 1, u)
    if k and u:  # a known card, then an unseen one
        yield (
            Fraction(1, u) * fewest_turns(k - 1, p, u - 1)
            + (Fraction(k - 1, u) * fewest_turns(k - 1, p + 1, u - 1) if k > 1 else 0)
            + (Fraction(u - k, u) * fewest_turns(k + 1, p, u - 1) if u > k else 0)
        )
    if u:  # an unseen card, then the best second one
        known = fewest_turns(k - 1, p, u - 1) if k else Fraction(0)
        new = min(second_cards(k, p, u)) if u > k else Fraction(0)
        yield Fraction(k, u) * known + Fraction(u - k, u) * new


def second_cards(k: int, p: int, u: int) -> Iterator[Fraction]:
    """Yields the expected number of later turns, for each choice of this turn's second card.

    The first card was unseen before the turn, and its mate is still unseen.
    """
    yield (
        Fraction(1, u - 1) * fewest_turns(k, p, u - 2)
        + (Fraction(k, u - 1) * fewest_turns(k, p + 1, u - 2) if k else 0)
        + (Fraction(u - 2 - k, u - 1) * fewest_turns(k + 2, p, u - 2) if u - 2 > k else 0)
    )
    if k or p:  # a card that is known already
        yield fewest_turns(k + 1, p, u - 1)


# A player who remembers only some cards. Unlike in twofold.ceilings, nothing is counted, sorted or
# renamed: a state lists the symbols of the remembered cards, newest first.

Rewards = tuple[Fraction, Fraction, Fraction, Fraction]
"""The rewards for a turn's first card, for a pair, for the last pair, and for different cards."""


def best_return(
    alike: tuple[int, ...],
    newest: tuple[int, ...],
    memory: int,
    steps: int,
    rewards: Rewards,
) -> Fraction:
    """Returns the highest expected return at the beginning of a turn.

    Args:
        alike: The number of cards of each symbol that are in play and not remembered.
        newest: The symbols of the remembered cards, newest first.
        memory: The number of cards that the player can remember.
        steps: The number of steps left.
        rewards: The rewards of the environment.
    """

    # The tables of this memory and these rewards, which are not hashed again for each state.
    @cache
    def best_first(alike: tuple[int, ...], newest: tuple[int, ...], steps: int) -> Fraction:
        if steps == 0 or not (any(alike) or newest):
            return Fraction(0)

        def after(symbol: int, alike: tuple[int, ...], newest: tuple[int, ...]) -> Fraction:
            if steps == 1:
                return rewards[0]
            return rewards[0] + best_second(symbol, alike, newest, steps - 1)

        return max(_each_card(alike, newest, after))

    @cache
    def best_second(
        first: int, alike: tuple[int, ...], newest: tuple[int, ...], steps: int
    ) -> Fraction:
        def after(symbol: int, alike: tuple[int, ...], newest: tuple[int, ...]) -> Fraction:
            if symbol == first:
                is_last = not (any(alike) or newest)
                rest = best_first(alike, newest, steps - 1)
                return rewards[2 if is_last else 1] + rest
            kept = [symbol, first, *newest]
            counts = list(alike)
            while len(kept) > memory:
                counts[kept.pop()] += 1
            return rewards[3] + best_first(tuple(counts), tuple(kept), steps - 1)

        return max(_each_card(alike, newest, after))

    return best_first(alike, newest, steps)


def _each_card(
    alike: tuple[int, ...],
    newest: tuple[int, ...],
    after: Callable[[int, tuple[int, ...], tuple[int, ...]], Fraction],
) -> Iterator[Fraction]:
    """Yields the expected return of each choice: a random forgotten card, or a remembered card."""
    if any(alike):
        total = Fraction(0)
        for symbol, count in enumerate(alike):
            if count:
                rest = (*alike[:symbol], count - 1, *alike[symbol + 1 :])
                total += count * after(symbol, rest, newest)
        yield total / sum(alike)
    for place, symbol in enumerate(newest):
        yield after(symbol, alike, newest[:place] + newest[place + 1 :])
