"""Seeds: from what a user passes to one 64-bit number for each board."""

from __future__ import annotations

import secrets
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from twofold import _arguments
from twofold._exceptions import InvalidArgument

Seed: TypeAlias = "int | list[int | None] | tuple[int | None, ...] | NDArray[np.integer] | None"
"""Seeds as `reset` takes them."""


def draw_seed(num_envs: int) -> int:
    """A seed from the system, so that seed + i stays below 2^63 for every board i.

    Seeds from 2^63 up are left to evaluation.
    """
    return secrets.randbelow(2**63 - num_envs)


def consecutive(seed: int, num_envs: int) -> NDArray[np.uint64]:
    """uint64 (num_envs,): seed + i for board i, modulo 2^64."""
    boards = np.arange(num_envs, dtype=np.uint64)
    boards += np.uint64(seed % 2**64)
    return boards


def board_seeds(seed: Seed, num_envs: int) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """The seed of each board, and which boards are given one.

    Args:
        seed: An int for seed + i, a sequence with one int (or None) for each board, or None.
        num_envs: Number of boards N.

    Returns:
        uint64 (N,), 0 where none is given, and bool (N,).

    Raises:
        InvalidArgument: Not integers, negative, or a sequence of the wrong length.
    """
    if seed is None:
        return np.zeros(num_envs, np.uint64), np.zeros(num_envs, np.bool_)
    is_sequence = isinstance(seed, (list, tuple)) or (isinstance(seed, np.ndarray) and seed.ndim)
    if not is_sequence:
        number = _arguments.integer("seed", seed, 0)
        return consecutive(number, num_envs), np.ones(num_envs, np.bool_)
    entries = list(seed)  # type: ignore[arg-type]
    if len(entries) != num_envs:
        raise InvalidArgument(
            f"seed has {len(entries)} entries; expected one for each of the {num_envs} boards",
            field="seed",
        )
    seeds = np.zeros(num_envs, np.uint64)
    given = np.ones(num_envs, np.bool_)
    for lane, entry in enumerate(entries):
        if entry is None:
            given[lane] = False
            continue
        try:
            seeds[lane] = _arguments.integer("seed", entry, 0) % 2**64
        except InvalidArgument as error:
            raise InvalidArgument(f"board {lane}: {error}", field="seed", lane=lane) from None
    return seeds, given
