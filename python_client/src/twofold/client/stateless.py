"""Requests without a session."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from twofold.client import system
from twofold.client.carrier import Answer, Call, Carrier, await_next_server
from twofold.client.curve import CurveKeys
from twofold.client.endpoints import check_keys, open_carrier, resolve
from twofold.client.surroundings import Surroundings, surroundings
from twofold.errors import RequestError, ResourceExhausted, TransportError
from twofold.v1 import envelope_pb2 as envelope

# The server would also execute a repeat, so a request is repeated only if it is probably lost.
_PATIENCE = 1.0
# The number of idle carriers to keep for each endpoint.
_MAX_IDLE = 8

# The open carriers that nobody is using, by the arguments of `open_carrier`.
_idle: dict[tuple[str, CurveKeys | None, Surroundings], list[Carrier]] = {}

# A forked child makes its own carriers and leaves its parent's sockets alone.
system.at_fork(after_in_child=_idle.clear)


@contextlib.contextmanager
def connected(endpoint: str | None, keys: CurveKeys | None, deadline: float) -> Iterator[Carrier]:
    """Yields a carrier for an environment's arguments `endpoint` and `keys`.

    Other threads, and signal handlers that interrupt a request, get other carriers.
    """
    endpoint, within = resolve(endpoint), surroundings.get()
    if keys is not None:
        check_keys(endpoint, keys)
    idle = _idle.setdefault((endpoint, keys, within), [])
    carrier: Carrier | None = None
    with contextlib.suppress(IndexError):
        carrier = idle.pop()
        if carrier.is_dead:
            carrier.close()
            carrier = None
    if carrier is None:
        carrier = open_carrier(endpoint, keys, deadline, within)
        carrier.hello(deadline)
    try:
        yield carrier
    finally:
        if len(idle) < _MAX_IDLE:
            idle.append(carrier)
        else:
            carrier.close()


def ask(
    carrier: Carrier, slot: str, request: envelope.Request, payload: bytes, deadline: float
) -> Answer:
    """Makes one request, and repeats it while the server is stopping.

    Raises:
        RequestError: The server refused.
        TransportError: No answer came.
    """
    encoded = request.SerializeToString()
    call = Call(slot, 0, encoded, payload, reply_size=None, patience=_PATIENCE)
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
            await_next_server(error, deadline, surroundings.get())
