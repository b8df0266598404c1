"""The protocol by hand: a DEALER socket, and valid or invalid protobuf messages and bytes."""

import os
from types import TracebackType
from typing import Any

import zmq

from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment
from twofold.v1 import statistics_pb2 as statistics

ENVIRONMENT_ID = "twofold/Game2048-v0"


class RawSession:
    """A session for requests that a test builds itself; `seq` is the last executed one."""

    def __init__(self, endpoint: str) -> None:
        self.socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        self.socket.set(zmq.LINGER, 0)
        self.socket.set(zmq.RCVTIMEO, 30_000)
        self.socket.connect(endpoint)
        self.begin()

    def begin(self) -> None:
        """Another session over the same socket; the last one stays open."""
        self.id = os.urandom(16)
        self.seq = 0

    def __enter__(self) -> "RawSession":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.call(self.request(close={}))
        self.socket.close()

    def request(self, **fields: Any) -> bytes:
        """The next request, encoded; fields of Request override this session's."""
        own: dict[str, Any] = {"session": self.id, "epoch": 1, "seq": self.seq + 1}
        fields = own | fields
        return envelope.Request(**fields).SerializeToString()

    def send(self, *frames: bytes) -> None:
        """Sends a message unchanged, including the delimiter."""
        self.socket.send_multipart(frames)

    def receive(self) -> tuple[envelope.Reply, bytes | None]:
        """The next reply and its payload."""
        delimiter, reply, *payload = self.socket.recv_multipart()
        assert delimiter == b""
        assert len(payload) <= 1
        return envelope.Reply.FromString(reply), payload[0] if payload else None

    def call(self, request: bytes, *payload: bytes) -> envelope.Reply:
        """Sends one request and receives its reply; counts it if it was executed."""
        self.send(b"", request, *payload)
        reply, _ = self.receive()
        if not reply.HasField("error") and reply.seq:
            self.seq = reply.seq
        return reply

    def create(self, **fields: Any) -> envelope.Reply:
        """Creates three boards; `fields` override those of CreateRequest."""
        three: dict[str, Any] = {"environment_id": ENVIRONMENT_ID, "num_envs": 3}
        fields = three | fields
        return self.call(self.request(create=environment.CreateRequest(**fields)))

    def reset(self) -> envelope.Reply:
        """Resets three boards with the seeds 0, 1, 2."""
        seeds = b"".join(lane.to_bytes(8, "little") for lane in range(3))
        return self.call(self.request(reset={"seeds": True}), seeds)


def statistics_of(endpoint: str) -> statistics.StatsReply:
    """The server's statistics, over a socket of its own."""
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.REQ)
    socket.set(zmq.LINGER, 0)
    socket.set(zmq.RCVTIMEO, 30_000)
    socket.connect(endpoint)
    request = envelope.Request(stats=statistics.StatsRequest())
    socket.send(request.SerializeToString())
    reply = envelope.Reply.FromString(socket.recv())
    socket.close()
    return reply.stats
