"""A second implementation of the rules of Concentration, in readable plain Python.

It shares no code and no method with the server: a table keeps the history of each card, and all
results follow from that. `Game` plays whole games, bit for bit as a lane of
`twofold/Concentration-v0` does in each autoreset mode. make_golden.py uses it to make the golden
trajectories.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from reference import Lane

WEIGHTS = {"match": 1.0, "mismatch": -0.1, "face_up_touch": -0.1, "peek": -0.5}


class Game(Lane):
    """One lane of Concentration. `step` returns the default reward, as the environment's float32.

    `terms` has the last step's non-zero reward terms.
    """

    def __init__(
        self,
        seed: int,
        rows: int = 4,
        columns: int = 4,
        symbols: int = 8,
        peeks: int | None = None,
        matched_cards: str = "removed",
        illegal_action: str = "noop",
        observe_last_action: bool = False,
        max_episode_steps: int | None = None,
        autoreset_mode: str = "next_step",
    ) -> None:
        self.terms: dict[str, float] = {}
        self.cards, self.symbols, self.peek_budget = rows * columns, symbols, peeks
        self.matched_cards, self.illegal_action = matched_cards, illegal_action
        self.observe_last_action = observe_last_action
        self.num_actions = self.cards + (peeks != 0)
        super().__init__(seed, max_episode_steps, autoreset_mode)

    def start(self) -> None:
        """Shuffles sorted cards: swaps each card, from the last one down, with a random card."""
        self.deck = [card * self.symbols // self.cards for card in range(self.cards)]
        for card in reversed(range(1, self.cards)):
            other = (self.generator.next_word() * (card + 1)) >> 32
            self.deck[card], self.deck[other] = self.deck[other], self.deck[card]
        self.begin(self.deck)

    def begin(self, deck: Sequence[int]) -> None:
        """Starts a new episode with a given deck."""
        self.begin_episode()
        self.deck = list(deck)
        self.found: dict[int, int] = {}  # card: the step that found its mate
        self.turn: list[int] = []  # the cards of the running turn
        self.shown: set[int] = set()  # the other cards that this observation shows
        self.turns = self.peeks = 0
        self.last_action = self.num_actions

    @property
    def pairs(self) -> int:
        return len(self.found) // 2

    @property
    def open_card(self) -> int:
        return self.turn[0] if self.turn else -1

    def may_peek(self) -> bool:
        return self.peek_budget is None or self.peeks < self.peek_budget

    def mask(self) -> list[int]:
        if self.no_action:
            return [0] * self.num_actions
        cards = [int(card not in self.found and card not in self.turn) for card in self.each_card()]
        return cards + [int(self.may_peek())] * (self.num_actions - self.cards)

    def each_card(self) -> range:
        return range(self.cards)

    def observation(self) -> list[int]:
        told = []
        for card in self.each_card():
            gone = card in self.found and self.found[card] < self.episode_length
            if card in self.turn or card in self.shown or self.found.get(card, -1) >= 0:
                visible = not gone or self.matched_cards == "face_up"
                told.append(self.deck[card] if visible else self.symbols + 1)
            else:
                told.append(self.symbols)
        return told + [self.last_action] * self.observe_last_action

    def told(self) -> dict[str, Any]:
        return {
            "observation": self.observation(),
            "action_mask": self.mask(),
            "episode_length": self.episode_length,
            "pairs": self.pairs,
            "turns": self.turns,
            "peeks": self.peeks,
            "open_card": self.open_card,
        }

    def step(self, action: int) -> float:
        self.terms = {}
        return float(np.float32(super().step(action)))

    def play(self, action: int) -> float:
        legal = self.mask()[action]
        self.last_action = action
        self.shown = set()
        if legal:
            self.choose(action)
        else:
            self.refuse(action)
        if len(self.found) == self.cards:
            self.terminated = True
            self.terms["cleared"] = 1
        if legal and not self.terminated:
            self.terms["survival"] = 1
        return sum(WEIGHTS.get(term, 0.0) * value for term, value in self.terms.items())

    def choose(self, action: int) -> None:
        """Executes a legal action."""
        if action == self.cards:
            self.peeks += 1
            self.shown = set(self.each_card()) - self.found.keys()
            self.terms["peek"] = 1
            return
        self.turn.append(action)
        if len(self.turn) == 1:
            return
        first, second = self.turn
        self.turns, self.turn = self.turns + 1, []
        if self.deck[first] == self.deck[second]:
            self.found |= {first: self.episode_length, second: self.episode_length}
            self.terms["match"] = 1
        else:
            self.shown = {first, second}
            self.terms["mismatch"] = 1

    def refuse(self, action: int) -> None:
        """Executes an illegal action."""
        self.terminated = self.illegal_action == "terminate"
        if action == self.cards:  # no peek is left
            return
        wasted = 1
        if self.illegal_action == "end_turn":
            wasted += len(self.turn)
            self.turns += 1
            self.shown, self.turn = set(self.turn), []
        self.terms["face_up_touch"] = wasted
