"""Sessions for test cases that build their own requests, and a decoder for arrays in replies."""

import math
import os
import struct
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compliance.carriers import Answer, Connection
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment

ENVIRONMENT_ID = "twofold/Game2048-v0"

_DTYPES: dict[int, Any] = {
    environment.DATA_TYPE_BOOL: np.bool_,
    environment.DATA_TYPE_UINT8: np.uint8,
    environment.DATA_TYPE_INT8: np.int8,
    environment.DATA_TYPE_INT32: "<i4",
    environment.DATA_TYPE_FLOAT32: "<f4",
    environment.DATA_TYPE_UINT64: "<u8",
    environment.DATA_TYPE_FLOAT64: "<f8",
}


def numbers(*values: int) -> bytes:
    """Encodes uint64 numbers as a payload."""
    return struct.pack(f"<{len(values)}Q", *values)


def arrays(layout: environment.PayloadLayout, payload: bytes | None) -> dict[str, NDArray[Any]]:
    """Decodes a payload into its named arrays."""
    assert payload is not None
    return {
        array.name: np.frombuffer(
            payload, _DTYPES[array.dtype], math.prod(array.shape), array.offset
        ).reshape(array.shape)
        for array in layout.arrays
    }


class Session:
    """A session of three boards, unless a case creates others.

    Attributes:
        connection: The connection over which the session sends its requests.
        id: The session id, 16 random bytes.
        epoch: The epoch in the session's requests.
        seq: The seq of the last executed request.
        created: The reply to the session's create request. Missing before the reply arrives.
    """

    created: environment.CreateReply

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.begin()

    def __enter__(self) -> "Session":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.ask(close={})
        self.connection.close()

    def begin(self) -> None:
        """Begins a new session over the same connection; the previous session stays open."""
        self.id = os.urandom(16)
        self.epoch = 1
        self.seq = 0

    def request(self, **fields: Any) -> bytes:
        """Returns the next request, encoded. `fields` can override the id, epoch and seq."""
        own: dict[str, Any] = {"session": self.id, "epoch": self.epoch, "seq": self.seq + 1}
        return envelope.Request(**(own | fields)).SerializeToString()

    def call(self, request: bytes, payload: bytes | None = None) -> Answer:
        """Sends an encoded request and returns its reply. An executed request updates `seq`."""
        answer = self.connection.exchange(request, payload)
        self.count(answer)
        return answer

    def count(self, answer: Answer) -> None:
        """Updates `seq` if `answer` shows that the request was executed."""
        if answer.slot != "error" and answer.reply.seq:
            self.seq = answer.reply.seq

    def ask(self, payload: bytes | None = None, **fields: Any) -> Answer:
        """Builds the next request from `fields` and sends it. Returns the reply."""
        return self.call(self.request(**fields), payload)

    def create(self, **fields: Any) -> Answer:
        """Creates three 2048 boards. `fields` can override any field of the CreateRequest."""
        three: dict[str, Any] = {"environment_id": ENVIRONMENT_ID, "num_envs": 3}
        answer = self.ask(create=three | fields)
        self.created = answer.reply.create
        return answer

    def reset(self, *seeds: int) -> Answer:
        """Resets all boards, with the seeds 0, 1, 2 by default."""
        return self.ask(numbers(*(seeds or (0, 1, 2))), reset={"seeds": True})

    def step(self, *actions: int) -> Answer:
        """Plays an action on each board."""
        return self.ask(bytes(actions), step={})
