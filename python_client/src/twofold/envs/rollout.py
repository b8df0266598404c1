"""Many steps in one call: requests, each bounded in bytes and in time; their arrays together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import ArrayLike, NDArray

from twofold import _arguments
from twofold.client.payloads import BufferPool, Layout
from twofold.client.session import Session, exactly_once
from twofold.envs.batch import Batch
from twofold.envs.results import Array, InfosT, ObsT
from twofold.envs.seeding import Seed, board_seeds
from twofold.errors import InvalidArgument
from twofold.policies import served_policies
from twofold.policies.served_policies import NAMES, Policy
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import rollout_pb2 as wire

Progress = Callable[[int], object]

# Bytes of one reply: enough steps that the round trip does not count, few enough for the caches;
# more where a step is large, since each reply begins with the boards that the last one ended with.
_REPLY_BYTES = 2 << 20
_STEPS_OF_A_REPLY = 8
_MOST_REPLY_BYTES = 16 << 20

_STEP_ARRAYS = {
    "action": "actions",
    "reward": "rewards",
    "terminated": "terminations",
    "truncated": "truncations",
    "valid": "valid",
}


@dataclass(frozen=True)
class Finals:
    """The last observations and infos of episodes that ended in a SAME_STEP rollout.

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
        infos: The requested ones, (T, N, …) each, after each step.
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


