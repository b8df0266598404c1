"""Shadows of sessions. A shadow is an environment that plays the same boards without faults."""

from __future__ import annotations

import dataclasses
import itertools
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from processes import Violation

import twofold
from twofold.client.surroundings import SYSTEM, surroundings
from twofold.errors import FailedPrecondition, InvalidArgument, RequestError

REFUSED = (FailedPrecondition, InvalidArgument)
"""The errors for an invalid operation. The session and its shadow raise the same error."""
_REFUSALS = [error.__name__ for error in REFUSED]


@dataclass(frozen=True)
class Operation:
    """An operation on boards, which has the same effect and results in every environment.

    Args:
        name: The operation's name in logs and marks.
        execute: The function that executes the operation in an environment and returns the results.
        parts: The functions that execute only the first requests, if the operation takes several.
        actions: The actions of a step.
    """

    name: str
    execute: Callable[[Any], Any]
    parts: tuple[Callable[[Any], Any], ...] = ()
    actions: Any = None


def digest(value: Any) -> Any:
    """Returns a digest. Two digests are equal if and only if the values have the same bytes."""
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return [digest(item) for item in value]
        return value.dtype.char, value.shape, value.tobytes()
    if isinstance(value, dict):
        # The duration of an episode differs between runs.
        hidden = "t" if "r" in value else None
        return {name: digest(item) for name, item in value.items() if name != hidden}
    if isinstance(value, (tuple, list)):
        return [digest(item) for item in value]
    if dataclasses.is_dataclass(value):
        return [digest(getattr(value, field.name)) for field in dataclasses.fields(value)]
    return value


def outcome(operation: Operation, envs: Any) -> Any:
    """Executes an operation, and returns the digest of the results or of the refusal."""
    try:
        return digest(operation.execute(envs))
    except REFUSED as error:
        return refusal(error)


def refusal(error: RequestError) -> tuple[str, ...]:
    """Returns the digest of a refusal: its type, field and lane, but not its text."""
    return type(error).__name__, error.field, str(error.lane)


def differences(found: Any, expected: Any, place: str = "result") -> Iterator[str]:
    """Yields a description of each difference between two digests."""
    if type(found) is type(expected) and isinstance(found, (dict, list)):
        names = found.keys() | expected.keys() if isinstance(found, dict) else range(len(found))
        if len(found) != len(expected):
            yield f"{place} has {len(found)} entries instead of {len(expected)}"
            return
        for name in sorted(names):
            yield from differences(found[name], expected[name], f"{place}[{name!r}]")
    elif found != expected:
        yield f"{place} is {_short(found)} instead of {_short(expected)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:200] + "…"


def quiet(make: Callable[[], Any]) -> Any:
    """Calls `make` with the system's clock and connections instead of the simulation's."""
    before = surroundings.set(SYSTEM)
    try:
        return make()
    finally:
        surroundings.reset(before)


