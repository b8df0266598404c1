"""2048: its arguments, dialects, texts and pictures."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from twofold import _arguments
from twofold.errors import InvalidArgument
from twofold.games.drawing import Picture, draw_board, tile
from twofold.games.encoding import tile_values
from twofold.games.spec import (
    SHARED_ARGUMENTS,
    Argument,
    GameArguments,
    GameSpec,
    Infos,
    Measure,
    read_arguments,
)
from twofold.v1 import game2048_pb2 as game2048

DIRECTIONS = ("up", "right", "down", "left")
"""The words for the server's actions, by number."""

OBJECTIVES = {
    "score": (game2048.OBJECTIVE_SCORE, "points"),
    "moves": (game2048.OBJECTIVE_MOVES, "moves"),
    "goal": (game2048.OBJECTIVE_GOAL, "probability of the goal"),
}
"""The number of each objective on the wire, and its unit in reports."""

_SIDES = (2, 8)
# The number of each value on the wire, and its words on the rule card.
_ILLEGAL_ACTIONS = {
    "noop": (game2048.ILLEGAL_ACTION_NOOP, "nothing happens"),
    "terminate": (game2048.ILLEGAL_ACTION_TERMINATE, "ends the game"),
}

_BOARD = (187, 173, 160)
_EMPTY = (205, 193, 180)
_DARK, _LIGHT = (119, 110, 101), (249, 246, 242)
# For numbers on the yellow faces, 128 ... 2048, where light text is hard to read.
_BROWN = (94, 72, 20)
# The faces of the tiles, starting with 2; larger tiles have the last face.
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
    """The number of cells along each side, or (rows, columns); each 2 ... 8. 4 by default."""
    goal: int
    """The tile to reach, a power of two and at least 4; 2048 by default. The info `goal_reached`
    reports whether it has been reached."""
    stop_at_goal: bool
    """Whether reaching the goal ends the episode; False by default. If a start tile is already the
    goal (goal=4), the first step ends the episode."""
    four_probability: float
    """The probability that a spawned tile is a 4, 0 ... 1; 0.1 by default."""
    start_tiles: int | None
    """The number of tiles on a new board, 1 ... cells - 1. None means the dialect's number; 2
    without a dialect."""
    illegal_action: Literal["noop", "terminate"] | None
    """The effect of an action that moves nothing. None means the dialect's effect; "noop" without
    a dialect."""
    objective: Literal["score", "moves", "goal"]
    """The quantity that optimal play maximises, on boards with at most nine cells: the expected
    "score" (the default), the expected number of "moves", or the probability of the "goal" tile. It
    affects only the policy "optimal" and the extra infos "optimal_value", "action_values" and
    "regret" (see the page "Optimal play on small boards")."""
    dialect: str | None
    """"jumanji", "envpool" or "pgx", to play by another package's rules and order of actions
    (see the page "Dialects: 2048 as other packages play it"). A dialect fixes some arguments and
    refuses other values for them."""


@dataclass(frozen=True)
class Dialect:
    """The rules of another package's 2048.

    For details, see the page "Dialects: 2048 as other packages play it". `make certify` compares
    each dialect with its package, transition by transition.
    """

    name: str | None
    """The name of the dialect; None for Twofold's own rules, which fix no argument."""
    start_tiles: int = 2
    illegal_action: Literal["noop", "terminate"] = "noop"
    server_actions: tuple[int, ...] | None = None
    """The server's number for each action; None for the server's order: up, right, down, left."""
    reward: dict[str, float] | None = None
    """The weights of the reward's terms; None for Twofold's score."""
    only_4x4: bool = False
    """Whether only 4 x 4 boards are allowed. All dialects require square boards."""

    def check(self, arguments: Mapping[str, Any]) -> None:
        """Refuses arguments that the package does not support."""
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
            f"{argument} is {value!r}; the dialect {self.name!r} requires {theirs}: leave out "
            f"{argument} or dialect",
            field=argument,
        )


_DIALECTS = {
    "jumanji": Dialect("jumanji", start_tiles=1),
    "envpool": Dialect("envpool", start_tiles=1, only_4x4=True),
    "pgx": Dialect(
        "pgx",
        illegal_action="terminate",
        server_actions=(3, 0, 1, 2),
        reward={"merge_score": 1.0, "illegal_action": -1.0},
        only_4x4=True,
    ),
}


def _goal(name: str, value: object) -> int:
    goal = _arguments.integer(name, value, 4, 2**31)
    if goal & (goal - 1):
        raise _arguments.wrong(name, goal, "a power of two")
    return goal


def _reached(exponent: int) -> Measure:
    """Returns a measure: the share of episodes with a tile of at least this exponent."""
    is_reached = functools.partial(np.less_equal, exponent)
    return Measure(f"reached_{2**exponent}", "max_exponent", np.add, is_reached)


def _tiles(exponents: NDArray[Any]) -> NDArray[Any]:
    return 1 << exponents.astype(np.int64)


