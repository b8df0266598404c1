"""2048: its arguments, and how its board looks as text."""

from __future__ import annotations

from typing import Any, Literal

from gymnasium.vector import AutoresetMode

from twofold import _arguments
from twofold._env import TwofoldEnv
from twofold._exceptions import InvalidArgument
from twofold._vector_env import Array, TwofoldVectorEnv
from twofold.v1 import environment_pb2 as environment
from twofold.v1 import game2048_pb2 as game2048

ENVIRONMENT_ID = "twofold/Game2048-v0"
DEFAULT_TIMEOUT = 30.0

_ILLEGAL_ACTIONS = {
    "noop": game2048.ILLEGAL_ACTION_NOOP,
    "terminate": game2048.ILLEGAL_ACTION_TERMINATE,
}


class Game2048VectorEnv(TwofoldVectorEnv):
    """N boards of 2048; `gymnasium.make_vec("twofold/Game2048-v0", num_envs=N)`.

    Actions: 0 up, 1 right, 2 down, 3 left. Observations: uint8 exponents (N, rows, columns), 0 for
    an empty cell, 3 for an 8. Reward: the sum of the values of the tiles made by merging, float32.

    Infos: `action_mask` int8 (N, 4), all 0 on a finished one; `score` int32; `max_exponent` uint8;
    `episode_length` int32, all steps; `moves` int32, the legal ones; `goal_reached` bool.

    Args:
        num_envs: Number of boards N.
        size: Cells along both sides, or (rows, columns); each 2 ... 8.
        goal: The tile to reach, a power of two from 4 up; told in `goal_reached`.
        stop_at_goal: Whether reaching the goal ends the episode.
        four_probability: How often a spawned tile is a 4, 0 ... 1.
        start_tiles: Tiles on a new board, 1 ... cells - 1.
        illegal_action: What an action does that moves nothing: "noop" or "terminate".
        max_episode_steps: Steps after which the server truncates an episode; None for never.
        autoreset_mode: NEXT_STEP or DISABLED, as gymnasium's enum, its value or its name.
        reward: None, "score" or {"merge_score": 1.0}, which are the same.
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

    def __init__(
        self,
        num_envs: int = 1,
        *,
        size: int | tuple[int, int] = 4,
        goal: int = 2048,
        stop_at_goal: bool = False,
        four_probability: float = 0.1,
        start_tiles: int = 2,
        illegal_action: Literal["noop", "terminate"] = "noop",
        max_episode_steps: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        reward: str | dict[str, float] | None = None,
        dialect: str | None = None,
        recover: bool = False,
        endpoint: str | None = None,
        obs: str = "array",
        render_mode: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        config = _config(
            size=size,
            goal=goal,
            stop_at_goal=stop_at_goal,
            four_probability=four_probability,
            start_tiles=start_tiles,
            illegal_action=illegal_action,
        )
        super().__init__(
            environment.CreateRequest(environment_id=ENVIRONMENT_ID, game2048=config),
            num_envs,
            max_episode_steps=max_episode_steps,
            autoreset_mode=autoreset_mode,
            reward=reward,
            dialect=dialect,
            recover=recover,
            endpoint=endpoint,
            obs=obs,
            render_mode=render_mode,
            timeout=timeout,
        )

    def _render_board(self, observation: Array) -> str:
        return board_text(observation)


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
        start_tiles: int = 2,
        illegal_action: Literal["noop", "terminate"] = "noop",
        max_episode_steps: int | None = None,
        reward: str | dict[str, float] | None = None,
        dialect: str | None = None,
        recover: bool = False,
        endpoint: str | None = None,
        obs: str = "array",
        render_mode: str | None = None,
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
                dialect=dialect,
                recover=recover,
                endpoint=endpoint,
                obs=obs,
                render_mode=render_mode,
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
