"""The HTTP interface of chat models that most services and servers have: POST /chat/completions."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from twofold.client.surroundings import SYSTEM, Surroundings
from twofold.errors import InvalidArgument, ModelUnavailable

Message = dict[str, str]
"""{"role": "user" or "assistant", "content": the text}."""

ATTEMPTS = 6
"""Requests for one completion; the waits between them are 1, 2, 4, 8 and 16 s."""

_LONGEST_WAIT = 60.0
_LARGEST_REPLY = 4 << 20


@dataclass(frozen=True)
class Completion:
    """A model's reply.

    Attributes:
        text: The text; "" if there is none.
        is_cut: Whether it ends at a limit on tokens.
        prompt_tokens: Tokens of the request; None if not reported.
        completion_tokens: Tokens of the reply, hidden reasoning included; None if not reported.
        attempts: Requests that it took.
    """

    text: str
    is_cut: bool
    prompt_tokens: int | None
    completion_tokens: int | None
    attempts: int


class ChatEndpoint:
    """An endpoint of chat models; threads may share it.

    Statuses 408, 409, 429 and 5xx, and requests without an answer, are tried again, after the
    seconds that Retry-After names if it does. Redirects are not followed: they would get the key.

    Args:
        url: The base, such as http://127.0.0.1:8000/v1.
        api_key: The bearer token; none is sent for "".
        timeout: Seconds for one request.
        surroundings: Waits between attempts.

    Raises:
        InvalidArgument: `url` is not http or https.
    """

    def __init__(
        self, url: str, api_key: str, timeout: float, surroundings: Surroundings = SYSTEM
    ) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise InvalidArgument(f"url is {url!r}; expected http://… or https://…", field="url")
        self._url = url.rstrip("/") + "/chat/completions"
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._timeout, self._surroundings = timeout, surroundings
        self._opener = urllib.request.build_opener(_NoRedirects)

    def complete(self, messages: Sequence[Message], options: Mapping[str, Any]) -> Completion:
        """A completion of a conversation.

        Raises:
            ModelUnavailable: The request is refused, or all attempts failed.
        """
        body = json.dumps({**options, "messages": list(messages)}).encode()
        for attempt in range(1, ATTEMPTS + 1):
            wait = 2.0 ** (attempt - 1)
            try:
                return _read(self._post(body), attempt)
            except urllib.error.HTTPError as error:
                problem, status = f"HTTP {error.code} {error.reason}: {_words(error)}", error.code
                if error.code not in (408, 409, 429) and error.code < 500:
                    raise self._unavailable(problem, status) from None
                wait = _retry_after(error.headers.get("Retry-After"), wait)
            except (OSError, http.client.HTTPException, ValueError) as error:
                problem, status = f"{type(error).__name__}: {error}", None
            if attempt < ATTEMPTS:
                self._surroundings.sleep(min(wait, _LONGEST_WAIT))
        raise self._unavailable(f"{ATTEMPTS} attempts failed; the last: {problem}", status)

    def _post(self, body: bytes) -> bytes:
        request = urllib.request.Request(self._url, body, self._headers)
        with self._opener.open(request, timeout=self._timeout) as reply:
            data: bytes = reply.read(_LARGEST_REPLY + 1)
        if len(data) > _LARGEST_REPLY:
            raise ValueError(f"the reply has more than {_LARGEST_REPLY:,} bytes")
        return data

    def _unavailable(self, problem: str, status: int | None) -> ModelUnavailable:
        error = ModelUnavailable(f"{self._url}: {problem}")
        error.status = status
        return error


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    @override
    def redirect_request(self, *arguments: Any) -> None:
        return None


def _read(data: bytes, attempts: int) -> Completion:
    """A completion from its JSON.

    Raises:
        ValueError: It is something else.
    """
    try:
        document = json.loads(data)
        choice = document["choices"][0]
        usage = document.get("usage") or {}
        return Completion(
            text=str(choice["message"].get("content") or ""),
            is_cut=choice.get("finish_reason") == "length",
            prompt_tokens=_count(usage.get("prompt_tokens")),
            completion_tokens=_count(usage.get("completion_tokens")),
            attempts=attempts,
        )
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"the reply is no chat completion ({type(error).__name__})") from None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _words(error: urllib.error.HTTPError) -> str:
    """The beginning of an error's body, on one line."""
    try:
        return " ".join(error.read(1000).decode(errors="replace").split())[:300]
    except (OSError, http.client.HTTPException):
        return ""


def _retry_after(header: str | None, default: float) -> float:
    """The seconds of a Retry-After header; a date is not read."""
    try:
        return max(0.0, float(header or ""))
    except ValueError:
        return default
