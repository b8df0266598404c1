"""Players: policies that can fail in one game and play on in the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from twofold.errors import InvalidArgument
from twofold.games.encoding import tile_values
from twofold.games.game2048 import Game2048
from twofold.judging.runner import DIRECTIONS


@dataclass(frozen=True)
class Failure:
    """The reason why a player failed in a game.

    Attributes:
        reason: A word to count it by.
        detail: The particulars, in a sentence's words.
    """

    reason: str
    detail: str


Choice: TypeAlias = "int | Failure"
"""An action of the environment, or the end of a game."""


class Player(Protocol):
    """A policy that can fail in one game; the game then ends with its score so far."""

    def begin(self, lanes: NDArray[np.intp], seeds: NDArray[np.uint64], /) -> None:
        """Begins an episode on these lanes, (k,), each with a seed of the player's own draws.

        The seed says nothing about the game's: no player gets to know that.
        """
        ...

    def choose(
        self, boards: NDArray[Any], action_mask: NDArray[Any], lanes: NDArray[np.intp], /
    ) -> list[Choice]:
        """Chooses on these lanes, (K,), from observations (K, …) and masks (K, actions)."""
        ...

    def summary(self) -> Mapping[str, Any]:
        """Figures about the player, for the evaluation's summary."""
        ...

    def close(self) -> None:
        """Ends the player's processes and threads."""
        ...


@dataclass(frozen=True)
class Boards:
    """An environment of 2048 as people see it: tile values, and directions by name.

    Attributes:
        actions: The environment's action for each of DIRECTIONS.
    """

    actions: tuple[int, ...]

    @classmethod
    def of(cls, envs: VectorEnv[Any, Any, Any]) -> Boards:
        """The view of an environment.

        Raises:
            InvalidArgument: It plays another game, or its observations are no boards.
        """
        base: Any = envs.unwrapped
        if not isinstance(getattr(base, "_game", None), Game2048):
            raise InvalidArgument(
                "programs and chat models play 2048; pass twofold/Game2048-v0 as env", field="env"
            )
        if base._form.form != "array" or base._form.keys is not None:
            raise InvalidArgument("env's observations are no boards; leave obs out", field="env")
        order = base._action_order  # the direction of each action
        return cls((0, 1, 2, 3) if order is None else tuple(np.argsort(order).tolist()))

    def tiles(self, observation: NDArray[Any]) -> list[list[int]]:
        """One board (rows, columns) as tile values, 0 for an empty cell."""
        values: list[list[int]] = tile_values(observation).tolist()
        return values

    def legal(self, mask: NDArray[Any]) -> list[str]:
        """The directions that change a board, by its mask (actions,)."""
        pairs = zip(DIRECTIONS, self.actions, strict=True)
        return [direction for direction, action in pairs if mask[action] == 1]
