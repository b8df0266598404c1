"""Exact expected results of optimal play without peeks in Concentration, for any memory size."""

from __future__ import annotations

import collections
import math
import weakref
from dataclasses import dataclass
from typing import Any

from typing_extensions import Unpack

from twofold import _arguments
from twofold.ceilings.solution import Solution, solve
from twofold.ceilings.turns import StepRewards, count_states, explore
from twofold.errors import InvalidArgument
from twofold.games.concentration import Concentration, ConcentrationArguments
from twofold.games.rewards import reward_spec


@dataclass(frozen=True)
class Ceiling:
    """The expected results of optimal play without peeks in Concentration, over all shuffles.

    Attributes:
        mean_return: The expected sum of an episode's rewards.
        mean_length: The expected number of steps.
        mean_turns: The expected number of turns. A turn has two steps.
        cleared: The probability that the player finds all pairs. It is 1 without a step limit.
    """

    mean_return: float
    mean_length: float
    mean_turns: float
    cleared: float


def concentration(
    *, memory: int | None = None, **arguments: Unpack[ConcentrationArguments]
) -> Ceiling:
    """Returns the exact expected results of optimal play in Concentration without peeks.

        twofold.ceilings.concentration(preset="popgym-hard", memory=4).mean_return  # 0.0466
        twofold.ceilings.concentration(size=(4, 13), peeks=0).mean_turns            # 41.44

    The player knows which symbols are in the deck, the number of steps left and the symbols of all
    found pairs. It also remembers the place and the symbol of the `memory` face-down cards that it
    flipped most recently. In detail:

    - An open card is visible and takes no memory. After a turn without a pair, its two cards become
      the newest in memory, the second newer than the first. If there are more than `memory` cards,
      the player forgets the oldest. A card that is flipped again becomes the newest again. Found
      pairs take no memory.
    - The player can't distinguish forgotten face-down cards. It can flip a random one, but can't
      flip them in order, because remembering positions would also take memory.
    - The player flips only face-down cards and never peeks, so `peeks` has no effect. A player who
      peeks can do better, for example in the default game on 6 x 6 cards.

    Dynamic programming over all such states maximises the return, without rounding rewards to
    float32. Relative errors are about 1e-12. Small memories take seconds. A game close to the
    limit of 3,500,000 states, such as "popgym-hard" with a memory of 8 cards, takes minutes and
    4 GB.

    Args:
        memory: The number of remembered cards, 0 or more; None for all cards.
        **arguments: The arguments of the Concentration environment, which define the game.

    Raises:
        TypeError: An argument is unknown, or does not belong to the game.
        InvalidArgument: An argument is invalid, the game has too many states with this memory, or
            an optimal player could play forever. The last case needs a game without a step limit in
            which a turn without a pair costs nothing, or at most 1e-12 of the largest reward.
    """
    game, others = Concentration.split(arguments)
    for name in others:
        raise TypeError(
            f"concentration got an unexpected keyword argument {name!r}; expected memory or "
            f"{', '.join(game.known_arguments)}"
        )
    found = best_play(game, memory)
    mean_return, turns, cleared = found.expected
    steps = game.request.max_episode_steps
    # With an odd step limit, a single card is flipped at the end.
    length = 2 * turns + (1 - cleared if steps % 2 else 0)
    return Ceiling(mean_return, length, turns, cleared)


def best_play(game: Concentration, memory: int | None, name: str = "memory") -> Solution:
    """Returns the optimal choices in all states; see `concentration`. Caches small solutions.

    `name` is the caller's name for `memory`.
    """
    capacity = None if memory is None else _arguments.integer(name, memory, 0)
    # With a single symbol, each turn finds a pair, even without memory.
    if capacity is not None and (capacity >= game.cards or game.symbols == 1):
        capacity = None
    rewards, max_steps = _step_rewards(game), game.request.max_episode_steps or None
    cost = 0.0 - (rewards.first + rewards.mismatch)  # a minus sign would turn 0 into -0
    if max_steps is None and cost <= _MIN_COST * max(map(abs, rewards)):
        raise InvalidArgument(
            f"a turn without a pair costs {cost:g}, and max_episode_steps is None; pass a limit, "
            f"or a penalty for such turns of more than {_MIN_COST:g} times the largest reward",
            field="reward",
        )
    if max_steps is not None and max_steps > _MAX_STEPS:
        raise _arguments.wrong("max_episode_steps", max_steps, f"at most {_MAX_STEPS:,}, or None")
    copies = game.cards // game.symbols
    states = count_states(game.symbols, copies, capacity)
    if states > _MAX_STATES:
        raise InvalidArgument(
            f"{name} is {capacity}, which gives the game {states:,} states; expected at most "
            f"{_MAX_STATES:,}: pass a smaller {name} or deck",
            field=name,
        )
    return _solved(game.symbols, copies, capacity, rewards, max_steps)


# The largest number of states at the beginning of a turn; that many take 4 GB.
_MAX_STATES = 3_500_000
# A smaller cost of a turn, as a fraction of the largest reward, could be lost in rounding.
_MIN_COST = 1e-12
# The limit exists because a solution keeps the choices of each turn.
_MAX_STEPS = 1_000_000
# The cache keeps solutions in use and the last two small ones. Each state takes half a kilobyte.
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


# The reward's terms that legal turns without peeks can have, the terms that they never have, and
# the service's default weights.
_TERMS = ("match", "mismatch", "cleared", "survival")
_ABSENT = ("face_up_touch", "peek")
_DEFAULT = {"match": 1.0, "mismatch": -0.1}


def _step_rewards(game: Concentration) -> StepRewards:
    """Returns the rewards of the four kinds of steps. See the page "Rewards"."""
    spec = game.request.reward if game.request.HasField("reward") else reward_spec(_DEFAULT)
    assert spec is not None
    # No service may be available here to refuse the reward.
    if not spec.terms:
        raise InvalidArgument("the reward has no terms; expected at least one", field="reward")
    low = spec.clip_low if spec.HasField("clip_low") else -math.inf
    high = spec.clip_high if spec.HasField("clip_high") else math.inf
    if low > high:
        raise _arguments.wrong("reward.clip", (low, high), "a lower bound up to the upper bound")
    weights = dict.fromkeys((*_TERMS, *_ABSENT), 0.0)
    for term in spec.terms:
        if term.name not in weights:
            known = ", ".join(weights)
            raise InvalidArgument(
                f"reward contains the term {term.name!r}; expected {known}",
                field=f"reward.{term.name}",
            )
        for parameter in term.parameters:
            raise InvalidArgument(
                f"{term.name} takes no {parameter.name!r}; expected only a weight",
                field=f"reward.{term.name}.{parameter.name}",
            )
        weights[term.name] += term.weight if term.HasField("weight") else 1.0

    def reward(*terms: str) -> float:
        total = sum(weights[term] for term in terms)
        total *= spec.scale if spec.HasField("scale") else 1.0
        return min(max(total, low), high)

    return StepRewards(
        first=reward("survival"),
        match=reward("match", "survival"),
        last_match=reward("match", "cleared"),
        mismatch=reward("mismatch", "survival"),
    )
