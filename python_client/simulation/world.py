"""The simulated world: libtwofold-simulation.so, with the real ledger and service inside."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NOTHING_LEFT, VIOLATED = -1, -2
"""The results of `World.next` other than a client's number."""

KINDS = (
    *("interrupt", "killClient"),
    *("dropRequest", "dropReply", "doubleRequest", "doubleReply", "delay"),
    *("truncateRequest", "truncateReply", "cut", "partition"),
    *("killServer", "stopServer", "secondServer", "stall", "slowJob", "clockJump"),
    *("powerLoss", "tornWrite", "diskFull", "flippedBit"),
)
"""The kinds of faults, by their numbers."""
INTERRUPT, KILL = 0, 1
"""The faults in a client itself."""

_REPORT_BYTES = 1 << 16


@dataclass(frozen=True)
class Faults:
    """Which faults a run leaves out.

    Args:
        disabled: Kinds, by their numbers.
        suppressed: Single faults, by their ordinals in the run.
    """

    disabled: frozenset[int] = frozenset()
    suppressed: frozenset[int] = frozenset()

    @classmethod
    def without(cls, *kinds: str) -> Faults:
        """Returns all faults but these kinds."""
        return cls(frozenset(map(KINDS.index, kinds)))

    @property
    def mask(self) -> int:
        """The kinds as bits."""
        return sum(1 << kind for kind in self.disabled)


@dataclass
class Report:
    """The world's counts of the events in a run."""

    violation: str | None = None
    time: int = 0
    """Nanoseconds."""
    events: int = 0
    requests: int = 0
    """The requests that reached a server."""
    faults: int = 0
    """Ordinals that were given."""
    marks: dict[str, int] = field(default_factory=dict)
    by_kind: dict[str, int] = field(default_factory=dict)
    """Faults."""

    @classmethod
    def parse(cls, text: str) -> Report:
        """Returns the report in lines of "key value"."""
        report = cls()
        for line in text.splitlines():
            if line.startswith("violation "):
                report.violation = line.removeprefix("violation ")
                continue
            # Names of marks have spaces in them.
            key, _, value = line.rpartition(" ")
            kind, _, name = key.partition(".")
            if key in ("time", "events", "requests", "faults"):
                setattr(report, key, int(value))
            elif kind == "mark":
                report.marks[name] = int(value)
            elif kind == "fault":
                report.by_kind[name] = int(value)
            else:
                raise ValueError(f"the world reports {line!r}, which has no meaning here")
        return report


def find_library() -> Path:
    """Returns the library that TWOFOLD_SIMULATION_LIBRARY names, or the checkout's.

    Raises:
        FileNotFoundError: It was not built.
    """
    named = os.environ.get("TWOFOLD_SIMULATION_LIBRARY")
    checkout = Path(__file__).resolve().parents[2]
    path = Path(named or checkout / ".build" / "release" / "libtwofold-simulation.so")
    if not path.is_file():
        raise FileNotFoundError(f"there is no {path}; `make server` builds it")
    return path


@functools.cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(find_library()))
    number, unsigned, data = ctypes.c_int64, ctypes.c_uint64, ctypes.c_char_p
    frame = [ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(number)]
    ordinals = ctypes.POINTER(unsigned)
    functions: dict[str, tuple[Any, list[Any]]] = {
        "create": (unsigned, [unsigned, unsigned, unsigned, ordinals, number]),
        "destroy": (None, [unsigned]),
        "now": (number, [unsigned]),
        "jumped": (number, [unsigned]),
        "next": (number, [unsigned]),
        "wake": (None, [unsigned, number, number]),
        "open": (number, [unsigned, number, number]),
        "close": (None, [unsigned, number]),
        "send": (None, [unsigned, number, data, number, data, number]),
        "receive": (number, [unsigned, number, *frame, *frame]),
        "fault": (number, [unsigned, number, number]),
        "kill_client": (None, [unsigned, number]),
        "mark": (None, [unsigned, data, number]),
        "is_open": (number, [unsigned, data]),
        "calm": (None, [unsigned]),
        "settle": (None, [unsigned]),
        "report": (number, [unsigned, data, number]),
        "models": (number, [unsigned, unsigned, unsigned, ordinals, number, data, number]),
    }
    for name, (result, arguments) in functions.items():
        function = getattr(library, f"simulation_{name}")
        function.restype, function.argtypes = result, arguments
    return library


