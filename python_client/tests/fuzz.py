"""Sends random messages to a server, most of them invalid in some way.

    cd python_client/tests && python -m fuzz ENDPOINT SEED COUNT

This command sends COUNT messages. It prints the numbers of messages, answers and missing answers
as JSON. Run the command several times in parallel to simulate several clients. The same seed gives
the same messages if the server gives the same answers.
"""

import json
import math
import random
import sys
import time
from collections.abc import Callable
from typing import Any

import zmq
from compliance.carriers import ZeroMQConnection
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from servers import PATIENCE

from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment

# The number of messages in flight at any time.
AT_ONCE = 64
# The number of messages between two valid sessions, so that these messages hit one of them.
CONVERSATION_EVERY = 1000
# The seq of the request that ends a run; no message has it by chance.
LAST_SEQ = 0x7477_6F66_6F6C_6421
# The number of a message's frames that the server inspects, including the routing id.
MAX_FRAMES = 16

_EDGES: dict[int, list[Any]] = {
    FieldDescriptor.CPPTYPE_UINT64: [0, 1, 2, 3, 4, 64, 1000, 2**31, 2**32, 2**63, 2**64 - 1],
    FieldDescriptor.CPPTYPE_UINT32: [0, 1, 2, 3, 4, 8, 9, 255, 2**31, 2**32 - 1],
    FieldDescriptor.CPPTYPE_INT64: [0, 1, -1, 2**31, -(2**63), 2**63 - 1],
    FieldDescriptor.CPPTYPE_INT32: [0, 1, -1, 100, -(2**31), 2**31 - 1],
    FieldDescriptor.CPPTYPE_ENUM: [0, 1, 2, 3, 4, 99, -1, 2**31 - 1],
    FieldDescriptor.CPPTYPE_DOUBLE: [0.0, 0.1, 1.0, -1.0, 1e308, math.inf, -math.inf, math.nan],
    FieldDescriptor.CPPTYPE_FLOAT: [0.0, 0.5, 1.0, -1.0, 1e38, math.inf, -math.inf, math.nan],
    FieldDescriptor.CPPTYPE_BOOL: [False, True],
}
_TEXTS = ["", "x", "twofold/Game2048-v0", "twofold/Concentration-v0", "é" * 100, "\0", "a" * 3000]


