"""Checks on the spaces, on the values that reset and step return, on infos, and on close."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from twofold._comparison import first_mismatch
from twofold.testing.subject import CannotCheck, Player, Result, Subject, Violation, expect

_NAMES = ("observations", "rewards", "terminations", "truncations", "infos")


def spaces(subject: Subject) -> None:
    """num_envs, the four spaces and metadata["autoreset_mode"] exist and are consistent."""
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
        # Bounds are not compared, because they may differ between lanes.
        kinds = [(type(space), space.shape, space.dtype) for space in (expected, got)]
        expect(kinds[0] == kinds[1], what, got)


def reset_returns(subject: Subject) -> None:
    """Reset returns observations in the observation space, and a dict."""
    player = subject.player()
    for seed in (subject.seed, None):
        check_values(subject, player.reset(seed))


def step_returns(subject: Subject) -> None:
    """Step returns observations in the space, float rewards, two bool arrays, and a dict."""
    for result in subject.recording:
        if result.actions is None:
            continue
        check_values(subject, result)
        for name, value in zip(_NAMES[1:4], result.values[1:4], strict=True):
            check_lane_array(subject, result, name, value)
        _, rewards, *flags, _ = result.values
        result.expect(rewards.dtype.kind == "f", "rewards of a floating dtype", rewards.dtype)
        result.expect(bool(np.isfinite(rewards).all()), "finite rewards", rewards)
        for name, value in zip(_NAMES[2:4], flags, strict=True):
            result.expect(value.dtype == np.bool_, f"{name} of dtype bool", value.dtype)


def infos(subject: Subject) -> None:
    """infos[key] has a row for each lane, and the mask infos["_key"] marks the valid rows."""
    for result in subject.recording:
        check_is_dict(result)
        check_infos(subject, result, result.infos)


def check_infos(
    subject: Subject, result: Result, infos: dict[str, Any], path: str = "infos"
) -> None:
    """Checks that each key has an array with a row for each lane, and a mask under `_key`."""
    lanes = subject.lanes
    masks = {key for key in infos if key.startswith("_") and key[1:] in infos}
    for key, value in infos.items():
        name = f"{path}[{key!r}]"
        if key in masks:
            check_lane_array(subject, result, name, value)
            result.expect(value.dtype == np.bool_, f"the mask {name} as bool", value.dtype)
            continue
        result.expect(not key.startswith("_"), f"{key[1:]!r} next to its mask {name}", "none")
        # The nested dicts of Gymnasium's own wrappers contain no masks.
        has_mask = path != "infos" or f"_{key}" in masks
        result.expect(has_mask, f"the mask '_{key}' next to {name}, bool ({lanes},)", "none")
        if isinstance(value, dict):
            check_infos(subject, result, value, name)
        elif not (key == "final_obs" and isinstance(value, tuple)):
            result.expect(
                isinstance(value, np.ndarray) and value.shape[:1] == (lanes,),
                f"{name} as an array with a row for each of the {lanes} lanes, or a dict of such "
                "arrays",
                kind_of(value),
            )


def action_mask(subject: Subject) -> None:
    """infos["action_mask"] is int8 (lanes, n), 0s and 1s, with a legal action on each running lane.

    `Discrete.sample(mask=...)` requires int8.
    """
    space = subject.envs.single_action_space
    if not any("action_mask" in result.infos for result in subject.recording):
        raise CannotCheck("infos have no 'action_mask'")
    if not isinstance(space, gym.spaces.Discrete):
        raise CannotCheck(f"action_mask is checked for Discrete actions only, not for {space}")
    shape = subject.lanes, int(space.n)
    for result in subject.recording:
        mask = result.infos.get("action_mask")
        has_shape = isinstance(mask, np.ndarray) and mask.shape == shape
        name = "infos['action_mask']"
        result.expect(has_shape, f"{name} of shape {shape} in each reset and step", kind_of(mask))
        assert mask is not None
        needed = f"{name} of dtype int8, which Discrete.sample(mask=…) requires"
        result.expect(mask.dtype == np.int8, needed, mask.dtype)
        result.expect(bool(np.isin(mask, (0, 1)).all()), f"0 and 1 in {name}", np.unique(mask))
        is_stuck = ~mask.any(axis=1)
        if result.is_step and subject.mode is not AutoresetMode.SAME_STEP:
            is_stuck &= ~result.done
        lane = int(np.argmax(is_stuck))
        result.expect(not is_stuck.any(), "a legal action on every running lane", f"none on {lane}")


def close(subject: Subject) -> None:
    """Close works on new and used environments, even if called twice; `closed` is then True."""
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


def check_values(subject: Subject, result: Result) -> None:
    """Checks the tuple that reset or step returned, its observations, and its infos."""
    names = (_NAMES[0], _NAMES[-1]) if result.actions is None else _NAMES
    kind, number = type(result.values).__name__, len(result.values)
    is_tuple = isinstance(result.values, tuple) and number == len(names)
    result.expect(is_tuple, f"a tuple ({', '.join(names)})", f"a {kind} of {number}")
    space = subject.envs.observation_space
    problem = first_mismatch(space, result.observations)
    if problem is not None:
        raise Violation(f"{result.title}: expected observations of {space}; {problem}")
    check_is_dict(result)


def check_is_dict(result: Result) -> None:
    """Checks that infos are a dict."""
    result.expect(isinstance(result.infos, dict), "infos as a dict", type(result.infos).__name__)


def check_lane_array(subject: Subject, result: Result, name: str, value: Any) -> None:
    """Checks that a value is a numpy array of shape (lanes,)."""
    is_right = isinstance(value, np.ndarray) and value.shape == (subject.lanes,)
    result.expect(is_right, f"{name} as a numpy array of shape ({subject.lanes},)", kind_of(value))


def kind_of(value: Any) -> str:
    """Returns the type of a value in words; for an array, its dtype and shape."""
    if isinstance(value, np.ndarray):
        return f"an array {value.dtype}{value.shape}"
    return f"a {type(value).__name__}"
