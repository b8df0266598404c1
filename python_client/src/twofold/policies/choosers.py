"""Choosers: a common interface for everything that chooses actions.

There are three kinds: policies that the service plays, Python functions with or without memory, and
players that may fail in some games. The choices of functions and players are checked.
"""

from __future__ import annotations

import abc
import math
import time
import traceback
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from twofold.errors import GameFailed, InvalidArgument, PolicyError
from twofold.games.game2048 import Game2048
from twofold.games.spec import full_id
from twofold.judging import ChatModel, Failure, Strategy
from twofold.policies import served_policies
from twofold.policies.functions import PolicyFunction, PolicyWithMemory

Array: TypeAlias = NDArray[Any]
Envs: TypeAlias = VectorEnv[Any, Any, Any]
Place: TypeAlias = Callable[[int], Mapping[str, int]]
"""A function that describes a lane for messages.

It returns the lane's episode, seed and step, or only the lane and step.
"""


@dataclass(frozen=True)
class Chooser(abc.ABC):
    """A way to choose actions in any number of environments. Choosers can be pickled.

    Attributes:
        name: The name in reports.
        card: The chooser's entries for the rule card.
        episodes: The default number of games in an evaluation.
        lanes: The default for the maximum number of boards played at once.
        conditions: Entries that replace or extend the rule card's entries about the environment.
        may_fail: Whether the chooser may fail in some games. If True, it plays only in evaluations,
            with secret seeds.
    """

    name: str
    card: Mapping[str, Any] = field(default_factory=dict)
    episodes: int = 1_000
    lanes: int = 4_096
    conditions: Mapping[str, Any] = field(default_factory=dict)

    may_fail = False

    def for_env(self, env: object) -> Chooser:
        """Returns the chooser to use with an evaluation's `env`, which is an id or an environment.

        Raises:
            InvalidArgument: The chooser plays only in environments that the evaluation makes.
        """
        return self

    @abc.abstractmethod
    def open(self, envs: Envs, timeout: float = math.inf) -> OpenChooser | served_policies.Policy:
        """Prepares the chooser to play in one environment. A policy of the service is ready.

        Args:
            envs: The environment.
            timeout: The time limit for one call of a function, in seconds.

        Raises:
            InvalidArgument: The chooser can't play in this environment.
        """


@dataclass(frozen=True)
class ServedChooser(Chooser):
    """A policy that the service plays.

    Attributes:
        local: The `make` of an equivalent `FunctionChooser` for open environments and other games
            than 2048; None if the policy exists only in the service.
    """

    policy: served_policies.Policy = field(kw_only=True)
    local: Callable[[Envs], PolicyFunction] | None = None

    def for_env(self, env: object) -> Chooser:
        """Returns this chooser if the service can play in `env`, else the local function."""
        if isinstance(env, str) and (self.local is None or full_id(env) == Game2048.environment_id):
            return self
        if self.local is None:
            raise InvalidArgument(
                f"the policy {self.name} runs in the server; pass the environment's id as env",
                field="env",
            )
        return FunctionChooser(self.name, self.card, make=self.local)

    def open(self, envs: Envs, timeout: float = math.inf) -> served_policies.Policy:
        """Returns the policy."""
        return self.policy


