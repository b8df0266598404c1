"""Checks the messages that clients send, before OpenEnv reads them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from contextvars import ContextVar
from typing import Any

is_request: ContextVar[bool] = ContextVar("is_request", default=False)
"""Whether the current task answers an HTTP request, which has no connection."""

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

# OpenEnv's replies echo an invalid value, and pydantic can serialise at most 255 nested levels.
_MAX_BRACKETS = 200
# JSON-RPC's codes.
_NO_JSON = -32700
_NO_SUCH_METHOD = -32601
_NO_TOOLS = "this server offers no MCP tools; run `twofold mcp` for them"
# OpenEnv passes a reset's arguments by name to functions with these parameters.
_RESERVED = {"self", "func"}
_GONE: Message = {"type": "websocket.disconnect", "code": 1006}


class Guard:
    """An ASGI middleware between the server and OpenEnv's app.

    - It refuses bodies larger than `max_bytes`.
    - It refuses MCP messages, because the server offers no MCP tools. A session that a message
      creates over HTTP would never end. A session that another connection can join or close could
      start boards that are never closed.
    - It answers with an error if a body is not JSON that OpenEnv can read and echo. On its own,
      OpenEnv would fail with an internal error.
    - It answers with an error if a message at /ws is not a JSON object of this kind. On its own,
      OpenEnv would end the session.
    - It adds details about invalid values to an error's `message`, because OpenEnv's client shows
      only the `message`.
    - It stops reading from a connection whose client has disconnected.
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
        elif scope["type"] == "websocket" and scope["path"].endswith("/mcp"):
            connection = _Connection(receive, send)
            await connection.send({"type": "websocket.accept"})
            closing = {"type": "websocket.close", "code": 1008, "reason": _NO_TOOLS}
            await connection.send(closing)
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
        if body:
            answer = _refusal(scope["path"], body)
            if answer is not None:
                await _answer(send, *answer)
                return
        whole: list[Message] = [{"type": "http.request", "body": bytes(body)}]

        async def receive_whole() -> Message:
            return whole.pop() if whole else await receive()

        is_request.set(True)
        await self._app(scope, receive_whole, send)


async def _answer(send: Send, status: int, document: dict[str, Any]) -> None:
    """Answers an HTTP request and closes its connection."""
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(document).encode()})


def _refusal(path: str, body: bytearray) -> tuple[int, dict[str, Any]] | None:
    """Returns the status and content of the answer to an invalid body; None if it is valid."""
    try:
        request, fault = _parsed(body.decode()), ""
    except ValueError as error:
        request, fault = None, f"Invalid JSON: {error}"
    if path.endswith("/mcp"):
        code = _NO_JSON if fault else _NO_SUCH_METHOD
        request_id = request.get("id") if isinstance(request, dict) else None
        error_of = {"code": code, "message": fault or _NO_TOOLS}
        return 200, {"jsonrpc": "2.0", "id": request_id, "error": error_of}
    if path.endswith("/reset") and isinstance(request, dict):
        for name in _RESERVED & request.keys():
            fault = f"this server's reset does not accept {name!r}"
    return (422, {"detail": fault}) if fault else None


def _parsed(text: str) -> Any:
    """Returns the value that a client's JSON text represents.

    Raises:
        ValueError: The text is not JSON, or contains values that OpenEnv's replies can't echo.
    """
    if text.count("{") + text.count("[") > _MAX_BRACKETS:
        raise ValueError(f"more than {_MAX_BRACKETS} lists and objects")
    value = json.loads(text)
    # JSON can't represent NaN or infinity (1e400), and a lone surrogate can't be encoded.
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    return value


class _Connection:
    """The messages on one WebSocket."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self._is_gone = False

    async def receive(self) -> Message:
        """Returns the next valid message; a disconnect message once the client has gone."""
        while not self._is_gone:
            message = await self._receive()
            # Without this, a burst of messages delays other clients and hides a lost connection.
            await asyncio.sleep(0)
            fault = _fault(message)
            if fault is None:
                return message
            error = {"type": "error", "data": fault}
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


def _fault(message: Message) -> dict[str, str] | None:
    """Returns what OpenEnv's error reply says about an invalid message; None if it is valid."""
    if message["type"] != "websocket.receive":
        return None
    try:
        text = message.get("text")
        if text is None:
            raise ValueError("expected text, not bytes")
        value = _parsed(text)
        if not isinstance(value, dict):
            raise ValueError(f"expected an object, not a {type(value).__name__}")
    except ValueError as error:
        return {"message": f"Invalid JSON: {error}", "code": "INVALID_JSON"}
    if value.get("type") == "mcp":
        return {"message": _NO_TOOLS, "code": "UNKNOWN_TYPE"}
    return None


def _explained(message: Message) -> Message:
    """Adds details about invalid values to the text of an error message from OpenEnv."""
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
