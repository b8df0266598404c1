"""The interfaces of policies that are Python functions."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray


class PolicyFunction(Protocol):
    """A function or another callable object that chooses actions.

    It may have an attribute `card`, a mapping with entries for the rule card of `evaluate`:
    search_max_layers, symmetry_averaging, weights_mb, threads, and notes (any text). A policy that
    remembers its games has a method `reset`: see `PolicyWithMemory`.
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

        class CountsSteps:
            steps = np.zeros(0, int)

            def reset(self, lanes):
                if len(self.steps) != len(lanes):  # another N: another evaluation
                    self.steps = np.zeros(len(lanes), int)
                self.steps[lanes] = 0

            def __call__(self, observations, action_mask):
                self.steps += 1
                return action_mask.argmax(axis=1)

        policy = CountsSteps()  # on the command line: counts_steps.py:policy

    `reset` tells the policy which boards begin an episode. The policy always gets all N boards in
    the same order, so row i is the same board in every call. For a board that is not in play, the
    mask is 0 and the action is ignored.
    """

    def reset(self, lanes: NDArray[np.bool_], /) -> object:
        """Forgets the old games of boards that begin an episode. Also called before the first step.

        Args:
            lanes: bool (N,), True for boards whose next observation is the first of an episode.
        """
        ...
