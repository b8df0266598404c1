"""Seeds: the conversion of the argument `seed` to one 64-bit number per board."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from twofold import _arguments
from twofold.client.session.states import Operation
from twofold.client.surroundings import SYSTEM
from twofold.errors import InvalidArgument
from twofold.v1 import envelope_pb2 as envelope

# A list[int] is not a list[int | None] for type checkers, because lists can change.
Seed: TypeAlias = (
    int
    | np.integer[Any]
    | list[int]
    | list[int | None]
    | tuple[int | None, ...]
    | NDArray[np.integer[Any]]
    | None
)
"""The type of the seeds that `reset` accepts."""


def draw_seed(num_envs: int, random_bytes: Callable[[int], bytes] = SYSTEM.random_bytes) -> int:
    """Draws a random seed such that seed + i is below 2^63 for every board i.

    Seeds of 2^63 and above are reserved for evaluation.
    """
    # With 128 bits, the probabilities of any two remainders differ by at most one part in 2^65.
    return int.from_bytes(random_bytes(16), "little") % (2**63 - num_envs)


def consecutive(seed: int, num_envs: int) -> NDArray[np.uint64]:
    """Returns uint64 (num_envs,): seed + i for board i, modulo 2^64."""
    boards = np.arange(num_envs, dtype=np.uint64)
    boards += np.uint64(seed % 2**64)
    return boards


def worker_seeds(
    seed: int, num_envs: int, rank: int = 0, *, evaluation: bool = False
) -> NDArray[np.uint64]:
    """Returns the seeds of one worker's boards; no two workers share a seed.

        envs.reset(seed=twofold.worker_seeds(seed, envs.num_envs, rank=worker))

    Board i of worker r gets seed + r * num_envs + i. Together, the workers therefore play the same
    games as one environment with all of their boards after `reset(seed=seed)`.

    Args:
        seed: The run's seed. Two runs share games if their seeds differ by less than the total
            number of boards.
        num_envs: The number of boards per worker.
        rank: The worker's number, from 0.
        evaluation: Whether to add 2^63, which separates these seeds from all training seeds.

    Returns:
        uint64 (num_envs,).

    Raises:
        InvalidArgument: An argument is invalid, or makes the seeds reach 2^63; `field` names it.
    """
    num_envs = _arguments.integer("num_envs", num_envs, 1, 2**40)
    rank = _arguments.integer("rank", rank, 0)
    highest = 2**63 - (rank + 1) * num_envs
    if highest < 0:
        raise InvalidArgument(
            f"rank is {rank}; with num_envs={num_envs} expected 0 ... {2**63 // num_envs - 1}",
            field="rank",
        )
    first = _arguments.integer("seed", seed, 0, highest) + rank * num_envs
    offset = 2**63 if _arguments.boolean("evaluation", evaluation) else 0
    return consecutive(first + offset, num_envs)


def seed_array(seeds: object) -> NDArray[np.uint64]:
    """Returns the argument `seeds`, an array or nested lists of any shape, as uint64."""
    if isinstance(seeds, (list, tuple)):
        # numpy would make floats of a list with numbers below and above 2^63.
        listed = _arguments.array("seeds", seeds, object)
        flat, _ = board_seeds(listed.reshape(-1).tolist(), listed.size, "seeds", may_omit=False)
        return flat.reshape(listed.shape)
    array = _arguments.array("seeds", seeds)
    given = _arguments.integers("seeds", array, array.shape)
    if given.dtype.kind == "i":
        lanes = given.reshape(-1)
        _arguments.refuse_lane("seeds", lanes, lanes < 0, "0 ... 2^64 - 1")
    return given.astype(np.uint64)


class BoardSeeds:
    """The seeds that executed resets and restores gave to the boards.

    A reset may stay pending, or may never be sent, so only executed requests count.

    Args:
        num_envs: The number of boards N.
        random_bytes: The source of the first seeds if the caller gives none.
        was_reset: Whether another process has reset the boards, so that their seeds are unknown.

    Attributes:
        drawn: A random seed for a first reset without a seed.
        common: The seed s if all boards were last given the seeds s + i in one call, else -1. None
            before the first reset.
        first: The operation that set the first seeds.
    """

    def __init__(
        self, num_envs: int, random_bytes: Callable[[int], bytes], was_reset: bool
    ) -> None:
        # Drawn now: drawing it later would need a lock, which a fork could leave locked.
        self.drawn = draw_seed(num_envs, random_bytes)
        self.common = -1 if was_reset else None
        self.first: Operation | None = None
        self._num_envs = num_envs

    def executed(self, operation: Operation) -> None:
        """Records the seeds that an executed reset or restore gave. Safe to call twice."""
        request = envelope.Request.FromString(operation.request)
        reset, restore = request.reset, request.restore
        if request.HasField("reset") and not reset.seeds:
            return
        if self.common is None:
            self.first = operation
        common = -1
        if (reset.seeds and not reset.mask) or (restore.seeds and not restore.lanes):
            assert operation.payload is not None
            # A restore's rows precede its seeds.
            start = 8 * self._num_envs * restore.rows
            seeds = np.frombuffer(operation.payload, "<u8", self._num_envs, start)
            if np.array_equal(seeds, consecutive(int(seeds[0]), seeds.size)):
                common = int(seeds[0])
        self.common = common


# "TWOFOLDF" in ASCII.
_FORK_SALT = np.uint64(0x54574F464F4C4446)


def fork_seeds(seeds: NDArray[np.uint64], generators: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Returns the seeds of a fork's boards, uint64 (k,), which differ from their parents' seeds.

        mix(mix(mix(salt ^ seed) ^ first) ^ second)

    Here mix is the output function of SplitMix64. `seeds`, uint64 (k,), are the caller's seeds.
    `generators`, uint64 (k, 2), are the states of the parents' generators.
    """
    mixed = _mix(_FORK_SALT ^ seeds)
    for half in generators.T:
        mixed = _mix(mixed ^ half)
    return mixed


