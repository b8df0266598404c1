"""Seeds: the same run from the same, another from another."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator

import numpy as np
from gymnasium.vector import AutoresetMode

from twofold._comparison import first_difference
from twofold.testing.subject import Bench, CannotCheck, Moment, expect, fail


def equal_seeds_agree(bench: Bench) -> None:
    """The same seed and the same actions give the same run, also beside another environment."""
    first, other = bench.player(), bench.player()

    def interleaved() -> Iterator[Moment]:
        disturbing = other.play(bench.steps, bench.seed + 1000)
        for moment in first.play(bench.steps, bench.seed):
            yield moment
            next(disturbing)

    bench.compare_with_recording(
        interleaved(),
        f"expected two environments with seed {bench.seed} to agree under the same actions, "
        "whatever a third one does",
    )


def reseeding_starts_anew(bench: Bench) -> None:
    """reset(seed=s) gives the same run again, on a used environment and in mid-episode too."""
    player = bench.player()
    for _ in player.play(7, bench.seed + 5):
        pass
    bench.compare_with_recording(
        player.play(min(bench.steps, 100), bench.seed),
        f"expected reset(seed={bench.seed}) on a used environment to begin the same run as on a "
        "new one",
    )


def reset_forgets_the_end(bench: Bench) -> None:
    """A reset right after an episode's end leaves no autoreset behind."""
    end = bench.ends[0]
    player = bench.player()
    for _, _ in zip(bench.recording[: end + 1], player.play(end, bench.seed), strict=False):
        pass
    bench.compare_with_recording(
        player.play(min(bench.steps, 30), bench.seed),
        f"expected reset(seed={bench.seed}) right after an episode's end to begin the same run as "
        "on a new environment; is the autoreset still pending?",
    )


def different_seeds_differ(bench: Bench) -> None:
    """Different seeds give different runs."""
    bench.need_chance()
    player = bench.player()
    seeds = bench.seeds(4)
    runs = [bench.transcript(player, seed) for seed in seeds]
    if all(first_difference(runs[0], run) is None for run in runs[1:]):
        fail(
            f"expected different runs from the seeds {seeds}; all were the same. Is the seed used? "
            "(stochastic=False if nothing is random)"
        )


def lanes_differ(bench: Bench) -> None:
    """One seed gives each lane a stream of its own."""
    bench.need_chance()
    bench.need_lanes()
    bench.need_random_actions("the same action on all lanes")
    player = bench.player()
    player.begin(0)
    moment = player.reset(bench.seed)
    for _ in range(min(bench.steps, 100)):
        lanes = bench.lanes_of(moment.observations)
        if any(first_difference(lanes[0], lane) is not None for lane in lanes[1:]):
            return
        if player.done.any() and bench.mode is AutoresetMode.DISABLED:
            break
        moment = player.step(bench.batch([player.action(0)] * bench.lanes))
    fail(
        f"expected the lanes to differ after reset(seed={bench.seed}); with the same action on "
        "all of them they stay the same. Do all lanes get the same seed?"
    )


def unseeded_goes_on(bench: Bench) -> None:
    """reset() without a seed goes on with the streams, and does not seed again."""
    player = bench.player()
    runs = []
    for _ in range(2):
        player.reset(bench.seed)
        runs.append(bench.transcript(player))
    difference = first_difference(runs[0], runs[1])
    expect(
        difference is None,
        f"expected reset() after reset(seed={bench.seed}) to go on with the seeded stream, the "
        f"same each time; {difference}",
    )
    if not bench.stochastic:
        return
    for seed in range(bench.seed, bench.seed + 4):
        seeded = bench.transcript(player, seed)
        player.reset(seed)
        if first_difference(seeded, bench.transcript(player)) is not None:
            break
    else:
        fail(
            "expected reset() after reset(seed=s) to go on with the stream; it began the run of "
            "seed s once more"
        )
    unseeded = [bench.transcript(bench.player()) for _ in range(3)]
    if all(first_difference(unseeded[0], run) is None for run in unseeded[1:]):
        fail(
            "expected new environments that were never seeded to differ from one another; three "
            "runs were the same"
        )


def seeds_in_a_list(bench: Bench) -> None:
    """Where reset takes a list of seeds, each lane uses its own."""
    bench.need_lanes()
    seeds = [bench.seed + 7 * lane for lane in range(bench.lanes)]
    player = bench.player()
    try:
        first = bench.transcript(player, list(seeds))
    except Exception as error:
        raise CannotCheck(
            f"reset takes no list of seeds ({type(error).__name__}); Gymnasium's base class does "
            "not ask for it"
        ) from None
    difference = first_difference(first, bench.transcript(player, list(seeds)))
    expect(difference is None, f"expected the same run from the same seeds {seeds}; {difference}")
    player.reset(list(seeds))
    one = bench.lanes_of(copy.deepcopy(player.last.observations))[0]
    player.reset([seeds[0], *(seed + 1 for seed in seeds[1:])])
    difference = first_difference(one, bench.lanes_of(player.last.observations)[0])
    expect(
        difference is None,
        "expected lane 0 to begin as its own seed says, whatever the other lanes' seeds; "
        f"{difference}",
    )


def no_global_random_numbers(bench: Bench) -> None:
    """A seeded run does not depend on numpy's and Python's global generators, nor disturb them."""
    states = np.random.get_state(), random.getstate()
    try:
        player = bench.player()
        np.random.seed(12345)
        random.seed(12345)
        before = np.random.get_state()[1].copy(), random.getstate()  # type: ignore[index]

        bench.compare_with_recording(
            player.play(min(bench.steps, 100), bench.seed),
            "expected a seeded run to be the same whatever the state of np.random and random",
        )
        after = np.random.get_state()[1], random.getstate()  # type: ignore[index]
        expect(
            bool(np.array_equal(before[0], after[0])) and before[1] == after[1],
            "expected the global generators of numpy and Python to be left alone; the environment "
            "draws from them or seeds them",
        )
    finally:
        np.random.set_state(states[0])
        random.setstate(states[1])


def lanes_are_independent(bench: Bench) -> None:
    """What is played on one lane changes no other (a remark; no rule forbids it)."""
    if bench.one_lane_disturbs_others:
        bench.remarks.append(
            "other actions on lane 0 change what happens on the other lanes: they share one "
            "stream of random numbers, so a lane's run can't be repeated by itself"
        )
