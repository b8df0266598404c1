"""2048 for OpenEnv, on Twofold's boards."""

from .client import Game2048Client
from .models import Game2048Action, Game2048Observation, Game2048State

__all__ = ["Game2048Action", "Game2048Client", "Game2048Observation", "Game2048State"]
