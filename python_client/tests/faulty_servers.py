"""Servers that each break the protocol in one way.

Each server is a relay between clients and a real server, so everything else is correct.
"""

import os
import threading
from collections import defaultdict
from types import TracebackType
from typing import Any

import zmq
from typing_extensions import override

from twofold.v1 import envelope_pb2 as envelope

# A field that the protocol does not have.
UNKNOWN_FIELD = b"\xf8\x7f\x01"

Message = list[bytes]
Key = tuple[bytes, int]


class Relay:
    """A relay that forwards requests to a real server, and replies to the clients.

    A faulty server overrides `ask`, `reply` or `garbage` and returns changed frames. The first of
    these frames is the header.
    """

    def __init__(self, server: str) -> None:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
        self._front, self._back = context.socket(zmq.ROUTER), context.socket(zmq.DEALER)
        self._front.bind("tcp://127.0.0.1:*")
        self.endpoint = self._front.get_string(zmq.LAST_ENDPOINT)
        self._back.connect(server)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        # The request that each client sent last, by its route.
        self.asked: dict[bytes, envelope.Request] = {}
        self._thread.start()

    def __enter__(self) -> "Relay":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_over.set()
        self._thread.join()
        for socket in (self._front, self._back):
            socket.close(linger=0)

    def _run(self) -> None:
        while not self._is_over.is_set():
            ready = zmq.select([self._front, self._back], [], [], 0.02)[0]
            if self._front in ready:
                self._pass(self._front.recv_multipart(), self._back)
            if self._back in ready:
                self._pass(self._back.recv_multipart(), self._front)

    def _pass(self, message: Message, to: zmq.Socket[bytes]) -> None:
        client, rest = message[0], message[1:]
        is_plain = rest[:1] == [b""] and len(rest) in (2, 3)
        if not is_plain:
            to.send_multipart(message)
        elif to is self._front:
            self._front.send_multipart([client, b"", *self.reply(client, rest[1:])])
        elif frames := self._ask(client, rest[1:]):
            self._back.send_multipart([client, b"", *frames])

    def _ask(self, client: bytes, frames: Message) -> Message:
        try:
            request = envelope.Request.FromString(frames[0])
        except Exception:
            return self.garbage(frames)
        self.asked[client] = request
        return self.ask(client, request, frames)

    def answer(self, client: bytes, reply: Message) -> Message:
        """Sends `reply` to a client. Returns no frames, so that `ask` forwards nothing."""
        self._front.send_multipart([client, b"", *reply])
        return []

    def garbage(self, frames: Message) -> Message:
        """Returns the frames to forward for a message whose header is not a valid request."""
        return frames

    def ask(self, client: bytes, request: envelope.Request, frames: Message) -> Message:
        """Returns the frames to forward for a request; empty if the relay has already answered."""
        return frames

    def reply(self, client: bytes, frames: Message) -> Message:
        """Returns the frames to forward for a reply to the client's last request."""
        return frames


def key(request: envelope.Request) -> Key:
    """Returns the session id and the seq of a request."""
    return request.session, request.seq


def encoded(message: Any, frames: Message) -> Message:
    """Returns the frames with the encoded `message` as the new header."""
    return [message.SerializeToString(), *frames[1:]]


class WithoutFence(Relay):
    """A server that accepts requests with an old epoch."""

    def __init__(self, server: str) -> None:
        self.epochs: defaultdict[bytes, int] = defaultdict(lambda: 1)
        super().__init__(server)

    @override
    def ask(self, client: bytes, request: envelope.Request, frames: Message) -> Message:
        if request.session and not request.HasField("resume"):
            request.epoch = self.epochs[request.session]
        return encoded(request, frames)

    @override
    def reply(self, client: bytes, frames: Message) -> Message:
        reply = envelope.Reply.FromString(frames[0])
        if reply.HasField("resume"):
            self.epochs[self.asked[client].session] = reply.resume.epoch
        return frames


class WithoutHolders(Relay):
    """A server that treats each resume as a resume by a new holder."""

    @override
    def ask(self, client: bytes, request: envelope.Request, frames: Message) -> Message:
        if len(request.resume.holder) == 16:
            request.resume.holder = os.urandom(16)
        return encoded(request, frames)


