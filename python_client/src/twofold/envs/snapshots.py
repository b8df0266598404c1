"""Snapshots of boards as bytes, and requests that restore boards from them."""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twofold import _arguments
from twofold.client.session import Session
from twofold.envs.seeding import Seed, board_seeds
from twofold.errors import InvalidArgument
from twofold.games.spec import GameSpec
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment

# The head of a snapshot: magic, version, size of the rules, number of boards, size of a board.
_HEAD = struct.Struct("<8sIIQI")


def snapshot(session: Session, lanes: ArrayLike | None) -> bytes:
    """Returns the states of boards as bytes, for `TwofoldVectorEnv.snapshot`."""
    payload = None
    if lanes is not None:
        payload = _arguments.lanes(lanes, session.create.num_envs).astype("<u8").tobytes()
    return session.call(envelope.Request(snapshot={}), payload)[1].tobytes()


def restore_request(
    num_envs: int, blob: bytes, lanes: ArrayLike | None, rows: ArrayLike | None, seed: Seed
) -> tuple[envelope.Request, bytes, NDArray[np.bool_]]:
    """Returns the request and payload for `TwofoldVectorEnv.restore` with these arguments.

    Also returns a mask of the replaced boards, bool (N,).
    """
    if not isinstance(blob, (bytes, bytearray, memoryview)):
        raise InvalidArgument(
            f"blob is {type(blob).__name__}; expected a snapshot as bytes", field="blob"
        )
    every = np.arange(num_envs, dtype=np.uint64)
    replaced = every if lanes is None else _arguments.lanes(lanes, num_envs)
    count = replaced.size
    request = environment.RestoreRequest(
        count=count, lanes=lanes is not None, rows=rows is not None, seeds=seed is not None
    )
    parts = [] if lanes is None else [replaced.astype("<u8").tobytes()]
    if rows is not None:
        numbers = _arguments.integers("rows", rows, (count,))
        _arguments.refuse_lane("rows", numbers, numbers < 0, "a non-negative number")
        parts.append(numbers.astype("<u8").tobytes())
    if seed is not None:
        seeds, _ = board_seeds(seed, count, may_omit=False)
        parts.append(seeds.astype("<u8").tobytes())
    payload = b"".join((*parts, bytes(blob)))
    return envelope.Request(restore=request), payload, np.isin(every, replaced)


def check_spawns(game: GameSpec, spawns: str, seed: Seed) -> None:
    """Refuses a value of `spawns` that the game does not support, and a seed with "same"."""
    _arguments.choice("spawns", spawns, ("fresh", "same"))
    if spawns == "fresh" and game.unseen is not None:
        raise InvalidArgument(
            f"copies of this game share the {game.unseen} that nobody has seen yet, so their "
            "futures are not random samples; pass spawns='same' to repeat a trajectory",
            field="spawns",
        )
    if spawns == "same" and seed is not None:
        raise InvalidArgument(
            "seed applies to spawns='fresh' only; omit it for spawns='same'", field="seed"
        )


def finished(blob: bytes) -> NDArray[np.bool_]:
    """Returns a mask of the snapshot's boards whose episodes have ended, bool (k,)."""
    return np.asarray(_boards(blob)[:, 16] != 0)


def generators(blob: bytes) -> NDArray[np.uint64]:
    """Returns the generator states of a snapshot's boards, uint64 (k, 2)."""
    states: NDArray[np.uint8] = _boards(blob)[:, :16].copy()
    return states.view("<u8").astype(np.uint64)


def _boards(blob: bytes) -> NDArray[np.uint8]:
    """Returns the bytes of a snapshot's boards, (k, B)."""
    _, _, rules, count, size = _HEAD.unpack_from(blob)
    return np.frombuffer(blob, np.uint8, count * size, _HEAD.size + rules).reshape(count, size)
