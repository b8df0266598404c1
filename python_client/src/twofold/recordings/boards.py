"""The actions and new tiles that explain a sequence of boards of another engine."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twofold.errors import InvalidArgument
from twofold.recordings.replay import RecordingRules, move


def explain_boards(
    boards: ArrayLike, four_probability: float, start_tiles: int
) -> tuple[RecordingRules, list[int], list[int]]:
    """The rules, the actions (steps,) and the chance outcomes (tiles,) of a game.

    Its boards are exponents, integers (steps + 1, rows, columns).

    Raises:
        InvalidArgument: The boards are not a game of 2048; the text names the first wrong one.
    """
    array = _check_boards(boards)
    rules = RecordingRules(array.shape[1], array.shape[2], four_probability, start_tiles)
    flat = array.reshape(len(array), -1).tolist()
    tiles = [(cell, exponent) for cell, exponent in enumerate(flat[0]) if exponent]
    if len(tiles) != start_tiles or any(exponent > 2 for _, exponent in tiles):
        raise InvalidArgument(
            f"board 0 has tiles {[2**exponent for _, exponent in tiles]}; expected {start_tiles} "
            "of 2 or 4",
            field="boards",
        )
    actions: list[int] = []
    outcomes = [cell + rules.cells * (exponent - 1) for cell, exponent in tiles]
    for number in range(1, len(flat)):
        found = _explain_step(flat[number - 1], flat[number], rules)
        if found is None:
            raise InvalidArgument(
                f"board {number} does not follow from the one before it by any action and one new "
                "tile",
                field="boards",
            )
        actions.append(found[0])
        outcomes.append(found[1])
    return rules, actions, outcomes


def _explain_step(
    before: list[int], after: list[int], rules: RecordingRules
) -> tuple[int, int] | None:
    """The first action that leads from one board to the next, and its chance outcome."""
    for action in range(4):
        board = list(before)
        if not move(board, rules.rows, rules.columns, action)[1]:
            continue
        different = [cell for cell, (a, b) in enumerate(zip(board, after, strict=True)) if a != b]
        if len(different) == 1 and board[different[0]] == 0 and after[different[0]] in (1, 2):
            return action, different[0] + rules.cells * (after[different[0]] - 1)
    return None


def _check_boards(boards: ArrayLike) -> NDArray[np.integer[Any]]:
    array = np.asarray(boards)
    if array.dtype.kind not in "iu" or array.ndim != 3 or len(array) == 0:
        raise InvalidArgument(
            f"boards are {array.dtype} of shape {array.shape}; expected exponents, integers "
            "(steps + 1, rows, columns)",
            field="boards",
        )
    is_bad = (array < 0) | (array > 31)
    if is_bad.any():
        raise InvalidArgument(
            f"board {int(np.argwhere(is_bad)[0, 0])} has exponents outside 0 ... 31; expected 3 "
            "for the tile 8",
            field="boards",
        )
    return array
