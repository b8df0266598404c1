"""The environments: Gymnasium's API over one session, and the games by their ids."""

from typing import Any

import gymnasium
from gymnasium.vector import VectorEnv

from twofold.errors import InvalidArgument
from twofold.games.spec import Game
from twofold.games.concentration import Concentration
from twofold.games.game2048 import Game2048

GAMES: tuple[type[Game], ...] = (Game2048, Concentration)
"""All games. A new one is added here; its environments are named for it, and exported on top."""


def register() -> None:
    """Makes the games known to `gymnasium.make` and `gymnasium.make_vec`; twice is fine."""
    for game in GAMES:
        if game.environment_id not in gymnasium.registry:
            gymnasium.register(
                id=game.environment_id,
                entry_point=f"twofold:{game.__name__}Env",
                vector_entry_point=f"twofold:{game.__name__}VectorEnv",
            )


def make_vec(env: str, num_envs: int, **arguments: Any) -> VectorEnv[Any, Any, Any]:
    """`gymnasium.make_vec` for ids and arguments that a user chose.

    Raises:
        InvalidArgument: There is no such environment, or it has no such argument.
    """
    try:
        return gymnasium.make_vec(env, num_envs=num_envs, **arguments)
    except (gymnasium.error.Error, ModuleNotFoundError, TypeError) as error:
        raise InvalidArgument(f"{env} can't be made: {error}", field="env") from error
