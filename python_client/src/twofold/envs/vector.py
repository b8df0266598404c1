"""The vector environment, whatever the game."""

from __future__ import annotations

import contextlib
import copy
import json
import math
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypedDict

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from twofold import _arguments
from twofold.client.curve import CurveKeys
from twofold.client.layout import Layout, make_space
from twofold.client.session import Session, exactly_once, open_session, waiting
from twofold.envs import rollout as _rollout
from twofold.envs import served_policies
from twofold.envs.results import Array, FreshResults, HeldResults, Observations
from twofold.envs.rollout import Rollout
from twofold.envs.seeding import (
    BoardSeeds,
    Seed,
    board_seeds,
    consecutive,
    draw_seed,
    drawn_seeds,
    fork_seeds,
)
from twofold.errors import InvalidArgument, ProtocolError, RequestError
from twofold.games.base import Game
from twofold.games.drawing import Picture, side_by_side
from twofold.games.rewards import Reward, extra_info_names, read_reward, reward_spec
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment

if TYPE_CHECKING:
    from typing_extensions import Self

RENDER_MODES = ["ansi", "rgb_array"]
DEFAULT_TIMEOUT = 30.0

_AUTORESET = {
    AutoresetMode.NEXT_STEP: environment.AUTORESET_MODE_NEXT_STEP,
    AutoresetMode.SAME_STEP: environment.AUTORESET_MODE_SAME_STEP,
    AutoresetMode.DISABLED: environment.AUTORESET_MODE_DISABLED,
}


class BatchArguments(TypedDict, total=False):
    """The arguments of `TwofoldVectorEnv` that a game hands on as they are."""

    extra_infos: Iterable[str]
    recover: bool
    endpoint: str | None
    curve: CurveKeys | None
    obs: str
    observation_key: str | None
    mask_key: str | None
    render_mode: str | None
    render_size: int
    timeout: float


