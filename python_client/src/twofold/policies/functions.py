"""Policies that are Python functions: their interfaces."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray


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
