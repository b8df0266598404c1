"""The arguments of an environment beside its game's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from gymnasium.vector import AutoresetMode
from typing_extensions import TypedDict

from twofold.client.curve import CurveKeys

RENDER_MODES = ["ansi", "rgb_array"]


class ServiceArguments(TypedDict, total=False):
    """Where to ask, and for how long."""

    endpoint: str | None
    """"embedded" for this process itself, "private" for a server of this process's own, the address
    of a running one, or None for the environment variable TWOFOLD_ENDPOINT and without it
    "embedded"."""
    keys: CurveKeys | None
    """Keys for an encrypted tcp endpoint, or None for the files that the environment variables
    TWOFOLD_CURVE_SERVER and TWOFOLD_CURVE_CLIENT name."""
    timeout: float
    """Seconds that each call may take before DeadlineExceeded; 30 by default."""


class EnvArguments(ServiceArguments, total=False):
    """The arguments of every environment, single or vector; `obs` is beside them."""

    extra_infos: Iterable[str]
    """Infos of a step beyond the usual ones, by name; every game has "reward_terms" and "episode"
    (docs/environments/rewards.md)."""
    recover: bool
    """Whether to make boards anew that the server has lost; False by default
    (docs/operations/reliability.md)."""
    observation_key: str | None
    """The observation's name in a dict; "observation" by default."""
    mask_key: str | None
    """The mask's; "action_mask" by default. Observations of any form are in a dict if it is given,
    or with obs="dict"."""
    render_mode: Literal["ansi", "rgb_array"] | None
    """None, "ansi" for text, or "rgb_array" for pictures."""
    render_size: int
    """Pixels along the longer side of a board's picture, 32 ... 4096; 512 by default."""


class VectorEnvArguments(EnvArguments, total=False):
    """The arguments of every vector environment; `num_envs` and `obs` are beside them."""

    autoreset_mode: AutoresetMode | str
    """NEXT_STEP, the default, SAME_STEP or DISABLED, as gymnasium's enum, its value or its name."""
    copy: bool
    """False for the same arrays and the same dict of infos from every reset and from every step,
    overwritten in place and nothing allocated; True by default. (Gymnasium's name, where it means
    the observations only; here it means rewards, flags and infos, too.)"""