class Fuzzer:
    """A generator of one client's random messages.

    Args:
        seed: The seed of the messages.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._id = self._random.randbytes(16)
        self._seq = 0
        self._conversations = 0
        self._kinds: list[Callable[[], list[bytes]]] = [
            self._structured,
            self._structured,
            self._structured,
            self._likely,
            self._likely,
            self._likely,
            self._broken,
            self._broken,
            self._raw,
            self._oddly_framed,
        ]

    def message(self) -> list[bytes]:
        """Returns the frames of the next message, including the delimiter."""
        return self._random.choice(self._kinds)()

    def saw(self, reply: envelope.Reply) -> None:
        """Updates the session's id and seq from a reply, so that later requests can be valid."""
        slot = reply.WhichOneof("result")
        if slot == "error":
            if reply.error.HasField("expected_seq"):
                self._seq = reply.error.expected_seq - 1
            elif reply.error.code == envelope.ERROR_CODE_NOT_FOUND:
                self._seq = 0
        elif slot == "close":
            self._id = self._random.randbytes(16)
            self._seq = 0
        elif slot not in ("hello", "stats", "expand") and reply.seq < 2**63:
            self._seq = max(self._seq, reply.seq)

    def conversation(self) -> list[list[bytes]]:
        """Returns the messages of a valid session. Every second session is closed at the end.

        Send each message after the previous answer.
        """
        self._id = self._random.randbytes(16)
        create = environment.CreateRequest(environment_id="twofold/Game2048-v0", num_envs=3)
        ops: list[tuple[dict[str, Any], bytes | None]] = [
            ({"create": create}, None),
            ({"reset": environment.ResetRequest(seeds=True)}, self._random.randbytes(24)),
            ({"step": environment.StepRequest()}, bytes(self._random.choices(range(4), k=3))),
            ({"observe": environment.ObserveRequest()}, None),
            ({"keepalive": environment.KeepaliveRequest()}, None),
        ]
        self._conversations += 1
        if self._conversations % 2 == 0:
            ops.append(({"close": environment.CloseRequest()}, None))
        self._seq = len(ops)
        messages = []
        for seq, (op, payload) in enumerate(ops, start=1):
            request = envelope.Request(session=self._id, epoch=1, seq=seq, **op)
            frames = [b"", request.SerializeToString()]
            messages.append(frames if payload is None else [*frames, payload])
        return messages

    # ---- kinds of messages -----------------------------------------------------------------------

    def _structured(self) -> list[bytes]:
        """Returns a request with random fields and values. Most of these requests are invalid."""
        request = envelope.Request()
        self._fill(request, 0)
        if self._random.random() < 0.7:
            self._address(request)
        return self._framed(request.SerializeToString())

    def _likely(self) -> list[bytes]:
        """Returns a request that is probably valid: first a create request, then random ones."""
        request = envelope.Request()
        slot = self._random.choice([f.name for f in request.DESCRIPTOR.oneofs[0].fields])
        getattr(request, slot).SetInParent()
        self._address(request)
        if self._seq == 0 or slot == "create":
            request.create.environment_id = "twofold/Game2048-v0"
            request.create.num_envs = self._random.choice([1, 3, 3, 3, 70, 20_000])
            request.seq = 1
        if slot == "hello":
            request.hello.protocol_version = self._random.choice([0, 1, 1, 2])
        if slot == "reset":
            request.reset.seeds = self._random.random() < 0.8
        if slot == "close" and self._random.random() < 0.7:
            request.observe.SetInParent()
        sizes = {"step": 3, "reset": 24 if request.reset.seeds else 0}
        size = sizes.get(request.WhichOneof("op") or "")
        frames = [b"", request.SerializeToString()]
        if size:
            step = bytes(self._random.choices(range(4), k=size))
            frames.append(step if size == 3 else self._random.randbytes(size))
        if request.session == self._id and request.seq == self._seq + 1:
            # Assumes that it will be executed; a refusal contains the session's state.
            self._seq += 1
        return frames

    def _broken(self) -> list[bytes]:
        """Returns a message from `_structured` or `_likely` with a damaged header."""
        frames = self._random.choice([self._structured, self._likely])()
        frames[1] = self._damage(frames[1])
        return frames

    def _raw(self) -> list[bytes]:
        """Returns a message with random bytes as its header."""
        length = self._random.choice([0, 1, 2, 10, 50, 200, 5000])
        return self._framed(self._random.randbytes(length))

    def _oddly_framed(self) -> list[bytes]:
        """Returns 1 to 40 random frames. Any number of them can be delimiters."""
        count = self._random.choice([1, 2, 3, 4, 5, 14, 15, 16, 17, 40])
        header = self._structured()[1]
        choice = [b"", header, b"x", self._random.randbytes(30), self._random.randbytes(300)]
        return self._random.choices(choice, weights=[2, 2, 4, 2, 1], k=count)

    # ---- parts -----------------------------------------------------------------------------------

    def _address(self, request: envelope.Request) -> None:
        """Sets the request's session, epoch and seq, usually to valid values."""
        request.session = self._id
        request.epoch = self._random.choice([1] * 20 + [0, 2, 2**32 - 1])
        near = [self._seq + 1] * 12 + [self._seq] * 3 + [0, 1, self._seq + 2, 2**64 - 1]
        request.seq = self._random.choice(near) % 2**64

    def _framed(self, header: bytes) -> list[bytes]:
        """Returns the delimiter, the header and, half of the time, a random payload."""
        frames = [b"", header]
        if self._random.random() < 0.5:
            length = self._random.choice([0, 1, 3, 3, 24, 27, 75, 1000, 70_000])
            frames.append(self._random.randbytes(length))
        return frames

    def _fill(self, message: Message, depth: int) -> None:
        descriptor = message.DESCRIPTOR
        chosen: dict[str, str] = {}
        for choice in descriptor.oneofs:
            slots: list[Any] = list(choice.fields)
            chosen[choice.name] = self._random.choice(slots).name
        for field in descriptor.fields:
            oneof = field.containing_oneof
            if oneof is not None and chosen[oneof.name] != field.name:
                continue
            if oneof is None and self._random.random() < 0.3:
                continue
            value = getattr(message, field.name)
            if hasattr(value, "append") or hasattr(value, "add"):  # repeated
                for _ in range(self._random.choice([0, 1, 2, 5])):
                    if field.message_type is None:
                        value.append(self._scalar(field))
                    elif depth < 4:
                        self._fill(value.add(), depth + 1)
            elif field.message_type is not None:
                value.SetInParent()
                if depth < 4:
                    self._fill(value, depth + 1)
            else:
                setattr(message, field.name, self._scalar(field))

    def _scalar(self, field: Any) -> Any:
        if field.type == FieldDescriptor.TYPE_BYTES:
            return self._random.randbytes(self._random.choice([0, 1, 15, 16, 16, 17, 400]))
        if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
            return self._random.choice(_TEXTS)
        return self._random.choice(_EDGES[field.cpp_type])

    def _damage(self, data: bytes) -> bytes:
        """Damages the bytes one to three times, for example by truncation or a flipped bit."""
        for _ in range(self._random.randrange(1, 4)):
            at = self._random.randrange(len(data) + 1)
            kind = self._random.randrange(7)
            if kind == 0:
                data = data[:at]
            elif kind == 1 and at < len(data):
                flipped = data[at] ^ (1 << self._random.randrange(8))
                data = data[:at] + bytes([flipped]) + data[at + 1 :]
            elif kind == 2:
                data = data[:at] + self._random.randbytes(self._random.randrange(1, 9)) + data[at:]
            elif kind == 3:
                data = data + data
            elif kind == 4:  # an impossible length
                data = data[:at] + b"\x82\x01\xff\xff\xff\xff\x07" + data[at:]
            elif kind == 5:  # groups in groups
                data = data[:at] + b"\xfb\x0b" * 200 + data[at:]
            else:  # unknown fields
                data = data + b"\xf8\xff\x03\x01" * self._random.randrange(1, 20)
        return data