class OpenChooser(abc.ABC):
    """A chooser that is ready to play in one environment. Its choices are checked.

    Attributes:
        num_actions: The number of actions in the environment.
        calls: The number of choices so far.
        seconds: The time in seconds spent choosing.
        failures: The games that failed in the last choice, by lane.
    """

    def __init__(self, name: str, envs: Envs) -> None:
        space = envs.single_action_space
        if not isinstance(space, gym.spaces.Discrete):
            raise InvalidArgument(f"env's action space is {space}; expected Discrete", field="env")
        if space.start != 0:
            raise InvalidArgument(
                f"env's actions begin at {space.start}; expected actions that begin at 0",
                field="env",
            )
        self.num_actions = int(space.n)
        self.calls = 0
        self.seconds = 0.0
        self.failures: dict[int, GameFailed] = {}
        self._dtype = space.dtype
        self._name = name
        self._remembers = False

    @abc.abstractmethod
    def begin(self, lanes: NDArray[np.bool_], seeds: NDArray[np.uint64] | None = None) -> None:
        """Prepares for new episodes on some lanes.

        Args:
            lanes: bool (N,), True for lanes that begin an episode.
            seeds: uint64 (N,), the seeds for a player's own random numbers in the episodes.

        Raises:
            PolicyError: The policy raised an exception.
        """

    def summary(self) -> Mapping[str, Any]:
        """Returns statistics of a player for the evaluation's summary; empty for a function."""
        return {}

    def close(self) -> None:  # noqa: B027 - a function has nothing to end
        """Ends the processes and threads of a player."""

    def choose(
        self, observations: Any, mask: Array, playing: NDArray[np.bool_], place: Place
    ) -> Array:
        """Returns actions (N,) of the action space's dtype. An idle lane gets any legal action.

        Args:
            observations: (N, …)
            mask: int8 (N, actions)
            playing: bool (N,), True for lanes in play, False for idle lanes.
            place: The function that describes a lane in messages.

        Raises:
            PolicyError: The policy raised an exception, took too long, or did not return legal
                actions.
        """
        lanes, all_masks = np.arange(len(mask)), mask
        if not playing.all():
            if self._remembers:
                # Autoreset has begun games on finished boards that nobody plays.
                mask = mask * playing[:, np.newaxis]
            else:
                lanes = np.flatnonzero(playing)
                observations, mask = rows(observations, lanes), mask[lanes]
        actions = self._ask(observations, mask, lanes, place)
        # The action of a failed game is -1.
        is_asked = playing[lanes] & (actions >= 0) if self.failures else playing[lanes]
        is_bad = ((actions < 0) | (actions >= self.num_actions)) & is_asked
        if not is_bad.any():
            if not is_asked.all():
                # Some environments refuse an illegal action on idle lanes too.
                actions = np.where(is_asked, actions, all_masks[lanes].argmax(axis=1))
            actions = actions.astype(self._dtype)
            places = np.arange(0, mask.size, self.num_actions) + actions
            is_bad = (mask.ravel()[places] == 0) & is_asked
        if is_bad.any():
            row = int(is_bad.argmax())
            action, legal = int(actions[row]), np.flatnonzero(mask[row]).tolist()
            where = place(int(lanes[row]))
            raise self._error(
                f"chose action {action} instead of one of the legal actions {legal}, in row {row} "
                f"({_named(where)}); the observation:\n{rows(observations, row)}",
                row=row,
                lane=where.get("lane"),
                episode=where.get("episode"),
                seed=where.get("seed"),
            )
        self.calls += 1
        if len(lanes) == len(playing):
            return actions
        of_all: Array = all_masks.argmax(axis=1).astype(self._dtype)
        of_all[lanes] = actions
        return of_all

    @abc.abstractmethod
    def _ask(self, observations: Any, mask: Array, lanes: Array, place: Place) -> Array:
        """Asks for the actions of these lanes, (K,). Returns integers (K,), not yet checked."""

    def _error(self, problem: str, **place: int | None) -> PolicyError:
        text = f"policy {self._name!r}, call {self.calls}: {problem}"
        return PolicyError(text, policy=self._name, call=self.calls, **place)


@dataclass(frozen=True)
class FunctionChooser(Chooser):
    """A policy that is a Python function.

    Attributes:
        make: A function that makes the policy for an environment. It raises InvalidArgument if the
            policy plays another game.
    """

    make: Callable[[Envs], PolicyFunction] = field(kw_only=True)

    def open(self, envs: Envs, timeout: float = math.inf) -> OpenFunction:
        """Makes the function for an environment, and returns it ready to play."""
        return OpenFunction(self.name, envs, self.make(envs), timeout)


def given(policy: PolicyFunction, envs: object) -> PolicyFunction:
    """Returns `policy`, for any environment.

    Unlike a lambda, a `functools.partial` of this function can be pickled.
    """
    return policy


