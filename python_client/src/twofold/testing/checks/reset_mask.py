"""Checks of masked resets."""

from __future__ import annotations

import copy

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from twofold._comparison import first_difference, short
from twofold.testing.checks.infos import check_infos
from twofold.testing.checks.interface import check_values
from twofold.testing.subject import CannotCheck, Player, Subject, expect_equal, fail


def reset_mask(subject: Subject) -> None:
    """reset(options={"reset_mask": mask}) restarts these lanes and leaves the others alone.

    DISABLED requires it; in the other modes an environment may refuse the option.
    """
    subject.need_lanes()
    mask = np.zeros(subject.lanes, np.bool_)
    mask[0] = True
    reset, untouched = subject.players(subject.seed)
    for _ in range(3):
        actions = untouched.actions()
        for player in (reset, untouched):
            player.step(copy.deepcopy(actions))
        if untouched.done.any():
            break
    before = copy.deepcopy(subject.lanes_of(reset.last.observations))
    waiting = reset.done.copy()
    try:
        result = reset.reset(options={"reset_mask": mask.copy()})
    except Exception as error:
        if subject.mode is AutoresetMode.DISABLED:
            raise
        raise CannotCheck(
            f"reset refuses reset_mask ({type(error).__name__}: {short(error)}); only DISABLED "
            "requires it"
        ) from None
    check_values(subject, result, "observations", "infos")
    check_infos(subject, result, result.infos, "infos", is_top=True)
    after = subject.lanes_of(result.observations)
    for lane in range(1, subject.lanes):
        what = f"lane {lane} to be as it was after a masked reset of lane 0"
        expect_equal(before[lane], after[lane], what)
    _check_seeded_mask(subject, mask)
    _check_lanes_go_on(subject, reset, untouched, waiting)


def _check_seeded_mask(subject: Subject, mask: NDArray[np.bool_]) -> None:
    """A seed applies to the lanes in the mask, bool (lanes,)."""
    player, seed = subject.player(), subject.seed + 3
    whole = copy.deepcopy(subject.lanes_of(player.reset(seed).observations))
    player.reset(subject.seed)
    for _ in range(3):
        player.step()
    masked = subject.lanes_of(player.reset(seed, options={"reset_mask": mask}).observations)
    difference = first_difference(whole[0], masked[0])
    if difference is not None and not subject.one_lane_disturbs_others:
        fail(
            f"reset(seed={seed}) of lane 0 alone: expected the first observation that the same "
            f"seed gives it in a reset of all lanes; {difference}"
        )


def _check_lanes_go_on(
    subject: Subject, reset: Player, untouched: Player, waiting: NDArray[np.bool_]
) -> None:
    """The lanes outside the mask go on as without the reset."""
    if subject.policy is not None or subject.one_lane_disturbs_others:
        return
    if subject.mode is AutoresetMode.DISABLED and waiting.any():
        return
    for _ in range(20):
        one, other = subject.step_with_another_first_action(untouched, reset)
        for lane in range(1, subject.lanes):
            difference = first_difference(one[lane], other[lane])
            if difference is not None:
                fail(
                    f"a masked reset of lane 0: expected lane {lane} to go on as without it; at "
                    f"{untouched.last.title} {difference}. Do the lanes share one stream of random "
                    "numbers?"
                )
        if subject.mode is AutoresetMode.DISABLED and (reset.done | untouched.done).any():
            break


def bad_reset_masks_are_refused(subject: Subject) -> None:
    """Masks of another shape or dtype, or without a True, raise and change nothing."""
    player = subject.player()
    player.reset(subject.seed)
    try:
        player.reset(options={"reset_mask": np.ones(subject.lanes, np.bool_)})
    except Exception:
        raise CannotCheck("reset refuses reset_mask") from None
    bad = {
        "a list": [True] * subject.lanes,
        "integers": np.ones(subject.lanes, np.int64),
        "another shape": np.ones(subject.lanes + 1, np.bool_),
        "no True": np.zeros(subject.lanes, np.bool_),
    }
    for kind, mask in bad.items():
        try:
            player.reset(options={"reset_mask": mask})
        except Exception:
            continue
        fail(f"expected an exception for a reset_mask with {kind}, {short(mask)}; got none")
    subject.compare_with_recording(
        player.play(5, subject.seed),
        "a refused reset_mask to leave the environment usable",
    )
