"""The requests that the functions of `twofold.rules` make, as many as their boards take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypedDict

from twofold import _arguments
from twofold.client import stateless
from twofold.client.curve import CurveKeys
from twofold.client.layout import Layout
from twofold.errors import InvalidArgument
from twofold.games.game2048 import Game2048
from twofold.rules.boards import CheckedBoards
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment
from twofold.v1 import game2048_pb2 as game2048
from twofold.v1 import rules_pb2 as wire

# Bytes that a reply may have: a large array goes in several requests.
_REPLY_BYTES = 8 << 20

EXPLAINED = ("board", "kind", "tile", "other", "made", "source", "target", "value")
"""The columns of a reply that explains moves, int32 each."""


class ServiceArguments(TypedDict, total=False):
    """Where to ask, and for how long."""

    endpoint: str | None
    """As an environment takes it; by default in this process."""
    curve: CurveKeys | None
    """Keys for an encrypted endpoint."""
    timeout: float
    """Seconds that the call may take; 30 by default."""


def expand(
    boards: CheckedBoards,
    operation: wire.ExpandOperation,
    service: ServiceArguments,
    extra: Sequence[NDArray[np.uint8]] = (),
    four_probability: float = 0.1,
) -> dict[str, NDArray[Any]]:
    """The arrays (…) of an operation whose reply has one row for each board.

    Args:
        boards: What to expand, N boards.
        operation: What to do with them.
        service: Where to ask.
        extra: What else belongs to each board, (N, bytes) each.
        four_probability: How often a new tile is a 4.
    """
    count = len(boards.rows)
    whole: dict[str, NDArray[Any]] = {
        name: np.empty((count, *shape), dtype)
        for name, dtype, shape in _reply_arrays(operation, *boards.shape[-2:])
    }
    for start, arrays in ask(boards, operation, service, extra, four_probability):
        for name, array in arrays.items():
            if len(array) == count:
                whole[name] = array
            else:
                whole[name][start : start + len(array)] = array
    return {name: array.reshape(boards.lead + array.shape[1:]) for name, array in whole.items()}


def ask(
    boards: CheckedBoards,
    operation: wire.ExpandOperation,
    service: ServiceArguments,
    extra: Sequence[NDArray[np.uint8]] = (),
    four_probability: float = 0.1,
) -> Iterator[tuple[int, dict[str, NDArray[Any]]]]:
    """The first row and the arrays of each reply; the arguments are those of `expand`."""
    unknown = service.keys() - ServiceArguments.__optional_keys__
    if unknown:
        raise TypeError(f"got unexpected keyword arguments {sorted(unknown)}")
    if len(boards.rows) == 0:
        return
    endpoint = service.get("endpoint")
    if endpoint is not None:
        endpoint = _arguments.text("endpoint", endpoint)
    timeout = _arguments.timeout(service.get("timeout", _arguments.DEFAULT_TIMEOUT))
    deadline = stateless.deadline_after(timeout)
    client = stateless.client(endpoint, service.get("curve"))
    rows, columns = boards.shape[-2:]
    reply_arrays = _reply_arrays(operation, rows, columns)
    reply_bytes = sum(
        int(np.prod(shape)) * np.dtype(dtype).itemsize for _, dtype, shape in reply_arrays
    )
    bytes_each = boards.rows.shape[1] + sum(part.shape[1] for part in extra)
    at_once = _rows_at_once(client.limits(deadline), bytes_each, reply_bytes)
    config = game2048.Game2048Config(rows=rows, columns=columns, four_probability=four_probability)
    start = 0
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
        # Each array begins at a multiple of 64.
        most = len(parts[0]) * reply_bytes + 64 * len(reply_arrays)
        try:
            reply, answer = client.ask("expand", request, payload, most, deadline)
        except InvalidArgument as error:
            if error.lane is not None:
                error.lane += start
            raise
        yield start, Layout(reply.expand.arrays, ()).split(answer)
        # The server answers fewer where all would take long.
        start += reply.expand.count


def _reply_arrays(
    operation: wire.ExpandOperation, rows: int, columns: int
) -> list[tuple[str, Any, tuple[int, ...]]]:
    """Names, dtypes and shapes of an operation's results for one board."""
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
    return [(name, np.int32, (most,)) for name in EXPLAINED]


def _rows_at_once(limits: environment.Limits, bytes_each: int, reply_bytes: int) -> int:
    most = _REPLY_BYTES // reply_bytes
    if limits.max_message_bytes:
        most = min(most, limits.max_message_bytes // bytes_each)
    if limits.max_boards_per_session:
        most = min(most, limits.max_boards_per_session)
    return max(1, most)
