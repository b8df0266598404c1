"""Argument checks. Each error names the argument and, if there is one, the lane."""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from twofold.errors import InvalidArgument

DEFAULT_TIMEOUT = 30.0
"""The default limit on the duration of a call, in seconds."""

# The errors for lists of unequal lengths, and for tensors on another device or with a gradient. Any
# other error may come from a signal handler and must reach the caller.
UNREADABLE = (TypeError, ValueError, RuntimeError, BufferError)

# The dtypes of actions. Looking one up at each step is faster than testing kind and byte order.
_NATIVE_INTEGERS = frozenset(map(np.dtype, np.typecodes["AllInteger"]))


def integer(name: str, value: object, low: int, high: int | None = None) -> int:
    """Returns `value` as an int in low ... high; accepts any integer type except bool."""
    span = f"at least {low}" if high is None else f"{low} ... {high}"
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise wrong(name, value, f"an integer, {span}") from None
    if number < low or (high is not None and number > high):
        raise wrong(name, number, span)
    return number


def boolean(name: str, value: object) -> bool:
    """Returns `value` as a bool; accepts only Python's and numpy's bool."""
    if not isinstance(value, (bool, np.bool_)):
        raise wrong(name, value, "True or False")
    return bool(value)


def real(
    name: str,
    value: object,
    low: float = -math.inf,
    high: float = math.inf,
    expected: str = "a finite number",
) -> float:
    """Returns `value` as a finite float in low ... high."""
    number = math.nan
    if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        with contextlib.suppress(OverflowError):
            number = float(value)
    if not (math.isfinite(number) and low <= number <= high):
        raise wrong(name, value, expected)
    return number


def policy_timeout(value: object) -> float:
    """Returns the time limit for one call of a policy as a float, in seconds."""
    return real("policy_timeout", value, 1e-3, 1e9, "seconds, 0.001 ... 1,000,000,000")


def probability(value: object) -> float:
    """Returns `four_probability` as a float in 0 ... 1."""
    return real("four_probability", value, 0, 1, "0 ... 1")


def seconds(name: str, value: object) -> float:
    """Returns a duration as a float, in seconds."""
    return real(name, value, 1e-3, 1e6, "seconds, 0.001 ... 1,000,000")


def sides(value: object, low: int, high: int) -> tuple[int, int]:
    """Returns `size` as (rows, columns), each in low ... high; one integer stands for both."""
    both = value if isinstance(value, (tuple, list)) else (value, value)
    if len(both) != 2:
        raise wrong("size", value, "an integer or (rows, columns)")
    rows, columns = (integer("size", side, low, high) for side in both)
    return rows, columns


def text(name: str, value: object) -> str:
    """Returns `value`, which must be a str without lone surrogates."""
    if not isinstance(value, str):
        raise wrong(name, value, "a string")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise wrong(name, value, "a string without lone surrogates") from None
    return value


def elements(name: str, value: object, expected: str) -> list[Any]:
    """Returns the elements of `value`, which must be iterable and not a string or a mapping."""
    try:
        if isinstance(value, (str, Mapping)):
            raise TypeError
        iterator = iter(value)  # type: ignore[call-overload]
    except TypeError:  # also for an array of shape (), which has an `__iter__`
        raise wrong(name, value, expected) from None
    return list(iterator)


def progress(value: object, name: str = "progress") -> None:
    """Checks that `value` is a function or None."""
    if value is not None and not callable(value):
        raise wrong(name, value, "a function")


def executor(value: object, method: str) -> None:
    """Checks that `value` has a method of this name or is None."""
    if value is not None and not hasattr(value, method):
        raise wrong("executor", value, "an object such as RayExecutor()")


