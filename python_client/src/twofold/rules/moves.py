"""Slides, merges and spawns, computed by the service in as many requests as the boards need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import Unpack

from twofold import _arguments
from twofold.client import stateless
from twofold.client.payloads import Layout
from twofold.client.surroundings import surroundings
from twofold.envs.arguments import ServiceArguments, check_service
from twofold.errors import InvalidArgument
from twofold.games.game2048 import Game2048
from twofold.rules.boards import Boards, CheckedBoards, check_actions, check_boards, check_seeds
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment
from twofold.v1 import game2048_pb2 as game2048
from twofold.v1 import rules_pb2 as wire

MAX_EXPONENT = 26
"""The largest exponent allowed before a slide. A move on 4 x 4 then earns at most 2^30."""

# The largest size of a request's payload in bytes; a large array takes several requests.
_REQUEST_BYTES = 1 << 20
_EXPLAINED = ("board", "kind", "tile", "other", "made", "source", "target", "value")


class Afterstates(NamedTuple):
    """The afterstate of each action on each board; an illegal action leaves the board unchanged."""

    boards: Boards
    """uint8 (…, 4, rows, columns)"""
    rewards: NDArray[np.float32]
    """float32 (…, 4): sums of merged values"""
    mask: NDArray[np.int8]
    """int8 (…, 4): 1 for legal actions"""


class Move(NamedTuple):
    """The afterstate of one action on each board; an illegal action leaves the board unchanged."""

    boards: Boards
    """uint8 (…, rows, columns)"""
    rewards: NDArray[np.float32]
    """float32 (…): sums of merged values"""
    legal: NDArray[np.bool_]
    """bool (…): whether anything moved"""


class Spawned(NamedTuple):
    """Boards, each with a new tile."""

    boards: Boards
    """uint8 (…, rows, columns)"""
    outcomes: NDArray[np.int32]
    """int32 (…): the chance outcomes; -1 for a full board, which stays unchanged"""


@dataclass(frozen=True)
class Slide:
    """The motion of a tile from one cell to another, which may end in a merge."""

    tile: int
    source: int
    target: int
    value: int


@dataclass(frozen=True)
class Merge:
    """The merge of the tiles `tile` and `other` in cell `target` into the tile `made`."""

    tile: int
    other: int
    made: int
    target: int
    value: int


@dataclass(frozen=True)
class Spawn:
    """The appearance of a new tile."""

    tile: int
    target: int
    value: int


MoveAction: TypeAlias = Slide | Merge | Spawn
"""One event of a move. Cells are numbered row by row, and values are 2, 4, 8 …. The board's tiles
are numbered from 1, row by row, and each new tile gets the next number."""


def afterstates(boards: ArrayLike, **service: Unpack[ServiceArguments]) -> Afterstates:
    """Returns the afterstate of each action on each board.

    Args:
        boards: Exponents, any integer dtype, (…, rows, columns).
        service: The service to use.
    """
    checked = check_boards("boards", boards, MAX_EXPONENT)
    return Afterstates(**_expand(checked, wire.EXPAND_OPERATION_AFTERSTATES, service))


def move(boards: ArrayLike, actions: ArrayLike, **service: Unpack[ServiceArguments]) -> Move:
    """Returns the afterstate of one action on each board.

    Args:
        boards: Exponents, any integer dtype, (…, rows, columns).
        actions: Integers 0 ... 3, (…).
        service: The service to use.
    """
    checked = check_boards("boards", boards, MAX_EXPONENT)
    payload = check_actions(actions, checked)
    return Move(**_expand(checked, wire.EXPAND_OPERATION_MOVE, service, [payload]))


def legal(boards: ArrayLike, **service: Unpack[ServiceArguments]) -> NDArray[np.int8]:
    """Returns the legal actions of each board; all 0 if the game is over.

    Args:
        boards: Exponents, any integer dtype, (…, rows, columns).
        service: The service to use.

    Returns:
        int8 (…, 4), 1 for a legal action, like `info["action_mask"]`.
    """
    checked = check_boards("boards", boards, MAX_EXPONENT)
    return _expand(checked, wire.EXPAND_OPERATION_LEGAL, service)["mask"]


def spawn(
    afterstates: ArrayLike,
    seeds: ArrayLike,
    *,
    four_probability: float = 0.1,
    **service: Unpack[ServiceArguments],
) -> Spawned:
    """Draws a new tile for each board from a separate stream of random numbers.

    The draws are the same as in environments: xoshiro128++ seeded by SplitMix64. The first word w
    chooses the k-th empty cell, k = (w * empties) >> 32. The tile is a 4 if the second word is
    below round(four_probability * 2^32). Equal seeds draw equal words, so use a new seed for each
    row and each call.

    Args:
        afterstates: Exponents, any integer dtype, (…, rows, columns).
        seeds: Integers 0 ... 2^64 - 1, (…); or one integer s, which seeds row i with s + i modulo
            2^64.
        four_probability: The probability that the new tile is a 4, 0 ... 1.
        service: The service to use.
    """
    checked = check_boards("afterstates", afterstates)
    four = _arguments.probability(four_probability)
    streams = check_seeds(seeds, checked).astype("<u8")[:, np.newaxis].view(np.uint8)
    return Spawned(**_expand(checked, wire.EXPAND_OPERATION_SPAWN, service, [streams], four))


def explain(
    board: ArrayLike, action: ArrayLike, next_board: ArrayLike, **service: Unpack[ServiceArguments]
) -> Any:
    """Explains, tile by tile, how an action led from a board to the next board.

    Args:
        board: Exponents (rows, columns), or (…, rows, columns) for several boards.
        action: The action, (…).
        next_board: The next board with its new tile, of the same shape.
        service: The service to use.

    Returns:
        A list of `Slide`, `Merge` and `Spawn`, in display order. Each line's slides start with the
        tile nearest the wall, a merge follows its slides (a tile at rest does not slide), and the
        spawn is last. The list is empty if the action is illegal and the board is unchanged.
        For several boards, the lists are nested to match the leading shape.

    Raises:
        InvalidArgument: An argument is wrong, or the next board can't follow from the action.
    """
    before = check_boards("board", board, MAX_EXPONENT)
    after = check_boards("next_board", next_board)
    if after.shape != before.shape:
        raise InvalidArgument(
            f"next_board has shape {after.shape}; expected board's shape {before.shape}",
            field="next_board",
        )
    extra = [check_actions(action, before, "action"), after.rows]
    explained: list[list[MoveAction]] = [[] for _ in range(len(before.rows))]
    for start, arrays in _ask(before, wire.EXPAND_OPERATION_EXPLAIN, service, extra):
        for entry in zip(*(arrays[name].tolist() for name in _EXPLAINED), strict=True):
            row, kind, tile, other, made, source, target, value = entry
            happened: MoveAction
            if kind == 0:
                happened = Slide(tile, source, target, value)
            elif kind == 1:
                happened = Merge(tile, other, made, target, value)
            else:
                happened = Spawn(tile, target, value)
            explained[start + row].append(happened)
    return np.fromiter(explained, object, len(explained)).reshape(before.lead).tolist()


def _expand(
    boards: CheckedBoards,
    operation: wire.ExpandOperation,
    service: ServiceArguments,
    extra: Sequence[NDArray[np.uint8]] = (),
    four_probability: float = 0.1,
) -> dict[str, NDArray[Any]]:
    """Returns the arrays (…) of an operation whose reply has one row for each board.

    `extra` contains the operation's other arguments, each with a row of bytes for each board.
    """
    count = len(boards.rows)
    if count == 0:
        # The reply for an empty board has the arrays' shapes and dtypes.
        boards = boards._replace(rows=np.zeros((1, boards.rows.shape[1]), np.uint8))
        extra = [np.zeros((1, part.shape[1]), np.uint8) for part in extra]
    whole: dict[str, NDArray[Any]] = {}
    for start, arrays in _ask(boards, operation, service, extra, four_probability):
        for name, array in arrays.items():
            if len(array) == count and array.flags.writeable:
                whole[name] = array
                continue
            if start == 0:
                whole[name] = np.empty((count, *array.shape[1:]), array.dtype)
            whole[name][start : start + len(array)] = array
    return {name: array.reshape(boards.lead + array.shape[1:]) for name, array in whole.items()}


def _ask(
    boards: CheckedBoards,
    operation: wire.ExpandOperation,
    service: ServiceArguments,
    extra: Sequence[NDArray[np.uint8]] = (),
    four_probability: float = 0.1,
) -> Iterator[tuple[int, dict[str, NDArray[Any]]]]:
    """Yields the first row and the arrays of each reply. Takes the arguments of `_expand`."""
    check_service(service)
    if len(boards.rows) == 0:
        return
    timeout = _arguments.seconds("timeout", service.get("timeout", _arguments.DEFAULT_TIMEOUT))
    deadline = surroundings.get().now() + timeout
    rows, columns = boards.shape[-2:]
    bytes_each = boards.rows.shape[1] + sum(part.shape[1] for part in extra)
    config = game2048.Game2048Config(rows=rows, columns=columns, four_probability=four_probability)
    start = 0
    with stateless.connected(service.get("endpoint"), service.get("keys"), deadline) as carrier:
        at_once = _rows_at_once(carrier.service.limits, bytes_each)
        while start < len(boards.rows):
            parts = [part[start : start + at_once] for part in (boards.rows, *extra)]
            request = envelope.Request(
                expand=wire.ExpandRequest(
                    environment_id=Game2048.environment_id,
                    count=len(parts[0]),
                    operation=operation,
                    game2048=config,
                )
            )
            payload = b"".join(part.tobytes() for part in parts)
            try:
                reply, answer = stateless.ask(carrier, "expand", request, payload, deadline)
            except InvalidArgument as error:
                if error.lane is None:
                    raise
                lane = start + error.lane
                text = f"board {lane}: {error}"
                raise InvalidArgument(text, field=error.field, lane=lane) from None
            yield start, Layout(reply.expand.arrays, ()).split(answer)
            # The server handles fewer boards if all would take too long.
            start += reply.expand.count


def _rows_at_once(limits: environment.Limits, bytes_each: int) -> int:
    most = min(_REQUEST_BYTES, limits.max_message_bytes or _REQUEST_BYTES) // bytes_each
    if limits.max_boards_per_session:
        most = min(most, limits.max_boards_per_session)
    return max(1, most)
