"""The parts that all players share. A player can fail in one game and continue in the others."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from gymnasium.vector import VectorEnv

from twofold.errors import InvalidArgument, ResourceExhausted
from twofold.games.game2048 import Game2048

T = TypeVar("T")


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


def in_thread(name: str, function: Callable[..., T], *arguments: Any) -> Future[T]:
    """Runs a function in a daemon thread, which does not delay the end of the process.

    Raises:
        ResourceExhausted: The process has too many threads or too little memory.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(function(*arguments))
        except BaseException as error:
            future.set_exception(error)

    try:
        threading.Thread(target=run, name=name, daemon=True).start()
    except RuntimeError:
        raise ResourceExhausted(
            "this process can't start another thread; play fewer boards at once (num_envs), or "
            "raise `ulimit -u` (threads) or `ulimit -v` (memory)",
            field="num_envs",
        ) from None
    return future
