"""Servers that each break the contract in one way.

Each is a relay between its clients and a real server, so that everything else is right.
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
    """An address that forwards requests to a server, and replies to the clients.

    A fault overrides `ask` or `reply`, which may change their messages: frames from the header on.
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
        """Sends a reply that the relay made itself. Returns no frames, as the result of `ask`."""
        self._front.send_multipart([client, b"", *reply])
        return []

    def garbage(self, frames: Message) -> Message:
        """Returns the frames to forward from a message whose header is not a request."""
        return frames

    def ask(self, client: bytes, request: envelope.Request, frames: Message) -> Message:
        """Returns the request frames to forward; empty if the relay has answered the request."""
        return frames

    def reply(self, client: bytes, frames: Message) -> Message:
        """Returns the frames to forward from a reply to a client's last request."""
        return frames


def key(request: envelope.Request) -> Key:
    """Returns a request's place in its session."""
    return request.session, request.seq


def encoded(message: Any, frames: Message) -> Message:
    """Returns the frames with another header."""
    return [message.SerializeToString(), *frames[1:]]


class WithoutFence(Relay):
    """Treats the epoch of any request as the newest."""

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
    """Treats each resume as the resume of another holder."""

    @override
    def ask(self, client: bytes, request: envelope.Request, frames: Message) -> Message:
        if len(request.resume.holder) == 16:
            request.resume.holder = os.urandom(16)
        return encoded(request, frames)


class Shifted(Relay):
    """A server whose seq for a session differs from the client's seq by a shift."""

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
        """Handles a request that the server has refused."""


class ExecutesRepeats(Shifted):
    """Executes a step again when it is repeated."""

    @override
    def ask(self, client: bytes, request: envelope.Request, frames: Message) -> Message:
        if request.HasField("step") and self.done.get(request.session) == frames:
            self.shifts[request.session] += 1
        return super().ask(client, request, frames)


class CountsRefusals(Shifted):
    """Uses up a seq for a request that it refuses."""

    @override
    def refused(self, session: bytes, code: int) -> None:
        if code == envelope.ERROR_CODE_INVALID_ARGUMENT:
            self.shifts[session] -= 1


class LooksAtSeqsAlone(Relay):
    """Sends the kept reply to any request whose seq was executed, without comparing its bytes."""

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
    """Answers a repeat with the same meaning, in other bytes."""

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
    """Forgets a session that it has closed."""

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
    """Sends a reply to each connection over which its request has come."""

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
    """Does not answer messages that it can't read."""

    @override
    def garbage(self, frames: Message) -> Message:
        return []


class KeepsTheNextSeq(Relay):
    """Does not report the expected seq."""

    @override
    def reply(self, client: bytes, frames: Message) -> Message:
        reply = envelope.Reply.FromString(frames[0])
        reply.error.ClearField("expected_seq")
        return encoded(reply, frames) if reply.error.code else frames


class KeepsTheLastReply(Relay):
    """Resumes a session without its last reply."""

    @override
    def reply(self, client: bytes, frames: Message) -> Message:
        reply = envelope.Reply.FromString(frames[0])
        if not reply.HasField("resume"):
            return frames
        reply.resume.last_reply = b""
        return encoded(reply, frames)