@dataclass(frozen=True)
class Game2048(GameSpec):
    """2048 with its arguments.

    Attributes:
        objective: The quantity that optimal play maximises.
    """

    objective: str = "score"

    environment_id = "twofold/Game2048-v0"
    name = "2048"
    description = (
        "2048: slide the tiles of a board up, right, down or left; equal ones merge and score"
    )
    known_arguments: ClassVar[dict[str, Argument]] = {
        "size": Argument(4, lambda _, value: _arguments.sides(value, *_SIDES)),
        "four_probability": Argument(
            0.1,
            lambda _, value: _arguments.probability(value),
            {"type": float, "metavar": "P", "help": "probability of a 4 (default: 0.1)"},
        ),
        # `of` checks it, because the limit depends on the size.
        "start_tiles": Argument(
            None,
            lambda _, value: value,
            {"type": int, "metavar": "N", "help": "tiles on a new board (default: 2)"},
        ),
        "goal": Argument(
            2048,
            _goal,
            {"type": int, "metavar": "TILE", "help": "tile that counts as a win (default: 2048)"},
        ),
        "stop_at_goal": Argument(
            False,
            _arguments.boolean,
            {"action": "store_true", "default": None, "help": "end the episode at the goal"},
        ),
        "illegal_action": Argument(
            None, lambda name, value: _arguments.choice(name, value, _ILLEGAL_ACTIONS)
        ),
        "objective": Argument(
            "score",
            lambda name, value: _arguments.choice(name, value, OBJECTIVES),
            {
                "choices": OBJECTIVES,
                "help": "quantity that optimal play maximises (default: score)",
            },
        ),
        "dialect": Argument(None, lambda name, value: _arguments.choice(name, value, _DIALECTS)),
        **SHARED_ARGUMENTS,
    }
    sides = _SIDES
    board_numbers = "exponents"
    measures = (
        Measure("score_mean", "score", np.add),
        Measure("score_max", "score", np.maximum),
        Measure("max_tile", "max_exponent", np.maximum, _tiles),
        *map(_reached, range(4, 16)),
    )

    @classmethod
    def of(cls, **arguments: Any) -> Self:
        """Returns the game with these arguments; `Game2048Arguments` lists them."""
        arguments = read_arguments(arguments)
        values = cls._checked(arguments)
        dialect = _DIALECTS.get(values["dialect"], Dialect(None))
        rows, columns = values["size"]
        for name in ("start_tiles", "illegal_action"):
            if values[name] is None:
                values[name] = getattr(dialect, name)
        start_tiles = _arguments.integer(
            "start_tiles", values["start_tiles"], 1, rows * columns - 1
        )
        dialect.check(arguments)
        if values["reward"] is None:
            values["reward"] = dialect.reward
        config = game2048.Game2048Config(
            rows=rows,
            columns=columns,
            goal=values["goal"],
            stop_at_goal=values["stop_at_goal"],
            four_probability=values["four_probability"],
            start_tiles=start_tiles,
            illegal_action=_ILLEGAL_ACTIONS[values["illegal_action"]][0],
            objective=OBJECTIVES[values["objective"]][0],
        )
        order = dialect.server_actions
        return cls(
            arguments=arguments,
            request=cls._request(values, game2048=config),
            rows=rows,
            columns=columns,
            # The highest tile on n cells is 2^(n + 1).
            planes=min(rows * columns + 2, 32),
            actions=DIRECTIONS if order is None else tuple(DIRECTIONS[each] for each in order),
            server_actions=order,
            objective=values["objective"],
        )

    def rules(self) -> dict[str, str | int]:
        """Returns the size, spawns, goal, illegal action and score for the rule card."""
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
        """Returns a board of exponents, (rows, columns), as text.

           .    2    .    .
           .    .    .    .
          16    8    .    .
        1024   32    2    .
        """
        cells = [["." if e == 0 else str(2 ** int(e)) for e in row] for row in observation]
        width = max(4, *(len(cell) for row in cells for cell in row))
        return "\n".join(" ".join(cell.rjust(width) for cell in row) for row in cells)

    def picture(self, observation: NDArray[np.uint8], size: int) -> Picture:
        """Draws a board of exponents, (rows, columns), in the colours of the original game."""

        def cell(exponent: int, side: int) -> Picture:
            if exponent == 0:
                return tile(side, _BOARD, _EMPTY)
            face = _FACES[min(exponent, len(_FACES)) - 1]
            ink = _DARK if exponent <= 2 else _BROWN if 7 <= exponent <= 11 else _LIGHT
            return tile(side, _BOARD, face, str(2**exponent), ink)

        return draw_board(observation, size, _BOARD, cell)

    def number(self, action: object) -> int:
        """Returns the number of the action for a direction."""
        words = [str(word) for word in self.actions]
        return words.index(_arguments.choice("direction", action, words))

    def facts(self, board: NDArray[Any], infos: Infos) -> dict[str, Any]:
        """Returns the board, the score, the highest tile and the number of moves."""
        return {
            "board": tile_values(board).tolist(),
            "score": infos["score"],
            "highest_tile": 2 ** infos["max_exponent"],
            "moves": infos["moves"],
        }

    def standing(self, infos: Infos) -> str:
        """Returns a sentence with the score and the highest tile."""
        return f"Score {infos['score']}, highest tile {2 ** infos['max_exponent']}."

    def choices(self, legal: list[Any], infos: Infos) -> str:
        """Returns a sentence with the legal directions."""
        return f"Legal directions: {', '.join(legal)}."

    def refusal(self, number: int, board: NDArray[Any]) -> str:
        """Returns why a direction is illegal: nothing moves."""
        return f"Nothing moves {self.actions[number]}"

    def end(self, infos: Infos, is_legal: bool) -> str:
        """Returns why the game ended: the goal, an illegal action, or no tile can move."""
        config = self.request.game2048
        # Checked first, because an illegal action also ends the game if a start tile is the goal.
        if config.stop_at_goal and infos["goal_reached"]:
            return f"{config.goal} is reached"
        return "no tile can move" if is_legal else "that action was illegal"
