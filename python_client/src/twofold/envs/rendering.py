"""Many boards in one picture."""

from __future__ import annotations

import math
from collections.abc import Callable

from twofold import _arguments
from twofold.envs.results import Array
from twofold.errors import InvalidArgument
from twofold.games.drawing import Picture, side_by_side
from twofold.games.spec import GameSpec

# Pixels between the boards of a grid, the smallest size of a board (larger if its cells need more),
# and the largest width.
_GAP = 8
_SMALLEST_BOARD = 16
_LARGEST_WIDTH = 16384


def draw_grid(
    game: GameSpec, num_envs: int, columns: int | None, width: int, ask: Callable[[], Array]
) -> Picture:
    """Draws the boards (N, …) that `ask` returns, all in one picture, for `render_grid`."""
    if columns is None:
        columns = math.ceil(math.sqrt(num_envs))
    columns = min(_arguments.integer("columns", columns, 1), num_envs)
    # Each cell needs a pixel and a gap.
    smallest = max(_SMALLEST_BOARD, 2 * max(game.rows, game.columns))
    most = (_LARGEST_WIDTH - _GAP) // (smallest + _GAP)
    if columns > most:
        raise InvalidArgument(
            f"columns is {columns:,}; expected at most {most}, because a board is at least "
            f"{smallest} pixels wide and the picture at most {_LARGEST_WIDTH:,}",
            field="columns",
        )
    least = columns * (smallest + _GAP) + _GAP
    width = _arguments.integer("width", width, least, _LARGEST_WIDTH)
    size = (width - _GAP) // columns - _GAP
    return side_by_side([game.picture(board, size) for board in ask()], columns, _GAP)