class Boards:
    """A session and its shadow. The shadow is the same environment in this process, without faults.

    Args:
        number: The session's number in the run.
        make: The environment class.
        arguments: The environments' arguments, without `endpoint` and other arguments for the
            service.
        recovers: Whether the client recreates the session after a loss.
        shadow: The shadow; None creates a new one.

    Attributes:
        token: The token that resumes the session; None before the first call.
        requests: The number of the session's requests when the last call returned.
        pending: The last operation, until its results arrive; then None.
        last: The name and digest of the previous operation; None if unknown.
        blobs: The session's last snapshots.
        resumes: The number of attempts to resume the session.
        is_lost: Whether the session has ended.
    """

    def __init__(
        self,
        number: int,
        make: Callable[..., Any],
        arguments: dict[str, Any],
        *,
        recovers: bool,
        shadow: Any = None,
    ) -> None:
        self.number, self.make, self.arguments, self.recovers = number, make, arguments, recovers
        self.shadow = shadow or quiet(lambda: make(**arguments, endpoint="embedded"))
        self.token: str | None = None
        self.requests = 0
        self.pending: Operation | None = None
        self.last: tuple[str, Any] | None = None
        self.blobs: deque[bytes] = deque(maxlen=4)
        self.resumes = 0
        self.is_lost = False

    def __str__(self) -> str:
        return f"boards {self.number} ({self.make.__name__} {self.arguments})"

    @property
    def num_envs(self) -> int:
        """The number of boards."""
        return int(self.shadow.num_envs)

    @property
    def was_reset(self) -> bool:
        """Whether the shadow was reset or restored."""
        return self.shadow._seeds.common is not None

    def saw(self, envs: Any) -> bool:
        """Records that a call has returned. Returns True if the call has recreated the session."""
        before, self.token, self.requests = self.token, envs.token, envs.requests
        return before is not None and before != self.token

    def compare(self, what: str, found: Any, expected: Any) -> None:
        """Raises Violation if a client's results differ from the shadow's."""
        if found != expected:
            problems = list(itertools.islice(differences(found, expected), 3))
            raise Violation(f"{self}: {what} differs from the shadow's: {'; '.join(problems)}")

    def returned(self, operation: Operation, found: Any) -> None:
        """Executes the client's operation on the shadow. Checks that the outcomes are the same."""
        expected = outcome(operation, self.shadow)
        self.compare(operation.name, found, expected)
        self.pending = None
        # A refused request keeps no reply.
        if not isinstance(expected, tuple) or expected[0] not in _REFUSALS:
            self.last = operation.name, expected

    def resolve(self, blob: bytes | None, pending: Operation | None) -> bool:
        """Finds out whether an operation without results was executed, completely or in part.

        Afterwards, the shadow has the session's state.

        Args:
            blob: A snapshot of the session; None if it was never reset.
            pending: The operation, or None.

        Returns:
            True if the operation was executed completely. False if it was executed only in part or
            not at all, or if it changes nothing.

        Raises:
            Violation: The operation can't explain the session's state.
        """
        before = self.snapshot()
        if pending is None or blob == before:
            self._check_place(blob, before, "without a request")
            is_done = False
        else:
            is_done = self._follow(blob, before, pending)
        self.pending = None
        return is_done

    def _follow(self, blob: bytes | None, before: bytes | None, pending: Operation) -> bool:
        for part in (pending.execute, *pending.parts):
            try:
                results = digest(part(self.shadow))
            except REFUSED:
                continue
            if self.snapshot() == blob:
                is_whole = part is pending.execute
                self.last = (pending.name, results) if is_whole else None
                return is_whole
            if before is None:
                break
            self.shadow.restore(before)
        self._check_place(blob, before, f"after an unanswered {pending.name}")
        return False

    def _check_place(self, blob: bytes | None, expected: bytes | None, when: str) -> None:
        if blob != expected:
            raise Violation(f"{self}: {when} the session's snapshot differs from the shadow's")

    def snapshot(self) -> bytes | None:
        """Returns a snapshot of the shadow; None before the first reset."""
        return bytes(self.shadow.snapshot()) if self.was_reset else None

    def forget(self) -> None:
        """Closes the shadow of a session that has ended."""
        self.is_lost = True
        self.shadow.close()


def make_arguments(choose: Any) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Chooses a class of environments and its arguments at random."""
    sizes = [1, 1, 2, 3, 7, 16, 40, 63, 64, 65, 70]
    arguments: dict[str, Any] = {
        "num_envs": choose.choice(sizes),
        "autoreset_mode": choose.choice(["NextStep", "SameStep", "Disabled"]),
        "max_episode_steps": choose.choice([None, 5, 30, 200]),
        "copy": choose.random() < 0.5,
        "extra_infos": choose.choice([(), (), ("episode",), ("reward_terms",)]),
    }
    if choose.random() < 0.5:
        arguments["size"] = choose.choice([4, 4, 4, (2, 3), 3])
        arguments["illegal_action"] = choose.choice(["noop", "terminate"])
        arguments["obs"] = choose.choice(["array", "array", "one_hot", "dict"])
        return twofold.Game2048VectorEnv, arguments
    arguments["preset"] = choose.choice(["playground", "popgym-easy"])
    if arguments["preset"] == "popgym-easy":
        del arguments["max_episode_steps"]
    return twofold.ConcentrationVectorEnv, arguments
