"""Requests without a session: one carrier for each endpoint, shared by all callers."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import gymnasium as gym

from twofold.client import system
from twofold.client.carrier import Answer, Call, Carrier, await_next_server
from twofold.client.curve import CurveKeys
from twofold.client.endpoints import check_keys, open_carrier, resolve
from twofold.client.surroundings import Surroundings, surroundings
from twofold.errors import DeadlineExceeded, RequestError, ResourceExhausted, TransportError
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment

# The server would also execute a repeat, so a request is repeated only if it is probably lost.
_PATIENCE = 1.0


class Client:
    """A carrier to a service, for one caller at a time.

    Args:
        endpoint: An endpoint from `resolve`. A private server runs until the process ends.
        keys: The keys; None for those in the files that environment variables name.
        within: The clock and the connections.
    """

    def __init__(self, endpoint: str, keys: CurveKeys | None, within: Surroundings) -> None:
        self._endpoint, self._keys, self._surroundings = endpoint, keys, within
        # Reentrant, so that a signal handler never waits for the thread that it interrupted.
        self._lock = threading.RLock()
        self._is_busy = False
        self._carrier: Carrier | None = None

    def deadline(self, timeout: float) -> float:
        """Returns the deadline of a call that starts now, with a timeout in seconds."""
        return self._surroundings.now() + timeout

    def limits(self, deadline: float) -> environment.Limits:
        """Returns the service's limits."""
        with self._turn(deadline) as carrier:
            return carrier.service.limits

    def ask(self, slot: str, request: envelope.Request, payload: bytes, deadline: float) -> Answer:
        """Makes one request, and repeats it while the server is stopping.

        Raises:
            RequestError: The server refused.
            TransportError: No answer came, or other threads used the carrier until the deadline.
            gymnasium.error.AlreadyPendingCallError: The caller is a signal handler that
                interrupted a request of this thread.
        """
        encoded = request.SerializeToString()
        call = Call(slot, 0, encoded, payload, reply_size=None, patience=_PATIENCE)
        with self._turn(deadline) as carrier:
            carrier.check_size(call, deadline)
            while True:
                try:
                    return carrier.ask(call, deadline)
                except ResourceExhausted:
                    # A restarted server may have lower limits, which the next call must know.
                    with contextlib.suppress(RequestError, TransportError):
                        carrier.hello(deadline)
                    raise
                except RequestError as error:
                    await_next_server(error, deadline, self._surroundings)

    @contextlib.contextmanager
    def _turn(self, deadline: float) -> Iterator[Carrier]:
        """Yields the connected carrier while no other thread uses it."""
        wait = max(0.0, deadline - self._surroundings.now())
        if not self._lock.acquire(timeout=wait):
            raise DeadlineExceeded(
                f"other threads used the connection to {self._endpoint} until the deadline; "
                "nothing was sent"
            )
        if self._is_busy:
            self._lock.release()
            raise gym.error.AlreadyPendingCallError(
                "a signal handler or a finalizer made this call during another call to "
                f"{self._endpoint}; set a flag there instead, and make the call later",
                "expand",
            )
        try:
            self._is_busy = True
            if self._carrier is not None and self._carrier.is_dead:
                self._carrier.close()
                self._carrier = None
            if self._carrier is None:
                carrier = open_carrier(self._endpoint, self._keys, deadline, self._surroundings)
                carrier.hello(deadline)
                self._carrier = carrier
            yield self._carrier
        finally:
            self._is_busy = False
            self._lock.release()


_clients: dict[tuple[str, CurveKeys | None, Surroundings], Client] = {}


def client(endpoint: str | None, keys: CurveKeys | None = None) -> Client:
    """Returns the shared client for an environment's arguments `endpoint` and `keys`."""
    endpoint = resolve(endpoint)
    if keys is not None:
        check_keys(endpoint, keys)
    key = endpoint, keys, surroundings.get()
    return _clients.setdefault(key, Client(*key))


# A forked child makes its own clients and leaves its parent's sockets and locks alone.
system.at_fork(after_in_child=_clients.clear)
