"""Short recordings of POPGym's own Concentration; `make certify` compares long ones."""

import concentration
import numpy as np
import pytest


@pytest.mark.parametrize("variant", concentration.VARIANTS)
def test_the_server_reproduces_popgyms_transitions(variant: str) -> None:
    recording = concentration.load_short(variant)
    assert recording["lengths"].sum() > 100
    checks = list(concentration.compare(variant, recording, endpoint="embedded"))
    assert len(checks) == 6
    assert all(check.passed for check in checks), [check.what for check in checks]


@pytest.mark.parametrize(
    ("name", "what"),
    [("observations", "observation"), ("rewards", "reward"), ("truncated", "truncated")],
)
def test_a_single_difference_is_noticed(name: str, what: str) -> None:
    recording = concentration.load_short("Easy")
    # This is the second transition of the second episode.
    place = (1, 2, 5) if name == "observations" else (1, 1)
    recording[name][place] = 1 - recording[name][place]
    failed = [
        check.what
        for check in concentration.compare("Easy", recording, endpoint="embedded")
        if not check.passed
    ]
    assert failed == [f"transitions with a different {what}"]


def test_a_recording_survives_saving_and_loading() -> None:
    kept = concentration.load_short("Hard")
    assert kept["observations"].shape == (3, 105, 52)
    assert kept["observations"].max() == 13
    assert kept["rewards"].dtype == np.float64
