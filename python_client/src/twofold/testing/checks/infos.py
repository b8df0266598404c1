"""Checks of the infos, and of the action mask among them."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from twofold.testing.checks.interface import check_is_dict, check_lane_array, kind_of
from twofold.testing.subject import CannotCheck, Result, Subject


def infos(subject: Subject) -> None:
    """infos[key] has a row for each lane, and the mask infos["_key"] marks the valid rows."""
    for result in subject.recording:
        check_is_dict(result)
        check_infos(subject, result, result.infos, "infos", is_top=True)


def check_infos(
    subject: Subject, result: Result, infos: dict[str, Any], path: str, *, is_top: bool
) -> None:
    """Expects under each key an array with a row for each lane, and beside it a mask."""
    lanes = subject.lanes
    masks = {key for key in infos if key.startswith("_") and key[1:] in infos}
    for key, value in infos.items():
        name = f"{path}[{key!r}]"
        if key in masks:
            check_lane_array(subject, result, name, value)
            result.expect(value.dtype == np.bool_, f"the mask {name} as bool", value.dtype)
            continue
        result.expect(not key.startswith("_"), f"{key[1:]!r} beside its mask {name}", "none")
        # The nested dicts of Gymnasium's own wrappers hold no masks.
        has_mask = not is_top or f"_{key}" in masks
        result.expect(has_mask, f"the mask '_{key}' beside {name}, bool ({lanes},)", "none")
        if isinstance(value, dict):
            check_infos(subject, result, value, name, is_top=False)
        elif not (key == "final_obs" and isinstance(value, tuple)):
            result.expect(
                isinstance(value, np.ndarray) and value.shape[:1] == (lanes,),
                f"{name} as an array with a row for each of the {lanes} lanes, or a dict of such "
                "arrays",
                kind_of(value),
            )


def action_mask(subject: Subject) -> None:
    """infos["action_mask"] is int8 (lanes, n) of 0 and 1, with a legal action on each running lane.

    `Discrete.sample(mask=...)` needs int8.
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
        needed = f"{name} of dtype int8, as Discrete.sample(mask=…) needs it"
        result.expect(mask.dtype == np.int8, needed, mask.dtype)
        result.expect(bool(np.isin(mask, (0, 1)).all()), f"0 and 1 in {name}", np.unique(mask))
        is_stuck = ~mask.any(axis=1)
        if result.is_step and subject.mode is not AutoresetMode.SAME_STEP:
            is_stuck &= ~result.done
        lane = int(np.argmax(is_stuck))
        result.expect(not is_stuck.any(), "a legal action on every running lane", f"none on {lane}")
