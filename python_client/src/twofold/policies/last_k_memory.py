"""Optimal play in Concentration with a memory of the last k cards."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from twofold.ceilings.ceiling import best_play
from twofold.ceilings.memory import Array, Known
from twofold.ceilings.turns import pack_opened
from twofold.errors import InvalidArgument
from twofold.policies.baselines import CardPlayer


class LastKMemory(CardPlayer):
    """A `PolicyWithMemory` that remembers the k most recently flipped cards, and never peeks.

        policy = twofold.policies.LastKMemory(envs, k=4)
        actions = policy(observations, infos["action_mask"])

    The policy plays optimally, given its memory, the environment's reward and the steps left. Its
    mean return equals the result of `twofold.ceilings.concentration`, which also describes the
    memory in detail. With k=None, the policy remembers all cards, and plays at least as well as
    `PerfectMemory`. If there are more than two cards of each symbol, it plays better than
    `PerfectMemory`, because it saves known cards to pair with unseen ones.

    If all cards of a game are face down, a new game has begun, and the policy forgets the old one.
    Therefore, call `reset` only if you abandon a game.

    Args:
        envs: The Concentration environment to play in: vector or single, wrapped or not.
        k: The number of remembered cards, 0 or more; None for all.
        seed: The seed of the generator that chooses among cards that are not remembered.

    Raises:
        InvalidArgument: The game is not Concentration, or `twofold.ceilings.concentration` can't
            solve it with k cards of memory.
    """

    def __init__(self, envs: Any, k: int | None, seed: int = 0) -> None:
        super().__init__(envs)
        game, lanes = self.game, self.num_envs
        self._best = best_play(game, k, "k")
        self._max_steps = game.request.max_episode_steps or None
        self._copies = game.cards // game.symbols
        self._is_bounded = self._best.memory.capacity is not None
        self._rng = np.random.default_rng(seed)
        capacity = self._best.memory.capacity
        # The symbol of each card that has been visible. Choices use only the symbols of open,
        # remembered and found cards.
        self._symbol = np.full((lanes, game.cards), -1, np.int64)
        # The remembered cards, newest first; -1 after the last.
        self._memory = np.full((lanes, game.cards if capacity is None else capacity), -1, np.int64)
        self._open = np.full(lanes, -1)
        self._found = np.zeros((lanes, game.cards), np.bool_)
        self._in_play = np.full((lanes, game.symbols), self._copies)
        self._steps = np.zeros(lanes, np.int64)

    def reset(self, lanes: NDArray[np.bool_]) -> None:
        """Forgets the games of these lanes, bool (N,)."""
        self._symbol[lanes] = self._memory[lanes] = self._open[lanes] = -1
        self._found[lanes] = False
        self._in_play[lanes] = self._copies
        # The next observation is the first of the game.
        self._steps[lanes] = -1

    # ---- what it sees ----------------------------------------------------------------------------

    def _watch(self, table: Array, playable: NDArray[np.bool_]) -> None:
        """Updates the memory with the cards that the last step showed."""
        visible = table < self.game.symbols
        np.copyto(self._symbol, table, where=visible)
        # The open card, or both cards of a pair that was just found.
        new = visible & ~playable & ~self._found
        number = new.sum(axis=1)
        self._forget(new)
        (paired,) = np.nonzero(number == 2)
        self._found[paired] |= new[paired]
        symbols = self._symbol[paired, new[paired].argmax(axis=1)]
        self._in_play[paired, symbols] -= 2
        # Two cards that are not a pair: the open card and the other visible card.
        in_vain = visible & playable & (self._open >= 0)[:, None]
        self._forget(in_vain)
        (lanes,) = np.nonzero(in_vain.sum(axis=1) == 2)
        first = self._open[lanes]
        in_vain[lanes, first] = False
        second = in_vain[lanes].argmax(axis=1)
        newest = np.stack([second, first], axis=1)
        size = self._memory.shape[1]
        self._memory[lanes] = np.concatenate([newest, self._memory[lanes]], axis=1)[:, :size]
        self._open = np.where(number == 1, new.argmax(axis=1), -1)

    def _forget(self, cards: NDArray[np.bool_]) -> None:
        """Removes cards, bool (N, cards), from the memory. Older cards fill the gaps."""
        held = self._memory >= 0
        gone = held & np.take_along_axis(cards, np.where(held, self._memory, 0), axis=1)
        (lanes,) = np.nonzero(gone.any(axis=1))
        rest = np.where(gone[lanes], -1, self._memory[lanes])
        order = (rest < 0).argsort(axis=1, kind="stable")
        self._memory[lanes] = np.take_along_axis(rest, order, axis=1)

    # ---- what it does ----------------------------------------------------------------------------

    def _choose(self, table: Array, playable: NDArray[np.bool_]) -> NDArray[np.int64]:
        self._steps += 1
        self._watch(table, playable)
        actions = np.zeros(self.num_envs, np.int64)
        (lanes,) = np.nonzero(playable.any(axis=1))
        seen_from_start = playable.sum(axis=1) + (self._open >= 0) + self._found.sum(axis=1)
        unknown = lanes[seen_from_start[lanes] != self.game.cards]
        if len(unknown):
            raise self._unseen(unknown, "has cards out of play that the policy has not seen")
        for between_turns in (True, False):
            some = lanes[(self._open[lanes] < 0) == between_turns]
            if len(some):
                actions[some] = self._choose_in(some, playable[some], between_turns)
        return actions

    def _choose_in(self, lanes: Array, playable: Array, between_turns: bool) -> Array:
        """Returns the actions of some lanes.

        All lanes must be between turns, or all must have an open card.
        """
        best, remembered = self._best, self._memory[lanes]
        held = np.zeros((len(lanes), self.game.symbols), np.int64)
        symbols = np.where(remembered < 0, -1, self._symbol[lanes[:, None], remembered])
        for place, of_place in enumerate(symbols.T):
            (rows,) = np.nonzero(of_place >= 0)
            held[rows, of_place[rows]] += 1 << place if self._is_bounded else 1
        known = Known(self._in_play[lanes], held)
        if between_turns:
            codes, opened = best.memory.pack(known), None
            states, choices = best.begins.find(codes), best.first
        else:
            opened = self._symbol[lanes, self._open[lanes]]
            codes = pack_opened(best.memory, known, opened)
            states, choices = best.opens.find(codes), best.second
        if (states < 0).any():
            raise self._unseen(lanes[states < 0], "is in a state that legal play can't reach")
        turns_left: Any = 0
        if self._max_steps is not None:
            steps = self._steps[lanes] - (not between_turns)
            turns_left = np.clip((self._max_steps - steps) // 2, 0, len(choices) - 1)
        chosen = choices[turns_left, states].astype(np.int64)
        at: Array = chosen - 1
        if not self._is_bounded:
            at = self._places(known, symbols, codes, opened, at)
        # Any forgotten card, each with the same probability.
        rows, places = np.nonzero(remembered >= 0)
        alike = playable.copy()
        alike[rows, remembered[rows, places]] = False
        alike |= ~alike.any(axis=1, keepdims=True) & playable
        random = (self._rng.random(alike.shape, np.float32) + 1) * alike
        if not remembered.shape[1]:
            return np.asarray(random.argmax(axis=1))
        card = np.take_along_axis(remembered, np.maximum(at, 0)[:, None], axis=1)[:, 0]
        return np.where(chosen == 0, random.argmax(axis=1), card)

    @staticmethod
    def _unseen(lanes: Array, what: str) -> InvalidArgument:
        return InvalidArgument(
            f"the game of lane {lanes[0]} {what}; let the policy play each game from its start, by "
            "its own actions",
            field="observations",
            lane=int(lanes[0]),
        )

    def _places(
        self, known: Known, symbols: Array, codes: Array, opened: Array | None, column: Array
    ) -> Array:
        """Returns the memory index of the remembered card to flip in each row, (N,).

        In row i, the code of the card's symbol is `codes[i, column[i]]`.
        """
        rows = np.arange(len(column))
        own = known.in_play * (self._copies + 1) + known.held
        is_it = own == codes[rows, column][:, None]
        if opened is not None:
            # Column 0 belongs to the open card's symbol; other symbols may have the same code.
            is_it[column == 0] = False
            is_it[rows, opened] = column == 0
        wanted = is_it.argmax(axis=1)
        return np.asarray((symbols == wanted[:, None]).argmax(axis=1))
