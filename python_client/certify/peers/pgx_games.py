"""Plays pgx's `2048` and records every transition.

pgx_games.py OUT.npz --boards 256 --steps 1000 --given 256 --seed 0
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pgx  # type: ignore[import-not-found]
from pgx.play2048 import _legal_action_mask  # type: ignore[import-not-found]
from recorder import Recorder, arguments, boards_of_all_kinds, choose


def main() -> None:
    """Records whole games, then each action on random boards."""
    wanted = arguments()
    recorder, rng = Recorder(), np.random.default_rng(wanted.seed)
    env = pgx.make("2048")
    init, step = jax.jit(jax.vmap(env.init)), jax.jit(jax.vmap(env.step))
    masks = jax.jit(jax.vmap(_legal_action_mask))
    key = jax.random.PRNGKey(wanted.seed)

    def record(state: Any, actions: Any) -> Any:
        nonlocal key
        key, now = jax.random.split(key)
        after = step(state, actions, jax.random.split(now, len(actions)))
        # The observation has one plane for each exponent.
        planes = np.asarray(after.observation)
        recorder.transitions(
            before=state._board,
            mask=state.legal_action_mask,
            action=actions,
            reward=after.rewards[:, 0],
            terminated=after.terminated,
            truncated=after.truncated,
            after=planes.argmax(axis=-1),
            mask_after=after.legal_action_mask,
        )
        return after

    key, now = jax.random.split(key)
    state = init(jax.random.split(now, wanted.boards))
    recorder.starts(state._board)
    for _ in range(wanted.steps):
        after = record(state, choose(rng, np.asarray(state.legal_action_mask), 0.03))
        state, is_over = after, np.asarray(after.terminated)
        if is_over.any():
            key, now = jax.random.split(key)
            fresh = init(jax.random.split(now, wanted.boards))
            recorder.starts(np.asarray(fresh._board)[is_over])
            state = jax.tree_util.tree_map(
                lambda new, old, over=is_over: jnp.where(
                    over.reshape(-1, *[1] * (new.ndim - 1)), new, old
                ),
                fresh,
                after,
            )

    boards = jnp.asarray(boards_of_all_kinds(rng, wanted.given))
    key, now = jax.random.split(key)
    state = init(jax.random.split(now, len(boards)))
    state = state.replace(_board=boards.reshape(-1, 16), legal_action_mask=masks(boards))
    for action in range(4):
        record(state, np.full(len(boards), action, np.int32))
    recorder.save(wanted.out, package=f"pgx {pgx.__version__}")


if __name__ == "__main__":
    main()
