"""Checks of the spaces, of the values that reset and step return, and of close."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from twofold._comparison import first_mismatch
from twofold.testing.subject import Player, Result, Subject, expect, fail


def spaces(subject: Subject) -> None:
    """num_envs, the four spaces and metadata["autoreset_mode"] exist and fit together."""
    mode = subject.envs.metadata.get("autoreset_mode")
    expect(
        isinstance(mode, AutoresetMode),
        "metadata['autoreset_mode'] to be a gymnasium.vector.AutoresetMode, so that training code "
        "knows when to expect first observations",
        repr(mode),
    )
    for kind in ("observation", "action"):
        expected = batch_space(getattr(subject.envs, f"single_{kind}_space"), subject.lanes)
        got = getattr(subject.envs, f"{kind}_space")
        what = f"{kind}_space to be single_{kind}_space for {subject.lanes} lanes, {expected}"
        expect(_is_alike(expected, got), what, got)


def _is_alike(space: gym.Space[Any], other: gym.Space[Any]) -> bool:
    """Whether type, shape and dtype are equal; bounds of single lanes may differ."""
    same_type = type(space) is type(other)
    return same_type and space.shape == other.shape and space.dtype == other.dtype


def reset_returns(subject: Subject) -> None:
    """Reset returns observations of the observation space, and a dict."""
    player = subject.player()
    for seed in (subject.seed, None):
        check_values(subject, player.reset(seed), "observations", "infos")


def step_returns(subject: Subject) -> None:
    """Step returns observations of the space, floating rewards, two bool arrays, and a dict."""
    names = ("observations", "rewards", "terminations", "truncations", "infos")
    for result in subject.recording:
        if result.actions is None:
            continue
        check_values(subject, result, *names)
        for name, value in zip(names[1:4], result.values[1:4], strict=True):
            check_lane_array(subject, result, name, value)
        _, rewards, *flags, _ = result.values
        result.expect(rewards.dtype.kind == "f", "rewards of a floating dtype", rewards.dtype)
        result.expect(bool(np.isfinite(rewards).all()), "finite rewards", rewards)
        for name, value in zip(names[2:4], flags, strict=True):
            result.expect(value.dtype == np.bool_, f"{name} of dtype bool", value.dtype)


def close(subject: Subject) -> None:
    """Close works on a new environment, on a used one, and twice; `closed` is True afterwards."""
    for is_used in (False, True):
        envs = subject.make()
        expect(not envs.closed, "closed to be False at first", envs.closed)
        if is_used:
            player = Player(subject, envs)
            player.reset(subject.seed)
            player.step()
        for _ in range(2):
            envs.close()
            expect(bool(envs.closed), "closed to be True", envs.closed)


def check_values(subject: Subject, result: Result, *names: str) -> None:
    """Expects a tuple of these values: observations of the space first, a dict of infos last."""
    kind, number = type(result.values).__name__, len(result.values)
    is_tuple = isinstance(result.values, tuple) and number == len(names)
    result.expect(is_tuple, f"a tuple ({', '.join(names)})", f"a {kind} of {number}")
    space = subject.envs.observation_space
    problem = first_mismatch(space, result.observations)
    if problem is not None:
        fail(f"{result.title}: expected observations of {space}; {problem}")
    check_is_dict(result)


def check_is_dict(result: Result) -> None:
    """Expects infos as a dict."""
    result.expect(isinstance(result.infos, dict), "infos as a dict", type(result.infos).__name__)


def check_lane_array(subject: Subject, result: Result, name: str, value: Any) -> None:
    """Expects a numpy array (lanes,)."""
    is_right = isinstance(value, np.ndarray) and value.shape == (subject.lanes,)
    result.expect(is_right, f"{name} as a numpy array of shape ({subject.lanes},)", kind_of(value))


def kind_of(value: Any) -> str:
    """The type of a value; of an array its dtype and shape."""
    if isinstance(value, np.ndarray):
        return f"an array {value.dtype}{value.shape}"
    return f"a {type(value).__name__}"
