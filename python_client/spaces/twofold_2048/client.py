"""The Space's client."""

from twofold.integrations.openenv.client import Game2048Client

__all__ = ["Game2048Client"]
