"""A client for chat models with an OpenAI-compatible interface: POST /chat/completions."""

from __future__ import annotations

import html
import http.client
import json
import re
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass
from typing import Any, NamedTuple

from typing_extensions import override

from twofold._text import printable
from twofold.errors import InvalidArgument, ModelUnavailable
from twofold.judging.players import in_thread

Message = dict[str, str]
"""A message of a conversation: {"role": "user" or "assistant", "content": the text}."""

ATTEMPTS = 6
"""The maximum number of requests for one completion. Waits between them: 1, 2, 4, 8 and 16 s."""

_LONGEST_WAIT = 60.0
_LARGEST_REPLY = 4 << 20
_MAX_TOKENS = 10**12
_MASK = "***"


@dataclass(frozen=True)
class Completion:
    """A model's reply.

    Attributes:
        text: The text, or "" if the reply has none.
        is_cut: Whether a token limit cut the text off.
        prompt_tokens: The number of tokens in the request; None if missing or implausible.
        completion_tokens: The number of tokens in the reply, including hidden reasoning; None if
            missing or implausible.
        attempts: The number of requests that were sent to get the reply.
    """

    text: str
    is_cut: bool
    prompt_tokens: int | None
    completion_tokens: int | None
    attempts: int


class ChatEndpoint:
    """An endpoint that serves chat models. Threads may share an endpoint.

    A request is retried after status 408, 409, 429 or 5xx, and if no reply arrives. The
    server's Retry-After header sets the delay, which is at most 60 s. A request is not retried if
    the server's certificate is invalid. Redirects are not followed, because their target would
    receive the key. Error messages never contain the key, the values of the URL's query, or control
    characters, even if the endpoint echoes them.

    Args:
        url: The base URL, such as http://127.0.0.1:8000/v1. If it has a query, /chat/completions is
            inserted before the query.
        api_key: The bearer token. Surrounding white space is removed; "" sends no token.
        timeout: See `ChatModel`.
        wait: A function that waits for some seconds (default: one that `close` ends).

    Raises:
        InvalidArgument: `url` is not http or https, contains a user name, or has an invalid host
            or port; or `api_key` contains characters that are not allowed in a header.
    """

    def __init__(
        self, url: str, api_key: str, timeout: float, wait: Callable[[float], object] | None = None
    ) -> None:
        _check_text("api_key", api_key)
        key = api_key.strip()
        if not _is_printable(key):
            raise InvalidArgument(
                "api_key may contain only printable ASCII characters, without spaces",
                field="api_key",
            )
        parts = _split(url)
        path = parts.path.rstrip("/") + "/chat/completions"
        self._url = parts._replace(path=path, fragment="").geturl()
        self._shown = _shown(parts._replace(path=path))
        fields = [field.partition("=") for field in parts.query.split("&")]
        # Masked as sent and as decoded. A field without a value may be a key.
        sent = [value or name for name, _, value in fields]
        self._secrets = _patterns([key, *sent, *map(urllib.parse.unquote_plus, sent)])
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._timeout = timeout
        self._opener = urllib.request.build_opener(_NoRedirects)
        self._closed = threading.Event()
        self._wait = wait or self._closed.wait

    def complete(self, messages: Sequence[Message], options: Mapping[str, Any]) -> Completion:
        """Returns the model's completion of a conversation.

        Raises:
            ModelUnavailable: The request was refused, all attempts failed, or `close` was called.
            ResourceExhausted: See `in_thread`.
        """
        body = json.dumps({**options, "messages": list(messages)}).encode()
        for attempt in range(1, ATTEMPTS + 1):
            if self._closed.is_set():
                raise self._unavailable("this client was closed", None)
            wait = 2.0 ** (attempt - 1)
            reply = None
            try:
                reply = self._post(body)
                if 200 <= reply.status < 300:
                    return _read(reply.data, attempt)
                problem, status = f"HTTP {reply.status} {reply.reason}", reply.status
                wait = _retry_after(reply.retry_after, wait)
            except (OSError, http.client.HTTPException, ValueError) as error:
                problem, status = f"{type(error).__name__}: {error}", None
                if _is_final(error):
                    raise self._unavailable(problem, None) from None
            if reply is not None:
                problem += f": {self._beginning(reply)}"
            if status is not None and status not in (408, 409, 429) and status < 500:
                raise self._unavailable(problem, status)
            if attempt < ATTEMPTS:
                self._wait(min(wait, _LONGEST_WAIT))
        raise self._unavailable(f"{ATTEMPTS} attempts failed; the last error: {problem}", status)

    def close(self) -> None:
        """Ends delays between attempts, and prevents further requests."""
        self._closed.set()

    def _post(self, body: bytes) -> _Reply:
        """Sends one request and returns the reply, which may report an error.

        A separate thread sends it, because a socket's own timeout restarts with each received byte.

        Raises:
            ResourceExhausted: The process can't start the thread.
            TimeoutError: The whole reply did not arrive in time.
            OSError, http.client.HTTPException, ValueError: No reply arrived, or it is too large.
        """
        exchange = in_thread("twofold-request", self._exchange, body)
        try:
            return exchange.result(self._timeout)
        except futures.TimeoutError:
            raise self._too_late() from None

    def _exchange(self, body: bytes) -> _Reply:
        end = time.monotonic() + self._timeout
        request = urllib.request.Request(self._url, body, self._headers)
        opened: Any
        try:
            opened = self._opener.open(request, timeout=self._timeout)
        except urllib.error.HTTPError as error:
            opened = error
        data = bytearray()
        with opened:
            # Not `read`, which reads a chunk of negative size to the end of the connection.
            while piece := opened.read1(1 << 16):
                data += piece
                if len(data) > _LARGEST_REPLY:
                    raise ValueError(f"the reply is larger than {_LARGEST_REPLY:,} bytes")
                if time.monotonic() > end:
                    raise self._too_late()
        return _Reply(opened.status, opened.reason, opened.headers["Retry-After"], data)

    def _too_late(self) -> TimeoutError:
        return TimeoutError(f"timed out: no complete reply within {self._timeout:g} s")

    def _beginning(self, reply: _Reply) -> str:
        """Returns the beginning of a reply's body, on one line, with secrets masked."""
        # Masked before it is cut, because a part of a key is also secret.
        return " ".join(self._masked(reply.data.decode(errors="replace")).split())[:300]

    def _masked(self, text: str) -> str:
        for secret in self._secrets:
            text = secret.sub(_MASK, text)
        return text

    def _unavailable(self, problem: str, status: int | None) -> ModelUnavailable:
        error = ModelUnavailable(f"{self._shown}: {printable(self._masked(problem))[:500]}")
        error.status = status
        return error


