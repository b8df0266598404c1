"""The conformance checker: correct environments pass, and each defect is found and named."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from walks import PLACES, WRONG, IgnoresSeeds, OneSeedForAllLanes, Walk, WalkVectorEnv

import twofold
from twofold.testing import CHECKS, ConformanceError, Finding, Report, check_vector_env
from twofold.testing.subject import Subject, Violation

MODES = pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.name)


def check(make: Callable[[], VectorEnv[Any, Any, Any]], **keywords: Any) -> Report:
    """Returns the report of a run of 60 steps, without the warnings."""
    keywords = {"steps": 60} | keywords
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return check_vector_env(make, **keywords)


def all_but(name: str) -> set[str]:
    return set(CHECKS) - {name}


def skipped(report: Report) -> set[str]:
    return {finding.check for finding in report.skipped}


# ---- correct environments ------------------------------------------------------------------------


@MODES
def test_a_correct_environment_passes_every_check(mode: AutoresetMode) -> None:
    report = check(lambda: WalkVectorEnv(mode))
    not_here = {"autoreset_ignores_the_action"} if mode is not AutoresetMode.NEXT_STEP else set()
    assert set(report.passed) == set(CHECKS) - not_here
    assert skipped(report) == not_here


@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        *((SyncVectorEnv, mode) for mode in AutoresetMode),
        pytest.param(AsyncVectorEnv, AutoresetMode.NEXT_STEP, marks=pytest.mark.long),
    ],
    ids=lambda one: getattr(one, "__name__", getattr(one, "name", "")),
)
def test_gymnasiums_own_environments_pass(kind: type[Any], mode: AutoresetMode) -> None:
    report = check(lambda: kind([Walk] * 2, autoreset_mode=mode), steps=80)
    assert skipped(report) <= {"autoreset_ignores_the_action"}


@MODES
def test_gymnasiums_statistics_around_a_correct_environment_pass(mode: AutoresetMode) -> None:
    def make() -> VectorEnv[Any, Any, Any]:
        return gym.wrappers.vector.RecordEpisodeStatistics(WalkVectorEnv(mode))

    # With DISABLED it returns its own memory, and the next masked reset writes to it.
    check(make, skip=["data_not_reused"] * (mode is AutoresetMode.DISABLED))


INFOS = ("reward_terms", "episode", "merges", "chance", "afterstates")
OURS: dict[str, Callable[..., VectorEnv[Any, Any, Any]]] = {
    "2048 on 2 x 2": partial(twofold.Game2048VectorEnv, size=2),
    "2048, with all observations and infos": partial(
        twofold.Game2048VectorEnv, obs="dict", extra_infos=INFOS
    ),
    "2048 in planes": partial(twofold.Game2048VectorEnv, obs="one_hot", mask_key="mask"),
    "2048 as EnvPool has it": partial(twofold.Game2048VectorEnv, dialect="envpool"),
    "Concentration, flat": partial(twofold.ConcentrationVectorEnv, obs="flat"),
    "Concentration": twofold.ConcentrationVectorEnv,
    "Concentration with peeks": partial(
        twofold.ConcentrationVectorEnv, size=(2, 3), peeks=2, obs="dict"
    ),
}

# Checked in every mode; with these, final observations and infos have the most parts.
THOROUGH = ("2048, with all observations and infos", "Concentration with peeks")


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        (name, mode)
        for name in OURS
        for mode in AutoresetMode
        if mode is AutoresetMode.NEXT_STEP or name in THOROUGH
    ],
    ids=lambda one: getattr(one, "name", one),
)
def test_twofold_passes(name: str, mode: AutoresetMode) -> None:
    def make() -> VectorEnv[Any, Any, Any]:
        return OURS[name](5, max_episode_steps=12, autoreset_mode=mode, endpoint="embedded")

    report = check(make, steps=40)
    not_here = {"autoreset_ignores_the_action"} if mode is not AutoresetMode.NEXT_STEP else set()
    assert set(report.passed) == set(CHECKS) - not_here
    assert skipped(report) == not_here


def test_twofold_passes_with_more_boards_than_a_block_has() -> None:
    def make() -> VectorEnv[Any, Any, Any]:
        return twofold.Game2048VectorEnv(70, max_episode_steps=12, endpoint="embedded")

    report = check(make, steps=40)
    assert skipped(report) == set()


# ---- defects -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "name", "words"), WRONG, ids=lambda one: getattr(one, "__name__", "")
)
def test_a_defect_is_found_and_the_sentence_names_it(
    make: type[WalkVectorEnv], name: str, words: str
) -> None:
    with pytest.raises(
        ConformanceError, match=rf"(?s){make.__name__} is not .*{name}: .*{words}"
    ) as caught:
        check(make, skip=all_but(name))
    (finding,) = caught.value.report.failures
    assert finding.check == name
    assert "expected" in finding.message


def test_the_checks_after_a_failed_one_also_run() -> None:
    with pytest.raises(ConformanceError) as caught:
        check(IgnoresSeeds)
    failed = {finding.check for finding in caught.value.report.failures}
    assert {"equal_seeds_agree", "reseeding_starts_anew", "unseeded_goes_on"} <= failed


def test_every_check_finds_something() -> None:
    assert set(CHECKS) == {name for _, name, _ in WRONG}


def test_gymnasiums_async_workers_without_shared_memory_keep_a_pending_autoreset() -> None:
    with pytest.raises(ConformanceError, match="is the autoreset still pending"):
        check(
            lambda: AsyncVectorEnv([Walk] * 2, shared_memory=False),
            skip=all_but("reset_forgets_the_end"),
        )


def test_memory_that_gymnasiums_statistics_return_is_found() -> None:
    def make() -> VectorEnv[Any, Any, Any]:
        envs = WalkVectorEnv(AutoresetMode.DISABLED)
        return gym.wrappers.vector.RecordEpisodeStatistics(envs)

    with pytest.raises(
        ConformanceError,
        match=r"(?s)^RecordEpisodeStatistics is not .*data_not_reused: .*infos\._episode",
    ):
        check(make)


def test_a_buffer_that_gymnasium_was_asked_to_reuse_is_found() -> None:
    with pytest.raises(ConformanceError, match="data_not_reused"):
        check(lambda: SyncVectorEnv([Walk] * 3, copy=False))


def test_anything_but_a_vector_environment_is_refused() -> None:
    with pytest.raises(
        ConformanceError, match=r"expected a gymnasium\.vector\.VectorEnv; got a Walk"
    ):
        check_vector_env(Walk)  # type: ignore[arg-type]
    with pytest.raises(ConformanceError, match="expected the attribute num_envs"):
        check_vector_env(VectorEnv)


@MODES
def test_lanes_may_be_equal_until_the_first_episode_ends(mode: AutoresetMode) -> None:
    class BeginsOnSeven(WalkVectorEnv):
        def begin(self, lanes: Any) -> None:
            self.places[lanes] = PLACES - 2
            self.slips[lanes] = 0

    class BeginsOnSevenWithOneSeed(BeginsOnSeven, OneSeedForAllLanes):
        pass

    lanes_differ = CHECKS["lanes_differ"]
    for seed in range(10):
        lanes_differ(Subject(lambda: BeginsOnSeven(mode, 2), 60, seed, True, None))
        with pytest.raises(Violation, match="Do all lanes get the same seed"):
            lanes_differ(Subject(lambda: BeginsOnSevenWithOneSeed(mode, 2), 60, seed, True, None))


# ---- the report ----------------------------------------------------------------------------------


def test_skipped_checks_are_reported() -> None:
    with pytest.warns(UserWarning, match="no episode ended within 2 steps"):
        report = check_vector_env(WalkVectorEnv, steps=2)
    assert "autoreset" in skipped(report)
    report = check(lambda: WalkVectorEnv(num_envs=1))
    assert {"lanes_differ", "reset_mask"} <= skipped(report)


def test_an_environment_without_chance_needs_stochastic_false() -> None:
    class Fixed(WalkVectorEnv):
        def seed_lanes(self, seed: Any, mask: Any) -> None:
            for lane in np.flatnonzero(mask):
                self.generators[lane] = np.random.default_rng(lane)

    with pytest.raises(ConformanceError, match="stochastic=False if nothing is random"):
        check(Fixed, skip=all_but("different_seeds_differ"))

    class Certain(WalkVectorEnv):
        def begin(self, lanes: Any) -> None:
            super().begin(lanes)
            for lane in np.flatnonzero(lanes):
                self.generators[lane] = np.random.default_rng(1)
                self.places[lane] = 4

    report = check(Certain, stochastic=False)
    assert {"different_seeds_differ", "lanes_differ"} <= skipped(report)


def test_a_policy_plays_to_the_end() -> None:
    def always_left(observations: Any, infos: dict[str, Any]) -> Any:
        return np.zeros(3, np.int64)

    report = check(WalkVectorEnv, policy=always_left)
    assert "autoreset" in report.passed


def test_random_actions_are_the_legal_ones() -> None:
    player = Subject(WalkVectorEnv, steps=9, seed=0, stochastic=True, policy=None).player()
    player.reset(seed=0)
    played = set()
    for _ in range(100):
        mask, actions = player.last.infos["action_mask"], player.actions()
        assert mask[np.arange(3), actions].all()
        played |= set(actions.tolist())
        player.step(actions)
    assert played == {0, 1, 2}


def test_checks_are_left_out_by_name() -> None:
    make, name, _ = WRONG[7]
    report = check(make, skip=[name])
    assert skipped(report) == {name}
    with pytest.raises(
        ValueError, match="unknown checks \\['nonsense'\\]; the checks are spaces, "
    ):
        check_vector_env(WalkVectorEnv, skip=["nonsense"])


def test_an_environment_in_place_of_a_function_is_refused() -> None:
    with pytest.raises(ConformanceError, match="expected a function that makes the environment"):
        check_vector_env(WalkVectorEnv(AutoresetMode.NEXT_STEP))  # type: ignore[arg-type]


def test_the_report_lists_its_findings() -> None:
    report = Report(["spaces"], [Finding("close", "why")], [Finding("infos", "none")])
    assert str(report) == (
        "1 checks passed, 1 failed\nfailures:\n  - close: why\nskipped:\n  - infos: none"
    )
