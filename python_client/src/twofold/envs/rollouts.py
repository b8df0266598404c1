"""Many steps in one call: requests, each bounded in bytes and in time, or one for each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import ArrayLike, NDArray

from twofold import _arguments
from twofold.client.session import Session, exactly_once, explain, in_parts
from twofold.envs.batch import Batch
from twofold.envs.results import Array
from twofold.envs.rollout import Collected, Rollout, storage
from twofold.envs.seeding import Seed, board_seeds
from twofold.envs.snapshots import finished, snapshot_call
from twofold.errors import InvalidArgument
from twofold.policies import served_policies
from twofold.policies.choosers import CheckedChooser, PolicyLike, ServedChooser, open_function
from twofold.policies.lookup import resolve
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import rollout_pb2 as wire

Progress = Callable[[int], object]
Envs: TypeAlias = Batch[Any, Any]

# Bytes of one reply: enough steps that the round trip does not count, few enough for the caches;
# more where a step is large, since each reply begins with the boards that the last one ended with.
_REPLY_BYTES = 2 << 20
_STEPS_OF_A_REPLY = 8
_MOST_REPLY_BYTES = 16 << 20


def rollout(
    envs: Envs,
    steps: int,
    policy: PolicyLike | None,
    *,
    actions: ArrayLike | None,
    policy_seed: Seed,
    infos: Sequence[str],
    out: Rollout | Mapping[str, object] | None,
    progress: Progress | None,
) -> Rollout:
    """`TwofoldVectorEnv.rollout`."""
    steps = _arguments.integer("steps", steps, 1)
    if isinstance(infos, str):
        raise InvalidArgument(f"infos is {infos!r}; expected a list of names", field="infos")
    if progress is not None and not callable(progress):
        raise InvalidArgument(f"progress is {progress!r}; expected a function", field="progress")
    if (policy is None) == (actions is None):
        raise InvalidArgument("give either a policy or actions", field="policy")
    chosen = None if policy is None else resolve(policy)
    played = None if actions is None else _actions_to_play(envs, actions, steps)
    seeds, is_seeded = board_seeds(policy_seed, envs.num_envs, "policy_seed")
    served = chosen.policy if isinstance(chosen, ServedChooser) else None
    if policy_seed is not None and served is None:
        raise InvalidArgument(
            "policy_seed is for policies in the server; functions and given actions need none",
            field="policy_seed",
        )
    if policy_seed is not None and not is_seeded.all():
        raise InvalidArgument("policy_seed has a None in it", field="policy_seed")
    names = [_arguments.text("infos", name) for name in infos]
    arrays = storage(out, steps, names, envs._session.spec.step)
    if chosen is not None and served is None:
        function = open_function(chosen, envs)
        return play_function(envs, function, steps, names, arrays, progress)
    if isinstance(served, served_policies.NTuple):
        served_policies.upload(envs._session, served)
    sent = None if played is None else envs.game.to_server(played)
    wanted = reply_bytes(envs._session)

    def request(done: int) -> tuple[envelope.Request, bytes | None]:
        """The request for the steps behind those that are done."""
        request = wire.RolloutRequest(infos=names, max_payload_bytes=wanted)
        payload = None
        left = steps - done
        if served is not None:
            served_policies.choose(request, served)
            if policy_seed is not None and done == 0:
                request.policy_seeds = True
                payload = seeds.astype("<u8").tobytes()
        if sent is not None:
            # A request has to fit too.
            largest = envs._session.link.largest_payload(wanted)
            left = min(left, max(1, largest // envs.num_envs))
            request.actions.SetInParent()
            payload = sent[done : done + left].tobytes()
        request.steps = min(left, 2**32 - 1)
        return envelope.Request(rollout=request), payload

    collected = Collected(steps, arrays, envs.game, envs._session.rollouts)
    return _play(envs, request, played, collected, max(wanted, _largest_step(envs)), progress)


def _play(
    envs: Envs,
    request: Callable[[int], tuple[envelope.Request, bytes | None]],
    played: NDArray[np.uint8] | None,
    collected: Collected,
    room: int,
    progress: Progress | None,
) -> Rollout:
    """The steps of as many requests as it takes; `room` are the bytes of the largest reply."""
    session, steps = envs._session, collected.steps
    session.is_busy = True  # except for `progress`
    following = request(0)
    while True:
        reply, payload = session.call("rollout", *following, room)
        begin, done = collected.done, collected.done + reply.rollout.steps
        if progress is not None:
            session.is_busy = False
            progress(done)
            session.is_busy = True
        if done < steps:
            # The server goes on while this process copies the reply.
            following = request(done)
            session.begin("rollout", *following, room)
        collected.add(reply.rollout, payload, None if played is None else played[begin:done])
        if done == steps:
            return _whole(envs, collected)


@in_parts
def play_function(
    envs: Envs,
    chooser: CheckedChooser,
    steps: int,
    infos: Sequence[str] = (),
    out: dict[str, Array] | None = None,
    progress: Progress | None = None,
    first: int = 0,
    first_lane: int = 0,
) -> Rollout:
    """Plays steps whose actions a function chooses, each in a separate request.

    Args:
        envs: The boards.
        chooser: Calls the function.
        steps: T.
        infos: Names of infos.
        out: The caller's arrays, by their names in replies.
        progress: Called after each step.
        first: The number of the first step, for messages.
        first_lane: The same for lanes.
    """
    collected = Collected(steps, out or {}, envs.game, envs._session.rollouts)

    def place(lane: int) -> dict[str, int]:
        return {"lane": first_lane + lane, "step": first + collected.done}

    one = wire.RolloutRequest(steps=1, infos=infos, actions=wire.GivenActions())
    request = envelope.Request(rollout=one)
    envs._session.refuse_pending_step()
    try:
        standing: Any
        observations, standing = envs.observe()
        mask = standing["action_mask"]
        playing = ~finished(snapshot_call(envs, None))
        begins = playing & (standing["episode_length"] == 0)
        while collected.done < steps:
            if begins.any() or collected.done == 0:
                chooser.begin(begins)
            actions = np.zeros(envs.num_envs, np.uint8)
            if playing.any():
                chosen = chooser.choose(observations, mask, playing, place)
                np.copyto(actions, chosen, "unsafe", where=playing)
            arrays = collected.add(*_play_step(envs, request, actions), actions[np.newaxis])
            if progress is not None:
                progress(collected.done)
            mask = arrays["action_mask"][1]
            observations = envs.observation_form.observations(arrays["observation"][1], mask)
            begins, playing = _begin_and_play(envs, arrays)
    except KeyboardInterrupt as error:
        explain(error, "the completed steps of the rollout remain; any call goes on from there.")
        raise
    return _whole(envs, collected)


def _begin_and_play(
    envs: Envs, arrays: dict[str, Array]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """The lanes that begin an episode after a step, and those that play the next, bool (N,)."""
    ended, valid = arrays["terminated"][0] | arrays["truncated"][0], arrays["valid"][0]
    if envs.autoreset_mode is AutoresetMode.NEXT_STEP:
        return ~valid, ~ended
    if envs.autoreset_mode is AutoresetMode.SAME_STEP:
        return ended, np.ones_like(ended)
    return np.zeros_like(ended), valid & ~ended


@exactly_once
def _play_step(
    envs: Envs, request: envelope.Request, actions: NDArray[np.uint8]
) -> tuple[wire.RolloutReply, NDArray[np.uint8]]:
    """Plays one step of a rollout, with actions (N,), as a separate call."""
    sent = envs.game.to_server(actions).tobytes()
    answer = envs._session.call("rollout", request, sent, _largest_step(envs))
    return answer[0].rollout, answer[1]


def _largest_step(envs: Envs) -> int:
    """Bytes of the largest reply with a single step, which goes in whatever its size."""
    spec = envs._session.spec
    return 4 * spec.reset.size + spec.step.size + 40 * envs.num_envs + 4096


def _whole(envs: Envs, collected: Collected) -> Rollout:
    """The rollout, at its end."""
    if envs._episodes is not None:
        envs._episodes.begin()
    return collected.whole(envs.autoreset_mode is AutoresetMode.SAME_STEP)


def _actions_to_play(envs: Envs, actions: object, steps: int) -> NDArray[np.uint8]:
    """Actions (T, N), checked."""
    array = _arguments.integers("actions", actions, (steps, envs.num_envs))
    is_bad = (array < 0) | (array >= envs.num_actions)
    if is_bad.any():
        step, lane = (int(index) for index in np.argwhere(is_bad)[0])
        raise InvalidArgument(
            f"actions[{step}, {lane}] is {array[step, lane]}; expected 0 ... "
            f"{envs.num_actions - 1}",
            field="actions",
            lane=lane,
        )
    return array.astype(np.uint8)


def reply_bytes(session: Session) -> int:
    """Bytes that a rollout's reply is to have at most, if a step goes in."""
    several = _STEPS_OF_A_REPLY * session.spec.step.size
    return max(_REPLY_BYTES, min(several, _MOST_REPLY_BYTES))
