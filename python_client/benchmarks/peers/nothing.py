"""An environment that does nothing, to measure everything else in a learner's loop.

nothing.py N
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from worker import serve


class Nothing:
    """A player whose step does nothing. It has an action mask like every other player."""

    action_dtype = np.int64

    def __init__(self, num_envs: int) -> None:
        self._mask = np.random.default_rng(0).integers(0, 2, (num_envs, 4), np.int8)
        self.details = {"numpy": np.__version__}

    def step(self, actions: NDArray[Any]) -> None:
        """Does nothing."""

    def mask(self, outputs: None) -> NDArray[Any]:
        """Returns a constant mask, so that choosing actions takes the usual time."""
        return self._mask


if __name__ == "__main__":
    serve(Nothing)
