"""CURVE, ZeroMQ's encryption: keys for encrypted endpoints, and a monitor for failed handshakes."""

from __future__ import annotations

import dataclasses
import itertools
import os
import re

import zmq

from twofold import _text
from twofold.errors import AuthenticationFailed, InvalidArgument

SERVER_VARIABLE = "TWOFOLD_CURVE_SERVER"
CLIENT_VARIABLE = "TWOFOLD_CURVE_CLIENT"
# A Z85 key has 40 characters, https://rfc.zeromq.org/spec/32.
_KEY = re.compile(r"[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}")
# A line of a key file.
_ENTRY = re.compile(r'^\s*(public|secret)-key\s*=\s*"(.+)"', re.MULTILINE)

# A single handshake may break by accident. This many in a row mean that the key is wrong.
_BROKEN_HANDSHAKES = 3
_EVENTS = (
    zmq.EVENT_CONNECTED
    | zmq.EVENT_CONNECT_RETRIED
    | zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
)
# The status of a ZAP handler that failed temporarily, which is not a refusal.
_TEMPORARY = 300


@dataclasses.dataclass(frozen=True)
class CurveKeys:
    """The keys for an encrypted endpoint: the server's public key and the client's key pair.

    `twofold keygen` makes keys. The server admits clients whose public key is in its list,
    and a session belongs to the key that created it. `repr` omits the secret key.

    Args:
        server_key: The server's public key, a string of 40 Z85 characters.
        public_key: The client's own public key.
        secret_key: The client's secret key.

    Raises:
        InvalidArgument: A key is not valid, or the client's two keys do not form a pair.
    """

    server_key: str
    public_key: str
    secret_key: str = dataclasses.field(repr=False)

    def __post_init__(self) -> None:
        for name in ("server_key", "public_key", "secret_key"):
            key = getattr(self, name)
            if not isinstance(key, str) or not _KEY.fullmatch(key):
                # The message omits the value, which may be a secret with a typo.
                raise InvalidArgument(f"{name} is not a 40-character Z85 key", field="keys")
        if zmq.curve_public(self.secret_key.encode()).decode() != self.public_key:
            raise InvalidArgument(
                "secret_key and public_key are not a pair; take both from the same file",
                field="keys",
            )

    @classmethod
    def load(cls, server: str | os.PathLike[str], client: str | os.PathLike[str]) -> CurveKeys:
        """Reads the keys from files that `twofold keygen` or `zmq.auth` wrote.

        Args:
            server: The server's public file, `server.key`.
            client: The client's secret file, `alice.key_secret`.

        Raises:
            InvalidArgument: A file can't be read, or its key is missing or invalid.
        """
        keys = _load(client)
        if "secret" not in keys:
            raise InvalidArgument(
                f'{os.fspath(client)} has no line secret-key = "…"; pass the client\'s file '
                "NAME.key_secret",
                field="keys",
            )
        server_key = _load(server)["public"]
        try:
            return cls(server_key, keys["public"], keys["secret"])
        except InvalidArgument as error:  # the client's two keys are not a pair
            raise InvalidArgument(f"{os.fspath(client)}: {error}", field="keys") from None

    @classmethod
    def from_environment(cls) -> CurveKeys | None:
        """Returns the keys from the files named by TWOFOLD_CURVE_SERVER and TWOFOLD_CURVE_CLIENT.

        Returns:
            The keys; None if neither variable is set.

        Raises:
            InvalidArgument: Only one is set, or `load` refuses a file.
        """
        server, client = os.environ.get(SERVER_VARIABLE), os.environ.get(CLIENT_VARIABLE)
        if not server and not client:
            return None
        if not server or not client:
            raise InvalidArgument(
                f"set both {SERVER_VARIABLE} and {CLIENT_VARIABLE}, or neither", field="keys"
            )
        return cls.load(server, client)


def _load(path: str | os.PathLike[str]) -> dict[str, str]:
    """Returns the keys in a file: "public" and, in a secret file, "secret"."""
    name = os.fspath(path)
    try:
        keys = dict(_ENTRY.findall(_text.read(name, "keys")))
    except OSError as error:
        raise InvalidArgument(f"{name}: {error.strerror}", field="keys") from None
    if "public" not in keys:
        raise InvalidArgument(f'{name} has no line public-key = "…"', field="keys")
    if not all(map(_KEY.fullmatch, keys.values())):
        raise InvalidArgument(f"{name} has a key that is not 40 Z85 characters", field="keys")
    return keys


