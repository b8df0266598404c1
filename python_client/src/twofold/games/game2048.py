"""2048: its arguments, dialects, and how its boards look."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Unpack

from twofold import _arguments
from twofold.errors import InvalidArgument
from twofold.games.spec import Game, GameArguments, Measure
from twofold.games.drawing import Picture, draw_board, tile
from twofold.v1 import environment_pb2 as environment
from twofold.v1 import game2048_pb2 as game2048

# The wire's number of each, and the words for the rule card.
DIRECTIONS = ("up", "right", "down", "left")
"""The actions by number."""

_ILLEGAL_ACTIONS = {
    "noop": (game2048.ILLEGAL_ACTION_NOOP, "nothing happens"),
    "terminate": (game2048.ILLEGAL_ACTION_TERMINATE, "ends the game"),
}

OBJECTIVES = {
    "score": game2048.OBJECTIVE_SCORE,
    "moves": game2048.OBJECTIVE_MOVES,
    "goal": game2048.OBJECTIVE_GOAL,
}
"""What an optimum is the best for; the wire's number of each."""

_BOARD = (187, 173, 160)
_EMPTY = (205, 193, 180)
_DARK, _LIGHT = (119, 110, 101), (249, 246, 242)
# On the yellow faces, 128 ... 2048, where a light number is hard to read on a small board.
_BROWN = (94, 72, 20)
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


class Game2048Arguments(GameArguments, total=False):
    """The arguments of 2048."""

    size: int | tuple[int, int]
    """Cells along both sides, or (rows, columns); each 2 ... 8. 4 by default."""
    goal: int
    """The tile to reach, a power of two from 4 up, 2048 by default; reported in `goal_reached`."""
    stop_at_goal: bool
    """Whether reaching the goal ends the episode; False by default. If a start tile is the goal
    already (goal=4), the first step ends it."""
    four_probability: float
    """How often a spawned tile is a 4, 0 ... 1; 0.1 by default."""
    start_tiles: int | None
    """Tiles on a new board, 1 ... cells - 1; None for the dialect's, 2 without one."""
    illegal_action: Literal["noop", "terminate"] | None
    """The effect of an action that moves nothing; None for the dialect's, "noop" without one."""
    objective: Literal["score", "moves", "goal"]
    """What optimal play is the best for, on boards of at most nine cells: the expected "score", the
    default, the expected number of "moves", or the probability to make the "goal" tile. It is for
    the extra infos "optimal_value", "action_values" and "regret" and for the policy "optimal"
    (docs/reference/optimum.md) and changes nothing else."""
    dialect: str | None
    """"jumanji", "envpool" or "pgx", to play by another package's rules and order of actions
    (docs/environments/dialects.md); arguments that it fixes are refused where they differ."""


@dataclass(frozen=True)
class Dialect:
    """What another package's 2048 fixes; docs/environments/dialects.md has the details.

    `make certify` compares each with the package itself, transition by transition.
    """

    name: str | None
    """None for Twofold's own rules, which fix nothing."""
    start_tiles: int = 2
    illegal_action: Literal["noop", "terminate"] = "noop"
    action_order: tuple[int, ...] | None = None
    """The server's number of each action; None for the server's order: up, right, down, left."""
    reward: dict[str, float] | None = None
    """Declared terms; None for the score, as Twofold has it."""
    only_4x4: bool = False
    """Whether the package has no other boards; in all dialects they are square."""

    def check(self, arguments: Mapping[str, Any]) -> None:
        """Refuses arguments that the package does not have."""
        if self.name is None:
            return
        fixed = {
            "start_tiles": self.start_tiles,
            "illegal_action": self.illegal_action,
            "four_probability": 0.1,
            "stop_at_goal": False,
        }
        for argument, theirs in fixed.items():
            value = arguments.get(argument)
            if value is not None and value != theirs:
                raise self._refusal(argument, value, repr(theirs))
        size = arguments.get("size", 4)
        sides = set(size) if isinstance(size, (tuple, list)) else {size}
        if self.only_4x4 and sides != {4}:
            raise self._refusal("size", size, "4")
        if len(sides) != 1:
            raise self._refusal("size", size, "a square")
        if arguments.get("reward") is not None:
            raise self._refusal("reward", arguments["reward"], "its own")

    def _refusal(self, argument: str, value: object, theirs: str) -> InvalidArgument:
        return InvalidArgument(
            f"{argument} is {value!r}; the dialect {self.name!r} has {theirs}, so leave out one of "
            "the two",
            field=argument,
        )


def _reached(exponent: int) -> Measure:
    """The share of episodes with a tile of at least this exponent."""
    is_reached = functools.partial(np.less_equal, exponent)
    return Measure(f"reached_{2**exponent}", "max_exponent", np.add, is_reached)


