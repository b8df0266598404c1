"""The rules of 2048 over arrays of any boards: what search and learning from afterstates need.

    boards, rewards, mask = twofold.rules.afterstates(observations)

No environment and no session: each function takes boards, integer arrays (…, rows, columns) of
exponents (0 an empty cell, 3 an 8) with any leading shape, sides of 2 ... 8 and exponents of
0 ... 31 (0 ... 26 where they are to slide), whether play can reach them or not. A *row* is one
board; an error's `lane` counts the rows in C order. Actions: 0 up, 1 right, 2 down, 3 left. A
*chance outcome* is one integer: the cell for a new 2, cells + the cell for a new 4, -1 for none.

What slides and merges, and what draws, is asked of the service, in several requests where one would
be too large or take long. `endpoint` and `curve` say where that is, as an environment's do: in this
process where nothing else is said. `chance`, `place`, `symmetries` and
`canonical` only look at cells, and are computed here. Arrays handed out are fresh.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twofold import _arguments
from twofold.client import stateless
from twofold.client.curve import CurveKeys
from twofold.client.layout import Layout
from twofold.envs.seeding import consecutive
from twofold.errors import InvalidArgument
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment
from twofold.v1 import game2048_pb2 as game2048
from twofold.v1 import rules_pb2 as wire

__all__ = [
    "MAX_EXPONENT",
    "Afterstates",
    "Canonical",
    "Merge",
    "Move",
    "MoveAction",
    "Slide",
    "Spawn",
    "Spawned",
    "Symmetries",
    "afterstates",
    "canonical",
    "chance",
    "explain",
    "legal",
    "move",
    "place",
    "spawn",
    "symmetries",
]

MAX_EXPONENT = 26
"""The largest exponent on a board that is to slide: on 4 x 4 that earns at most 2^30."""

# What an observation can hold.
_LARGEST = 31

DEFAULT_TIMEOUT = 30.0
# Bytes that a reply may have: a large array goes in several requests.
_REPLY_BYTES = 8 << 20

Boards = NDArray[np.uint8]


class Afterstates(NamedTuple):
    """What each action makes of each board before the spawn; an illegal one leaves the board."""

    boards: Boards
    """uint8 (…, 4, rows, columns)"""
    rewards: NDArray[np.float32]
    """float32 (…, 4): sums of merged values"""
    mask: NDArray[np.int8]
    """int8 (…, 4): 1 where the action is legal"""


class Move(NamedTuple):
    """What one action makes of each board before the spawn; an illegal one leaves the board."""

    boards: Boards
    """uint8 (…, rows, columns)"""
    rewards: NDArray[np.float32]
    """float32 (…): sums of merged values"""
    legal: NDArray[np.bool_]
    """bool (…): whether anything moved"""


class Spawned(NamedTuple):
    """Boards with a new tile each."""

    boards: Boards
    """uint8 (…, rows, columns)"""
    outcomes: NDArray[np.int32]
    """int32 (…): the chance outcomes; -1 on a full board, which stays as it is"""


class Symmetries(NamedTuple):
    """The images of boards under all turns and mirrors, the board itself first."""

    boards: Boards
    """uint8 (…, images, rows, columns): 8 images of a square board, 4 of another"""
    actions: NDArray[np.uint8]
    """uint8 (images, 4): what action a is called on image s, actions[s, a]"""


class Canonical(NamedTuple):
    """One board for all that are the same up to symmetry."""

    boards: Boards
    """uint8 (…, rows, columns): the image that comes first, cell by cell in row-major order"""
    images: NDArray[np.int64]
    """int64 (…): which of the images of `symmetries` it is, the first of equal ones"""


@dataclass(frozen=True)
class Slide:
    """A tile went from one cell to another; it stays what it is, or is about to merge there."""

    tile: int
    source: int
    target: int
    value: int


@dataclass(frozen=True)
class Merge:
    """The tiles `tile` and `other`, both in `target` now, became the tile `made` of this value."""

    tile: int
    other: int
    made: int
    target: int
    value: int


@dataclass(frozen=True)
class Spawn:
    """A new tile appeared."""

    tile: int
    target: int
    value: int


MoveAction: TypeAlias = "Slide | Merge | Spawn"
"""One thing that a move did to a tile. Cells count row by row, values are 2, 4, 8 …, tiles have
numbers: those of the board from 1 on, row by row, then each new one the next."""


# ---- asked of the server -------------------------------------------------------------------------


def afterstates(
    boards: ArrayLike,
    *,
    endpoint: str | None = None,
    curve: CurveKeys | None = None,
    timeout: float = DEFAULT_TIMEOUT,
) -> Afterstates:
    """What each action makes of each board, before the spawn.

    Args:
        boards: Exponents, any integer dtype, (…, rows, columns).
        endpoint: Where to ask.
        curve: Keys for an encrypted endpoint.
        timeout: Seconds that the call may take.

    Raises:
        InvalidArgument: `field` and `lane` tell what is wrong, and on which row.
        TransportError: No answer.
    """
    given = _boards("boards", boards, MAX_EXPONENT)
    return Afterstates(
        **_expand(given, wire.EXPAND_OPERATION_AFTERSTATES, [], _Place(endpoint, curve, timeout))
    )


def move(
    boards: ArrayLike,
    actions: ArrayLike,
    *,
    endpoint: str | None = None,
    curve: CurveKeys | None = None,
    timeout: float = DEFAULT_TIMEOUT,
) -> Move:
    """What one action makes of each board, before the spawn.

    Args:
        boards: Exponents, any integer dtype, (…, rows, columns).
        actions: Integers 0 ... 3, (…).
        endpoint: Where to ask.
        curve: Keys for an encrypted endpoint.
        timeout: Seconds that the call may take.

    Raises:
        InvalidArgument: `field` and `lane` tell what is wrong, and on which row.
        TransportError: No answer.
    """
    given = _boards("boards", boards, MAX_EXPONENT)
    payload = _actions(actions, given)
    return Move(
        **_expand(given, wire.EXPAND_OPERATION_MOVE, [payload], _Place(endpoint, curve, timeout))
    )


def legal(
    boards: ArrayLike,
    *,
    endpoint: str | None = None,
    curve: CurveKeys | None = None,
    timeout: float = DEFAULT_TIMEOUT,
) -> NDArray[np.int8]:
    """Which actions would move something; none where the game is over.

    Args:
        boards: Exponents, any integer dtype, (…, rows, columns).
        endpoint: Where to ask.
        curve: Keys for an encrypted endpoint.
        timeout: Seconds that the call may take.

    Returns:
        int8 (…, 4), 1 where the action is legal, as `info["action_mask"]` has it.

    Raises:
        InvalidArgument: `field` and `lane` tell what is wrong, and on which row.
        TransportError: No answer.
    """
    given = _boards("boards", boards, MAX_EXPONENT)
    return _expand(given, wire.EXPAND_OPERATION_LEGAL, [], _Place(endpoint, curve, timeout))["mask"]


def spawn(
    afterstates: ArrayLike,
    seeds: ArrayLike,
    *,
    four_probability: float = 0.1,
    endpoint: str | None = None,
    curve: CurveKeys | None = None,
    timeout: float = DEFAULT_TIMEOUT,
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
        endpoint: Where to ask.
        curve: Keys for an encrypted endpoint.
        timeout: Seconds that the call may take.

    Raises:
        InvalidArgument: `field` and `lane` tell what is wrong, and on which row.
        TransportError: No answer.
    """
    given = _boards("afterstates", afterstates)
    four = _probability(four_probability)
    streams = _seeds(seeds, given).astype("<u8")[:, np.newaxis].view(np.uint8)
    return Spawned(
        **_expand(
            given, wire.EXPAND_OPERATION_SPAWN, [streams], _Place(endpoint, curve, timeout), four
        )
    )


