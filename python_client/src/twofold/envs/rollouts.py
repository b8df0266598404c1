"""Plays many steps in one call, with size- and time-limited requests or one request per step."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twofold import _arguments
from twofold.client.session import Session, exactly_once, explain
from twofold.client.session.states import STEPS_REMAIN
from twofold.envs.playing import play
from twofold.envs.results import Array, Results
from twofold.envs.rollout import Collected, Rollout, storage
from twofold.envs.snapshots import finished, snapshot
from twofold.errors import DeadlineExceeded, InvalidArgument
from twofold.policies import served_policies
from twofold.policies.choosers import OpenFunction
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment
from twofold.v1 import rollout_pb2 as wire

Progress = Callable[[int], object]

# The size of one reply in bytes: large enough to make the round trip negligible, small enough for
# the caches. Large steps get larger replies, because each reply repeats the last boards of the
# previous one.
_REPLY_BYTES = 2 << 20
_STEPS_OF_A_REPLY = 8
_MAX_REPLY_BYTES = 16 << 20


def rollout(
    session: Session,
    results: Results,
    steps: int,
    chooser: OpenFunction | served_policies.Policy | None,
    *,
    actions: ArrayLike | None,
    infos: Sequence[str],
    out: Rollout | Mapping[str, object] | None,
    progress: Progress | None,
) -> Rollout:
    """Plays the rollout that `TwofoldVectorEnv.rollout` requests with these arguments."""
    steps = _arguments.integer("steps", steps, 1, sys.maxsize // session.spec.step.size)
    infos = _arguments.elements("infos", infos, "a list of names")
    _arguments.progress(progress)
    if (chooser is None) == (actions is None):
        raise InvalidArgument("pass either policy or actions=, but not both", field="policy")
    game, num_envs = results.game, results.num_envs
    played = None if actions is None else _actions_to_play(session, actions, steps)
    names = [_arguments.text("infos", name) for name in infos]
    wanted = reply_bytes(session)
    given, arrays = storage(out, steps, names, session.spec.step, session.rollouts, wanted)
    collected = Collected(steps, given, arrays, game)
    if isinstance(chooser, OpenFunction):
        return _FunctionSteps(session, results, chooser, names, collected).rollout(progress)
    if isinstance(chooser, served_policies.NTuple):
        served_policies.upload(session, chooser)
    sent = None if played is None else game.to_server(played)

    def request(done: int) -> tuple[envelope.Request, bytes | None]:
        """Returns the request for the steps that remain after `done` steps."""
        request = wire.RolloutRequest(infos=names, max_payload_bytes=wanted)
        left, payload = steps - done, None
        if chooser is not None:
            chooser.write(request)
        if sent is not None:
            # The limit also applies to the request itself.
            largest = session.link.largest_payload(wanted)
            left = min(left, max(1, largest // num_envs))
            request.actions.SetInParent()
            payload = sent[done : done + left].tobytes()
        request.steps = min(left, 2**32 - 1)
        return envelope.Request(rollout=request), payload

    room = max(wanted, _largest_step(session))
    return _play(session, request, played, collected, room, progress)


def _play(
    session: Session,
    request: Callable[[int], tuple[envelope.Request, bytes | None]],
    played: NDArray[np.uint8] | None,
    collected: Collected,
    room: int,
    progress: Progress | None,
) -> Rollout:
    """Plays the steps in as many requests as necessary; `room` limits a reply's size in bytes."""
    steps, done = collected.steps, 0
    session.is_busy = True  # except for `progress`
    following, first = request(0), None
    try:
        while True:
            reply, payload = session.call(*following, room)
            first = first or session.operation
            begin, done = collected.done, collected.done + reply.rollout.steps
            if progress is not None:
                # If `progress` raises an error, the next rollout must not get these steps again.
                session.end_request()
                session.is_busy = False
                progress(done)
                session.refuse_pending_step()
                session.is_busy = True
            if done < steps:
                # The server executes the next request while this process copies the reply.
                following = request(done)
                session.begin(*following, room)
            collected.add(reply.rollout, payload, None if played is None else played[begin:done])
            if done == steps:
                if session.operation is not first:
                    session.last_part = session.operation
                return collected.whole(session.spec)
    except (KeyboardInterrupt, DeadlineExceeded) as error:
        # In all other cases, repeating the call, or the step in `progress`, returns a result.
        is_first = done == 0 or session.operation is first
        if not is_first and session.unreturned_step is None:
            explain(error, STEPS_REMAIN)
        raise


class _StepCount:
    """The number of remaining steps, and the lanes that begin an episode or play in the next step.

    `advance` computes both masks of lanes, bool (N,), from the last step's results.
    """

    playing: NDArray[np.bool_]
    begins: NDArray[np.bool_]

    def __init__(self, left: int, mode: int) -> None:
        self._left, self._mode = left, mode

    @property
    def is_finished(self) -> bool:
        return self._left == 0

    def advance(self, step: dict[str, Array]) -> None:
        self._left -= 1
        ended, valid = step["terminated"][0] | step["truncated"][0], step["valid"][0]
        if self._mode == environment.AUTORESET_MODE_NEXT_STEP:
            self.begins, self.playing = ~valid, ~ended
        elif self._mode == environment.AUTORESET_MODE_SAME_STEP:
            # A lane that was restored after its end begins its next episode in its first step.
            self.begins, self.playing = ended | ~valid, np.ones_like(ended)
        else:
            self.begins, self.playing = np.zeros_like(ended), valid & ~ended


