"""The games as OpenEnv's clients see them: a board each, with its actions and pictures in words."""

from __future__ import annotations

import abc
import base64
import io
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from twofold.envs.concentration import ConcentrationEnv
from twofold.envs.game2048 import Game2048Env
from twofold.envs.results import plain
from twofold.envs.single import TwofoldEnv
from twofold.errors import InvalidArgument
from twofold.games.spec import Game
from twofold.games.concentration import Concentration
from twofold.games.encoding import tile_values
from twofold.games.game2048 import DIRECTIONS, Game2048
from twofold.integrations.openenv import models

_PEEK = "peek"


class Board(abc.ABC):
    """One board, with its last observation and infos.

    Args:
        arguments: Those of the game's environment.

    Attributes:
        arguments: The same.
        infos: The last ones.

    Raises:
        InvalidArgument: An argument is wrong; `field` names it.
        TransportError: No server.
    """

    game: ClassVar[type[Game]]
    environment: ClassVar[type[TwofoldEnv[Any]]]
    action: ClassVar[Any]
    observation: ClassVar[Any]
    state: ClassVar[Any]
    """The models of what is sent."""
    state_infos: ClassVar[tuple[str, ...]] = ()
    """The infos that the state has under their own names."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self.arguments = arguments
        self._env: TwofoldEnv[Any] = self.environment(**arguments)
        self._game: Any = self._env._batch._game
        self._board: NDArray[np.uint8] = np.zeros(0, np.uint8)
        self.infos: dict[str, Any] = {}

    def reset(self, seed: int) -> None:
        """Starts a new episode."""
        self._board, infos = self._env.reset(seed=seed)
        self.infos = plain(infos)

    def step(self, number: int) -> tuple[float, bool, bool]:
        """Plays an action; reward, terminated and truncated."""
        self._board, reward, terminated, truncated, infos = self._env.step(number)
        self.infos = plain(infos)
        return reward, terminated, truncated

    def close(self) -> None:
        """Ends the session."""
        self._env.close()

    def is_legal(self, number: int) -> bool:
        """Whether the mask allows an action."""
        return bool(self.infos["action_mask"][number])

    @property
    def legal(self) -> list[Any]:
        """The legal actions, as clients write them."""
        return [self.name(number) for number in np.flatnonzero(self.infos["action_mask"]).tolist()]

    def text(self) -> str:
        """The board as text."""
        text: str = self._game.text(self._board)
        return text

    def html(self) -> str:
        """The board as a picture for a web page."""
        from PIL import Image

        file = io.BytesIO()
        Image.fromarray(self._game.picture(self._board, 320)).save(file, "PNG")
        source = base64.b64encode(file.getvalue()).decode()
        return f'<img src="data:image/png;base64,{source}" alt="the board">'

    @abc.abstractmethod
    def number(self, action: Any) -> int:
        """The number of a client's action.

        Raises:
            InvalidArgument: This game has no such action.
        """

    @abc.abstractmethod
    def name(self, number: int) -> Any:
        """An action as clients write it."""

    @abc.abstractmethod
    def refusal(self, number: int) -> str:
        """Why an illegal action does nothing, as the beginning of a sentence."""

    @abc.abstractmethod
    def fields(self) -> dict[str, Any]:
        """The observation's fields of this game alone."""

    def state_fields(self) -> dict[str, Any]:
        """The state's, and the game's arguments."""
        names = self.arguments.keys() & self.game.argument_names
        arguments = {name: self.arguments[name] for name in sorted(names)}
        if "reward" in arguments:
            arguments["reward"] = self._game.reward  # not the path of a file
        return {"arguments": arguments, **{name: self.infos[name] for name in self.state_infos}}


class Game2048Board(Board):
    """A board of 2048."""

    game = Game2048
    environment = Game2048Env
    action = models.Game2048Action
    observation = models.Game2048Observation
    state = models.Game2048State
    state_infos = ("score", "goal_reached")

    def number(self, action: Any) -> int:
        """The number of a direction, which another package's rules may order otherwise."""
        direction = action.direction
        ours = direction if isinstance(direction, int) else DIRECTIONS.index(direction)
        order = self._game.action_order
        return ours if order is None else order.index(ours)

    def name(self, number: int) -> str:
        """The direction's word."""
        order = self._game.action_order
        return DIRECTIONS[number if order is None else order[number]]

    def refusal(self, number: int) -> str:
        """It is always the same."""
        return f"'{self.name(number)}' moves nothing"

    def fields(self) -> dict[str, Any]:
        """Board, legal actions, score, highest tile."""
        return {
            "board": tile_values(self._board).tolist(),
            "legal_actions": self.legal,
            "score": self.infos["score"],
            "highest_tile": 2 ** self.infos["max_exponent"],
        }

    def state_fields(self) -> dict[str, Any]:
        """Score, highest tile, and whether the goal is reached."""
        return super().state_fields() | {"highest_tile": 2 ** self.infos["max_exponent"]}


class ConcentrationBoard(Board):
    """A table of Concentration."""

    game = Concentration
    environment = ConcentrationEnv
    action = models.ConcentrationAction
    observation = models.ConcentrationObservation
    state = models.ConcentrationState
    state_infos = ("pairs", "turns", "peeks")

    def number(self, action: Any) -> int:
        """The card's, or the number of cards for a peek."""
        card = action.card
        cards = self._game.cards
        has_peeks = self._env.action_space.n > cards  # type: ignore[attr-defined]
        if card == _PEEK and has_peeks:
            return int(cards)
        if card == _PEEK or card >= cards:
            known = f"0 ... {cards - 1}{', or peek' if has_peeks else ''}"
            raise InvalidArgument(f"card is {card!r}; expected {known}", field="card")
        return int(card)

    def name(self, number: int) -> int | str:
        """The card, or "peek"."""
        return _PEEK if number == self._game.cards else number

    def refusal(self, number: int) -> str:
        """It is face up or out of play, or there are no more peeks."""
        if number == self._game.cards:
            return "no peek is left"
        is_gone = self._board.flat[number] > self._game.symbols
        return f"card {number} is {'out of play' if is_gone else 'face up'}"

    def fields(self) -> dict[str, Any]:
        """Cards, legal actions, counts, open card."""
        open_card = self.infos["open_card"]
        names = [*range(1, self._game.symbols + 1), "?", "."]
        return {
            "cards": [[names[code] for code in row] for row in self._board.tolist()],
            "legal_actions": self.legal,
            "open_card": None if open_card < 0 else open_card,
            **{name: self.infos[name] for name in self.state_infos},
        }
