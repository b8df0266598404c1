"""What slides, merges and draws: asked of the service."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import Unpack

from twofold import _arguments
from twofold.errors import InvalidArgument
from twofold.rules.boards import check_actions, check_boards, check_seeds
from twofold.rules.results import Afterstates, Merge, Move, MoveAction, Slide, Spawn, Spawned
from twofold.rules.service import EXPLAINED, ServiceArguments, ask, expand
from twofold.v1 import rules_pb2 as wire

MAX_EXPONENT = 26
"""The largest exponent on a board that is to slide: on 4 x 4 that earns at most 2^30."""


def afterstates(boards: ArrayLike, **service: Unpack[ServiceArguments]) -> Afterstates:
    """What each action makes of each board, before the spawn.

    Args:
        boards: Exponents, any integer dtype, (…, rows, columns).
        service: Where to ask.

    Raises:
        InvalidArgument: `field` and `lane` say what is wrong, and on which row.
        TransportError: No answer.
    """
    checked = check_boards("boards", boards, MAX_EXPONENT)
    return Afterstates(**expand(checked, wire.EXPAND_OPERATION_AFTERSTATES, service))


def move(boards: ArrayLike, actions: ArrayLike, **service: Unpack[ServiceArguments]) -> Move:
    """What one action makes of each board, before the spawn.

    Args:
        boards: Exponents, any integer dtype, (…, rows, columns).
        actions: Integers 0 ... 3, (…).
        service: Where to ask.

    Raises:
        InvalidArgument: `field` and `lane` say what is wrong, and on which row.
        TransportError: No answer.
    """
    checked = check_boards("boards", boards, MAX_EXPONENT)
    payload = check_actions(actions, checked)
    return Move(**expand(checked, wire.EXPAND_OPERATION_MOVE, service, [payload]))


def legal(boards: ArrayLike, **service: Unpack[ServiceArguments]) -> NDArray[np.int8]:
    """Which actions would move something; all 0 where the game is over.

    Args:
        boards: Exponents, any integer dtype, (…, rows, columns).
        service: Where to ask.

    Returns:
        int8 (…, 4), 1 where the action is legal, as `info["action_mask"]` has it.

    Raises:
        InvalidArgument: `field` and `lane` say what is wrong, and on which row.
        TransportError: No answer.
    """
    checked = check_boards("boards", boards, MAX_EXPONENT)
    return expand(checked, wire.EXPAND_OPERATION_LEGAL, service)["mask"]


def spawn(
    afterstates: ArrayLike,
    seeds: ArrayLike,
    *,
    four_probability: float = 0.1,
    **service: Unpack[ServiceArguments],
) -> Spawned:
    """Draws a new tile for each board, each from a stream of its own.

    The recipe is that of the environment's boards: xoshiro128++ seeded by SplitMix64; the first
    word w chooses the k-th empty cell, k = (w * empties) >> 32; a 4 where the second is below
    round(four_probability * 2^32). Equal seeds draw equal words, so give every row and every time
    a seed of its own.

    Args:
        afterstates: Exponents, any integer dtype, (…, rows, columns).
        seeds: Integers 0 ... 2^64 - 1, (…); or one integer s, which seeds row i with s + i modulo
            2^64.
        four_probability: How often the new tile is a 4, 0 ... 1.
        service: Where to ask.

    Raises:
        InvalidArgument: `field` and `lane` say what is wrong, and on which row.
        TransportError: No answer.
    """
    checked = check_boards("afterstates", afterstates)
    four = _arguments.probability(four_probability)
    streams = check_seeds(seeds, checked).astype("<u8")[:, np.newaxis].view(np.uint8)
    return Spawned(**expand(checked, wire.EXPAND_OPERATION_SPAWN, service, [streams], four))


def explain(
    board: ArrayLike,
    action: ArrayLike,
    next_board: ArrayLike,
    **service: Unpack[ServiceArguments],
) -> Any:
    """What happened tile by tile from a board through an action to the board that followed.

    Args:
        board: Exponents (rows, columns); or (…, rows, columns) for several at once.
        action: The action, (…).
        next_board: The board that followed, new tile and all; of the same shape.
        service: Where to ask.

    Returns:
        A list of `Slide`, `Merge` and `Spawn`, in the order in which to show them: the slides of
        each line from the wall on, a merge behind the two slides that led to it (a tile that stays
        where it is does not slide), the spawn last. Empty where the action is illegal and the board
        has stayed. For several boards a list of such lists, nested as the leading shape is.

    Raises:
        InvalidArgument: `next_board` does not follow, or something else is wrong; `field` and
            `lane` say what, and on which row.
        TransportError: No answer.
    """
    before = check_boards("board", board, MAX_EXPONENT)
    after = check_boards("next_board", next_board)
    if after.shape != before.shape:
        raise InvalidArgument(
            f"next_board has shape {after.shape}; expected {before.shape}, as board has",
            field="next_board",
        )
    extra = [check_actions(action, before, "action"), after.rows]
    explained: list[list[MoveAction]] = [[] for _ in range(len(before.rows))]
    for start, arrays in ask(before, wire.EXPAND_OPERATION_EXPLAIN, service, extra):
        for entry in zip(*(arrays[name].tolist() for name in EXPLAINED), strict=True):
            row, kind, tile, other, made, source, target, value = entry
            happened: MoveAction
            if kind == 0:
                happened = Slide(tile, source, target, value)
            elif kind == 1:
                happened = Merge(tile, other, made, target, value)
            else:
                happened = Spawn(tile, target, value)
            explained[start + row].append(happened)
    return _nest(explained, before.lead)


def _nest(items: list[list[MoveAction]], lead: tuple[int, ...]) -> Any:
    """The items in lists of lists, by the leading shape."""
    if not lead:
        return items[0]
    if len(lead) == 1:
        return items
    each = len(items) // lead[0] if lead[0] else 0
    return [_nest(items[each * i : each * (i + 1)], lead[1:]) for i in range(lead[0])]
