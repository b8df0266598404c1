"""Policies that are Python functions: their interfaces, and calls with every result checked."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import ArrayLike, NDArray

from twofold.errors import GameFailed, InvalidArgument, PolicyError
from twofold.judging import ChatModel, Failure, Player, Strategy
from twofold.policies import served_policies


class PolicyFunction(Protocol):
    """A function that chooses actions, or an object that can be called like one.

    It may have a `card`, a mapping with entries for the rule card of `evaluate`, and a `reset` if
    it remembers its games: see `PolicyWithMemory`.
    """

    def __call__(self, observations: Any, action_mask: NDArray[np.int8], /) -> ArrayLike:
        """Chooses an action on each of K boards, those that are still being played.

        Args:
            observations: (K, …), as the environment returns them.
            action_mask: int8 (K, actions), 1 where an action is legal.

        Returns:
            Legal actions, integers (K,).
        """
        ...


@runtime_checkable
class PolicyWithMemory(PolicyFunction, Protocol):
    """A policy that remembers something of each game, such as `PerfectMemory`.

    `reset` announces the boards that begin an episode. The policy always gets all N boards in the
    same order, so that row i is the same board each time; its actions for boards that are not being
    played are ignored.
    """

    def reset(self, lanes: NDArray[np.bool_], /) -> object:
        """Forgets some boards: their next observation is the first of a new episode.

        Args:
            lanes: bool (N,), true for these boards; called before the first action too.
        """
        ...


@dataclass(frozen=True)
class NamedPolicy:
    """A policy with its name and its entries of the rule card.

    Attributes:
        name: The name in reports.
        card: Entries of the rule card.
        make: Makes the function for an environment; None for a policy that only runs in the server.
            Raises InvalidArgument where the policy plays another game.
        served: The equivalent policy in the server, if any; used where the environment supports it.
        make_player: Makes the player instead, for a policy that may fail in single games; only
            `evaluate` plays it.
        episodes: The default number of games of an evaluation.
        lanes: The highest default number of boards at once.
    """

    name: str
    card: Mapping[str, Any] = field(default_factory=dict)
    make: Callable[[VectorEnv[Any, Any, Any]], PolicyFunction] | None = None
    served: served_policies.Policy | None = None
    make_player: Callable[[VectorEnv[Any, Any, Any]], Player] | None = None
    episodes: int = 1_000
    lanes: int = 4_096


def given(policy: PolicyFunction, envs: object) -> PolicyFunction:
    """A policy that is the same in every environment; its partial as `make` can be pickled."""
    return policy


PolicyLike: TypeAlias = (
    "PolicyFunction | served_policies.Policy | Strategy | ChatModel | str | NamedPolicy"
)
"""A function, an object of `twofold.policies`, or a name."""


class PolicyCaller:
    """Calls a policy's function and checks everything that it returns.

    Args:
        policy: The policy.
        envs: The environment to play in.
        timeout: Seconds that one call of the function may take.
        may_fail: Whether the caller takes policies that may fail in single games.

    Attributes:
        num_actions: Number of the environment's actions.
        calls: Number of calls so far.
        seconds: Time spent in them.
        player: The player, instead of a function, of such a policy.
        failures: The games that failed in the last call, by their lanes.
    """

    def __init__(
        self,
        policy: NamedPolicy,
        envs: VectorEnv[Any, Any, Any],
        timeout: float,
        *,
        may_fail: bool = False,
    ) -> None:
        space = envs.single_action_space
        if not isinstance(space, gym.spaces.Discrete):
            raise InvalidArgument(f"env has actions {space}; expected Discrete", field="env")
        if space.start != 0:
            raise InvalidArgument(
                f"env's actions begin at {space.start}; evaluation needs them to begin at 0",
                field="env",
            )
        if policy.make_player is not None and not may_fail:
            raise InvalidArgument(
                f"{policy.name} may fail in single games; only evaluate plays it", field="policy"
            )
        if policy.make is None and policy.make_player is None:
            raise InvalidArgument(f"the policy {policy.name} runs in the server", field="policy")
        self.num_actions = int(space.n)
        self.calls = 0
        self.seconds = 0.0
        self._dtype = space.dtype
        self._name, self._timeout = policy.name, timeout
        self.failures: dict[int, GameFailed] = {}
        self.player = None if policy.make_player is None else policy.make_player(envs)
        self._function: Any = None if policy.make is None else policy.make(envs)
        self._memory = self._function if isinstance(self._function, PolicyWithMemory) else None

    def close(self) -> None:
        """Closes a player."""
        if self.player is not None:
            self.player.close()

    def reset(self, lanes: NDArray[np.bool_], seeds: NDArray[np.uint64] | None = None) -> None:
        """Announces that these lanes, bool (N,), begin an episode.

        Args:
            lanes: The lanes.
            seeds: uint64 (N,), of a player's own draws in the episodes.

        Raises:
            PolicyError: The policy raised.
        """
        if self.player is not None:
            assert seeds is not None
            self.player.begin(np.flatnonzero(lanes), seeds[lanes])
        if self._memory is None:
            return
        start = time.perf_counter()
        try:
            self._memory.reset(lanes.copy())
        except Exception as error:
            raise self._error(f"reset raised {_described(error)}") from error
        self.seconds += time.perf_counter() - start

    def __call__(
        self,
        observations: Any,
        mask: NDArray[Any],
        playing: NDArray[np.bool_],
        place: Callable[[int], Mapping[str, int]],
    ) -> NDArray[Any]:
        """The policy's actions (N,), of the action space's dtype; legal ones on the other lanes.

        Args:
            observations: (N, …)
            mask: int8 (N, actions)
            playing: bool (N,), lanes whose actions are needed.
            place: A function from a lane to its episode, seed and step, or lane and step, for
                messages.

        Raises:
            PolicyError: It raised, took too long, or did not return an array of legal actions.
        """
        lanes, all_masks = np.arange(len(mask)), mask
        if self._memory is None and not playing.all():
            lanes = np.flatnonzero(playing)
            observations, mask = rows(observations, lanes), mask[lanes]
        is_asked = playing[lanes]
        if self.player is None:
            actions = self._ask(observations, mask)
        else:
            actions = self._ask_player(self.player, observations, mask, lanes, place)
            is_asked &= actions >= 0
        is_bad = ((actions < 0) | (actions >= self.num_actions)) & is_asked
        if not is_bad.any():
            if not is_asked.all():
                # Some environments raise on an illegal action, on idle lanes too.
                actions = np.where(is_asked, actions, mask.argmax(axis=1))
            actions = actions.astype(self._dtype)
            places = np.arange(0, mask.size, self.num_actions) + actions
            is_bad = (mask.ravel()[places] == 0) & is_asked
        if is_bad.any():
            row = int(is_bad.argmax())
            action, legal = int(actions[row]), np.flatnonzero(mask[row]).tolist()
            where = place(int(lanes[row]))
            named = ", ".join(f"{key} {value}" for key, value in where.items())
            raise self._error(
                f"chose action {action}, legal are {legal}, in row {row} ({named}); the "
                f"observation:\n{rows(observations, row)}",
                row=row,
                lane=where.get("lane"),
                episode=where.get("episode"),
                seed=where.get("seed"),
            )
        self.calls += 1
        if len(lanes) == len(playing):
            return actions
        of_all: NDArray[Any] = all_masks.argmax(axis=1).astype(self._dtype)
        of_all[lanes] = actions
        return of_all

    def _ask(self, observations: Any, mask: NDArray[Any]) -> NDArray[Any]:
        """Integers (K,) from the policy, in time; their range is not checked."""
        start = time.perf_counter()
        try:
            # A copy: the policy may write into its arguments, and the mask is needed again.
            returned = self._function(observations, mask.copy())
        except Exception as error:
            raise self._error(f"raised {_described(error)}") from error
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
                f"({len(mask)},)"
            )
        return actions

    def _ask_player(
        self,
        player: Player,
        observations: Any,
        mask: NDArray[Any],
        lanes: NDArray[np.intp],
        place: Callable[[int], Mapping[str, int]],
    ) -> NDArray[Any]:
        """Integers (K,) from a player, -1 for a game that failed; sets `failures`."""
        start = time.perf_counter()
        choices = player.choose(observations, mask, lanes)
        self.seconds += time.perf_counter() - start
        self.failures = {}
        for row, (lane, choice) in enumerate(zip(lanes.tolist(), choices, strict=True)):
            if isinstance(choice, Failure):
                where = place(lane)
                named = ", ".join(f"{key} {value}" for key, value in where.items())
                self.failures[lane] = GameFailed(
                    f"policy {self._name!r} failed ({named}): {choice.reason}: {choice.detail}",
                    policy=self._name,
                    call=self.calls,
                    row=row,
                    reason=choice.reason,
                    detail=choice.detail,
                    **where,
                )
        return np.array([-1 if isinstance(each, Failure) else each for each in choices])

    def _error(self, problem: str, **place: int | None) -> PolicyError:
        text = f"policy {self._name!r}, call {self.calls}: {problem}"
        return PolicyError(text, policy=self._name, call=self.calls, **place)


def rows(observations: Any, which: Any) -> Any:
    """Some rows of a batch of observations, which is an array or a dict or tuple of batches."""
    if isinstance(observations, dict):
        return {key: rows(value, which) for key, value in observations.items()}
    if isinstance(observations, tuple):
        return tuple(rows(value, which) for value in observations)
    return observations[which]


def _described(error: BaseException) -> str:
    """An exception of a policy, and the last line of the policy's own code."""
    text = f"{type(error).__name__}: {error}"
    frames = [at for at in traceback.extract_tb(error.__traceback__) if at.filename != __file__]
    if not frames:
        return text
    return f"{text} ({frames[-1].filename}:{frames[-1].lineno} in {frames[-1].name})"
