"""Masked resets."""

from __future__ import annotations

import copy

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from twofold._comparison import first_difference, short
from twofold.testing.checks.infos import check_infos
from twofold.testing.checks.returned import check_length, check_observations
from twofold.testing.subject import Bench, CannotCheck, Player, expect, fail


def reset_mask(bench: Bench) -> None:
    """reset(options={"reset_mask": mask}) starts these lanes anew and leaves the others alone.

    DISABLED can't do without it; in the other modes an environment may refuse the option.
    """
    bench.need_lanes()
    mask = np.zeros(bench.lanes, np.bool_)
    mask[0] = True
    reset, untouched = bench.player(), bench.player()
    for player in (reset, untouched):
        player.begin(0)
        player.reset(bench.seed)
    for _ in range(3):
        actions = untouched.actions()
        for player in (reset, untouched):
            player.step(copy.deepcopy(actions))
        if untouched.done.any():
            break
    before = copy.deepcopy(bench.lanes_of(reset.last.observations))
    waiting = reset.done.copy()
    try:
        moment = reset.reset(options={"reset_mask": mask.copy()})
    except Exception as error:
        if bench.mode is AutoresetMode.DISABLED:
            raise
        raise CannotCheck(
            f"reset takes no reset_mask here ({type(error).__name__}: {short(error)}); only "
            "DISABLED needs it"
        ) from None
    check_length(moment, 2, "(observations, infos)")
    check_observations(bench, moment)
    check_infos(bench, moment, moment.infos, "infos", is_top=True)
    after = bench.lanes_of(moment.observations)
    for lane in range(1, bench.lanes):
        difference = first_difference(before[lane], after[lane])
        expect(
            difference is None,
            f"a masked reset of lane 0: expected lane {lane} to be as it was; {difference}",
        )
    _check_seeded_mask(bench, mask)
    _check_lanes_go_on(bench, reset, untouched, waiting)


def _check_seeded_mask(bench: Bench, mask: NDArray[np.bool_]) -> None:
    """A seed applies to the lanes in the mask."""
    player = bench.player()
    whole = copy.deepcopy(bench.lanes_of(player.reset(bench.seed + 3).observations))
    player.reset(bench.seed)
    for _ in range(3):
        player.step()
    masked = bench.lanes_of(player.reset(bench.seed + 3, options={"reset_mask": mask}).observations)
    difference = first_difference(whole[0], masked[0])
    if difference is not None and not bench.one_lane_disturbs_others:
        fail(
            f"reset(seed={bench.seed + 3}) of lane 0 alone: expected the first observation that "
            f"the same seed gives it in a reset of all lanes; {difference}"
        )


def _check_lanes_go_on(
    bench: Bench, reset: Player, untouched: Player, waiting: NDArray[np.bool_]
) -> None:
    """The lanes outside the mask go on as if nothing had been."""
    if bench.policy is not None or bench.one_lane_disturbs_others:
        return
    if bench.mode is AutoresetMode.DISABLED and waiting.any():
        return
    for _ in range(20):
        actions = [untouched.action(lane) for lane in range(bench.lanes)]
        others = [reset.action(0), *actions[1:]]
        moment = untouched.step(bench.batch(actions))
        one, other = bench.by_lane(moment), bench.by_lane(reset.step(bench.batch(others)))
        for lane in range(1, bench.lanes):
            difference = first_difference(one[lane], other[lane])
            expect(
                difference is None,
                f"a masked reset of lane 0: expected lane {lane} to go on as without it; at "
                f"{moment.title} {difference}. Do the lanes share one stream of random numbers?",
            )
        if bench.mode is AutoresetMode.DISABLED and (reset.done | untouched.done).any():
            break


def bad_reset_masks_are_refused(bench: Bench) -> None:
    """Masks of another shape or dtype, or without a True, raise and change nothing."""
    player = bench.player()
    player.reset(bench.seed)
    try:
        player.reset(options={"reset_mask": np.ones(bench.lanes, np.bool_)})
    except Exception:
        raise CannotCheck("reset takes no reset_mask here") from None
    bad = {
        "no array": [True] * bench.lanes,
        "integers": np.ones(bench.lanes, np.int64),
        "another shape": np.ones(bench.lanes + 1, np.bool_),
        "no True": np.zeros(bench.lanes, np.bool_),
    }
    for what, mask in bad.items():
        try:
            player.reset(options={"reset_mask": mask})
        except Exception:
            continue
        fail(f"expected an exception for a reset_mask with {what}, {short(mask)}; it was taken")
    bench.compare_with_recording(
        player.play(5, bench.seed), "expected a refused reset_mask to leave the environment usable"
    )