def _ordinals(faults: Faults) -> tuple[Any, int]:
    count = len(faults.suppressed)
    return (ctypes.c_uint64 * count)(*sorted(faults.suppressed)), count


class World:
    """One run's clock, network, disk and servers, all drawn from a seed.

    Its functions take and return what the C interface does; none may be called after `destroy`.

    Args:
        seed: Draws everything.
        clients: How many there are, numbered from 0.
        faults: Those to leave out.
    """

    def __init__(self, seed: int, clients: int, faults: Faults) -> None:
        library = self._library = _library()
        arguments = seed, clients, faults.mask, *_ordinals(faults)
        handle = self._handle = library.simulation_create(*arguments)
        self._frames = ctypes.c_void_p(), ctypes.c_int64(), ctypes.c_void_p(), ctypes.c_int64()
        self._places = [ctypes.byref(place) for place in self._frames]
        # Bound here, since they are called many times for each request.
        self.now: Callable[[], int] = functools.partial(library.simulation_now, handle)
        """The time in nanoseconds."""
        self.next: Callable[[], int] = functools.partial(library.simulation_next, handle)
        """Continues to the next event of a client; returns its number, or a constant above."""
        self.wake: Callable[[int, int], None] = functools.partial(library.simulation_wake, handle)
        """Has a client run at a time at the latest; replaces its last wish."""
        self.fault: Callable[[int, int], int] = functools.partial(library.simulation_fault, handle)
        """Whether a fault of a client's own, of this kind, happens here."""

    def destroy(self) -> None:
        """Frees everything."""
        self._library.simulation_destroy(self._handle)

    def open(self, client: int, address: int) -> int:
        """Returns a connection to the server at an address."""
        return int(self._library.simulation_open(self._handle, client, address))

    def close(self, socket: int) -> None:
        """Closes a connection."""
        self._library.simulation_close(self._handle, socket)

    def send(self, socket: int, header: bytes, payload: bytes | None) -> None:
        """Sends a request, with the request id that libzmq's REQ adds."""
        size = -1 if payload is None else len(payload)
        self._library.simulation_send(self._handle, socket, header, len(header), payload, size)

    def receive(self, socket: int) -> list[bytes] | None:
        """Returns the frames of the reply to the newest request, if it is here."""
        if not self._library.simulation_receive(self._handle, socket, *self._places):
            return None
        header, header_size, payload, payload_size = (place.value for place in self._frames)
        frames = [ctypes.string_at(header or 0, header_size or 0)]
        if payload_size is not None and payload_size >= 0:
            frames.append(ctypes.string_at(payload or 0, payload_size) if payload_size else b"")
        return frames

    def kill_client(self, client: int) -> None:
        """Closes all sockets of a client."""
        self._library.simulation_kill_client(self._handle, client)

    def mark(self, name: str) -> None:
        """Counts that something happened which a campaign has to see."""
        encoded = name.encode()
        self._library.simulation_mark(self._handle, encoded, len(encoded))

    def jumped(self) -> int:
        """Returns the nanoseconds by which the clock has jumped so far."""
        return int(self._library.simulation_jumped(self._handle))

    def is_open(self, session: bytes) -> bool:
        """Returns True if the server has an open session with this id."""
        return bool(self._library.simulation_is_open(self._handle, session))

    def calm(self) -> None:
        """Ends all faults; servers that are down come back."""
        self._library.simulation_calm(self._handle)

    def settle(self) -> None:
        """Checks, at the very end and without clients, that the servers have nothing left."""
        self._library.simulation_settle(self._handle)

    def report(self) -> Report:
        """Returns the report so far."""
        return _read(functools.partial(self._library.simulation_report, self._handle))


def run_models(seed: int, requests: int, faults: Faults) -> Report:
    """Executes a run of this many requests with the library's models of clients."""
    arguments = seed, requests, faults.mask, *_ordinals(faults)
    return _read(functools.partial(_library().simulation_models, *arguments))


def _read(report: Any) -> Report:
    """Returns the report that a function writes to memory of a capacity."""
    buffer = ctypes.create_string_buffer(_REPORT_BYTES)
    size = report(buffer, len(buffer))
    if size > len(buffer):
        raise ValueError(f"the world's report has {size} bytes")
    parsed = Report.parse(buffer.raw[:size].decode())
    if tuple(parsed.by_kind) != KINDS:
        raise ValueError(f"{find_library()} knows other kinds of faults: rebuild it")
    return parsed
