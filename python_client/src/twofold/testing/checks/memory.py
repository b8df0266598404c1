"""Whose memory it is: that of what is returned, and of what is given."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np

from twofold._comparison import first_difference
from twofold.testing.subject import Bench, Moment, expect


def data_not_reused(bench: Bench) -> None:
    """What was returned stays as it was, whatever is called later."""
    player = bench.player()
    previous: tuple[Moment, Moment] | None = None
    for moment in player.play(min(bench.steps, 100), bench.seed):
        if previous is not None:
            _expect_unchanged(*previous, moment.title)
        previous = moment, copy.deepcopy(moment)
    assert previous is not None
    _expect_unchanged(*previous, player.reset(bench.seed).title)


def _expect_unchanged(moment: Moment, kept: Moment, later: str) -> None:
    before = kept.arrays | {"infos": kept.infos}
    difference = first_difference(before, moment.arrays | {"infos": moment.infos})
    expect(
        difference is None,
        f"expected what {moment.title} returned to stay as it was; {later} changed it: "
        f"{difference}. Return copies",
    )


def data_is_the_users(bench: Bench) -> None:
    """Writing into what was returned changes nothing in the environment."""

    def run() -> Iterator[Moment]:
        player = bench.player()
        for moment in player.play(min(bench.steps, 100), bench.seed):
            yield copy.deepcopy(moment)
            # The player goes on with the copy, the original is spoilt.
            player.last = copy.deepcopy(moment)
            player.done = player.done.copy()
            for value in moment.values:
                _spoil(value)

    bench.compare_with_recording(
        run(),
        "expected the same whether or not the user writes into returned arrays; "
        "the environment goes on with what it handed out",
    )


def _spoil(value: Any) -> None:
    if isinstance(value, dict):
        for one in list(value.values()):
            _spoil(one)
        value.clear()
    elif isinstance(value, np.ndarray):
        if value.dtype != object and value.flags.writeable:
            value[...] = np.zeros_like(value) if value.any() else np.ones_like(value)
    elif isinstance(value, (tuple, list)):
        for one in value:
            _spoil(one)


def arguments_untouched(bench: Bench) -> None:
    """Step does not write into the actions, nor reset into the options."""
    player = bench.player()
    player.reset(bench.seed)
    for _ in range(20):
        actions = player.actions()
        before = copy.deepcopy(actions)
        moment = player.step(actions)
        difference = first_difference(before, actions)
        expect(
            difference is None,
            f"{moment.title}: expected the actions to stay as the user gave them; {difference}",
        )
    mask = np.ones(bench.lanes, np.bool_)
    options = {"reset_mask": mask}
    try:
        player.reset(options=options)
    except Exception:
        return  # reset_mask is another check
    expect(bool(mask.all()), f"expected reset to leave the reset_mask alone; it made {mask}")
    if "reset_mask" not in options:
        bench.remarks.append(
            "reset takes 'reset_mask' out of the user's options: the same dict again resets all "
            "lanes, and so does a wrapper around it that looks at the options afterwards"
        )
