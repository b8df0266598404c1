"""A game as JSON: its id, and the arguments of its environment."""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from twofold.envs.arguments import ServiceArguments


def as_json(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an environment's arguments as JSON values, without `ServiceArguments`.

    Sessions, datasets and OpenEnv states store a game as its id and these arguments, which
    `GameSpec.split` reads.

    Raises:
        TypeError: An argument can't be written as JSON.
    """
    local = ServiceArguments.__optional_keys__
    kept = {name: value for name, value in arguments.items() if name not in local}
    document: dict[str, Any] = json.loads(json.dumps(kept, default=_plain))
    return document


def _plain(value: object) -> Any:
    """Converts an argument that `json` can't write to a type that it can."""
    if isinstance(value, AutoresetMode):
        return value.value
    if isinstance(value, np.floating):
        return float(value)
    if hasattr(value, "__array__"):
        return np.asarray(value).tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Collection):  # not an iterator, whose elements the caller still needs
        return list(value)
    if hasattr(value, "__index__"):
        return operator.index(value)
    raise TypeError(f"{value!r} can't be written as JSON")
