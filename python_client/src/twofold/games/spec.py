"""The client's description of a game; the server reports everything else."""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeAlias

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self, TypedDict

from twofold import _arguments
from twofold.games.drawing import Picture
from twofold.games.rewards import Reward, read_reward, reward_spec
from twofold.v1 import environment_pb2 as environment

Infos: TypeAlias = Mapping[str, Any]
"""The infos of one board, as JSON values."""


def full_id(env_id: str) -> str:
    """Returns an environment's id without a module, "module:id", and with its version.

    Of an id without a version, Gymnasium makes the newest one.
    """
    name = env_id.rpartition(":")[2]
    parts = [known.rpartition("-v") for known in gym.registry]
    versions = [int(number) for base, _, number in parts if base == name and number.isdecimal()]
    return f"{name}-v{max(versions)}" if versions else name


class GameArguments(TypedDict, total=False):
    """The arguments that all games have."""

    max_episode_steps: int | None
    """The number of steps after which the server truncates an episode; None for the game's own
    limit, if any. (`gymnasium.make` does not pass this argument on; it adds its own TimeLimit.)"""
    reward: Reward
    """The reward of a step: a dict or a list of terms, or the path of a JSON file; None for the
    game's own. The page "Rewards" lists the terms."""


class Argument(NamedTuple):
    """An argument of a game."""

    default: Any
    """The value if the argument is omitted; None if another argument determines the value."""
    check: Callable[[str, Any], Any]
    """A function (name, value) that checks a value and returns the value that the game uses.

    It raises InvalidArgument for an invalid value. It is not called for a default of None.
    """
    flag: Mapping[str, Any] = {}
    """The arguments of `add_argument` for a command-line flag; empty for no flag."""


SHARED_ARGUMENTS: dict[str, Argument] = {
    "max_episode_steps": Argument(
        None,
        lambda name, value: _arguments.integer(name, value, 1, 2**63 - 1),
        {
            "type": int,
            "metavar": "N",
            "help": "truncate episodes after N steps (default: the preset's, or never)",
        },
    ),
    "reward": Argument(None, lambda _, value: read_reward(value)),
}
"""The arguments of every game."""


class Measure(NamedTuple):
    """A statistic over many episodes, computed from an info of each episode's last step."""

    name: str
    info: str
    fold: np.ufunc
    """The operation that combines episodes: `np.minimum`, `np.maximum`, or `np.add` for a mean."""
    of: Callable[[NDArray[Any]], NDArray[Any]] = np.asarray
    """A function that converts k values of the info to the numbers (k,) to combine."""


