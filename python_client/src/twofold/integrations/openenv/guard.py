"""Checks of the messages that clients send, before OpenEnv reads them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

# OpenEnv's replies echo a wrong value, and pydantic can serialise at most 255 nested levels.
_MAX_BRACKETS = 200
_NO_SUCH_METHOD = -32601  # JSON-RPC's code
_GONE: Message = {"type": "websocket.disconnect", "code": 1006}


class Guard:
    """An ASGI middleware between the server and OpenEnv's app.

    - It refuses bodies larger than `max_bytes`.
    - It refuses to create sessions over HTTP, because they would never end.
    - It answers with an error if a message at /ws is not a JSON object. OpenEnv alone would end the
      session.
    - It adds details about wrong values to an error's `message`, because OpenEnv's client shows
      only the `message`.
    - It stops reading from a connection whose client has disconnected.

    Args:
        app: The app.
        max_bytes: The maximum size of a body.
    """

    def __init__(self, app: Any, max_bytes: int) -> None:
        self._app, self._max_bytes = app, max_bytes

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serves one HTTP request or one WebSocket connection."""
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
                detail = f"the body is larger than {self._max_bytes:,} bytes"
                await _answer(send, 413, {"detail": detail})
                return
        if scope["path"].endswith("/mcp") and _asks_for_a_session(body):
            text = "this server offers no MCP tools; run `twofold mcp` for them"
            error = {"code": _NO_SUCH_METHOD, "message": text}
            await _answer(send, 200, {"jsonrpc": "2.0", "id": None, "error": error})
            return
        whole: list[Message] = [{"type": "http.request", "body": bytes(body)}]

        async def receive_whole() -> Message:
            return whole.pop() if whole else await receive()

        await self._app(scope, receive_whole, send)


async def _answer(send: Send, status: int, document: dict[str, Any]) -> None:
    """Answers an HTTP request and closes its connection."""
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
        """Returns the next message that is a JSON object, or a disconnect message at the end."""
        while not self._is_gone:
            message = await self._receive()
            # Without this, a burst of messages delays other clients and hides a lost connection.
            await asyncio.sleep(0)
            fault = _fault(message)
            if not fault:
                return message
            error = {"type": "error", "data": {"message": fault, "code": "INVALID_JSON"}}
            await self.send({"type": "websocket.send", "text": json.dumps(error)})
        return _GONE

    async def send(self, message: Message) -> None:
        """Sends a message, or drops it if the client has disconnected."""
        if self._is_gone:
            return
        try:
            await self._send(_explained(message))
        except (OSError, RuntimeError):  # lost, or closed by the server
            self._is_gone = True


def _fault(message: Message) -> str:
    """Returns what is wrong with a message, or "" if OpenEnv can read the message."""
    if message["type"] != "websocket.receive":
        return ""
    text = message.get("text")
    if text is None:
        return "Invalid JSON: expected text, not bytes"
    if text.count("{") + text.count("[") > _MAX_BRACKETS:
        return f"Invalid JSON: more than {_MAX_BRACKETS} lists and objects"
    try:
        value = json.loads(text)
        json.dumps(value, ensure_ascii=False).encode()  # a lone surrogate can't be encoded
    except ValueError as error:
        return f"Invalid JSON: {error}"
    kind = type(value).__name__
    return "" if isinstance(value, dict) else f"Invalid JSON: expected an object, not a {kind}"


def _explained(message: Message) -> Message:
    """Adds the details about wrong values to the text of an error message from OpenEnv."""
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
