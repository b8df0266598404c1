"""The single-board environment of any game."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Generic, NoReturn

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from twofold import _arguments
from twofold.client.session import exactly_once, waiting
from twofold.envs.arguments import RENDER_MODES
from twofold.envs.results import Infos, ObsT, Stepped, infos_of
from twofold.envs.vector import TwofoldVectorEnv
from twofold.errors import FailedPrecondition, InvalidArgument
from twofold.games.drawing import Picture
from twofold.policies.choosers import rows


class TwofoldEnv(gym.Env[ObsT, "int | np.integer[Any]"], Generic[ObsT]):
    """One board, in this process or on a server: a batch of one with autoreset disabled.

    This is the base class of each game's environment, which `gymnasium.make` makes.

    Args:
        batch: A batch of one board.

    Attributes:
        game: The game with its arguments.
        observation_form: The form of the observations.
        reward_terms: The names of the reward's terms: the columns of the info `reward_terms`.
    """

    metadata = {"render_modes": RENDER_MODES, "render_fps": 4}  # noqa: RUF012 - as gymnasium has it

    def __init__(self, batch: TwofoldVectorEnv[ObsT, Any]) -> None:
        self._batch, self._session = batch, batch._session
        self._mask: NDArray[np.int8] | None = None
        self.game = batch.game
        self.observation_form = batch.observation_form
        self.reward_terms = batch.reward_terms
        self.render_mode = batch.render_mode
        self.observation_space = batch.single_observation_space
        self.action_space = batch.single_action_space

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuses `pickle`, `copy.copy` and `copy.deepcopy`.

        Raises:
            TypeError: Always; the message suggests alternatives.
        """
        raise TypeError(
            f"{type(self).__name__} can't be pickled or copied, because its board belongs to a "
            "session: snapshot() returns the board as bytes for another environment's restore(), "
            "and each worker process must make its own environment"
        )

    @exactly_once
    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[ObsT, Infos]:
        """Starts a new episode.

        Args:
            seed: The seed of the board's stream; None continues the stream. If the first reset has
                no seed, the environment draws one at random, which `np_random_seed` returns.
            options: May contain "board", uint8 (rows, columns): the board to start from.

        Returns:
            The observation and the infos. Infos are numpy scalars (int64, float64), bool arrays of
            shape (), and the array `action_mask`.

        Raises:
            InvalidArgument: The seed or an option is wrong; `field` names it.
            TransportError: No answer came.
        """
        if seed is not None:
            seed = _arguments.integer("seed", seed, 0)
        board = _arguments.options(options, "board").get("board")
        shape, batch_options = self._batch._board_space.shape or (), None
        with _as_argument("board"):
            if board is not None:
                batch_options = {"boards": _arguments.integers("boards", board, shape)[np.newaxis]}
            results = self._seen(*self._batch._reset_once(seed, batch_options))
        super().reset(seed=seed)
        return results

    @exactly_once
    def step(self, action: int | np.integer[Any]) -> tuple[ObsT, float, bool, bool, Infos]:
        """Plays one action.

        Raises:
            InvalidArgument: The action is not an integer, or is out of range.
            FailedPrecondition: The board has not been reset, or its episode is over.
            StepPending, TransportError: See `TwofoldVectorEnv.step`.
        """
        number = _arguments.integer("action", action, 0, self._batch.num_actions - 1)
        return self._stepped(self._batch._step_once([number]))

    @waiting
    def collect(self) -> tuple[ObsT, float, bool, bool, Infos]:
        """Returns the results of a step that got no answer or was interrupted.

        Raises:
            gymnasium.error.NoAsyncCallError: No step has outstanding results.
            TransportError: No answer has come yet.
        """
        return self._stepped(self._batch._collected())

    def discard(self) -> None:
        """Waits for the results of a pending step, if there is one, and discards them."""
        self._batch.discard()

    def render(self) -> str | Picture | None:
        """Returns the board in the render mode: text, or a picture, uint8 (height, width, 3).

        Without a render mode, warns and returns None.
        """
        boards = self._batch.render()
        return None if boards is None else boards[0]

    def close(self) -> None:
        """Ends the session; waits only briefly for a server. Safe to call twice."""
        self._batch.close()

    @property
    def np_random_seed(self) -> int:
        """The seed of the board's stream.

        Before the first reset, it is the seed that a reset without a seed would use.
        """
        seed = self._batch.np_random_seed
        assert seed is not None
        return seed

    def observe(self) -> tuple[ObsT, Infos]:
        """Returns the current observation and infos in the form of `reset`; changes nothing."""
        return self._seen(*self._batch.observe())

    def snapshot(self) -> bytes:
        """Returns the board's full state as bytes; changes nothing.

        Raises:
            FailedPrecondition: The board was never reset.
            TransportError: No answer came.
        """
        return self._batch.snapshot()

    def restore(self, blob: bytes, *, row: int = 0, seed: int | None = None) -> tuple[ObsT, Infos]:
        """Replaces the board with a snapshot's board; see `TwofoldVectorEnv.restore`.

        Args:
            blob: A snapshot of this environment or of a vector environment.
            row: The index of the board in the snapshot.
            seed: The seed of a new stream of random numbers; None continues the snapshot's stream.

        Returns:
            The observation and infos, as from `reset`.
        """
        row = _arguments.integer("row", row, 0, 2**63 - 1)
        if seed is not None:
            seed = _arguments.integer("seed", seed, 0)
        with _as_argument("row"):
            return self._seen(*self._batch.restore(blob, rows=[row], seed=seed))

    def action_masks(self) -> NDArray[np.bool_]:
        """Returns the last observation's legal actions, bool (actions,), for sb3-contrib.

        Raises:
            FailedPrecondition: The board was never reset.
        """
        if self._mask is None:
            raise FailedPrecondition("action_masks() requires a reset; call reset() first")
        return np.asarray(self._mask == 1)

    def statistics(self, *, reset: bool = False) -> dict[str, float]:
        """Returns statistics over the ended episodes; see `TwofoldVectorEnv.statistics`."""
        return self._batch.statistics(reset=reset)

    def keepalive(self) -> None:
        """Keeps the session from expiring; changes nothing."""
        self._batch.keepalive()

    def afterstates(self) -> tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.int8]]:
        """Returns the afterstate of each action; changes nothing.

        Returns:
            Boards (actions, …), rewards float32 (actions,), and mask int8 (actions,), 1 for legal
            actions. An illegal action leaves its board unchanged.
        """
        boards, rewards, mask = self._batch.afterstates()
        return boards[0], rewards[0], mask[0]

    def _seen(self, observations: ObsT, infos: Infos) -> tuple[ObsT, Infos]:
        """Returns the only board's observation and infos."""
        only = infos_of(infos, 0)
        self._mask = only["action_mask"]
        observation: Any = rows(observations, 0)
        return observation, only

    def _stepped(self, stepped: Stepped[ObsT, Any]) -> tuple[ObsT, float, bool, bool, Infos]:
        """Returns a step's results for the only board."""
        observations, rewards, terminations, truncations, infos = stepped
        observation, only = self._seen(observations, infos)
        flags = bool(terminations[0]), bool(truncations[0])
        return observation, float(rewards[0]), *flags, only


@contextlib.contextmanager
def _as_argument(name: str) -> Iterator[None]:
    """Renames the batch's argument in an error, for example from "boards[0]" to "board"."""
    try:
        yield
    except InvalidArgument as error:
        if error.field != f"{name}s":
            raise
        verbs = {"[0] is": " contains", " have": " has", " contains": " is"}
        text = re.sub(
            rf"^the {name} of lane 0|{name}s(\[0\] is| have| contains|)",
            lambda found: name + verbs.get(found[1] or "", ""),
            str(error),
            count=1,
        )
        raise InvalidArgument(text, field=name, lane=error.lane) from None


def refuse_arguments_of_batches(owner: str, arguments: Mapping[str, Any]) -> None:
    """Refuses arguments of vector environments; `owner` is the environment's class name."""
    for name in ("num_envs", "autoreset_mode", "copy"):
        if name in arguments:
            raise TypeError(
                f"{owner} got {name!r}, which only vector environments have: use "
                "gymnasium.make_vec, or leave it out"
            )