def explain(
    board: ArrayLike,
    action: ArrayLike,
    next_board: ArrayLike,
    *,
    endpoint: str | None = None,
    curve: CurveKeys | None = None,
    timeout: float = DEFAULT_TIMEOUT,
) -> Any:
    """What happened tile by tile from a board through an action to the board that followed.

    Args:
        board: Exponents (rows, columns); or (…, rows, columns) for several at once.
        action: The action, (…).
        next_board: What followed, new tile and all; of the same shape.
        endpoint: Where to ask.
        curve: Keys for an encrypted endpoint.
        timeout: Seconds that the call may take.

    Returns:
        A list of `Slide`, `Merge` and `Spawn`, in the order in which to show them: the slides of
        each line from the wall on, a merge behind the two slides that led to it (a tile that stays
        where it is does not slide), the spawn last. Empty where the action is illegal and the board
        has stayed. For several boards a list of such lists, nested as the leading shape is.

    Raises:
        InvalidArgument: `next_board` does not follow, or something else is wrong; `field` and
            `lane` tell what, and on which row.
        TransportError: No answer.
    """
    given = _boards("board", board, MAX_EXPONENT)
    after = _boards("next_board", next_board)
    if after.shape != given.shape:
        raise InvalidArgument(
            f"next_board has shape {after.shape}; expected {given.shape}, as board has",
            field="next_board",
        )
    extra = [_actions(action, given, "action"), after.rows]
    explained: list[list[MoveAction]] = [[] for _ in range(len(given.rows))]
    for start, arrays in _ask(
        given, wire.EXPAND_OPERATION_EXPLAIN, extra, _Place(endpoint, curve, timeout)
    ):
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
    return _nest(explained, given.lead)