class _FunctionSteps:
    """A rollout whose actions a function chooses, with one request and one function call per step.

    Each request is a one-step rollout, so that the service tracks waiting boards and the ends of
    episodes.
    """

    def __init__(
        self,
        session: Session,
        results: Results,
        chooser: OpenFunction,
        infos: Sequence[str],
        collected: Collected,
    ) -> None:
        self._session, self._results = session, results
        self._chooser, self._collected = chooser, collected
        one = wire.RolloutRequest(steps=1, infos=infos, actions=wire.GivenActions())
        self._request = envelope.Request(rollout=one)

    def rollout(self, progress: Progress | None) -> Rollout:
        session, collected = self._session, self._collected

        def report(*_: object) -> None:
            if progress is not None:
                progress(collected.done)
                session.refuse_pending_step()

        session.refuse_pending_step()
        try:
            steps = _StepCount(collected.steps, session.create.autoreset_mode)
            self._look(steps)
            play(self, steps, [report])
        except (KeyboardInterrupt, DeadlineExceeded) as error:
            if session.unreturned_step is None:
                explain(error, STEPS_REMAIN)
            raise
        return collected.whole(session.spec)

    @property
    def _is_current(self) -> bool:
        """Whether `progress` has made no request since these observations and masks."""
        return self._place_of_session == self._seen

    @property
    def _place_of_session(self) -> tuple[bytes, int]:
        """The session's id, which a recovery changes, and the number of its executed requests."""
        return self._session.link.id, self._session.last_seq

    def _look(self, schedule: _StepCount) -> None:
        """Reads the boards, at the start and after `progress` has made requests."""
        self._observations, infos = self._observe()
        self._mask: Array = infos["action_mask"]
        schedule.playing = ~finished(self._snapshot())
        schedule.begins = schedule.playing & (infos["episode_length"] == 0)
        self._seen = self._place_of_session

    def begin(self, schedule: _StepCount) -> None:
        if self._is_current:  # otherwise, `play` looks first
            self._chooser.begin(schedule.begins)

    def play(self, schedule: _StepCount) -> dict[str, Array]:
        """Plays one step; returns its arrays, keyed by their names in the reply."""
        if not self._is_current:
            self._look(schedule)
            if schedule.begins.any():
                self.begin(schedule)
        chooser, playing = self._chooser, schedule.playing
        actions = np.zeros(self._results.num_envs, np.uint8)
        if playing.any():
            chosen = chooser.choose(self._observations, self._mask, playing, self._place)
            np.copyto(actions, chosen, "unsafe", where=playing)
        step = self._collected.add(*self._ask(actions), actions[np.newaxis])
        self._seen = self._place_of_session
        chooser.steps += 1
        self._mask = step["action_mask"][1]
        self._observations = self._results.form.observations(step["observation"][1], self._mask)
        return step

    def _place(self, lane: int) -> dict[str, int]:
        return {"lane": self._chooser.first_lane + lane, "step": self._chooser.steps}

    @exactly_once
    def _observe(self) -> tuple[Any, Any]:
        return self._results.of_reset(self._results.observed(self._session))

    @exactly_once
    def _snapshot(self) -> bytes:
        return snapshot(self._session, None)

    @exactly_once
    def _ask(self, actions: NDArray[np.uint8]) -> tuple[wire.RolloutReply, NDArray[np.uint8]]:
        sent = self._results.game.to_server(actions).tobytes()
        room = _largest_step(self._session)
        reply, payload = self._session.call(self._request, sent, room)
        return reply.rollout, payload


def _largest_step(session: Session) -> int:
    """Returns the largest size of a one-step reply in bytes. `reply_bytes` does not limit it."""
    spec = session.spec
    return 4 * spec.reset.size + spec.step.size + 40 * session.create.num_envs + 4096


def _actions_to_play(session: Session, actions: object, steps: int) -> NDArray[np.uint8]:
    """Returns the checked actions (T, N)."""
    array = _arguments.integers("actions", actions, (steps, session.create.num_envs))
    num_actions = session.spec.action_space.discrete.n
    is_bad = (array < 0) | (array >= num_actions)
    if is_bad.any():
        step, lane = (int(index) for index in np.argwhere(is_bad)[0])
        raise InvalidArgument(
            f"actions[{step}, {lane}] is {array[step, lane]}; expected 0 ... {num_actions - 1}",
            field="actions",
            lane=lane,
        )
    return array.astype(np.uint8)


def reply_bytes(session: Session) -> int:
    """Returns the size limit of a rollout's reply, in bytes; a one-step reply may be larger."""
    several = _STEPS_OF_A_REPLY * session.spec.step.size
    return max(_REPLY_BYTES, min(several, _MAX_REPLY_BYTES))
