"""Autoreset, in the mode that the environment declares."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from twofold._comparison import first_difference, first_mismatch
from twofold.testing.checks.returned import kind_of
from twofold.testing.subject import Bench, CannotCheck, Moment, expect


def autoreset(bench: Bench) -> None:
    """Autoreset as metadata["autoreset_mode"] declares it, seen in what is returned."""
    bench.ends  # noqa: B018 - without an end there is nothing to see
    check = {
        AutoresetMode.NEXT_STEP: _check_next_step,
        AutoresetMode.SAME_STEP: _check_same_step,
        AutoresetMode.DISABLED: _check_disabled,
    }[bench.mode]
    for moment in bench.recording:
        if len(moment.values) == 5:
            check(bench, moment)


def _check_next_step(bench: Bench, moment: Moment) -> None:
    _expect_no_finals(bench, moment)
    assert moment.waiting is not None
    for lane in np.flatnonzero(moment.waiting):
        where = f"{moment.title}, lane {lane}, whose episode ended in the step before"
        _, rewards, terminations, truncations, _ = moment.values
        expect(
            rewards[lane] == 0,
            f"{where}: expected reward 0, since NEXT_STEP only resets here; got {rewards[lane]}",
        )
        for name, flags in (("terminated", terminations), ("truncated", truncations)):
            expect(
                not flags[lane],
                f"{where}: expected {name} to be False, since a new episode begins; got True",
            )


def _check_same_step(bench: Bench, moment: Moment) -> None:
    done, infos = moment.done, moment.infos
    masks = {key: infos.get(f"_{key}") for key in ("final_obs", "final_info")}
    for key, mask in masks.items():
        if mask is None and not done.any():
            continue
        expect(
            mask is not None and key in infos,
            f"{moment.title}: lane {int(np.argmax(done))} has ended: expected infos[{key!r}] and "
            f"infos['_{key}'], as SAME_STEP has them; got infos with {sorted(infos)}",
        )
        assert mask is not None
        expect(
            np.array_equal(mask, done),
            f"{moment.title}: expected infos['_{key}'] to be terminations | truncations, "
            f"{done}; got {mask}",
        )
    finals = _finals(bench, moment)
    for lane in np.flatnonzero(done):
        problem = first_mismatch(bench.single_observation_space, finals[lane])
        expect(
            problem is None,
            f"{moment.title}: expected infos['final_obs'][{lane}] of "
            f"{bench.single_observation_space}; {problem}",
        )
    expect(
        not done.any() or isinstance(infos["final_info"], dict),
        f"{moment.title}: expected infos['final_info'] as a dict laid out as infos are; got "
        f"{kind_of(infos.get('final_info'))}",
    )


def _finals(bench: Bench, moment: Moment) -> Any:
    """The final observations by lane, where an episode has ended."""
    finals = moment.infos.get("final_obs")
    # Gymnasium's own has one object for each lane, others have a batch of observations.
    if finals is None or isinstance(finals, np.ndarray):
        return finals
    return bench.lanes_of(finals)


def _check_disabled(bench: Bench, moment: Moment) -> None:
    _expect_no_finals(bench, moment)


def _expect_no_finals(bench: Bench, moment: Moment) -> None:
    found = [key for key in ("final_obs", "final_info") if key in moment.infos]
    expect(
        not found,
        f"{moment.title}: expected no {' and '.join(found)} in infos, since autoreset is "
        f"{bench.mode.name} and the final observation is returned itself",
    )


def autoreset_ignores_the_action(bench: Bench) -> None:
    """NEXT_STEP: the step after an episode's end ignores the lane's action."""
    if bench.mode is not AutoresetMode.NEXT_STEP:
        raise CannotCheck(f"autoreset is {bench.mode.name}, and no action is ignored")
    bench.need_random_actions("another action on one lane")
    bench.ends  # noqa: B018 - as above
    space = copy.deepcopy(bench.single_action_space)
    space.seed(bench.seed + 2)

    def run() -> Iterator[Moment]:
        player = bench.player()
        player.begin(0)
        yield player.reset(bench.seed)
        for _ in range(bench.steps):
            actions = [player.action(lane) for lane in range(bench.lanes)]
            for lane in np.flatnonzero(player.done):
                actions[lane] = space.sample()
            yield player.step(bench.batch(actions))

    bench.compare_with_recording(
        run(),
        "expected the action of a lane to be ignored in the step after its episode's end; "
        "another action there changed the run (does the lane reset one step too early?)",
    )


def autoreset_begins_new_episodes(bench: Bench) -> None:
    """Episodes after the first are new ones: not the end of the last one, nor the same once more.

    Seen where first observations vary with the seed.
    """
    firsts, finals = _first_observations(bench)
    for lane, ended in finals.items():
        same = [first_difference(end, begin) is None for end, begin in ended]
        expect(
            not (len(same) >= 3 and all(same)),
            f"lane {lane}: expected the observation after an episode's end to be a new episode's "
            f"first; all {len(same)} times it was the final one again",
        )
    bench.need_chance()
    player = bench.player()
    starts = [copy.deepcopy(player.reset(seed).observations) for seed in bench.seeds(4)]
    if all(first_difference(starts[0], start) is None for start in starts[1:]):
        return
    long = {lane: begins for lane, begins in firsts.items() if len(begins) >= 4}
    if not long:
        raise CannotCheck(f"no lane had four episodes within {bench.steps} steps")
    is_stuck = all(
        all(first_difference(begins[0], begin) is None for begin in begins[1:])
        for begins in long.values()
    )
    lane, begins = next(iter(long.items()))
    expect(
        not is_stuck,
        f"expected autoreset to go on with the lane's stream; all {len(begins)} episodes of lane "
        f"{lane} begin with the same observation, as if it were seeded again",
    )


def _first_observations(
    bench: Bench,
) -> tuple[dict[int, list[Any]], dict[int, list[tuple[Any, Any]]]]:
    """By lane: the episodes' first observations, and pairs of a final one and the next first."""
    bench.ends  # noqa: B018 - as above
    recording = bench.recording
    firsts = {lane: [one] for lane, one in enumerate(bench.lanes_of(recording[0].observations))}
    finals: dict[int, list[tuple[Any, Any]]] = {lane: [] for lane in firsts}
    for before, moment in itertools.pairwise(recording):
        if bench.mode is AutoresetMode.SAME_STEP:
            lanes, ended = moment.done, _finals(bench, moment)
        else:
            lanes, ended = before.done, bench.lanes_of(before.observations)
        begun = bench.lanes_of((moment.reset or moment).observations)
        for lane in map(int, np.flatnonzero(lanes)):
            firsts[lane].append(begun[lane])
            finals[lane].append((ended[lane], begun[lane]))
    return firsts, finals
