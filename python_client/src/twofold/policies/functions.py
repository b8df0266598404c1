"""The interfaces of policies that are Python functions."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray


class PolicyFunction(Protocol):
    """A function that chooses actions, or an object that can be called like one.

    It may have a `card`, a mapping with entries for the rule card of `evaluate`. A policy that
    remembers its games has a `reset`: see `PolicyWithMemory`.
    """

    def __call__(self, observations: Any, action_mask: NDArray[np.int8], /) -> ArrayLike:
        """Chooses an action on each of the K boards in play.

        Args:
            observations: (K, …), in the environment's form.
            action_mask: int8 (K, actions), 1 for legal actions.

        Returns:
            Legal actions, integers (K,).
        """
        ...


@runtime_checkable
class PolicyWithMemory(PolicyFunction, Protocol):
    """A policy that remembers something about each game, such as `PerfectMemory`.

    `reset` announces the boards that begin an episode. The policy always gets all N boards in the
    same order, so that row i is the same board each time. The mask of a board that is not in play
    is 0, and its action is ignored.
    """

    def reset(self, lanes: NDArray[np.bool_], /) -> object:
        """Forgets the boards that begin an episode; also called before the first action.

        Args:
            lanes: bool (N,), true for boards whose next observation is the first of an episode.
        """
        ...
