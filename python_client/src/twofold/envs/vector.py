"""The vector environment of any game, with Gymnasium's API."""

from __future__ import annotations

import contextlib
import math
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
from twofold.client.session.link import REFUSED
from twofold.envs import rollouts, snapshots
from twofold.envs.arguments import RENDER_MODES, VectorEnvArguments
from twofold.envs.episodes import EPISODE, Episodes
from twofold.envs.resets import reset_mask, reset_request, start_boards
from twofold.envs.results import Array, InfosT, ObsT, Results, ReusedResults, Stepped
from twofold.envs.rollout import Rollout
from twofold.envs.rollouts import Progress
from twofold.envs.seeding import BoardSeeds, Seed, board_seeds, consecutive, draw_seed, fork_seeds
from twofold.envs.settings import Settings
from twofold.errors import InvalidArgument, ProtocolError
from twofold.games.drawing import Picture, side_by_side
from twofold.games.spec import GameSpec
from twofold.policies.choosers import OpenChooser, PolicyLike
from twofold.policies.lookup import open_for_rollouts
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment

_AFTERSTATES = envelope.Request(afterstates={})
KEEPALIVE = envelope.Request(keepalive={})

# In pixels: the space between the boards of a grid, the smallest size of a board (larger if its
# cells need more), and the largest width.
_GAP = 8
_SMALLEST_BOARD = 16
_LARGEST_WIDTH = 16384