class Rollouts(Batch[ObsT, InfosT]):
    """The method of a vector environment that plays many steps."""

    @exactly_once
    def rollout(
        self,
        steps: int,
        policy: str | Policy | None = None,
        *,
        actions: ArrayLike | None = None,
        policy_seed: Seed = None,
        infos: Sequence[str] = (),
        progress: Progress | None = None,
    ) -> Rollout:
        """Plays many steps in the server, on from where the boards stand.

        The same as choosing and `step` in a loop: in requests that are bounded in bytes and time,
        each applied once. To cancel, raise in `progress`; what was done is done.

        Args:
            steps: How many, T.
            policy: "random", "greedy", "expectimax", or one of `twofold.policies`.
            actions: Integers (T, N) to play instead of a policy's.
            policy_seed: Seeds the policy's own streams: an int s for s + i on lane i, or an int for
                each lane. None goes on with them; a reset with seeds starts them too.
            infos: Names of the infos to return, after each step.
            progress: Called with the number of steps that are done, after each request.

        Raises:
            InvalidArgument: `field` says which argument is wrong.
            FailedPrecondition: The boards were never reset.
            ResourceExhausted: A search did not fit into the server's limits.
            TransportError: No answer; steps may have been played.
        """
        steps = _arguments.integer("steps", steps, 1)
        if isinstance(infos, str):
            raise InvalidArgument(f"infos is {infos!r}; expected a list of names", field="infos")
        if progress is not None and not callable(progress):
            raise InvalidArgument(
                f"progress is {progress!r}; expected a function", field="progress"
            )
        if (policy is None) == (actions is None):
            raise InvalidArgument("give either a policy or actions", field="policy")
        chosen = None if policy is None else _policy(policy)
        played = None if actions is None else self._actions_to_play(actions, steps)
        seeds, is_seeded = board_seeds(policy_seed, self.num_envs, "policy_seed")
        if policy_seed is not None and played is not None:
            raise InvalidArgument("given actions need no policy_seed", field="policy_seed")
        if policy_seed is not None and not is_seeded.all():
            raise InvalidArgument("policy_seed has a None in it", field="policy_seed")
        names = [_arguments.text("infos", name) for name in infos]
        order = self._action_order
        sent = played if played is None or order is None else order[played]
        if isinstance(chosen, served_policies.NTuple):
            served_policies.upload(self._session, chosen)
        wanted = reply_bytes(self._session)

        def request(done: int) -> tuple[envelope.Request, bytes | None]:
            """The request for the steps behind those that are done."""
            request = wire.RolloutRequest(infos=names, max_payload_bytes=wanted)
            payload = None
            left = steps - done
            if chosen is not None:
                served_policies.choose(request, chosen)
                if policy_seed is not None and done == 0:
                    request.policy_seeds = True
                    payload = seeds.astype("<u8").tobytes()
            if sent is not None:
                # A request has to fit too.
                largest = self._session.link.largest_payload(wanted)
                left = min(left, max(1, largest // self.num_envs))
                request.actions.SetInParent()
                payload = sent[done : done + left].tobytes()
            request.steps = min(left, 2**32 - 1)
            return envelope.Request(rollout=request), payload

        rollout = self._play(request, steps, wanted, progress)
        if self._episodes is not None:
            self._episodes.begin()
        return rollout if order is None else _in_user_order(rollout, order, played)

    def _play(
        self,
        request: Callable[[int], tuple[envelope.Request, bytes | None]],
        steps: int,
        wanted: int,
        progress: Progress | None,
    ) -> Rollout:
        """The steps of as many requests as it takes; `wanted` are the bytes of each reply."""
        session, spec = self._session, self._session.spec
        # A single step goes in whatever its size.
        one = 4 * spec.reset.size + spec.step.size + 40 * self.num_envs + 4096
        most = max(wanted, one)
        collected = _Collected(steps, session.rollouts)
        following = request(0)
        while True:
            reply, answer = session.call("rollout", *following, most)
            done = collected.done + reply.rollout.steps
            if progress is not None:
                progress(done)
            if done < steps:
                # The server goes on while this process copies the reply.
                following = request(done)
                session.begin("rollout", *following, most)
            collected.add(reply.rollout, answer)
            if done == steps:
                return collected.whole(self.autoreset_mode is AutoresetMode.SAME_STEP)

    def _actions_to_play(self, actions: object, steps: int) -> NDArray[np.uint8]:
        """Actions (T, N), checked."""
        array = _arguments.integers("actions", actions, (steps, self.num_envs))
        is_bad = (array < 0) | (array >= self._num_actions)
        if is_bad.any():
            step, lane = (int(index) for index in np.argwhere(is_bad)[0])
            raise InvalidArgument(
                f"actions[{step}, {lane}] is {array[step, lane]}; expected 0 ... "
                f"{self._num_actions - 1}",
                field="actions",
                lane=lane,
            )
        return array.astype(np.uint8)


def _policy(policy: object) -> Policy:
    if isinstance(policy, served_policies.CLASSES):
        return policy
    if isinstance(policy, str) and policy in NAMES:
        return NAMES[policy]
    raise InvalidArgument(
        f"policy is {policy!r}; expected {', '.join(map(repr, NAMES))} or one of twofold.policies",
        field="policy",
    )


def _in_user_order(
    rollout: Rollout, order: NDArray[np.uint8], played: NDArray[np.uint8] | None
) -> Rollout:
    """A rollout in the server's action order, in the user's; `played` if no policy chose."""
    if played is None:
        numbers = np.argsort(order).astype(np.uint8)
        # A policy's action where no action is legal is 0 in any order.
        is_chosen = rollout.action_masks[:-1].any(axis=2)
        played = np.where(is_chosen, numbers[rollout.actions], np.uint8(0))
    finals = rollout.finals
    if finals is not None and finals.infos:
        masks = finals.infos["action_mask"][:, order]
        finals = replace(finals, infos={**finals.infos, "action_mask": masks})
    masks = rollout.action_masks[..., order]
    return replace(rollout, action_masks=masks, actions=played, finals=finals)


def reply_bytes(session: Session) -> int:
    """Bytes that a rollout's reply is to have at most, if a step goes in."""
    several = _STEPS_OF_A_REPLY * session.spec.step.size
    return max(_REPLY_BYTES, min(several, _MOST_REPLY_BYTES))


class _Collected:
    """The arrays of a rollout, as they come in."""

    def __init__(self, steps: int, buffers: BufferPool) -> None:
        self.steps = steps
        self._buffers = buffers
        self.done = 0
        self._arrays: dict[str, Array] = {}
        self._finals: list[dict[str, Array]] = []

    def add(self, reply: wire.RolloutReply, payload: NDArray[np.uint8]) -> None:
        """Adds the steps of one reply."""
        arrays = Layout(reply.arrays, ("observation", "action_mask", *_STEP_ARRAYS)).split(payload)
        if reply.HasField("finals"):
            finals = Layout(reply.finals, ("steps", "lanes", "observation")).split(payload)
            # The payload's memory is used again.
            self._finals.append({name: array.copy() for name, array in finals.items()})
            self._finals[-1]["steps"] += np.uint64(self.done)
        if reply.steps == self.steps and payload.flags.writeable:
            self._arrays = arrays
        else:
            if not self._arrays:
                self._arrays = self._make_arrays(arrays, reply.steps)
            for name, array in arrays.items():
                self._arrays[name][self.done : self.done + len(array)] = array
        self.done += reply.steps

    def _make_arrays(self, arrays: dict[str, Array], steps: int) -> dict[str, Array]:
        """Arrays for all steps, in one block of memory."""
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
        steps = {name: arrays.pop(wire_name) for wire_name, name in _STEP_ARRAYS.items()}
        finals = self._all_finals(observations) if has_finals else None
        return Rollout(
            observations=observations, action_masks=masks, infos=arrays, finals=finals, **steps
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
