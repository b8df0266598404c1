"""The results of resets and steps: views of a reply's payload, in new or in reused memory."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from typing_extensions import NotRequired, TypedDict, TypeVar, override

from twofold.client.carrier import DONE
from twofold.client.payloads import Buffer, BufferPool, Layout, layout_of
from twofold.client.session import Session
from twofold.envs.observations import ObservationForm
from twofold.errors import ProtocolError
from twofold.games.spec import GameSpec
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment

Array = NDArray[Any]
ObsT = TypeVar("ObsT", default=Any)
"""The type of observations: an array, or a dict of observations and masks."""
InfosT = TypeVar("InfosT", default=Any)
"""The type of infos: a dict, which each game types."""
Stepped: TypeAlias = tuple[ObsT, NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_], InfosT]
"""The results of a step: observations, rewards, terminations, truncations and infos."""
Infos = dict[str, Any]


class EpisodeInfo(TypedDict):
    """Statistics of the episodes that ended in a step: arrays (N,), with 0 for other boards."""

    r: NDArray[np.float64]
    """The sum of the episode's rewards."""
    l: NDArray[np.int_]  # noqa: E741 - as gymnasium has it
    """The number of steps in the episode."""
    t: NDArray[np.float64]
    """The time since this client saw the episode begin, in seconds."""


class AllInfos(TypedDict):
    """The infos of every game: arrays (N, …). A mask `_name` marks the boards that have `name`."""

    action_mask: NDArray[np.int8]
    """(N, actions): 1 for a legal action; all 0 once the game has ended."""
    episode_length: NDArray[np.int32]
    """The number of steps in the episode, including illegal actions."""
    reward_terms: NotRequired[NDArray[np.float32]]
    """(N, terms): each term's weighted part of the reward, before scale and clip. An extra info."""
    episode_return: NotRequired[NDArray[np.float64]]
    """The sum of the episode's rewards so far. An extra info."""
    episode: NotRequired[EpisodeInfo]
    """The episodes that ended in the step. An extra info."""
    final_obs: NotRequired[NDArray[np.object_]]
    """With SAME_STEP: an ended episode's last observation; None for the other boards."""
    _action_mask: NDArray[np.bool_]
    _episode_length: NDArray[np.bool_]
    _reward_terms: NotRequired[NDArray[np.bool_]]
    _episode_return: NotRequired[NDArray[np.bool_]]
    _episode: NotRequired[NDArray[np.bool_]]
    _final_obs: NotRequired[NDArray[np.bool_]]
    _final_info: NotRequired[NDArray[np.bool_]]


_OBSERVE = envelope.Request(observe={})
_NO_INFOS = ("observation", "reward", "terminated", "truncated")


def infos_of(infos: Infos, lane: int) -> Infos:
    """Returns one board's infos without masks.

    Numbers are numpy scalars, because TorchRL reads their dtypes. They are int64 and float64, so
    that `2 ** infos["max_exponent"]` does not overflow. Flags are arrays of shape (), because
    Gymnasium's SyncVectorEnv turns numpy's bool scalars into an array of objects. `episode` has
    Python numbers, as in Gymnasium's wrapper.
    """
    return {name: _part(value, lane) for name, value in infos.items() if not name.startswith("_")}


def _part(value: Any, lane: int) -> Any:
    if isinstance(value, dict):
        return plain(infos_of(value, lane))
    part = value[lane, ...]
    if value.ndim > 1 or value.dtype == np.bool_:
        return part
    return np.float64(part) if value.dtype.kind == "f" else np.int64(part)


def plain(infos: Infos) -> Infos:
    """Returns one board's infos with Python numbers, for JSON."""
    numbers = (name for name, one in infos.items() if np.ndim(one) == 0)
    return infos | {name: np.asarray(infos[name]).item() for name in numbers}