def _check_text(name: str, value: object) -> None:
    """Raises InvalidArgument if a value is not a string.

    The message does not contain the value, which may be secret.
    """
    if not isinstance(value, str):
        raise InvalidArgument(
            f"{name} is of type {type(value).__name__}; expected a string", field=name
        )


def _is_printable(text: str) -> bool:
    """Returns True if all characters are printable ASCII and none is a space."""
    return all("!" <= character <= "~" for character in text)


def _is_final(error: Exception) -> bool:
    """Returns True if a retry can't help: the certificate or the proxy's address is invalid."""
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    finals = ssl.SSLCertVerificationError, http.client.InvalidURL, UnicodeError
    return isinstance(reason, finals)


def _split(url: str) -> urllib.parse.SplitResult:
    """Splits an endpoint's URL, or raises InvalidArgument. The message masks the URL's secrets."""
    _check_text("url", url)
    try:
        parts = urllib.parse.urlsplit(url)
        if not parts.hostname or parts.port == 0:
            raise ValueError
    except ValueError:
        raise InvalidArgument(
            "url has an invalid host or port; expected http://host:port/…", field="url"
        ) from None
    is_web = parts.scheme in ("http", "https") and parts.username is None
    if not is_web or not _is_printable(parts.netloc + parts.path + parts.query):
        raise InvalidArgument(
            f"url is {_shown(parts)!r}; expected http://… or https://… in printable ASCII "
            "characters, without a user name",
            field="url",
        )
    return parts


