"""A conformance checker for vector environments; it knows Gymnasium and nothing else.

Each check is a function below that says in its first line what it demands. Most of them compare
two runs with the same seed and the same actions: what must not matter differs between the two, and
everything else has to come out the same.
"""

from __future__ import annotations

import copy
import itertools
import random
import warnings
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from twofold._comparison import first_difference, first_mismatch, short
from twofold.testing.bench import (
    AnyVectorEnv,
    Bench,
    CannotCheck,
    Moment,
    Player,
    Policy,
    Wrong,
    expect,
    fail,
)


@dataclass(frozen=True)
class Finding:
    """One sentence of the report."""

    check: str
    """The check's name."""
    message: str
    """What was expected, and what came."""

    def __str__(self) -> str:
        return f"{self.check}: {self.message}"


@dataclass
class Report:
    """What the checks found.

    Attributes:
        passed: Names of the checks that passed.
        failures: What is wrong.
        remarks: What no rule forbids and users should know.
        skipped: What could not be checked, and why.
    """

    passed: list[str] = field(default_factory=list)
    failures: list[Finding] = field(default_factory=list)
    remarks: list[Finding] = field(default_factory=list)
    skipped: list[Finding] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"{len(self.passed)} checks passed, {len(self.failures)} failed"]
        for title in ("failures", "remarks", "skipped"):
            lines += [f"{title}:"] * bool(getattr(self, title))
            lines += [f"  - {finding}" for finding in getattr(self, title)]
        return "\n".join(lines)


class ConformanceError(AssertionError):
    """The environment does not do what Gymnasium says; the text lists everything that was found.

    Attributes:
        name: The environment's.
        report: All of it.
    """

    def __init__(self, name: str, report: Report) -> None:
        # What it is made anew of where it is unpickled.
        super().__init__(name, report)
        self.name, self.report = name, report

    def __str__(self) -> str:
        return f"{self.name} is not a conforming gymnasium.vector.VectorEnv: {self.report}"


def check_vector_env(
    make: Callable[[], AnyVectorEnv],
    *,
    steps: int = 400,
    seed: int = 0,
    stochastic: bool = True,
    policy: Policy | None = None,
    skip: Collection[str] = (),
) -> Report:
    """Checks that a vector environment does what Gymnasium says.

    Args:
        make: Makes a new environment, equal to the others that it makes; with at least 2 lanes, or
            less is checked. It is called about twenty times.
        steps: Steps of the longest runs. Episodes have to end within them, or autoreset can't be
            checked.
        seed: What the runs are seeded with, from this number up; and what draws the actions.
        stochastic: Whether the environment uses random numbers; without them, seeds can't differ.
        policy: Chooses the actions: observations and infos to a batch of actions, the same for the
            same. None for random ones, legal where infos have an `action_mask`.
        skip: Names of checks to leave out, of `CHECKS`.

    Returns:
        What was found; remarks and skipped checks are warnings (UserWarning) too.

    Raises:
        ConformanceError: Something is wrong; an AssertionError.
        ValueError: A name in `skip` is no check's.
    """
    unknown = set(skip) - set(CHECKS)
    if unknown:
        raise ValueError(f"no checks {sorted(unknown)}; the checks are {', '.join(CHECKS)}")
    report = Report()
    try:
        bench = Bench(make, steps, seed, stochastic, policy)
    except Wrong as wrong:
        report.failures.append(Finding("spaces", str(wrong)))
        raise ConformanceError("what make() returned", report) from None
    for name, check in CHECKS.items():
        if name not in _FIRST and any(finding.check in _FIRST for finding in report.failures):
            report.skipped.append(Finding("all other checks", "not run before these are right"))
            break
        if name in skip:
            report.skipped.append(Finding(name, "left out as asked"))
            continue
        bench.remarks = []
        try:
            check(bench)
            report.passed.append(name)
        except CannotCheck as reason:
            report.skipped.append(Finding(name, str(reason)))
        except Wrong as wrong:
            report.failures.append(Finding(name, str(wrong)))
        except Exception as error:
            where = f"{type(error).__name__}: {short(error, 300)}"
            report.failures.append(
                Finding(name, f"expected no exception from the environment; it raised {where}")
            )
        finally:
            bench.close_all()
        report.remarks += [Finding(name, remark) for remark in bench.remarks]
    for finding in report.remarks + [one for one in report.skipped if one.check not in skip]:
        warnings.warn(f"check_vector_env: {finding}", stacklevel=2)
    if report.failures:
        raise ConformanceError(bench.name, report)
    return report


