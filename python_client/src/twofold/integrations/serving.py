"""Servers of ASGI applications."""

from __future__ import annotations

import gc
import socket
import sys
from typing import Any

from twofold import _arguments
from twofold._optional import optional_import

# A reset of OpenEnv's with a declared reward has a few kilobytes.
_MOST_BYTES = 2**18
_BACKLOG = 2048


class Runner:
    """A server of an app, on an address that is bound already.

    Args:
        app: The app.
        host: The address to listen on.
        port: The port; 0 for a free one.
        grace: Seconds that requests and streams have to end when a signal stops it.

    Attributes:
        url: Where it listens.

    Raises:
        InvalidArgument: The port is out of range.
        OSError: The address can't be used.
    """

    def __init__(self, app: Any, host: str = "127.0.0.1", port: int = 8000, grace: int = 5) -> None:
        uvicorn: Any = optional_import("uvicorn", "games over HTTP", "openenv")
        port = _arguments.integer("port", port, 0, 65535)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # asyncio sends at once (TCP_NODELAY) only where the protocol is named.
        self._socket = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        if sys.platform != "win32":
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((host, port))
        self._socket.listen(_BACKLOG)
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._socket.getsockname()[1]}"
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                log_level="warning",
                ws_max_size=_MOST_BYTES,
                ws_per_message_deflate=False,
                backlog=_BACKLOG,
                timeout_graceful_shutdown=grace,
            )
        )

    def run(self) -> None:
        """Serves until a signal stops it."""
        # OpenEnv imports Gradio: collections that look at all of it take a tenth of a second.
        gc.collect()
        gc.freeze()
        self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        """Ends `run`, from any thread."""
        self._server.should_exit = True
