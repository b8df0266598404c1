"""A text interface to the games for language models: boards as text, and actions as names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twofold.envs import BY_NAME
from twofold.envs.results import plain
from twofold.envs.single import TwofoldEnv
from twofold.errors import FailedPrecondition, StepPending
from twofold.games.spec import GameSpec
from twofold.integrations import refuse_own

LARGEST_SEED = 2**53 - 1
"""The largest seed that clients in JavaScript read from JSON without rounding it."""

# Observations must be boards.
_OWN = {"obs": "array", "observation_key": None, "mask_key": None}


class TextGame:
    """A game whose boards and state of play are described as text.

    Args:
        arguments: The environment's arguments, except the ones for the form of observations.
        fixed: The arguments that the adapter sets.

    Attributes:
        infos: The infos of the last reset or step, as JSON-serialisable values.
        reward: The sum of the episode's rewards.
        end: The reason that the episode ended, in words; "" while it continues.
    """

    def __init__(
        self, name: str, arguments: Mapping[str, Any], fixed: Mapping[str, Any] = _OWN
    ) -> None:
        refuse_own(fixed, arguments)
        self.env: TwofoldEnv[Any] = BY_NAME[name].single(**fixed, **arguments)
        self.game: GameSpec = self.env.game
        self.arguments = arguments
        self.board: NDArray[np.uint8] = np.zeros(0, np.uint8)
        self.infos: dict[str, Any] = {}
        self.reward = 0.0
        self.end = ""
        self._unanswered = 0

    @classmethod
    def for_models(cls, name: str, arguments: Mapping[str, Any]) -> TextGame:
        """Returns a game for language models. In Concentration, it has no peeks."""
        return cls(name, arguments, {**_OWN, **BY_NAME[name].spec.text_arguments})

    def start(self, seed: int | None = None) -> None:
        """Begins a new episode. Without a seed, the board's random stream continues."""
        self.board, infos = self.env.reset(seed=seed)
        self.infos = plain(infos)
        self.reward, self.end = 0.0, ""

    def step(self, number: int) -> tuple[float, bool, bool]:
        """Plays the action with this number. Returns reward, terminated and truncated.

        Raises:
            FailedPrecondition: The last action must be repeated first.
            PermissionDenied, ShuttingDown, TransportError: The service did not answer. The
                action may have been played. Repeating it is safe and does not play it twice.
        """
        earlier = self.env._session.unreturned_step
        try:
            self.board, reward, terminated, truncated, infos = self.env.step(number)
        except StepPending:
            unanswered = self.game.actions[self._unanswered]
            raise FailedPrecondition(
                f"the last action got no answer; repeat {unanswered!r} first"
            ) from None
        except BaseException:
            if self.env._session.unreturned_step is not earlier:  # this step is pending now
                self._unanswered = number
            raise
        self.infos = plain(infos)
        self.reward += reward
        return reward, terminated, truncated

    def play(self, action: object) -> str:
        """Plays the action with this name, such as a direction or the number of a card.

        Returns `text()`, preceded by a sentence about the outcome if there is one.

        Raises:
            InvalidArgument: The action is unknown; nothing was played.
            FailedPrecondition: The game is over, or the last action must be repeated first.
            PermissionDenied, ShuttingDown, TransportError: See `step`.
        """
        number = self.game.number(action)
        if self.end:
            raise FailedPrecondition(f"the game is over: {self.end}")
        before = self.infos
        _, terminated, truncated = self.step(number)
        if terminated:  # checked first, because such a step may also be truncated
            self.end = self.game.end(self.infos, before["action_mask"][number] == 1)
        elif truncated:
            self.end = "the step limit was reached"
        outcome = self.game.outcome(number, self.board, before, self.infos)
        return f"{outcome}\n{self.text()}" if outcome else self.text()

    def text(self) -> str:
        """Returns the board, followed by the state of play and the possible actions."""
        choices = self.game.choices(self.legal, self.infos)
        state = f"The game is over: {self.end}." if self.end else choices
        return f"{self.game.text(self.board)}\n{self.game.standing(self.infos)} {state}"

    @property
    def legal(self) -> list[Any]:
        """The names of the legal actions; empty once the game is over."""
        numbers = [] if self.end else np.flatnonzero(self.infos["action_mask"]).tolist()
        return [self.game.actions[number] for number in numbers]

    def facts(self) -> dict[str, Any]:
        """Returns the same information as `text`, as a JSON-serialisable dict."""
        common = {"legal": self.legal, "over": bool(self.end), "return": self.reward}
        return {**self.game.facts(self.board, self.infos), **common}
