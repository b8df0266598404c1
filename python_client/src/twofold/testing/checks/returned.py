"""What a reset or a step returned: shapes, dtypes, kinds."""

from __future__ import annotations

from typing import Any

import numpy as np

from twofold._comparison import first_mismatch
from twofold.testing.subject import Bench, Moment, expect


def check_length(moment: Moment, length: int, what: str) -> None:
    """Expects a tuple of this many values."""
    kind = type(moment.values).__name__
    expect(
        isinstance(moment.values, tuple) and len(moment.values) == length,
        f"{moment.title}: expected a tuple {what}; got a {kind} of {len(moment.values)}",
    )


def check_observations(bench: Bench, moment: Moment) -> None:
    """Expects observations of the observation space, with its exact dtype."""
    problem = first_mismatch(bench.observation_space, moment.observations)
    expect(
        problem is None,
        f"{moment.title}: expected observations of {bench.observation_space}; {problem}",
    )


def check_is_dict(moment: Moment) -> None:
    """Expects infos as a dict."""
    kind = type(moment.infos).__name__
    expect(isinstance(moment.infos, dict), f"{moment.title}: expected infos as a dict; got {kind}")


def check_lane_array(bench: Bench, moment: Moment, name: str, value: Any) -> None:
    """Expects an array (lanes,)."""
    expect(
        isinstance(value, np.ndarray) and value.shape == (bench.lanes,),
        f"{moment.title}: expected {name} as a numpy array of shape ({bench.lanes},); got "
        f"{kind_of(value)}",
    )


def kind_of(value: Any) -> str:
    """The type of a value, of an array also its dtype and shape."""
    if isinstance(value, np.ndarray):
        return f"an array {value.dtype}{value.shape}"
    return f"a {type(value).__name__}"
