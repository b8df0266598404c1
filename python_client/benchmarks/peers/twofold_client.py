"""Twofold's contestants.

    twofold_client.py embedded|ipc|tcp vector|held|same-step|reward|raw|rollout N

embedded runs in this process, ipc on a private server, and tcp on a separate server on 127.0.0.1.
`vector` is `VectorEnv.step`, as users call it. `held` adds copy=False, and `same-step` uses
SAME_STEP autoreset. `reward` has a five-term reward and reports the value of each term. `raw` is
the client's lower layer, without the views and the infos. `rollout` plays many steps per call, with
random actions chosen by the server.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from worker import Player, serve

import twofold
from twofold.client.lookup import find_program

REWARD = {
    "merge_score": 1.0,
    "empty_cells": {"weight": 0.1, "gamma": 0.99},
    "monotonicity": {"weight": 0.1, "gamma": 0.99},
    "corner": {"weight": 0.5, "gamma": 0.99},
    "illegal_action": -1.0,
}


def tcp_server() -> str:
    """Starts a server that ends with this process, and returns its address."""
    command = [str(find_program()), "serve", "--parent-pid", str(os.getpid())]
    command += ["--endpoint", "tcp://127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("listening on "), line
    return line.split()[2]


def batch(endpoint: str, num_envs: int, **arguments: Any) -> twofold.TwofoldVectorEnv:
    """Makes boards and resets them."""
    envs = twofold.Game2048VectorEnv(num_envs, endpoint=endpoint, **arguments)
    envs.reset(seed=0)
    return envs


class Vector:
    """A player that calls `VectorEnv.step`."""

    # The dtype that argmax, choice and a space's sample return.
    action_dtype = np.int64

    def __init__(self, endpoint: str, num_envs: int, **arguments: Any) -> None:
        envs = batch(endpoint, num_envs, **arguments)
        infos = envs.step(np.zeros(num_envs, np.uint8))[4]
        self.step = envs.step
        self.details = {
            "twofold": twofold.__version__,
            "outputs": "observation, reward, terminated, truncated, " + ", ".join(infos),
        }

    def mask(self, outputs: Any) -> NDArray[Any]:
        """Returns the mask from the infos."""
        mask: NDArray[Any] = outputs[4]["action_mask"]
        return mask


class Raw:
    """A player that passes actions to `Session.step` and gets a payload of arrays."""

    action_dtype = np.uint8

    def __init__(self, endpoint: str, num_envs: int) -> None:
        envs = batch(endpoint, num_envs)
        self._envs = envs  # its deletion closes the session
        self._session = envs._session
        self._session.enter()
        offsets = {array.name: array.offset for array in envs._session.spec.step.arrays}
        self._mask = slice(offsets["action_mask"], offsets["action_mask"] + 4 * num_envs)
        self.details = {"outputs": "one array of bytes, aligned, to make views of"}

    def step(self, actions: NDArray[Any]) -> NDArray[np.uint8]:
        """Makes one round trip through the client."""
        return self._session.step(actions)[1]

    def mask(self, outputs: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Returns the action mask, which is a slice of the payload."""
        return outputs[self._mask]


class Rollout:
    """A player that calls `VectorEnv.rollout` with random actions."""

    action_dtype = np.uint8

    def __init__(self, endpoint: str, num_envs: int) -> None:
        self._rollout = batch(endpoint, num_envs).rollout
        # About half a million boards, as a learner usually requests.
        self.steps_per_call = min(128, max(8, (1 << 19) // num_envs))
        self.details = {
            "outputs": "observations, masks, actions, rewards, terminations, truncations, valid; "
            f"{self.steps_per_call} steps in a call"
        }

    def step(self, actions: NDArray[Any]) -> twofold.Rollout:
        """Plays the steps of one call. The server chooses the actions."""
        return self._rollout(self.steps_per_call, "random")

    def mask(self, outputs: twofold.Rollout) -> None:
        """Returns None, because the server chooses the actions."""


def make(num_envs: int) -> Player:
    """Makes the player that the arguments select."""
    carrier, layer = sys.argv[1:3]
    endpoints: dict[str, Callable[[], str]] = {
        "embedded": lambda: "embedded",
        "ipc": lambda: "private",
        "tcp": tcp_server,
    }
    endpoint = endpoints[carrier]()
    players: dict[str, Callable[[str, int], Player]] = {
        "vector": Vector,
        "held": functools.partial(Vector, copy=False),
        "same-step": functools.partial(Vector, autoreset_mode="SameStep"),
        "reward": functools.partial(Vector, reward=REWARD, extra_infos=("reward_terms",)),
        "raw": Raw,
        "rollout": Rollout,
    }
    return players[layer](endpoint, num_envs)


if __name__ == "__main__":
    serve(make)