class OpenFunction(OpenChooser):
    """A Python function that plays in one environment.

    Attributes:
        first_lane: The number of the environment's first lane in messages about rollouts.
        steps: The number of steps that rollouts have played.
    """

    first_lane = steps = 0

    def __init__(self, name: str, envs: Envs, function: PolicyFunction, timeout: float) -> None:
        super().__init__(name, envs)
        self._function, self._timeout = function, timeout
        self._memory = function if isinstance(function, PolicyWithMemory) else None
        self._remembers = self._memory is not None
        self._boards: int | None = None  # K of the last call

    def begin(self, lanes: NDArray[np.bool_], seeds: NDArray[np.uint64] | None = None) -> None:
        """Calls the function's `reset` if it has a memory."""
        if self._memory is None:
            return
        start = time.perf_counter()
        try:
            self._memory.reset(lanes.copy())
        except (Exception, SystemExit) as error:
            hint = ""
            if self.calls == 0:
                hint = (
                    f"; there are {len(lanes)} boards: if the policy has arrays for a different "
                    "number of boards from an earlier use, its reset must make new arrays"
                )
            raise self._error(f"reset raised {described(error)}{hint}") from error
        self.seconds += time.perf_counter() - start

    def _ask(self, observations: Any, mask: Array, lanes: Array, place: Place) -> Array:
        start = time.perf_counter()
        try:
            # A copy, because the policy may write to its arguments, and the mask is needed later.
            returned = self._function(observations, mask.copy())
        except (Exception, SystemExit) as error:
            raise self._error(f"raised {described(error)}{self._change(len(mask))}") from error
        seconds = time.perf_counter() - start
        self.seconds += seconds
        if seconds > self._timeout:
            raise self._error(
                f"took {seconds:.3g} s for {len(mask)} boards; policy_timeout is "
                f"{self._timeout:.3g} s"
            )
        try:
            actions = np.asarray(returned)
        except Exception as error:
            raise self._error(f"returned {type(returned).__name__}; expected an array") from error
        if actions.dtype.kind not in "iu" or actions.shape != (len(mask),):
            raise self._error(
                f"returned {actions.dtype} of shape {actions.shape}; expected integers of shape "
                f"({len(mask)},){self._change(len(mask))}"
            )
        self._boards = len(mask)
        return actions

    def _change(self, boards: int) -> str:
        """Returns a hint if the number of boards has changed since the last call."""
        if self._boards in (None, boards):
            return ""
        return (
            f"; K went from {self._boards} to {boards}: a policy that remembers boards needs a "
            "method reset (twofold.policies.PolicyWithMemory)"
        )


@dataclass(frozen=True)
class PlayerChooser(Chooser):
    """A policy that may fail in some games: a program or a chat model."""

    policy: Strategy | ChatModel = field(kw_only=True)

    may_fail = True

    def open(self, envs: Envs, timeout: float = math.inf) -> OpenPlayer:
        """Makes the player for a 2048 environment, and returns it ready to play."""
        return OpenPlayer(self.name, envs, self.policy)


class OpenPlayer(OpenChooser):
    """A program or a chat model that plays in one environment."""

    def __init__(self, name: str, envs: Envs, policy: Strategy | ChatModel) -> None:
        player = policy.make(envs)
        super().__init__(name, envs)
        self._player = player

    def begin(self, lanes: NDArray[np.bool_], seeds: NDArray[np.uint64] | None = None) -> None:
        """Begins a game on the lanes in the mask `lanes`, bool (N,)."""
        assert seeds is not None
        self._player.begin(np.flatnonzero(lanes), seeds[lanes])

    def _ask(self, observations: Any, mask: Array, lanes: Array, place: Place) -> Array:
        start = time.perf_counter()
        choices = self._player.choose(observations, mask, lanes)
        self.seconds += time.perf_counter() - start
        self.failures = {}
        for lane, choice in zip(lanes.tolist(), choices, strict=True):
            if isinstance(choice, Failure):
                where = place(lane)
                self.failures[lane] = GameFailed(
                    f"policy {self._name!r} failed ({_named(where)}): {choice.reason}: "
                    f"{choice.detail}",
                    policy=self._name,
                    call=where["step"],  # in this game, for any number of boards
                    reason=choice.reason,
                    detail=choice.detail,
                    **where,
                )
        return np.array([-1 if isinstance(each, Failure) else each for each in choices])

    def summary(self) -> Mapping[str, Any]:
        """Returns the player's statistics."""
        return self._player.summary()

    def close(self) -> None:
        """Ends the player."""
        self._player.close()


PolicyLike: TypeAlias = (
    PolicyFunction | served_policies.Policy | Strategy | ChatModel | str | Chooser
)
"""The type of a policy argument: a function, an object of `twofold.policies`, or a name."""


def rows(observations: Any, which: Any) -> Any:
    """Returns the selected rows of a batch of observations.

    A batch is an array, or a dict or tuple of batches.
    """
    if isinstance(observations, dict):
        return {key: rows(value, which) for key, value in observations.items()}
    if isinstance(observations, tuple):
        return tuple(rows(value, which) for value in observations)
    return observations[which]


def _named(place: Mapping[str, int]) -> str:
    return ", ".join(f"{key} {value}" for key, value in place.items())


def described(error: BaseException, callers: Collection[str] = (__file__,)) -> str:
    """Describes an exception that a policy raised, with the line of its code that raised it.

    `callers` are the files that called the policy's code.
    """
    text = f"{type(error).__name__}: {error}"
    for at in reversed(traceback.extract_tb(error.__traceback__)):
        if at.filename not in callers and not at.filename.startswith("<frozen importlib"):
            return f"{text} ({at.filename}:{at.lineno} in {at.name})"
    return text