def is_answered(frames: list[bytes]) -> bool:
    """Returns True if the server must answer: a delimiter is among the frames that it inspects."""
    return b"" in frames[: MAX_FRAMES - 1]


def is_idle(endpoint: str) -> bool:
    """Returns True if the server has no request in progress."""
    connection = ZeroMQConnection(endpoint)
    answer = connection.exchange(envelope.Request(stats={}).SerializeToString())
    connection.close()
    # With too many such requests at a time, this one is refused.
    return answer.slot == "stats" and answer.reply.stats.usage.in_progress == 0


def run(endpoint: str, seed: int, count: int) -> dict[str, int]:
    """Sends `count` messages. Returns the numbers of messages, answers and missing answers."""
    fuzzer = Fuzzer(seed)
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
    socket.set(zmq.LINGER, 0)
    socket.set(zmq.RCVTIMEO, int(PATIENCE * 1000))
    socket.connect(endpoint)
    tally = {"sent": 0, "answerable": 0, "answered": 0, "internal": 0}

    def receive() -> envelope.Reply:
        frames = socket.recv_multipart()
        return envelope.Reply.FromString(frames[frames.index(b"") + 1])

    def take(reply: envelope.Reply) -> None:
        tally["answered"] += 1
        tally["internal"] += reply.error.code == envelope.ERROR_CODE_INTERNAL
        fuzzer.saw(reply)

    def send(frames: list[bytes], at_once: int) -> None:
        socket.send_multipart(frames)
        tally["sent"] += 1
        tally["answerable"] += is_answered(frames)
        # A repeat of a request in progress is parked and may get no answer: do not insist.
        while tally["answerable"] - tally["answered"] > at_once or socket.poll(0):
            if not socket.poll(1000):
                tally["answerable"], missing = tally["answered"], tally["answerable"]
                tally["unanswered"] = tally.get("unanswered", 0) + missing - tally["answered"]
                break
            take(receive())

    def take_all() -> None:
        """Sends a hello, and receives all answers until the answer to the hello."""
        hello = envelope.Request(seq=LAST_SEQ, hello={"protocol_version": 1})
        socket.send_multipart([b"", hello.SerializeToString()])
        while (reply := receive()).seq != LAST_SEQ:
            take(reply)

    while tally["sent"] < count:
        if tally["sent"] % CONVERSATION_EVERY == 0:
            for frames in fuzzer.conversation():
                send(frames, 0)
        send(fuzzer.message(), AT_ONCE)
    take_all()
    # The server has read everything. Once it is idle, it has answered all requests in progress.
    while not is_idle(endpoint):
        time.sleep(0.01)
    take_all()
    unanswered = tally.pop("unanswered", 0) + tally.pop("answerable") - tally["answered"]
    socket.close()
    return {**tally, "unanswered": unanswered}


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
