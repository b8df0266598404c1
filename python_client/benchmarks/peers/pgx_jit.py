"""pgx's `2048` on the CPU. One jitted function splits the keys, steps (vmapped) and autoresets.

pgx_jit.py N
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pgx  # type: ignore[import-not-found]
from numpy.typing import NDArray
from pgx.experimental import auto_reset  # type: ignore[import-not-found]
from worker import serve


class Pgx:
    """N boards whose state stays in JAX. The outputs are returned as numpy arrays."""

    action_dtype = np.int32

    def __init__(self, num_envs: int) -> None:
        env = pgx.make("2048")
        self._key, key = jax.random.split(jax.random.key(0))
        self._state = jax.jit(jax.vmap(env.init))(jax.random.split(key, num_envs))
        step_all = jax.vmap(auto_reset(env.step, env.init))

        def step(key: Any, state: Any, actions: Any) -> Any:
            key, now = jax.random.split(key)
            return key, step_all(state, actions, jax.random.split(now, num_envs))

        self._step = jax.jit(step)
        self.details = {
            "pgx": pgx.__version__,
            "jax": f"{jax.__version__} on {jax.devices()[0].platform}",
            "outputs": "observation bool (N, 4, 4, 31), reward, terminated, truncated, mask",
        }

    def step(self, actions: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """Steps all boards. Returns numpy arrays that share JAX's memory."""
        self._key, state = self._step(self._key, self._state, actions)
        self._state = state
        return (
            np.asarray(state.observation),
            np.asarray(state.rewards),
            np.asarray(state.terminated),
            np.asarray(state.truncated),
            np.asarray(state.legal_action_mask),
        )

    def mask(self, outputs: tuple[NDArray[Any], ...]) -> NDArray[Any]:
        """Returns the mask. An illegal action would end the game."""
        return np.ascontiguousarray(outputs[4])


if __name__ == "__main__":
    serve(Pgx)
