"""EnvPool's two versions of 2048, called through its fastest interface (`env_type="dm"`).

    envpool_dm.py Game2048-v1|Play2048-v1 N

`Game2048-v1` is EnvPool's port of Jumanji's game, and `Play2048-v1` its port of pgx's.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any, ClassVar

import envpool  # type: ignore[import-not-found]
import numpy as np
from numpy.typing import NDArray
from worker import serve


class EnvPool:
    """A pool of N environments. It tries several thread counts and keeps the fastest."""

    action_dtype = np.int32
    # For each environment: the mask, and a description of the other observations.
    masks: ClassVar[dict[str, tuple[str, str]]] = {
        "Game2048-v1": ("action_mask", "board int32, highest_tile"),
        "Play2048-v1": ("legal_action_mask", "planes bool (N, 4, 4, 31), board int32"),
    }

    def __init__(self, num_envs: int) -> None:
        self._mask, others = self.masks[sys.argv[1]]
        cores = len(os.sched_getaffinity(0))
        threads = {1, min(cores, num_envs)}
        rates = {count: self._rate(self._make(num_envs, count), num_envs) for count in threads}
        best = max(rates, key=lambda count: rates[count])
        self._envs = self._make(num_envs, best)
        self.details = {
            "envpool": envpool.__version__,
            "num_threads": f"{best}, the faster of {sorted(threads)}",
            "outputs": f"step_type, reward, discount, {others}, {self._mask}",
        }

    def _make(self, num_envs: int, threads: int) -> Any:
        envs = envpool.make(
            sys.argv[1], env_type="dm", num_envs=num_envs, num_threads=threads, seed=0
        )
        envs.reset()
        return envs

    def _rate(self, envs: Any, num_envs: int) -> float:
        """Measures for a fifth of a second, and returns the steps per second."""
        actions = np.arange(num_envs, dtype=self.action_dtype) % 4
        envs.step(actions)
        started, calls = time.perf_counter(), 0
        while time.perf_counter() - started < 0.2 or calls < 2:
            envs.step(actions)
            calls += 1
        return calls / (time.perf_counter() - started)

    def step(self, actions: NDArray[Any]) -> Any:
        """Steps all boards."""
        return self._envs.step(actions)

    def mask(self, outputs: Any) -> NDArray[Any]:
        """Returns the mask, which is part of the observation."""
        mask: NDArray[Any] = np.ascontiguousarray(getattr(outputs.observation, self._mask))
        return mask


if __name__ == "__main__":
    serve(EnvPool)
