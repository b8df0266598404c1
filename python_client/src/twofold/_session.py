"""One session: a number of boards on a server, and the sequence of requests that drives them."""

from __future__ import annotations

import atexit
import contextlib
import os
import time
import weakref
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from twofold import _private_server
from twofold._connection import Call, Connection, check_address
from twofold._exceptions import ClosedError, RequestError, ResourceExhausted, from_reply
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment

# How long a close may take; it says goodbye to a server that may be gone.
_CLOSE_DEADLINE = 1.0

Slot = Literal["reset", "step", "observe", "afterstates", "close"]


class Session:
    """Boards on a server, made by one create request; exactly once is kept here.

    A request that was sent and not answered, be it for a deadline or a KeyboardInterrupt, stays
    pending. The next call with the same bytes collects its reply; any other call finishes it first.

    Args:
        create: What to make.
        endpoint: An address, "private", or None for TWOFOLD_ENDPOINT and "private" without it.
        timeout: Seconds that each call may take.

    Attributes:
        spec: The server's reply to create: spaces and array layouts.
    """

    def __init__(
        self, create: environment.CreateRequest, *, endpoint: str | None, timeout: float
    ) -> None:
        self._timeout = timeout
        self._pid = os.getpid()
        # Secret: whoever knows it can use the session.
        self._id = os.urandom(16)
        self._epoch = 1
        self._last_seq = 0
        self._pending: Call | None = None
        self._is_open = False

        deadline = time.monotonic() + timeout
        if endpoint is None:
            endpoint = os.environ.get("TWOFOLD_ENDPOINT") or "private"
        self._server: _private_server.PrivateServer | None = None
        if endpoint == "private":
            self._server = _private_server.acquire(deadline)
            self._connection = Connection(self._server.endpoint, self._server.check)
        else:
            self._connection = Connection(check_address(endpoint))
        self._is_open = True
        try:
            self._connection.hello(deadline)
            self._check_limits(create)
            request = self._header(1, envelope.Request(create=create))
            reply, _ = self._run(Call("create", 1, request), deadline)
        except BaseException:
            self.close()
            raise
        self.spec: environment.CreateReply = reply.create
        self._epoch = self.spec.epoch
        self._step_header, self._step_seq_at = self._make_step_header()
        _open_sessions.add(self)

    def call(
        self, slot: Slot, request: envelope.Request, payload: bytes | None = None
    ) -> NDArray[np.uint8]:
        """Carries out one request.

        Args:
            slot: The request's slot.
            request: The request without session, epoch and seq.
            payload: Its payload frame.

        Returns:
            The reply's payload, (size,), fresh; empty where the reply has none.

        Raises:
            RequestError: The server refused; nothing has changed.
            TransportError: No answer; the request stays pending.
            ClosedError: The session is closed, or of another process.
        """
        self._check_usable()
        deadline = time.monotonic() + self._timeout
        call = self._encode(slot, request, payload)
        # The same bytes again are the pending request itself, and collect its reply.
        if self._pending is not None and self._pending != call:
            self._finish_pending(deadline)
            call = self._encode(slot, request, payload)
        return self._run(call, deadline)[1]

    def close(self, timeout: float = _CLOSE_DEADLINE) -> None:
        """Ends the session; never raises for a server that is gone; twice is fine."""
        if not self._is_open or os.getpid() != self._pid:
            return
        self._is_open = False
        try:
            if self._last_seq or self._pending:
                with contextlib.suppress(Exception):
                    self._say_goodbye(time.monotonic() + timeout)
        finally:
            self._connection.drop()
            if self._server is not None:
                _private_server.release(self._server)

    def __del__(self) -> None:
        # At interpreter exit anything may be half gone.
        with contextlib.suppress(Exception):
            self.close()

    def _say_goodbye(self, deadline: float) -> None:
        if self._server is not None:
            self._server.check()
        self._finish_pending(deadline)
        if self._last_seq:
            close = envelope.Request(close=environment.CloseRequest())
            self._run(self._encode("close", close, None), deadline)

    def _run(self, call: Call, deadline: float) -> tuple[envelope.Reply, NDArray[np.uint8]]:
        self._connection.check_size(call)
        self._pending = call
        reply, payload = self._connection.exchange(call, deadline)
        if reply.HasField("error"):
            self._pending = None
            raise from_reply(reply.error)
        # In this order: an interrupt between the two repeats a request that is answered already.
        self._last_seq = call.seq
        self._pending = None
        return reply, payload

    def _finish_pending(self, deadline: float) -> None:
        if self._pending is not None:
            # Whoever made the request has been told of a failure; what it was does not matter now.
            with contextlib.suppress(RequestError):
                self._run(self._pending, deadline)

    def _encode(self, slot: Slot, request: envelope.Request, payload: bytes | None) -> Call:
        seq = self._last_seq + 1
        if slot == "step":
            at = self._step_seq_at
            self._step_header[at : at + 8] = seq.to_bytes(8, "little")
            return Call(slot, seq, bytes(self._step_header), payload, self.spec.step.size)
        return Call(slot, seq, self._header(seq, request), payload, self._reply_size(slot))

    def _header(self, seq: int, request: envelope.Request) -> bytes:
        request.session = self._id
        request.epoch = self._epoch
        request.seq = seq
        return request.SerializeToString()

    def _make_step_header(self) -> tuple[bytearray, int]:
        # Fields stand in the order of their numbers: session, epoch, then seq, which is one byte of
        # tag and the eight bytes to patch.
        before = envelope.Request(session=self._id, epoch=self._epoch).ByteSize()
        step = envelope.Request(step=environment.StepRequest())
        header = bytearray(self._header(2**64 - 1, step))
        at = before + 1
        assert header[at : at + 8] == b"\xff" * 8
        return header, at

    def _reply_size(self, slot: Slot) -> int:
        if slot in ("reset", "observe"):
            return self.spec.reset.size
        return self.spec.afterstates.size if slot == "afterstates" else 0

    def _check_usable(self) -> None:
        if os.getpid() != self._pid:
            raise ClosedError(
                f"this environment belongs to process {self._pid}, which this one was forked from; "
                "make environments after the fork"
            )
        if not self._is_open:
            raise ClosedError("this environment is closed")

    def _check_limits(self, create: environment.CreateRequest) -> None:
        limit = self._connection.limits.max_boards_per_session
        if limit and create.num_envs > limit:
            raise ResourceExhausted(
                f"num_envs is {create.num_envs}; the server at {self._connection.endpoint} allows "
                f"max_boards_per_session = {limit}",
                field="num_envs",
            )


_open_sessions: weakref.WeakSet[Session] = weakref.WeakSet()


def _close_at_exit() -> None:
    # First the private server, sessions and all; what is left is on servers that live on.
    _private_server.stop_at_exit()
    deadline = time.monotonic() + _CLOSE_DEADLINE
    for session in list(_open_sessions):
        session.close(max(0.0, deadline - time.monotonic()))


atexit.register(_close_at_exit)
