"""Adapters for training libraries, each in a separate module that imports its library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym

from twofold.envs import BY_ID
from twofold.errors import InvalidArgument

MAX_EPISODE_STEPS = 65_536
"""The default limit of an adapter's episodes.

A deterministic agent without masks repeats an illegal action for ever, because the board stays the
same. The limit cuts no game of 2048 on 4 x 4 with legal actions: a move adds 2.2 to the sum of
the tiles, on average, so a game has a 65536 after 30,000 moves and a 131072 after 60,000.
"""


def make_batch(env_id: str, n_envs: int, own: Mapping[str, Any], **arguments: Any) -> Any:
    """Makes the boards of an adapter, with its `own` arguments and a default limit of steps.

    Raises:
        InvalidArgument: An argument is wrong, or the adapter's own; `field` names it.
        TransportError: No server.
    """
    for name in own:
        if name in arguments:
            raise InvalidArgument(f"{name} is the adapter's own: leave it out", field=name)
    game = BY_ID.get(env_id.rpartition(":")[2])
    # A preset's own limit is part of its rules.
    if game is None or not game.spec.split(arguments)[0].request.HasField("max_episode_steps"):
        arguments.setdefault("max_episode_steps", MAX_EPISODE_STEPS)
    return gym.make_vec(env_id, n_envs, **own, **arguments)