class Results:
    """The results of resets and steps: a payload's arrays, followed by the masks of the infos.

    Each call returns new arrays and dicts.

    Args:
        spec: The reply to the create request, with the layouts of replies.
        num_envs: The number of boards N.
        game: The game.
        form: The form of the observations.

    Raises:
        ProtocolError: An array is missing from a layout, or the layout is invalid.

    Attributes:
        size: The size of a payload and the masks in bytes.
    """

    def __init__(
        self, spec: environment.CreateReply, num_envs: int, game: GameSpec, form: ObservationForm
    ) -> None:
        self.num_envs, self.game, self.form = num_envs, game, form
        self._order = game.server_order
        self._end_of_payload = max(spec.reset.size, spec.step.size, spec.finals.size)
        layouts = [self._with_masks(layout) for layout in (spec.reset, spec.step)]
        self.size = max(layout.size for layout in layouts)
        self._reset_layout = Layout(layouts[0], ("observation", "action_mask"))
        self._step_layout = Layout(layouts[1], (*_NO_INFOS, "action_mask"))
        self._buffers = BufferPool()
        of_reset = {array.name for array in spec.reset.arrays}
        self._only_of_steps = [
            array.name for array in spec.step.arrays if array.name not in (*_NO_INFOS, *of_reset)
        ]
        of_finals = {array.name for array in spec.finals.arrays}
        self._of_last_steps = [name for name in self._only_of_steps if name not in of_finals]

    def buffer(self) -> Buffer:
        """Returns memory for a reply's payload; the results are views of this memory."""
        return self._buffers.take(self.size)

    def observed(self, session: Session) -> NDArray[np.uint8]:
        """Requests the current observations and infos; returns their payload in new memory."""
        buffer = self.buffer()
        session.call(_OBSERVE, into=buffer)
        return buffer[0]

    def boards(self, memory: NDArray[np.uint8]) -> Array:
        """Returns the server's observations in a reset's payload, (N, …)."""
        return self._reset_layout.split(memory)["observation"]

    def of_reset(self, memory: NDArray[np.uint8]) -> tuple[Any, Any]:
        """Returns the results of a reset, restore or observe, whose payload is in `memory`."""
        memory[self._end_of_payload :].fill(True)
        infos = self._reset_layout.split(memory)
        boards = infos.pop("observation")
        return self._observations(boards, infos), infos

    def of_step(self, reply: envelope.Reply, memory: NDArray[np.uint8]) -> Stepped[Any, Any]:
        """Returns the results of a step, whose payload is in `memory`."""
        stepped = self._without_finals(memory)
        if reply is not DONE and reply.step.HasField("finals"):
            infos = stepped[4]
            infos.update(self._finals(reply, memory, infos))
        return stepped

    def _without_finals(self, memory: NDArray[np.uint8]) -> Stepped[Any, Any]:
        boards, rewards, terminations, truncations, infos = self._views(memory)
        return self._observations(boards, infos), rewards, terminations, truncations, infos

    def _with_masks(self, wire: environment.PayloadLayout) -> environment.PayloadLayout:
        """Returns the layout, extended with Gymnasium's mask for each info, bool (N,)."""
        extended = environment.PayloadLayout(size=self._end_of_payload)
        for array in wire.arrays:
            extended.arrays.append(array)
            if array.name not in _NO_INFOS:
                extended.arrays.add(
                    name="_" + array.name,
                    dtype=environment.DATA_TYPE_BOOL,
                    shape=[self.num_envs],
                    offset=extended.size,
                )
                extended.size += self.num_envs
        return extended

    def _views(self, memory: NDArray[np.uint8]) -> Stepped[Any, Any]:
        """Returns views of a step's results, in the server's action order and without finals."""
        memory[self._end_of_payload :].fill(True)
        infos: Infos = self._step_layout.split(memory)
        boards, rewards = infos.pop("observation"), infos.pop("reward")
        return boards, rewards, infos.pop("terminated"), infos.pop("truncated"), infos

    def _observations(self, boards: Array, infos: Infos) -> Any:
        """Returns the observations in the user's form, from the server's boards.

        Also converts the action mask in the infos to the user's action order.
        """
        if self._order is not None:
            infos["action_mask"] = infos["action_mask"].take(self._order, 1)
        return self.form.observations(boards, infos["action_mask"])

    def _finals(self, reply: envelope.Reply, memory: NDArray[np.uint8], infos: Infos) -> Infos:
        """Returns the infos that SAME_STEP adds to a step that ends episodes.

        Args:
            reply: The reply, with the layout of the finals: the lanes of the k episodes that ended,
                and (k, …) rows of a reset's arrays and of the infos about optimal play.
            memory: The payload.
            infos: The step's infos. The infos that a reset does not return belong to the old
                episodes. For the ended lanes, this method copies these infos to the final infos,
                and clears their masks.
        """
        wire = reply.step.finals.SerializeToString()
        finals = layout_of(wire, ("lanes", "observation")).split(memory)
        lanes = finals.pop("lanes").astype(np.intp)
        # A copy, so that keeping one observation does not keep the whole reply in memory.
        observations = self._observations(finals.pop("observation").copy(), finals)
        final_obs = np.empty(self.num_envs, object)
        if self.form.keys is None:
            final_obs[lanes] = np.fromiter(observations, object, lanes.size)
        else:
            pairs = zip(*observations.values(), strict=True)
            dicts = (dict(zip(observations, pair, strict=True)) for pair in pairs)
            final_obs[lanes] = np.fromiter(dicts, object, lanes.size)
        for name in self._of_last_steps:
            finals[name] = infos[name][lanes]
            infos["_" + name][lanes] = False
        mask = np.zeros(self.num_envs, np.bool_)
        mask[lanes] = True
        final_info: Infos = {}
        for name, last in finals.items():
            final_info[name] = np.zeros((self.num_envs, *last.shape[1:]), last.dtype)
            final_info[name][lanes] = last
            final_info["_" + name] = mask.copy()
        return {
            "final_obs": final_obs,
            "_final_obs": mask,
            "final_info": final_info,
            "_final_info": mask.copy(),
        }