class TwofoldVectorEnv(VectorEnv[Observations, ArrayLike, Array]):
    """N boards of one game on a server, stepped together.

    The base class of each game's vector environment, which adds the game's own arguments; make one
    with `gymnasium.make_vec`. Arrays handed out are fresh, aligned and writable; those of one call
    are views of one block of memory.

    Args:
        game: The game with its arguments.
        num_envs: Number of boards N.
        max_episode_steps: Steps after which the server truncates an episode; None for never.
        autoreset_mode: NEXT_STEP, SAME_STEP or DISABLED, as gymnasium's enum, its value or its
            name.
        reward: What a step earns; None for the game's own reward. docs/rewards.md.
        extra_infos: Infos of a step beyond the usual ones, by name; every game has "reward_terms",
            float32 (N, terms).
        action_order: The server's number of each action, where a dialect counts them in another
            order; None for the server's own.
        recover: Whether to make boards anew that the server has lost (docs/reliability.md).
        endpoint: "embedded" for this process itself, "private" for a server of this process's own,
            the address of a running one, or None for the environment variable TWOFOLD_ENDPOINT and
            without it "embedded".
        curve: Keys for an encrypted tcp endpoint, or None for the files that the environment
            variables TWOFOLD_CURVE_SERVER and TWOFOLD_CURVE_CLIENT name.
        obs: "array", or "dict" for observations with the action mask inside.
        observation_key: The observation's name in the dict; "observation" by default.
        mask_key: The mask's; "action_mask" by default.
        render_mode: None, "ansi" for text, or "rgb_array" for pictures.
        render_size: Pixels along the longer side of a board's picture, 32 ... 4096.
        timeout: Seconds that each call may take before DeadlineExceeded.
        copy: False for the same arrays and the same dict of infos from every reset and from every
            step, overwritten in place and nothing allocated. (Gymnasium's name, where it means the
            observations only; here it means rewards, flags and infos, too.)

    Attributes:
        reward_terms: The names of the reward's terms: the columns of the info `reward_terms`.

    Raises:
        InvalidArgument: An argument is wrong; `field` tells which.
        TransportError: No server.
    """

    # The arguments that a subclass was made with, for `resume`.
    _made_with: dict[str, Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> TwofoldVectorEnv:
        """Keeps the arguments, whatever they are in a subclass."""
        envs = super().__new__(cls)
        envs._made_with = {"num_envs": args[0], **kwargs} if args else kwargs
        return envs

    # Until there is a session: gymnasium 1.2 closes also what was never made.
    closed = True

    def __copy__(self) -> Self:
        # For `fork`; the pickling that `copy` goes by is refused.
        shallow: Self = object.__new__(type(self))
        vars(shallow).update(vars(self))
        return shallow

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuses `pickle` and `copy.deepcopy`.

        Raises:
            TypeError: The text names what there is in their place.
        """
        raise TypeError(
            f"{type(self).__name__} can't be pickled or deep-copied, since its boards live in a "
            "session: fork() copies boards to another environment, snapshot() returns them as "
            "bytes for restore(), and a worker process makes an environment of its own"
        )

    def __init__(
        self,
        game: Game,
        num_envs: int = 1,
        *,
        max_episode_steps: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        reward: Reward = None,
        extra_infos: Iterable[str] = (),
        action_order: tuple[int, ...] | None = None,
        recover: bool = False,
        endpoint: str | None = None,
        curve: CurveKeys | None = None,
        obs: str = "array",
        observation_key: str | None = None,
        mask_key: str | None = None,
        render_mode: str | None = None,
        render_size: int = 512,
        timeout: float = DEFAULT_TIMEOUT,
        copy: bool = True,
    ) -> None:
        self._copies = _arguments.boolean("copy", copy)
        num_envs = _arguments.integer("num_envs", num_envs, 1)
        self.autoreset_mode = _arguments.autoreset(autoreset_mode)
        if render_mode is not None and render_mode not in RENDER_MODES:
            raise InvalidArgument(
                f"render_mode is {render_mode!r}; expected None, 'ansi' or 'rgb_array'",
                field="render_mode",
            )
        self.render_mode = render_mode
        self._render_size = _arguments.integer("render_size", render_size, 32, 4096)
        self._game = game
        self._obs_keys = _obs_keys(obs, observation_key, mask_key)
        self._action_order = None if action_order is None else np.array(action_order, np.uint8)
        self.metadata = {
            "render_modes": RENDER_MODES,
            "render_fps": 4,
            "autoreset_mode": self.autoreset_mode,
        }

        create = environment.CreateRequest()
        create.CopyFrom(game.request)
        create.num_envs = num_envs
        create.autoreset_mode = _AUTORESET[self.autoreset_mode]
        content = read_reward(reward)
        if content is not reward and self._made_with.get("reward") is reward:
            # Whoever resumes the session may not have the file, or another one of its name.
            self._made_with["reward"] = content
        spec = reward_spec(content)
        if spec is not None:
            create.reward.CopyFrom(spec)
        create.extra_infos.extend(extra_info_names(extra_infos))
        if max_episode_steps is not None:
            create.max_episode_steps = _arguments.integer(
                "max_episode_steps", max_episode_steps, 1, 2**63 - 1
            )
        create.client_arguments = self._arguments_as_text()
        self._begin(
            open_session(
                create,
                endpoint=None if endpoint is None else _arguments.text("endpoint", endpoint),
                curve=curve,
                timeout=_arguments.real("timeout", timeout, 1e-3, 1e6, "seconds, more than 0"),
                recover=_arguments.boolean("recover", recover),
            )
        )

    def _begin(self, session: Session) -> None:
        """Takes a new session's boards as its own."""
        self._session = session
        self.num_envs = int(session.create.num_envs)
        self._seeds = session.seeds = BoardSeeds(self.num_envs)
        # What the first reset draws in place of None.
        self._drawn_seed: int | None = None
        try:
            self._read_spec(session.spec)
        except BaseException:
            session.close()
            raise
        self.closed = False

    def _read_spec(self, spec: environment.CreateReply) -> None:
        self._board_space = make_space(spec.board_space)
        observation_space = make_space(spec.observation_space)
        self.single_action_space = make_space(spec.action_space)
        if not isinstance(self.single_action_space, gym.spaces.Discrete):
            raise ProtocolError("the server's actions are not integers")
        self._num_actions = int(self.single_action_space.n)
        self.single_observation_space = observation_space
        if self._obs_keys is not None:
            parts = (observation_space, gym.spaces.MultiBinary(self._num_actions))
            self.single_observation_space = gym.spaces.Dict(
                dict(zip(self._obs_keys, parts, strict=True))
            )
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.reward_terms = tuple(spec.reward_terms)
        make = FreshResults if self._copies else HeldResults
        arguments = spec, self.num_envs, self._action_order, self._obs_keys
        self._results = make(*arguments)
        # Of what is not asked for at each step.
        self._fresh = self._results if self._copies else FreshResults(*arguments)
        has_afterstates = len(spec.afterstates.arrays) > 0
        self._afterstates_layout = Layout(
            spec.afterstates, ("boards", "rewards", "mask") if has_afterstates else ()
        )

    # ---- Gymnasium's methods ---------------------------------------------------------------------

    @exactly_once
    def reset(
        self, *, seed: Seed = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, Any]]:
        """Starts new episodes.

        Args:
            seed: An int s seeds board i with s + i (modulo 2^64); a list gives each board its own,
                None in it leaving that board's stream as it is; None leaves all as they are. The
                first reset draws a seed from the system in place of None; `np_random_seed` tells
                it.
            options: May hold "reset_mask", bool (N,): only these boards start anew; and "boards",
                uint8 (N, rows, columns): the boards to start from, lanes outside the mask ignored.
                The first reset takes no mask.

        Returns:
            Observations (N, …), of boards outside the mask too, as they stand; and infos: for each
            name an array (N, …), and `_name`, bool (N,), true for all boards. With obs="dict" the
            observations are a dict of two arrays, which share no memory with the infos.

        Raises:
            InvalidArgument: A seed or an option is wrong; `field` and `lane` tell which.
            TransportError: No answer.
        """
        return self._reset_once(seed, options)

    def _reset_once(
        self, seed: Seed, options: dict[str, Any] | None
    ) -> tuple[Observations, dict[str, Any]]:
        """A reset inside a call."""
        seeds, given = board_seeds(seed, self.num_envs)
        mask, boards = self._check_options(options or {})
        new_seeds = self._first_seeds(mask, given, seeds, boards)
        seeded = given & mask if new_seeds is None else mask
        seeds = seeds if new_seeds is None else new_seeds
        request, payload = self._reset_request(mask, seeded, seeds, boards)
        self._seeds.plan(payload, seeded, seeds)
        room = self._results.room()
        self._session.call("reset", request, payload, into=room)
        if isinstance(seed, (int, np.integer)):
            super().reset(seed=int(seed))
        return self._results.of_reset(room[0])

    @exactly_once
    def step(self, actions: ArrayLike) -> tuple[Observations, Array, Array, Array, dict[str, Any]]:
        """Plays one action on each board.

        Args:
            actions: Integers (N,) of any integer dtype.

        Returns:
            observations (N, …), rewards float32 (N,), terminations and truncations bool (N,), and
            infos as `reset` returns them. With SAME_STEP, where episodes have ended, the
            observations and infos of their boards are those of the new episodes, and infos also has
            `final_obs`, an object array (N,) of observations and None, and `final_info`, infos
            that are valid for these boards only; `_final_obs` and `_final_info`, bool (N,), tell
            which they are.

        Raises:
            InvalidArgument: The actions' dtype, shape or range is wrong; `lane` tells the first.
            FailedPrecondition: A board was never reset, or is finished and autoreset is disabled.
            StepPending: The last step, of other actions, got no answer.
            TransportError: No answer. The same call again collects it, and so does `collect`.
        """
        return self._step_once(actions)

    def _step_once(
        self, actions: ArrayLike
    ) -> tuple[Observations, Array, Array, Array, dict[str, Any]]:
        """A step inside a call."""
        numbers = self._server_actions(actions)
        room = self._results.room()
        try:
            reply, _ = self._session.step(numbers, room)
        except InvalidArgument as error:
            if error.field == "actions":
                # A carrier may have stopped at a later one, which does not fit into a byte.
                self._refuse_actions(numbers)
            raise
        return self._results.of_step(reply, room[0])

    @exactly_once
    def step_async(self, actions: ArrayLike) -> None:
        """Begins a step, whose results `step_wait` returns; nothing else may be called between.

        Over ZeroMQ it only sends the request, which the server carries out meanwhile. In this
        process it carries the step out; with copy=False the arrays of the last step change then.

        Raises:
            InvalidArgument: The actions' dtype, shape or range is wrong; `lane` tells the first.
                There is no step under way then, and none after any other error.
            gymnasium.error.AlreadyPendingCallError: A step is under way; so says every other call,
                but for `close`, which gives it up.
            FailedPrecondition, TransportError: What `step` raises, if that is known already.
        """
        numbers = self._server_actions(actions)
        self._refuse_actions(numbers)
        self._room = self._results.room()
        self._session.step_async(numbers, self._room)

    @waiting
    def step_wait(self) -> tuple[Observations, Array, Array, Array, dict[str, Any]]:
        """What `step` returns, of the step that `step_async` has begun.

        Raises:
            gymnasium.error.NoAsyncCallError: There is none.
            FailedPrecondition: As `step` does; the step is over, and was not applied.
            TransportError: No answer. The same call again collects it.
        """
        reply, _ = self._session.step_wait(self._room)
        return self._results.of_step(reply, self._room[0])

    @exactly_once
    def collect(self) -> tuple[Observations, Array, Array, Array, dict[str, Any]]:
        """What a step returns that got no answer, or was interrupted: `step` with the same actions.

        Raises:
            gymnasium.error.NoAsyncCallError: There is no such step.
            FailedPrecondition: As `step` does; the step is over, and was not applied.
            TransportError: Still no answer.
        """
        room = self._results.room()
        reply, _ = self._session.collect(room)
        return self._results.of_step(reply, room[0])

    @exactly_once
    def discard(self) -> None:
        """Drops what such a step returns, rewards included, once it is over; nothing without one.

        Raises:
            TransportError: Still no answer.
        """
        if self._session.has_unreturned_step:
            with contextlib.suppress(RequestError):
                self._session.collect()

    def _server_actions(self, actions: ArrayLike) -> NDArray[np.integer[Any]]:
        """Actions (N,) as the server numbers them, in the dtype that they came in."""
        numbers = _arguments.integers("actions", actions, (self.num_envs,))
        if self._action_order is None:
            return numbers
        self._refuse_actions(numbers)
        ordered: NDArray[np.uint8] = self._action_order[numbers]
        return ordered

    def render(self) -> tuple[str, ...] | tuple[Picture, ...] | None:
        """The boards one by one: text, or pictures uint8 (height, width, 3), by the render mode.

        None, with a warning, without a render mode.
        """
        if self.render_mode is None:
            gym.logger.warn("render() needs an environment made with a render_mode")
            return None
        boards = self._boards()
        if self.render_mode == "ansi":
            return tuple(self._game.text(board) for board in boards)
        return tuple(self._game.picture(board, self._render_size) for board in boards)

    def close_extras(self, **kwargs: Any) -> None:
        """Ends the session; quick, and no error when the server is gone."""
        self._session.close()

    @property
    def np_random_seed(self) -> int | None:
        """The seed s, where board i was last seeded with s + i; -1 for other seeds and snapshots.

        Before the first reset: the seed from the system that a reset without a seed will use.
        """
        seeds = self._seeds.seeds
        if seeds is None:
            return self._draw_seed()
        first = int(seeds[0])
        if self._seeds.unknown.any():
            return -1
        return first if np.array_equal(seeds, consecutive(first, self.num_envs)) else -1

    # ---- more than Gymnasium ---------------------------------------------------------------------

    @exactly_once
    def observe(self) -> tuple[Observations, dict[str, Any]]:
        """The current observations and infos again, as `reset` returns them; changes nothing."""
        room = self._fresh.room()
        self._session.call("observe", _OBSERVE, into=room)
        return self._fresh.of_reset(room[0])

    def render_grid(self, columns: int | None = None, width: int = 1024) -> Picture:
        """All boards in one picture, side by side, in any render mode.

        Args:
            columns: Boards in a row; None for about as many as there are rows.
            width: Pixels, at least; each board is drawn anew at the size that fits.

        Returns:
            uint8 (height, width, 3), both even.

        Raises:
            InvalidArgument: An argument is wrong, or leaves a board less than 16 pixels.
            TransportError: No answer.
        """
        if columns is None:
            columns = math.ceil(math.sqrt(self.num_envs))
        columns = min(_arguments.integer("columns", columns, 1), self.num_envs)
        gap = 8
        least = columns * (16 + gap) + gap
        width = _arguments.integer("width", width, least, 16384)
        size = (width - gap) // columns - gap
        boards = [self._game.picture(board, size) for board in self._boards()]
        return side_by_side(boards, columns, gap)

    @exactly_once
    def afterstates(self) -> tuple[Array, Array, Array]:
        """The boards after slide and merge and before the spawn, for each action; changes nothing.

        Returns:
            boards (N, actions, …), of the observation's dtype; rewards float32 (N, actions); mask
            int8 (N, actions), 1 where the action is legal. Rows of illegal actions mean nothing.
        """
        _, payload = self._session.call("afterstates", _AFTERSTATES)
        arrays = self._afterstates_layout.split(payload)
        boards, rewards, mask = (
            self._in_action_order(arrays[name]) for name in ("boards", "rewards", "mask")
        )
        return boards, rewards, mask

    @exactly_once
    def snapshot(self, lanes: ArrayLike | None = None) -> bytes:
        """Boards as bytes to keep: everything that their future depends on; changes nothing.

        Args:
            lanes: Which boards, numbers (k,), all different; None for all.

        Returns:
            The board, score, counts, stream of random numbers and phase of each, with the rules
            that they are played by. docs/snapshots.md has the form.

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
    ) -> tuple[Observations, dict[str, Any]]:
        """Puts boards of a snapshot in the place of boards.

        The snapshot may be of another environment, process or server: its rules have to be the same
        (size, goal, spawns, start tiles, illegal actions), all else may differ. The boards go on
        with the streams of the snapshot: their trajectories are those that follow it.

        Args:
            blob: What `snapshot` has returned.
            lanes: The boards to put them to, numbers (k,), all different; None for all. Before the
                first reset they have to be all.
            rows: Which of the snapshot's boards each of them gets, numbers (k,) from 0 on, as often
                as wanted; None for one after the other.
            seed: New streams: an int s seeds the i-th of the boards with s + i, a list gives each
                its own; None goes on with those of the snapshot.

        Returns:
            What `reset` returns: all observations and infos, as they stand.

        Raises:
            InvalidArgument: The snapshot is damaged or of another version (`field` is "blob"), or
                was taken under other rules (`field` names the first), or another argument is wrong.
                Nothing has changed.
            FailedPrecondition: Some boards were never reset, and are not among the lanes.
            TransportError: No answer.
        """
        if not isinstance(blob, (bytes, bytearray, memoryview)):
            raise InvalidArgument(
                f"blob is a {type(blob).__name__}; expected the bytes of a snapshot", field="blob"
            )
        to = None if lanes is None else _arguments.lanes(lanes, self.num_envs)
        count = self.num_envs if to is None else to.size
        request = environment.RestoreRequest(
            count=count, lanes=to is not None, rows=rows is not None, seeds=seed is not None
        )
        payload = b"" if to is None else to.astype("<u8").tobytes()
        if rows is not None:
            numbers = _arguments.integers("rows", rows, (count,))
            _arguments.refuse_lane("rows", numbers, numbers < 0, "a number from 0 on")
            payload += numbers.astype("<u8").tobytes()
        seeds = None
        if seed is not None:
            seeds, given = board_seeds(seed, count)
            if not given.all():
                raise InvalidArgument("seed has None; expected a seed for each", field="seed")
            payload += seeds.astype("<u8").tobytes()
        restored = np.zeros(self.num_envs, np.bool_)
        where = slice(None) if to is None else to.astype(np.intp)
        restored[where] = True
        of_all = None
        if seeds is not None:
            of_all = np.zeros(self.num_envs, np.uint64)
            of_all[where] = seeds
        payload = b"".join((payload, blob))
        self._seeds.plan(payload, restored, of_all)
        room = self._fresh.room()
        self._session.call("restore", envelope.Request(restore=request), payload, into=room)
        return self._fresh.of_reset(room[0])

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
                of the board that it is a copy of. Whoever searches over such copies sees the future
                of that very board: it is **clairvoyant**, scores more than any policy can, and no
                result may be published from it. Use it to repeat a trajectory. Concentration has
                these only: its copies share the cards that nobody has seen yet.
            seed: With fresh spawns, seeds as `reset` takes them, so that the same boards get the
                same copies again; None draws one from the system.

        Returns:
            An environment of k * copies boards with the same arguments. Its board i is a copy of
            the board lanes[i // copies], and `observe` tells them. Close it after use.

        Raises:
            InvalidArgument: An argument is wrong; `field` tells which.
            FailedPrecondition: The boards were never reset.
            TransportError: No answer.
        """
        numbers = _arguments.lanes(lanes, self.num_envs)
        copies = _arguments.integer("copies", copies, 1)
        count = numbers.size * copies
        if spawns not in ("fresh", "same"):
            raise InvalidArgument(
                f"spawns is {spawns!r}; expected 'fresh' or 'same'", field="spawns"
            )
        if spawns == "fresh" and self._game.hidden is not None:
            raise InvalidArgument(
                f"copies of this game share the {self._game.hidden} that nobody has seen, so that "
                "what happens to them is no sample of what can happen; spawns='same' makes them, "
                "to repeat a trajectory",
                field="spawns",
            )
        if spawns == "same" and seed is not None:
            raise InvalidArgument("seed is for fresh spawns; the same ones need none", field="seed")
        create = environment.CreateRequest()
        create.CopyFrom(self._session.create)
        create.num_envs = count
        self._session.check_limits(create)
        drawn = drawn_seeds(seed, count) if spawns == "fresh" else None
        blob = self.snapshot(numbers)
        rows = np.arange(numbers.size).repeat(copies)
        seeds = None if drawn is None else fork_seeds(drawn, _generators(blob)[rows])

        fork = copy.copy(self)
        fork.closed = True
        fork._np_random = fork._np_random_seed = None
        fork.metadata = dict(self.metadata)
        fork._begin(self._session.again(create))
        try:
            fork.restore(blob, rows=rows, seed=seeds)
        except BaseException:
            fork.close()
            raise
        return fork

    @exactly_once
    def keepalive(self) -> None:
        """Tells the server that this session is still wanted; changes nothing.

        A server ends sessions that ask nothing for its idle timeout, a day by default (a private
        server never does): call this now and then where the boards have to wait for longer.

        Raises:
            NotFound: The session has ended already.
            TransportError: No answer.
        """
        self._session.call("keepalive", _KEEPALIVE)

    @exactly_once
    def rollout(
        self,
        steps: int,
        policy: str | served_policies.Policy | None = None,
        *,
        actions: ArrayLike | None = None,
        policy_seed: Seed = None,
        infos: Sequence[str] = (),
        progress: Callable[[int], object] | None = None,
    ) -> Rollout:
        """Plays many steps in the server, on from where the boards stand.

        The same as choosing and `step` in a loop: in requests that are bounded in bytes and time,
        each applied once. To cancel, raise in `progress`; what was done is done.

        Args:
            steps: How many, T.
            policy: "random", "greedy", "expectimax", or one of `twofold.policies`.
            actions: Integers (T, N) to play, in place of a policy.
            policy_seed: Seeds the policy's own streams: an int s for s + i on lane i, or an int for
                each lane. None goes on with them; a reset with seeds starts them too.
            infos: Names of the infos to tell after each step.
            progress: Called with the number of steps that are done, after each request.

        Raises:
            InvalidArgument: `field` tells which argument is wrong.
            FailedPrecondition: The boards were never reset.
            ResourceExhausted: A search did not fit into the server's limits.
            TransportError: No answer; steps may have been played.
        """
        count = _arguments.integer("steps", steps, 1)
        if isinstance(infos, str):
            raise InvalidArgument(f"infos is {infos!r}; expected a list of names", field="infos")
        if progress is not None and not callable(progress):
            raise InvalidArgument(
                f"progress is {progress!r}; expected a function", field="progress"
            )
        chosen, given = _rollout.source(
            policy, actions, steps=count, num_envs=self.num_envs, num_actions=self._num_actions
        )
        seeds, is_given = board_seeds(policy_seed, self.num_envs, "policy_seed")
        if policy_seed is not None and given is not None:
            raise InvalidArgument("given actions need no policy_seed", field="policy_seed")
        if policy_seed is not None and not is_given.all():
            raise InvalidArgument("policy_seed has a None in it", field="policy_seed")
        order = self._action_order
        rollout = _rollout.run(
            self._session,
            chosen,
            given if given is None or order is None else order[given],
            steps=count,
            num_envs=self.num_envs,
            policy_seeds=None if policy_seed is None else seeds,
            infos=infos,
            progress=progress,
            has_finals=self.autoreset_mode is AutoresetMode.SAME_STEP,
        )
        return rollout if order is None else _rollout.in_order(rollout, order, given)

    @property
    def token(self) -> str:
        """What `twofold.resume` takes; a secret: whoever has it can take the boards over."""
        return self._session.token

    @property
    def requests(self) -> int:
        """How many requests the server has carried out for these boards, their making included.

        With recover=True the client's own are among them: a snapshot now and then, and after a loss
        those that made the boards anew.
        """
        return self._session.last_seq

    @property
    def last_results(self) -> tuple[Any, ...] | None:
        """What the last request before a resume returned, if that was a step or a reset; else None.

        Whoever made that request may have died before it got the reply. `requests` tells how many
        there were.
        """
        if self._session.inherited is None:
            return None
        reply, payload = self._session.inherited
        slot = reply.WhichOneof("result")
        if slot not in ("reset", "step"):
            return None
        # Of its own, since this may be asked for while another call is under way.
        memory = np.empty(self._fresh.size, np.uint8)
        memory[: payload.size] = payload
        if slot == "reset":
            return self._fresh.of_reset(memory)
        return self._fresh.of_step(reply, memory)

    # ---- inside ----------------------------------------------------------------------------------

    @exactly_once
    def _boards(self) -> Array:
        """The observations as the server tells them, (N, …)."""
        room = self._fresh.room()
        self._session.call("observe", _OBSERVE, into=room)
        return self._fresh.boards(room[0])

    def _arguments_as_text(self) -> str:
        """The arguments as JSON, for whoever resumes the session; empty if they are not plain."""
        here = ("endpoint", "curve", "timeout")
        arguments = {name: value for name, value in self._made_with.items() if name not in here}
        try:
            return json.dumps([type(self).__name__, arguments], default=_arguments.plain)
        except TypeError:
            return ""

    def _draw_seed(self) -> int:
        if self._drawn_seed is None:
            self._drawn_seed = draw_seed(self.num_envs)
        return self._drawn_seed

    def _first_seeds(
        self,
        lanes: NDArray[np.bool_],
        given: NDArray[np.bool_],
        seeds: NDArray[np.uint64],
        boards: Array | None,
    ) -> NDArray[np.uint64] | None:
        """The seeds of a first reset, uint64 (N,), drawn for boards that are given none.

        None where there was another: then boards without a seed go on with their streams.
        """
        unreturned = self._session.unreturned
        if self._seeds.seeds is not None and (
            unreturned is None or unreturned is not self._seeds.first
        ):
            return None
        first = np.where(given, seeds, consecutive(self._draw_seed(), self.num_envs))
        _, payload = self._reset_request(lanes, lanes, first, boards)
        is_again = unreturned is not None and unreturned.payload == payload
        if unreturned is not None and not is_again and self._seeds.seeds is None:
            # It may be a first reset with other seeds; any request has it carried out before.
            self._session.call("keepalive", _KEEPALIVE)
        return first if is_again or self._seeds.seeds is None else None

    def _reset_request(
        self,
        lanes: NDArray[np.bool_],
        seeded: NDArray[np.bool_],
        seeds: NDArray[np.uint64],
        boards: Array | None,
    ) -> tuple[envelope.Request, bytes | None]:
        """What resets these lanes, some of them with new seeds; and its payload."""
        # 1 resets a lane, 2 has it go on with its stream.
        has_seeds = bool(seeded.any())
        mask = lanes.view(np.uint8) + (lanes & ~seeded & has_seeds)
        reset = environment.ResetRequest(
            seeds=has_seeds, mask=bool((mask != 1).any()), boards=boards is not None
        )
        payload = b""
        if has_seeds:
            payload += seeds.astype("<u8").tobytes()
        if reset.mask:
            payload += mask.tobytes()
        if boards is not None:
            payload += boards.tobytes()
        return envelope.Request(reset=reset), payload or None

    def _check_options(self, options: dict[str, Any]) -> tuple[NDArray[np.bool_], Array | None]:
        """The mask of the lanes to reset, and the boards to start from."""
        unknown = options.keys() - {"reset_mask", "boards"}
        if unknown:
            raise InvalidArgument(
                f"unknown options {sorted(map(str, unknown))}; known are reset_mask and boards",
                field="options",
            )
        mask = options.get("reset_mask")
        if mask is None:
            mask = np.ones(self.num_envs, np.bool_)
        elif not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
            kind = getattr(mask, "dtype", type(mask).__name__)
            raise InvalidArgument(
                f"reset_mask is {kind}; expected a numpy array of bool", field="reset_mask"
            )
        elif mask.shape != (self.num_envs,):
            raise InvalidArgument(
                f"reset_mask has shape {mask.shape}; expected ({self.num_envs},)",
                field="reset_mask",
            )
        elif not mask.any():
            raise InvalidArgument("reset_mask has no True in it", field="reset_mask")
        if options.get("boards") is None:
            return mask, None
        return mask, self._check_boards(options["boards"], mask)

    def _check_boards(self, boards: object, mask: NDArray[np.bool_]) -> Array:
        space = self._board_space
        if not isinstance(space, gym.spaces.Box):
            raise InvalidArgument("this environment cannot start from boards", field="boards")
        array = _arguments.integers("boards", boards, (self.num_envs, *space.shape))
        low, high = space.low.min(), space.high.max()
        is_bad = (array < low) | (array > high)
        is_bad[~mask] = False
        span = f"{self._game.board_numbers}, {low} ... {high}"
        _arguments.refuse_lane("boards", array, is_bad, span)
        return array.astype(space.dtype)

    def _refuse_actions(self, actions: NDArray[np.integer[Any]]) -> None:
        """Raises InvalidArgument for the first action (N,) that there is none of."""
        is_bad = (actions < 0) | (actions >= self._num_actions)
        _arguments.refuse_lane("actions", actions, is_bad, f"0 ... {self._num_actions - 1}")

    def _in_action_order(self, rows: Array) -> Array:
        """Rows (N, actions, …) of the server's, in the order that the user's actions have."""
        return rows if self._action_order is None else rows[:, self._action_order]