class Shifted(Relay):
    """A relay that adds a number, the session's shift, to the seq of each request.

    The clients get replies with their own seqs. The shifts start at 0; subclasses change them.
    """

    def __init__(self, server: str) -> None:
        self.shifts: defaultdict[bytes, int] = defaultdict(int)
        self.seqs: dict[bytes, int] = {}
        self.done: dict[bytes, Message] = {}
        self.sent: dict[bytes, Message] = {}
        super().__init__(server)

    @override
    def ask(self, client: bytes, request: envelope.Request, frames: Message) -> Message:
        self.seqs[client], self.sent[client] = request.seq, frames
        if request.session and request.seq:
            request.seq += self.shifts[request.session]
        return encoded(request, frames)

    @override
    def reply(self, client: bytes, frames: Message) -> Message:
        reply = envelope.Reply.FromString(frames[0])
        session = self.asked[client].session
        if reply.HasField("error"):
            self.refused(session, reply.error.code)
        else:
            self.done[session] = self.sent[client]
        if reply.seq:
            reply.seq = self.seqs[client]
        return encoded(reply, frames)

    def refused(self, session: bytes, code: int) -> None:
        """Reacts to a request that the server has refused."""


class ExecutesRepeats(Shifted):
    """A server that executes a repeated step again."""

    @override
    def ask(self, client: bytes, request: envelope.Request, frames: Message) -> Message:
        if request.HasField("step") and self.done.get(request.session) == frames:
            self.shifts[request.session] += 1
        return super().ask(client, request, frames)


class CountsRefusals(Shifted):
    """A server that uses up a seq when it refuses a request."""

    @override
    def refused(self, session: bytes, code: int) -> None:
        if code == envelope.ERROR_CODE_INVALID_ARGUMENT:
            self.shifts[session] -= 1


class LooksAtSeqsAlone(Relay):
    """A server that sends the stored reply for an executed seq, even if the request differs."""

    def __init__(self, server: str) -> None:
        self.kept: dict[Key, Message] = {}
        super().__init__(server)

    @override
    def ask(self, client: bytes, request: envelope.Request, frames: Message) -> Message:
        if key(request) in self.kept and not request.HasField("create"):
            return self.answer(client, self.kept[key(request)])
        return frames

    @override
    def reply(self, client: bytes, frames: Message) -> Message:
        if envelope.Reply.FromString(frames[0]).WhichOneof("result") in ("step", "reset"):
            self.kept[key(self.asked[client])] = frames
        return frames


class EncodesAnew(Relay):
    """A server whose reply to a repeated step has the same meaning but different bytes."""

    def __init__(self, server: str) -> None:
        self.answered: set[Key] = set()
        super().__init__(server)

    @override
    def reply(self, client: bytes, frames: Message) -> Message:
        request = self.asked[client]
        is_repeat, is_step = key(request) in self.answered, request.HasField("step")
        self.answered.add(key(request))
        return [frames[0] + UNKNOWN_FIELD * (is_repeat and is_step), *frames[1:]]


class ForgetsCloses(Relay):
    """A server that forgets closed sessions, so that a repeated close request gets NOT_FOUND."""

    def __init__(self, server: str) -> None:
        self.closed: set[bytes] = set()
        super().__init__(server)

    @override
    def ask(self, client: bytes, request: envelope.Request, frames: Message) -> Message:
        if request.session not in self.closed:
            return frames
        error = {"code": envelope.ERROR_CODE_NOT_FOUND, "field": "session"}
        reply = envelope.Reply(seq=request.seq, error=error)
        return self.answer(client, [reply.SerializeToString()])

    @override
    def reply(self, client: bytes, frames: Message) -> Message:
        if envelope.Reply.FromString(frames[0]).HasField("close"):
            self.closed.add(self.asked[client].session)
        return frames


class AnswersEachRepeat(Relay):
    """A server that sends a rollout's reply to every connection that has sent the request."""

    def __init__(self, server: str) -> None:
        self.clients: defaultdict[Key, set[bytes]] = defaultdict(set)
        super().__init__(server)

    @override
    def ask(self, client: bytes, request: envelope.Request, frames: Message) -> Message:
        if request.HasField("rollout"):
            self.clients[key(request)].add(client)
        return frames

    @override
    def reply(self, client: bytes, frames: Message) -> Message:
        reply = envelope.Reply.FromString(frames[0])
        if reply.HasField("rollout"):
            for (_, seq), clients in self.clients.items():
                for other in clients - {client} if seq == reply.seq else ():
                    self.answer(other, frames)
            self.clients.clear()
        return frames


class IgnoresGarbage(Relay):
    """A server that does not answer messages whose header it cannot decode."""

    @override
    def garbage(self, frames: Message) -> Message:
        return []


class KeepsTheNextSeq(Relay):
    """A server whose errors do not contain the expected seq."""

    @override
    def reply(self, client: bytes, frames: Message) -> Message:
        reply = envelope.Reply.FromString(frames[0])
        reply.error.ClearField("expected_seq")
        return encoded(reply, frames) if reply.error.code else frames


class KeepsTheLastReply(Relay):
    """A server whose replies to resume requests do not contain the session's last reply."""

    @override
    def reply(self, client: bytes, frames: Message) -> Message:
        reply = envelope.Reply.FromString(frames[0])
        if not reply.HasField("resume"):
            return frames
        reply.resume.last_reply = b""
        return encoded(reply, frames)