# ---- spaces and what is returned -----------------------------------------------------------------


def _spaces(bench: Bench) -> None:
    """num_envs, the four spaces and metadata["autoreset_mode"] are there and fit together."""
    mode = bench.metadata.get("autoreset_mode")
    expect(
        isinstance(mode, AutoresetMode),
        "expected metadata['autoreset_mode'] to be a gymnasium.vector.AutoresetMode, so that "
        f"training code knows when to expect first observations; got {mode!r}",
    )
    for kind in ("observation", "action"):
        single = getattr(bench, f"single_{kind}_space")
        batched = getattr(bench, f"{kind}_space")
        expected = batch_space(single, bench.lanes)
        problem = _space_mismatch(expected, batched)
        expect(
            problem is None,
            f"expected {kind}_space to be single_{kind}_space for {bench.lanes} lanes, "
            f"{expected}; got {batched} ({problem})",
        )


def _space_mismatch(expected: gym.Space[Any], got: gym.Space[Any]) -> str | None:
    """Bounds of single lanes may differ, kind and shape and dtype may not."""
    if type(expected) is not type(got):
        return f"a {type(got).__name__} and no {type(expected).__name__}"
    if expected.shape != got.shape:
        return f"its shape is {got.shape} and not {expected.shape}"
    if expected.dtype != got.dtype:
        return f"its dtype is {got.dtype} and not {expected.dtype}"
    return None


def _reset_returns(bench: Bench) -> None:
    """Reset returns observations of the observation space, and a dict."""
    player = bench.player()
    for keywords in ({"seed": bench.seed}, {}):
        moment = player.reset(**keywords)
        _check_length(moment, 2, "(observations, infos)")
        _check_observations(bench, moment)
        _check_is_dict(moment)


def _step_returns(bench: Bench) -> None:
    """Step returns observations of the space, numeric rewards, two arrays of bool, and a dict."""
    for moment in bench.recording:
        if moment.actions is None:
            continue
        _check_length(moment, 5, "(observations, rewards, terminations, truncations, infos)")
        _check_observations(bench, moment)
        _check_is_dict(moment)
        for name, value in zip(
            ("rewards", "terminations", "truncations"), moment.values[1:4], strict=True
        ):
            _check_lane_array(bench, moment, name, value)
        rewards = moment.values[1]
        expect(
            rewards.dtype.kind == "f",
            f"{moment.title}: expected rewards of a floating dtype; got {rewards.dtype}",
        )
        is_finite = np.isfinite(rewards)
        expect(
            bool(is_finite.all()),
            f"{moment.title}: expected finite rewards; lane {int(np.argmin(is_finite))} has "
            f"{rewards[np.argmin(is_finite)]}",
        )
        for name, flags in (("terminations", moment.values[2]), ("truncations", moment.values[3])):
            expect(
                flags.dtype == np.bool_,
                f"{moment.title}: expected {name} of dtype bool; got {flags.dtype}",
            )


def _check_length(moment: Moment, length: int, what: str) -> None:
    kind = type(moment.values).__name__
    expect(
        isinstance(moment.values, tuple) and len(moment.values) == length,
        f"{moment.title}: expected a tuple {what}; got a {kind} of {len(moment.values)}",
    )


def _check_observations(bench: Bench, moment: Moment) -> None:
    problem = first_mismatch(bench.observation_space, moment.observations)
    expect(
        problem is None,
        f"{moment.title}: expected observations of {bench.observation_space}; {problem}",
    )


def _check_is_dict(moment: Moment) -> None:
    kind = type(moment.infos).__name__
    expect(isinstance(moment.infos, dict), f"{moment.title}: expected infos as a dict; got {kind}")


def _check_lane_array(bench: Bench, moment: Moment, name: str, value: Any) -> None:
    expect(
        isinstance(value, np.ndarray) and value.shape == (bench.lanes,),
        f"{moment.title}: expected {name} as a numpy array of shape ({bench.lanes},); got "
        f"{_kind(value)}",
    )


