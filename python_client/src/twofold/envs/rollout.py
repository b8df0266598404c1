"""Many steps in one call: requests, each bounded in bytes and in time; their arrays together."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twofold import _arguments
from twofold.client.buffers import BufferPool
from twofold.client.layout import Layout
from twofold.client.session import Session
from twofold.envs import served_policies
from twofold.envs.served_policies import NAMES
from twofold.errors import InvalidArgument
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import rollout_pb2 as wire

Array = NDArray[Any]
Progress = Callable[[int], object]

# Bytes of one reply: enough steps that the round trip does not count, few enough for the caches;
# more where a step is large, since each reply begins with the boards that the last one ended with.
_REPLY_BYTES = 2 << 20
_STEPS_OF_A_REPLY = 8
_MOST_REPLY_BYTES = 16 << 20
# Bytes of weights in one request.
_PIECE_BYTES = 16 << 20

_STEP_ARRAYS = {
    "action": "actions",
    "reward": "rewards",
    "terminated": "terminations",
    "truncated": "truncations",
    "valid": "valid",
}


@dataclass(frozen=True)
class Finals:
    """What the episodes ended with that ended inside a rollout under SAME_STEP autoreset.

    Attributes:
        steps: int64 (F,): the step of the rollout that ended the episode, ascending.
        lanes: int64 (F,): the lane that it was in.
        observations: (F, …): the last observation.
        infos: The last infos, (F, …) each.
    """

    steps: NDArray[np.int64]
    lanes: NDArray[np.int64]
    observations: Array
    infos: dict[str, Array]


@dataclass(frozen=True)
class Rollout:
    """T steps of N lanes, time first.

    Attributes:
        observations: (T + 1, N, …): row t is what step t's actions were chosen on.
        action_masks: int8 (T + 1, N, actions).
        actions: uint8 (T, N).
        rewards: float32 (T, N).
        terminations: bool (T, N).
        truncations: bool (T, N).
        valid: bool (T, N): false where the lane only began its next episode (NEXT_STEP), or waited
            to be reset (DISABLED).
        infos: Those that were asked for, (T, N, …) each, after each step.
        finals: The episodes that ended, with SAME_STEP autoreset; else None.
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


def source(
    policy: object, actions: object, *, steps: int, num_envs: int, num_actions: int
) -> tuple[served_policies.Policy | None, NDArray[np.uint8] | None]:
    """The policy or the actions (steps, N) that a rollout goes by, checked."""
    if (policy is None) == (actions is None):
        raise InvalidArgument("give either a policy or actions", field="policy")
    if actions is not None:
        array = _arguments.integers("actions", actions, (steps, num_envs))
        is_bad = (array < 0) | (array >= num_actions)
        if is_bad.any():
            step, lane = (int(index) for index in np.argwhere(is_bad)[0])
            raise InvalidArgument(
                f"actions[{step}, {lane}] is {array[step, lane]}; expected 0 ... {num_actions - 1}",
                field="actions",
                lane=lane,
            )
        return None, array.astype(np.uint8)
    if isinstance(policy, str):
        if policy not in NAMES:
            known = ", ".join(map(repr, NAMES))
            raise InvalidArgument(
                f"policy is {policy!r}; expected {known} or one of twofold.policies", field="policy"
            )
        return NAMES[policy], None
    if not isinstance(
        policy,
        (
            served_policies.Random,
            served_policies.Greedy,
            served_policies.Expectimax,
            served_policies.NTuple,
        ),
    ):
        raise InvalidArgument(
            f"policy is {policy!r}; expected a name or one of twofold.policies", field="policy"
        )
    return policy, None


