"""pgx, Jumanji and `twofold.jax` on the CPU: N boards, whose states stay in JAX.

jax_packages.py twofold|pgx|jumanji step|given|random N

With `step`, a call plays one step in a jitted function, and returns its results as numpy arrays.
Otherwise, a call plays many steps in `jax.lax.scan`, in one jitted function. The actions are given
(drawn in advance), or drawn inside the scan among the legal ones.

A step starts a new episode on each ended board, and computes all of its results. XLA omits results
that nothing uses, so the boards of pgx and Jumanji include every result. Twofold's step is one
call, which always computes everything. There, the boards include only what the next step needs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from worker import Player, serve


class Package(NamedTuple):
    """A package's N boards, as functions to compile.

    Boards are a tuple: the state, which includes the keys, and results of the last step.
    """

    reset: Callable[[Any], Any]
    """Returns the boards of new games, given a key."""
    step: Callable[[Any, Any], Any]
    """Returns the boards after a step, given the state and the actions (N,)."""
    show: Callable[[Any], tuple[Any, ...]]
    """Returns all results of the last step, given the boards: the masks, the rewards, others."""
    outputs: str
    """The results, for the report."""


def twofold(num_envs: int) -> Package:
    """Returns the boards of Twofold."""
    import twofold.jax

    env = twofold.jax.make("twofold/Game2048-v0", num_envs)

    def needed(state: Any, timestep: Any) -> Any:
        return state, timestep.action_mask, timestep.reward

    def reset(key: Any) -> Any:
        return needed(*env.reset(key))

    def step(state: Any, actions: Any) -> Any:
        return needed(*env.step(state, actions))

    return Package(reset, step, lambda boards: boards[1:], "mask, reward")


def pgx(num_envs: int) -> Package:
    """Returns the boards of pgx."""
    import pgx  # type: ignore[import-not-found]
    from pgx.experimental import auto_reset  # type: ignore[import-not-found]

    env = pgx.make("2048")
    step_all = jax.vmap(auto_reset(env.step, env.init))

    def reset(key: Any) -> Any:
        key, now = jax.random.split(key)
        return ((key, jax.vmap(env.init)(jax.random.split(now, num_envs))),)

    def step(state: Any, actions: Any) -> Any:
        key, now = jax.random.split(state[0])
        return ((key, step_all(state[1], actions, jax.random.split(now, num_envs))),)

    def show(boards: Any) -> tuple[Any, ...]:
        [(_, state)] = boards
        ends = state.terminated, state.truncated
        return state.legal_action_mask, state.rewards, state.observation, *ends

    outputs = "mask, reward, observation bool (N, 4, 4, 31), terminated, truncated"
    return Package(reset, step, show, outputs)


def jumanji(num_envs: int) -> Package:
    """Returns the boards of Jumanji."""
    import jumanji  # type: ignore[import-not-found]
    from jumanji import wrappers

    env = wrappers.VmapWrapper(wrappers.AutoResetWrapper(jumanji.make("Game2048-v1")))

    def reset(key: Any) -> Any:
        return env.reset(jax.random.split(key, num_envs))

    def show(boards: Any) -> tuple[Any, ...]:
        _, after = boards
        seen, highest = after.observation, after.extras["highest_tile"]
        return seen.action_mask, after.reward, seen.board, after.step_type, after.discount, highest

    outputs = "mask, reward, board int32, step_type, discount, highest_tile"
    return Package(reset, env.step, show, outputs)


class Steps:
    """N boards of one package. Each call plays one step."""

    action_dtype = np.int32

    def __init__(self, package: Package, details: dict[str, str]) -> None:
        self._boards = jax.jit(package.reset)(jax.random.PRNGKey(0))
        self._step, self._show = jax.jit(package.step), package.show
        self.details = {**details, "outputs": package.outputs}

    def step(self, actions: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """Steps all boards. Returns numpy arrays that share JAX's memory."""
        self._boards = self._step(self._boards[0], actions)
        return tuple(map(np.asarray, self._show(self._boards)))

    def mask(self, outputs: tuple[NDArray[Any], ...]) -> NDArray[Any]:
        """Returns the mask. In pgx, an illegal action would end the game."""
        return np.ascontiguousarray(outputs[0])


class Scan:
    """N boards of one package. Each call plays many steps in one scan."""

    action_dtype = np.int32

    def __init__(
        self, package: Package, details: dict[str, str], is_random: bool, num_envs: int
    ) -> None:
        # Enough steps to make the overhead of starting a call negligible.
        self.steps_per_call = min(8192, max(64, 65_536 // num_envs))
        self.details = details
        self._key, now, choose = jax.random.split(jax.random.PRNGKey(0), 3)
        self._boards = jax.jit(package.reset)(now)
        # Twofold needs no conversion of uint8.
        dtype = np.uint8 if "twofold" in details else np.int32
        given = jax.random.randint(choose, (self.steps_per_call, num_envs), 0, 4).astype(dtype)

        def step_once(boards: Any, inputs: tuple[Any, Any]) -> Any:
            key, chosen = inputs
            if is_random:
                logits = jnp.where(package.show(boards)[0], 0.0, -jnp.inf)
                chosen = jax.random.categorical(key, logits)
            boards = package.step(boards[0], chosen)
            return boards, package.show(boards)[1]

        def play(key: Any, boards: Any) -> Any:
            key, now = jax.random.split(key)
            keys = jax.random.split(now, self.steps_per_call)
            boards, rewards = jax.lax.scan(step_once, boards, (keys, given))
            return key, boards, rewards

        self._play = jax.jit(play)

    def step(self, _: NDArray[Any]) -> Any:
        """Plays the steps of a call, and returns the rewards of each."""
        self._key, self._boards, rewards = self._play(self._key, self._boards)
        return np.asarray(jax.block_until_ready(rewards))

    def mask(self, outputs: Any) -> None:
        """Returns None, because the scan chooses the actions."""


def make(num_envs: int) -> Player:
    """Makes the player that the arguments select."""
    name, actions = sys.argv[1:3]
    package = {"twofold": twofold, "pgx": pgx, "jumanji": jumanji}[name](num_envs)
    details = {name: version(name), "jax": f"{jax.__version__} on {jax.devices()[0].platform}"}
    if actions == "step":
        return Steps(package, details)
    return Scan(package, details, actions == "random", num_envs)


if __name__ == "__main__":
    serve(make)
