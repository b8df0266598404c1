"""Boards as bytes to keep, back on boards, and as copies in another environment."""

from __future__ import annotations

import struct
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twofold import _arguments
from twofold.client.session import exactly_once
from twofold.envs.batch import Batch
from twofold.envs.results import InfosT, ObsT
from twofold.envs.seeding import Seed, board_seeds, consecutive, draw_seed, fork_seeds
from twofold.errors import InvalidArgument
from twofold.games.spec import GameSpec
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment

BatchT = TypeVar("BatchT", bound=Batch[Any, Any])

# What a snapshot begins with: magic, version, bytes of the rules, boards, bytes of a board.
_HEAD = struct.Struct("<8sIIQI")


def snapshot(envs: Batch[Any, Any], lanes: ArrayLike | None) -> bytes:
    """`TwofoldVectorEnv.snapshot`."""
    payload = None
    if lanes is not None:
        payload = _arguments.lanes(lanes, envs.num_envs).astype("<u8").tobytes()
    return envs._session.call("snapshot", envelope.Request(snapshot={}), payload)[1].tobytes()


def restore(
    envs: Batch[ObsT, InfosT],
    blob: bytes,
    lanes: ArrayLike | None,
    *,
    rows: ArrayLike | None,
    seed: Seed,
) -> tuple[ObsT, InfosT]:
    """`TwofoldVectorEnv.restore`."""
    if not isinstance(blob, (bytes, bytearray, memoryview)):
        raise InvalidArgument(
            f"blob is a {type(blob).__name__}; expected the bytes of a snapshot", field="blob"
        )
    every = np.arange(envs.num_envs, dtype=np.uint64)
    replaced = every if lanes is None else _arguments.lanes(lanes, envs.num_envs)
    count = replaced.size
    request = environment.RestoreRequest(
        count=count, lanes=lanes is not None, rows=rows is not None, seeds=seed is not None
    )
    parts = [] if lanes is None else [replaced.astype("<u8").tobytes()]
    if rows is not None:
        numbers = _arguments.integers("rows", rows, (count,))
        _arguments.refuse_lane("rows", numbers, numbers < 0, "a number from 0 on")
        parts.append(numbers.astype("<u8").tobytes())
    is_replaced = np.isin(every, replaced)
    new_seeds = None
    if seed is not None:
        seeds, is_seeded = board_seeds(seed, count)
        if not is_seeded.all():
            raise InvalidArgument("seed has a None in it", field="seed")
        parts.append(seeds.astype("<u8").tobytes())
        new_seeds = np.zeros(envs.num_envs, np.uint64)
        new_seeds[replaced.astype(np.intp)] = seeds
    payload = b"".join((*parts, blob))
    envs._seeds.plan(payload, is_replaced, new_seeds)
    buffer = envs._results.buffer()
    envs._session.call("restore", envelope.Request(restore=request), payload, into=buffer)
    if envs._episodes is not None:
        envs._episodes.begin(is_replaced)
    return envs._results.of_reset(buffer[0])


snapshot_call = exactly_once(snapshot)
"""`snapshot` as a separate call."""


def fork(
    envs: BatchT, lanes: ArrayLike, copies: int, *, spawns: Literal["fresh", "same"], seed: Seed
) -> BatchT:
    """`TwofoldVectorEnv.fork`."""
    numbers = _arguments.lanes(lanes, envs.num_envs)
    copies = _arguments.integer("copies", copies, 1)
    count = numbers.size * copies
    _check_spawns(envs.game, spawns, seed)
    create = environment.CreateRequest()
    create.CopyFrom(envs._session.create)
    create.num_envs = count
    envs._session.link.check_limits(create)
    seeds, is_seeded = board_seeds(seed, count)
    blob = snapshot_call(envs, numbers)
    rows = np.arange(numbers.size).repeat(copies)
    new_seeds = None
    if spawns == "fresh":
        drawn = draw_seed(count, envs._session.surroundings.random_bytes)
        seeds = np.where(is_seeded, seeds, consecutive(drawn, count))
        new_seeds = fork_seeds(seeds, _generators(blob)[rows])

    copied = envs._around(envs._session.again(create), envs._settings, vars(envs))
    try:
        exactly_once(restore)(copied, blob, None, rows=rows, seed=new_seeds)
    except BaseException:
        copied.close()
        raise
    return copied


def _check_spawns(game: GameSpec, spawns: str, seed: Seed) -> None:
    """Refuses spawns that this game does not have, and a seed for the same spawns."""
    _arguments.choice("spawns", spawns, ("fresh", "same"))
    if spawns == "fresh" and game.unseen is not None:
        raise InvalidArgument(
            f"copies of this game share the {game.unseen} that nobody has seen, so what "
            "happens to them is not a sample of what can happen; spawns='same' makes them, to "
            "repeat a trajectory",
            field="spawns",
        )
    if spawns == "same" and seed is not None:
        raise InvalidArgument("seed is for fresh spawns; leave it out", field="seed")


def finished(blob: bytes) -> NDArray[np.bool_]:
    """Whether the episode of each of a snapshot's boards has ended, bool (k,)."""
    return np.asarray(_boards(blob)[:, 16] != 0)


def _generators(blob: bytes) -> NDArray[np.uint64]:
    """The states of the generators of a snapshot's boards, uint64 (k, 2)."""
    states: NDArray[np.uint8] = _boards(blob)[:, :16].copy()
    return states.view("<u8").astype(np.uint64)


def _boards(blob: bytes) -> NDArray[np.uint8]:
    """The bytes of a snapshot's boards, (k, B)."""
    _, _, rules, count, size = _HEAD.unpack_from(blob)
    return np.frombuffer(blob, np.uint8, count * size, _HEAD.size + rules).reshape(count, size)
