"""The spaces, what reset and step return, and close."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from twofold.testing.checks.returned import (
    check_is_dict,
    check_lane_array,
    check_length,
    check_observations,
)
from twofold.testing.subject import Bench, Player, expect


def spaces(bench: Bench) -> None:
    """num_envs, the four spaces and metadata["autoreset_mode"] are there and fit together."""
    mode = bench.metadata.get("autoreset_mode")
    expect(
        isinstance(mode, AutoresetMode),
        "expected metadata['autoreset_mode'] to be a gymnasium.vector.AutoresetMode, so that "
        f"training code knows when to expect first observations; got {mode!r}",
    )
    for kind in ("observation", "action"):
        single = getattr(bench, f"single_{kind}_space")
        batched = getattr(bench, f"{kind}_space")
        expected = batch_space(single, bench.lanes)
        problem = _space_mismatch(expected, batched)
        expect(
            problem is None,
            f"expected {kind}_space to be single_{kind}_space for {bench.lanes} lanes, "
            f"{expected}; got {batched} ({problem})",
        )


def _space_mismatch(expected: gym.Space[Any], got: gym.Space[Any]) -> str | None:
    """Bounds of single lanes may differ, kind and shape and dtype may not."""
    if type(expected) is not type(got):
        return f"a {type(got).__name__} and no {type(expected).__name__}"
    if expected.shape != got.shape:
        return f"its shape is {got.shape} and not {expected.shape}"
    if expected.dtype != got.dtype:
        return f"its dtype is {got.dtype} and not {expected.dtype}"
    return None


def reset_returns(bench: Bench) -> None:
    """Reset returns observations of the observation space, and a dict."""
    player = bench.player()
    for keywords in ({"seed": bench.seed}, {}):
        moment = player.reset(**keywords)
        check_length(moment, 2, "(observations, infos)")
        check_observations(bench, moment)
        check_is_dict(moment)


def step_returns(bench: Bench) -> None:
    """Step returns observations of the space, numeric rewards, two arrays of bool, and a dict."""
    for moment in bench.recording:
        if moment.actions is None:
            continue
        check_length(moment, 5, "(observations, rewards, terminations, truncations, infos)")
        check_observations(bench, moment)
        check_is_dict(moment)
        for name, value in zip(
            ("rewards", "terminations", "truncations"), moment.values[1:4], strict=True
        ):
            check_lane_array(bench, moment, name, value)
        rewards = moment.values[1]
        expect(
            rewards.dtype.kind == "f",
            f"{moment.title}: expected rewards of a floating dtype; got {rewards.dtype}",
        )
        is_finite = np.isfinite(rewards)
        expect(
            bool(is_finite.all()),
            f"{moment.title}: expected finite rewards; lane {int(np.argmin(is_finite))} has "
            f"{rewards[np.argmin(is_finite)]}",
        )
        for name, flags in (("terminations", moment.values[2]), ("truncations", moment.values[3])):
            expect(
                flags.dtype == np.bool_,
                f"{moment.title}: expected {name} of dtype bool; got {flags.dtype}",
            )


def close(bench: Bench) -> None:
    """Close can be called on a new environment, on a used one, and twice; `closed` tells."""
    for is_used in (False, True):
        envs = bench.make()
        expect(not envs.closed, f"expected closed to be False at first; got {envs.closed!r}")
        if is_used:
            player = Player(bench, envs)
            player.reset(bench.seed)
            player.step()
        for _ in range(2):
            envs.close()
            expect(bool(envs.closed), f"expected closed to be True; got {envs.closed!r}")
