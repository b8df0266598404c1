"""Players that can fail in a game: programs in a sandbox, and chat models."""

from twofold.judging.chat import ChatModel
from twofold.judging.players import Failure
from twofold.judging.strategy import Strategy

__all__ = ["ChatModel", "Failure", "Strategy"]
