"""Boards as they have to be: a shadow of each session, played in this process undisturbed."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from processes import Violation

import twofold
from twofold.client.surroundings import SYSTEM, surroundings
from twofold.errors import FailedPrecondition, InvalidArgument, RequestError

REFUSED = (FailedPrecondition, InvalidArgument)
"""The errors of a faulty operation, which it raises on the shadow too."""
_REFUSALS = [error.__name__ for error in REFUSED]


@dataclass(frozen=True)
class Operation:
    """Something to do with boards, which does and returns the same wherever it is done.

    Args:
        name: For logs and marks.
        execute: Does it with an environment, and returns its results.
        parts: How much of it may have been done, if it takes several requests: the parts that come
            before the whole.
        actions: Of a step.
    """

    name: str
    execute: Callable[[Any], Any]
    parts: tuple[Callable[[Any], Any], ...] = ()
    actions: Any = None


def digest(value: Any) -> Any:
    """Returns a value that equals another's digest if the two are the same, byte for byte."""
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return [digest(item) for item in value]
        return value.dtype.char, value.shape, value.tobytes()
    if isinstance(value, dict):
        # The seconds that an episode took are nobody's business here.
        hidden = "t" if "r" in value else None
        return {name: digest(item) for name, item in value.items() if name != hidden}
    if isinstance(value, (tuple, list)):
        return [digest(item) for item in value]
    if dataclasses.is_dataclass(value):
        return [digest(getattr(value, field.name)) for field in dataclasses.fields(value)]
    return value


def outcome(operation: Operation, envs: Any) -> Any:
    """Returns the digest of an operation's results, or of its refusal."""
    try:
        return digest(operation.execute(envs))
    except REFUSED as error:
        return refusal(error)


def refusal(error: RequestError) -> tuple[str, ...]:
    """Returns the digest of a refusal; its text differs where `collect` meets it."""
    return type(error).__name__, error.field, str(error.lane)


def differences(found: Any, expected: Any, place: str = "result") -> Iterator[str]:
    """Yields the places where two digests differ."""
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
    """Calls `make` in the surroundings of the system instead of a simulation's."""
    before = surroundings.set(SYSTEM)
    try:
        return make()
    finally:
        surroundings.reset(before)


class Boards:
    """A session, and its shadow: the same environment in this process, undisturbed.

    Args:
        number: In its run.
        make: The class of the environments.
        arguments: Their arguments, without the service's.
        recovers: Whether its client makes it again where it is lost.
        shadow: The shadow, if it is not a new one.

    Attributes:
        token: Where to resume it; None for nowhere yet.
        requests: How many there had been at the last call that returned.
        pending: The operation that was begun last, until its results are here.
        last: The name and digest of the operation before; None where it is not known.
        blobs: Snapshots of it.
        resumes: How often somebody tried to resume it.
        is_lost: Whether it is over.
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
        self.blobs: list[bytes] = []
        self.resumes = 0
        self.is_lost = False

    def __str__(self) -> str:
        return f"boards {self.number} ({self.make.__name__} {self.arguments})"

    @property
    def num_envs(self) -> int:
        """N."""
        return int(self.shadow.num_envs)

    @property
    def was_reset(self) -> bool:
        """Whether the shadow had its first reset, or was restored."""
        return self.shadow._seeds.seeds is not None

    def saw(self, envs: Any) -> bool:
        """Notes that a call has returned; returns True if it has recreated the boards."""
        before, self.token, self.requests = self.token, envs.token, envs.requests
        return before is not None and before != self.token

    def compare(self, what: str, found: Any, expected: Any) -> None:
        """Raises Violation where what a client got is not what the shadow got."""
        if found != expected:
            problems = list(itertools.islice(differences(found, expected), 3))
            raise Violation(f"{self}: {what} differs from the shadow's: {'; '.join(problems)}")

    def returned(self, operation: Operation, found: Any) -> None:
        """Checks that the shadow gets a client's outcome of an operation."""
        expected = outcome(operation, self.shadow)
        self.compare(operation.name, found, expected)
        self.pending = None
        # A refused request leaves no reply behind.
        if not isinstance(expected, tuple) or expected[0] not in _REFUSALS:
            self.last = operation.name, expected

    def resolve(self, blob: bytes | None, pending: Operation | None) -> bool:
        """Finds out whether an operation without results was carried out, wholly or in part.

        Afterwards the shadow stands where the session does.

        Args:
            blob: A snapshot of the session; None if it was never reset.
            pending: The operation, or None.

        Returns:
            Whether it was carried out to its end, or changes nothing.

        Raises:
            Violation: The session is nowhere that the operation may have left it.
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
            raise Violation(f"{self}: {when} the session's snapshot is not the shadow's")

    def snapshot(self) -> bytes | None:
        """Returns a snapshot of the shadow; None before the first reset."""
        return bytes(self.shadow.snapshot()) if self.was_reset else None

    def forget(self) -> None:
        """Ends the shadow with its session."""
        self.is_lost = True
        self.shadow.close()


def make_arguments(choose: Any) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Returns a class of environments and arguments for it, from a `random.Random`."""
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
