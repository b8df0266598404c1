"""Failed handshakes, which libzmq repeats silently and reports to a socket's monitor only."""

from __future__ import annotations

import zmq
import zmq.utils.monitor

from twofold.errors import AuthenticationFailed

# A handshake that ends without a reason may be an accident; this many in a row are a wrong key.
_BROKEN_HANDSHAKES = 3
_FAILURES = (
    zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
)
# The status of a ZAP handler that has a problem of its own; not a refusal.
_TEMPORARY = 300


class HandshakeWatch:
    """Watches the handshakes of one socket after another, all with the same endpoint.

    Args:
        endpoint: Where the sockets connect to.
        has_keys: Whether the connection is encrypted.
    """

    def __init__(self, endpoint: str, has_keys: bool) -> None:
        self._endpoint, self._has_keys = endpoint, has_keys
        self._socket: zmq.Socket[bytes] | None = None
        self._monitor: zmq.Socket[bytes] | None = None
        self._broken = 0

    def attach(self, socket: zmq.Socket[bytes]) -> None:
        """Begins to watch a socket that has not connected; over tcp only, where there are keys."""
        if self._endpoint.startswith("tcp://"):
            self._socket, self._monitor = socket, socket.get_monitor_socket(_FAILURES)

    def detach(self) -> None:
        """Stops watching the socket, before it is closed."""
        socket, self._socket = self._socket, None
        monitor, self._monitor = self._monitor, None
        if socket is not None and monitor is not None:
            # In this order: libzmq waits forever for a reader of its events that is gone.
            socket.disable_monitor()
            monitor.close()

    def succeeded(self) -> None:
        """A reply arrived, so no handshake is broken."""
        self._broken = 0

    def check(self, is_last: bool) -> None:
        """Raises AuthenticationFailed when the server and this client don't accept each other.

        Args:
            is_last: Whether there will be no other try.
        """
        while self._monitor is not None and self._monitor.poll(0):
            event = zmq.utils.monitor.recv_monitor_message(self._monitor)
            kind = event["event"]
            if kind == zmq.EVENT_HANDSHAKE_FAILED_AUTH and event["value"] != _TEMPORARY:
                raise AuthenticationFailed(f"{self._endpoint} refuses this client's key")
            if kind == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL and self._has_keys:
                raise AuthenticationFailed(
                    f"{self._endpoint} does not encrypt, or is not a ZeroMQ endpoint"
                )
            if kind == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL:
                raise AuthenticationFailed(
                    f"{self._endpoint} requires a key: pass curve=twofold.CurveKeys(…), "
                    "unless it is not a ZeroMQ endpoint"
                )
            if kind == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL and self._has_keys:
                self._broken += 1
        # A server with another key hangs up without a reason; so does one that is just ending.
        if self._broken >= (1 if is_last else _BROKEN_HANDSHAKES):
            raise AuthenticationFailed(
                f"{self._endpoint} hangs up during the handshake: its key is not the given "
                "server_key, or it does not encrypt"
            )
