"""The HTTP interface of chat models that most services and servers have: POST /chat/completions."""

from __future__ import annotations

import contextlib
import functools
import html
import http.client
import json
import socket
import ssl
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from typing_extensions import override

from twofold._text import printable
from twofold.client.surroundings import SYSTEM, Surroundings
from twofold.errors import InvalidArgument, ModelUnavailable

Message = dict[str, str]
"""{"role": "user" or "assistant", "content": the text}."""

ATTEMPTS = 6
"""Requests for one completion; the waits between them are 1, 2, 4, 8 and 16 s."""

_LONGEST_WAIT = 60.0
_LARGEST_REPLY = 4 << 20
_MAX_TOKENS = 10**12
_MASK = "***"


@dataclass(frozen=True)
class Completion:
    """A model's reply.

    Attributes:
        text: The text; "" without one.
        is_cut: Whether it ends at a limit on tokens.
        prompt_tokens: Tokens of the request; None if not reported, or no plausible number.
        completion_tokens: The same for the reply, including hidden reasoning.
        attempts: The number of requests.
    """

    text: str
    is_cut: bool
    prompt_tokens: int | None
    completion_tokens: int | None
    attempts: int


class ChatEndpoint:
    """An endpoint of chat models; threads may share it.

    Statuses 408, 409, 429 and 5xx, and requests without an answer, are tried again, after the
    seconds that Retry-After names if it does, but not a certificate that is refused. Redirects are
    not followed: they would get the key. No message has the key or the values of the URL's query,
    not even where the endpoint echoes them, nor characters that steer a terminal.

    Args:
        url: The base, such as http://127.0.0.1:8000/v1; a query goes behind /chat/completions.
        api_key: The bearer token, without the white space around it; none is sent for "".
        timeout: Seconds for one request, from connecting to the last byte of the reply.
        surroundings: Waits between attempts.

    Raises:
        InvalidArgument: `url` is not http or https, has a user, or has no host and port to connect
            to; or `api_key` has characters that a header can't have.
    """

    def __init__(
        self, url: str, api_key: str, timeout: float, surroundings: Surroundings = SYSTEM
    ) -> None:
        _check_text("api_key", api_key)
        key = api_key.strip()
        if not _is_printable(key):
            raise InvalidArgument(
                "the API key has characters other than printable ASCII ones", field="api_key"
            )
        parts = _split(url)
        path = parts.path.rstrip("/") + "/chat/completions"
        self._url = parts._replace(path=path, fragment="").geturl()
        self._shown = _shown(parts._replace(path=path))
        values = [value for _, value in urllib.parse.parse_qsl(parts.query)]
        self._secrets = _forms([key, *values])
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._timeout = timeout
        self._opener = urllib.request.build_opener(_NoRedirects, _Http, _Https)
        self._closed, self._lock = threading.Event(), threading.Lock()
        self._exchanges: set[_Exchange] = set()
        # `close` ends the system's waits; a test has its own.
        self._wait = self._closed.wait if surroundings is SYSTEM else surroundings.sleep

    def complete(self, messages: Sequence[Message], options: Mapping[str, Any]) -> Completion:
        """Returns a completion of a conversation.

        Raises:
            ModelUnavailable: The request is refused, all attempts failed, or the endpoint was
                closed.
        """
        body = json.dumps({**options, "messages": list(messages)}).encode()
        for attempt in range(1, ATTEMPTS + 1):
            wait = 2.0 ** (attempt - 1)
            reply = None
            try:
                reply = self._post(body)
                if 200 <= reply.status < 300:
                    return _read(reply.data, attempt)
                problem, status = f"HTTP {reply.status} {reply.reason}: {reply.words}", reply.status
                wait = _retry_after(reply.retry_after, wait)
            except (OSError, http.client.HTTPException, ValueError) as error:
                problem, status = f"{type(error).__name__}: {error}", None
                if _is_final(error):
                    raise self._unavailable(problem, None) from None
            if status is not None and status not in (408, 409, 429) and status < 500:
                raise self._unavailable(problem, status)
            if attempt < ATTEMPTS:
                self._wait(min(wait, _LONGEST_WAIT))
            if self._closed.is_set():
                raise self._unavailable("closed", None)
        raise self._unavailable(f"{ATTEMPTS} attempts failed; the last: {problem}", status)

    def close(self) -> None:
        """Ends the requests under way and the waits; `complete` then raises in their threads."""
        self._closed.set()
        with self._lock:
            for exchange in self._exchanges:
                exchange.end()

    def _post(self, body: bytes) -> _Reply:
        """Returns the reply to one request, of any status.

        Raises:
            TimeoutError: It is not complete in time, however steadily its bytes arrive.
            OSError, http.client.HTTPException, ValueError: No reply came, or it is too large.
        """
        exchange = _Exchange(self._url, body, self._headers)
        timer = threading.Timer(self._timeout, exchange.end)
        timer.daemon = True
        with self._lock:
            self._exchanges.add(exchange)
        timer.start()
        try:
            reply = self._answer(exchange)
        except (OSError, http.client.HTTPException, ValueError):
            if not exchange.is_ended:
                raise
            reply = None
        finally:
            timer.cancel()
            with self._lock:
                self._exchanges.discard(exchange)
            exchange.close()
        if reply is None or exchange.is_ended:
            raise TimeoutError(f"timed out: no whole reply in {self._timeout:g} s")
        return reply

    def _answer(self, exchange: _Exchange) -> _Reply:
        if self._closed.is_set():
            raise ConnectionAbortedError("closed")
        opened: Any
        try:
            opened = self._opener.open(exchange, timeout=self._timeout)
        except urllib.error.HTTPError as error:
            opened = error
        with opened:
            data: bytes = opened.read(_LARGEST_REPLY + 1)
        if len(data) > _LARGEST_REPLY:
            raise ValueError(f"the reply has more than {_LARGEST_REPLY:,} bytes")
        words = ""
        if opened.status >= 300:
            # Masked before it is cut, because a part of a key is a secret, too.
            words = " ".join(self._masked(data.decode(errors="replace")).split())[:300]
        return _Reply(opened.status, opened.reason, opened.headers["Retry-After"], data, words)

    def _masked(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, _MASK)
        return text

    def _unavailable(self, problem: str, status: int | None) -> ModelUnavailable:
        error = ModelUnavailable(f"{self._shown}: {printable(self._masked(problem))[:500]}")
        error.status = status
        return error