@dataclass(frozen=True)
class GameSpec(abc.ABC):
    """A game with its arguments. Create a game with `of`. Games can be pickled.

    Attributes:
        arguments: The given arguments; a reward file is replaced by its content.
        request: The create request, with every field that the game determines.
        rows: The number of rows of the board.
        columns: The number of columns of the board.
        planes: The highest number in observations during normal play, plus one.
        actions: The word for each action.
        server_actions: The server's number for each action; None if it is the same as the user's.
    """

    arguments: Mapping[str, Any]
    request: environment.CreateRequest
    rows: int
    columns: int
    planes: int
    actions: tuple[str | int, ...]
    server_actions: tuple[int, ...] | None = None

    environment_id: ClassVar[str]
    """The environment's id in Gymnasium."""
    name: ClassVar[str]
    """The name on command lines and in tools."""
    description: ClassVar[str]
    """A one-sentence description."""
    known_arguments: ClassVar[Mapping[str, Argument]]
    """The arguments by name."""
    sides: ClassVar[tuple[int, int]]
    """The smallest and the largest number of rows. The limits for columns are the same."""
    board_numbers: ClassVar[str]
    """The word for the numbers on a board, for messages, such as "exponents"."""
    measures: ClassVar[tuple[Measure, ...]] = ()
    """The statistics of episodes other than returns and lengths."""
    unseen: ClassVar[str | None] = None
    """The word for the hidden things that copies of a board share, such as "cards"."""
    endless: ClassVar[str | None] = None
    """A description of the action that the policy "fixed-order" may repeat forever, such as "turns
    the same two cards"."""
    text_arguments: ClassVar[Mapping[str, Any]] = {}
    """The fixed arguments of games for language models."""

    @classmethod
    @abc.abstractmethod
    def of(cls, **arguments: Any) -> Self:
        """Returns the game with these arguments.

        Raises:
            InvalidArgument: An argument is wrong; `field` names it.
        """

    @classmethod
    def split(cls, arguments: Mapping[str, Any]) -> tuple[Self, dict[str, Any]]:
        """Creates the game from an environment's arguments; returns it and the other arguments.

        The arguments may come from `as_json`.
        """
        own = {name: value for name, value in arguments.items() if name in cls.known_arguments}
        return cls.of(**own), {name: arguments[name] for name in arguments if name not in own}

    @classmethod
    def played_by(cls, envs: Any) -> Self | None:
        """Returns the game that an environment plays; None if the game is not of this class."""
        game = getattr(getattr(envs, "unwrapped", None), "game", None)
        return game if isinstance(game, cls) else None

    @classmethod
    def _request(cls, values: Mapping[str, Any], **config: Any) -> environment.CreateRequest:
        """Returns the create request, given the checked arguments and the game's config message."""
        request = environment.CreateRequest(environment_id=cls.environment_id, **config)
        spec = reward_spec(values["reward"])
        if spec is not None:
            request.reward.CopyFrom(spec)
        if values["max_episode_steps"] is not None:
            request.max_episode_steps = values["max_episode_steps"]
        return request

    @classmethod
    def _checked(cls, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the checked value of each argument of the game."""
        values = {}
        for name, (default, check, _) in cls.known_arguments.items():
            value = arguments.get(name, default)
            values[name] = None if value is None and default is None else check(name, value)
        return values

    @functools.cached_property
    def server_order(self) -> NDArray[np.uint8] | None:
        """The array form of `server_actions`, uint8 (actions,); None if the orders are equal."""
        order = self.server_actions
        return None if order is None else np.array(order, np.uint8)

    def to_server(self, actions: NDArray[Any]) -> NDArray[Any]:
        """Converts the user's action numbers, which must be in range, to the server's."""
        return actions if self.server_order is None else self.server_order[actions]

    def from_server(self, actions: NDArray[Any]) -> NDArray[Any]:
        """Converts the server's action numbers to the user's."""
        if self.server_order is None:
            return actions
        numbers: NDArray[Any] = np.argsort(self.server_order).astype(np.uint8)[actions]
        return numbers

    def in_user_order(self, array: NDArray[Any], axis: int) -> NDArray[Any]:
        """Reorders a numpy or JAX array's axis from the server's action order to the user's."""
        return array if self.server_order is None else array.take(self.server_order, axis)

    @abc.abstractmethod
    def rules(self) -> dict[str, str | int]:
        """Returns the rules that affect results, in words for the rule card.

        They include "score" if the game's score is independent of the reward. Otherwise, the score
        is the sum of the rewards. Saved evaluations contain these words, and only evaluations with
        the same words can be compared.
        """

    @abc.abstractmethod
    def text(self, observation: NDArray[Any]) -> str:
        """Returns an observation's board as text."""

    @abc.abstractmethod
    def picture(self, observation: NDArray[np.uint8], size: int) -> Picture:
        """Draws a board. Its longer side has `size` pixels, or size - 1 if size is odd."""

    # The following methods are for programs that play with words.

    @abc.abstractmethod
    def number(self, action: object) -> int:
        """Returns the number of the action that a word names.

        Raises:
            InvalidArgument: The action is unknown.
        """

    @abc.abstractmethod
    def facts(self, board: NDArray[Any], infos: Infos) -> dict[str, Any]:
        """Returns the board and the state of the game, as JSON values."""

    @abc.abstractmethod
    def standing(self, infos: Infos) -> str:
        """Returns the state of the game as a sentence."""

    @abc.abstractmethod
    def choices(self, legal: list[Any], infos: Infos) -> str:
        """Returns a sentence with the possible actions; `legal` contains their words."""

    @abc.abstractmethod
    def refusal(self, number: int, board: NDArray[Any]) -> str:
        """Returns why an action is illegal, as the beginning of a sentence."""

    def outcome(self, number: int, board: NDArray[Any], before: Infos, infos: Infos) -> str:
        """Returns the effect of an action as a sentence, or "" if the board shows it.

        `before` contains the infos before the action; `board` and `infos` are the state after it.
        """
        return "" if before["action_mask"][number] else f"{self.refusal(number, board)}."

    @abc.abstractmethod
    def end(self, infos: Infos, is_legal: bool) -> str:
        """Returns why the game ended. `is_legal` is True if the last action was legal."""


def read_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a game's arguments, with the path of a reward file replaced by the file's content."""
    if arguments.get("reward") is None:
        return dict(arguments)
    return {**arguments, "reward": read_reward(arguments["reward"])}
