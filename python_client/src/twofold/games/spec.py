"""The client's side of a game; the server reports everything else."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self, TypedDict

from twofold import _arguments
from twofold.games.drawing import Picture
from twofold.games.rewards import Reward, read_reward, reward_spec
from twofold.v1 import environment_pb2 as environment


class GameArguments(TypedDict, total=False):
    """The arguments that all games have."""

    max_episode_steps: int | None
    """Steps after which the server truncates an episode; None for the game's own limit, if any.
    (`gymnasium.make` takes it for its own TimeLimit, and it never gets here.)"""
    reward: Reward
    """The reward of a step: a dict or a list of terms, or the path of a JSON file; None for the
    game's own. docs/environments/rewards.md lists the terms."""


class Measure(NamedTuple):
    """One number about many episodes, made of an info that each of them ends with."""

    name: str
    info: str
    fold: np.ufunc
    """`np.minimum`, `np.maximum`, or `np.add` for the mean."""
    of: Callable[[NDArray[Any]], NDArray[Any]] = np.asarray
    """The numbers (k,) to fold, from k values of the info."""


class Game(abc.ABC):
    """One game with its arguments.

    Args:
        config: The part of the create request that is the game's own: environment id and config.
        max_episode_steps: Steps after which the server truncates an episode; None for never.
        reward: The reward of a step; None for the game's own.
        action_order: The server's number of each action; None if the user's are the same.

    Attributes:
        request: The create request, with all that the game decides.
        reward: The reward, read if it was the path of a file.
        action_order: The same.

    Raises:
        InvalidArgument: An argument is wrong; `field` names it.
    """

    environment_id: ClassVar[str]
    """The published id."""
    planes: int
    """One more than the highest number of an observation that play leads to."""
    argument_names: ClassVar[frozenset[str]]
    """The names of the arguments of `__init__`."""
    board_numbers: ClassVar[str]
    """The name of the numbers on a board, for messages: "exponents"."""
    measures: ClassVar[tuple[Measure, ...]] = ()
    """What the statistics of episodes have beyond returns and lengths."""
    unseen: ClassVar[str | None] = None
    """The name of what copies of a board share and no player has seen: "cards"."""

    def __init__(
        self,
        config: environment.CreateRequest,
        *,
        max_episode_steps: int | None,
        reward: Reward,
        action_order: tuple[int, ...] | None = None,
    ) -> None:
        self.request = config
        self.reward = read_reward(reward)
        self.action_order = action_order
        spec = reward_spec(self.reward)
        if spec is not None:
            self.request.reward.CopyFrom(spec)
        if max_episode_steps is not None:
            self.request.max_episode_steps = _arguments.integer(
                "max_episode_steps", max_episode_steps, 1, 2**63 - 1
            )

    @classmethod
    def split(cls, arguments: Mapping[str, Any]) -> tuple[Self, dict[str, Any]]:
        """The game made with its own among an environment's arguments, and the other ones."""
        own = {name: value for name, value in arguments.items() if name in cls.argument_names}
        return cls(**own), {name: arguments[name] for name in arguments if name not in own}

    @abc.abstractmethod
    def rules(self) -> dict[str, str | int]:
        """The rules that results depend on, in words for the rule card.

        With "score" if the game has a score whatever the reward; else it is the sum of the rewards.
        """

    @abc.abstractmethod
    def text(self, observation: NDArray[Any]) -> str:
        """One board as text, by its observation."""

    @abc.abstractmethod
    def picture(self, observation: NDArray[np.uint8], size: int) -> Picture:
        """One board as a picture, its longer side of `size` pixels (one less where odd)."""