def _tiles(exponents: NDArray[Any]) -> NDArray[Any]:
    return 1 << exponents.astype(np.int64)


_DIALECTS = {
    "jumanji": Dialect("jumanji", start_tiles=1),
    "envpool": Dialect("envpool", start_tiles=1, only_4x4=True),
    "pgx": Dialect(
        "pgx",
        illegal_action="terminate",
        action_order=(3, 0, 1, 2),
        reward={"merge_score": 1.0, "illegal_action": -1.0},
        only_4x4=True,
    ),
}


class Game2048(Game):
    """2048 as the client has it: its request, and how its boards look."""

    environment_id = "twofold/Game2048-v0"
    argument_names = frozenset(Game2048Arguments.__optional_keys__)
    board_numbers = "exponents"
    measures = (
        Measure("score_mean", "score", np.add),
        Measure("score_max", "score", np.maximum),
        Measure("max_tile", "max_exponent", np.maximum, _tiles),
        *map(_reached, range(9, 16)),
    )

    def __init__(self, **arguments: Unpack[Game2048Arguments]) -> None:
        name = arguments.get("dialect")
        dialect = Dialect(None)
        if name is not None:
            dialect = _DIALECTS[_arguments.choice("dialect", name, _DIALECTS)]
        config = environment.CreateRequest(
            environment_id=self.environment_id, game2048=_config(dialect, arguments)
        )
        dialect.check(arguments)
        reward = arguments.get("reward")
        super().__init__(
            config,
            max_episode_steps=arguments.get("max_episode_steps"),
            reward=dialect.reward if reward is None else reward,
            action_order=dialect.action_order,
        )
        # The highest tile of n cells is 2^(n + 1).
        self.planes = min(config.game2048.rows * config.game2048.columns + 2, 32)

    def rules(self) -> dict[str, str | int]:
        """Size, spawns, goal, illegal actions, score."""
        config = self.request.game2048
        four = config.four_probability
        return {
            "size": f"{config.rows} x {config.columns}",
            "spawn law": f"2 with {1 - four:g}, 4 with {four:g}, all empty cells alike",
            "start tiles": config.start_tiles,
            "goal": f"{config.goal}, {'ends the game' if config.stop_at_goal else 'play goes on'}",
            "illegal action": dict(_ILLEGAL_ACTIONS.values())[config.illegal_action],
            "score": "sum of merged values, whatever the reward",
        }

    @staticmethod
    def text(observation: NDArray[np.uint8]) -> str:
        """A board of exponents, (rows, columns), as text.

           .    2    .    .
           .    .    .    .
          16    8    .    .
        1024   32    2    .
        """
        cells = [["." if e == 0 else str(2 ** int(e)) for e in row] for row in observation]
        width = max(4, *(len(cell) for row in cells for cell in row))
        return "\n".join(" ".join(cell.rjust(width) for cell in row) for row in cells)

    def picture(self, observation: NDArray[np.uint8], size: int) -> Picture:
        """A board of exponents, (rows, columns), in the colours that 2048 is known by."""

        def cell(exponent: int, side: int) -> Picture:
            if exponent == 0:
                return tile(side, _BOARD, _EMPTY)
            face = _FACES[min(exponent, len(_FACES)) - 1]
            ink = _DARK if exponent <= 2 else _BROWN if 7 <= exponent <= 11 else _LIGHT
            return tile(side, _BOARD, face, str(2**exponent), ink)

        return draw_board(observation, size, _BOARD, cell)


def _config(dialect: Dialect, arguments: Game2048Arguments) -> game2048.Game2048Config:
    """The game's config, each argument checked."""
    rows, columns = _arguments.sides(arguments.get("size", 4), 2, 8)
    goal = _arguments.integer("goal", arguments.get("goal", 2048), 4, 2**31)
    if goal & (goal - 1):
        raise InvalidArgument(f"goal is {goal}; expected a power of two", field="goal")
    start_tiles = arguments.get("start_tiles")
    if start_tiles is None:
        start_tiles = dialect.start_tiles
    illegal_action = arguments.get("illegal_action")
    if illegal_action is None:
        illegal_action = dialect.illegal_action
    _arguments.choice("illegal_action", illegal_action, _ILLEGAL_ACTIONS)
    return game2048.Game2048Config(
        rows=rows,
        columns=columns,
        goal=goal,
        stop_at_goal=_arguments.boolean("stop_at_goal", arguments.get("stop_at_goal", False)),
        four_probability=_arguments.probability(arguments.get("four_probability", 0.1)),
        start_tiles=_arguments.integer("start_tiles", start_tiles, 1, rows * columns - 1),
        illegal_action=_ILLEGAL_ACTIONS[illegal_action][0],
        objective=OBJECTIVES[
            _arguments.choice("objective", arguments.get("objective", "score"), OBJECTIVES)
        ],
    )
