"""Plays Jumanji's `Game2048-v1` and records every transition.

jumanji_games.py OUT.npz --boards 256 --steps 1000 --given 256 --seed 0
"""

from __future__ import annotations

import dataclasses
from importlib.metadata import version
from typing import Any

import jax
import jax.numpy as jnp
import jumanji  # type: ignore[import-not-found]
import numpy as np
from recorder import Recorder, arguments, boards_of_all_kinds, choose


def main() -> None:
    """Records whole games, then each action on random boards."""
    wanted = arguments()
    recorder, rng = Recorder(), np.random.default_rng(wanted.seed)
    env = jumanji.make("Game2048-v1")
    reset, step = jax.jit(jax.vmap(env.reset)), jax.jit(jax.vmap(env.step))
    masks = jax.jit(jax.vmap(env._get_action_mask))

    def record(state: Any, actions: Any) -> tuple[Any, Any]:
        after, timestep = step(state, actions)
        is_last, discount = np.asarray(timestep.last()), np.asarray(timestep.discount)
        recorder.transitions(
            before=state.board,
            mask=state.action_mask,
            action=actions,
            reward=timestep.reward,
            terminated=is_last & (discount == 0),
            truncated=is_last & (discount != 0),
            after=timestep.observation.board,
            mask_after=timestep.observation.action_mask,
        )
        return after, is_last

    key = jax.random.PRNGKey(wanted.seed)
    key, now = jax.random.split(key)
    state, _ = reset(jax.random.split(now, wanted.boards))
    recorder.starts(state.board)
    for _ in range(wanted.steps):
        after, is_last = record(state, choose(rng, np.asarray(state.action_mask)))
        state = after
        if is_last.any():
            key, now = jax.random.split(key)
            fresh, _ = reset(jax.random.split(now, wanted.boards))
            recorder.starts(np.asarray(fresh.board)[is_last])
            state = jax.tree_util.tree_map(
                lambda new, old, last=is_last: jnp.where(
                    last.reshape(-1, *[1] * (new.ndim - 1)), new, old
                ),
                fresh,
                after,
            )

    boards = jnp.asarray(boards_of_all_kinds(rng, wanted.given))
    key, now = jax.random.split(key)
    state, _ = reset(jax.random.split(now, len(boards)))
    state = dataclasses.replace(state, board=boards, action_mask=masks(boards))
    for action in range(4):
        record(state, np.full(len(boards), action, np.int32))
    recorder.save(wanted.out, package=f"Jumanji {version('jumanji')}")


if __name__ == "__main__":
    main()
