"""The arrays of a rollout, collected from replies into new memory or the caller's arrays."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twofold import _arguments
from twofold.client.payloads import DTYPES, BufferPool, Layout, layout_of
from twofold.envs.results import Array
from twofold.errors import InvalidArgument
from twofold.games.spec import GameSpec
from twofold.v1 import environment_pb2 as environment
from twofold.v1 import rollout_pb2 as wire

# The names of arrays in replies, and the names of a Rollout's attributes for them.
_FRAMES = {"observation": "observations", "action_mask": "action_masks"}
_STEPS = {
    "action": "actions",
    "reward": "rewards",
    "terminated": "terminations",
    "truncated": "truncations",
    "valid": "valid",
}


@dataclass(frozen=True, eq=False)
class Finals:
    """The last observations and infos of episodes that ended in a SAME_STEP rollout.

    Attributes:
        steps: int64 (F,), ascending: the rollout's step that ended the episode.
        lanes: int64 (F,): the episode's lane.
        observations: (F, …): the last boards, in the form of a rollout's observations.
        infos: The infos of the last boards, (F, …) each; infos of the last step are not included.
    """

    steps: NDArray[np.int64]
    lanes: NDArray[np.int64]
    observations: Array
    infos: dict[str, Array]


@dataclass(frozen=True, eq=False)
class Rollout:
    """The results of T steps of N lanes, with time as the first axis.

    Attributes:
        observations: (T + 1, N, …): row t contains the boards before step t. They are plain boards,
            whichever form the environment's own observations have.
        action_masks: int8 (T + 1, N, actions).
        actions: uint8 (T, N): the chosen actions, without effect where `valid` is false.
        rewards: float32 (T, N).
        terminations: bool (T, N).
        truncations: bool (T, N).
        valid: bool (T, N): false if the lane only began its next episode in this step (NEXT_STEP)
            or waited for a reset (DISABLED).
        infos: The requested infos after each step, (T, N, …) each.
        finals: With SAME_STEP autoreset, the episodes that ended; else None.
    """

    observations: Array
    action_masks: NDArray[np.int8]
    actions: NDArray[np.uint8]
    rewards: NDArray[np.float32]
    terminations: NDArray[np.bool_]
    truncations: NDArray[np.bool_]
    valid: NDArray[np.bool_]
    infos: dict[str, Array]
    finals: Finals | None


def storage(
    out: object,
    steps: int,
    infos: Sequence[str],
    spec: environment.PayloadLayout,
    buffers: BufferPool,
    reply_bytes: int,
) -> tuple[dict[str, Array], Callable[[], dict[str, Array]]]:
    """Checks the caller's arrays and infos, and reserves memory for the other arrays.

    Args:
        out: A `Rollout`, a mapping from names to some of its arrays, or None.
        steps: The number of steps T.
        infos: The requested infos.
        spec: The layout of a step's payload.
        buffers: The memory for the other arrays, which are in one block.
        reply_bytes: The size limit of a reply. A rollout up to this size may need no other memory,
            so its memory is reserved only for a second reply.

    Returns:
        The caller's arrays, and a function that returns all arrays, keyed by their names in
        replies.

    Raises:
        InvalidArgument: An info is unknown, an array can't be used, or the others do not fit into
            memory; `field` names it, such as "out.rewards".
    """
    known = {array.name for array in spec.arrays} - {*_FRAMES, *_STEPS}
    for index, name in enumerate(infos):
        if name not in known or name in infos[:index]:
            problem = "is requested twice" if name in known else f"is not one of {sorted(known)}"
            raise InvalidArgument(f"infos: {name!r} {problem}", field="infos")
    if out is None:
        out = {}
    elif isinstance(out, Rollout):
        out = dict(vars(out))
        del out["finals"]
    of_infos = out.get("infos", {}) if isinstance(out, Mapping) else None
    if not isinstance(out, Mapping) or not isinstance(of_infos, Mapping):
        raise InvalidArgument(
            f"out is {type(out).__name__}; expected a Rollout, or a mapping from names to its "
            "arrays, with infos in a nested mapping",
            field="out",
        )
    given = {name: array for name, array in out.items() if name != "infos"}
    given |= {f"infos.{name}": array for name, array in of_infos.items()}
    names = {name: wire_name for wire_name, name in (_FRAMES | _STEPS).items()}
    names |= {f"infos.{name}": name for name in infos}
    rows = _rows(spec)
    shapes = {name: (steps + (name in _FRAMES), *rows[name].shape) for name in names.values()}
    checked = {}
    for name, array in given.items():
        wire_name = names.get(name)
        if wire_name is None:
            raise InvalidArgument(
                f"out contains {name!r}; the arrays of this rollout are {', '.join(names)}",
                field=f"out.{name}",
            )
        shape, dtype = shapes[wire_name], rows[wire_name].dtype
        checked[wire_name] = _writable(f"out.{name}", array, shape, dtype)
    offsets, end = {}, 0
    for name, shape in shapes.items():
        if name not in checked:
            offsets[name] = end
            end += -(-math.prod(shape) * rows[name].itemsize // 64) * 64

    @functools.cache
    def arrays() -> dict[str, Array]:
        try:
            memory, _ = buffers.take(end)
        except (MemoryError, ValueError):
            raise InvalidArgument(
                f"steps is {steps:,}: its arrays need {end / 2**30:,.2f} GiB, which this process "
                "can't allocate; play fewer steps at a time",
                field="steps",
            ) from None
        made = {
            name: np.ndarray(shapes[name], rows[name].dtype, memory.data, offset)
            for name, offset in offsets.items()
        }
        return {name: (checked | made)[name] for name in shapes}

    if end > reply_bytes:
        arrays()
    return checked, arrays


def _rows(spec: environment.PayloadLayout) -> dict[str, Array]:
    """Returns one step's row of each array, keyed by the array's name in replies."""
    rows = Layout(spec, ()).split(np.empty(spec.size, np.uint8))
    rows["action"], rows["valid"] = (np.empty_like(rows["reward"], t) for t in (np.uint8, np.bool_))
    return rows


def _writable(name: str, given: object, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Checks that an array or a tensor is writable and has this shape and dtype.

    Returns it as an array that shares its memory.
    """
    try:
        # A list becomes a new array each time; an array's or a tensor's memory is shared.
        array, again = np.asanyarray(given), np.asanyarray(given)
    except _arguments.UNREADABLE as error:
        raise InvalidArgument(f"{name} can't be read as an array: {error}", field=name) from error
    if array.dtype != dtype or array.shape != shape:
        raise InvalidArgument(
            f"{name} is {array.dtype} {array.shape}; expected {dtype} {shape}", field=name
        )
    if not array.flags.writeable or not np.may_share_memory(array, again):
        raise InvalidArgument(
            f"{name} is a {type(given).__name__} that can't be written to; expected a writable "
            "array or a CPU tensor",
            field=name,
        )
    return array


