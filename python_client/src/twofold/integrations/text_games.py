"""Games as text: what language models read, and the actions that they name."""

from __future__ import annotations

import abc
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from twofold import _arguments
from twofold.envs.concentration import ConcentrationEnv
from twofold.envs.game2048 import Game2048Env
from twofold.envs.results import plain
from twofold.envs.single import TwofoldEnv
from twofold.errors import FailedPrecondition, InvalidArgument, StepPending, TransportError
from twofold.games.encoding import tile_values
from twofold.games.game2048 import DIRECTIONS


class TextGame(abc.ABC):
    """One game, each of its boards as a picture in text with a sentence below.

    Args:
        arguments: Those of the environment, without the form of its observations.

    Attributes:
        env: The environment.
        board: Its last observation.
        infos: Its infos of the last reset or step.
        reward: The sum of the episode's rewards.
        end: Why the episode is over, in words; "" while it goes on.

    Raises:
        InvalidArgument: An argument is wrong, or this class's own; `field` names it.
        TransportError: No server.
    """

    environment: ClassVar[type[TwofoldEnv[Any]]]
    own: ClassVar[dict[str, Any]]
    """The arguments that the class decides."""

    def __init__(self, **arguments: Any) -> None:
        for name in self.own:
            if name in arguments:
                raise InvalidArgument(f"{name} is the adapter's own: leave it out", field=name)
        self.env = self.environment(**self.own, **arguments)
        self._game: Any = self.env._batch._game
        self.board: NDArray[np.uint8] = np.zeros(0, np.uint8)
        self.infos: dict[str, Any] = {}
        self.reward = 0.0
        self.end = ""
        self._unanswered = 0

    def start(self, seed: int | None = None) -> None:
        """Begins a new episode.

        Args:
            seed: Seeds the board; None goes on with its stream of random numbers.
        """
        self.board, infos = self.env.reset(seed=seed)
        self.infos = plain(infos)
        self.reward, self.end = 0.0, ""

    def play(self, action: object) -> str:
        """Plays an action.

        Args:
            action: A direction by its name, or the number of a card.

        Returns:
            What has happened, and `text()`.

        Raises:
            InvalidArgument: There is no such action; nothing was played.
            FailedPrecondition: The game is over, or the last action is to be repeated.
            TransportError: No answer; the action may have been played, and repeating it does not
                play it twice.
        """
        number = self._number(action)
        if self.end:
            raise FailedPrecondition(f"the game is over: {self.end}")
        before = self.infos
        try:
            self.board, reward, terminated, truncated, infos = self.env.step(number)
            self.infos = plain(infos)
        except StepPending:
            raise FailedPrecondition(
                f"the last action got no answer: repeat {self.name(self._unanswered)!r} first"
            ) from None
        except TransportError:
            self._unanswered = number
            raise
        self.reward += reward
        is_legal = bool(before["action_mask"][number])
        if truncated:
            self.end = "the limit of steps is reached"
        elif terminated:
            self.end = self._end() if is_legal else "that action was illegal"
        return f"{self._answer(number, before, is_legal)}{self.text()}"

    def text(self) -> str:
        """The board, and below it how the game stands and what can be done."""
        state = f"The game is over: {self.end}." if self.end else self._choices()
        return f"{self._game.text(self.board)}\n{self._counts()} {state}"

    @property
    def legal(self) -> list[Any]:
        """The legal actions by their names; none once the game is over."""
        numbers = [] if self.end else np.flatnonzero(self.infos["action_mask"]).tolist()
        return [self.name(number) for number in numbers]

    def facts(self) -> dict[str, Any]:
        """What the text says, in JSON's types."""
        return {"legal": self.legal, "over": bool(self.end), "return": self.reward}

    @abc.abstractmethod
    def name(self, number: int) -> Any:
        """An action's name by its number."""

    @abc.abstractmethod
    def _number(self, action: object) -> int:
        """An action's number by its name; raises InvalidArgument."""

    @abc.abstractmethod
    def _end(self) -> str:
        """Why a legal action has ended the game."""

    @abc.abstractmethod
    def _answer(self, number: int, before: dict[str, Any], is_legal: bool) -> str:
        """What an action has done, as a line, or "" where the board says enough."""

    @abc.abstractmethod
    def _counts(self) -> str:
        """How the game stands, as a sentence."""

    @abc.abstractmethod
    def _choices(self) -> str:
        """What can be done, as a sentence."""


