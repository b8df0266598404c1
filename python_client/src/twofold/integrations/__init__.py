"""Adapters for training libraries. Each adapter's module imports its library."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

import gymnasium as gym

from twofold.envs import BY_ID
from twofold.errors import InvalidArgument
from twofold.games.spec import full_id

MAX_EPISODE_STEPS = 65_536
"""The default limit on the steps of an adapter's episodes.

A deterministic agent without masks may repeat an illegal action forever, because the board stays
the same. The limit is too high to truncate a 4 x 4 game with legal moves only: a move adds 2.2 to
the sum of the tiles on average, so a 65536 takes 30,000 moves and a 131072 takes 60,000.
"""


def refuse_own(own: Container[str], names: Iterable[str]) -> None:
    """Checks that none of the given arguments `names` is one of an adapter's `own`."""
    for name in names:
        if name in own:
            raise InvalidArgument(f"the adapter sets {name} itself; omit it", field=name)


def make_batch(env_id: str, n_envs: int, own: Mapping[str, Any], **arguments: Any) -> Any:
    """Makes the vector environment for an adapter, with a default step limit.

    The adapter sets the arguments in `own`, and its user the others.
    """
    if "num_envs" in arguments:
        raise TypeError(
            "the adapter got an unexpected keyword argument 'num_envs'; did you mean 'n_envs'?"
        )
    refuse_own(own, arguments)
    game = BY_ID.get(full_id(env_id))
    # A preset's limit is part of its rules.
    if game is None or not game.spec.split(arguments)[0].request.HasField("max_episode_steps"):
        arguments.setdefault("max_episode_steps", MAX_EPISODE_STEPS)
    return gym.make_vec(env_id, n_envs, **own, **arguments)
