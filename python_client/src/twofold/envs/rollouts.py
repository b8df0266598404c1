"""Many steps in one call: requests, each bounded in bytes and in time, or one for each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import ArrayLike, NDArray

from twofold import _arguments
from twofold.client.session import Session, exactly_once, explain
from twofold.envs.results import Array, InfosT, ObsT
from twofold.envs.rollout import Collected, Rollout, storage
from twofold.envs.seeding import Seed, board_seeds
from twofold.envs.snapshots import Snapshots, finished
from twofold.errors import InvalidArgument
from twofold.policies import served_policies
from twofold.policies.choosers import CheckedChooser, PolicyLike, ServedChooser, open_function
from twofold.policies.lookup import resolve
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import rollout_pb2 as wire

Progress = Callable[[int], object]

# Bytes of one reply: enough steps that the round trip does not count, few enough for the caches;
# more where a step is large, since each reply begins with the boards that the last one ended with.
_REPLY_BYTES = 2 << 20
_STEPS_OF_A_REPLY = 8
_MOST_REPLY_BYTES = 16 << 20


class Rollouts(Snapshots[ObsT, InfosT]):
    """The method of a vector environment that plays many steps."""

    @exactly_once
    def rollout(
        self,
        steps: int,
        policy: PolicyLike | None = None,
        *,
        actions: ArrayLike | None = None,
        policy_seed: Seed = None,
        infos: Sequence[str] = (),
        out: Rollout | Mapping[str, object] | None = None,
        progress: Progress | None = None,
    ) -> Rollout:
        """Plays many steps, on from where the boards stand.

        The same as choosing and `step` in a loop: in requests that are bounded in bytes and time,
        each applied once. To cancel, raise in `progress` or in the policy; what was done is done.

        A policy in the server plays there. A function is called in this process before each step,
        with the observations in the environment's form, and only with boards that are being played;
        one that remembers (`PolicyWithMemory`) hears of every episode that begins, at the start of
        the rollout only of boards that no step was played on.

        Args:
            steps: How many, T.
            policy: A policy as for `evaluate`: "random", "fixed-order", "greedy", "expectimax" or
                another name, one of `twofold.policies`, or a function (observations, action_mask)
                -> actions.
            actions: Integers (T, N) to play instead of a policy's.
            policy_seed: Seeds the streams of a policy in the server: an int s for s + i on lane i,
                or an int for each lane. None goes on with them; a reset with seeds starts them too.
            infos: Names of the infos to return, after each step.
            out: Where to write: a `Rollout`, or a mapping with any of its arrays by name (infos in
                a mapping of theirs), numpy arrays or CPU tensors of the exact shapes and dtypes.
                The rollout returned holds them; an error leaves some steps in them.
            progress: Called with the number of steps that are done, after each request.

        Raises:
            InvalidArgument: `field` says which argument is wrong.
            PolicyError: The function raised, or returned something else than legal actions; the
                steps before are done.
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
        chosen = None if policy is None else resolve(policy)
        played = None if actions is None else self._actions_to_play(actions, steps)
        seeds, is_seeded = board_seeds(policy_seed, self.num_envs, "policy_seed")
        served = chosen.policy if isinstance(chosen, ServedChooser) else None
        if policy_seed is not None and served is None:
            raise InvalidArgument(
                "policy_seed is for policies in the server; functions and given actions need none",
                field="policy_seed",
            )
        if policy_seed is not None and not is_seeded.all():
            raise InvalidArgument("policy_seed has a None in it", field="policy_seed")
        names = [_arguments.text("infos", name) for name in infos]
        arrays = storage(out, steps, names, self._session.spec.step)
        if chosen is not None and served is None:
            function = open_function(chosen, self)
            return self._play_function(function, steps, names, arrays, progress)
        if isinstance(served, served_policies.NTuple):
            served_policies.upload(self._session, served)
        sent = None if played is None else self.game.to_server(played)
        wanted = reply_bytes(self._session)

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
                largest = self._session.link.largest_payload(wanted)
                left = min(left, max(1, largest // self.num_envs))
                request.actions.SetInParent()
                payload = sent[done : done + left].tobytes()
            request.steps = min(left, 2**32 - 1)
            return envelope.Request(rollout=request), payload

        collected = Collected(steps, arrays, self.game, self._session.rollouts)
        return self._play(request, played, collected, max(wanted, self._largest_step), progress)

    def _play(
        self,
        request: Callable[[int], tuple[envelope.Request, bytes | None]],
        played: NDArray[np.uint8] | None,
        collected: Collected,
        room: int,
        progress: Progress | None,
    ) -> Rollout:
        """The steps of as many requests as it takes; `room` are the bytes of the largest reply."""
        session, steps = self._session, collected.steps
        following = request(0)
        while True:
            reply, payload = session.call("rollout", *following, room)
            begin, done = collected.done, collected.done + reply.rollout.steps
            if progress is not None:
                progress(done)
            if done < steps:
                # The server goes on while this process copies the reply.
                following = request(done)
                session.begin("rollout", *following, room)
            collected.add(reply.rollout, payload, None if played is None else played[begin:done])
            if done == steps:
                return self._whole(collected)

    @exactly_once
    def _play_function(
        self,
        chooser: CheckedChooser,
        steps: int,
        infos: Sequence[str] = (),
        out: dict[str, Array] | None = None,
        progress: Progress | None = None,
        first: int = 0,
        first_lane: int = 0,
    ) -> Rollout:
        """Steps whose actions a function chooses, each in a request of its own.

        Args:
            chooser: Calls the function.
            steps: T.
            infos: Names of infos.
            out: The caller's arrays, by their names in replies.
            progress: Called after each step.
            first: The number of the first step, for messages.
            first_lane: The same for lanes.
        """
        collected = Collected(steps, out or {}, self.game, self._session.rollouts)

        def place(lane: int) -> dict[str, int]:
            return {"lane": first_lane + lane, "step": first + collected.done}

        one = wire.RolloutRequest(steps=1, infos=infos, actions=wire.GivenActions())
        request = envelope.Request(rollout=one)
        self._session.refuse_pending_step()
        try:
            standing: Any
            observations, standing = self.observe()
            mask = standing["action_mask"]
            playing = ~finished(self.snapshot())
            begins = playing & (standing["episode_length"] == 0)
            while collected.done < steps:
                if begins.any() or collected.done == 0:
                    chooser.begin(begins)
                actions = np.zeros(self.num_envs, np.uint8)
                if playing.any():
                    chosen = chooser.choose(observations, mask, playing, place)
                    np.copyto(actions, chosen, "unsafe", where=playing)
                arrays = collected.add(*self._play_step(request, actions), actions[np.newaxis])
                if progress is not None:
                    progress(collected.done)
                mask = arrays["action_mask"][1]
                observations = self.observation_form.observations(arrays["observation"][1], mask)
                begins, playing = self._begin_and_play(arrays)
        except KeyboardInterrupt as error:
            explain(
                error, "the completed steps of the rollout remain; any call goes on from there."
            )
            raise
        return self._whole(collected)

    def _begin_and_play(
        self, arrays: dict[str, Array]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """The lanes that begin an episode after a step, and those that play the next, bool (N,)."""
        ended, valid = arrays["terminated"][0] | arrays["truncated"][0], arrays["valid"][0]
        if self.autoreset_mode is AutoresetMode.NEXT_STEP:
            return ~valid, ~ended
        if self.autoreset_mode is AutoresetMode.SAME_STEP:
            return ended, np.ones_like(ended)
        return np.zeros_like(ended), valid & ~ended

    @exactly_once
    def _play_step(
        self, request: envelope.Request, actions: NDArray[np.uint8]
    ) -> tuple[wire.RolloutReply, NDArray[np.uint8]]:
        """One step of a rollout, with actions (N,); a call of its own, which is over with it."""
        sent = self.game.to_server(actions).tobytes()
        answer = self._session.call("rollout", request, sent, self._largest_step)
        return answer[0].rollout, answer[1]

    @property
    def _largest_step(self) -> int:
        """Bytes of the largest reply with a single step, which goes in whatever its size."""
        spec = self._session.spec
        return 4 * spec.reset.size + spec.step.size + 40 * self.num_envs + 4096

    def _whole(self, collected: Collected) -> Rollout:
        """The rollout, at its end."""
        if self._episodes is not None:
            self._episodes.begin()
        return collected.whole(self.autoreset_mode is AutoresetMode.SAME_STEP)

    def _actions_to_play(self, actions: object, steps: int) -> NDArray[np.uint8]:
        """Actions (T, N), checked."""
        array = _arguments.integers("actions", actions, (steps, self.num_envs))
        is_bad = (array < 0) | (array >= self.num_actions)
        if is_bad.any():
            step, lane = (int(index) for index in np.argwhere(is_bad)[0])
            raise InvalidArgument(
                f"actions[{step}, {lane}] is {array[step, lane]}; expected 0 ... "
                f"{self.num_actions - 1}",
                field="actions",
                lane=lane,
            )
        return array.astype(np.uint8)


def reply_bytes(session: Session) -> int:
    """Bytes that a rollout's reply is to have at most, if a step goes in."""
    several = _STEPS_OF_A_REPLY * session.spec.step.size
    return max(_REPLY_BYTES, min(several, _MOST_REPLY_BYTES))
