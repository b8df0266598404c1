"""Plays EnvPool's `Game2048-v1` and records every transition.

envpool_games.py OUT.npz --boards 256 --steps 1000 --given 256 --seed 0
"""

from __future__ import annotations

from typing import Any

import envpool  # type: ignore[import-not-found]
import numpy as np
from numpy.typing import NDArray
from recorder import Recorder, arguments, boards_of_all_kinds, choose

Array = NDArray[Any]


def make(num_envs: int, seed: int, **config: Any) -> Any:
    """Returns EnvPool's vector environment `Game2048-v1`."""
    return envpool.make(
        "Game2048-v1", env_type="gymnasium", num_envs=num_envs, num_threads=1, seed=seed, **config
    )


def main() -> None:
    """Records whole games, then each action on random boards, then the effects of a step limit."""
    wanted = arguments()
    recorder, rng = Recorder(), np.random.default_rng(wanted.seed)

    def record(envs: Any, observations: Any, actions: Array, kept: Array) -> tuple[Any, Array]:
        after, reward, terminated, truncated, _ = envs.step(actions)
        recorder.transitions(
            kept,
            before=observations["board"],
            mask=observations["action_mask"],
            action=actions,
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            after=after["board"],
            mask_after=after["action_mask"],
        )
        return after, terminated | truncated

    envs = make(wanted.boards, wanted.seed)
    observations, _ = envs.reset()
    recorder.starts(observations["board"])
    is_over = np.zeros(wanted.boards, np.bool_)
    for _ in range(wanted.steps):
        was_over = is_over
        actions = choose(rng, np.asarray(observations["action_mask"]))
        observations, is_over = record(envs, observations, actions, ~was_over)
        recorder.starts(observations["board"][was_over])

    for board in boards_of_all_kinds(rng, wanted.given):
        text = ",".join(map(str, board.ravel()))
        envs = make(4, wanted.seed, game2048_initial_board=text)
        observations, _ = envs.reset()
        record(envs, observations, np.arange(4, dtype=np.int32), np.ones(4, np.bool_))

    recorder.save(wanted.out, package=f"EnvPool {envpool.__version__}", **limits(wanted.seed))


def limits(seed: int) -> dict[str, Any]:
    """Measures the effects of `max_episode_steps`.

    Returns:
        A dict with two entries. `steps_past_limit` is the number of steps (at most 100) that an
        episode continues beyond its limit of 1000. `told_as` contains the distinct pairs
        (terminated, truncated) at the ends of episodes with a limit of 10 steps.
    """
    envs = make(1, seed)
    observations, _ = envs.reset()
    steps, is_over = 0, False
    while not is_over and steps < 1100:
        mask = np.asarray(observations["action_mask"])[0].astype(np.bool_)
        action = mask.argmin() if not mask.all() else mask.argmax()  # illegal, if possible
        observations, _, terminated, truncated, _ = envs.step(np.array([action], np.int32))
        is_over, steps = bool(terminated[0] or truncated[0]), steps + 1
    rng = np.random.default_rng(seed)
    envs = make(64, seed, max_episode_steps=10)
    observations, _ = envs.reset()
    told_as = set()
    for _ in range(300):
        actions = choose(rng, np.asarray(observations["action_mask"]), 0.0)
        observations, _, terminated, truncated, _ = envs.step(actions)
        for flags in zip(terminated.tolist(), truncated.tolist(), strict=True):
            told_as.add(flags)
    return {
        "steps_past_limit": max(0, steps - 1000),
        "told_as": np.array(sorted(told_as - {(False, False)})),
    }


if __name__ == "__main__":
    main()