def run(
    session: Session,
    policy: served_policies.Policy | None,
    actions: NDArray[np.uint8] | None,
    *,
    steps: int,
    num_envs: int,
    policy_seeds: NDArray[np.uint64] | None,
    infos: Iterable[str],
    progress: Progress | None,
    has_finals: bool,
) -> Rollout:
    """Asks for as many requests as it takes."""
    names = [_arguments.text("infos", name) for name in infos]
    if isinstance(policy, served_policies.NTuple):
        upload(session, policy)
    wanted = reply_bytes(session)
    most = largest_reply(session, num_envs)

    def request(done: int) -> tuple[envelope.Request, bytes | None]:
        """The request for the steps behind those that are done."""
        request = wire.RolloutRequest(infos=names, max_payload_bytes=wanted)
        payload = None
        left = steps - done
        if actions is not None:
            # A request has to fit too.
            left = min(left, max(1, session.largest_payload(wanted) // num_envs))
            request.actions.SetInParent()
            payload = actions[done : done + left].tobytes()
        else:
            _tell(policy, request)
            if policy_seeds is not None and done == 0:
                request.policy_seeds = True
                payload = policy_seeds.astype("<u8").tobytes()
        request.steps = min(left, 2**32 - 1)
        return envelope.Request(rollout=request), payload

    parts = _Parts(steps, session.rollouts)
    following = request(0)
    while True:
        reply, answer = session.call("rollout", *following, most)
        done = parts.done + reply.rollout.steps
        if progress is not None:
            progress(done)
        if done < steps:
            # The server goes on while this process puts away what it has.
            following = request(done)
            session.begin("rollout", *following, most)
        parts.add(reply.rollout, answer)
        if done == steps:
            return parts.whole(has_finals)


def in_order(
    rollout: Rollout, order: NDArray[np.uint8], given: NDArray[np.uint8] | None
) -> Rollout:
    """The same with the actions in another order.

    Args:
        rollout: With the server's numbers of the actions.
        order: The server's number of each action.
        given: The actions that were given, if they were.
    """
    if given is None:
        numbers = np.argsort(order).astype(np.uint8)
        # A policy's action where none is legal is 0, whatever that means.
        is_chosen = rollout.action_masks[:-1].any(axis=2)
        given = np.where(is_chosen, numbers[rollout.actions], np.uint8(0))
    finals = rollout.finals
    if finals is not None and finals.infos:
        masks = finals.infos["action_mask"][:, order]
        finals = replace(finals, infos={**finals.infos, "action_mask": masks})
    masks = rollout.action_masks[..., order]
    return replace(rollout, action_masks=masks, actions=given, finals=finals)


def upload(session: Session, network: served_policies.NTuple) -> None:
    """Gives the session the network, unless it has it already."""
    if session.network is network:
        return
    session.network = None
    form = wire.NTupleForm(
        tuples=[wire.NTuple(cells=bytes(cells)) for cells in network.tuples],
        exponents=network.exponents,
        symmetric=network.symmetric,
    )
    _give(session, wire.PolicyRequest(network=form), None)
    offset = 0
    for table in network.weights:
        weights = table.view(np.uint8)
        for start in range(0, len(weights), session.largest_payload(_PIECE_BYTES)):
            piece = weights[start : start + session.largest_payload(_PIECE_BYTES)].tobytes()
            _give(session, wire.PolicyRequest(weights=wire.WeightsPiece(offset=offset)), piece)
            offset += len(piece)
    session.network = network


def _give(session: Session, request: wire.PolicyRequest, payload: bytes | None) -> None:
    session.call("policy", envelope.Request(policy=request), payload)


def reply_bytes(session: Session) -> int:
    """Bytes that a rollout's reply is to have at most, if a step goes in."""
    several = _STEPS_OF_A_REPLY * session.spec.step.size
    return max(_REPLY_BYTES, min(several, _MOST_REPLY_BYTES))


def largest_reply(session: Session, num_envs: int) -> int:
    """Bytes that a rollout's reply has at most: a single step goes in whatever its size."""
    spec = session.spec
    return max(reply_bytes(session), 4 * spec.reset.size + spec.step.size + 40 * num_envs + 4096)


def _tell(policy: served_policies.Policy | None, request: wire.RolloutRequest) -> None:
    if isinstance(policy, served_policies.Expectimax):
        expectimax = wire.ExpectimaxPolicy(
            depth=policy.depth, extension=policy.extension, table_bytes=policy.table_bytes or 0
        )
        if policy.heuristic is not None:
            expectimax.heuristic.CopyFrom(wire.Heuristic(**asdict(policy.heuristic)))
        request.expectimax.CopyFrom(expectimax)
    elif isinstance(policy, served_policies.NTuple):
        request.ntuple.SetInParent()
    elif isinstance(policy, served_policies.Greedy):
        request.greedy.SetInParent()
    else:
        request.random.SetInParent()


class _Parts:
    """The arrays of a rollout, as they come in."""

    def __init__(self, steps: int, buffers: BufferPool) -> None:
        self.steps = steps
        self._buffers = buffers
        self.done = 0
        self._arrays: dict[str, Array] = {}
        self._finals: list[dict[str, Array]] = []

    def add(self, reply: wire.RolloutReply, payload: NDArray[np.uint8]) -> None:
        """Takes the steps of one reply."""
        arrays = Layout(reply.arrays, ("observation", "action_mask", *_STEP_ARRAYS)).split(payload)
        if reply.HasField("finals"):
            finals = Layout(reply.finals, ("steps", "lanes", "observation")).split(payload)
            # Out of memory that is used again.
            self._finals.append({name: array.copy() for name, array in finals.items()})
            self._finals[-1]["steps"] += np.uint64(self.done)
        if reply.steps == self.steps and payload.flags.writeable:
            self._arrays = arrays
        else:
            if not self._arrays:
                self._arrays = self._make_room(arrays, reply.steps)
            for name, array in arrays.items():
                self._arrays[name][self.done : self.done + len(array)] = array
        self.done += reply.steps

    def _make_room(self, arrays: dict[str, Array], steps: int) -> dict[str, Array]:
        """Arrays for all steps, one behind the other in one block of memory."""
        shapes = {
            name: (self.steps + len(array) - steps, *array.shape[1:])
            for name, array in arrays.items()
        }
        offsets, end = {}, 0
        for name, shape in shapes.items():
            offsets[name] = end
            end += -(-math.prod(shape) * arrays[name].itemsize // 64) * 64
        memory, _ = self._buffers.take(end)
        return {
            name: np.ndarray(shape, arrays[name].dtype, memory.data, offsets[name])
            for name, shape in shapes.items()
        }

    def whole(self, has_finals: bool) -> Rollout:
        """All of it."""
        arrays = self._arrays
        observations, masks = arrays.pop("observation"), arrays.pop("action_mask")
        told = {name: arrays.pop(wire_name) for wire_name, name in _STEP_ARRAYS.items()}
        finals = None
        if has_finals:
            finals = self._all_finals(observations)
        return Rollout(
            observations=observations, action_masks=masks, infos=arrays, finals=finals, **told
        )

    def _all_finals(self, observations: Array) -> Finals:
        if not self._finals:
            none = np.empty(0, np.int64)
            return Finals(none, none.copy(), np.empty((0, *observations.shape[2:]), np.uint8), {})
        joined = {
            name: np.concatenate([part[name] for part in self._finals]) for name in self._finals[0]
        }
        return Finals(
            steps=joined.pop("steps").astype(np.int64),
            lanes=joined.pop("lanes").astype(np.int64),
            observations=joined.pop("observation"),
            infos=joined,
        )
