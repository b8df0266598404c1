"""Concentration: its infos and its environments."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from typing_extensions import NotRequired, Unpack

from twofold.envs.arguments import EnvArguments, ObservationName, VectorEnvArguments
from twofold.envs.results import AllInfos, ObsT
from twofold.envs.single import TwofoldEnv, refuse_arguments_of_batches
from twofold.envs.vector import TwofoldVectorEnv
from twofold.games.concentration import Concentration, ConcentrationArguments


class ConcentrationInfos(AllInfos):
    """The infos of N games. Only `step` returns the infos that `extra_infos` adds."""

    pairs: NDArray[np.int32]
    """The number of pairs found."""
    turns: NDArray[np.int32]
    """The number of completed turns."""
    peeks: NDArray[np.int32]
    """The number of peeks used."""
    open_card: NDArray[np.int32]
    """The index of the first card flipped in this turn, -1 between turns."""
    deck: NotRequired[NDArray[np.uint8]]
    """(N, rows, columns): the symbols of all cards. Present with deck_info=True."""
    flips: NotRequired[NDArray[np.uint8]]
    """(N, rows, columns): what happened to each card: 0 nothing, 1 turned face up, 2 turned back,
    3 paired, 4 shown by a peek."""
    final_info: NotRequired[ConcentrationInfos]
    """With SAME_STEP: the infos of the episodes that this step ended."""
    _pairs: NDArray[np.bool_]
    _turns: NDArray[np.bool_]
    _peeks: NDArray[np.bool_]
    _open_card: NDArray[np.bool_]
    _deck: NotRequired[NDArray[np.bool_]]
    _flips: NotRequired[NDArray[np.bool_]]


class ConcentrationEnvArguments(ConcentrationArguments, EnvArguments, total=False):
    """All arguments of `ConcentrationEnv` except `obs`."""


class ConcentrationVectorEnvArguments(ConcentrationArguments, VectorEnvArguments, total=False):
    """All arguments of `ConcentrationVectorEnv` except `num_envs` and `obs`."""


class ConcentrationVectorEnv(TwofoldVectorEnv[ObsT, ConcentrationInfos]):
    """N games of Concentration; `gymnasium.make_vec("twofold/Concentration-v0", num_envs=N)`.

    Two cards with the same symbol are a pair. An action flips one card; cards are numbered row by
    row. A turn is two flips, and the observation after the second flip shows both cards. If they
    are not a pair, both are face down in the next observation. The episode ends when all pairs are
    found. If the game has peeks, the action with the highest number is a peek, which shows all
    remaining cards in one observation.

    Observations: uint8 (N, rows, columns). A face-up card is the number of its symbol, from 0 to
    symbols - 1. A face-down card is `symbols`, and a removed card is `symbols + 1`.

    Reward, float32, by default: 1 for a pair, -0.5 for a peek, and -0.1 for two cards that are not
    a pair or for an action on a card that is not face down.

    Infos: see `ConcentrationInfos`. `action_mask` is 1 for cards that can be flipped, and for the
    peek action while peeks remain. `extra_infos` may request `reward_terms`, `episode_return`,
    `episode` and `flips`.

    Args:
        num_envs: The number of games N.
        obs: "array"; "one_hot" or "one_hot_last" for float32 planes before or after a board's axes,
            "flat" for float32 (N, cells), or "dict" for {"observation": …, "action_mask": …}. If
            `mask_key` is given, observations of any form are put into such a dict.
        arguments: See `ConcentrationArguments` (preset, size, peeks, reward …) and
            `VectorEnvArguments` (autoreset_mode, endpoint, render_mode …).

    Raises:
        InvalidArgument: An argument is wrong; `field` names it.
        TransportError: No server answered.
    """

    game: Concentration

    def __init__(
        self,
        num_envs: int = 1,
        *,
        obs: ObservationName = "array",
        **arguments: Unpack[ConcentrationVectorEnvArguments],
    ) -> None:
        game, others = Concentration.split(arguments)
        super().__init__(game, num_envs, obs=obs, **others)


class ConcentrationEnv(TwofoldEnv[ObsT]):
    """One game of Concentration; `gymnasium.make("twofold/Concentration-v0")`.

    It has the arguments, observations, infos and errors of `ConcentrationVectorEnv`, for one game.
    """

    def __init__(
        self, *, obs: ObservationName = "array", **arguments: Unpack[ConcentrationEnvArguments]
    ) -> None:
        refuse_arguments_of_batches(type(self).__name__, arguments)
        batch = ConcentrationVectorEnv(
            1, autoreset_mode="Disabled", copy=True, obs=obs, **arguments
        )
        super().__init__(batch)
