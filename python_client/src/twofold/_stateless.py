"""Requests that belong to no session: one connection for each server, shared by all callers."""

from __future__ import annotations

import os
import threading
import time

import numpy as np
from numpy.typing import NDArray

from twofold import _private_server
from twofold._connection import Call, Connection, check_address, check_curve
from twofold._exceptions import from_reply
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment

# A repeat would run again beside the first, so it waits for what can only be a lost message.
_PATIENCE = 1.0


class Client:
    """The connection to one server; one caller at a time.

    Args:
        endpoint: A checked address, or "private" for this process's own server, which then stays
            until the process ends.
    """

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._lock = threading.Lock()
        self._server: _private_server.PrivateServer | None = None
        self._connection: Connection | None = None

    def limits(self, deadline: float) -> environment.Limits:
        """What the server accepts.

        Raises:
            TransportError: No server.
        """
        with self._lock:
            return self._connect(deadline).limits

    def ask(
        self,
        slot: str,
        request: envelope.Request,
        payload: bytes,
        reply_size: int,
        deadline: float,
    ) -> tuple[envelope.Reply, NDArray[np.uint8]]:
        """Carries out one request.

        Args:
            slot: The request's slot.
            request: The request.
            payload: Its payload frame.
            reply_size: Bytes that the reply's payload has at most.
            deadline: When to give up, on the clock of `time.monotonic`.

        Returns:
            The reply, and its payload in an array that nobody else has.

        Raises:
            RequestError: The server refused.
            TransportError: No answer.
        """
        encoded = request.SerializeToString()
        call = Call(slot, 0, encoded, payload, reply_room=reply_size, patience=_PATIENCE)
        with self._lock:
            connection = self._connect(deadline)
            connection.check_size(call)
            reply, answer = connection.exchange(call, deadline)
        if reply.HasField("error"):
            raise from_reply(reply.error)
        return reply, answer

    def _connect(self, deadline: float) -> Connection:
        if self._server is not None and not self._server.is_alive:
            _private_server.release(self._server)
            self._server = self._connection = None
        if self._connection is None:
            if self._endpoint == "private":
                self._server = self._server or _private_server.acquire(deadline)
                connection = Connection(self._server.endpoint, self._server.check)
            else:
                curve = check_curve(self._endpoint, None)
                connection = Connection(self._endpoint, curve=curve)
            connection.hello(deadline)
            self._connection = connection
        return self._connection


_clients: dict[str, Client] = {}


def client(endpoint: str | None) -> Client:
    """The client for an address, "private", or None: TWOFOLD_ENDPOINT and "private" without it."""
    if endpoint is None:
        endpoint = os.environ.get("TWOFOLD_ENDPOINT") or "private"
    if endpoint != "private":
        check_address(endpoint)
    return _clients.setdefault(endpoint, Client(endpoint))


def deadline_after(timeout: float) -> float:
    """The time in so many seconds, on the clock of `time.monotonic`."""
    return time.monotonic() + timeout


# A forked child makes its own: sockets and locks of its parent are none of its business.
os.register_at_fork(after_in_child=_clients.clear)
