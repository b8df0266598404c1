"""The environments: Gymnasium's API over one session, and the games by their ids."""

import gymnasium

from twofold.games.base import Game
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
