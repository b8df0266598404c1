"""Expectations of the values that a reset or a step returns: lengths, shapes, dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

from twofold._comparison import first_mismatch
from twofold.testing.subject import Result, Subject


def check_values(subject: Subject, result: Result, *names: str) -> None:
    """Expects a tuple of these values: observations of the space first, a dict of infos last."""
    kind, number = type(result.values).__name__, len(result.values)
    result.expect(
        isinstance(result.values, tuple) and number == len(names),
        f"expected a tuple ({', '.join(names)}); got a {kind} of {number}",
    )
    space = subject.envs.observation_space
    problem = first_mismatch(space, result.observations)
    result.expect(problem is None, f"expected observations of {space}; {problem}")
    check_is_dict(result)


def check_is_dict(result: Result) -> None:
    """Expects infos as a dict."""
    kind = type(result.infos).__name__
    result.expect(isinstance(result.infos, dict), f"expected infos as a dict; got {kind}")


def check_lane_array(subject: Subject, result: Result, name: str, value: Any) -> None:
    """Expects a numpy array (lanes,)."""
    result.expect(
        isinstance(value, np.ndarray) and value.shape == (subject.lanes,),
        f"expected {name} as a numpy array of shape ({subject.lanes},); got {kind_of(value)}",
    )


def kind_of(value: Any) -> str:
    """The type of a value; of an array its dtype and shape."""
    if isinstance(value, np.ndarray):
        return f"an array {value.dtype}{value.shape}"
    return f"a {type(value).__name__}"