_EXPLAINED = ("board", "kind", "tile", "other", "made", "source", "target", "value")


# ---- computed here -------------------------------------------------------------------------------


def chance(afterstates: ArrayLike, *, four_probability: float = 0.1) -> NDArray[np.float64]:
    """How likely each chance outcome is: uniform over the empty cells, a 4 with `four_probability`.

    Args:
        afterstates: Exponents, any integer dtype, (…, rows, columns).
        four_probability: How often a new tile is a 4, 0 ... 1.

    Returns:
        float64 (…, 2 * cells): entry `cell` for a 2 there, cells + `cell` for a 4; each row sums
        to 1, that of a full board to 0. The probability is the one that the engine draws with,
        round(p * 2^32) / 2^32.

    Raises:
        InvalidArgument: `field` and `lane` tell what is wrong, and on which row.
    """
    given = _boards("afterstates", afterstates)
    four = np.floor(_probability(four_probability) * 2**32 + 0.5) / 2**32
    empty = (given.rows == 0).astype(np.float64)
    each = empty / np.maximum(empty.sum(axis=1, keepdims=True), 1)
    both = np.concatenate([each * (1 - four), each * four], axis=1)
    return both.reshape(*given.lead, both.shape[1])


def place(afterstates: ArrayLike, outcomes: ArrayLike) -> Boards:
    """The boards with the tiles that chance outcomes name.

    Args:
        afterstates: Exponents, any integer dtype, (…, rows, columns).
        outcomes: Integers (…): an empty cell for a 2, cells + an empty cell for a 4, -1 for none.

    Returns:
        uint8 (…, rows, columns).

    Raises:
        InvalidArgument: `field` and `lane` tell what is wrong, and on which row; `outcomes` also
            where the cell is not empty.
    """
    given = _boards("afterstates", afterstates)
    cells = given.rows.shape[1]
    chosen = _arguments.integers("outcomes", _array("outcomes", outcomes), given.lead).reshape(-1)
    is_bad = (chosen < -1) | (chosen >= 2 * cells)
    _arguments.refuse_lane("outcomes", chosen, is_bad, f"-1 ... {2 * cells - 1}")
    row = np.flatnonzero(chosen != -1)
    cell = chosen[row].astype(np.int64) % cells
    is_taken = given.rows[row, cell] != 0
    if is_taken.any():
        first = int(row[is_taken.argmax()])
        raise InvalidArgument(
            f"outcomes[{first}] is {chosen[first]}, whose cell {int(chosen[first]) % cells} is not "
            "empty",
            field="outcomes",
            lane=first,
        )
    placed: Boards = given.rows.copy()
    placed[row, cell] = 1 + (chosen[row] >= cells)
    return placed.reshape(given.shape)


def symmetries(boards: ArrayLike) -> Symmetries:
    """The images of each board under all turns and mirrors that keep its shape.

    Sliding an image as `actions` says gives the image of the slid board:
    `move(images.boards[s], images.actions[s, a])` is image s of `move(board, a)`, same reward.

    Args:
        boards: Exponents, any integer dtype, (…, rows, columns).

    Raises:
        InvalidArgument: `field` and `lane` tell what is wrong, and on which row.
    """
    given = _boards("boards", boards)
    places, actions = _symmetries(*given.shape[-2:])
    images = given.rows[:, places]
    return Symmetries(images.reshape(*given.lead, len(places), *given.shape[-2:]), actions.copy())


