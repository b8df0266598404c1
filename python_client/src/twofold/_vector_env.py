"""The vector environment, whatever the game."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from twofold import _arguments
from twofold._arrays import Layout, make_space
from twofold._exceptions import InvalidArgument, ProtocolError, RequestError
from twofold._seeding import Seed, board_seeds, consecutive, draw_seed
from twofold._session import Session
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment

Array = NDArray[Any]

_AUTORESET = {
    AutoresetMode.NEXT_STEP: environment.AUTORESET_MODE_NEXT_STEP,
    AutoresetMode.DISABLED: environment.AUTORESET_MODE_DISABLED,
}


class TwofoldVectorEnv(VectorEnv[Array, ArrayLike, Array]):
    """N boards of one game on a server, stepped together.

    The base class of each game's vector environment, which adds the game's own arguments; make one
    with `gymnasium.make_vec`. Arrays handed out are fresh, aligned and writable; those of one call
    are views of one block of memory.

    Args:
        game: The create request's part that is the game's: environment id and config.
        num_envs: Number of boards N.
        max_episode_steps: Steps after which the server truncates an episode; None for never.
        autoreset_mode: NEXT_STEP or DISABLED, as gymnasium's enum, its value or its name.
        reward: None, for the game's score.
        dialect: None.
        recover: False.
        endpoint: A server's address, "private" for this process's own, or None for the environment
            variable TWOFOLD_ENDPOINT and "private" without it.
        obs: "array".
        render_mode: None or "ansi".
        timeout: Seconds that each call may take before DeadlineExceeded.

    Raises:
        InvalidArgument: An argument is wrong; `field` tells which.
        NotYetAvailable: It is right and not built yet.
        TransportError: No server.
    """

    # Until there is a session: gymnasium 1.2 closes also what was never made.
    closed = True

    def __init__(
        self,
        game: environment.CreateRequest,
        num_envs: int,
        *,
        max_episode_steps: int | None,
        autoreset_mode: AutoresetMode | str,
        reward: str | dict[str, float] | None,
        dialect: str | None,
        recover: bool,
        endpoint: str | None,
        obs: str,
        render_mode: str | None,
        timeout: float,
    ) -> None:
        self.num_envs = _arguments.integer("num_envs", num_envs, 1)
        self.autoreset_mode = _arguments.autoreset(autoreset_mode)
        self.render_mode = _arguments.available("render_mode", render_mode, None, "ansi")
        _arguments.available("reward", reward, None, "score", {"merge_score": 1.0})
        _arguments.available("dialect", dialect, None)
        _arguments.available("recover", _arguments.boolean("recover", recover), False)
        _arguments.available("obs", obs, "array")
        self.metadata = {
            "render_modes": ["ansi"],
            "render_fps": 4,
            "autoreset_mode": self.autoreset_mode,
        }

        create = environment.CreateRequest()
        create.CopyFrom(game)
        create.num_envs = self.num_envs
        create.autoreset_mode = _AUTORESET[self.autoreset_mode]
        if max_episode_steps is not None:
            create.max_episode_steps = _arguments.integer(
                "max_episode_steps", max_episode_steps, 1, 2**63 - 1
            )
        self._session = Session(
            create,
            endpoint=None if endpoint is None else _arguments.text("endpoint", endpoint),
            timeout=_arguments.real("timeout", timeout, 1e-3, 1e6, "seconds, more than 0"),
        )
        try:
            self._read_spec(self._session.spec)
        except BaseException:
            self._session.close()
            raise

        self.closed = False

        # The seeds of the boards' streams, from the first reset on; before it, the seed to draw.
        self._seeds: NDArray[np.uint64] | None = None
        self._drawn_seed: int | None = None

    def _read_spec(self, spec: environment.CreateReply) -> None:
        self.single_observation_space = make_space(spec.observation_space)
        self.single_action_space = make_space(spec.action_space)
        if not isinstance(self.single_action_space, gym.spaces.Discrete):
            raise ProtocolError("the server's actions are not integers")
        self._num_actions = int(self.single_action_space.n)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        step = ("observation", "reward", "terminated", "truncated")
        self._reset_layout = Layout(spec.reset, ("observation",))
        self._step_layout = Layout(spec.step, step)
        has_afterstates = len(spec.afterstates.arrays) > 0
        self._afterstates_layout = Layout(
            spec.afterstates, ("boards", "rewards", "mask") if has_afterstates else ()
        )

    # ---- Gymnasium's methods ---------------------------------------------------------------------

    def reset(
        self, *, seed: Seed = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Starts new episodes.

        Args:
            seed: An int s seeds board i with s + i (modulo 2^64); a list gives each board its own,
                None in it leaving that board's stream as it is; None leaves all as they are. The
                first reset draws a seed from the system in place of None; `np_random_seed` tells
                it.
            options: May hold "reset_mask", bool (N,): only these boards start anew; and "boards",
                uint8 (N, rows, columns): the boards to start from, rows outside the mask ignored.
                The first reset takes no mask.

        Returns:
            Observations (N, …), of boards outside the mask too, as they stand; and infos: for each
            name an array (N, …), and `_name`, bool (N,), true for all boards.

        Raises:
            InvalidArgument: A seed or an option is wrong; `field` and `lane` tell which.
            TransportError: No answer.
        """
        seeds, given = board_seeds(seed, self.num_envs)
        mask, boards = self._check_options(options or {})
        if self._seeds is None:
            drawn = consecutive(self._draw_seed(), self.num_envs)
            seeds = np.where(given, seeds, drawn)
            given[:] = True
        # A request seeds all of its lanes or none.
        for lanes, new_seeds in ((mask & given, seeds), (mask & ~given, None)):
            if lanes.any():
                payload = self._start(lanes, new_seeds, boards)
        if isinstance(seed, (int, np.integer)):
            super().reset(seed=int(seed))
        return self._observed(payload)

    def step(self, actions: ArrayLike) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """Plays one action on each board.

        Args:
            actions: Integers (N,) of any integer dtype.

        Returns:
            observations (N, …), rewards float32 (N,), terminations and truncations bool (N,), and
            infos as `reset` returns them.

        Raises:
            InvalidArgument: The actions' dtype, shape or range is wrong; `lane` tells the first.
            FailedPrecondition: A board was never reset, or is finished and autoreset is disabled.
            TransportError: No answer. The same call again collects it.
        """
        payload = self._session.call("step", _STEP, self._encode_actions(actions))
        arrays = self._step_layout.split(payload)
        observations = arrays.pop("observation")
        rewards = arrays.pop("reward")
        terminations = arrays.pop("terminated")
        truncations = arrays.pop("truncated")
        infos = self._infos(arrays)
        return observations, rewards, terminations, truncations, infos

    def render(self) -> tuple[str, ...] | None:
        """The boards as text, one string each; None, with a warning, without a render mode."""
        if self.render_mode is None:
            gym.logger.warn("render() needs an environment made with render_mode='ansi'")
            return None
        observations, _ = self.observe()
        return tuple(self._render_board(board) for board in observations)

    def close_extras(self, **kwargs: Any) -> None:
        """Ends the session; quick, and no error when the server is gone."""
        self._session.close()

    @property
    def np_random_seed(self) -> int | None:
        """The seed s, where board i was last seeded with s + i; -1 for any other seeds.

        Before the first reset: the seed from the system that a reset without a seed will use.
        """
        if self._seeds is None:
            return self._draw_seed()
        first = int(self._seeds[0])
        return first if np.array_equal(self._seeds, consecutive(first, self.num_envs)) else -1

    # ---- more than Gymnasium ---------------------------------------------------------------------

    def observe(self) -> tuple[Array, dict[str, Any]]:
        """The current observations and infos again, as `reset` returns them; changes nothing."""
        return self._observed(self._session.call("observe", _OBSERVE))

    def afterstates(self) -> tuple[Array, Array, Array]:
        """The boards after slide and merge and before the spawn, for each action; changes nothing.

        Returns:
            boards (N, actions, …), of the observation's dtype; rewards float32 (N, actions); mask
            int8 (N, actions), 1 where the action is legal. Rows of illegal actions mean nothing.
        """
        arrays = self._afterstates_layout.split(self._session.call("afterstates", _AFTERSTATES))
        return arrays["boards"], arrays["rewards"], arrays["mask"]

    # ---- inside ----------------------------------------------------------------------------------

    def _render_board(self, observation: Array) -> str:
        """One board as text; a game says it better."""
        return str(observation)

    def _draw_seed(self) -> int:
        if self._drawn_seed is None:
            self._drawn_seed = draw_seed(self.num_envs)
        return self._drawn_seed

    def _start(
        self, lanes: NDArray[np.bool_], seeds: NDArray[np.uint64] | None, boards: Array | None
    ) -> NDArray[np.uint8]:
        """Resets these lanes."""
        reset = environment.ResetRequest(
            seeds=seeds is not None, mask=not lanes.all(), boards=boards is not None
        )
        payload = b""
        if seeds is not None:
            payload += seeds.astype("<u8").tobytes()
        if reset.mask:
            payload += lanes.tobytes()
        if boards is not None:
            payload += boards.tobytes()
        try:
            return self._session.call("reset", envelope.Request(reset=reset), payload or None)
        except RequestError:
            seeds = None
            raise
        finally:
            # Without an answer too: the request is pending, and comes before all others.
            if seeds is not None:
                self._seeds = seeds if self._seeds is None else np.where(lanes, seeds, self._seeds)

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
        space = self.single_observation_space
        if not isinstance(space, gym.spaces.Box):
            raise InvalidArgument("this environment cannot start from boards", field="boards")
        array = _arguments.integers("boards", boards, (self.num_envs, *space.shape))
        low, high = space.low.min(), space.high.max()
        is_bad = (array < low) | (array > high)
        is_bad[~mask] = False
        _arguments.refuse_lane("boards", array, is_bad, f"exponents, {low} ... {high}")
        return array.astype(space.dtype)

    def _encode_actions(self, actions: ArrayLike) -> bytes:
        array = _arguments.integers("actions", actions, (self.num_envs,))
        # Before the cast: 256 would become 0.
        if array.max() >= self._num_actions or (array.dtype.kind == "i" and array.min() < 0):
            is_bad = (array < 0) | (array >= self._num_actions)
            _arguments.refuse_lane("actions", array, is_bad, f"0 ... {self._num_actions - 1}")
        return array.astype(np.uint8).tobytes()

    def _observed(self, payload: NDArray[np.uint8]) -> tuple[Array, dict[str, Any]]:
        arrays = self._reset_layout.split(payload)
        return arrays.pop("observation"), self._infos(arrays)

    def _infos(self, arrays: dict[str, Array]) -> dict[str, Any]:
        """Infos as Gymnasium has them: beside each array a mask of the boards that have it."""
        infos: dict[str, Any] = {}
        masks = np.ones((len(arrays), self.num_envs), np.bool_)
        for (name, array), mask in zip(arrays.items(), masks, strict=True):
            infos[name] = array
            infos[f"_{name}"] = mask
        return infos


_STEP = envelope.Request(step=environment.StepRequest())
_OBSERVE = envelope.Request(observe=environment.ObserveRequest())
_AFTERSTATES = envelope.Request(afterstates=environment.AfterstatesRequest())
