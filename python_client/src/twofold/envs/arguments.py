"""The arguments that environments of all games share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from gymnasium.vector import AutoresetMode
from typing_extensions import TypedDict

from twofold.client.curve import CurveKeys

RENDER_MODES = ["ansi", "rgb_array"]
ObservationName: TypeAlias = Literal["array", "dict", "one_hot", "one_hot_last", "flat"]


class ServiceArguments(TypedDict, total=False):
    """The arguments that choose the service and limit the time of a call."""

    endpoint: str | None
    """"embedded" to run the boards in this process, "private" to start a server that only this
    process uses, or the address of a running server. None means the value of the environment
    variable TWOFOLD_ENDPOINT, or "embedded" if that is unset."""
    keys: CurveKeys | None
    """Keys for an encrypted tcp endpoint; None for those in the files that the environment
    variables TWOFOLD_CURVE_SERVER and TWOFOLD_CURVE_CLIENT name."""
    timeout: float
    """The seconds after which a call raises DeadlineExceeded; 30 by default."""


def check_service(service: Mapping[str, object]) -> None:
    """Raises TypeError unless all arguments in `service` belong to `ServiceArguments`."""
    unknown = service.keys() - ServiceArguments.__optional_keys__
    if unknown:
        raise TypeError(
            f"unexpected keyword arguments {sorted(unknown)}; expected endpoint, keys or timeout"
        )


class EnvArguments(ServiceArguments, total=False):
    """The arguments of every environment, single or vector, except `obs`."""

    extra_infos: Iterable[str]
    """The names of infos to add to each step. Every game has "reward_terms", "episode_return" and
    "episode" (see the page "Rewards")."""
    recover: bool
    """Whether to recreate boards that the server has lost; False by default
    (see the page "Reliability: nothing lost, nothing twice")."""
    observation_key: str | None
    """The key of the observation in a dict; "observation" by default."""
    mask_key: str | None
    """The key of the mask in a dict; "action_mask" by default. If it is given, or with obs="dict",
    observations are dicts."""
    render_mode: Literal["ansi", "rgb_array"] | None
    """None for no rendering, "ansi" for text, or "rgb_array" for pictures."""
    render_size: int
    """The longer side of a board's picture in pixels, 32 ... 4096; 512 by default. An odd number is
    rounded down, because video codecs need even sides."""


class VectorEnvArguments(EnvArguments, total=False):
    """The arguments of every vector environment, except `num_envs` and `obs`."""

    autoreset_mode: AutoresetMode | str
    """NEXT_STEP (the default), SAME_STEP or DISABLED, as a member of Gymnasium's enum, its value or
    its name."""
    copy: bool
    """Whether each call returns new arrays; True by default. With False, every reset and step
    overwrites and returns the same arrays, and allocates nothing. All resets return one dict of
    infos, and all steps another. (In Gymnasium this argument affects observations only; here it
    affects rewards, flags and infos too.)"""
