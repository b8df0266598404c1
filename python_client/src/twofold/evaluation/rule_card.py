"""The rule card: what has to be known to set a result beside another."""

from __future__ import annotations

from typing import Any

from gymnasium.vector import VectorEnv

from twofold.envs.vector import TwofoldVectorEnv
from twofold.v1 import environment_pb2 as environment


def environment_card(envs: VectorEnv[Any, Any, Any]) -> dict[str, Any]:
    """What the environment adds to it: id, server, and the rules of its game."""
    base = envs.unwrapped
    if not isinstance(base, TwofoldVectorEnv):
        spec = getattr(envs, "spec", None)
        return {"environment": spec.id if spec is not None else type(base).__name__}
    session = base._session
    create = session.create
    card: dict[str, Any] = {"environment": create.environment_id, **base._game.rules()}
    card.setdefault("score", f"sum of the rewards: {_reward_text(create)}")
    has_limit = create.HasField("max_episode_steps")
    card["step limit"] = create.max_episode_steps if has_limit else "none"
    card["server"] = f"twofold-server {session.server_version}"
    return card


def _reward_text(create: environment.CreateRequest) -> str:
    if not create.HasField("reward"):
        return "the game's own"
    reward = create.reward
    parts = []
    for term in reward.terms:
        values = [f"{each.name} {' '.join(map(str, each.values))}" for each in term.parameters]
        weight = term.weight if term.HasField("weight") else 1
        parts.append(f"{weight:g} {term.name}" + (f" ({', '.join(values)})" if values else ""))
    text = " + ".join(parts)
    if reward.HasField("scale"):
        text += f", times {reward.scale:g}"
    if reward.HasField("clip_low"):
        text += f", at least {reward.clip_low:g}"
    if reward.HasField("clip_high"):
        text += f", at most {reward.clip_high:g}"
    return text


def depth_names(max_layers: int | None) -> str:
    """A search depth in both of the literature's ways of counting.

    Yeh et al. count the layers in which the player chooses, Guei the plies, in which also chance
    moves: choosing among afterstates is 1 and 1, one more choice after the chance makes 2 and 3.
    """
    if max_layers is None:
        return "not told"
    if max_layers == 0:
        return "none"
    plies = 2 * max_layers - 1
    one = "max layer" if max_layers == 1 else "max layers"
    ply = "ply" if plies == 1 else "plies with chance"
    return f"{max_layers} {one} ({plies} {ply})"
