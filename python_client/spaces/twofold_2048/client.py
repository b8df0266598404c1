"""The client of the Space."""

from twofold.integrations.openenv.client import Game2048Client

__all__ = ["Game2048Client"]
