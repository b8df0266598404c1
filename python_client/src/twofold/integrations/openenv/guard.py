"""The checks of what clients send, before OpenEnv reads it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

# OpenEnv's replies echo what was wrong, and pydantic writes at most 255 levels.
_MAX_BRACKETS = 200
_NO_SUCH_METHOD = -32601  # of JSON-RPC
_GONE: Message = {"type": "websocket.disconnect", "code": 1006}


class Guard:
    """An ASGI middleware between the server and OpenEnv's app.

    - A body has at most `max_bytes`.
    - A session that belongs to no connection is refused: it would keep its place for good.
    - A message at /ws that is not a JSON object would end the session, so it is answered here.
    - An error's `message` lists the accepted values, since OpenEnv's client shows nothing else.
    - A connection whose client has gone is read no further.

    Args:
        app: The app.
        max_bytes: Bytes of a body.
    """

    def __init__(self, app: Any, max_bytes: int) -> None:
        self._app, self._max_bytes = app, max_bytes

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serves one request, or one connection of a WebSocket."""
        if scope["type"] == "http":
            await self._serve_request(scope, receive, send)
        elif scope["type"] == "websocket" and scope["path"].endswith("/ws"):
            connection = _Connection(receive, send)
            await self._app(scope, connection.receive, connection.send)
        else:
            await self._app(scope, receive, send)

    async def _serve_request(self, scope: Message, receive: Receive, send: Send) -> None:
        body, is_whole = bytearray(), False
        while not is_whole:
            message = await receive()
            if message["type"] != "http.request":
                return
            body += message.get("body", b"")
            is_whole = not message.get("more_body", False)
            if len(body) > self._max_bytes:
                detail = f"the body has more than {self._max_bytes:,} bytes"
                await _answer(send, 413, {"detail": detail})
                return
        if scope["path"].endswith("/mcp") and _asks_for_a_session(body):
            text = "these games have no tools of MCP here; `twofold mcp` serves them"
            error = {"code": _NO_SUCH_METHOD, "message": text}
            await _answer(send, 200, {"jsonrpc": "2.0", "id": None, "error": error})
            return
        whole: list[Message] = [{"type": "http.request", "body": bytes(body)}]

        async def receive_whole() -> Message:
            return whole.pop() if whole else await receive()

        await self._app(scope, receive_whole, send)


async def _answer(send: Send, status: int, document: dict[str, Any]) -> None:
    """Answers a request over HTTP, and ends its connection."""
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(document).encode()})


def _asks_for_a_session(body: bytes | bytearray) -> bool:
    try:
        request = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(request, dict) and request.get("method") == "openenv/session/create"


class _Connection:
    """The messages of one WebSocket."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self._is_gone = False

    async def receive(self) -> Message:
        """Returns the next message that is a JSON object, or the end of the connection."""
        while not self._is_gone:
            message = await self._receive()
            # Without this, many messages at once hold up other clients and hide the loss of theirs.
            await asyncio.sleep(0)
            fault = _fault(message)
            if not fault:
                return message
            error = {"type": "error", "data": {"message": fault, "code": "INVALID_JSON"}}
            await self.send({"type": "websocket.send", "text": json.dumps(error)})
        return _GONE

    async def send(self, message: Message) -> None:
        """Sends a message, or drops it where the client has gone."""
        if self._is_gone:
            return
        try:
            await self._send(_explained(message))
        except (OSError, RuntimeError):  # lost, or closed by the server
            self._is_gone = True


def _fault(message: Message) -> str:
    """Returns what is wrong with a message, or "" if OpenEnv can read it."""
    if message["type"] != "websocket.receive":
        return ""
    text = message.get("text")
    if text is None:
        return "Invalid JSON: expected text, not bytes"
    if text.count("{") + text.count("[") > _MAX_BRACKETS:
        return f"Invalid JSON: more than {_MAX_BRACKETS} lists and objects"
    try:
        value = json.loads(text)
        json.dumps(value, ensure_ascii=False).encode()  # half of a surrogate pair has no bytes
    except ValueError as error:
        return f"Invalid JSON: {error}"
    kind = type(value).__name__
    return "" if isinstance(value, dict) else f"Invalid JSON: expected an object, not a {kind}"


def _explained(message: Message) -> Message:
    """Returns OpenEnv's error about a message's values with these errors in its text."""
    text = message.get("text") or ""
    if not text.startswith('{"type":"error"'):
        return message
    reply = json.loads(text)
    errors = reply["data"].get("errors")
    if not errors:
        return message
    faults = dict.fromkeys(f"{_place(error)}: {error['msg']}" for error in errors)
    reply["data"]["message"] += f": {'; '.join(faults)}"
    return {**message, "text": json.dumps(reply)}


def _place(error: dict[str, Any]) -> str:
    """Returns the field that a pydantic error is about."""
    return str(error["loc"][0]) if error["loc"] else "message"