class TextGame2048(TextGame):
    """2048; an action is one of DIRECTIONS.

    2    .    .    4
    .    .    .    .
    .    8    .    .
    .    2    .    .
    Score 16, highest tile 8. Legal directions: up, right, down, left.
    """

    environment = Game2048Env
    own: ClassVar[dict[str, Any]] = {"obs": "array", "observation_key": None, "mask_key": None}

    def facts(self) -> dict[str, Any]:
        """Board, score, highest tile, moves, and what all games have."""
        return {
            "board": tile_values(self.board).tolist(),
            "score": self.infos["score"],
            "highest_tile": 2 ** self.infos["max_exponent"],
            "moves": self.infos["moves"],
            **super().facts(),
        }

    def name(self, number: int) -> str:
        """The direction, which another package's rules may number otherwise."""
        order = self._game.action_order
        return DIRECTIONS[number if order is None else order[number]]

    def _number(self, action: object) -> int:
        names = [self.name(number) for number in range(4)]
        return names.index(_arguments.choice("direction", action, names))

    def _end(self) -> str:
        config = self._game.request.game2048
        if config.stop_at_goal and self.infos["goal_reached"]:
            return f"{config.goal} is reached"
        return "no tile can move"

    def _answer(self, number: int, before: dict[str, Any], is_legal: bool) -> str:
        return "" if is_legal else f"Nothing moves {self.name(number)}.\n"

    def _counts(self) -> str:
        return f"Score {self.infos['score']}, highest tile {2 ** self.infos['max_exponent']}."

    def _choices(self) -> str:
        return f"Legal directions: {', '.join(self.legal)}."


class TextConcentration(TextGame):
    """Concentration without peeks; an action is the number of a card, row by row from 0.

    ?  ?  3  ?
    ?  .  ?  ?
    ?  ?  .  ?
    ?  ?  ?  ?
    Pairs found: 1 of 8. Turns ended: 4. Card 2 lies open: turn its mate.
    """

    environment = ConcentrationEnv
    own: ClassVar[dict[str, Any]] = {**TextGame2048.own, "peeks": 0}

    def facts(self) -> dict[str, Any]:
        """Cards, counts, the open card, and what all games have."""
        signs = [*range(1, self._game.symbols + 1), "?", "."]
        cards = [signs[code] for code in self.board.flat[: self._game.cards]]
        columns = self._game.columns
        open_card = self.infos["open_card"]
        return {
            "cards": [cards[start : start + columns] for start in range(0, len(cards), columns)],
            "pairs": self.infos["pairs"],
            "turns": self.infos["turns"],
            "open_card": None if open_card < 0 else open_card,
            **super().facts(),
        }

    def name(self, number: int) -> int:
        """The number itself."""
        return number

    def _number(self, action: object) -> int:
        return _arguments.integer("card", action, 0, self._game.cards - 1)

    def _end(self) -> str:
        return "all pairs are found"

    def _answer(self, number: int, before: dict[str, Any], is_legal: bool) -> str:
        if not is_legal:
            is_gone = self.board.flat[number] > self._game.symbols
            turned_back = before["open_card"] >= 0 > self.infos["open_card"]
            return (
                f"Card {number} is {'out of play' if is_gone else 'face up already'}"
                f"{', and your turn ends' if turned_back else ''}.\n"
            )
        symbol = self.board.flat[number] + 1
        if before["open_card"] < 0:
            return f"Card {number} shows {symbol}.\n"
        is_pair = self.infos["pairs"] > before["pairs"]
        first = f"card {before['open_card']}"
        if is_pair:
            return f"Card {number} shows {symbol}, and so does {first}: a pair.\n"
        return f"Card {number} shows {symbol}, unlike {first}: both are turned back after this.\n"

    def _counts(self) -> str:
        pairs = self._game.cards // 2
        return f"Pairs found: {self.infos['pairs']} of {pairs}. Turns ended: {self.infos['turns']}."

    def _choices(self) -> str:
        open_card = self.infos["open_card"]
        if open_card >= 0:
            return f"Card {open_card} lies open: turn its mate."
        return f"Turn a card, 0 ... {self._game.cards - 1}, numbered row by row."
