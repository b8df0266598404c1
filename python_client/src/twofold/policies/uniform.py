"""The policy that plays random legal actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from twofold.envs.results import Array


class RandomPolicy:
    """Uniformly random legal actions, from its own numpy generator.

    Args:
        seed: The generator's seed.
    """

    card: Mapping[str, Any] = {
        "search_max_layers": 0,
        "symmetry_averaging": False,
        "weights_mb": 0.0,
        "threads": 1,
    }

    def __init__(self, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)

    def __call__(self, observations: Any, action_mask: Array) -> Array:
        """Actions (K,) for action_mask (K, actions)."""
        if action_mask.shape[1] != 4:
            chances = self._rng.random(action_mask.shape, np.float32) * action_mask
            return np.asarray(chances.argmax(axis=1))
        # The number of legal actions, 1 ... 4, divides 12: a draw of 12 picks each equally often.
        draws = self._rng.integers(0, 12, len(action_mask), np.uint8)
        masks = action_mask @ np.array([1, 2, 4, 8], np.int8)
        return np.asarray(_PICKS[masks, draws])


def _picks() -> Array:
    """uint8 (16, 12): the action for each mask, as bits, and each draw."""
    table = np.zeros((16, 12), np.uint8)
    for mask in range(1, 16):
        legal = [action for action in range(4) if mask >> action & 1]
        table[mask] = [legal[draw * len(legal) // 12] for draw in range(12)]
    return table


_PICKS = _picks()