def _shown(parts: urllib.parse.SplitResult) -> str:
    """Returns a URL for use in messages, with the user and the query masked."""
    _, at, host = parts.netloc.rpartition("@")
    netloc = f"{_MASK}@{host}" if at else host
    query = _MASK if parts.query else ""
    return parts._replace(netloc=netloc, query=query, fragment="").geturl()


def _patterns(secrets: Sequence[str]) -> list[re.Pattern[str]]:
    """Returns patterns that match the secrets to mask in messages, escaped or not.

    Patterns for longer secrets come first. Secrets of fewer than four characters are omitted,
    because masking them would garble other words.
    """
    found = {secret for secret in secrets if len(secret) >= 4}
    return [
        re.compile("".join(map(_spellings, secret)))
        for secret in sorted(found, key=len, reverse=True)
    ]


def _spellings(character: str) -> str:
    """Returns a pattern that matches a character, as is or escaped for URLs, JSON or HTML."""
    number, named = ord(character), html.escape(character)
    in_url = "".join(f"%{byte:02x}" for byte in character.encode())
    in_json = rf"\u{number:04x}" if character.isascii() else json.dumps(character)[1:-1]
    # A JSON string may itself contain JSON, with more backslashes.
    in_json = in_json.replace("\\", r"\\{1,3}")
    escapes = [in_url, in_json, f"&#0*{number};", f"&#x0*{number:x};"]
    if character == " ":
        escapes.append(r"\+")
    if named != character:
        escapes.append(named)
    # No two alternatives match the same text, because a search would otherwise take very long.
    return rf"(?:\\{{0,3}}{re.escape(character)}|(?i:{'|'.join(escapes)}))"


class _Reply(NamedTuple):
    """An HTTP reply."""

    status: int
    reason: str
    retry_after: str | None
    data: bytearray


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    @override
    def redirect_request(self, *arguments: Any) -> None:
        return None


def _read(data: bytearray, attempts: int) -> Completion:
    """Returns the completion in a reply's JSON."""
    try:
        document = json.loads(data, parse_int=float)  # `int` refuses thousands of digits
        choice = document["choices"][0]
        usage = document.get("usage")
        usage = usage if isinstance(usage, dict) else {}
        return Completion(
            text=_text(choice["message"].get("content")),
            is_cut=choice.get("finish_reason") == "length",
            prompt_tokens=_count(usage.get("prompt_tokens")),
            completion_tokens=_count(usage.get("completion_tokens")),
            attempts=attempts,
        )
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"the reply is not a chat completion ({type(error).__name__})") from None


def _text(content: object) -> str:
    """Returns a message's text, without the reasoning that a list of parts may contain.

    A lone half of a surrogate pair becomes "?", because services refuse a request that repeats it.
    """
    text = str(content or "")
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict) and part.get("type") == "text"]
        text = "".join(str(part.get("text") or "") for part in parts)
    return text.encode(errors="replace").decode()


def _count(value: object) -> int | None:
    """Returns a token count, or None if the value is implausible."""
    if not isinstance(value, float) or not value.is_integer():
        return None
    return int(value) if 0 <= value <= _MAX_TOKENS else None


def _retry_after(header: str | None, default: float) -> float:
    """Returns the seconds in a Retry-After header, or `default` if it is missing or a date."""
    try:
        seconds = float(header or "")
    except ValueError:
        return default
    return seconds if seconds >= 0 else default  # "nan" is not a number of seconds either
