"""Steps N boards in `jax.lax.scan` on the CPU, in one jitted function.

jax_scan.py twofold|pgx|jumanji given|random N

The actions are given (drawn in advance), or drawn inside the scan among the legal ones. A step
starts a new episode on each ended board, and computes all of its results. XLA omits results that
nothing uses, so the scan carries every result of pgx and Jumanji. Twofold's step is one call, which
always computes everything. There, the scan carries only what the next step needs.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from worker import serve

Functions = tuple[
    Callable[[Any], Any], Callable[[Any, Any, Any], Any], Callable[[Any], tuple[Any, Any]]
]
"""Functions that reset boards (keys), step them (boards, actions, keys), and show their masks and
rewards (boards)."""


def twofold(num_envs: int) -> Functions:
    """Returns the functions of Twofold."""
    import twofold.jax

    env = twofold.jax.make("twofold/Game2048-v0", num_envs)

    def needed(state: Any, timestep: Any) -> Any:
        return state, timestep.action_mask, timestep.reward

    def reset(key: Any) -> Any:
        return needed(*env.reset(key))

    def step(boards: Any, actions: Any, key: Any) -> Any:
        return needed(*env.step(boards[0], actions))

    return reset, step, lambda boards: (boards[1], boards[2])


def pgx(num_envs: int) -> Functions:
    """Returns the functions of pgx."""
    import pgx  # type: ignore[import-not-found]
    from pgx.experimental import auto_reset  # type: ignore[import-not-found]

    env = pgx.make("2048")
    step_all = jax.vmap(auto_reset(env.step, env.init))

    def reset(key: Any) -> Any:
        return jax.vmap(env.init)(jax.random.split(key, num_envs))

    def step(boards: Any, actions: Any, key: Any) -> Any:
        return step_all(boards, actions, jax.random.split(key, num_envs))

    return reset, step, lambda boards: (boards.legal_action_mask, boards.rewards)


def jumanji(num_envs: int) -> Functions:
    """Returns the functions of Jumanji, whose boards carry their keys."""
    import jumanji  # type: ignore[import-not-found]
    from jumanji import wrappers

    env = wrappers.VmapWrapper(wrappers.AutoResetWrapper(jumanji.make("Game2048-v1")))

    def reset(key: Any) -> Any:
        return env.reset(jax.random.split(key, num_envs))

    def step(boards: Any, actions: Any, key: Any) -> Any:
        return env.step(boards[0], actions)

    return reset, step, lambda boards: (boards[1].observation.action_mask, boards[1].reward)


class Scan:
    """N boards of one package. Each call plays many steps in one scan."""

    action_dtype = np.int32

    def __init__(self, package: str, actions: str, num_envs: int) -> None:
        # Enough steps to make the overhead of starting a call negligible.
        self.steps_per_call = min(8192, max(64, 65_536 // num_envs))
        reset, step, show = {"twofold": twofold, "pgx": pgx, "jumanji": jumanji}[package](num_envs)
        self._key, now, choose = jax.random.split(jax.random.PRNGKey(0), 3)
        self._boards = jax.jit(reset)(now)
        given = jax.random.randint(choose, (self.steps_per_call, num_envs), 0, 4)
        if package == "twofold":
            given = given.astype(np.uint8)  # the dtype that needs no conversion

        def step_once(boards: Any, inputs: tuple[Any, Any]) -> Any:
            key, chosen = inputs
            if actions == "random":
                key, now = jax.random.split(key)
                logits = jnp.where(show(boards)[0], 0.0, -jnp.inf)
                chosen = jax.random.categorical(now, logits)
            boards = step(boards, chosen, key)
            return boards, show(boards)[1]

        def play(key: Any, boards: Any) -> Any:
            key, now = jax.random.split(key)
            keys = jax.random.split(now, self.steps_per_call)
            boards, rewards = jax.lax.scan(step_once, boards, (keys, given))
            return key, boards, rewards

        self._play = jax.jit(play)
        self.details = {
            package: version(package),
            "jax": f"{jax.__version__} on {jax.devices()[0].platform}",
        }

    def step(self, _: NDArray[Any]) -> Any:
        """Plays the steps of a call, and returns the rewards of each."""
        self._key, self._boards, rewards = self._play(self._key, self._boards)
        return np.asarray(jax.block_until_ready(rewards))

    def mask(self, outputs: Any) -> None:
        """Returns None, because the scan chooses the actions."""


if __name__ == "__main__":
    serve(functools.partial(Scan, sys.argv[1], sys.argv[2]))