def options(value: object, *known: str) -> dict[str, Any]:
    """Returns the options of a reset as a dict, which is empty for None; `known` are the names."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise wrong("options", value, "a dict")
    unknown = value.keys() - set(known)
    if unknown:
        raise InvalidArgument(
            f"unknown options {sorted(map(str, unknown))}; expected only {' or '.join(known)}",
            field="options",
        )
    return dict(value)


def choice(name: str, value: object, known: Iterable[str]) -> str:
    """Returns `value`, which must be one of the strings `known`."""
    if not isinstance(value, str) or value not in known:
        raise wrong(name, value, f"one of {', '.join(map(repr, known))}")
    return value


def decimal(text: str) -> int | None:
    """Returns the number that a text consists of; None without one, or beyond 19 digits."""
    return int(text) if text.isdecimal() and len(text) < 20 else None


def game(which: object, games: int) -> str | int:
    """Returns `which` as "best", "worst", "median" or a game's number, 0 ... `games` - 1."""
    if isinstance(which, str):
        if which in ("best", "worst", "median"):
            return which
        number = decimal(which)
        if number is None:
            raise wrong("which", which, "'best', 'worst', 'median' or an episode's number")
        which = number
    return integer("which", which, 0, games - 1)


def autoreset(value: object) -> AutoresetMode:
    """Returns an AutoresetMode from a mode, its value or its name."""
    if isinstance(value, (str, AutoresetMode)):
        for mode in AutoresetMode:
            if value in (mode, mode.value, mode.name, mode.name.lower()):
                return mode
    expected = "a gymnasium.vector.AutoresetMode, its name or its value"
    raise wrong("autoreset_mode", value, expected)


def lanes(value: object, num_envs: int) -> NDArray[np.uint64]:
    """Returns `value` as board numbers, uint64 (k,), k >= 1, all different.

    Raises:
        InvalidArgument: A number is wrong or repeated; `lane` is the first wrong one.
    """
    named = array("lanes", value)
    if named.ndim != 1 or named.size == 0 or named.dtype.kind not in "iu":
        raise wrong("lanes", value, "a non-empty list of board numbers")
    outside = (named < 0) | (named >= num_envs)
    if outside.any():
        first = int(named[outside][0])
        raise InvalidArgument(
            f"lanes contains {first}; expected 0 ... {num_envs - 1}", field="lanes", lane=first
        )
    numbers, counts = np.unique(named, return_counts=True)
    if numbers.size < named.size:
        twice = int(numbers[counts > 1][0])
        raise InvalidArgument(
            f"lanes contains board {twice} twice; name each board once", field="lanes", lane=twice
        )
    return named.astype(np.uint64)


def array(name: str, value: object, dtype: type | None = None) -> NDArray[Any]:
    """Returns `value` as an array of any shape, and of any dtype if `dtype` is None."""
    try:
        return np.asarray(value, dtype)
    except UNREADABLE as error:
        raise InvalidArgument(f"{name} can't be read as an array: {error}", field=name) from error


def integers(name: str, value: object, shape: tuple[int, ...]) -> NDArray[np.integer[Any]]:
    """Returns `value` as an array of any integer dtype and this shape, without a range check.

    The result has this machine's byte order.
    """
    numbers = array(name, value)
    if numbers.dtype not in _NATIVE_INTEGERS:
        if numbers.dtype.kind not in "iu":
            raise InvalidArgument(
                f"{name} have dtype {numbers.dtype}; expected integers of shape {shape}", field=name
            )
        numbers = numbers.astype(numbers.dtype.newbyteorder("="))
    if numbers.shape != shape:
        raise InvalidArgument(f"{name} have shape {numbers.shape}; expected {shape}", field=name)
    return numbers


def refuse_lane(name: str, values: NDArray[Any], is_bad: NDArray[np.bool_], span: str) -> None:
    """Raises InvalidArgument for the first lane with a bad value in `values`, (N, …), if any.

    `span` is the expected range, in words.
    """
    if is_bad.any():
        lane = int(np.argwhere(is_bad)[0, 0])
        worst = values[lane][is_bad[lane]].flat[0]
        raise InvalidArgument(f"{name}[{lane}] is {worst}; expected {span}", field=name, lane=lane)


def wrong(name: str, value: object, expected: str) -> InvalidArgument:
    """Returns the error for an argument with a wrong value."""
    return InvalidArgument(f"{name} is {value!r}; expected {expected}", field=name)
