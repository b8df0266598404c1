"""The messages between the Space's client and server."""

from twofold.integrations.openenv.models import Game2048Action, Game2048Observation, Game2048State

__all__ = ["Game2048Action", "Game2048Observation", "Game2048State"]
