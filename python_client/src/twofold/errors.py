"""What the client raises.

TwofoldError
├── RequestError                 refused, by the server or already here; nothing has changed
│   ├── InvalidArgument          also ValueError
│   ├── NotFound                 also LookupError
│   ├── FailedPrecondition       also RuntimeError: a step before the first reset
│   ├── OutOfSequence            also RuntimeError
│   ├── Conflict                 also RuntimeError
│   ├── StaleEpoch               also RuntimeError
│   ├── PermissionDenied         also PermissionError
│   ├── ResourceExhausted        also RuntimeError: a limit of the server
│   ├── UnsupportedVersion       also RuntimeError
│   ├── ShuttingDown             also ConnectionError
│   └── InternalError            also RuntimeError: a defect of the server
├── TransportError               no answer; the request may have been carried out
│   ├── DeadlineExceeded         also TimeoutError
│   ├── AuthenticationFailed     also PermissionError: the keys were not accepted
│   ├── ServerDied               also ConnectionError: the private server ended
│   ├── ServerStartFailed        also RuntimeError: no private server could be started
│   ├── ProtocolError            also RuntimeError: what answered is not a twofold server
│   └── RecoveryFailed           also RuntimeError: a lost session came out different
├── StepPending                  also RuntimeError: other actions, after a step without an answer
├── PolicyError                  also RuntimeError: a policy that raised, or whose actions are wrong
├── InvalidRecording             also ValueError: a recording that is damaged, or replays otherwise
├── InvalidDataset               also ValueError: the same of a dataset
├── MissingDependency            also ImportError: an optional package that is not installed
└── ClosedError                  also gymnasium's ClosedEnvironmentError
"""

from __future__ import annotations

import functools
from typing import Any, ClassVar

import gymnasium.error

from twofold.v1 import envelope_pb2 as envelope


class TwofoldError(Exception):
    """Base of everything that this package raises on purpose."""


class RequestError(TwofoldError):
    """A request that was refused, by the server or already in the client; it changed nothing.

    Attributes:
        code: The protocol's name for the kind of refusal, such as "INVALID_ARGUMENT".
        field: The argument to blame, by its Python name; "" where there is none.
        lane: The first board of the batch to blame; None where there is none.
    """

    code: ClassVar[str] = ""

    def __init__(self, message: str, *, field: str = "", lane: int | None = None) -> None:
        super().__init__(message)
        self.field = field
        self.lane = lane


class InvalidArgument(RequestError, ValueError):
    """An argument that is wrong by itself, whatever the state."""

    code = "INVALID_ARGUMENT"


class NotFound(RequestError, LookupError):
    """No such session, or no such environment id."""

    code = "NOT_FOUND"


class FailedPrecondition(RequestError, RuntimeError):
    """Not now: a step before the first reset, or of a finished lane with autoreset disabled."""

    code = "FAILED_PRECONDITION"


class OutOfSequence(RequestError, RuntimeError):
    """A request whose number is neither the session's last nor its next."""

    code = "OUT_OF_SEQUENCE"


class Conflict(RequestError, RuntimeError):
    """A request number that was used with other bytes, or a session id that is taken."""

    code = "CONFLICT"


class StaleEpoch(RequestError, RuntimeError):
    """Somebody else has resumed this session."""

    code = "STALE_EPOCH"


class PermissionDenied(RequestError, PermissionError):
    """The server does not allow this."""

    code = "PERMISSION_DENIED"


class ResourceExhausted(RequestError, RuntimeError):
    """A limit of the server; the message tells which and how much."""

    code = "RESOURCE_EXHAUSTED"


class UnsupportedVersion(RequestError, RuntimeError):
    """Client and server speak different versions of the protocol."""

    code = "UNSUPPORTED_VERSION"


