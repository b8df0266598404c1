"""Checks the options of a reset and makes its request."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from twofold import _arguments
from twofold.envs.results import Array
from twofold.errors import InvalidArgument
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment


def reset_mask(options: dict[str, Any], num_envs: int) -> NDArray[np.bool_]:
    """Returns a mask of the boards that a reset with these options restarts, bool (N,)."""
    mask = options.get("reset_mask")
    if mask is None:
        return np.ones(num_envs, np.bool_)
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (num_envs,):
        kind = f"{mask.dtype} {mask.shape}" if isinstance(mask, np.ndarray) else type(mask).__name__
        raise InvalidArgument(
            f"reset_mask is {kind}; expected a numpy array, bool ({num_envs},)", field="reset_mask"
        )
    if not mask.any():
        raise InvalidArgument(
            "reset_mask is False everywhere; expected True for at least one board",
            field="reset_mask",
        )
    return np.array(mask)  # a copy, because with copy=False the reset may overwrite the original


def start_boards(
    boards: object, mask: NDArray[np.bool_], space: gym.Space[Any], numbers: str
) -> NDArray[Any]:
    """Checks the boards in `mask`, and returns all start boards, (N, …), in the space's dtype.

    Raises:
        InvalidArgument: Their dtype, shape or range is wrong; `lane` names the first wrong board.
    """
    if not isinstance(space, gym.spaces.Box):
        raise InvalidArgument(
            "this game can't start from given boards; remove boards from the options",
            field="boards",
        )
    array = _arguments.integers("boards", boards, (len(mask), *space.shape))
    low, high = space.low.min(), space.high.max()
    is_bad = (array < low) | (array > high)
    is_bad[~mask] = False
    _arguments.refuse_lane("boards", array, is_bad, f"{numbers}, {low} ... {high}")
    return array.astype(space.dtype)


def reset_request(
    mask: NDArray[np.bool_],
    seeded: NDArray[np.bool_],
    seeds: NDArray[np.uint64],
    boards: Array | None,
) -> tuple[envelope.Request, bytes | None]:
    """Returns the request and payload that reset the lanes in `mask` and seed those in `seeded`."""
    has_seeds = bool(seeded.any())
    # 1 resets a lane, with its seed if the request has seeds; 2 resets it and continues its stream.
    numbers = mask.view(np.uint8) + (mask & ~seeded & has_seeds)
    reset = environment.ResetRequest(
        seeds=has_seeds, mask=bool((numbers != 1).any()), boards=boards is not None
    )
    payload = b""
    if has_seeds:
        payload += seeds.astype("<u8").tobytes()
    if reset.mask:
        payload += numbers.tobytes()
    if boards is not None:
        payload += boards.tobytes()
    return envelope.Request(reset=reset), payload or None
