"""OpenEnv game servers, and raw connections to them."""

import contextlib
import json
import select
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

from servers import PATIENCE
from websockets.client import ClientProtocol
from websockets.uri import parse_uri

from twofold.integrations.openenv.app import make_openenv_app
from twofold.integrations.serving import Runner


@contextlib.contextmanager
def serving(game: str = "2048", **arguments: Any) -> Iterator[str]:
    """Runs a server in a thread of this process; yields its address."""
    app = make_openenv_app(game, **arguments)
    runner = Runner(app, port=0)
    thread = threading.Thread(target=runner.run)
    thread.start()
    try:
        yield runner.url
    finally:
        runner.stop()
        thread.join(PATIENCE)
        assert not thread.is_alive()


class Connection:
    """A WebSocket without a client library, and without a thread that reads ahead."""

    def __init__(self, url: str, path: str = "/ws") -> None:
        self._protocol = ClientProtocol(parse_uri(url.replace("http", "ws") + path))
        host, port = url.removeprefix("http://").split(":")
        self.socket = socket.create_connection((host, int(port)), PATIENCE)
        self._events: list[Any] = []
        self._protocol.send_request(self._protocol.connect())
        self._flush()
        self._next_event()

    def send_text(self, text: str) -> None:
        self._protocol.send_text(text.encode())
        self._flush()

    def send_bytes(self, data: bytes) -> None:
        self._protocol.send_binary(data)
        self._flush()

    def send(self, kind: str, data: object = None) -> None:
        self.send_text(json.dumps({"type": kind} if data is None else {"type": kind, "data": data}))

    def receive(self) -> Any:
        """Returns the next message; raises ConnectionError with the reason if the server closes."""
        event = self._next_event()
        return json.loads(event.data)

    def _next_event(self) -> Any:
        while not self._events:
            data = self.socket.recv(65536)
            if data:
                self._protocol.receive_data(data)
            else:
                self._protocol.receive_eof()
            events = self._protocol.events_received()
            self._events += [event for event in events if getattr(event, "opcode", 1) == 1]
            self._flush()
            if not self._events and self._protocol.close_rcvd is not None:
                raise ConnectionError(str(self._protocol.close_rcvd))
            assert data, "the server has gone without a word"
        return self._events.pop(0)

    def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                self.socket.sendall(data)

    def ask(self, kind: str, data: object = None) -> Any:
        """Returns the data of the reply, which must not be an error."""
        self.send(kind, data)
        reply = self.receive()
        assert reply["type"] != "error", reply
        return reply["data"]

    def error(self, kind: str, data: object = None) -> Any:
        """Returns the data of the reply, which must be an error."""
        self.send(kind, data)
        reply = self.receive()
        assert reply["type"] == "error", reply
        return reply["data"]

    def reset(self, **arguments: Any) -> Any:
        """Returns the observation of a reset."""
        return self.ask("reset", arguments)["observation"]

    def step(self, **action: Any) -> Any:
        """Returns the observation of a step."""
        return self.ask("step", action)["observation"]

    def wait_for_reply(self) -> None:
        """Waits until the server's reply has arrived, and does not read it."""
        assert select.select([self.socket], [], [], PATIENCE)[0]

    def cut(self) -> None:
        """Ends the TCP connection with a reset, like a host that has lost it."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def close(self) -> None:
        """Waits until the server has finished with the connection."""
        self.send("close")
        with contextlib.suppress(ConnectionError):
            self._next_event()
        self.socket.close()
