"""Checks that returned values belong to the caller, and that arguments stay unchanged."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import Any

import numpy as np

from twofold.testing.subject import Result, Subject, expect, expect_equal


def data_not_reused(subject: Subject) -> None:
    """Returned values stay unchanged after later calls."""
    player = subject.player()
    returned = player.reset(subject.seed)
    steps = min(subject.steps, 100)
    for step in range(steps + 1):
        kept = copy.deepcopy(returned)
        later = player.step() if step < steps else player.reset(subject.seed)
        expect_equal(
            kept.arrays | {"infos": kept.infos},
            returned.arrays | {"infos": returned.infos},
            f"the values that {returned.title} returned to stay unchanged, as copies do; "
            f"{later.title} changed them",
        )
        returned = later


def data_is_the_users(subject: Subject) -> None:
    """Writing to returned values changes nothing in the environment."""

    def run() -> Iterator[Result]:
        player = subject.player()
        for result in player.play(min(subject.steps, 100), subject.seed):
            yield copy.deepcopy(result)
            # The player continues with a copy; the original is overwritten.
            player.last = copy.deepcopy(result)
            player.done = player.done.copy()
            _overwrite(result.values)

    subject.compare_with_recording(
        run(),
        "the same results whether or not the user writes to returned arrays; the environment "
        "still uses them",
    )


def _overwrite(value: Any) -> None:
    if isinstance(value, dict):
        for one in list(value.values()):
            _overwrite(one)
        value.clear()
    elif isinstance(value, np.ndarray):
        if value.dtype != object and value.flags.writeable:
            value[...] = np.zeros_like(value) if value.any() else np.ones_like(value)
    elif isinstance(value, (tuple, list)):
        for one in value:
            _overwrite(one)


def arguments_untouched(subject: Subject) -> None:
    """Step does not write to the actions, and reset does not write to the reset mask."""
    player = subject.player()
    player.reset(subject.seed)
    for _ in range(20):
        actions = player.actions()
        before = copy.deepcopy(actions)
        result = player.step(actions)
        expect_equal(before, actions, f"the actions of {result.title} to stay unchanged")
    mask = np.ones(subject.lanes, np.bool_)
    with contextlib.suppress(Exception):  # the check reset_mask reports this
        player.reset(options={"reset_mask": mask})
    expect(bool(mask.all()), "reset to leave the reset_mask unchanged", mask)