# What a snapshot begins with: magic, version, bytes of the rules, boards, bytes of a board.
_SNAPSHOT_HEAD = struct.Struct("<8sIIQI")


def _generators(blob: bytes) -> NDArray[np.uint64]:
    """The states of the generators of a snapshot's boards, uint64 (k, 2)."""
    _, _, rules, count, size = _SNAPSHOT_HEAD.unpack_from(blob)
    boards = np.frombuffer(blob, np.uint8, count * size, _SNAPSHOT_HEAD.size + rules)
    states: NDArray[np.uint8] = boards.reshape(count, size)[:, :16].copy()
    return states.view("<u8").astype(np.uint64)


def _obs_keys(obs: object, observation_key: object, mask_key: object) -> tuple[str, str] | None:
    """The names of observation and mask in a dict; None for plain arrays."""
    if obs not in ("array", "dict"):
        raise InvalidArgument(f"obs is {obs!r}; expected 'array' or 'dict'", field="obs")
    keys = {"observation_key": observation_key, "mask_key": mask_key}
    if obs == "array":
        for name, key in keys.items():
            if key is not None:
                raise InvalidArgument(f"{name} is {key!r}; it needs obs='dict'", field=name)
        return None
    defaults = ("observation", "action_mask")
    first, second = (
        default if key is None else _arguments.text(name, key)
        for (name, key), default in zip(keys.items(), defaults, strict=True)
    )
    if first == second:
        raise InvalidArgument(
            f"mask_key is {second!r}, which is observation_key too; expected another",
            field="mask_key",
        )
    return first, second


_OBSERVE = envelope.Request(observe=environment.ObserveRequest())
_KEEPALIVE = envelope.Request(keepalive=environment.KeepaliveRequest())
_AFTERSTATES = envelope.Request(afterstates=environment.AfterstatesRequest())
