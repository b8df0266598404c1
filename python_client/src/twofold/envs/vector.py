"""The vector environment, whatever the game: Gymnasium's API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, Literal, NoReturn

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray
from typing_extensions import Self, Unpack

from twofold import _arguments
from twofold.client.payloads import Layout, make_space
from twofold.client.session import Session, exactly_once, in_parts, waiting
from twofold.envs import rendering, rollouts, snapshots
from twofold.envs.arguments import RENDER_MODES, VectorEnvArguments
from twofold.envs.episodes import EPISODE, Episodes
from twofold.envs.resets import reset_mask, reset_request, start_boards
from twofold.envs.results import Array, InfosT, ObsT, Results, Stepped, Target
from twofold.envs.rollout import Rollout
from twofold.envs.rollouts import Progress
from twofold.envs.seeding import (
    BoardSeeds,
    Seed,
    board_seeds,
    consecutive,
    draw_seed,
    fork_seeds,
)
from twofold.envs.settings import Settings
from twofold.errors import InvalidArgument, ProtocolError, RequestError
from twofold.games.drawing import Picture
from twofold.games.spec import GameSpec
from twofold.policies.choosers import PolicyLike, open_for_rollouts
from twofold.policies.lookup import resolve
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment

_AFTERSTATES = envelope.Request(afterstates={})
KEEPALIVE = envelope.Request(keepalive={})


class TwofoldVectorEnv(VectorEnv[ObsT, ArrayLike, Array], Generic[ObsT, InfosT]):
    """N boards of one game, in this process or on a server, stepped together.

    The base class of each game's vector environment, which adds the game's own arguments; make one
    with `gymnasium.make_vec`. Arrays handed out are fresh, aligned and writable; those of one call
    are views of one block of memory. Infos are dicts; where Gymnasium types them as dict[str, Any],
    each game has a TypedDict, which mypy takes for another type.

    Args:
        game: The game with its arguments.
        num_envs: Number of boards N.
        obs: The form of observations; each game's class lists them.
        arguments: Those of `VectorEnvArguments`.

    Attributes:
        game: The game with its arguments.
        observation_form: The form of the observations.
        extra_infos: The names of the infos on request.
        num_actions: The number of actions.
        server_version: The version of the service.
        reward_terms: The names of the reward's terms: the columns of the info `reward_terms`.

    Raises:
        InvalidArgument: An argument is wrong; `field` names it.
        TransportError: No server.
    """

    def __init__(
        self,
        game: GameSpec,
        num_envs: int = 1,
        *,
        obs: str = "array",
        **arguments: Unpack[VectorEnvArguments],
    ) -> None:
        owner = type(self).__name__
        settings = Settings.read(owner, game, {"obs": obs, **arguments})
        self._session = settings.session(owner, num_envs)
        self._begin(settings)

    @classmethod
    def _around(cls, session: Session, settings: Settings, others: Mapping[str, Any]) -> Self:
        """Returns an environment around a session that exists, with these other attributes."""
        envs = cls.__new__(cls)
        # At once: whenever an interrupt comes, the environment has no other session to close.
        vars(envs).update(others, _session=session)
        envs._begin(settings)
        return envs

    def _begin(self, settings: Settings) -> None:
        """Reads what the environment is from its settings and its session."""
        self._settings, session = settings, self._session
        self.game = settings.game
        self.observation_form = settings.form
        self.extra_infos = settings.extra_infos
        self.server_version = session.server_version
        self.autoreset_mode = settings.autoreset_mode
        self.render_mode = settings.render_mode
        self.metadata = {
            "render_modes": RENDER_MODES,
            "render_fps": 4,
            "autoreset_mode": settings.autoreset_mode,
        }
        self._np_random = self._np_random_seed = None
        self.num_envs = int(session.create.num_envs)
        random_bytes = session.surroundings.random_bytes
        self._seeds = BoardSeeds(self.num_envs, random_bytes, session.was_reset)
        session.on_seeds = self._seeds.done
        try:
            self._read_spec(session.spec)
        except BaseException:
            session.close()
            raise

    def _read_spec(self, spec: environment.CreateReply) -> None:
        self._board_space = make_space(spec.board_space)
        self.single_action_space = make_space(spec.action_space)
        if not isinstance(self.single_action_space, gym.spaces.Discrete):
            raise ProtocolError("the server's actions are not integers")
        self.num_actions = int(self.single_action_space.n)
        boards, form = make_space(spec.observation_space), self.observation_form
        self.single_observation_space = form.space(boards, self.num_actions)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.reward_terms = tuple(spec.reward_terms)
        self._results = Results(spec, self.num_envs, self.game, form)
        # For resets and steps; the other methods' results are always fresh.
        self._target = None if self._settings.copy else self._results.target(spec)
        self._episodes = (
            Episodes(self.num_envs, self.autoreset_mode, self.game.measures)
            if EPISODE in self.extra_infos
            else None
        )
        has_afterstates = len(spec.afterstates.arrays) > 0
        self._afterstates_layout = Layout(
            spec.afterstates, ("boards", "rewards", "mask") if has_afterstates else ()
        )

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuses `pickle` and `copy.deepcopy`.

        Raises:
            TypeError: The text names what to do instead.
        """
        raise TypeError(
            f"{type(self).__name__} can't be pickled or deep-copied, since its boards live in a "
            "session: fork() copies boards to another environment, snapshot() returns them as "
            "bytes for restore(), and a worker process makes an environment of its own"
        )

    def close_extras(self, **kwargs: Any) -> None:
        """Ends the session; quick, and no error when the server is gone."""
        # Gymnasium also closes an environment whose making failed.
        session: Session | None = vars(self).get("_session")
        if session is not None:
            session.close()

    @exactly_once
    def reset(  # type: ignore[override]
        self, *, seed: Seed = None, options: dict[str, Any] | None = None
    ) -> tuple[ObsT, InfosT]:
        """Starts new episodes.

        Args:
            seed: An int s seeds board i with s + i (modulo 2^64); a list gives each board its own,
                None in it leaving that board's stream as it is; None leaves all as they are. The
                first reset draws a seed from the system instead of None, and `np_random_seed`
                returns it.
            options: May hold "reset_mask", bool (N,): only these boards start anew; and "boards",
                uint8 (N, rows, columns): the boards to start from, lanes outside the mask ignored.
                The first reset takes no mask.

        Returns:
            Observations (N, …), of boards outside the mask too, as they stand; and infos: for each
            name an array (N, …), and `_name`, bool (N,), true for all boards. With obs="dict" the
            observations are a dict of two arrays, which share no memory with the infos.

        Raises:
            InvalidArgument: A seed or an option is wrong; `field` and `lane` say which.
            TransportError: No answer.
        """
        return self._reset_once(seed, options)

    def _reset_once(self, seed: Seed, options: dict[str, Any] | None) -> tuple[ObsT, InfosT]:
        """A reset inside a call."""
        seeds, seeded = board_seeds(seed, self.num_envs)
        options = _arguments.options(options)
        mask = reset_mask(options, self.num_envs)
        boards = options.get("boards")
        if boards is not None:
            boards = start_boards(boards, mask, self._board_space, self.game.board_numbers)
        first_seeds = self._first_seeds(mask, seeded, seeds, boards)
        if first_seeds is None:
            seeded = seeded & mask
        else:
            seeded, seeds = mask, first_seeds
        request, payload = reset_request(mask, seeded, seeds, boards)
        self._seeds.plan(payload, seeded, seeds)
        results = self._renew("reset", request, payload, mask, self._target)
        if isinstance(seed, (int, np.integer)):
            super().reset(seed=int(seed))
        return results

    def _renew(
        self,
        slot: str,
        request: envelope.Request,
        payload: bytes | None,
        lanes: NDArray[np.bool_],
        target: Target | None = None,
    ) -> tuple[ObsT, InfosT]:
        """Puts other boards on some lanes, bool (N,), by a request; returns all results."""
        buffer = self._results.buffer(target)
        self._session.call(slot, request, payload, into=buffer)
        if self._episodes is not None:
            self._episodes.begin(lanes)
        return self._results.of_reset(buffer[0], target)

    def _first_seeds(
        self,
        mask: NDArray[np.bool_],
        seeded: NDArray[np.bool_],
        seeds: NDArray[np.uint64],
        boards: Array | None,
    ) -> NDArray[np.uint64] | None:
        """The seeds of a first reset, uint64 (N,), drawn for boards that the caller gave none.

        None if another reset came before: then boards without a seed go on with their streams.
        """
        unreturned = self._session.state.unreturned
        was_reset = self._seeds.seeds is not None
        if was_reset and (unreturned is None or unreturned is not self._seeds.first):
            return None
        first = np.where(seeded, seeds, consecutive(self._seeds.drawn, self.num_envs))
        _, payload = reset_request(mask, mask, first, boards)
        is_again = unreturned is not None and unreturned.payload == payload
        if unreturned is not None and not is_again and not was_reset:
            # It may be a first reset with other seeds; any request has it carried out before.
            self._session.call("keepalive", KEEPALIVE)
            was_reset = self._seeds.seeds is not None
        return None if was_reset and not is_again else first

    @exactly_once
    def step(self, actions: ArrayLike) -> Stepped[ObsT, InfosT]:  # type: ignore[override]
        """Plays one action on each board.

        Args:
            actions: Integers (N,) of any integer dtype.

        Returns:
            observations (N, …), rewards float32 (N,), terminations and truncations bool (N,), and
            infos as `reset` returns them. With SAME_STEP, where episodes have ended, the
            observations and infos of their boards are those of the new episodes, and infos also has
            `final_obs`, an object array (N,) of observations and None, and `final_info`, infos
            that are valid for these boards only; `_final_obs` and `_final_info`, bool (N,), say
            which they are.

        Raises:
            InvalidArgument: The actions' dtype, shape or range is wrong; `lane` is the first.
            FailedPrecondition: A board was never reset, or is finished and autoreset is disabled.
            StepPending: The last step, of other actions, got no answer.
            ShuttingDown, TransportError: No answer. The same call again collects it, and so does
                `collect`.
        """
        return self._step_once(actions)

    def _step_once(self, actions: ArrayLike) -> Stepped[ObsT, InfosT]:
        """A step inside a call."""
        # The carrier checks the range where it plays them.
        numbers = self._server_actions(actions, checks_range=False)
        buffer = self._results.buffer(self._target)
        try:
            reply, _ = self._session.step(numbers, buffer)
        except InvalidArgument as error:
            if error.field == "actions":
                # A carrier may have stopped at a later one, which does not fit into a byte.
                self._check_range(numbers)
            raise
        return self._stepped(reply, buffer[0])

    def _stepped(self, reply: envelope.Reply, memory: NDArray[np.uint8]) -> Stepped[ObsT, InfosT]:
        """The results of the newest request, a step, from its reply and payload."""
        stepped = self._results.of_step(reply, memory, self._target)
        if self._episodes is not None:
            self._episodes.add(stepped, self._session.operation)
        return stepped

    @exactly_once
    def step_async(self, actions: ArrayLike) -> None:
        """Begins a step, whose results `step_wait` returns; nothing is called in between.

        Over ZeroMQ it only sends the request, which the server carries out meanwhile. In this
        process it carries the step out; with copy=False the arrays of the last step change then.

        Raises:
            InvalidArgument: The actions' dtype, shape or range is wrong; `lane` is the first. There
                is no step under way then, and none after any other error.
            gymnasium.error.AlreadyPendingCallError: A step is under way. Every other call raises it
                too, except `collect`, which does what `step_wait` does, and `discard` and `close`,
                which give the step up.
            FailedPrecondition, TransportError: What `step` raises, if that is known already.
        """
        numbers = self._server_actions(actions, checks_range=True)
        self._awaited = self._results.buffer(self._target)
        self._session.step_async(numbers, self._awaited)

    @waiting
    def step_wait(self) -> Stepped[ObsT, InfosT]:
        """What `step` returns, of the step that `step_async` has begun.

        Raises:
            gymnasium.error.NoAsyncCallError: No step was begun.
            FailedPrecondition: As `step` does; the step is over, and was not applied.
            ShuttingDown, TransportError: No answer. The same call again collects it.
        """
        self._session.check_begun()
        return self._collected()

    @waiting
    def collect(self) -> Stepped[ObsT, InfosT]:
        """The results of a step that got no answer, was interrupted, or was begun by `step_async`.

        Raises:
            gymnasium.error.NoAsyncCallError: There is no such step.
            FailedPrecondition: As `step` does; the step is over, and was not applied.
            ShuttingDown, TransportError: Still no answer.
        """
        return self._collected()

    def _collected(self) -> Stepped[ObsT, InfosT]:
        """The results of the newest step, inside a call."""
        is_begun = self._session.state.is_awaited
        buffer = self._awaited if is_begun else self._results.buffer(self._target)
        reply, _ = self._session.collect(buffer)
        return self._stepped(reply, buffer[0])

    @waiting
    def discard(self) -> None:
        """Drops the results of such a step, rewards included, once it is over, if there is one.

        Raises:
            ShuttingDown, NotFound, TransportError: Still no answer.
        """
        if self._session.unreturned_step is not None:
            try:
                self._session.collect()
            except RequestError:
                # A refused one is over, and was not applied. It is not where another server may
                # still carry it out.
                if self._session.unreturned_step is not None:
                    raise

    @exactly_once
    def snapshot(self, lanes: ArrayLike | None = None) -> bytes:
        """Boards as bytes to keep: everything that their future depends on; changes nothing.

        Args:
            lanes: Which boards, numbers (k,), all different; None for all.

        Returns:
            The board, score, counts, stream of random numbers and phase of each, with the rules
            that they are played by. docs/reference/formats.md has the form.

        Raises:
            InvalidArgument: A lane does not exist.
            FailedPrecondition: The boards were never reset.
            TransportError: No answer.
        """
        return snapshots.snapshot(self._session, lanes)

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
        asked = snapshots.restore_request(self.num_envs, blob, lanes, rows, seed)
        request, payload, replaced, seeds = asked
        self._seeds.plan(payload, replaced, seeds)
        return self._renew("restore", request, payload, replaced)

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
        snapshots.check_spawns(self.game, spawns, seed)
        create = environment.CreateRequest()
        create.CopyFrom(self._session.create)
        create.num_envs = count = numbers.size * copies
        self._session.link.check_limits(create)
        seeds, is_seeded = board_seeds(seed, count)
        blob = self.snapshot(numbers)
        rows = np.arange(numbers.size).repeat(copies)
        new_seeds = None
        if spawns == "fresh":
            drawn = draw_seed(count, self._session.surroundings.random_bytes)
            seeds = np.where(is_seeded, seeds, consecutive(drawn, count))
            new_seeds = fork_seeds(seeds, snapshots.generators(blob)[rows])
        copied = self._around(self._session.again(create), self._settings, vars(self))
        try:
            copied.restore(blob, rows=rows, seed=new_seeds)
        except BaseException:
            copied.close()
            raise
        return copied

    @in_parts
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

        A built-in policy plays where the boards are. A function is called before each step,
        with the observations in the environment's form, and only with boards that are being played;
        one that remembers (`PolicyWithMemory`) hears of every episode that begins, at the start of
        the rollout only of boards that no step was played on.

        Args:
            steps: How many, T.
            policy: A policy as for `evaluate`: "random", "fixed-order", "greedy", "expectimax",
                "optimal" or another name, one of `twofold.policies`, or a function (observations,
                action_mask) -> actions.
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
        chooser = None if policy is None else open_for_rollouts(resolve(policy), self)
        played = rollouts.rollout(
            self._session,
            self._results,
            steps,
            chooser,
            actions=actions,
            policy_seed=policy_seed,
            infos=infos,
            out=out,
            progress=progress,
        )
        if self._episodes is not None:
            self._episodes.begin()
        return played

    @exactly_once
    def observe(self) -> tuple[ObsT, InfosT]:
        """The current observations and infos again, as `reset` returns them; changes nothing."""
        return self._results.of_reset(self._results.observed(self._session))

    @exactly_once
    def boards(self) -> Array:
        """The boards as they are, (N, …), whatever the form of observations; changes nothing."""
        return self._results.boards(self._results.observed(self._session))

    @exactly_once
    def afterstates(self) -> tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.int8]]:
        """The boards after slide and merge and before the spawn, for each action; changes nothing.

        Returns:
            boards uint8 (N, actions, …); rewards float32 (N, actions); mask int8 (N, actions), 1
            where the action is legal. Rows of illegal actions mean nothing.
        """
        _, payload = self._session.call("afterstates", _AFTERSTATES)
        arrays = self._afterstates_layout.split(payload)
        boards, rewards, mask = (
            self.game.in_user_order(arrays[name], 1) for name in ("boards", "rewards", "mask")
        )
        return boards, rewards, mask

    def render(self) -> tuple[str, ...] | tuple[Picture, ...] | None:
        """The boards one by one: text, or pictures uint8 (height, width, 3), by the render mode.

        None, with a warning, without a render mode.
        """
        if self.render_mode is None:
            gym.logger.warn("render() needs an environment made with a render_mode")
            return None
        size = self._settings.render_size
        return rendering.draw(self.game, self.boards(), self.render_mode, size)

    def render_grid(self, columns: int | None = None, width: int = 1024) -> Picture:
        """All boards in one picture, side by side, in any render mode.

        Args:
            columns: Boards in a row; None for about as many as there are rows.
            width: Pixels, at most; each board is drawn at the size that fits.

        Returns:
            uint8 (height, width, 3), both even.

        Raises:
            InvalidArgument: An argument is wrong, or leaves a board less than 16 pixels.
            TransportError: No answer.
        """
        return rendering.draw_grid(self.game, self.num_envs, columns, width, self.boards)

    @exactly_once
    def keepalive(self) -> None:
        """Keeps the session from expiring; changes nothing.

        A server ends sessions without a request for its idle timeout, a day by default (a private
        server never does): call this now and then if the boards have to wait longer.

        Raises:
            NotFound: The session has ended already.
            TransportError: No answer.
        """
        self._session.call("keepalive", KEEPALIVE)

    @property
    def token(self) -> str:
        """The argument of `twofold.resume`; a secret: any client that has it can resume."""
        return self._session.token

    @property
    def requests(self) -> int:
        """Requests that the service has executed for these boards, including their creation.

        With recover=True the client's own requests are among them: a snapshot now and then, and the
        requests that recreate the boards after a loss.
        """
        return self._session.last_seq

    @property
    def last_results(self) -> tuple[Any, ...] | None:
        """The results of the last request before a resume, if it was a step or a reset; else None.

        The process that made that request may have died before it got the reply. `requests` says
        how many there were.
        """
        if self._session.inherited is None:
            return None
        reply, payload = self._session.inherited
        slot = reply.WhichOneof("result")
        if slot not in ("reset", "step"):
            return None
        # Memory of its own, since another call may be under way.
        memory = np.empty(self._results.size, np.uint8)
        memory[: payload.size] = payload
        if slot == "reset":
            return self._results.of_reset(memory)
        stepped = self._results.of_step(reply, memory)
        if self._episodes is not None:
            self._episodes.add_inherited(stepped, self._session.inherited)
        return stepped

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Each board's value of an attribute, as in Gymnasium's own vector environments.

        "action_masks" and "render" are the methods that each board has; the others are the batch's
        and are called on it, such as `envs.keepalive()`.

        Args:
            name: One of these methods, or an attribute.
            args: The method's arguments.
            kwargs: The same.

        Returns:
            N values.

        Raises:
            AttributeError: The attribute does not exist, or only the batch has the method.
        """
        if name == "action_masks":
            return tuple(self._action_masks(*args, **kwargs))
        if name == "render":
            return self.render(*args, **kwargs) or (None,) * self.num_envs
        return self.get_attr(name)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Returns an attribute of the batch once for each board; a space is the space of one board.

        Raises:
            AttributeError: The attribute does not exist, or is a method.
        """
        is_space = name in ("observation_space", "action_space")
        value = getattr(self, f"single_{name}" if is_space else name)
        if callable(value) and not isinstance(value, gym.Space):
            raise AttributeError(f"the boards are one batch, and have no {name}() of their own")
        return (value,) * self.num_envs

    def set_attr(self, name: str, values: Any) -> None:
        """Sets an attribute of the batch, which all boards share.

        Args:
            name: The attribute.
            values: The value, or a list or tuple with the same value for each board.

        Raises:
            AttributeError: The values differ.
        """
        each = values if isinstance(values, (list, tuple)) else [values] * self.num_envs
        if len(each) != self.num_envs or any(value != each[0] for value in each):
            raise AttributeError(f"{name!r} of single boards can't be set: they are one batch")
        setattr(self, name, each[0])

    def _action_masks(self) -> NDArray[np.bool_]:
        """The legal actions, bool (N, actions)."""
        infos: Any = self.observe()[1]
        return np.asarray(infos["action_mask"] == 1)

    def statistics(self, *, reset: bool = False) -> dict[str, float]:
        """Figures about the episodes that steps have ended, for any logger; of the client alone.

        Args:
            reset: Whether to begin anew afterwards.

        Returns:
            Since the environment was made, or since the last reset of the statistics: `episodes`,
            their number; `return_mean`, `return_min`, `return_max` and `length_mean`; of 2048
            `score_mean`, `score_max`, `max_tile`, and `reached_16` … `reached_32768`, the shares
            of episodes that reached these tiles; of Concentration `turns_mean` and `pairs_mean`;
            and `steps_per_second`, each board's step counted. Without an episode all but the first
            and the last are NaN. Episodes that end in rollouts or discarded steps do not count.

        Raises:
            InvalidArgument: The environment was made without extra_infos=("episode",).
        """
        if self._episodes is None:
            raise InvalidArgument(
                'statistics() needs an environment made with extra_infos=("episode",)',
                field="extra_infos",
            )
        with self._session.lock:
            return self._episodes.statistics(reset=_arguments.boolean("reset", reset))

    @property
    def np_random_seed(self) -> int | None:
        """The seed s, where board i was last seeded with s + i; -1 for other seeds and snapshots.

        Before the first reset: the seed from the system that a reset without a seed will use.
        """
        return self._seeds.common

    def _server_actions(
        self, actions: ArrayLike, *, checks_range: bool
    ) -> NDArray[np.integer[Any]]:
        """Actions (N,) as the server numbers them, in the dtype that they came in."""
        numbers = _arguments.integers("actions", actions, (self.num_envs,))
        if checks_range or self.game.server_actions is not None:
            self._check_range(numbers)
            return self.game.to_server(numbers)
        return numbers

    def _check_range(self, actions: NDArray[np.integer[Any]]) -> None:
        """Raises InvalidArgument for the first of the actions (N,) that is out of range."""
        is_bad = (actions < 0) | (actions >= self.num_actions)
        _arguments.refuse_lane("actions", actions, is_bad, f"0 ... {self.num_actions - 1}")
