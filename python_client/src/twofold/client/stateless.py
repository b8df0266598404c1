"""Requests that belong to no session: one carrier for each endpoint, shared by all callers."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from twofold.client import system
from twofold.client.carrier import Call, Carrier
from twofold.client.curve import CurveKeys
from twofold.client.endpoints import check_curve, open_carrier, resolve
from twofold.errors import DeadlineExceeded, from_reply
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment

# A repeat would run again beside the first, so only a message that must be lost is repeated.
_PATIENCE = 1.0


class Client:
    """The carrier to one service; one caller at a time.

    Args:
        endpoint: From `resolve`. A private server stays until the process ends.
        curve: Keys, or None for those that environment variables name.
    """

    def __init__(self, endpoint: str, curve: CurveKeys | None) -> None:
        self._endpoint, self._curve = endpoint, curve
        self._lock = threading.Lock()
        self._carrier: Carrier | None = None

    def limits(self, deadline: float) -> environment.Limits:
        """What the service accepts.

        Raises:
            TransportError: No server.
        """
        with self._turn(deadline):
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
            reply_size: Largest payload of the reply in bytes.
            deadline: When to give up, on the clock of `time.monotonic`.

        Returns:
            The reply, and its payload in a fresh array.

        Raises:
            RequestError: The server refused.
            TransportError: No answer, or other threads were asking until the deadline.
        """
        encoded = request.SerializeToString()
        call = Call(slot, 0, encoded, payload, reply_room=reply_size, patience=_PATIENCE)
        with self._turn(deadline):
            carrier = self._connect(deadline)
            carrier.check_size(call)
            reply, answer = carrier.exchange(call, deadline)
        if reply.HasField("error"):
            raise from_reply(reply.error)
        return reply, answer

    @contextlib.contextmanager
    def _turn(self, deadline: float) -> Iterator[None]:
        """Within this, no other thread asks."""
        if not self._lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise DeadlineExceeded(
                f"other threads were asking {self._endpoint} until the deadline; nothing was sent"
            )
        try:
            yield
        finally:
            self._lock.release()

    def _connect(self, deadline: float) -> Carrier:
        if self._carrier is not None and self._carrier.is_dead:
            self._carrier.close()
            self._carrier = None
        if self._carrier is None:
            carrier = open_carrier(self._endpoint, self._curve, deadline)
            carrier.hello(deadline)
            self._carrier = carrier
        return self._carrier


_clients: dict[tuple[str, CurveKeys | None], Client] = {}


def client(endpoint: str | None, curve: CurveKeys | None = None) -> Client:
    """The client for an endpoint and keys, as an environment takes them.

    Raises:
        InvalidArgument: The endpoint is not valid, or takes no keys, or `curve` is not a CurveKeys.
    """
    endpoint = resolve(endpoint)
    if curve is not None:
        check_curve(endpoint, curve)
    return _clients.setdefault((endpoint, curve), Client(endpoint, curve))


def deadline_after(timeout: float) -> float:
    """The time after this many seconds, on the clock of `time.monotonic`."""
    return time.monotonic() + timeout


# A forked child makes its own, and leaves sockets and locks of its parent alone.
system.after_fork_in_child(_clients.clear)
