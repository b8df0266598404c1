"""Jumanji's `Game2048-v1` on the CPU. One jitted function steps (vmapped) and autoresets.

jumanji_jit.py N
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import jax
import jumanji  # type: ignore[import-not-found]
import numpy as np
from jumanji.wrappers import AutoResetWrapper, VmapWrapper  # type: ignore[import-not-found]
from numpy.typing import NDArray
from worker import serve


class Jumanji:
    """N boards whose state stays in JAX. The outputs are returned as numpy arrays."""

    action_dtype = np.int32

    def __init__(self, num_envs: int) -> None:
        env = VmapWrapper(AutoResetWrapper(jumanji.make("Game2048-v1")))
        keys = jax.random.split(jax.random.PRNGKey(0), num_envs)
        self._state, _ = jax.jit(env.reset)(keys)
        self._step = jax.jit(env.step)
        self.details = {
            "jumanji": version("jumanji"),
            "jax": f"{jax.__version__} on {jax.devices()[0].platform}",
            "outputs": "board int32, mask, reward, step_type, discount, highest_tile",
        }

    def step(self, actions: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """Steps all boards. Returns numpy arrays that share JAX's memory."""
        self._state, timestep = self._step(self._state, actions)
        return (
            np.asarray(timestep.observation.board),
            np.asarray(timestep.reward),
            np.asarray(timestep.step_type),
            np.asarray(timestep.discount),
            np.asarray(timestep.observation.action_mask),
            np.asarray(timestep.extras["highest_tile"]),
        )

    def mask(self, outputs: tuple[NDArray[Any], ...]) -> NDArray[Any]:
        """Returns the mask, which is part of the observation."""
        return np.ascontiguousarray(outputs[4])


if __name__ == "__main__":
    serve(Jumanji)
