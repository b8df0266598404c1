"""Checks on autoreset in the environment's declared mode, and on masked resets."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from twofold._comparison import first_difference, first_mismatch, short
from twofold.testing.subject import (
    CannotCheck,
    Result,
    Subject,
    Violation,
    all_equal,
    expect_equal,
)
from twofold.testing.values import check_infos, check_values, kind_of


def autoreset(subject: Subject) -> None:
    """The results follow the mode in metadata["autoreset_mode"]."""
    subject.ends  # noqa: B018 - without an end there is nothing to check
    for result in subject.recording:
        if not result.is_step:
            continue
        if subject.mode is AutoresetMode.SAME_STEP:
            _check_same_step(subject, result)
            continue
        finals = [key for key in ("final_obs", "final_info") if key in result.infos]
        if finals:
            raise Violation(
                f"{result.title}: expected no {' and '.join(finals)} in infos, because autoreset "
                f"is {subject.mode.name} and the step itself returns the final observation"
            )
        if subject.mode is AutoresetMode.NEXT_STEP:
            _check_next_step(result)


def _check_next_step(result: Result) -> None:
    assert result.waiting is not None
    _, rewards, terminations, truncations, _ = result.values
    got = {"reward": rewards, "terminated": terminations, "truncated": truncations}
    for name, values in got.items():
        for lane in np.flatnonzero(result.waiting & (values != 0)):
            raise Violation(
                f"{result.title}, lane {lane}, whose episode ended in the step before: expected "
                f"{name} {values.dtype.type(0)}, because with NEXT_STEP this step only resets the "
                f"lane; got {values[lane]}"
            )


def _check_same_step(subject: Subject, result: Result) -> None:
    done, infos = result.done, result.infos
    for key in ("final_obs", "final_info"):
        mask = infos.get(f"_{key}")
        if mask is None and not done.any():
            continue
        needed = f"infos[{key!r}] and infos['_{key}'], as SAME_STEP requires when an episode ends"
        result.expect(mask is not None and key in infos, needed, f"only {sorted(infos)}")
        needed = f"infos['_{key}'] to be terminations | truncations, {done}"
        result.expect(np.array_equal(mask, done), needed, mask)
    finals = _finals(subject, result)
    for lane in np.flatnonzero(done):
        space = subject.envs.single_observation_space
        problem = first_mismatch(space, finals[lane])
        if problem is not None:
            raise Violation(
                f"{result.title}: expected infos['final_obs'][{lane}] in {space}; {problem}"
            )
    is_dict = not done.any() or isinstance(infos["final_info"], dict)
    needed = "infos['final_info'] as a dict with the layout of infos"
    result.expect(is_dict, needed, kind_of(infos.get("final_info")))


def _finals(subject: Subject, result: Result) -> Any:
    """Returns the final observations by lane; None if there are none."""
    finals = result.infos.get("final_obs")
    # Gymnasium's environments return an array of objects; others return a batch of observations.
    if finals is None or isinstance(finals, np.ndarray):
        return finals
    return subject.lanes_of(finals)


def autoreset_ignores_the_action(subject: Subject) -> None:
    """With NEXT_STEP, the step after an episode's end ignores the lane's action."""
    if subject.mode is not AutoresetMode.NEXT_STEP:
        raise CannotCheck(f"autoreset is {subject.mode.name}, which never ignores actions")
    subject.need_random_actions("another action on one lane")
    subject.ends  # noqa: B018 - as above
    space = copy.deepcopy(subject.envs.single_action_space)
    space.seed(subject.seed + 2)

    def run() -> Iterator[Result]:
        player = subject.player()
        yield player.reset(subject.seed)
        for _ in range(subject.steps):
            actions = [player.action(lane) for lane in range(subject.lanes)]
            for lane in np.flatnonzero(player.done):
                actions[lane] = space.sample()
            yield player.step(subject.batch(actions))

    subject.compare_with_recording(
        run(),
        "the action of a lane to be ignored in the step after its episode's end; "
        "another action there changed the run (does the lane reset one step too early?)",
    )


def autoreset_begins_new_episodes(subject: Subject) -> None:
    """Autoreset begins a new episode: not the previous one, and not always the same one.

    This is checked only if first observations vary with the seed.
    """
    firsts, finals = _first_observations(subject)
    for lane, ended in finals.items():
        same = [first_difference(end, begin) is None for end, begin in ended]
        if len(same) >= 3 and all(same):
            raise Violation(
                f"lane {lane}: expected the first observation of a new episode after an episode's "
                f"end; after each of {len(same)} episodes it was the final observation again"
            )
    subject.need_chance()
    player = subject.player()
    if all_equal([copy.deepcopy(player.reset(s).observations) for s in subject.seeds(4)]):
        return
    long = {lane: begins for lane, begins in firsts.items() if len(begins) >= 4}
    if not long:
        raise CannotCheck(f"no lane had four episodes within {subject.steps} steps")
    if all(all_equal(begins) for begins in long.values()):
        lane, begins = next(iter(long.items()))
        raise Violation(
            f"expected autoreset to continue the lane's stream; all {len(begins)} episodes of lane "
            f"{lane} begin with the same observation, as if it were seeded again"
        )


def _first_observations(
    subject: Subject,
) -> tuple[dict[int, list[Any]], dict[int, list[tuple[Any, Any]]]]:
    """Returns the first observations of each lane's episodes.

    Also returns, for each lane, pairs of a final observation and the next first observation.
    """
    subject.ends  # noqa: B018 - as above
    recording = subject.recording
    firsts = {lane: [one] for lane, one in enumerate(subject.lanes_of(recording[0].observations))}
    finals: dict[int, list[tuple[Any, Any]]] = {lane: [] for lane in firsts}
    for before, result in itertools.pairwise(recording):
        if subject.mode is AutoresetMode.SAME_STEP:
            lanes, ended = result.done, _finals(subject, result)
        else:
            lanes, ended = before.done, subject.lanes_of(before.observations)
        begun = subject.lanes_of((result.reset or result).observations)
        for lane in map(int, np.flatnonzero(lanes)):
            firsts[lane].append(begun[lane])
            finals[lane].append((ended[lane], begun[lane]))
    return firsts, finals


def reset_mask(subject: Subject) -> None:
    """reset(options={"reset_mask": mask}) resets the lanes in the mask, and no others.

    Only DISABLED requires the option. In the other modes, an environment may refuse it.
    """
    subject.need_lanes()
    mask = np.zeros(subject.lanes, np.bool_)
    mask[0] = True
    player = subject.player()
    for result in player.play(3, subject.seed):
        if result.done.any():
            break
    before = copy.deepcopy(subject.lanes_of(player.last.observations))
    try:
        result = player.reset(options={"reset_mask": mask.copy()})
    except Exception as error:
        if subject.mode is AutoresetMode.DISABLED:
            raise
        raise CannotCheck(
            f"reset refuses reset_mask ({type(error).__name__}: {short(error)}); only DISABLED "
            "requires it"
        ) from None
    check_values(subject, result)
    check_infos(subject, result, result.infos)
    after = subject.lanes_of(result.observations)
    for lane in range(1, subject.lanes):
        what = f"lane {lane} to be as it was after a masked reset of lane 0"
        expect_equal(before[lane], after[lane], what)


def bad_reset_masks_are_refused(subject: Subject) -> None:
    """Reset refuses masks with a wrong shape or dtype, or with no True, and changes nothing."""
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
        raise Violation(
            f"expected an exception for a reset_mask with {kind}, {short(mask)}; got none"
        )
    subject.compare_with_recording(
        player.play(5, subject.seed), "a refused reset_mask to leave the environment usable"
    )
