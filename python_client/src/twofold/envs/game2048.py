"""2048: its infos and its environments."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from typing_extensions import NotRequired, Unpack

from twofold.envs.arguments import EnvArguments, ObservationName, VectorEnvArguments
from twofold.envs.results import AllInfos, ObsT
from twofold.envs.single import TwofoldEnv, refuse_arguments_of_batches
from twofold.envs.vector import TwofoldVectorEnv
from twofold.games.game2048 import DIRECTIONS, Game2048, Game2048Arguments


class Game2048Infos(AllInfos):
    """The infos of N boards. Only `step` returns the infos that `extra_infos` adds."""

    score: NDArray[np.int32]
    """The sum of the values of all merged tiles."""
    max_exponent: NDArray[np.uint8]
    """The exponent of the highest tile."""
    moves: NDArray[np.int32]
    """The number of legal actions in the episode so far."""
    goal_reached: NDArray[np.bool_]
    """Whether the highest tile is at least the goal."""
    merges: NotRequired[NDArray[np.uint8]]
    """(N, rows, columns): the exponents of merged tiles, in their cells in the afterstate."""
    chance: NotRequired[NDArray[np.int32]]
    """The spawned tile: its cell for a 2, cells + cell for a 4, -1 if none spawned."""
    afterstates: NotRequired[NDArray[np.uint8]]
    """(N, rows, columns): the board before the spawn."""
    optimal_value: NotRequired[NDArray[np.float32]]
    """The expected future result of optimal play; 0 once the episode has terminated."""
    action_values: NotRequired[NDArray[np.float32]]
    """(N, 4): the expected future result of each action, followed by optimal play; -inf for
    illegal actions."""
    regret: NotRequired[NDArray[np.float32]]
    """The cost of the step's action: the optimal value before it minus the action's value."""
    final_info: NotRequired[Game2048Infos]
    """With SAME_STEP: the infos of the episodes that this step ended."""
    _score: NDArray[np.bool_]
    _max_exponent: NDArray[np.bool_]
    _moves: NDArray[np.bool_]
    _goal_reached: NDArray[np.bool_]
    _merges: NotRequired[NDArray[np.bool_]]
    _chance: NotRequired[NDArray[np.bool_]]
    _afterstates: NotRequired[NDArray[np.bool_]]
    _optimal_value: NotRequired[NDArray[np.bool_]]
    _action_values: NotRequired[NDArray[np.bool_]]
    _regret: NotRequired[NDArray[np.bool_]]


class Game2048EnvArguments(Game2048Arguments, EnvArguments, total=False):
    """All arguments of `Game2048Env` except `obs`."""


class Game2048VectorEnvArguments(Game2048Arguments, VectorEnvArguments, total=False):
    """All arguments of `Game2048VectorEnv` except `num_envs` and `obs`."""


class Game2048VectorEnv(TwofoldVectorEnv[ObsT, Game2048Infos]):
    """N games of 2048; `gymnasium.make_vec("twofold/Game2048-v0", num_envs=N)`.

    Actions: 0 up, 1 right, 2 down, 3 left. Observations: uint8 exponents (N, rows, columns), 0 for
    an empty cell, 3 for an 8. Reward: the sum of the values of the merged tiles, float32.

    Infos: see `Game2048Infos`. `extra_infos` may request `episode`, `episode_return`,
    `reward_terms`, `merges`, `chance` and `afterstates`. On a step that only starts a new episode,
    `chance` is -1, and `reward_terms`, `merges` and `afterstates` are 0. Boards with at most nine
    cells also have `optimal_value`, `action_values` and `regret` (0 on such a step), from the table
    that `twofold solve` makes (see the page "Optimal play on small boards").

    Args:
        num_envs: The number of boards N.
        obs: "array"; "one_hot" or "one_hot_last" for float32 planes before or after a board's axes,
            "flat" for float32 (N, cells), or "dict" for {"observation": …, "action_mask": …}. If
            `mask_key` is given, observations of any form are put into such a dict.
        arguments: See `Game2048Arguments` (size, goal, reward, dialect …) and
            `VectorEnvArguments` (autoreset_mode, endpoint, render_mode …).

    Raises:
        InvalidArgument: An argument is wrong; `field` names it.
        FailedPrecondition: The table of optimal values is missing or damaged.
        ResourceExhausted: The service has too little memory for the boards or for the table.
        TransportError: No server answered.
    """

    game: Game2048

    def __init__(
        self,
        num_envs: int = 1,
        *,
        obs: ObservationName = "array",
        **arguments: Unpack[Game2048VectorEnvArguments],
    ) -> None:
        game, others = Game2048.split(arguments)
        super().__init__(game, num_envs, obs=obs, **others)


class Game2048Env(TwofoldEnv[ObsT]):
    """One game of 2048; `gymnasium.make("twofold/Game2048-v0")`.

    It has the arguments, observations, infos and errors of `Game2048VectorEnv`, for one game.
    """

    def __init__(
        self, *, obs: ObservationName = "array", **arguments: Unpack[Game2048EnvArguments]
    ) -> None:
        refuse_arguments_of_batches(type(self).__name__, arguments)
        batch = Game2048VectorEnv(1, autoreset_mode="Disabled", copy=True, obs=obs, **arguments)
        super().__init__(batch)

    def get_keys_to_action(self) -> dict[str, int]:
        """Returns the action for each of the keys W, D, S and A, for `gymnasium.utils.play`.

        Pass wait_on_player=True to `play`, so that each move waits for a key.
        """
        return {key: self.game.number(word) for key, word in zip("wdsa", DIRECTIONS, strict=True)}