_watches = itertools.count()


class HandshakeWatch:
    """A monitor for the handshakes with one endpoint, across successive sockets.

    libzmq silently repeats a failed handshake, and reports the failure only to a socket's monitor.
    Monitoring of a socket ends with the first reply, because nobody reads the events of an idle
    connection.
    """

    def __init__(self, endpoint: str, keys: CurveKeys | None) -> None:
        self._endpoint, self._keys = endpoint, keys
        self._socket: zmq.Socket[bytes] | None = None
        self._monitor: zmq.Socket[bytes] | None = None
        self._broken = 0
        # Whether all connection attempts of the newest socket have failed.
        self._is_unreachable = False
        self._was_connected = self._has_answered = False

    def attach(self, socket: zmq.Socket[bytes]) -> None:
        """Starts watching an unconnected socket; does nothing if the endpoint is not tcp."""
        self._was_connected = False
        if self._endpoint.startswith("tcp://"):
            # pyzmq's default address contains a descriptor's number. libzmq may give that number to
            # this socket while an earlier socket still holds the address.
            address = f"inproc://twofold-handshakes-{next(_watches)}"
            self._socket = socket
            self._monitor = socket.context.socket(zmq.PAIR)
            # No limit, because libzmq's only I/O thread blocks while the queue of events is full.
            self._monitor.set(zmq.RCVHWM, 0)
            socket.monitor(address, _EVENTS)
            self._monitor.connect(address)

    def detach(self) -> None:
        """Stops watching the socket. Must be called before the socket is closed."""
        # This order matters: libzmq would wait forever for a closed monitor to read its events. A
        # KeyboardInterrupt may end this function, so both stay referenced until they are closed.
        socket, monitor = self._socket, self._monitor
        if socket is not None:
            socket.disable_monitor()
        self._socket = None
        if monitor is not None:
            monitor.close()
        self._monitor = None

    def succeeded(self) -> None:
        """Stops watching the socket, because a reply has arrived."""
        self._broken, self._has_answered = 0, True
        self.detach()

    @property
    def failure(self) -> str:
        """Why there is no connection, as a clause for a message; "" without a known reason."""
        if self._is_unreachable:
            return ", where nothing accepts connections,"
        if self._broken:
            cause = "require a key" if self._keys is None else "have a key other than server_key"
            return (
                f", which disconnects during the handshake (it may {cause}, or have too many "
                "connections),"
            )
        return ""

    def check(self, is_last: bool) -> None:
        """Raises AuthenticationFailed if the server or this client has rejected the other's key.

        Args:
            is_last: Whether the request will not be sent again.
        """
        # because: the module imports asyncio, which takes a tenth of the time to import twofold
        from zmq.utils.monitor import recv_monitor_message

        while self._monitor is not None and self._monitor.poll(0):
            event = recv_monitor_message(self._monitor)
            if event["event"] == zmq.EVENT_CONNECTED:
                self._was_connected, self._is_unreachable = True, False
            elif event["event"] == zmq.EVENT_CONNECT_RETRIED:
                self._is_unreachable = not self._was_connected
            elif event["event"] == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self._broken = 0
            elif event["event"] == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL:
                self._broken += 1
            elif event["event"] == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL:
                if self._keys is not None:
                    raise AuthenticationFailed(
                        f"{self._endpoint} does not encrypt, or another program listens there; "
                        "pass no keys, or correct the address",
                        reason="not_encrypted",
                    )
                raise AuthenticationFailed(
                    f"{self._endpoint} requires a key, or another program listens there; pass "
                    "keys=twofold.CurveKeys.load(…), or the command-line options --curve-server "
                    "and --curve-client",
                    reason="no_key",
                )
            elif event["value"] != _TEMPORARY:
                key = "(none)" if self._keys is None else self._keys.public_key
                raise AuthenticationFailed(
                    f"{self._endpoint} refuses this client's key {key}; its operator can add this "
                    "public key to the list that --curve-clients names",
                    reason="unauthorised",
                )
        # A server with a different key disconnects without giving a reason. So does a server that
        # is stopping, or a proxy that waits for it, so a client that has had a reply keeps trying.
        enough = self._broken >= (1 if is_last else _BROKEN_HANDSHAKES)
        if enough and self._keys is not None and not self._has_answered:
            raise AuthenticationFailed(
                f"{self._endpoint} disconnects during the handshake: its key is not the given "
                "server_key, or it does not encrypt; pass its current public key",
                reason="server_key",
            )
