"""The best possible results in Concentration with any memory: exact expectations."""

from __future__ import annotations

import collections
import weakref
from dataclasses import dataclass
from typing import Any

from typing_extensions import Unpack

from twofold import _arguments
from twofold.ceilings.solution import Solution, solve
from twofold.ceilings.turns import StepRewards, explore
from twofold.errors import InvalidArgument
from twofold.games.concentration import Concentration, ConcentrationArguments


@dataclass(frozen=True)
class Ceiling:
    """The results of the best play, averaged over all decks.

    Attributes:
        mean_return: The expected sum of an episode's rewards.
        mean_length: The expected number of steps.
        mean_turns: The expected number of turns, each of two steps.
        cleared: The probability of finding all pairs, 1 without a limit of steps.
    """

    mean_return: float
    mean_length: float
    mean_turns: float
    cleared: float


def concentration(
    *, memory: int | None = None, **arguments: Unpack[ConcentrationArguments]
) -> Ceiling:
    """Returns the exact ceiling of Concentration for a player with some memory.

        twofold.ceilings.concentration(preset="popgym-hard", memory=4).mean_return  # 0.0466
        twofold.ceilings.concentration(size=(4, 13), peeks=0).mean_turns            # 41.44

    The player knows the deck, the steps left and the symbols of all found pairs. It also remembers
    the place and symbol of the `memory` face-down cards that it turned most recently. In detail:

    - An open card is in view and takes no room. Two cards that are not a pair become the newest,
      the second newer than the first. Beyond `memory` cards, the player forgets the oldest for
      good. A card turned again is the newest again. A found pair leaves room.
    - Forgotten face-down cards are all alike: the player can turn one of them at random, but not
      "the next one", since places would be a memory as well.
    - The player turns face-down cards only and never peeks, so `peeks` makes no difference.

    Dynamic programming over all such states maximises the return, without rounding rewards to
    float32. Relative errors are about 1e-12. Small memories take seconds. A game close to the
    limit of 3,500,000 states, such as "popgym-hard" with a memory of 8 cards, takes minutes and
    6 GB.

    Args:
        memory: Number of cards, 0 or more; None for all cards.
        **arguments: The game, as for the environment.

    Raises:
        InvalidArgument: An argument is wrong, or the game has too many states with that memory. Or
            the player need not find pairs, since without a limit of steps a failed turn is free.
    """
    game = Concentration.of(**arguments)
    found = best_play(game, memory)
    mean_return, turns, cleared = found.expected
    steps = game.request.max_episode_steps
    # With an odd limit, a single card is turned at the end.
    length = 2 * turns + (1 - cleared if steps % 2 else 0)
    return Ceiling(mean_return, length, turns, cleared)


def best_play(game: Concentration, memory: int | None) -> Solution:
    """Returns the best choices in every state; see `concentration`. Small results are cached.

    Raises:
        InvalidArgument: See `concentration`.
    """
    capacity = None if memory is None else _arguments.integer("memory", memory, 0)
    # With a single symbol each turn finds a pair, with any memory.
    if capacity is not None and (capacity >= game.cards or game.symbols == 1):
        capacity = None
    rewards, max_steps = _step_rewards(game), game.request.max_episode_steps or None
    if max_steps is None and rewards.first + rewards.mismatch >= 0:
        raise InvalidArgument(
            "reward pays or costs nothing for a turn without a pair, and max_episode_steps is "
            "None; expected a limit, or such turns to cost something",
            field="reward",
        )
    if max_steps is not None and max_steps > _MAX_STEPS:
        raise InvalidArgument(
            f"max_episode_steps is {max_steps}; ceilings take at most {_MAX_STEPS:,}, or None",
            field="max_episode_steps",
        )
    return _solved(game.symbols, game.cards // game.symbols, capacity, rewards, max_steps)


# The choices of each turn take memory.
_MAX_STEPS = 1_000_000
# Solutions in use, and the last two small ones. A solution takes half a kilobyte for each state.
_KEPT_STATES = 100_000
_in_use: weakref.WeakValueDictionary[tuple[Any, ...], Solution] = weakref.WeakValueDictionary()
_kept: collections.deque[Solution] = collections.deque(maxlen=2)


def _solved(
    symbols: int, copies: int, capacity: int | None, rewards: StepRewards, max_steps: int | None
) -> Solution:
    key = symbols, copies, capacity, rewards, max_steps
    found = _in_use.get(key)
    if found is None:
        found = _in_use[key] = solve(explore(symbols, copies, capacity), rewards, max_steps)
        if len(found.begins) <= _KEPT_STATES:
            _kept.append(found)
    return found


# The terms that a legal turn without peeks can have, the terms that it never has, and the
# service's default weights.
_TERMS = ("match", "mismatch", "cleared", "survival")
_ABSENT = ("face_up_touch", "peek")
_DEFAULT = {"match": 1.0, "mismatch": -0.1}


def _step_rewards(game: Concentration) -> StepRewards:
    """Returns the rewards of the four kinds of steps, by the page "Rewards"."""
    spec = game.request.reward if game.request.HasField("reward") else None
    weights = dict.fromkeys(_TERMS, 0.0)
    if spec is None:
        weights |= _DEFAULT
    else:
        for term in spec.terms:
            if term.name in weights:
                weights[term.name] += term.weight if term.HasField("weight") else 1.0
            elif term.name not in _ABSENT:
                known = ", ".join((*_TERMS, *_ABSENT))
                raise InvalidArgument(
                    f"reward has the term {term.name!r}; expected {known}", field="reward"
                )

    def reward(*terms: str) -> float:
        total = sum(weights[term] for term in terms)
        if spec is not None:
            total *= spec.scale if spec.HasField("scale") else 1.0
            total = max(total, spec.clip_low) if spec.HasField("clip_low") else total
            total = min(total, spec.clip_high) if spec.HasField("clip_high") else total
        return total

    return StepRewards(
        first=reward("survival"),
        match=reward("match", "survival"),
        last_match=reward("match", "cleared"),
        mismatch=reward("mismatch", "survival"),
    )
