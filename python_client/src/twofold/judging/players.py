"""Players: policies that can fail in one game and continue in the others."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from twofold.errors import InvalidArgument, ResourceExhausted
from twofold.games.game2048 import Game2048


@dataclass(frozen=True)
class Failure:
    """The reason why a player failed in a game.

    Attributes:
        reason: The kind of failure, in one word. Reports count the failures of each kind.
        detail: The details, as part of a sentence.
    """

    reason: str
    detail: str


Choice: TypeAlias = int | Failure
"""An action of the environment, or the failure that ends the game."""


class Player(Protocol):
    """A policy that can fail in a game. The game then ends with its score so far."""

    def begin(self, lanes: NDArray[np.intp], seeds: NDArray[np.uint64], /) -> None:
        """Begins an episode on each of these lanes, (k,).

        Each seed is for the player's own random draws, and reveals nothing about the game's seed.
        """
        ...

    def choose(
        self, boards: NDArray[Any], action_mask: NDArray[Any], lanes: NDArray[np.intp], /
    ) -> list[Choice]:
        """Returns a choice for each of these lanes, (K,), given boards (K, …) and action masks."""
        ...

    def summary(self) -> Mapping[str, Any]:
        """Returns statistics of the player, for the evaluation's summary."""
        ...

    def close(self) -> None:
        """Ends the player's processes and threads."""
        ...


def game_of(envs: VectorEnv[Any, Any, Any]) -> Game2048:
    """Returns the 2048 game of an environment, after checking that a player can play in it."""
    game = Game2048.played_by(envs)
    if game is None:
        raise InvalidArgument(
            "programs and chat models play only 2048; pass twofold/Game2048-v0 as env", field="env"
        )
    base: Any = envs.unwrapped
    form = base.observation_form
    if form.form != "array" or form.keys is not None:
        raise InvalidArgument("env's observations are not boards; omit obs", field="env")
    return game


def start_thread(thread: threading.Thread) -> None:
    """Starts a player's thread.

    Raises:
        ResourceExhausted: The process has too many threads or too little memory.
    """
    try:
        thread.start()
    except RuntimeError:
        raise ResourceExhausted(
            "this process can't start another thread; play fewer boards at once (num_envs), or "
            "raise `ulimit -u` (threads) or `ulimit -v` (memory)",
            field="num_envs",
        ) from None
