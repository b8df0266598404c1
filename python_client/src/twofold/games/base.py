"""What the client has to know of a game; everything else is told by the server."""

from __future__ import annotations

import abc
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from twofold.games.drawing import Picture
from twofold.v1 import environment_pb2 as environment


class Game(abc.ABC):
    """One game with its arguments.

    Args:
        request: The create request's part that is the game's: environment id and config.
    """

    environment_id: ClassVar[str]
    """The published id."""
    board_numbers: ClassVar[str]
    """What the numbers on a board are called, for messages: "exponents"."""
    hidden: ClassVar[str | None] = None
    """What a board holds that no player has seen, and a copy would share: "cards"."""

    def __init__(self, request: environment.CreateRequest) -> None:
        self.request = request

    @abc.abstractmethod
    def rules(self) -> dict[str, str | int]:
        """What results depend on, in words for the rule card.

        With "score" where the game has one whatever the reward; else it is the sum of the rewards.
        """

    @abc.abstractmethod
    def text(self, observation: NDArray[Any]) -> str:
        """One board as text, by its observation."""

    @abc.abstractmethod
    def picture(self, observation: NDArray[np.uint8], size: int) -> Picture:
        """One board as a picture, its longer side of `size` pixels (one less where odd)."""