def _mix(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = words ^ (words >> np.uint64(31))
    return mixed


def board_seeds(
    seed: Seed, num_envs: int, name: str = "seed", *, may_omit: bool = True
) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Returns the seed of each board, and a mask of the boards that have one.

    Args:
        seed: An int for seed + i, a sequence with one int (or None) for each board, or None.
        num_envs: The number of boards N.
        name: The argument's name.
        may_omit: Whether a sequence may contain None.

    Returns:
        uint64 (N,), 0 for boards without a seed, and bool (N,).
    """
    if seed is None:
        return np.zeros(num_envs, np.uint64), np.zeros(num_envs, np.bool_)
    is_sequence = isinstance(seed, (list, tuple)) or (isinstance(seed, np.ndarray) and seed.ndim)
    if not is_sequence:
        number = _arguments.integer(name, seed, 0)
        return consecutive(number, num_envs), np.ones(num_envs, np.bool_)
    if isinstance(seed, np.ndarray) and seed.dtype == np.uint64 and seed.shape == (num_envs,):
        return seed.copy(), np.ones(num_envs, np.bool_)  # fast: thousands of seeds every few steps
    entries = list(seed)  # type: ignore[arg-type]
    if len(entries) != num_envs:
        raise InvalidArgument(
            f"{name} has {len(entries)} entries; expected one for each of the {num_envs} boards",
            field=name,
        )
    seeds = np.zeros(num_envs, np.uint64)
    has_seed = np.ones(num_envs, np.bool_)
    for lane, entry in enumerate(entries):
        if entry is None and may_omit:
            has_seed[lane] = False
            continue
        try:
            seeds[lane] = _arguments.integer(name, entry, 0) % 2**64
        except InvalidArgument as error:
            raise InvalidArgument(f"board {lane}: {error}", field=name, lane=lane) from None
    return seeds, has_seed