class ReusedResults(Results):
    """The results of resets and steps with copy=False: all calls return the same arrays and dicts.

    Takes the arguments of `Results`.
    """

    def __init__(
        self, spec: environment.CreateReply, num_envs: int, game: GameSpec, form: ObservationForm
    ) -> None:
        super().__init__(spec, num_envs, game, form)
        if spec.step.arrays[: len(spec.reset.arrays)] != list(spec.reset.arrays):
            raise ProtocolError(
                "the server's replies to steps do not begin with a reset's arrays; pass copy=True"
            )
        self._buffer = super().buffer()
        self._boards, *others, infos = self._views(self._buffer[0])
        self._server_mask = infos["action_mask"]
        observations = self._observations(self._boards, infos)
        self._mask = infos["action_mask"]
        of_steps = {prefix + name for name in self._only_of_steps for prefix in ("", "_")}
        of_reset = {name: infos[name] for name in infos if name not in of_steps}
        self._stepped = (observations, *others, infos)
        self._observed = observations, of_reset
        # The dicts in the results, each with a copy from which to restore it.
        dicts = [(observations, dict(observations))] if isinstance(observations, dict) else []
        self._stepped_dicts = [(infos, dict(infos)), *dicts]
        self._observed_dicts = [(of_reset, dict(of_reset)), *dicts]
        # The masks of which `_finals` clears a part.
        names = self._of_last_steps if spec.HasField("finals") else []
        self._last_masks = [infos["_" + name] for name in names]

    @override
    def buffer(self) -> Buffer:
        return self._buffer

    @override
    def of_reset(self, memory: NDArray[np.uint8]) -> tuple[Any, Any]:
        self._write(self._observed_dicts)
        return self._observed

    @override
    def _without_finals(self, memory: NDArray[np.uint8]) -> Stepped[Any, Any]:
        self._write(self._stepped_dicts)
        return self._stepped

    def _write(self, dicts: list[tuple[Infos, Infos]]) -> None:
        """Fills those arrays that are not views of the payload.

        Removes final infos, and everything that others have changed in these dicts.
        """
        for results, own in dicts:
            results.clear()
            results.update(own)
        for mask in self._last_masks:
            mask.fill(True)
        if self._order is not None:
            self._server_mask.take(self._order, 1, self._mask)
        self.form.observations(self._boards, self._mask, self._stepped[0])
