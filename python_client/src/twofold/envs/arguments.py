"""The arguments of an environment other than its game's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from gymnasium.vector import AutoresetMode
from typing_extensions import TypedDict

from twofold.client.curve import CurveKeys

RENDER_MODES = ["ansi", "rgb_array"]


class ServiceArguments(TypedDict, total=False):
    """The service to use, and the time that a call may take."""

    endpoint: str | None
    """"embedded" for this process itself, "private" for this process's own server, or the address
    of a running server. None means the environment variable TWOFOLD_ENDPOINT, or without it
    "embedded"."""
    keys: CurveKeys | None
    """Keys for an encrypted tcp endpoint, or None for the files that the environment variables
    TWOFOLD_CURVE_SERVER and TWOFOLD_CURVE_CLIENT name."""
    timeout: float
    """Seconds that each call may take before DeadlineExceeded; 30 by default."""


class EnvArguments(ServiceArguments, total=False):
    """The arguments of every environment, single or vector, except `obs`."""

    extra_infos: Iterable[str]
    """Names of additional infos of a step. Every game has "reward_terms" and "episode"
    (see the page "Rewards")."""
    recover: bool
    """Whether to recreate boards that the server has lost; False by default
    (see the page "Reliability: nothing lost, nothing twice")."""
    observation_key: str | None
    """The observation's name in a dict; "observation" by default."""
    mask_key: str | None
    """The mask's name in a dict; "action_mask" by default. If it is given, or with obs="dict",
    observations of any form come in a dict."""
    render_mode: Literal["ansi", "rgb_array"] | None
    """None for no pictures, "ansi" for text, or "rgb_array" for pictures."""
    render_size: int
    """Pixels along the longer side of a board's picture, 32 ... 4096; 512 by default."""


class VectorEnvArguments(EnvArguments, total=False):
    """The arguments of every vector environment, except `num_envs` and `obs`."""

    autoreset_mode: AutoresetMode | str
    """NEXT_STEP (the default), SAME_STEP or DISABLED, as Gymnasium's enum, value or name."""
    copy: bool
    """Whether results are fresh; True by default. With False, every reset and every step overwrites
    and returns the same arrays and the same dict of infos, and allocates nothing. (In Gymnasium the
    argument covers the observations only; here it covers rewards, flags and infos too.)"""
