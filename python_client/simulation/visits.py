"""Short visits by clients that use other parts of the API: single environments and the rules."""

from __future__ import annotations

import functools
from typing import Any

import gymnasium as gym
import numpy as np
from calls import LOST, Caller
from pacing import CLOSE_TIMEOUT
from processes import ENDPOINT, Violation
from shadows import differences, digest, quiet

import twofold
from twofold import errors

_TIMEOUT = 5.0
_GAMES = ("twofold/Game2048-v0", "twofold/Concentration-v0")
_ROUGH = (*LOST, errors.ResourceExhausted)


def play_alone(caller: Caller) -> None:
    """Plays an episode in a single environment, until the episode ends or the session is lost."""
    choose, game = caller.random, caller.random.choice(_GAMES)
    seed, max_steps = choose.randrange(2**32), choose.randint(1, 20)

    def make(endpoint: str) -> Any:
        # Gymnasium's checker fails if the first reset is interrupted.
        arguments: dict[str, Any] = {"endpoint": endpoint, "recover": True, "timeout": _TIMEOUT}
        return gym.make(game, disable_env_checker=True, **arguments)

    begin = functools.partial(make, ENDPOINT)
    try:
        env = caller.again(begin, "making a board", _TIMEOUT, opens=True)
    except errors.ResourceExhausted:
        return
    twin = quiet(lambda: make("embedded"))
    try:
        found = caller.again(lambda: env.reset(seed=seed), "reset", _TIMEOUT)
        _check(found, twin.reset(seed=seed), game)
        for _ in range(max_steps):
            action = choose.randrange(env.action_space.n)
            found = caller.again(functools.partial(env.step, action), "step", _TIMEOUT)
            expected = twin.step(action)
            _check(found, expected, game)
            if expected[2] or expected[3]:
                break
        caller.mark("played alone")
    except _ROUGH:
        caller.mark("lost alone")
    caller.again(env.close, "close", CLOSE_TIMEOUT)
    twin.close()


def ask_rules(caller: Caller) -> None:
    """Calls a function of `twofold.rules` with random boards, and checks the result."""
    choose = caller.random
    shape = (choose.choice([1, 5, 100]), 4, 4)
    boards = np.frombuffer(choose.randbytes(16 * shape[0]), np.uint8).reshape(shape) % 12
    function = choose.choice([twofold.rules.afterstates, twofold.rules.legal])
    timeout = choose.choice([0.3, 5.0])

    def ask(endpoint: str) -> Any:
        return function(boards, endpoint=endpoint, timeout=timeout)

    try:
        found = caller.again(lambda: ask(ENDPOINT), "rules", timeout)
    except errors.ResourceExhausted:
        return
    _check(found, quiet(lambda: ask("embedded")), function.__name__)
    caller.mark("rules")


def _check(found: Any, expected: Any, what: str) -> None:
    for difference in differences(digest(found), digest(expected)):
        raise Violation(f"{what}: {difference}")
