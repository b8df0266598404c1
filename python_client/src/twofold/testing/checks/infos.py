"""Infos, and the action mask among them."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from twofold.testing.checks.returned import check_is_dict, check_lane_array, kind_of
from twofold.testing.subject import Bench, CannotCheck, Moment, expect


def infos(bench: Bench) -> None:
    """infos[key] has a row for each lane, and infos["_key"] tells which lanes have one."""
    for moment in bench.recording:
        check_is_dict(moment)
        check_infos(bench, moment, moment.infos, "infos", is_top=True)


def check_infos(
    bench: Bench, moment: Moment, infos: dict[str, Any], path: str, *, is_top: bool
) -> None:
    """Expects an array with a row for each lane under each key, and its mask beside it."""
    masks = {key for key in infos if key.startswith("_") and key[1:] in infos}
    for key, value in infos.items():
        name = f"{path}[{key!r}]"
        if key in masks:
            check_lane_array(bench, moment, name, value)
            expect(
                value.dtype == np.bool_,
                f"{moment.title}: expected {name}, the mask of {key[1:]!r}, as bool; "
                f"got {value.dtype}",
            )
            continue
        expect(
            not key.startswith("_"),
            f"{moment.title}: {name} is a mask, expected {key[1:]!r} beside it; it is not there",
        )
        # Nested dicts of Gymnasium's own wrappers have no masks inside.
        expect(
            not is_top or f"_{key}" in masks,
            f"{moment.title}: expected the mask '_{key}' beside {name}, bool ({bench.lanes},); "
            "it is not there",
        )
        if isinstance(value, dict):
            check_infos(bench, moment, value, name, is_top=False)
        elif not (key == "final_obs" and isinstance(value, tuple)):
            has_rows = isinstance(value, np.ndarray) and value.shape[:1] == (bench.lanes,)
            expect(
                has_rows,
                f"{moment.title}: expected {name} as an array with a row for each of the "
                f"{bench.lanes} lanes, or a dict of such; got {kind_of(value)}",
            )


def action_mask(bench: Bench) -> None:
    """infos["action_mask"] is int8 (lanes, n) of 0 and 1, with a legal action on each running lane.

    int8 is what Discrete.sample(mask=...) takes.
    """
    space = bench.single_action_space
    if not any("action_mask" in moment.infos for moment in bench.recording):
        raise CannotCheck("infos have no 'action_mask'")
    if not isinstance(space, gym.spaces.Discrete):
        raise CannotCheck(f"action_mask is checked for Discrete actions only, not for {space}")
    for moment in bench.recording:
        mask = moment.infos.get("action_mask")
        expect(
            isinstance(mask, np.ndarray) and mask.shape == (bench.lanes, int(space.n)),
            f"{moment.title}: expected infos['action_mask'] of shape {(bench.lanes, int(space.n))}"
            f" in every reset and step; got {'none' if mask is None else kind_of(mask)}",
        )
        assert mask is not None
        expect(
            mask.dtype == np.int8,
            f"{moment.title}: expected infos['action_mask'] of dtype int8, which "
            f"Discrete.sample(mask=…) demands; got {mask.dtype}",
        )
        expect(
            bool(np.isin(mask, (0, 1)).all()),
            f"{moment.title}: expected 0 and 1 in infos['action_mask']; got {np.unique(mask)}",
        )
        ended = moment.done if moment.done.size else np.zeros(bench.lanes, np.bool_)
        running = np.ones(bench.lanes, bool) if bench.mode is AutoresetMode.SAME_STEP else ~ended
        stuck = running & ~mask.any(axis=1)
        expect(
            not stuck.any(),
            f"{moment.title}: expected a legal action on every lane that goes on; lane "
            f"{int(np.argmax(stuck))} has none",
        )
