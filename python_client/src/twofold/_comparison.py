"""Compares values that environments return, and describes differences in words."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium as gym
import numpy as np


def short(value: object, length: int = 80) -> str:
    """Returns a value on one line, truncated to `length` characters."""
    text = " ".join(str(value).split())
    return text if len(text) <= length else text[: length - 1] + "…"


def first_difference(expected: Any, got: Any, path: str = "") -> str | None:
    """Describes the first difference between two values; returns None if they are equal.

    Descends into dicts, sequences and arrays, including arrays of objects. NaN equals NaN.
    """
    name = path.lstrip(".") or "it"
    if isinstance(expected, Mapping) and isinstance(got, Mapping):
        if expected.keys() != got.keys():
            return f"{name} has {sorted(map(str, got))} instead of {sorted(map(str, expected))}"
        items = expected.items()
        return _first(first_difference(one, got[key], f"{path}.{key}") for key, one in items)
    if isinstance(expected, (list, tuple)) and isinstance(got, (list, tuple)):
        if len(expected) != len(got):
            return f"{name} has {len(got)} entries instead of {len(expected)}"
        pairs = enumerate(zip(expected, got, strict=True))
        return _first(first_difference(*pair, f"{path}[{i}]") for i, pair in pairs)
    if isinstance(expected, np.ndarray) or isinstance(got, np.ndarray):
        return _array_difference(np.asarray(expected), np.asarray(got), path, name)
    is_equal = expected == got or (expected != expected and got != got)
    return None if is_equal else f"{name} was {short(got)} instead of {short(expected)}"


def _first(differences: Iterator[str | None]) -> str | None:
    return next(filter(None, differences), None)


def _array_difference(
    expected: np.ndarray[Any, Any], got: np.ndarray[Any, Any], path: str, name: str
) -> str | None:
    if expected.shape != got.shape or expected.dtype != got.dtype:
        return f"{name} was {got.dtype}{got.shape} instead of {expected.dtype}{expected.shape}"
    if expected.dtype == object:
        items = np.ndenumerate(expected)
        return _first(first_difference(one, got[at], f"{path}{list(at)}") for at, one in items)
    is_other = expected != got
    if expected.dtype.kind in "fc":
        is_other &= ~(np.isnan(expected) & np.isnan(got))
    if not is_other.any():
        return None
    if expected.ndim == 0:
        return f"{name} was {got} instead of {expected}"
    row = int(np.argwhere(is_other)[0, 0])
    return f"{name}[{row}] was {short(got[row])} instead of {short(expected[row])}"


def first_mismatch(space: gym.Space[Any], value: Any, path: str = "") -> str | None:
    """Describes why a value is outside a space; returns None if it is inside.

    Stricter than `contains`, which accepts every dtype that can be cast.
    """
    name = path.lstrip(".") or "it"
    if isinstance(space, gym.spaces.Dict):
        if not isinstance(value, Mapping):
            return f"{name} was a {type(value).__name__} instead of a dict"
        if value.keys() != space.spaces.keys():
            return f"{name} has {sorted(map(str, value))} instead of {sorted(space.spaces)}"
        parts = space.spaces.items()
        return _first(first_mismatch(part, value[key], f"{path}.{key}") for key, part in parts)
    if isinstance(space, gym.spaces.Tuple):
        if not isinstance(value, tuple) or len(value) != len(space.spaces):
            return f"{name} was {short(value)} instead of a tuple of {len(space.spaces)}"
        pairs = enumerate(zip(space.spaces, value, strict=True))
        return _first(first_mismatch(*pair, f"{path}[{i}]") for i, pair in pairs)
    if isinstance(space, gym.spaces.Discrete):
        try:
            value = operator.index(value)
        except TypeError:
            return f"{name} was a {type(value).__name__} instead of an integer"
    elif space.shape is not None:
        if not isinstance(value, np.ndarray):
            return f"{name} was a {type(value).__name__} instead of a numpy array"
        if value.shape != space.shape:
            return f"{name} has shape {value.shape} instead of {space.shape}"
        if value.dtype != space.dtype:
            return f"{name} has dtype {value.dtype} instead of {space.dtype}"
    if not space.contains(value):
        return f"{name} was outside: {_outside(space, value)}"
    return None


def _outside(space: gym.Space[Any], value: Any) -> str:
    if isinstance(space, gym.spaces.Box):
        is_out = ~((value >= space.low) & (value <= space.high))
        at = tuple(int(i) for i in np.argwhere(is_out)[0])
        bounds = f"the bounds are {space.low[at]} and {space.high[at]}"
        return f"entry {list(at)} is {value[at]}, {bounds}"
    return short(value)
