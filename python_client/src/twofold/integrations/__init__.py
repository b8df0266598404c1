"""Adapters for training libraries, each in a module of its own that imports its library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym

from twofold.errors import InvalidArgument


def make_batch(env_id: str, n_envs: int, own: Mapping[str, Any], **arguments: Any) -> Any:
    """The boards of an adapter, which decides its `own` arguments.

    Raises:
        InvalidArgument: An argument is wrong, or the adapter's own; `field` names it.
        TransportError: No server.
    """
    for name in own:
        if name in arguments:
            raise InvalidArgument(f"{name} is the adapter's own: leave it out", field=name)
    return gym.make_vec(env_id, n_envs, **own, **arguments)
