"""The exceptions that this package raises.

```
TwofoldError
├── RequestError                 refused, by the server or in the client
│   ├── InvalidArgument          also ValueError
│   ├── NotFound                 also LookupError
│   ├── FailedPrecondition       also RuntimeError: a step before the first reset
│   ├── OutOfSequence            also RuntimeError
│   ├── Conflict                 also RuntimeError
│   ├── StaleEpoch               also RuntimeError
│   ├── PermissionDenied         also PermissionError
│   ├── ResourceExhausted        also RuntimeError: a server limit
│   ├── UnsupportedVersion       also RuntimeError
│   ├── ShuttingDown             also ConnectionError
│   └── InternalError            also RuntimeError: a bug in the server
├── TransportError               no answer came; the request may have been executed
│   ├── DeadlineExceeded         also TimeoutError
│   ├── AuthenticationFailed     also PermissionError: the keys were not accepted
│   ├── ServerDied               also ConnectionError: the private server ended
│   ├── ServerStartFailed        also RuntimeError: the library or a private server can't start
│   ├── ProtocolError            also RuntimeError: an answer from another kind of server
│   ├── RecoveryFailed           also RuntimeError: the replay of a lost session gave other results
│   └── ModelUnavailable         also ConnectionError: a chat model's endpoint sent no completion
├── StepPending                  also RuntimeError: another step while one is unanswered
├── PolicyError                  also RuntimeError: a policy raised, or returned invalid actions
│   └── GameFailed               a program or a chat model failed in one game
├── StrategyError                also ValueError: a program that can't be judged
├── SandboxUnavailable           also RuntimeError: no sandbox for programs is available here
├── InvalidRecording             also ValueError: a recording is damaged, or replays differently
├── InvalidDataset               also ValueError: a dataset is damaged, or has a wrong transition
├── MissingDependency            also ImportError: an optional package is missing or unusable
└── ClosedError                  also gymnasium's ClosedEnvironmentError
```
"""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium.error

from twofold.v1 import envelope_pb2 as envelope


class TwofoldError(Exception):
    """The base class of all exceptions that this package defines."""


class RequestError(TwofoldError):
    """The server or the client refused a request.

    The request has changed nothing. After PermissionDenied, ShuttingDown and InternalError, an
    earlier copy of it may have been executed.

    Attributes:
        code: The protocol's name for the kind of refusal, such as "INVALID_ARGUMENT".
        field: The Python name of the argument at fault; "" if unknown.
        lane: The first board at fault; None if unknown.
    """

    code: ClassVar[str] = ""

    def __init_subclass__(cls, code: str = "") -> None:
        cls.code = code or cls.code

    def __init__(self, message: str, *, field: str = "", lane: int | None = None) -> None:
        super().__init__(message)
        self.field = field
        self.lane = lane


class InvalidArgument(RequestError, ValueError, code="INVALID_ARGUMENT"):
    """An argument is invalid, regardless of the session's state.

    Fix: Correct the argument that `field` and the message name.
    """


class NotFound(RequestError, LookupError, code="NOT_FOUND"):
    """The session or the environment id does not exist.

    Fix: Make a new environment. With `recover=True`, the client recreates lost boards.
    """


class FailedPrecondition(RequestError, RuntimeError, code="FAILED_PRECONDITION"):
    """The session can't execute the request: no reset yet, or an ended episode without autoreset.

    Fix: Reset the boards or run `twofold solve`, as the message says.
    """


class OutOfSequence(RequestError, RuntimeError, code="OUT_OF_SEQUENCE"):
    """The request's sequence number is neither the session's last one nor its next one.

    Fix: Make a new environment, and report this as a bug, because the package numbers the requests.
    """


class Conflict(RequestError, RuntimeError, code="CONFLICT"):
    """Another request has already used this sequence number, or another session uses this id.

    Fix: Make a new environment, and report this as a bug, because the package numbers the requests.
    """


class StaleEpoch(RequestError, RuntimeError, code="STALE_EPOCH"):
    """Another client has resumed this session.

    Fix: End this process, or call `twofold.resume` to take the session back.
    """


class PermissionDenied(RequestError, PermissionError, code="PERMISSION_DENIED"):
    """The server does not allow this client to make the request.

    The request stays pending, because the server refuses even a repeat of an executed request.

    Fix: Ask the server's operator to add your public key to the list of clients.
    """


class ResourceExhausted(RequestError, RuntimeError, code="RESOURCE_EXHAUSTED"):
    """The request would exceed a server limit; the message names the limit.

    Fix: Use fewer boards or a smaller search, or raise the limit on the server.
    """


class UnsupportedVersion(RequestError, RuntimeError, code="UNSUPPORTED_VERSION"):
    """The client and the server use different versions of the protocol.

    Fix: Install the same version of Twofold on both sides.
    """


class ShuttingDown(RequestError, ConnectionError, code="SHUTTING_DOWN"):
    """The server is shutting down, and no other server replaced it in time.

    The request stays pending, as after DeadlineExceeded: a duplicate may reach the next server.

    Fix: Start a server at the same address, and repeat the call.

    Attributes:
        retry_after: The seconds to wait before another try; None if the server does not say.
    """

    retry_after: float | None = None


class InternalError(RequestError, RuntimeError, code="INTERNAL"):
    """A bug in the server.

    Fix: Report it, with the server's log.
    """


class TransportError(TwofoldError):
    """A request got no answer; it may or may not have been executed.

    Fix: Check the address with `twofold doctor --endpoint ADDRESS`. If the process can't open more
    files, close environments or raise `ulimit -n`.
    """


