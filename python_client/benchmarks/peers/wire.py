"""A session over the simplest possible pyzmq client."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import zmq
from numpy.typing import NDArray

from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment


def round_trip(
    socket: zmq.Socket[bytes], request: bytes, actions: NDArray[Any], payload: NDArray[np.uint8]
) -> None:
    """Sends a header and actions, and receives the reply into `payload` without checks.

    numpy allocates `payload`, because a frame's own memory may be unaligned. The caller reuses
    `payload`, because new memory pages cost more time than the transport of their bytes.
    """
    socket.send(request, zmq.SNDMORE)
    socket.send(actions.data)
    socket.recv()
    socket.recv_into(payload.data)


class WireSession:
    """N boards on a server, using the protocol without checks, deadlines or resends.

    Attributes:
        payload: The last step's payload.
        mask_slice: The slice of the payload that contains the action mask.
    """

    action_dtype = np.uint8

    def __init__(self, endpoint: str, num_envs: int) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.socket = self._context.socket(zmq.REQ)
        self.socket.connect(endpoint)
        self._id = os.urandom(16)
        self._seq = 0
        create = environment.CreateRequest(environment_id="twofold/Game2048-v0", num_envs=num_envs)
        layout = self._call(create=create).create.step
        self._call(np.arange(num_envs, dtype="<u8").tobytes(), reset={"seeds": True})
        self.payload = np.empty(layout.size, np.uint8)
        (mask,) = (array for array in layout.arrays if array.name == "action_mask")
        self.mask_slice = slice(mask.offset, mask.offset + 4 * num_envs)
        any_seq = b"\xff" * 8
        header = self._header(int.from_bytes(any_seq, "little"), step={})
        self._before, self._behind = header.split(any_seq)

    def step_header(self) -> bytes:
        """Returns the header of the next step."""
        self._seq += 1
        return self._before + self._seq.to_bytes(8, "little") + self._behind

    def step(self, actions: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Plays one step, and returns the reply's payload."""
        round_trip(self.socket, self.step_header(), actions, self.payload)
        return self.payload

    def close(self) -> None:
        """Closes the socket. The session ends with the server."""
        self._context.destroy(linger=0)

    def _header(self, seq: int, **op: Any) -> bytes:
        return envelope.Request(session=self._id, epoch=1, seq=seq, **op).SerializeToString()

    def _call(self, *payload: bytes, **op: Any) -> envelope.Reply:
        self._seq += 1
        self.socket.send_multipart([self._header(self._seq, **op), *payload])
        reply = envelope.Reply.FromString(self.socket.recv_multipart()[0])
        assert not reply.HasField("error"), reply.error
        return reply
