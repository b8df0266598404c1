"""Boards as bytes to keep, back on boards, and as copies in another environment."""

from __future__ import annotations

import struct
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import Self

from twofold import _arguments
from twofold.client.session import exactly_once
from twofold.envs.batch import Batch
from twofold.envs.results import InfosT, ObsT
from twofold.envs.seeding import Seed, board_seeds, consecutive, draw_seed, fork_seeds
from twofold.errors import InvalidArgument
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment

# What a snapshot begins with: magic, version, bytes of the rules, boards, bytes of a board.
_HEAD = struct.Struct("<8sIIQI")


class Snapshots(Batch[ObsT, InfosT]):
    """The methods of a vector environment that copy boards."""

    @exactly_once
    def snapshot(self, lanes: ArrayLike | None = None) -> bytes:
        """Boards as bytes to keep: everything that their future depends on; changes nothing.

        Args:
            lanes: Which boards, numbers (k,), all different; None for all.

        Returns:
            The board, score, counts, stream of random numbers and phase of each, with the rules
            that they are played by. docs/guides/snapshots.md has the form.

        Raises:
            InvalidArgument: There are no such lanes.
            FailedPrecondition: The boards were never reset.
            TransportError: No answer.
        """
        payload = None
        if lanes is not None:
            payload = _arguments.lanes(lanes, self.num_envs).astype("<u8").tobytes()
        return self._session.call("snapshot", envelope.Request(snapshot={}), payload)[1].tobytes()

    @exactly_once
    def restore(
        self,
        blob: bytes,
        lanes: ArrayLike | None = None,
        *,
        rows: ArrayLike | None = None,
        seed: Seed = None,
    ) -> tuple[ObsT, InfosT]:
        """Replaces boards by those of a snapshot.

        The snapshot may be of another environment, process or server: its rules have to be the same
        (size, goal, spawns, start tiles, illegal actions), all else may differ. The boards go on
        with the streams of the snapshot: their trajectories are those that follow it.

        Args:
            blob: A snapshot.
            lanes: The boards to replace, numbers (k,), all different; None for all. Before the
                first reset they have to be all.
            rows: Which of the snapshot's boards each of them becomes, numbers (k,) from 0 on, any
                number several times; None for one after the other.
            seed: New streams: an int s seeds the i-th of the boards with s + i, a list gives each
                its own; None goes on with those of the snapshot.

        Returns:
            What `reset` returns: all observations and infos, as they stand.

        Raises:
            InvalidArgument: The snapshot is damaged or of another version (`field` is "blob"), or
                was taken under other rules (`field` names the first), or lacks the returns of
                episodes that this environment reports (`field` is "extra_infos"), or another
                argument is wrong. Nothing has changed.
            FailedPrecondition: Some boards were never reset, and are not among the lanes.
            TransportError: No answer.
        """
        if not isinstance(blob, (bytes, bytearray, memoryview)):
            raise InvalidArgument(
                f"blob is a {type(blob).__name__}; expected the bytes of a snapshot", field="blob"
            )
        every = np.arange(self.num_envs, dtype=np.uint64)
        replaced = every if lanes is None else _arguments.lanes(lanes, self.num_envs)
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
            new_seeds = np.zeros(self.num_envs, np.uint64)
            new_seeds[replaced.astype(np.intp)] = seeds
        payload = b"".join((*parts, blob))
        self._seeds.plan(payload, is_replaced, new_seeds)
        buffer = self._fresh.buffer()
        self._session.call("restore", envelope.Request(restore=request), payload, into=buffer)
        if self._episodes is not None:
            self._episodes.begin(is_replaced)
        return self._fresh.of_reset(buffer[0])

    def fork(
        self,
        lanes: ArrayLike,
        copies: int = 1,
        *,
        spawns: Literal["fresh", "same"] = "fresh",
        seed: Seed = None,
    ) -> Self:
        """Copies of boards as an environment of their own, at the same endpoint.

        Args:
            lanes: Which boards, numbers (k,), all different.
            copies: How many copies of each.
            spawns: "fresh": each copy has a stream of random numbers of its own, so that what
                happens to it is a sample of what can happen. "same": each goes on with the stream
                of the board that it is a copy of. A search over such copies sees the future of that
                very board: it is **clairvoyant**, scores more than any policy can, and no result
                may be published from it. Use it to repeat a trajectory. Concentration has only
                these: its copies share the cards that nobody has seen yet.
            seed: With fresh spawns, seeds as `reset` takes them, so that the same boards get the
                same copies again; None draws one from the system.

        Returns:
            An environment of k * copies boards with the same arguments. Its board i is a copy of
            the board lanes[i // copies]; `observe` returns them. Close it after use.

        Raises:
            InvalidArgument: An argument is wrong; `field` names it.
            FailedPrecondition: The boards were never reset.
            TransportError: No answer.
        """
        numbers = _arguments.lanes(lanes, self.num_envs)
        copies = _arguments.integer("copies", copies, 1)
        count = numbers.size * copies
        self._check_spawns(spawns, seed)
        create = environment.CreateRequest()
        create.CopyFrom(self._session.create)
        create.num_envs = count
        self._session.link.check_limits(create)
        seeds, is_seeded = board_seeds(seed, count)
        blob = self.snapshot(numbers)
        rows = np.arange(numbers.size).repeat(copies)
        new_seeds = None
        if spawns == "fresh":
            drawn = draw_seed(count, self._session.surroundings.random_bytes)
            seeds = np.where(is_seeded, seeds, consecutive(drawn, count))
            new_seeds = fork_seeds(seeds, _generators(blob)[rows])

        fork = self._around(self._session.again(create), self._settings, vars(self))
        try:
            fork.restore(blob, rows=rows, seed=new_seeds)
        except BaseException:
            fork.close()
            raise
        return fork

    def _check_spawns(self, spawns: str, seed: Seed) -> None:
        """Refuses spawns that this game does not have, and a seed for the same spawns."""
        _arguments.choice("spawns", spawns, ("fresh", "same"))
        if spawns == "fresh" and self.game.unseen is not None:
            raise InvalidArgument(
                f"copies of this game share the {self.game.unseen} that nobody has seen, so what "
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
