"""Spaces and payload layouts, as the server describes them when a session is created."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from twofold.errors import ProtocolError
from twofold.v1 import environment_pb2 as environment

_DTYPES: dict[int, np.dtype[Any]] = {
    environment.DATA_TYPE_BOOL: np.dtype(np.bool_),
    environment.DATA_TYPE_UINT8: np.dtype(np.uint8),
    environment.DATA_TYPE_INT8: np.dtype(np.int8),
    environment.DATA_TYPE_INT32: np.dtype("<i4"),
    environment.DATA_TYPE_FLOAT32: np.dtype("<f4"),
    environment.DATA_TYPE_UINT64: np.dtype("<u8"),
}


class Layout:
    """The places of the arrays in the payload of one kind of reply.

    Args:
        wire: The server's description.
        needed: Arrays that it has to have.

    Raises:
        ProtocolError: An array is missing, of an unknown dtype, or outside the payload.

    Attributes:
        size: Bytes of the payload.
    """

    def __init__(self, wire: environment.PayloadLayout, needed: tuple[str, ...]) -> None:
        self.size = wire.size
        dtypes = [_dtype(array.dtype) for array in wire.arrays]
        self._names = [array.name for array in wire.arrays]
        for array in wire.arrays:
            if array.offset + self.bytes_of(array) > wire.size:
                raise ProtocolError(f"the server places {array.name!r} outside its payload")
        missing = set(needed) - set(self._names)
        if missing:
            raise ProtocolError(f"the server's replies have no {', '.join(sorted(missing))}")
        # The whole payload as one record: numpy takes its fields out faster than it makes arrays.
        try:
            self._record = np.dtype(
                {
                    "names": self._names,
                    "formats": [
                        (dtype, tuple(array.shape))
                        for array, dtype in zip(wire.arrays, dtypes, strict=True)
                    ],
                    "offsets": [array.offset for array in wire.arrays],
                    "itemsize": wire.size,
                }
            )
        except ValueError as error:
            raise ProtocolError(f"the server describes an impossible layout: {error}") from None

    @staticmethod
    def bytes_of(array: environment.ArrayLayout) -> int:
        """The size of an array in bytes."""
        return math.prod(array.shape) * _dtype(array.dtype).itemsize

    def split(self, payload: NDArray[np.uint8]) -> dict[str, NDArray[Any]]:
        """The arrays by name, in the layout's order: views of the payload, aligned and writable."""
        record: Any = np.ndarray((), self._record, payload)
        return {name: record[name] for name in self._names}


def make_space(wire: environment.Space) -> gym.Space[Any]:
    """The Gymnasium space that the server describes.

    Raises:
        ProtocolError: This client does not know its kind.
    """
    kind = wire.WhichOneof("kind")
    if kind == "box":
        dtype = _dtype(wire.box.dtype)
        return gym.spaces.Box(wire.box.low, wire.box.high, tuple(wire.box.shape), dtype.type)
    if kind == "discrete":
        return gym.spaces.Discrete(int(wire.discrete.n))
    raise ProtocolError("the server describes a space that this client does not know; is it newer?")


def _dtype(wire: int) -> np.dtype[Any]:
    if wire not in _DTYPES:
        raise ProtocolError(f"the server uses data type {wire}, which this client does not know")
    return _DTYPES[wire]
