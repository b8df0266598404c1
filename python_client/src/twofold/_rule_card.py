"""The rule card: what has to be known to set a result beside another."""

from __future__ import annotations

from typing import Any

from gymnasium.vector import VectorEnv

from twofold._vector_env import TwofoldVectorEnv


def environment_card(envs: VectorEnv[Any, Any, Any]) -> dict[str, Any]:
    """What the environment adds to it: id, server, and the rules of its game."""
    base = envs.unwrapped
    if not isinstance(base, TwofoldVectorEnv):
        spec = getattr(envs, "spec", None)
        return {"environment": spec.id if spec is not None else type(base).__name__}
    session = base._session
    create = session.create
    card: dict[str, Any] = {"environment": create.environment_id}
    if create.HasField("game2048"):
        config = create.game2048
        four = config.four_probability
        card |= {
            "size": f"{config.rows} x {config.columns}",
            "spawn law": f"2 with {1 - four:g}, 4 with {four:g}, all empty cells alike",
            "start tiles": config.start_tiles,
            "goal": f"{config.goal}, {'ends the game' if config.stop_at_goal else 'play goes on'}",
            "illegal action": _ILLEGAL_ACTIONS[config.illegal_action],
        }
        card["score"] = "sum of merged values, whatever the reward"
    has_limit = create.HasField("max_episode_steps")
    card["step limit"] = create.max_episode_steps if has_limit else "none"
    card["server"] = f"twofold-server {session.server_version}"
    return card


_ILLEGAL_ACTIONS = {1: "nothing happens", 2: "ends the game"}


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
