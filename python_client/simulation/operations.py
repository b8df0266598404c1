"""Random client operations on boards. An operation's arguments are fixed when it is chosen."""

from __future__ import annotations

import functools
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray
from shadows import Boards, Operation

import twofold
from twofold.policies import Expectimax, NTuple

_WEIGHTS = np.random.default_rng(2048).random(256, np.float32)
_SEARCH = Expectimax(depth=1)
_NETWORKS = [
    NTuple([(0, 1)], [_WEIGHTS]),
    NTuple([(0, 1), (4, 5)], [_WEIGHTS, _WEIGHTS[::-1].copy()], symmetric=False),
]


def actions(choose: Random, boards: Boards, steps: int = 1) -> NDArray[np.int64]:
    """Chooses random actions (steps, N), which may be illegal."""
    count = boards.num_envs * steps
    numbers = np.frombuffer(choose.randbytes(count), np.uint8).astype(np.int64)
    return numbers.reshape(steps, boards.num_envs) % int(boards.shadow.num_actions)


def step(choose: Random, boards: Boards) -> Operation:
    """Returns a step with random actions. About 1 % of the steps have an invalid action."""
    played = actions(choose, boards)[0]
    if choose.random() < 0.01:
        played[choose.randrange(boards.num_envs)] = choose.choice([-1, 200, 256])
    return Operation("step", lambda envs: envs.step(played), actions=played)


def reset(choose: Random, boards: Boards) -> Operation:
    """Returns a reset of all or some boards, with or without a seed."""
    count, seed, options = boards.num_envs, None, None
    if choose.random() < 0.6 or not boards.was_reset:
        seed = choose.randrange(2**32)
    if boards.was_reset and choose.random() < 0.5:
        mask = np.array([choose.random() < 0.5 for _ in range(count)])
        mask[choose.randrange(count)] = True
        options = {"reset_mask": mask}
    return Operation("reset", lambda envs: envs.reset(seed=seed, options=options))


def first_reset(choose: Random, boards: Boards, drawn: int) -> Operation:
    """Returns the first reset. Without a seed, the shadow gets `drawn`, the environment's seed."""
    if choose.random() < 0.5:
        return reset(choose, boards)

    def execute(envs: Any) -> Any:
        # Without this seed, the shadow would draw a different one.
        return envs.reset(seed=drawn if envs is boards.shadow else None)

    return Operation("reset", execute)


def restore(choose: Random, boards: Boards) -> Operation:
    """Returns a restore of all or some boards from a snapshot, perhaps with new random streams."""
    blob, count = choose.choice(boards.blobs), boards.num_envs
    lanes = rows = seed = None
    if boards.was_reset and choose.random() < 0.5:
        lanes = sorted(choose.sample(range(count), choose.randint(1, count)))
        rows = [choose.randrange(count) for _ in lanes]
    if choose.random() < 0.5:
        seed = choose.randrange(2**32)
    return Operation("restore", lambda envs: envs.restore(blob, lanes, rows=rows, seed=seed))


def given_rollout(choose: Random, boards: Boards) -> Operation:
    """Returns a rollout that plays given actions."""
    played = actions(choose, boards, choose.choice([1, 3, 10, 60]))

    def execute(envs: Any, steps: int = len(played)) -> Any:
        return envs.rollout(steps, actions=played[:steps])

    return _rollout(execute, len(played))


def served_rollout(choose: Random, boards: Boards) -> Operation:
    """Returns a rollout that is played by a server-side policy."""
    policies: list[Any] = ["random", "fixed-order"]
    if boards.make is twofold.Game2048VectorEnv:
        policies += ["greedy", *_NETWORKS, *_NETWORKS]
        if boards.num_envs < 4:
            policies.append(_SEARCH)
        if boards.shadow.single_observation_space.shape != (4, 4):
            policies = ["random", "greedy"]
    policy, max_steps = choose.choice(policies), choose.choice([1, 3, 10, 60])
    if policy is _SEARCH:
        max_steps = min(max_steps, 3)

    def execute(envs: Any, steps: int = max_steps) -> Any:
        return envs.rollout(steps, policy)

    return _rollout(execute, max_steps)


def _rollout(execute: Callable[..., Any], steps: int) -> Operation:
    parts = [functools.partial(execute, steps=done) for done in range(1, steps)]
    return Operation("rollout", execute, tuple(parts))


OBSERVE = Operation("observe", lambda envs: envs.observe())
SNAPSHOT = Operation("snapshot", lambda envs: envs.snapshot())
KEEPALIVE = Operation("keepalive", lambda envs: envs.keepalive())
AFTERSTATES = Operation("afterstates", lambda envs: envs.afterstates())


def one_request(choose: Random, boards: Boards) -> Operation:
    """Returns a random operation that takes one request."""
    if not boards.was_reset:
        return reset(choose, boards)
    number = choose.random()
    if number < 0.75:
        return step(choose, boards)
    if number < 0.83:
        return reset(choose, boards)
    if number < 0.88 and boards.blobs:
        return restore(choose, boards)
    looks = [OBSERVE, SNAPSHOT, KEEPALIVE]
    if boards.make is twofold.Game2048VectorEnv:
        looks.append(AFTERSTATES)
    return choose.choice(looks)


def any_of_all(choose: Random, boards: Boards) -> Operation:
    """Returns a random operation, which may be a rollout of several requests."""
    if boards.was_reset and choose.random() < 0.06:
        return choose.choice([given_rollout, served_rollout])(choose, boards)
    return one_request(choose, boards)