def _kind(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array {value.dtype}{value.shape}"
    return f"a {type(value).__name__}"


def _infos(bench: Bench) -> None:
    """infos[key] has a row for each lane, and infos["_key"] tells which lanes have one."""
    for moment in bench.recording:
        _check_is_dict(moment)
        _check_infos(bench, moment, moment.infos, "infos", is_top=True)


def _check_infos(
    bench: Bench, moment: Moment, infos: dict[str, Any], path: str, *, is_top: bool
) -> None:
    masks = {key for key in infos if key.startswith("_") and key[1:] in infos}
    for key, value in infos.items():
        name = f"{path}[{key!r}]"
        if key in masks:
            _check_lane_array(bench, moment, name, value)
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
            _check_infos(bench, moment, value, name, is_top=False)
        elif not (key == "final_obs" and isinstance(value, tuple)):
            has_rows = isinstance(value, np.ndarray) and value.shape[:1] == (bench.lanes,)
            expect(
                has_rows,
                f"{moment.title}: expected {name} as an array with a row for each of the "
                f"{bench.lanes} lanes, or a dict of such; got {_kind(value)}",
            )


def _action_mask(bench: Bench) -> None:
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
            f" in every reset and step; got {'none' if mask is None else _kind(mask)}",
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


# ---- whose memory it is --------------------------------------------------------------------------


def _data_not_reused(bench: Bench) -> None:
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


def _data_is_the_users(bench: Bench) -> None:
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


def _arguments_untouched(bench: Bench) -> None:
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


# ---- seeds ---------------------------------------------------------------------------------------


def _equal_seeds_agree(bench: Bench) -> None:
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


def _reseeding_starts_anew(bench: Bench) -> None:
    """reset(seed=s) gives the same run again, on a used environment and in mid-episode too."""
    player = bench.player()
    for _ in player.play(7, bench.seed + 5):
        pass
    bench.compare_with_recording(
        player.play(min(bench.steps, 100), bench.seed),
        f"expected reset(seed={bench.seed}) on a used environment to begin the same run as on a "
        "new one",
    )


def _reset_forgets_the_end(bench: Bench) -> None:
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


def _different_seeds_differ(bench: Bench) -> None:
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


def _lanes_differ(bench: Bench) -> None:
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


def _unseeded_goes_on(bench: Bench) -> None:
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


def _seeds_in_a_list(bench: Bench) -> None:
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


def _no_global_random_numbers(bench: Bench) -> None:
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


def _lanes_are_independent(bench: Bench) -> None:
    """What is played on one lane changes no other (a remark; no rule forbids it)."""
    if bench.one_lane_disturbs_others:
        bench.remarks.append(
            "other actions on lane 0 change what happens on the other lanes: they share one "
            "stream of random numbers, so a lane's run can't be repeated by itself"
        )


# ---- autoreset -----------------------------------------------------------------------------------


def _autoreset(bench: Bench) -> None:
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
        f"{_kind(infos.get('final_info'))}",
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


def _autoreset_ignores_the_action(bench: Bench) -> None:
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


def _autoreset_begins_new_episodes(bench: Bench) -> None:
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


# ---- masked resets -------------------------------------------------------------------------------


def _reset_mask(bench: Bench) -> None:
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
    _check_length(moment, 2, "(observations, infos)")
    _check_observations(bench, moment)
    _check_infos(bench, moment, moment.infos, "infos", is_top=True)
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


def _bad_reset_masks_are_refused(bench: Bench) -> None:
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


# ---- the end -------------------------------------------------------------------------------------


def _close(bench: Bench) -> None:
    """Close can be called on a new environment, on a used one, and twice; `closed` tells."""
    for is_used in (False, True):
        envs = bench.make()
        expect(not envs.closed, f"expected closed to be False at first; got {envs.closed!r}")
        if is_used:
            player = Player(bench, envs)
            player.reset(bench.seed)
            player.step()
        for _ in range(2):
            envs.close()
            expect(bool(envs.closed), f"expected closed to be True; got {envs.closed!r}")


# Nothing else makes sense while one of these fails.
_FIRST = ("spaces", "reset_returns", "step_returns", "infos")

CHECKS: dict[str, Callable[[Bench], None]] = {
    check.__name__.removeprefix("_"): check
    for check in (
        _spaces,
        _reset_returns,
        _step_returns,
        _infos,
        _action_mask,
        _data_not_reused,
        _data_is_the_users,
        _arguments_untouched,
        _equal_seeds_agree,
        _reseeding_starts_anew,
        _reset_forgets_the_end,
        _different_seeds_differ,
        _lanes_differ,
        _unseeded_goes_on,
        _seeds_in_a_list,
        _no_global_random_numbers,
        _lanes_are_independent,
        _autoreset,
        _autoreset_ignores_the_action,
        _autoreset_begins_new_episodes,
        _reset_mask,
        _bad_reset_masks_are_refused,
        _close,
    )
}
"""The checks by name, in the order in which they run; a docstring says what each demands."""
