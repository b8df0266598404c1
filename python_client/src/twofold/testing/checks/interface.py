"""Checks of the spaces, of the values that reset and step return, and of close."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from twofold.testing.checks.returned import check_lane_array, check_values
from twofold.testing.subject import Player, Subject, expect


def spaces(subject: Subject) -> None:
    """num_envs, the four spaces and metadata["autoreset_mode"] exist and fit together."""
    mode = subject.envs.metadata.get("autoreset_mode")
    expect(
        isinstance(mode, AutoresetMode),
        "expected metadata['autoreset_mode'] to be a gymnasium.vector.AutoresetMode, so that "
        f"training code knows when to expect first observations; got {mode!r}",
    )
    for kind in ("observation", "action"):
        single = getattr(subject.envs, f"single_{kind}_space")
        batched = getattr(subject.envs, f"{kind}_space")
        expected = batch_space(single, subject.lanes)
        problem = _space_mismatch(expected, batched)
        expect(
            problem is None,
            f"expected {kind}_space to be single_{kind}_space for {subject.lanes} lanes, "
            f"{expected}; got {batched} ({problem})",
        )


def _space_mismatch(expected: gym.Space[Any], got: gym.Space[Any]) -> str | None:
    """The first of type, shape and dtype that differs; bounds of single lanes may differ."""
    if type(expected) is not type(got):
        return f"a {type(got).__name__} instead of a {type(expected).__name__}"
    for name in ("shape", "dtype"):
        if getattr(expected, name) != getattr(got, name):
            return f"{name} {getattr(got, name)} instead of {getattr(expected, name)}"
    return None


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
        _, rewards, terminations, truncations, _ = result.values
        result.expect(
            rewards.dtype.kind == "f",
            f"expected rewards of a floating dtype; got {rewards.dtype}",
        )
        is_finite = np.isfinite(rewards)
        lane = int(np.argmin(is_finite))
        result.expect(
            bool(is_finite.all()), f"expected finite rewards; lane {lane} has {rewards[lane]}"
        )
        for name, flags in (("terminations", terminations), ("truncations", truncations)):
            result.expect(
                flags.dtype == np.bool_, f"expected {name} of dtype bool; got {flags.dtype}"
            )


def close(subject: Subject) -> None:
    """Close works on a new environment, on a used one, and twice; `closed` is True afterwards."""
    for is_used in (False, True):
        envs = subject.make()
        expect(not envs.closed, f"expected closed to be False at first; got {envs.closed!r}")
        if is_used:
            player = Player(subject, envs)
            player.reset(subject.seed)
            player.step()
        for _ in range(2):
            envs.close()
            expect(bool(envs.closed), f"expected closed to be True; got {envs.closed!r}")
