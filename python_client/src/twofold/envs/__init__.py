"""Gymnasium environments, which are built on sessions, and the list of games."""

from typing import Any, NamedTuple

import gymnasium
from gymnasium.vector import VectorEnv

from twofold.envs.concentration import ConcentrationEnv, ConcentrationVectorEnv
from twofold.envs.game2048 import Game2048Env, Game2048VectorEnv
from twofold.envs.single import TwofoldEnv
from twofold.envs.vector import TwofoldVectorEnv
from twofold.errors import InvalidArgument, TwofoldError
from twofold.games.concentration import Concentration
from twofold.games.game2048 import Game2048
from twofold.games.spec import GameSpec


class RegisteredGame(NamedTuple):
    """A game and the environments that the package exports for it."""

    spec: type[GameSpec]
    single: type[TwofoldEnv[Any]]
    vector: type[TwofoldVectorEnv[Any, Any]]


GAMES = (
    RegisteredGame(Game2048, Game2048Env, Game2048VectorEnv),
    RegisteredGame(Concentration, ConcentrationEnv, ConcentrationVectorEnv),
)
"""All games. Add a new game here, and its environments to the package's `__init__`."""
BY_ID = {game.spec.environment_id: game for game in GAMES}
BY_NAME = {game.spec.name: game for game in GAMES}


def register() -> None:
    """Registers the games with `gymnasium.make` and `gymnasium.make_vec`. Safe to call twice."""
    for environment_id, game in BY_ID.items():
        if environment_id not in gymnasium.registry:
            gymnasium.register(
                id=environment_id,
                entry_point=f"twofold:{game.single.__name__}",
                vector_entry_point=f"twofold:{game.vector.__name__}",
            )


def make_vec(env: str, num_envs: int, **arguments: Any) -> VectorEnv[Any, Any, Any]:
    """Calls `gymnasium.make_vec` with a user's environment id and arguments.

    Raises:
        InvalidArgument: The environment or one of its arguments is unknown or invalid.
    """
    try:
        return gymnasium.make_vec(env, num_envs=num_envs, **arguments)
    except TwofoldError:
        raise
    except (gymnasium.error.Error, ImportError, TypeError, ValueError) as error:
        raise InvalidArgument(f"{env} can't be made: {error}", field="env") from error