class Collected:
    """The arrays of a rollout, collected reply by reply.

    Args:
        steps: The number of steps T.
        given: The caller's arrays, keyed by their names in replies.
        storage: A function that returns the arrays for all steps, which include the caller's.

    Attributes:
        steps: The number of steps T.
        done: The number of collected steps.
    """

    def __init__(
        self,
        steps: int,
        given: dict[str, Array],
        storage: Callable[[], dict[str, Array]],
        game: GameSpec,
    ) -> None:
        self.steps, self.done = steps, 0
        self._given, self._storage, self._game = given, storage, game
        self._finals: list[dict[str, Array]] = []

    def add(
        self,
        reply: wire.RolloutReply,
        payload: NDArray[np.uint8],
        played: NDArray[np.uint8] | None = None,
    ) -> dict[str, Array]:
        """Adds the steps of one reply; returns its arrays, keyed by their names in the reply.

        `played` contains the actions (steps, N) in the user's order; None if a policy in the
        service chose them.
        """
        if reply.HasField("finals"):
            finals = Layout(reply.finals, ("steps", "lanes", "observation")).split(payload)
            if "action_mask" in finals:
                finals["action_mask"] = self._game.in_user_order(finals["action_mask"], -1)
            # Copies, so that keeping the finals does not keep the whole payload in memory.
            self._finals.append({name: array.copy() for name, array in finals.items()})
            self._finals[-1]["steps"] += np.uint64(self.done)
        wire_arrays = reply.arrays.SerializeToString()
        arrays = layout_of(wire_arrays, (*_FRAMES, *_STEPS)).split(payload)
        if self._game.server_order is not None:
            arrays |= self._in_user_order(arrays, played)
        # The arrays of the only reply need no copy.
        is_only = reply.steps == self.steps
        self._arrays = arrays | self._given if is_only else self._storage()
        for name, array in arrays.items():
            whole = self._arrays[name]
            if whole is not array:
                # The first frame repeats the last one of the previous reply.
                skip = int(name in _FRAMES and self.done > 0)
                whole[self.done + skip : self.done + len(array)] = array[skip:]
        self.done += reply.steps
        return arrays

    def _in_user_order(
        self, arrays: dict[str, Array], played: NDArray[np.uint8] | None
    ) -> dict[str, Array]:
        """Converts masks and actions from the server's action order to the user's."""
        masks = arrays["action_mask"]
        if played is None:
            # If no action is legal, a policy's action is 0 in either order.
            is_chosen = masks[:-1].any(axis=2)
            played = np.where(is_chosen, self._game.from_server(arrays["action"]), np.uint8(0))
        return {"action_mask": self._game.in_user_order(masks, -1), "action": played}

    def whole(self, spec: environment.CreateReply) -> Rollout:
        """Returns the whole rollout; `spec` is the reply to the create request."""
        arrays = dict(self._arrays)
        named = {name: arrays.pop(wire_name) for wire_name, name in (_FRAMES | _STEPS).items()}
        finals = self._all_finals(spec.finals) if spec.HasField("finals") else None
        return Rollout(**named, infos=arrays, finals=finals)

    def _all_finals(self, spec: environment.PayloadLayout) -> Finals:
        empty = {
            array.name: np.empty((0, *array.shape[1:]), DTYPES[array.dtype])
            for array in spec.arrays
        }
        parts = self._finals or [{"steps": np.empty(0, np.int64), **empty}]
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        return Finals(
            steps=joined.pop("steps").astype(np.int64),
            lanes=joined.pop("lanes").astype(np.int64),
            observations=joined.pop("observation"),
            infos=joined,
        )
