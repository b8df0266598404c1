"""The arguments of an environment beside its game's, and the options of a reset."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray
from typing_extensions import TypedDict

from twofold import _arguments
from twofold.client.curve import CurveKeys
from twofold.errors import InvalidArgument

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


def reset_mask(options: dict[str, Any], num_envs: int) -> NDArray[np.bool_]:
    """Which boards a reset with these options is for, bool (N,).

    Raises:
        InvalidArgument: The mask is wrong, or there is an unknown option.
    """
    unknown = options.keys() - {"reset_mask", "boards"}
    if unknown:
        raise InvalidArgument(
            f"unknown options {sorted(map(str, unknown))}; known are reset_mask and boards",
            field="options",
        )
    mask = options.get("reset_mask")
    if mask is None:
        return np.ones(num_envs, np.bool_)
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (num_envs,):
        kind = f"{mask.dtype} {mask.shape}" if isinstance(mask, np.ndarray) else type(mask).__name__
        raise InvalidArgument(
            f"reset_mask is {kind}; expected a numpy array, bool ({num_envs},)", field="reset_mask"
        )
    if not mask.any():
        raise InvalidArgument("reset_mask selects no board", field="reset_mask")
    return mask


def start_boards(
    boards: object, mask: NDArray[np.bool_], space: gym.Space[Any], numbers: str
) -> NDArray[Any]:
    """The boards that a reset starts from, (N, …), of the space's dtype; `mask` says which count.

    Raises:
        InvalidArgument: Their dtype, shape or range is wrong; `lane` is the first bad one.
    """
    if not isinstance(space, gym.spaces.Box):
        raise InvalidArgument("this environment cannot start from boards", field="boards")
    array = _arguments.integers("boards", boards, (len(mask), *space.shape))
    low, high = space.low.min(), space.high.max()
    is_bad = (array < low) | (array > high)
    is_bad[~mask] = False
    _arguments.refuse_lane("boards", array, is_bad, f"{numbers}, {low} ... {high}")
    return array.astype(space.dtype)
