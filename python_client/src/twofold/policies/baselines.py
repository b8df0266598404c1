"""Baseline policies: random legal actions, the first legal action, and a perfect memory."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from twofold.errors import InvalidArgument
from twofold.games.concentration import Concentration
from twofold.games.spec import GameSpec


class RandomPolicy:
    """A policy that plays uniformly random legal actions, drawn from its own numpy generator."""

    card: Mapping[str, Any] = {
        "search_max_layers": 0,
        "symmetry_averaging": False,
        "weights_mb": 0.0,
        "threads": 1,
    }

    def __init__(self, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)

    def __call__(self, observations: Any, action_mask: NDArray[Any]) -> NDArray[Any]:
        """Returns actions (K,), one for each row of action_mask (K, number of actions)."""
        chances = self._rng.random(action_mask.shape, np.float32)
        # A legal action may get the number 0.
        return np.asarray(np.where(action_mask, chances, -1).argmax(axis=1))


class FixedOrderPolicy:
    """A policy that plays the first legal action.

    In 2048, it tries up, right, down and left, in this order, regardless of their numbers.

    Raises:
        InvalidArgument: The policy's episodes would never end.
    """

    card: Mapping[str, Any] = RandomPolicy.card

    def __init__(self, envs: Any) -> None:
        game = GameSpec.played_by(envs)
        self._actions: NDArray[Any] | None = None
        if game is None:
            return
        if game.endless is not None and not game.request.HasField("max_episode_steps"):
            raise InvalidArgument(
                f"fixed-order {game.endless} forever; pass max_episode_steps",
                field="max_episode_steps",
            )
        if game.server_actions is not None:
            self._actions = game.from_server(np.arange(len(game.actions)))

    def __call__(self, observations: Any, action_mask: NDArray[Any]) -> NDArray[Any]:
        """Returns actions (K,), one for each row of action_mask (K, number of actions)."""
        if self._actions is None:
            return np.asarray(action_mask.argmax(axis=1))
        return np.asarray(self._actions[action_mask[:, self._actions].argmax(axis=1)])


class CardPlayer(abc.ABC):
    """The base class of policies that remember games of Concentration. It decodes observations."""

    card: Mapping[str, Any] = {"search_max_layers": 0, "weights_mb": 0.0, "threads": 1}

    def __init__(self, envs: Any) -> None:
        game = Concentration.played_by(envs)
        if game is None:
            raise InvalidArgument(
                f"envs is {envs}; expected a Concentration environment, such as "
                "twofold/Concentration-v0 (--env on the command line)",
                field="envs",
            )
        form = envs.unwrapped.observation_form
        if form.form != "array":
            raise InvalidArgument(
                f"envs has obs={form.form!r}; expected obs='array' or obs='dict'", field="envs"
            )
        self._is_batch = isinstance(envs.unwrapped, VectorEnv)
        self._key = None if form.keys is None else form.keys[0]
        self.game, self.num_envs = game, int(envs.num_envs) if self._is_batch else 1

    def __call__(self, observations: Any, action_mask: Any) -> Any:
        """Returns the next action of each game.

        Args:
            observations: The observations of all games from the last reset or step.
            action_mask: The action mask from the infos of the same reset or step.

        Returns:
            Actions int64 (N,); an int for a single environment.

        Raises:
            InvalidArgument: A `LastKMemory` did not see a game's start; `lane` is the game's lane.
        """
        if self._key is not None:
            observations = observations[self._key]
        cards = self.game.cards
        table = np.asarray(observations).reshape(self.num_envs, -1)[:, :cards]
        mask = np.asarray(action_mask).reshape(self.num_envs, -1)[:, :cards]
        self.reset((table == self.game.symbols).all(axis=1))
        chosen = self._choose(table, mask == 1)
        return chosen if self._is_batch else int(chosen[0])

    @abc.abstractmethod
    def reset(self, lanes: NDArray[np.bool_]) -> None:
        """Forgets the games of these lanes, bool (N,)."""

    @abc.abstractmethod
    def _choose(self, table: NDArray[Any], playable: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Returns the next actions, (N,).

        `table` contains each game's cards, (N, cards). `playable` is a mask of the cards that may
        be flipped.
        """


class PerfectMemory(CardPlayer):
    """A `PolicyWithMemory` that remembers each card that it has seen, and never peeks.

        policy = twofold.policies.PerfectMemory(envs)
        actions = policy(observations, infos["action_mask"])

    The policy flips a known pair if there is one. Otherwise, it flips the first unseen card, and
    then that card's mate if it is known, or else the next unseen card. With two cards of each
    symbol, no strategy without peeking needs fewer turns (tests/test_concentration.py solves small
    decks). With more cards of each symbol, `LastKMemory` with k=None needs fewer.

    If all cards of a game are face down, a new game has begun, and the policy forgets the old one.
    Therefore, call `reset` only if you abandon a game or replace its board.

    Args:
        envs: The Concentration environment to play in: vector or single, wrapped or not.

    Raises:
        InvalidArgument: The game is not Concentration, or the observations are not cards.
    """

    def __init__(self, envs: Any) -> None:
        super().__init__(envs)
        self._seen = np.full((self.num_envs, self.game.cards), -1, np.int16)

    def reset(self, lanes: NDArray[np.bool_]) -> None:
        """Forgets the games of these lanes, bool (N,)."""
        self._seen[lanes] = -1

    def _open_symbols(self, lies_open: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Returns the symbol of each game's open card, (N,); -1 between turns."""
        lanes, cards = np.nonzero(lies_open)
        which = lanes * self.game.symbols + self._seen[lanes, cards]
        counts = np.bincount(which, minlength=len(self._seen) * self.game.symbols)
        # Found pairs may be visible too. They are an even number of cards of each symbol.
        is_odd = counts.reshape(-1, self.game.symbols) % 2 == 1
        return np.where(is_odd.any(axis=1), is_odd.argmax(axis=1), -1)

    def _choose(self, table: NDArray[Any], playable: NDArray[np.bool_]) -> NDArray[np.int64]:
        is_visible = table < self.game.symbols
        np.copyto(self._seen, table.astype(np.int16), where=is_visible)
        open_symbols = self._open_symbols(is_visible & ~playable)
        known = playable & (self._seen >= 0)
        lanes = np.arange(len(self._seen))
        # The open card's mate; between turns, any known card whose mate is known too.
        mate = known & np.equal(self._seen, open_symbols[:, None])
        of_symbol = (lanes[:, None] * self.game.symbols + self._seen)[known]
        count = np.bincount(of_symbol, minlength=len(lanes) * self.game.symbols)
        paired = np.zeros_like(known)
        paired[known] = count[of_symbol] >= 2
        wanted = np.where((open_symbols >= 0)[:, None], mate, paired)
        choice = np.where(wanted.any(axis=1, keepdims=True), wanted, playable & ~known)
        actions: NDArray[np.int64] = choice.argmax(axis=1)
        return actions
