"""A session's link to its service: the carrier, the session's id and its epoch."""

from __future__ import annotations

from collections.abc import Callable

from twofold.client.carrier import DONE, Answer, Call, Steps, await_next_server
from twofold.client.curve import CurveKeys
from twofold.client.endpoints import open_carrier, resolve
from twofold.client.payloads import Buffer
from twofold.client.session.states import Operation
from twofold.client.surroundings import Surroundings
from twofold.errors import (
    Conflict,
    FailedPrecondition,
    InvalidArgument,
    RequestError,
    ResourceExhausted,
    from_reply,
)
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment

CLOSE = Operation.of(envelope.Request(close={}))

REFUSED = (FailedPrecondition, InvalidArgument, ResourceExhausted)
"""The errors after which a request has changed nothing, unless a duplicate of it is executed."""


class Link:
    """One session's connection to its service. It turns error replies into exceptions.

    Args:
        endpoint: The `endpoint` argument of `Session`.
        keys: Keys for an encrypted endpoint.
        deadline: The time at which to give up starting a server.
        surroundings: The session's surroundings.

    Attributes:
        endpoint: The resolved endpoint.
        carrier: The carrier to the service.
        id: The session's id; a secret, because any client that knows it can use the session.
        spec: The reply to the create request.
    """

    def __init__(
        self,
        endpoint: str | None,
        keys: CurveKeys | None,
        deadline: float,
        surroundings: Surroundings,
    ) -> None:
        self.endpoint, self.keys = resolve(endpoint), keys
        self._surroundings = surroundings
        self.carrier = open_carrier(self.endpoint, keys, deadline, surroundings)
        # The holder id of an unanswered resume request from `_shut_copies_out`, else None.
        self._holder: bytes | None = None

    def new_id(self) -> bytes:
        """Returns a new id for a session."""
        return self._surroundings.random_bytes(16)

    def create(
        self,
        create: environment.CreateRequest,
        execute: Callable[[Operation], envelope.Reply],
        deadline: float,
        session_id: bytes,
    ) -> None:
        """Creates the session with this id and its boards; `execute` makes the create request."""
        self.id, self._holder = session_id, None
        self._set_spec(1, environment.CreateReply())
        self.carrier.hello(deadline)
        reply = execute(Operation.of(envelope.Request(create=create)))
        self._set_spec(reply.create.epoch, reply.create)

    def resume(self, session_id: bytes, deadline: float) -> tuple[environment.ResumeReply, Answer]:
        """Takes over a session from its holder.

        Returns:
            The reply to the resume request, and the session's last reply with its payload.
        """
        self.id = session_id
        self.carrier.hello(deadline)
        resume = environment.ResumeRequest(holder=self._surroundings.random_bytes(16))
        request = envelope.Request(session=session_id, resume=resume).SerializeToString()
        reply, payload = self.carrier.ask(Call("resume", 0, request, None, None), deadline)
        self._set_spec(reply.resume.epoch, reply.resume.created)
        # The copy is aligned and writable, like the payloads of other replies.
        last = envelope.Reply.FromString(reply.resume.last_reply), payload.copy()
        return reply.resume, last

    def reconnect(self, deadline: float) -> None:
        """Drops a request in progress, and replaces a private server that has ended."""
        self.carrier.close()
        if self.carrier.is_dead:
            self.carrier = open_carrier(self.endpoint, self.keys, deadline, self._surroundings)

    def transmit(
        self, operation: Operation, seq: int, deadline: float, into: Buffer | None = None
    ) -> Answer:
        """Sends an operation as the session's request `seq`, and waits for its reply."""
        slot, _, payload, _, width = operation
        are_copies_out = False
        while True:
            if self._holder is not None:
                answer = self._shut_copies_out(slot, seq, deadline, into)
                if answer is not None:
                    return answer
            if slot == "step" and payload is not None:
                answer = self.carrier.step(self._steps, seq, payload, width, deadline, into)
                if answer[0] is DONE:
                    return answer
            else:
                answer = self.carrier.exchange(
                    self.encode(operation, seq, deadline), deadline, into
                )
            if not answer[0].HasField("error"):
                return answer
            error = from_reply(answer[0].error)
            if seq > 1 and not are_copies_out and self._may_have_copies(error):
                are_copies_out = True
                self._holder = self._surroundings.random_bytes(16)
                executed = self._shut_copies_out(slot, seq, deadline, into)
                if isinstance(error, Conflict):
                    # The session's last reply, if it has this number, answers another request.
                    self._holder = None
                    if executed is not None:
                        raise error
                    continue
                if executed is None:
                    raise error
                return executed
            await_next_server(error, deadline, self._surroundings)

    def _may_have_copies(self, error: RequestError) -> bool:
        """Returns True if a duplicate of a refused request may arrive later and be executed.

        A request has duplicates if it was sent more than once. If the refusal says that its
        sequence number is taken, a duplicate of an earlier request must have used that number.
        """
        if isinstance(error, Conflict):
            return error.field == "seq"
        return isinstance(error, REFUSED) and self.carrier.was_repeated

    def _shut_copies_out(
        self, slot: str, seq: int, deadline: float, into: Buffer | None
    ) -> Answer | None:
        """Resumes this client's own session, so the server refuses duplicates of earlier requests.

        Returns:
            The reply to request `seq`; None if the request was not executed.
        """
        assert self._holder is not None
        resume = environment.ResumeRequest(holder=self._holder)
        request = envelope.Request(session=self.id, epoch=self._steps.epoch, resume=resume)
        call = Call("resume", 0, request.SerializeToString(), None, None)
        try:
            reply, payload = self.carrier.ask(call, deadline)
        except RequestError:
            self._holder = None
            raise
        # The order matters: after an interrupt in between, the client only resumes once more.
        self._set_spec(reply.resume.epoch, self.spec)
        last = envelope.Reply.FromString(reply.resume.last_reply)
        if reply.resume.last_seq != seq or not last.HasField(slot):
            self._holder = None
            return None
        # `_holder` stays set, so that a repeat resumes, too: with the new epoch, the server would
        # take the repeat for another request.
        if into is None:
            payload = payload.copy()
        else:
            memory = into[0][: payload.size]
            memory[:] = payload
            payload = memory
        return last, payload

    def encode(self, operation: Operation, seq: int, deadline: float) -> Call:
        """Encodes an operation as the session's request `seq`.

        Raises:
            ResourceExhausted: The request is larger than the service accepts.
        """
        # Protobuf allows fields in any order. Therefore, all requests start with a header that is
        # the same except for its last eight bytes, and the operation follows.
        slot, request, payload, room, _ = operation
        if payload is not None and slot == "step":
            call = self._steps.call(seq, payload)
        else:
            request = self._steps.header + seq.to_bytes(8, "little") + request
            call = Call(slot, seq, request, payload, self._reply_sizes.get(slot, 0), room)
        self.carrier.check_size(call, deadline)
        return call

    def _set_spec(self, epoch: int, spec: environment.CreateReply) -> None:
        self.spec = spec
        sizes: dict[str, int | None] = {"afterstates": spec.afterstates.size, "snapshot": None}
        self._reply_sizes = sizes | dict.fromkeys(("reset", "observe", "restore"), spec.reset.size)
        header = envelope.Request(session=self.id, epoch=epoch, seq=2**64 - 1).SerializeToString()
        header, size = header.removesuffix(b"\xff" * 8), spec.step.size
        self._steps = Steps(self.id, epoch, header, size, max(size, spec.finals.size))

    def largest_payload(self, wanted: int) -> int:
        """Returns the wanted payload size, or the service's limit if that is lower."""
        limit = self.carrier.service.limits.max_message_bytes
        return limit // 8 * 8 if 0 < limit < wanted else wanted
