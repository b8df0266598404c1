"""The interfaces of policies that are Python functions, and a policy with its name and card."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import ArrayLike, NDArray

from twofold.envs import served_policies


class PolicyFunction(Protocol):
    """A function that chooses actions, or an object that can be called like one.

    It may have a `card`, a mapping with entries for the rule card of `evaluate`, and a `reset` if
    it remembers its games: see `PolicyWithMemory`.
    """

    def __call__(self, observations: Any, action_mask: NDArray[np.int8], /) -> ArrayLike:
        """Chooses an action on each of K boards.

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
    """

    name: str
    card: Mapping[str, Any] = field(default_factory=dict)
    make: Callable[[VectorEnv[Any, Any, Any]], PolicyFunction] | None = None
    served: served_policies.Policy | None = None


PolicyLike: TypeAlias = "PolicyFunction | served_policies.Policy | str | NamedPolicy"
"""A function, an object of `twofold.policies`, or a name."""
