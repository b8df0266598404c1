"""An HTTP server for ASGI apps."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import sys
from typing import Any

# OpenEnv and the library for MCP need uvicorn, too.
import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol
from uvicorn.protocols.websockets.auto import AutoWebSocketsProtocol

from twofold import _arguments

MAX_BYTES = 2**18
"""The maximum size of a message, in bytes. A reset with a reward takes a few kilobytes."""

REQUEST_SECONDS = 30.0
"""The time limit in seconds for receiving a complete request, counted from when the connection
opened or the last response ended. Slower connections are closed."""

# The maximum size of the replies that a WebSocket's client has not read.
_MAX_UNREAD_BYTES = 16 * MAX_BYTES
_BACKLOG = 2048


class Runner:
    """An HTTP server for an ASGI app. The constructor opens the port, and `run` answers requests.

    Args:
        host: The address to listen on.
        port: The port; 0 selects a free one.
        grace: The time in seconds for which open requests and streams continue after a stop signal.

    Raises:
        InvalidArgument: The port is out of range, or the host name is malformed.
        OSError: The address can't be bound; `filename` is the host and the port.
    """

    def __init__(self, app: Any, host: str = "127.0.0.1", port: int = 8000, grace: int = 5) -> None:
        port = _arguments.integer("port", port, 0, 65535)
        shown = f"[{host}]" if ":" in host else host
        self._socket = _listen(host, port, f"{shown}:{port}")
        self.url = f"http://{shown}:{self._socket.getsockname()[1]}"
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                http=_WithDeadline,
                ws=_with_reader(),
                log_level="warning",
                ws_max_size=MAX_BYTES,
                ws_per_message_deflate=False,
                backlog=_BACKLOG,
                timeout_graceful_shutdown=grace,
            )
        )

    def run(self) -> None:
        """Serves until a signal stops it."""
        # OpenEnv imports Gradio. Without a freeze, a collection of its objects takes 0.1 s.
        gc.collect()
        gc.freeze()
        self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        """Makes `run` return. Safe to call from any thread."""
        self._server.should_exit = True


def _listen(host: str, port: int, shown: str) -> socket.socket:
    """Returns a socket that listens on an address. Error messages show the address as `shown`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with contextlib.ExitStack() as undo:
            # asyncio sets TCP_NODELAY only on sockets that name their protocol.
            listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            undo.enter_context(listener)
            if sys.platform != "win32":
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if not host:  # which would mean all addresses
                raise ValueError
            listener.bind((host, port))
            listener.listen(_BACKLOG)
            undo.pop_all()
            return listener
    except OSError as error:
        raise OSError(error.errno, error.strerror, shown) from None
    except (TypeError, ValueError):
        expected = "the address or the name of this machine"
        raise _arguments.wrong("host", host, expected) from None


class _WithDeadline(AutoHTTPProtocol):  # type: ignore[misc]  # mypy does not see the library
    """uvicorn's protocol for connections, with a deadline for each request.

    Without a deadline, uvicorn would keep a connection that sends nothing, or half a request,
    forever.
    """

    _deadline: asyncio.TimerHandle

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._deadline = self.loop.call_later(REQUEST_SECONDS, self._close_if_incomplete)

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._deadline.cancel()
        self._deadline = self.loop.call_later(REQUEST_SECONDS, self._close_if_incomplete)

    def _close_if_incomplete(self) -> None:
        cycle = self.cycle
        is_incomplete = cycle is None or cycle.response_complete or cycle.more_body
        # A connection that became a WebSocket has another protocol.
        if is_incomplete and self.transport.get_protocol() is self:
            self.transport.close()


def _with_reader() -> Any:
    """Returns uvicorn's protocol class for WebSockets, with limits on what a client leaves undone.

    uvicorn answers every ping at once, and keeps the answers for a client that never reads. It also
    keeps the fragments of an unfinished message, and empty fragments count towards no limit.
    """
    if AutoWebSocketsProtocol is None:  # no library for WebSockets is installed; MCP needs none
        return "none"

    class WithReader(AutoWebSocketsProtocol):  # type: ignore[misc]  # as above
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            is_endless = len(getattr(self, "frames", ())) > MAX_BYTES
            if is_endless or self.transport.get_write_buffer_size() > _MAX_UNREAD_BYTES:
                self.transport.abort()

    return WithReader
