"""2048: its arguments, and how its board looks as text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
from gymnasium.vector import AutoresetMode

from twofold import _arguments
from twofold.client.curve import CurveKeys
from twofold.envs.results import Array
from twofold.envs.single import TwofoldEnv
from twofold.envs.vector import DEFAULT_TIMEOUT, TwofoldVectorEnv
from twofold.errors import InvalidArgument
from twofold.games.base import Game
from twofold.games.dialects import find
from twofold.games.drawing import Grid, Picture, fill, tile
from twofold.games.rewards import Reward
from twofold.v1 import environment_pb2 as environment
from twofold.v1 import game2048_pb2 as game2048

_ILLEGAL_ACTIONS = {
    "noop": game2048.ILLEGAL_ACTION_NOOP,
    "terminate": game2048.ILLEGAL_ACTION_TERMINATE,
}
_ILLEGAL_ACTION_WORDS = {
    _ILLEGAL_ACTIONS["noop"]: "nothing happens",
    _ILLEGAL_ACTIONS["terminate"]: "ends the game",
}


_BOARD = (187, 173, 160)
_EMPTY = (205, 193, 180)
_DARK, _LIGHT = (119, 110, 101), (249, 246, 242)
# The faces of the tiles from 2 on; what is larger is the last one.
_FACES = [
    (238, 228, 218),
    (237, 224, 200),
    (242, 177, 121),
    (245, 149, 99),
    (246, 124, 95),
    (246, 94, 59),
    (237, 207, 114),
    (237, 204, 97),
    (237, 200, 80),
    (237, 197, 63),
    (237, 194, 46),
    (60, 58, 50),
]


class Game2048(Game):
    """2048 as the client has it: its request, and how its boards look."""

    environment_id = "twofold/Game2048-v0"
    board_numbers = "exponents"

    def __init__(self, config: game2048.Game2048Config) -> None:
        super().__init__(
            environment.CreateRequest(environment_id=self.environment_id, game2048=config)
        )

    def rules(self) -> dict[str, str | int]:
        """Size, spawns, goal, illegal actions, score."""
        config = self.request.game2048
        four = config.four_probability
        return {
            "size": f"{config.rows} x {config.columns}",
            "spawn law": f"2 with {1 - four:g}, 4 with {four:g}, all empty cells alike",
            "start tiles": config.start_tiles,
            "goal": f"{config.goal}, {'ends the game' if config.stop_at_goal else 'play goes on'}",
            "illegal action": _ILLEGAL_ACTION_WORDS[config.illegal_action],
            "score": "sum of merged values, whatever the reward",
        }

    def text(self, observation: Array) -> str:
        """A board of exponents, (rows, columns), as text."""
        return board_text(observation)

    def picture(self, observation: Array, size: int) -> Picture:
        """A board of exponents, (rows, columns), in the colours that 2048 is known by."""
        rows, columns = observation.shape
        grid = Grid(rows, columns, size, gap=0.13)
        picture = fill(grid.height, grid.width, _BOARD)
        for (row, column), exponent in np.ndenumerate(observation):
            if exponent == 0:
                cell = tile(grid.cell, _BOARD, _EMPTY)
            else:
                face = _FACES[min(int(exponent), len(_FACES)) - 1]
                ink = _DARK if exponent <= 2 else _LIGHT
                cell = tile(grid.cell, _BOARD, face, str(2 ** int(exponent)), ink)
            grid.place(picture, row, column, cell)
        return picture


class Game2048VectorEnv(TwofoldVectorEnv):
    """N boards of 2048; `gymnasium.make_vec("twofold/Game2048-v0", num_envs=N)`.

    Actions: 0 up, 1 right, 2 down, 3 left. Observations: uint8 exponents (N, rows, columns), 0 for
    an empty cell, 3 for an 8. Reward: the sum of the values of the tiles made by merging, float32.

    Infos: `action_mask` int8 (N, 4), all 0 on a finished one; `score` int32; `max_exponent` uint8;
    `episode_length` int32, all steps; `moves` int32, the legal ones; `goal_reached` bool.

    Infos of a step on request (`extra_infos`): `reward_terms` float32 (N, terms), each term's
    weighted part of the reward, before scale and clip; `merges` uint8 (N, rows, columns), the
    exponents that merges made, in their cells of the afterstate; `chance` int32, the outcome of the
    spawn: its cell for a 2, cells + cell for a 4, -1 for none; `afterstates` uint8 (N, rows,
    columns), the board before the spawn. On a step that only starts a new episode: 0, 0, -1, 0.

    Args:
        num_envs: Number of boards N.
        size: Cells along both sides, or (rows, columns); each 2 ... 8.
        goal: The tile to reach, a power of two from 4 up; told in `goal_reached`.
        stop_at_goal: Whether reaching the goal ends the episode. Where a start tile is the goal
            already (goal=4), the first step ends it.
        four_probability: How often a spawned tile is a 4, 0 ... 1.
        start_tiles: Tiles on a new board, 1 ... cells - 1; None for the dialect's, 2 without one.
        illegal_action: What an action does that moves nothing: "noop" or "terminate"; None for the
            dialect's, "noop" without one.
        max_episode_steps: Steps after which the server truncates an episode; None for never.
        autoreset_mode: NEXT_STEP, SAME_STEP or DISABLED, as gymnasium's enum, its value or its
            name.
        reward: What a step earns: None or "score" for {"merge_score": 1.0}; else a dict or a list
            of terms, or the path of a JSON file. docs/rewards.md has all of them.
        extra_infos: Infos of a step beyond the usual ones, any of "reward_terms", "merges",
            "chance" and "afterstates".
        dialect: "jumanji", "envpool" or "pgx", to play by another package's rules and order of
            actions (docs/dialects.md); arguments that it fixes are refused where they differ.
        recover: Whether to make boards anew that the server has lost (docs/reliability.md).
        endpoint: "embedded" for this process itself, "private" for a server of this process's own,
            the address of a running one, or None for the environment variable TWOFOLD_ENDPOINT and
            without it "embedded".
        curve: Keys for an encrypted tcp endpoint, or None for the files that the environment
            variables TWOFOLD_CURVE_SERVER and TWOFOLD_CURVE_CLIENT name.
        obs: "array", or "dict" for observations {"observation": …, "action_mask": …}.
        observation_key: Another name for the first, with obs="dict".
        mask_key: Another name for the second.
        render_mode: None, "ansi" for text, or "rgb_array" for pictures.
        render_size: Pixels along the longer side of a board's picture, 32 ... 4096.
        timeout: Seconds that each call may take before DeadlineExceeded.
        copy: False for the same arrays from every reset and step, overwritten in place.

    Raises:
        InvalidArgument: An argument is wrong; `field` tells which.
        TransportError: No server.
    """

    def __init__(
        self,
        num_envs: int = 1,
        *,
        size: int | tuple[int, int] = 4,
        goal: int = 2048,
        stop_at_goal: bool = False,
        four_probability: float = 0.1,
        start_tiles: int | None = None,
        illegal_action: Literal["noop", "terminate"] | None = None,
        max_episode_steps: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        reward: Reward = None,
        extra_infos: Iterable[str] = (),
        dialect: str | None = None,
        recover: bool = False,
        endpoint: str | None = None,
        curve: CurveKeys | None = None,
        obs: Literal["array", "dict"] = "array",
        observation_key: str | None = None,
        mask_key: str | None = None,
        render_mode: str | None = None,
        render_size: int = 512,
        timeout: float = DEFAULT_TIMEOUT,
        copy: bool = True,
    ) -> None:
        rules = find(dialect)
        config = _config(
            size=size,
            goal=goal,
            stop_at_goal=stop_at_goal,
            four_probability=four_probability,
            start_tiles=rules.start_tiles if start_tiles is None else start_tiles,
            illegal_action=rules.illegal_action if illegal_action is None else illegal_action,
        )
        rules.check(
            size=size,
            four_probability=four_probability,
            stop_at_goal=stop_at_goal,
            start_tiles=start_tiles,
            illegal_action=illegal_action,
            reward=reward,
        )
        super().__init__(
            Game2048(config),
            num_envs,
            max_episode_steps=max_episode_steps,
            autoreset_mode=autoreset_mode,
            reward=rules.reward if reward is None else reward,
            extra_infos=extra_infos,
            action_order=rules.action_order,
            recover=recover,
            endpoint=endpoint,
            curve=curve,
            obs=obs,
            observation_key=observation_key,
            mask_key=mask_key,
            render_mode=render_mode,
            render_size=render_size,
            timeout=timeout,
            copy=copy,
        )


class Game2048Env(TwofoldEnv):
    """One board of 2048; `gymnasium.make("twofold/Game2048-v0")`.

    Arguments, observations, infos and errors are those of `Game2048VectorEnv`, for one board. The
    argument max_episode_steps truncates in the server; the one of `gymnasium.make` never gets here,
    and truncates in Gymnasium's TimeLimit.
    """

    def __init__(
        self,
        *,
        size: int | tuple[int, int] = 4,
        goal: int = 2048,
        stop_at_goal: bool = False,
        four_probability: float = 0.1,
        start_tiles: int | None = None,
        illegal_action: Literal["noop", "terminate"] | None = None,
        max_episode_steps: int | None = None,
        reward: Reward = None,
        extra_infos: Iterable[str] = (),
        dialect: str | None = None,
        recover: bool = False,
        endpoint: str | None = None,
        curve: CurveKeys | None = None,
        obs: Literal["array", "dict"] = "array",
        observation_key: str | None = None,
        mask_key: str | None = None,
        render_mode: str | None = None,
        render_size: int = 512,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        super().__init__(
            Game2048VectorEnv(
                1,
                size=size,
                goal=goal,
                stop_at_goal=stop_at_goal,
                four_probability=four_probability,
                start_tiles=start_tiles,
                illegal_action=illegal_action,
                max_episode_steps=max_episode_steps,
                autoreset_mode=AutoresetMode.DISABLED,
                reward=reward,
                extra_infos=extra_infos,
                dialect=dialect,
                recover=recover,
                endpoint=endpoint,
                curve=curve,
                obs=obs,
                observation_key=observation_key,
                mask_key=mask_key,
                render_mode=render_mode,
                render_size=render_size,
                timeout=timeout,
            )
        )


def _config(
    *,
    size: Any,
    goal: Any,
    stop_at_goal: Any,
    four_probability: Any,
    start_tiles: Any,
    illegal_action: Any,
) -> game2048.Game2048Config:
    """The game's config, each argument checked."""
    sides = tuple(size) if isinstance(size, (tuple, list)) else (size, size)
    if len(sides) != 2:
        raise InvalidArgument(
            f"size is {size!r}; expected an integer or (rows, columns)", field="size"
        )
    rows, columns = (_arguments.integer("size", side, 2, 8) for side in sides)
    goal = _arguments.integer("goal", goal, 4, 2**31)
    if goal & (goal - 1):
        raise InvalidArgument(f"goal is {goal}; expected a power of two", field="goal")
    if illegal_action not in _ILLEGAL_ACTIONS:
        raise InvalidArgument(
            f"illegal_action is {illegal_action!r}; expected 'noop' or 'terminate'",
            field="illegal_action",
        )
    return game2048.Game2048Config(
        rows=rows,
        columns=columns,
        goal=goal,
        stop_at_goal=_arguments.boolean("stop_at_goal", stop_at_goal),
        four_probability=_arguments.real("four_probability", four_probability, 0, 1, "0 ... 1"),
        start_tiles=_arguments.integer("start_tiles", start_tiles, 1, rows * columns - 1),
        illegal_action=_ILLEGAL_ACTIONS[illegal_action],
    )


def board_text(observation: Array) -> str:
    """A board of exponents, (rows, columns), as text.

       .    2    .    .
       .    .    .    .
      16    8    .    .
    1024   32    2    .
    """
    cells = [["." if e == 0 else str(2 ** int(e)) for e in row] for row in observation]
    width = max(4, *(len(cell) for row in cells for cell in row))
    return "\n".join(" ".join(cell.rjust(width) for cell in row) for row in cells)