class ShuttingDown(RequestError, ConnectionError):
    """The server is about to stop, and nobody came in its place in time.

    Attributes:
        retry_after: Seconds after which the server asks to try again; None where it does not say.
    """

    code = "SHUTTING_DOWN"
    retry_after: float | None = None


class InternalError(RequestError, RuntimeError):
    """A defect of the server."""

    code = "INTERNAL"


class TransportError(TwofoldError):
    """A request that got no answer; whether it was carried out is not known."""


class DeadlineExceeded(TransportError, TimeoutError):
    """No answer in time. The request stays pending: the same call again collects its answer."""


class StepPending(TwofoldError, RuntimeError):
    """Other actions, after a step that got no answer; they were not sent.

    `collect()` returns what came of that step, `discard()` drops it, and so its rewards.
    """


class AuthenticationFailed(TransportError, PermissionError):
    """Client and server did not shake hands: one of them wants or refuses a key.

    Nothing was sent.
    """


class ServerDied(TransportError, ConnectionError):
    """The private server has ended; the text has the end of its log.

    A new environment starts another.
    """


class ServerStartFailed(TransportError, RuntimeError):
    """No private server could be started; the text says why."""


class ProtocolError(TransportError, RuntimeError):
    """An answer that is not one of a twofold server."""


class RecoveryFailed(TransportError, RuntimeError):
    """A lost session was made anew and played again, and came out different; the text says how."""


class PolicyError(TwofoldError, RuntimeError):
    """A policy that cannot be evaluated: it raised, took too long, or gave what is no action.

    Attributes:
        policy: Its name.
        call: Which of its calls it was, from 0.
        row: The first row of that call to blame; None where it is the call as a whole.
        episode: The episode in that row; None like `row`.
        seed: That episode's seed; None like `row`.
    """

    def __init__(
        self,
        message: str,
        *,
        policy: str,
        call: int,
        row: int | None = None,
        episode: int | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(message)
        self.policy = policy
        self.call = call
        self.row = row
        self.episode = episode
        self.seed = seed

    def __reduce__(self) -> tuple[Any, ...]:
        # By default an exception is unpickled from its message alone.
        again = functools.partial(type(self), policy=self.policy, call=self.call)
        return again, self.args, self.__dict__


class InvalidRecording(TwofoldError, ValueError):
    """A recording that is damaged, or whose replay ends otherwise; the text tells where."""


class InvalidDataset(TwofoldError, ValueError):
    """A dataset that is damaged, or holds a transition that is wrong; the text tells which."""


class MissingDependency(TwofoldError, ImportError):
    """An optional package that is needed for this and not installed; the text says how to."""


class ClosedError(TwofoldError, gymnasium.error.ClosedEnvironmentError):
    """The environment is closed, or belongs to the process that this one was forked from."""


_CLASSES: dict[str, type[RequestError]] = {
    cls.code: cls
    for cls in (
        InvalidArgument,
        NotFound,
        FailedPrecondition,
        OutOfSequence,
        Conflict,
        StaleEpoch,
        PermissionDenied,
        ResourceExhausted,
        UnsupportedVersion,
        ShuttingDown,
        InternalError,
    )
}


def from_reply(error: envelope.Error) -> RequestError:
    """The exception for an error reply; InternalError for a code that is not known here."""
    known = error.code in envelope.ErrorCode.values()
    name = envelope.ErrorCode.Name(error.code) if known else ""
    cls = _CLASSES.get(name.removeprefix("ERROR_CODE_"), InternalError)
    lane = error.lane if error.HasField("lane") else None
    exception = cls(error.message, field=error.field, lane=lane)
    if isinstance(exception, ShuttingDown) and error.HasField("retry_after_ms"):
        exception.retry_after = error.retry_after_ms / 1000
    return exception


def add_note(error: BaseException, note: str) -> None:
    """What `error.add_note(note)` does; Python 3.10 has no such method."""
    error.__notes__ = [*getattr(error, "__notes__", []), note]  # type: ignore[attr-defined]
