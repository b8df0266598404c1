"""A short form of the certificate: correct engines pass it and wrong engines fail.

`make certify` runs the full form: a million episodes, and the other packages themselves.
"""

import itertools
import math
from typing import Any

import exact
import mutants
import numpy as np
import packages
import pytest
from checks import Check
from forward import Forward
from reference import Xoshiro128PlusPlus

import certify


@pytest.mark.parametrize("changes", [{}, {"start_tiles": 1}, {"four_probability": 0.3}], ids=str)
def test_both_solvers_agree_on_2x2(changes: dict[str, Any]) -> None:
    play = Forward(2, 2, **changes).solve()
    values = exact.Solver(2, 2, **changes).solve()
    assert (play.score, play.moves) == pytest.approx((values["score"], values["moves"]))
    for value in (4, 8, 16, 32, 64):
        assert play.reaching(value) == pytest.approx(values.get(value, 0.0), abs=1e-12)
    assert play.left_out == 0


@pytest.mark.parametrize(("rows", "columns"), [(2, 3), (3, 2)])
def test_2x3_has_the_values_that_the_slower_solver_computed(rows: int, columns: int) -> None:
    play = Forward(rows, columns).solve(negligible=1e-9)
    assert (play.score, play.moves) == pytest.approx((61.1688802953, 13.5278152998), rel=1e-7)
    assert play.reaching(16) == pytest.approx(0.6297436560, abs=1e-8)


def test_2x2_has_its_known_number_of_states_up_to_symmetry() -> None:
    play = Forward(2, 2).solve()
    assert (play.states, play.terminal) == (110, 36)


@pytest.mark.long
def test_3x3_uniform_play_has_its_known_values() -> None:
    play = Forward(3, 3).solve(negligible=1e-4)
    assert 0 < play.left_out < 1e-4
    assert (play.score, play.moves) == pytest.approx((178.74385407, 30.46086075), rel=1e-4)


@pytest.fixture(scope="module")
def _server_everywhere() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TWOFOLD_ENDPOINT", "embedded")
        yield


# The ninth section is about 3 x 3, which takes long to solve.
@pytest.mark.usefixtures("_server_everywhere")
@pytest.mark.parametrize("count", [8, pytest.param(9, marks=pytest.mark.long)])
def test_small_boards_play_to_their_exact_values(count: int) -> None:
    parts = certify.certify_exact(20_000, 4_000, negligible=1e-4)
    sections = list(itertools.islice(parts, count))
    assert len(sections) == count
    assert failures(sections) == []


@pytest.mark.usefixtures("_server_everywhere")
def test_4x4_plays_to_its_known_statistics() -> None:
    sections = list(certify.certify_statistics(12_000, 4_000))
    assert len(sections) == 2
    assert failures(sections) == []


@pytest.mark.usefixtures("_server_everywhere")
def test_the_optimum_and_the_regret_of_small_boards_are_certified() -> None:
    sections = list(certify.certify_optimum(4_000, 4_000))
    assert len(sections) == 3
    assert failures(sections) == []


def failures(sections: list[certify.Section]) -> list[tuple[str, Check]]:
    return [(s.title, check) for s in sections for check in s.checks if not check.passed]


def test_a_correct_engine_is_certified() -> None:
    _, found = certify.try_engine(mutants.Defect(), 1024)
    assert [check for check in found if not check.passed] == []


@pytest.mark.parametrize("defect", mutants.DEFECTS, ids=lambda defect: defect.name)
def test_a_wrong_engine_is_caught(defect: mutants.Defect) -> None:
    # A defect of the slide is noticed only by the mean score of many games.
    is_of_slide = defect.merges_from_far_end or defect.cascades
    played, found = certify.try_engine(defect, 4096 if is_of_slide else 1024)
    assert [check for check in found if not check.passed] != []
    # The mutant has the published defect, and not some other one.
    error = played.score.std() / math.sqrt(played.count)
    assert abs(played.score.mean() - defect.score) < 4 * error


# ---- dialects ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", packages.DIALECTS)
def test_a_dialect_reproduces_its_packages_games(dialect: Any) -> None:
    recording = packages.load_short(dialect)
    assert len(recording["action"]) > 500
    assert recording["terminated"].any()
    found = list(packages.compare(dialect, recording, "embedded"))
    assert [check for check in found if not check.passed] == []


@pytest.mark.parametrize(
    ("column", "change", "what"),
    [
        ("reward", lambda column: column + 4, "reward"),
        ("terminated", lambda column: ~column, "terminated"),
        ("truncated", lambda column: ~column, "truncated"),
        ("mask", lambda column: ~column, "mask before the action"),
        ("mask_after", lambda column: ~column, "next mask"),
        ("after", lambda column: column[::-1, ::-1], "slide"),
        ("action", lambda column: 3 - column, "slide"),
    ],
)
def test_one_transition_that_differs_is_found(column: str, change: Any, what: str) -> None:
    recording = packages.load_short("jumanji")
    recording[column] = recording[column].copy()
    wanted = np.flatnonzero((recording["before"] > 0).sum(axis=(1, 2)) == 7)[0]
    recording[column][wanted] = change(recording[column][wanted])
    failed = {
        check.what: check.measured
        for check in packages.compare("jumanji", recording, "embedded")
        if not check.passed
    }
    assert failed[f"transitions with a different {what}"] == 1


def test_every_seed_places_the_tile_that_it_was_chosen_for() -> None:
    room, place, four = (
        array.ravel() for array in np.meshgrid(np.arange(1, 17), np.arange(16), [0, 1])
    )
    inside = place < room
    seeds = packages.seeds_for(room[inside], place[inside], four[inside])
    for seed, n, k, is_four in zip(seeds, room[inside], place[inside], four[inside], strict=True):
        words = Xoshiro128PlusPlus.seeded(int(seed))
        assert (words.next_word() * int(n)) >> 32 == k
        assert (words.next_word() < 429496730) == is_four


# ---- the checks themselves -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expected", "measured", "error", "passed"),
    [
        (1.0, 1.39, 0.1, True),
        (1.0, 1.41, 0.1, False),
        (1.0, 0.59, 0.1, False),
        (1.0, 1.0, 0.0, True),
        (1.0, 1.0000001, 0.0, False),
        (1.0, math.nan, 0.1, False),
        (1.0, math.nan, 0.0, False),
    ],
)
def test_a_check_passes_within_four_standard_errors(
    expected: float, measured: float, error: float, passed: bool
) -> None:
    assert Check("it", expected, measured, error).passed is passed


def test_a_section_without_checks_has_not_passed() -> None:
    assert not certify.Section("empty", "").passed
    failed = certify.Section("wrong", "", [Check("it", 0.0, 1.0)])
    report = certify.markdown(
        {"twofold": "1", "started": "", "limit": 4, "passed": False}, [failed]
    )
    assert "1 of 1 checks disagree" in report
    assert certify.as_json(failed)["checks"][0]["deviation"] is None