class TwofoldVectorEnv(VectorEnv[ObsT, ArrayLike, Array], Generic[ObsT, InfosT]):
    """N boards of one game, in this process or on a server, stepped together.

    This is the base class of each game's vector environment, which adds the game's own arguments.
    Make one with `gymnasium.make_vec`. Returned arrays are new, aligned and writable. The arrays
    from one call share a block of memory. Infos are dicts, with a TypedDict for each game.

    Args:
        game: The game with its arguments.
        num_envs: The number of boards N.
        obs: The form of observations; each game's class lists the forms.
        arguments: See `VectorEnvArguments`.

    Attributes:
        game: The game with its arguments.
        observation_form: The form of the observations.
        extra_infos: The names of the infos to add to each step.
        num_actions: The number of actions.
        server_version: The version of the service.
        reward_terms: The names of the reward's terms: the columns of the info `reward_terms`.

    Raises:
        InvalidArgument: An argument is wrong; `field` names it.
        TransportError: No server answered.
    """

    def __init__(
        self,
        game: GameSpec,
        num_envs: int = 1,
        *,
        obs: str = "array",
        **arguments: Unpack[VectorEnvArguments],
    ) -> None:
        settings = Settings.read(game.environment_id, game, {"obs": obs, **arguments})
        self._session = settings.session(num_envs)
        self._begin(settings)

    @classmethod
    def _around(cls, session: Session, settings: Settings, others: Mapping[str, Any]) -> Self:
        """Creates an environment for an existing session, with the attributes in `others`."""
        envs = cls.__new__(cls)
        # One update, so that after an interrupt either no session or this one needs closing.
        vars(envs).update(others, _session=session)
        envs._begin(settings)
        return envs

    def _begin(self, settings: Settings) -> None:
        """Sets the attributes that depend on the settings and the session."""
        self._settings, session = settings, self._session
        self.game = settings.game
        self.observation_form = settings.form
        self.extra_infos = settings.extra_infos
        self.server_version = session.link.carrier.service.server_version
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
        session.on_seeds = self._seeds.executed
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
        # For resets and steps; the results of other methods are always new.
        self._step_results = self._results
        if not self._settings.copy:
            self._step_results = ReusedResults(spec, self.num_envs, self.game, form)
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
            TypeError: Always; the message suggests alternatives.
        """
        raise TypeError(
            f"{type(self).__name__} can't be pickled or deep-copied, because its boards belong to "
            "a session: fork() copies boards to another environment, snapshot() returns them as "
            "bytes for restore(), and each worker process must make its own environment"
        )

    def close_extras(self, **kwargs: Any) -> None:
        """Ends the session quickly, without an error if the server is gone.

        Another thread's call returns its results first. If it takes longer than a second, this
        method does not wait for it, and the session ends after the call.
        """
        # Gymnasium also closes a partly constructed environment.
        session: Session | None = vars(self).get("_session")
        if session is not None:
            session.close()

    @exactly_once
    def reset(  # type: ignore[override]
        self, *, seed: Seed = None, options: dict[str, Any] | None = None
    ) -> tuple[ObsT, InfosT]:
        """Starts new episodes.

        Args:
            seed: An int s seeds board i with s + i (modulo 2^64). A list has a seed for each board,
                or None to continue that board's stream. None continues all streams; in the first
                reset, it means a random seed, which `np_random_seed` returns.
            options: "reset_mask", bool (N,), selects the boards to reset; the first reset must
                reset all boards. "boards", uint8 (N, rows, columns), contains the boards to start
                from; those outside the mask are ignored.

        Returns:
            Observations (N, …), and infos: for each name an array (N, …), and `_name`, bool (N,),
            true for all boards. Both include the current state of boards outside the mask. With
            obs="dict" the observations are a dict of two arrays, which share no memory with infos.

        Raises:
            InvalidArgument: A seed or an option is wrong; `field` and `lane` name it.
            TransportError: No answer came.
        """
        return self._reset_once(seed, options)

    def _reset_once(self, seed: Seed, options: dict[str, Any] | None) -> tuple[ObsT, InfosT]:
        """Resets the boards. Only methods decorated with `exactly_once` may call it."""
        seeds, seeded = board_seeds(seed, self.num_envs)
        options = _arguments.options(options, "reset_mask", "boards")
        mask = reset_mask(options, self.num_envs)
        boards = options.get("boards")
        if boards is not None:
            boards = start_boards(boards, mask, self._board_space, self.game.board_numbers)
        seeded, seeds = self._new_seeds(mask, seeded, seeds, boards)
        request, payload = reset_request(mask, seeded, seeds, boards)
        results = self._renew(request, payload, mask, self._step_results)
        if isinstance(seed, (int, np.integer)):
            super().reset(seed=int(seed))
        return results

    def _renew(
        self,
        request: envelope.Request,
        payload: bytes | None,
        lanes: NDArray[np.bool_],
        results: Results,
    ) -> tuple[ObsT, InfosT]:
        """Makes a request that replaces the boards in `lanes`, bool (N,).

        Returns the observations and infos of all boards.
        """
        buffer = results.buffer()
        self._session.call(request, payload, into=buffer)
        if self._episodes is not None:
            self._episodes.begin(lanes)
        return results.of_reset(buffer[0])

    def _new_seeds(
        self,
        mask: NDArray[np.bool_],
        seeded: NDArray[np.bool_],
        seeds: NDArray[np.uint64],
        boards: Array | None,
    ) -> tuple[NDArray[np.bool_], NDArray[np.uint64]]:
        """Returns a mask of the boards that a reset seeds, bool (N,), and their seeds, uint64 (N,).

        A first reset seeds all boards, with drawn seeds where the caller omits them. After an
        earlier reset, boards without a seed continue their streams.
        """
        given = seeded & mask, seeds
        unreturned = self._session.state.unreturned
        was_reset = self._seeds.common is not None
        if was_reset and (unreturned is None or unreturned is not self._seeds.first):
            return given
        first = np.where(seeded, seeds, consecutive(self._seeds.drawn, self.num_envs))
        _, payload = reset_request(mask, mask, first, boards)
        is_again = unreturned is not None and unreturned.payload == payload
        if unreturned is not None and not is_again and not was_reset:
            # The pending request may be a first reset with other seeds. Any request finishes it.
            self._session.call(KEEPALIVE)
            was_reset = self._seeds.common is not None
        return given if was_reset and not is_again else (mask, first)

    @exactly_once
    def step(self, actions: ArrayLike) -> Stepped[ObsT, InfosT]:  # type: ignore[override]
        """Plays one action on each board.

        Args:
            actions: Integers (N,) of any integer dtype.

        Returns:
            Observations (N, …), rewards float32 (N,), terminations and truncations bool (N,), and
            infos as from `reset`. With SAME_STEP, if a board's episode ends, its observation and
            infos belong to the new episode. The infos then also contain the ended episodes'
            last observations and infos: `final_obs`, an object array (N,) with None for other
            boards, and `final_info`. `_final_obs` and `_final_info`, bool (N,), mark valid rows.

        Raises:
            InvalidArgument: The actions' dtype, shape or range is wrong; `lane` names the first
                invalid one.
            FailedPrecondition: A board was never reset, or is finished and autoreset is disabled.
            StepPending: The last step has no answer yet, and its actions were different.
            PermissionDenied, ShuttingDown, TransportError: No answer came. To get the results,
                repeat the call or call `collect`.
        """
        return self._step_once(actions)

    def _step_once(self, actions: ArrayLike) -> Stepped[ObsT, InfosT]:
        """Plays a step. Only methods decorated with `exactly_once` may call it."""
        # The carrier checks the range when it sends the actions.
        numbers = self._server_actions(actions, checks_range=False)
        buffer = self._step_results.buffer()
        try:
            reply, _ = self._session.step(numbers, buffer)
        except InvalidArgument as error:
            if error.field == "actions":
                # The carrier may have reported a later action, which does not fit into a byte.
                self._check_range(numbers)
            raise
        return self._stepped(reply, buffer[0])

    def _stepped(self, reply: envelope.Reply, memory: NDArray[np.uint8]) -> Stepped[ObsT, InfosT]:
        """Reads the results of the newest step from its reply and payload."""
        stepped = self._step_results.of_step(reply, memory)
        if self._episodes is not None:
            self._episodes.add(stepped, self._session.operation)
        return stepped

    @exactly_once
    def step_async(self, actions: ArrayLike) -> None:
        """Begins a step; `step_wait` returns its results. No other call may come in between.

        Over ZeroMQ, this method only sends the request, which the server executes in the
        background. An embedded service executes the step at once, which with copy=False changes the
        arrays of the last step.

        Raises:
            InvalidArgument: The actions' dtype, shape or range is wrong; `lane` names the first
                invalid one. After this or any other error, no step is in progress.
            gymnasium.error.AlreadyPendingCallError: A step is in progress. Every other call raises
                this too, except `collect`, which acts like `step_wait`, and `discard` and `close`,
                which drop the step.
            FailedPrecondition, TransportError: As in `step`, if the error is already known.
        """
        numbers = self._server_actions(actions, checks_range=True)
        self._awaited = self._step_results.buffer()
        self._session.step_async(numbers, self._awaited)

    @waiting
    def step_wait(self) -> Stepped[ObsT, InfosT]:
        """Returns the results of the step that `step_async` began. See `collect` for its errors."""
        return self._collected()

    @waiting
    def collect(self) -> Stepped[ObsT, InfosT]:
        """Returns the results of a step that is in progress, was interrupted, or got no answer.

        Raises:
            gymnasium.error.NoAsyncCallError: No step has outstanding results.
            FailedPrecondition: As in `step`; the step was refused and changed nothing.
            PermissionDenied, ShuttingDown, TransportError: No answer has come yet.
        """
        return self._collected()

    def _collected(self) -> Stepped[ObsT, InfosT]:
        """Returns the newest step's results. Only methods decorated with `waiting` may call it."""
        is_begun = self._session.state.is_awaited
        buffer = self._awaited if is_begun else self._step_results.buffer()
        reply, _ = self._session.collect(buffer)
        return self._stepped(reply, buffer[0])

    @waiting
    def discard(self) -> None:
        """Finishes a step that has not returned its results, if any, and discards the results.

        Raises:
            PermissionDenied, ShuttingDown, TransportError: No answer has come yet.
            NotFound, OutOfSequence, StaleEpoch: The boards are lost, or belong to another client.
        """
        if self._session.unreturned_step is not None:
            # A refused step changed nothing.
            with contextlib.suppress(*REFUSED):
                self._session.collect()

    @exactly_once
    def snapshot(self, lanes: ArrayLike | None = None) -> bytes:
        """Returns the full states of boards as bytes; changes nothing.

        Args:
            lanes: The boards' numbers (k,), all different; None for all.

        Returns:
            The rules, and each board's cells, score, counts, stream of random numbers and phase.
            The page "File formats" describes the format.

        Raises:
            InvalidArgument: A lane does not exist.
            FailedPrecondition: The boards were never reset.
            TransportError: No answer came.
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
        """Replaces boards with a snapshot's boards.

        The snapshot may come from another environment, process or server. Its rules must be the
        same (size, goal, spawns, start tiles, illegal actions); everything else may differ. The
        boards continue the snapshot's streams, and therefore its trajectories.

        Args:
            blob: A snapshot.
            lanes: The numbers (k,) of the boards to replace, all different; None for all. Before
                the first reset, all boards must be replaced.
            rows: For each replaced board, the index of its new state in the snapshot, (k,) from 0;
                an index may repeat. None takes the snapshot's boards in order.
            seed: The seeds of new streams: an int s seeds the i-th replaced board with s + i; a
                list has a seed for each. None continues the snapshot's streams.

        Returns:
            The current observations and infos of all boards, as from `reset`.

        Raises:
            InvalidArgument: An argument is wrong; nothing has changed. `field` is "blob" if the
                snapshot is damaged or has another version, and "extra_infos" if it lacks the
                episode returns that this environment reports. If the rules differ, `field` names
                the first rule that differs.
            FailedPrecondition: Some boards were never reset, and `lanes` does not contain them.
            TransportError: No answer came.
        """
        asked = snapshots.restore_request(self.num_envs, blob, lanes, rows, seed)
        request, payload, replaced = asked
        return self._renew(request, payload, replaced, self._results)

    def fork(
        self,
        lanes: ArrayLike,
        copies: int = 1,
        *,
        spawns: Literal["fresh", "same"] = "fresh",
        seed: Seed = None,
    ) -> Self:
        """Copies boards to a new environment at the same endpoint.

        Args:
            lanes: The boards' numbers (k,), all different.
            copies: The number of copies of each board.
            spawns: "fresh" gives each copy its own stream of random numbers, so its future is a
                sample of the possible futures. "same" lets each copy continue its board's stream,
                which repeats a trajectory. A search over such copies sees the board's actual
                future: it is **clairvoyant** and scores higher than any policy can, so do not
                publish its results. Concentration supports only "same", because its copies share
                the unseen cards.
            seed: With fresh spawns, the copies' seeds, as in `reset`; None means a random seed. For
                the same boards and the same seeds, the copies are the same.

        Returns:
            An environment with k * copies boards and the same arguments. Its board i is a copy of
            board lanes[i // copies]. Its `observe` returns the observations. Close it after use.

        Raises:
            InvalidArgument: An argument is wrong; `field` names it.
            FailedPrecondition: The boards were never reset.
            TransportError: No answer came.
        """
        numbers = _arguments.lanes(lanes, self.num_envs)
        copies = _arguments.integer("copies", copies, 1, 2**40)
        snapshots.check_spawns(self.game, spawns, seed)
        create = environment.CreateRequest()
        create.CopyFrom(self._session.create)
        create.num_envs = count = numbers.size * copies
        blob = self.snapshot(numbers)
        # The service refuses too many boards, before this process allocates memory for them.
        copied = self._around(self._session.again(create), self._settings, vars(self))
        try:
            seeds, is_seeded = board_seeds(seed, count)
            rows = np.arange(numbers.size).repeat(copies)
            new_seeds = None
            if spawns == "fresh":
                drawn = draw_seed(count, self._session.surroundings.random_bytes)
                seeds = np.where(is_seeded, seeds, consecutive(drawn, count))
                new_seeds = fork_seeds(seeds, snapshots.generators(blob)[rows])
            copied.restore(blob, rows=rows, seed=new_seeds)
        except BaseException:
            copied.close()
            raise
        return copied

    @in_parts
    def rollout(
        self,
        steps: int,
        policy: PolicyLike | OpenChooser | None = None,
        *,
        actions: ArrayLike | None = None,
        infos: Sequence[str] = (),
        out: Rollout | Mapping[str, object] | None = None,
        progress: Progress | None = None,
    ) -> Rollout:
        """Plays many steps from the boards' current states.

        The results are the same as in a loop that calls a policy and `step`. Each request is
        limited in size and time, and is applied once. To cancel the rollout, raise an exception in
        `progress` or in the policy; steps that were already executed are not undone.

        A built-in policy plays in the service. A function is called before each step, with the
        observations of the running boards in the environment's form. A policy with a memory
        (`PolicyWithMemory`) is notified of each new episode. At the start of the rollout, it is
        notified only of boards whose episode has no steps yet.

        Args:
            steps: The number of steps T.
            policy: A policy as for `evaluate`: a name such as "random", "fixed-order", "greedy",
                "expectimax" or "optimal", a policy from `twofold.policies`, or a function
                (observations, action_mask) -> actions.
            actions: Integers (T, N) to play instead of a policy's actions.
            infos: The names of the infos to return after each step.
            out: The arrays to write to: a `Rollout`, or a mapping with any of its arrays by name
                (infos in a nested mapping). They must be numpy arrays or CPU tensors of the exact
                shapes and dtypes. The returned rollout contains these arrays, and numpy views of
                the tensors. After an error they may contain only some of the steps.
            progress: A function to call with the number of executed steps after each request.

        Raises:
            InvalidArgument: An argument is wrong; `field` names it.
            PolicyError: The function raised an exception, or did not return legal actions. Earlier
                steps are not undone.
            FailedPrecondition: The boards were never reset.
            ResourceExhausted: A search exceeds the server's limits.
            TransportError: No answer came; some steps may have been executed.
        """
        chooser = None if policy is None else open_for_rollouts(policy, self)
        played = rollouts.rollout(
            self._session,
            self._results,
            steps,
            chooser,
            actions=actions,
            infos=infos,
            out=out,
            progress=progress,
        )
        if self._episodes is not None:
            self._episodes.begin()
        return played

    @exactly_once
    def observe(self) -> tuple[ObsT, InfosT]:
        """Returns the current observations and infos in the form of `reset`; changes nothing."""
        return self._results.of_reset(self._results.observed(self._session))

    @exactly_once
    def boards(self) -> Array:
        """Returns the plain boards, (N, …), for any form of observations; changes nothing."""
        return self._results.boards(self._results.observed(self._session))

    @exactly_once
    def afterstates(self) -> tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.int8]]:
        """Returns the afterstate of each action; changes nothing.

        Returns:
            Boards uint8 (N, actions, …), rewards float32 (N, actions), and mask int8 (N, actions),
            1 for legal actions. An illegal action leaves its board unchanged.
        """
        _, payload = self._session.call(_AFTERSTATES)
        arrays = self._afterstates_layout.split(payload)
        boards, rewards, mask = (
            self.game.in_user_order(arrays[name], 1) for name in ("boards", "rewards", "mask")
        )
        return boards, rewards, mask

    def render(self) -> tuple[str, ...] | tuple[Picture, ...] | None:
        """Draws each board in the render mode: as text, or as a picture, uint8 (height, width, 3).

        Without a render mode, warns and returns None.
        """
        if self.render_mode is None:
            gym.logger.warn("render() draws nothing without a render mode; pass render_mode=")
            return None
        boards, size = self.boards(), self._settings.render_size
        if self.render_mode == "ansi":
            return tuple(map(self.game.text, boards))
        return tuple(self.game.picture(board, size) for board in boards)

    def render_grid(self, columns: int | None = None, width: int = 1024) -> Picture:
        """Draws all boards in a grid, in one picture, regardless of the render mode.

        Args:
            columns: The number of boards in a row; None for about as many columns as rows.
            width: The picture's maximum width in pixels, which determines the size of a board.

        Returns:
            uint8 (height, width, 3), where height and width are even.

        Raises:
            InvalidArgument: An argument is wrong, or a board would be smaller than 16 pixels or two
                pixels per cell.
            TransportError: No answer came.
        """
        if columns is None:
            columns = math.ceil(math.sqrt(self.num_envs))
        columns = min(_arguments.integer("columns", columns, 1), self.num_envs)
        # Each cell needs a pixel and a gap.
        smallest = max(_SMALLEST_BOARD, 2 * max(self.game.rows, self.game.columns))
        most = (_LARGEST_WIDTH - _GAP) // (smallest + _GAP)
        if columns > most:
            raise InvalidArgument(
                f"columns is {columns:,}; expected at most {most}, because a board is at least "
                f"{smallest} pixels wide and the picture at most {_LARGEST_WIDTH:,}",
                field="columns",
            )
        least = columns * (smallest + _GAP) + _GAP
        width = _arguments.integer("width", width, least, _LARGEST_WIDTH)
        size = (width - _GAP) // columns - _GAP
        pictures = [self.game.picture(board, size) for board in self.boards()]
        return side_by_side(pictures, columns, _GAP)

    @exactly_once
    def keepalive(self) -> None:
        """Keeps the session from expiring; changes nothing.

        A server ends a session that makes no request within the idle timeout, a day by default. A
        private server never does. If the boards may be idle for longer, call this periodically.

        Raises:
            NotFound: The session has ended already.
            TransportError: No answer came.
        """
        self._session.call(KEEPALIVE)

    @property
    def token(self) -> str:
        """The token for `twofold.resume`. Keep it secret: any client that has it can resume."""
        return self._session.token

    @property
    def requests(self) -> int:
        """The number of requests that the service has executed in the session with this `token`.

        It includes the session's creation and, with recover=True, occasional snapshots. After a
        loss, the token changes, and the count restarts with the requests that recreate the boards.
        Compare only counts for the same token.
        """
        return self._session.last_seq

    @property
    def last_results(self) -> tuple[Any, ...] | None:
        """The results of the last request before a resume, if it was a step or a reset; else None.

        The process that made this request may have died before it got the reply.
        """
        if self._session.inherited is None:
            return None
        reply, payload = self._session.inherited
        slot = reply.WhichOneof("result")
        if slot not in ("reset", "step"):
            return None
        # In separate memory, because another call may be in progress.
        memory = np.empty(self._results.size, np.uint8)
        memory[: payload.size] = payload
        if slot == "reset":
            return self._results.of_reset(memory)
        stepped = self._results.of_step(reply, memory)
        if self._episodes is not None:
            self._episodes.add_inherited(stepped, self._session.inherited)
        return stepped

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Returns an attribute of each board, or the result of calling its method.

        Each board has the methods "action_masks" and "render". All other methods, such as
        `envs.keepalive()`, exist only for the batch.

        Args:
            name: "action_masks", "render" or an attribute.
            args: The method's arguments.
            kwargs: The method's keyword arguments.

        Returns:
            N values.

        Raises:
            AttributeError: The attribute does not exist, or the method exists only for the batch.
        """
        if name == "action_masks":
            return tuple(self._action_masks(*args, **kwargs))
        if name == "render":
            return self.render(*args, **kwargs) or (None,) * self.num_envs
        return self.get_attr(name)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Returns an attribute of the batch, repeated N times; for a space, the space of one board.

        Raises:
            AttributeError: The attribute does not exist, or is a method.
        """
        is_space = name in ("observation_space", "action_space")
        value = getattr(self, f"single_{name}" if is_space else name)
        if callable(value) and not isinstance(value, gym.Space):
            raise AttributeError(f"the boards are one batch; call envs.{name}() for all of them")
        return (value,) * self.num_envs

    def set_attr(self, name: str, values: Any) -> None:
        """Sets an attribute of the batch, which all boards share.

        Args:
            name: The attribute.
            values: The value, or a list or tuple that contains the same value for each board.

        Raises:
            AttributeError: The values differ.
        """
        each = values if isinstance(values, (list, tuple)) else [values] * self.num_envs
        is_shared = all(value is each[0] or np.array_equal(value, each[0]) for value in each)
        if len(each) != self.num_envs or not is_shared:
            raise AttributeError(
                f"{name!r} can't differ between boards, because they are one batch; pass one value"
            )
        setattr(self, name, each[0])

    def _action_masks(self) -> NDArray[np.bool_]:
        """Returns the legal actions, bool (N, actions)."""
        infos: Any = self.observe()[1]
        return np.asarray(infos["action_mask"] == 1)

    def statistics(self, *, reset: bool = False) -> dict[str, float]:
        """Returns statistics over the episodes that this client's steps ended, for any logger.

        Args:
            reset: Whether to reset the statistics afterwards.

        Returns:
            The values since the environment's creation or the last reset of the statistics. All
            games have `episodes`, `return_mean`, `return_min`, `return_max`, `length_mean` and
            `steps_per_second`, a rate summed over all boards. 2048 has `score_mean`, `score_max`,
            `max_tile` and `reached_16` … `reached_32768`, the shares of episodes that reached these
            tiles. Concentration has `turns_mean` and `pairs_mean`. Before the first episode ends,
            all are NaN except `episodes` and `steps_per_second`. Episodes that end in rollouts or
            discarded steps do not count.

        Raises:
            InvalidArgument: The environment was made without extra_infos=("episode",).
            ClosedError: The environment belongs to the process that forked this one.
            DeadlineExceeded: Another thread's call did not end within the timeout.
        """
        if self._episodes is None:
            raise InvalidArgument(
                'statistics() requires an environment made with extra_infos=("episode",)',
                field="extra_infos",
            )
        self._session.acquire()
        try:
            self._session.is_held = True
            return self._episodes.statistics(reset=_arguments.boolean("reset", reset))
        finally:
            self._session.is_held = False
            self._session.lock.release()

    @property
    def np_random_seed(self) -> int | None:
        """The seed s if all boards were last given the seeds s + i in one call, else -1.

        Before the first reset, it is the seed that a reset without a seed would use.
        """
        return self._seeds.drawn if self._seeds.common is None else self._seeds.common

    def _server_actions(
        self, actions: ArrayLike, *, checks_range: bool
    ) -> NDArray[np.integer[Any]]:
        """Converts actions (N,) from the user's order to the server's."""
        numbers = _arguments.integers("actions", actions, (self.num_envs,))
        if checks_range or self.game.server_actions is not None:
            self._check_range(numbers)
            return self.game.to_server(numbers)
        return numbers

    def _check_range(self, actions: NDArray[np.integer[Any]]) -> None:
        """Raises InvalidArgument for the first out-of-range action (N,)."""
        is_bad = (actions < 0) | (actions >= self.num_actions)
        _arguments.refuse_lane("actions", actions, is_bad, f"0 ... {self.num_actions - 1}")
