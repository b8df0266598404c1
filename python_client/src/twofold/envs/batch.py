"""The boards of one session: made, observed, drawn and closed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Generic, NoReturn

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray
from typing_extensions import Self, Unpack

from twofold import _arguments
from twofold.client.payloads import Layout, make_space
from twofold.client.session import Session, exactly_once
from twofold.envs.arguments import RENDER_MODES, VectorEnvArguments
from twofold.envs.episodes import EPISODE, Episodes
from twofold.envs.results import Array, FreshResults, InfosT, ObsT, ReusedResults
from twofold.envs.seeding import BoardSeeds
from twofold.envs.settings import Settings
from twofold.errors import ProtocolError
from twofold.games.drawing import Picture, side_by_side
from twofold.games.spec import GameSpec
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment

_OBSERVE = envelope.Request(observe={})
_AFTERSTATES = envelope.Request(afterstates={})
KEEPALIVE = envelope.Request(keepalive={})
# Pixels between the boards of a grid, and the least that a board may have.
_GAP = 8
_SMALLEST_BOARD = 16


class Batch(VectorEnv[ObsT, ArrayLike, Array], Generic[ObsT, InfosT]):
    """N boards of one game in a session: all of a `TwofoldVectorEnv` but what changes boards."""

    # Until there is a session: gymnasium 1.2 also closes an environment whose making failed.
    closed = True

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
        self._begin(settings, settings.session(owner, num_envs))

    @classmethod
    def _around(cls, session: Session, settings: Settings, others: Mapping[str, Any]) -> Self:
        """Returns an environment around a session that exists, with these other attributes."""
        envs = cls.__new__(cls)
        vars(envs).update(others)
        envs._begin(settings, session)
        return envs

    def _begin(self, settings: Settings, session: Session) -> None:
        """Takes a new session's boards as its own."""
        self._settings, self._session = settings, session
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
        self.closed = True
        self.num_envs = int(session.create.num_envs)
        self._seeds = BoardSeeds(self.num_envs, session.surroundings.random_bytes)
        session.on_seeds = self._seeds.done
        try:
            self._read_spec(session.spec)
        except BaseException:
            session.close()
            raise
        self.closed = False

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
        is_copied = self._settings.copy
        make = FreshResults if is_copied else ReusedResults
        arguments = spec, self.num_envs, self.game, form
        self._results = make(*arguments)
        # For the methods that are not called at each step.
        self._fresh = self._results if is_copied else FreshResults(*arguments)
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
        self._session.close()

    @exactly_once
    def observe(self) -> tuple[ObsT, InfosT]:
        """The current observations and infos again, as `reset` returns them; changes nothing."""
        return self._fresh.of_reset(self._observed())

    @exactly_once
    def boards(self) -> Array:
        """The boards as they are, (N, …), whatever the form of observations; changes nothing."""
        return self._fresh.boards(self._observed())

    def _observed(self) -> NDArray[np.uint8]:
        """The payload of an observe reply, in memory of its own."""
        buffer = self._fresh.buffer()
        self._session.call("observe", _OBSERVE, into=buffer)
        return buffer[0]

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
        boards = self.boards()
        if self.render_mode == "ansi":
            return tuple(self.game.text(board) for board in boards)
        return tuple(self.game.picture(board, self._settings.render_size) for board in boards)

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
        if columns is None:
            columns = math.ceil(math.sqrt(self.num_envs))
        columns = min(_arguments.integer("columns", columns, 1), self.num_envs)
        least = columns * (_SMALLEST_BOARD + _GAP) + _GAP
        width = _arguments.integer("width", width, least, 16384)
        size = (width - _GAP) // columns - _GAP
        boards = [self.game.picture(board, size) for board in self.boards()]
        return side_by_side(boards, columns, _GAP)

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
        """How many requests the server has carried out for these boards, their making included.

        With recover=True the client's own are among them: a snapshot now and then, and after a loss
        those that made the boards anew.
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
        memory = np.empty(self._fresh.size, np.uint8)
        memory[: payload.size] = payload
        if slot == "reset":
            return self._fresh.of_reset(memory)
        stepped = self._fresh.of_step(reply, memory)
        if self._episodes is not None:
            self._episodes.add_inherited(stepped, self._session.inherited)
        return stepped