def canonical(boards: ArrayLike) -> Canonical:
    """One and the same board for all images of a board: the key for tables of positions.

    Args:
        boards: Exponents, any integer dtype, (…, rows, columns).

    Raises:
        InvalidArgument: `field` and `lane` tell what is wrong, and on which row.
    """
    given = _boards("boards", boards)
    places, _ = _symmetries(*given.shape[-2:])
    count, cells = given.rows.shape
    padded = np.zeros((count, len(places), -(-cells // 8) * 8), np.uint8)
    padded[:, :, :cells] = given.rows[:, places]
    # Eight cells in one number, the first the most significant: numbers compare as the cells do.
    numbers = padded.view(">u8").astype(np.uint64)
    is_first = np.ones(numbers.shape[:2], np.bool_)
    for word in np.moveaxis(numbers, 2, 0):
        smallest = np.where(is_first, word, np.uint64(2**64 - 1)).min(axis=1, keepdims=True)
        is_first &= word == smallest
    image = is_first.argmax(axis=1)
    chosen = padded[np.arange(count), image, :cells]
    return Canonical(chosen.reshape(given.shape), image.astype(np.int64).reshape(given.lead))


@functools.cache
def _symmetries(rows: int, columns: int) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """For each image, which cell of the board each of its cells shows; and what actions become."""
    cells = np.arange(rows * columns).reshape(rows, columns)
    turned = [np.rot90(cells, quarter) for quarter in range(4)]
    images = [image for board in turned for image in (board, np.fliplr(board))]
    images = [image for image in images if image.shape == cells.shape]
    actions = np.empty((len(images), 4), np.uint8)
    for index, image in enumerate(images):
        # Two steps on the board, to the right and down, as they look in the image.
        start, right, down = (np.argwhere(image == cells[at])[0] for at in ((0, 0), (0, 1), (1, 0)))
        step_to_action = {(-1, 0): 0, (0, 1): 1, (1, 0): 2, (0, -1): 3}
        for action, step in enumerate((start - down, right - start, down - start, start - right)):
            actions[index, action] = step_to_action[int(step[0]), int(step[1])]
    return np.stack([image.ravel() for image in images]), actions


# ---- arguments -----------------------------------------------------------------------------------


class _Boards(NamedTuple):
    """Checked boards."""

    rows: Boards
    """uint8 (N, cells)"""
    shape: tuple[int, ...]
    """The shape that they came in."""

    @property
    def lead(self) -> tuple[int, ...]:
        """The leading shape."""
        return self.shape[:-2]


def _array(name: str, value: object) -> NDArray[Any]:
    try:
        return np.asarray(value)
    except ValueError as error:  # rows of different lengths
        raise InvalidArgument(f"{name} are not an array: {error}", field=name) from None


def _boards(name: str, value: object, limit: int = _LARGEST) -> _Boards:
    array = _array(name, value)
    if array.dtype.kind not in "iu":
        raise InvalidArgument(
            f"{name} have dtype {array.dtype}; expected integers (…, rows, columns)", field=name
        )
    if array.ndim < 2 or not all(2 <= side <= 8 for side in array.shape[-2:]):
        raise InvalidArgument(
            f"{name} have shape {array.shape}; expected (…, rows, columns), sides of 2 ... 8",
            field=name,
        )
    rows = array.reshape(-1, array.shape[-2] * array.shape[-1])
    # Before the cast: 256 would become 0.
    if array.size and (array.max() > limit or (array.dtype.kind == "i" and array.min() < 0)):
        _arguments.refuse_lane(name, rows, (rows < 0) | (rows > limit), f"exponents, 0 ... {limit}")
    return _Boards(np.ascontiguousarray(rows, np.uint8), array.shape)


def _actions(value: object, boards: _Boards, name: str = "actions") -> NDArray[np.uint8]:
    array = _arguments.integers(name, _array(name, value), boards.lead).reshape(-1)
    _arguments.refuse_lane(name, array, (array < 0) | (array > 3), "0 ... 3")
    return array.astype(np.uint8)[:, np.newaxis]


def _seeds(value: Any, boards: _Boards) -> NDArray[np.uint64]:
    if np.ndim(value) == 0 and boards.lead:
        return consecutive(_arguments.integer("seeds", value, 0), len(boards.rows))
    array = _arguments.integers("seeds", _array("seeds", value), boards.lead).reshape(-1)
    if array.dtype.kind == "i":
        _arguments.refuse_lane("seeds", array, array < 0, "0 ... 2^64 - 1")
    return array.astype(np.uint64)


def _probability(value: object) -> float:
    return _arguments.real("four_probability", value, 0, 1, "0 ... 1")


# ---- requests ------------------------------------------------------------------------------------


class _Place(NamedTuple):
    """Where to ask, and for how long."""

    endpoint: str | None
    curve: CurveKeys | None
    timeout: float


def _expand(
    boards: _Boards,
    operation: wire.ExpandOperation,
    extra: list[NDArray[np.uint8]],
    place: _Place,
    four_probability: float = 0.1,
) -> dict[str, NDArray[Any]]:
    """The arrays (…) of an operation that tells one row for each board."""
    count = len(boards.rows)
    whole: dict[str, NDArray[Any]] = {
        name: np.empty((count, *shape), dtype)
        for name, dtype, shape in _told(operation, *boards.shape[-2:])
    }
    for start, arrays in _ask(boards, operation, extra, place, four_probability):
        for name, array in arrays.items():
            if len(array) == count:
                whole[name] = array
            else:
                whole[name][start : start + len(array)] = array
    return {name: array.reshape(boards.lead + array.shape[1:]) for name, array in whole.items()}


def _told(
    operation: wire.ExpandOperation, rows: int, columns: int
) -> list[tuple[str, Any, tuple[int, ...]]]:
    """Names, dtypes and shapes of what an operation tells of a board."""
    if operation == wire.EXPAND_OPERATION_AFTERSTATES:
        return [
            ("boards", np.uint8, (4, rows, columns)),
            ("rewards", np.float32, (4,)),
            ("mask", np.int8, (4,)),
        ]
    if operation == wire.EXPAND_OPERATION_MOVE:
        return [
            ("boards", np.uint8, (rows, columns)),
            ("rewards", np.float32, ()),
            ("legal", np.bool_, ()),
        ]
    if operation == wire.EXPAND_OPERATION_LEGAL:
        return [("mask", np.int8, (4,))]
    if operation == wire.EXPAND_OPERATION_SPAWN:
        return [("boards", np.uint8, (rows, columns)), ("outcomes", np.int32, ())]
    # Each tile slides and each pair merges at most, and one tile spawns.
    most = rows * columns + rows * columns // 2 + 1
    return [(name, np.int32, (most,)) for name in _EXPLAINED]


def _ask(
    boards: _Boards,
    operation: wire.ExpandOperation,
    extra: list[NDArray[np.uint8]],
    place: _Place,
    four_probability: float = 0.1,
) -> Iterator[tuple[int, dict[str, NDArray[Any]]]]:
    """Asks in as many requests as it takes; of each the first row and the arrays."""
    if len(boards.rows) == 0:
        return
    endpoint = None if place.endpoint is None else _arguments.text("endpoint", place.endpoint)
    seconds = _arguments.real("timeout", place.timeout, 1e-3, 1e6, "seconds, more than 0")
    deadline = stateless.deadline_after(seconds)
    client = stateless.client(endpoint, place.curve)
    rows, columns = boards.shape[-2:]
    told = _told(operation, rows, columns)
    reply_bytes = sum(int(np.prod(shape)) * np.dtype(dtype).itemsize for _, dtype, shape in told)
    bytes_each = boards.rows.shape[1] + sum(part.shape[1] for part in extra)
    at_once = _rows_at_once(client.limits(deadline), bytes_each, reply_bytes)
    config = game2048.Game2048Config(rows=rows, columns=columns, four_probability=four_probability)
    start = 0
    while start < len(boards.rows):
        parts = [part[start : start + at_once] for part in (boards.rows, *extra)]
        request = envelope.Request(
            expand=wire.ExpandRequest(
                environment_id="twofold/Game2048-v0",
                count=len(parts[0]),
                operation=operation,
                game2048=config,
            )
        )
        payload = b"".join(part.tobytes() for part in parts)
        # Each array begins at a multiple of 64.
        most = len(parts[0]) * reply_bytes + 64 * len(told)
        try:
            reply, answer = client.ask("expand", request, payload, most, deadline)
        except InvalidArgument as error:
            if error.lane is not None:
                error.lane += start
            raise
        yield start, Layout(reply.expand.arrays, ()).split(answer)
        # The server answers fewer where all would take long.
        start += reply.expand.count


def _rows_at_once(limits: environment.Limits, bytes_each: int, reply_bytes: int) -> int:
    most = _REPLY_BYTES // reply_bytes
    if limits.max_message_bytes:
        most = min(most, limits.max_message_bytes // bytes_each)
    if limits.max_boards_per_session:
        most = min(most, limits.max_boards_per_session)
    return max(1, most)


def _nest(items: list[list[MoveAction]], lead: tuple[int, ...]) -> Any:
    if not lead:
        return items[0]
    if len(lead) == 1:
        return items
    each = len(items) // lead[0] if lead[0] else 0
    return [_nest(items[each * i : each * (i + 1)], lead[1:]) for i in range(lead[0])]