def _check_text(name: str, value: object) -> None:
    """Raises InvalidArgument unless a value is a string; it may be secret, and is not shown."""
    if not isinstance(value, str):
        raise InvalidArgument(
            f"{name} has the type {type(value).__name__}; expected a string", field=name
        )


def _is_printable(text: str) -> bool:
    """Returns True if all characters are printable ASCII, none of them a space."""
    return all("!" <= character <= "~" for character in text)


def _is_final(error: Exception) -> bool:
    """Returns True if another attempt would fail too: a bad certificate or proxy address."""
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    finals = ssl.SSLCertVerificationError, http.client.InvalidURL, UnicodeError
    return isinstance(reason, finals)


def _split(url: str) -> urllib.parse.SplitResult:
    """Returns the parts of an endpoint's URL; raises InvalidArgument without its secrets."""
    _check_text("url", url)
    try:
        parts = urllib.parse.urlsplit(url)
        is_valid = _has_address(parts)
    except (ValueError, http.client.InvalidURL):
        is_valid = False
    if not is_valid:
        raise InvalidArgument(
            "url has an invalid host or port; expected http://host:port/…", field="url"
        )
    if parts.username is not None:
        raise InvalidArgument(
            f"url is {_shown(parts)!r}; expected no user and password, but an API key", field="url"
        )
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise InvalidArgument(
            f"url is {_shown(parts)!r}; expected http://… or https://…", field="url"
        )
    if not _is_printable(parts.path + parts.query):
        raise InvalidArgument(
            f"url is {_shown(parts)!r}; expected printable ASCII characters", field="url"
        )
    return parts


def _has_address(parts: urllib.parse.SplitResult) -> bool:
    """Returns True if an http URL has a host and a port to connect to.

    Raises:
        ValueError, http.client.InvalidURL: They are malformed.
    """
    port, host = parts.port, parts.hostname
    if parts.scheme not in ("http", "https") or not parts.netloc:
        return True
    # As the connection will read them.
    connection = http.client.HTTPConnection(parts.netloc.rpartition("@")[2])
    connection.host.encode("idna")
    return port != 0 and connection.host.lower() == host


