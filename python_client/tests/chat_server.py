"""A chat completion server for tests, on a real socket. A function computes its answers."""

from __future__ import annotations

import contextlib
import json
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Answer:
    """The answer to one request.

    Args:
        text: The model's reply, or a list of its parts.
        status: The HTTP status.
        body: The whole HTTP body; None for a completion that contains `text`.
        headers: Additional HTTP headers.
        usage: The completion's token usage; None to report none.
        finish: The completion's `finish_reason`.
        reason: The reason phrase after the HTTP status.
    """

    def __init__(
        self,
        text: str | list[dict[str, Any]] | None = "",
        status: int = 200,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        usage: dict[str, Any] | None = None,
        finish: str = "stop",
        reason: str | None = None,
    ) -> None:
        message = {"role": "assistant", "content": text}
        document = {"choices": [{"message": message, "finish_reason": finish}], "usage": usage}
        self.status, self.headers, self.reason = status, headers or {}, reason
        self.body = json.dumps(document).encode() if body is None else body


class ChatServer:
    """A server that answers each request with the result of `rule(document, number)`.

    `number` counts the requests, from 0. A `with` statement starts and stops the server. Like real
    servers, it speaks HTTP/1.1, and refuses a body that is not declared as JSON.

    Attributes:
        requests: The path, the headers and the JSON document of each request.
    """

    def __init__(self, rule: Callable[[dict[str, Any], int], Answer]) -> None:
        self.requests: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        lock, requests = threading.Lock(), self.requests

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                headers = {name.lower(): value for name, value in self.headers.items()}
                with lock:
                    number = len(requests)
                    requests.append((self.path, headers, document))
                is_json = headers["content-type"] == "application/json"
                answer = rule(document, number) if is_json else Answer(status=415)
                self.send_response(answer.status, answer.reason)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            def log_message(self, *arguments: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        """The base URL of the endpoint."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> ChatServer:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *arguments: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextlib.contextmanager
def raw_server(answer: Callable[[socket.socket], object]) -> Iterator[str]:
    """Yields the URL of a server that passes each connection to `answer` and reads nothing."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(OSError):
                answer(self.request)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def dripping(beginning: bytes) -> Iterator[str]:
    """Yields the URL of a server that sends `beginning`, and then a space every 10 ms."""
    is_over = threading.Event()

    def answer(connection: socket.socket) -> None:
        connection.sendall(beginning)
        while not is_over.wait(0.01):
            connection.sendall(b" ")

    with raw_server(answer) as url:
        try:
            yield url
        finally:
            is_over.set()
