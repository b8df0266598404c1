"""A correct client, and faulty clients that each break the protocol in one way."""

import os
import struct
import threading
from collections.abc import Container
from typing import Any

import zmq
from faulty_servers import UNKNOWN_FIELD, Message
from typing_extensions import override

from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment


class Stopped(Exception):
    """The error that a client raises when it gives up on a request."""


class PlainClient:
    """A correct client that makes the requests of the conformance program (make_program.py).

    From the package, it uses only the protobuf messages. A faulty client overrides one of the
    methods below `play`.

    `withheld` contains the seqs of the requests whose replies the server withholds. The client
    waits at most 500 ms for these replies, and 10 s for all others. A busy machine that delays a
    reply therefore does not trigger a fault in the handling of missing replies. If `withheld` is
    None, the client waits at most 500 ms for each reply.
    """

    tries = 20

    def __init__(self, endpoint: str, withheld: Container[int] | None = None) -> None:
        self.endpoint = endpoint
        self.withheld = withheld
        self.session, self.seq = os.urandom(16), 0
        self.sizes = {"create": 0, "reset": 0, "step": 0, "close": 0}

    def play(self) -> None:
        """Makes the requests of the program. Closes the session if the client gives up."""
        try:
            self._play()
        except Stopped:
            try:
                self._ask("close", {})
            except Stopped:
                return

    def _play(self) -> None:
        boards = {"environment_id": "twofold/Game2048-v0", "num_envs": 4}
        created = environment.CreateReply()
        created.CopyFrom(self._ask("create", boards)[0].create)
        self.sizes |= {"reset": created.reset.size, "step": created.step.size}
        payload = self._ask("reset", {"seeds": True}, struct.pack("<4Q", 0, 1, 2, 3))[1]
        for step in range(10):
            sums = [sum(payload[16 * board : 16 * board + 16]) for board in range(4)]
            payload = self._ask("step", {}, bytes((step + each) % 4 for each in sums))[1]
        self._ask("close", {})

    def _ask(
        self, slot: str, fields: dict[str, Any], payload: bytes | None = None
    ) -> tuple[envelope.Reply, bytes]:
        request = envelope.Request(session=self.session, epoch=1, seq=self.seq + 1)
        getattr(request, slot).SetInParent()
        for name, value in fields.items():
            setattr(getattr(request, slot), name, value)
        header = request.SerializeToString()
        for number in range(self.tries):
            reply = self._exchange(self.repeated(header, number), payload, slot, number)
            if reply is None:
                if self.goes_on(slot):
                    break
                continue
            error = reply[0].error
            if not reply[0].HasField("error"):
                self.seq += 1
                return reply
            if error.code != envelope.ERROR_CODE_SHUTTING_DOWN:
                self.refused(error.code, header, payload)
                raise Stopped
            self.wait(error.retry_after_ms)
        else:
            raise Stopped
        self.seq += 1
        return envelope.Reply(), bytes(1000)

    def _exchange(
        self, header: bytes, payload: bytes | None, slot: str, number: int
    ) -> tuple[envelope.Reply, bytes] | None:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
        with context.socket(zmq.DEALER) as socket:
            socket.set(zmq.LINGER, 0)
            socket.connect(self.endpoint)
            socket.send_multipart([b"", header, *([] if payload is None else [payload])])
            while socket.poll(self._patience(number)):
                _, answer, *rest = socket.recv_multipart()
                if self.accepts(answer, rest, slot):
                    try:
                        return envelope.Reply.FromString(answer), (rest or [b""])[0]
                    except Exception:
                        return envelope.Reply(), bytes(1000)
        return None

    def _patience(self, number: int) -> int:
        """Returns how many milliseconds to wait in attempt `number`; the first attempt is 0."""
        if self.withheld is None or self.seq + 1 in self.withheld:
            return min(50 << number, 500)
        return 10_000

    def repeated(self, header: bytes, number: int) -> bytes:
        """Returns the header to send in attempt `number`; the first attempt is 0."""
        return header

    def goes_on(self, slot: str) -> bool:
        """Returns True if the client continues although its request `slot` got no reply."""
        return False

    def accepts(self, header: bytes, rest: Message, slot: str) -> bool:
        """Returns True if the message is the reply to the current request `slot`."""
        try:
            reply = envelope.Reply.FromString(header)
        except Exception:
            return False
        if reply.seq != self.seq + 1:
            return False
        whole = reply.HasField(slot) and len((rest or [b""])[0]) >= self.sizes[slot]
        return reply.HasField("error") or whole

    def refused(self, code: int, header: bytes, payload: bytes | None) -> None:
        """Reacts to a refused request. A correct client does nothing."""

    def wait(self, milliseconds: int) -> None:
        """Waits for the given time before the client repeats a request."""
        threading.Event().wait(milliseconds / 1000)


class EncodesRepeatsAnew(PlainClient):
    """A client whose repeated requests have the same meaning but different bytes."""

    @override
    def repeated(self, header: bytes, number: int) -> bytes:
        return header + UNKNOWN_FIELD * (number > 0)


class CountsRepeats(PlainClient):
    """A client that gives each repeat of a request a new seq."""

    @override
    def repeated(self, header: bytes, number: int) -> bytes:
        request = envelope.Request.FromString(header)
        request.seq += number
        return request.SerializeToString()


class BeginsAnew(PlainClient):
    """A client that repeats a request in a new session."""

    @override
    def repeated(self, header: bytes, number: int) -> bytes:
        request = envelope.Request.FromString(header)
        request.session = request.session if number == 0 else os.urandom(16)
        return request.SerializeToString()


class TakesSilenceForSuccess(PlainClient):
    """A client that continues with the next request if a step gets no reply."""

    @override
    def goes_on(self, slot: str) -> bool:
        return slot == "step"


class AsksOnce(PlainClient):
    """A client that never repeats a request."""

    tries = 1


class TakesAnyReply(PlainClient):
    """A client that treats any message as the reply to its last request."""

    @override
    def accepts(self, header: bytes, rest: Message, slot: str) -> bool:
        return True


class CountsRefusedRequests(PlainClient):
    """A client that uses up a seq when its request is refused."""

    @override
    def refused(self, code: int, header: bytes, payload: bytes | None) -> None:
        self.seq += 1


class RepeatsWhatWasRefused(PlainClient):
    """A client that repeats a refused request."""

    @override
    def refused(self, code: int, header: bytes, payload: bytes | None) -> None:
        for _ in range(5):
            self._exchange(header, payload, "step", 0)


class DoesNotWait(PlainClient):
    """A client that does not wait before it repeats a request to a stopping server."""

    @override
    def wait(self, milliseconds: int) -> None:
        return


class ResetsAfterwards(PlainClient):
    """A client that continues with a reset after it has lost its session."""

    @override
    def refused(self, code: int, header: bytes, payload: bytes | None) -> None:
        self._exchange(self._reset(), None, "reset", 0)

    def _reset(self) -> bytes:
        request = envelope.Request(session=self.session, epoch=1, seq=self.seq + 1)
        request.reset.SetInParent()
        return request.SerializeToString()