class DeadlineExceeded(TransportError, TimeoutError):
    """No answer came in time, or the server has stopped. The request stays pending.

    Fix: Repeat the call, which returns the answer, or raise `timeout=`. `twofold doctor --endpoint
    ADDRESS` checks the connection to the server.
    """


class StepPending(TwofoldError, RuntimeError):
    """The last step has no answer yet, so the next step was not sent.

    Fix: Call `collect()`, which returns that step's result, or `discard()`, which drops it and its
    rewards.
    """


class AuthenticationFailed(TransportError, PermissionError):
    """The handshake failed: a key is missing, or one side rejected the other's. Nothing was sent.

    Fix: Pass the server's public key and your own keys as `keys=`; `twofold keygen` makes keys.

    Attributes:
        reason: "no_key", "not_encrypted", "unauthorised" or "server_key".
    """

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class ServerDied(TransportError, ConnectionError):
    """The private server has ended; the message contains the end of its log.

    Fix: Make a new environment, which starts another server, or pass `recover=True`.
    """


class ServerStartFailed(TransportError, RuntimeError):
    """The private server, or the library in this process, did not start; the message says why.

    Fix: Install the wheel for this platform, or pass the address of a running server as
    `endpoint=`. `twofold doctor` checks the library and the program.
    """


class ProtocolError(TransportError, RuntimeError):
    """The answer does not come from a twofold server.

    Fix: Correct the address: another program is listening there.
    """


class RecoveryFailed(TransportError, RuntimeError):
    """The replay of a lost session gave different results; the message says where.

    Fix: Make a new environment on a server of the same version as the first one.
    """


class ModelUnavailable(TransportError, ConnectionError):
    """A chat model's endpoint refused a request, or returned no completion in any attempt.

    Fix: Check the URL, the key and the service, and evaluate again.

    Attributes:
        status: The HTTP status of the last answer; None if there was none.
    """

    status: int | None = None


class PolicyError(TwofoldError, RuntimeError):
    """A policy can't be evaluated: it raised an error, timed out, or returned an invalid action.

    Fix: Correct the policy. The message names the call, the episode and its seed. A policy that
    remembers boards needs a method `reset`; without one, it gets only the boards in play, whose
    number changes between calls. If the number of lanes N changes, `reset` must make new arrays.

    Attributes:
        policy: The policy's name.
        call: The number of the call, from 0.
        row: The first row at fault in that call; None if the whole call is at fault.
        lane: The board in that row, in a rollout; else None.
        episode: The episode in that row; None if `row` is None.
        seed: That episode's seed; None if `row` is None.
    """

    def __init__(
        self,
        message: str,
        *,
        policy: str = "",
        call: int = 0,
        row: int | None = None,
        lane: int | None = None,
        episode: int | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(message)
        self.policy = policy
        self.call = call
        self.row = row
        self.lane = lane
        self.episode = episode
        self.seed = seed


class GameFailed(PolicyError):
    """A program or a chat model failed in one game, which then ended with its score so far.

    The exception is not raised, because the other games continue.

    Fix: Correct the program or the prompt. `Evaluation.failures` lists every failed game.

    Attributes:
        call: The same number as `step`, for any number of boards; `row` is always None.
        step: The number of steps before the failure.
        reason: The kind of failure in one word; the page "Judging programs and chat models"
            lists the words.
        detail: The details of the failure.
    """

    def __init__(
        self, message: str, *, step: int = 0, reason: str = "", detail: str = "", **place: Any
    ) -> None:
        super().__init__(message, **place)
        self.step = step
        self.reason = reason
        self.detail = detail


class StrategyError(TwofoldError, ValueError):
    """A program can't be judged: it can't be loaded, or has no function `strategy`.

    Fix: Give the program a function `strategy(board)`, and import only the standard library.

    Attributes:
        reason: The kind of failure in one word, as in `GameFailed`.
    """

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class SandboxUnavailable(TwofoldError, RuntimeError):
    """The kernel, or the container that this process runs in, does not allow a sandbox.

    Fix: Allow the part that the message names, such as user namespaces. Pass `unsafe=True` only for
    programs that you have read.

    Attributes:
        missing: The unavailable part.
    """

    def __init__(self, message: str, *, missing: str = "") -> None:
        super().__init__(message)
        self.missing = missing


class InvalidRecording(TwofoldError, ValueError):
    """A recording is damaged, or its replay ends differently; the message gives the details.

    Fix: Obtain the file again, or record the game again.
    """


class InvalidDataset(TwofoldError, ValueError):
    """A dataset is damaged, or has a wrong transition; the message says which.

    Fix: Obtain the file again, or write the dataset again.
    """


class MissingDependency(TwofoldError, ImportError):
    """An optional package is missing, or has the wrong version; the message says how to get it.

    Fix: Run the `pip install` command in the message.
    """


class ClosedError(TwofoldError, gymnasium.error.ClosedEnvironmentError):
    """The environment is closed, or belongs to the process that forked this one.

    Fix: Make a new environment; a forked child makes its own after the fork.
    """


_CLASSES: dict[int, type[RequestError]] = {
    envelope.ErrorCode.Value(f"ERROR_CODE_{cls.code}"): cls for cls in RequestError.__subclasses__()
}


def from_reply(error: envelope.Error) -> RequestError:
    """Returns the exception for an error reply; for an unknown code, an InternalError."""
    lane = error.lane if error.HasField("lane") else None
    exception = _CLASSES.get(error.code, InternalError)(error.message, field=error.field, lane=lane)
    if isinstance(exception, ShuttingDown) and error.HasField("retry_after_ms"):
        exception.retry_after = error.retry_after_ms / 1000
    return exception