def _shown(parts: urllib.parse.SplitResult) -> str:
    """Returns a URL for messages: without a user, and with all of its query masked."""
    _, at, host = parts.netloc.rpartition("@")
    netloc = f"{_MASK}@{host}" if at else host
    query = _MASK if parts.query else ""
    return parts._replace(netloc=netloc, query=query, fragment="").geturl()


def _forms(secrets: Sequence[str]) -> list[str]:
    """Returns the words to mask in messages: secrets as they are, in URLs, in JSON and in HTML.

    Longer words come first. A secret of fewer than four characters would mask other words.
    """
    found = set()
    for secret in secrets:
        if len(secret) >= 4:
            found |= {secret, urllib.parse.quote(secret, safe=""), urllib.parse.quote_plus(secret)}
            found |= {json.dumps(secret)[1:-1], secret.replace("/", "\\/"), html.escape(secret)}
    return sorted(found, key=len, reverse=True)


class _Reply(NamedTuple):
    """An HTTP reply; `words` is the beginning of an error's body, masked, on one line."""

    status: int
    reason: str
    retry_after: str | None
    data: bytes
    words: str


class _Exchange(urllib.request.Request):
    """A request and its reply, which another thread can end.

    A socket's own timeout would begin anew with each byte.

    Attributes:
        is_ended: Whether it was ended.
    """

    def __init__(self, url: str, body: bytes, headers: Mapping[str, str]) -> None:
        super().__init__(url, body, dict(headers))
        self.is_ended = False
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None

    def connect(self, *arguments: Any) -> socket.socket:
        """Connects, and keeps the connection so that `end` works even during a TLS handshake."""
        made = socket.create_connection(*arguments)
        with self._lock:
            # A TLS socket takes the descriptor of the plain one.
            self._socket = made.dup()
        if self.is_ended:
            self.end()
        return made

    def end(self) -> None:
        """Ends it; a thread that reads from the connection finds its end."""
        self.is_ended = True
        with self._lock, contextlib.suppress(OSError):
            if self._socket is not None:
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Lets go of the connection."""
        with self._lock:
            if self._socket is not None:
                self._socket.close()


class _Connection(http.client.HTTPConnection):
    """A connection that an exchange makes."""

    def __init__(self, exchange: _Exchange, host: str, **arguments: Any) -> None:
        super().__init__(host, **arguments)
        self._create_connection = exchange.connect


class _TlsConnection(_Connection, http.client.HTTPSConnection):
    """The same with TLS."""


class _Http(urllib.request.HTTPHandler):
    @override
    def http_open(self, req: Any) -> Any:
        make: Any = functools.partial(_Connection, req)
        return self.do_open(make, req)


class _Https(urllib.request.HTTPSHandler):
    @override
    def https_open(self, req: Any) -> Any:
        make: Any = functools.partial(_TlsConnection, req)
        return self.do_open(make, req, context=getattr(self, "_context", None))


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    @override
    def redirect_request(self, *arguments: Any) -> None:
        return None


def _read(data: bytes, attempts: int) -> Completion:
    """Returns a completion from its JSON.

    Raises:
        ValueError: It is something else.
    """
    try:
        document = json.loads(data, parse_int=_integer)
        choice = document["choices"][0]
        usage = document.get("usage")
        usage = usage if isinstance(usage, dict) else {}
        return Completion(
            text=str(choice["message"].get("content") or ""),
            is_cut=choice.get("finish_reason") == "length",
            prompt_tokens=_count(usage.get("prompt_tokens")),
            completion_tokens=_count(usage.get("completion_tokens")),
            attempts=attempts,
        )
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"the reply is no chat completion ({type(error).__name__})") from None


def _integer(digits: str) -> int | None:
    """Returns an integer of a reply; None for one so long that Python refuses to convert it."""
    return int(digits) if len(digits) <= 20 else None


def _count(value: object) -> int | None:
    """Returns a number of tokens; None for anything else."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= _MAX_TOKENS else None


def _retry_after(header: str | None, default: float) -> float:
    """Returns the seconds of a Retry-After header; a date is not read."""
    try:
        return max(0.0, float(header or ""))
    except ValueError:
        return default
