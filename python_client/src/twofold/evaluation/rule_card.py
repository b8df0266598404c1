"""The rule card: the facts needed to compare a result with others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gymnasium.vector import VectorEnv

from twofold import _arguments
from twofold.client.endpoints import EMBEDDED
from twofold.envs import GAMES
from twofold.envs.vector import TwofoldVectorEnv
from twofold.errors import InvalidArgument
from twofold.policies.choosers import Chooser
from twofold.v1 import environment_pb2 as environment

RULES = (
    *{rule: None for game in GAMES for rule in game.spec.of().rules() if rule != "illegal action"},
    "step limit",
)
"""The names of the rule card's entries that must be equal if two results are compared.

A function's illegal action raises, and a player's ends its game, so that rule may differ.
"""


def environment_card(envs: VectorEnv[Any, Any, Any]) -> dict[str, Any]:
    """Returns the rule card's entries about an environment: id, rules and server version."""
    base = envs.unwrapped
    if not isinstance(base, TwofoldVectorEnv):
        spec = getattr(envs, "spec", None)
        return {"environment": spec.id if spec is not None else type(base).__name__}
    create = base.game.request
    card: dict[str, Any] = {"environment": create.environment_id, **base.game.rules()}
    card.setdefault("score", f"sum of the rewards: {_reward_text(create)}")
    has_limit = create.HasField("max_episode_steps")
    card["step limit"] = create.max_episode_steps if has_limit else "none"
    is_embedded = base._session.link.endpoint == EMBEDDED
    kind = "none, twofold" if is_embedded else "twofold-server"
    card["server"] = f"{kind} {base.server_version}"
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


def policy_card(policy: Chooser) -> dict[str, Any]:
    """Returns the rule card's entries about a policy."""
    entries = policy.card
    unknown = sorted(set(entries) - set(_ENTRIES))
    if unknown:
        raise InvalidArgument(
            f"the policy's card has unknown entries {unknown}; expected {sorted(_ENTRIES)}",
            field="policy",
        )
    card = {"policy": policy.name}
    for key, (line, read) in _ENTRIES.items():
        value = entries.get(key)
        if value is None and key == "notes":
            continue
        card[line] = "not reported" if value is None else read(f"card['{key}']", value)
    return card


def _depth_text(max_layers: int) -> str:
    """Describes a search depth in both units that the literature uses: layers and plies.

    Yeh et al. count the layers in which the player chooses. Guei counts plies, which include random
    tiles. A search that compares only the afterstates has 1 layer, or 1 ply. A search that also
    compares the player's choices after the random tile has 2 layers, or 3 plies.
    """
    if max_layers == 0:
        return "none"
    plies = 2 * max_layers - 1
    layer = "max layer" if max_layers == 1 else "max layers"
    ply = "ply" if plies == 1 else "plies with chance"
    return f"{max_layers} {layer} ({plies} {ply})"


# For each entry of a policy's card: its key in the rule card, and the function that checks a value.
_ENTRIES: dict[str, tuple[str, Callable[[str, Any], Any]]] = {
    "search_max_layers": (
        "search depth",
        lambda name, value: _depth_text(_arguments.integer(name, value, 0)),
    ),
    "symmetry_averaging": (
        "symmetry averaging",
        lambda name, value: "yes" if _arguments.boolean(name, value) else "no",
    ),
    "weights_mb": (
        "weights, MB",
        lambda name, value: _arguments.real(name, value, 0, 1e12, "megabytes"),
    ),
    "threads": ("threads", lambda name, value: _arguments.integer(name, value, 1)),
    "notes": ("notes", _arguments.text),
}
