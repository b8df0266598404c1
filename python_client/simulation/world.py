"""The simulated world: libtwofold-simulation.so, which contains Twofold's real server code."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NOTHING_LEFT, VIOLATED = -1, -2
"""Results of `World.next` that are not a client's number: no event is left, or a violation."""

KINDS = (
    *("interrupt", "killClient"),
    *("dropRequest", "dropReply", "doubleRequest", "doubleReply", "delay"),
    *("truncateRequest", "truncateReply", "cut", "partition"),
    *("killServer", "stopServer", "secondServer", "stall", "slowJob", "clockJump"),
    *("powerLoss", "tornWrite", "diskFull", "flippedBit"),
)
"""The kinds of faults. The number of a kind is its index in this tuple."""
INTERRUPT, KILL = 0, 1
"""The kinds of faults that happen in a client process."""

_REPORT_BYTES = 1 << 16


@dataclass(frozen=True)
class Faults:
    """The faults that a run leaves out.

    Args:
        disabled: The numbers of the kinds to leave out.
        suppressed: The ordinals of single faults to leave out.
    """

    disabled: frozenset[int] = frozenset()
    suppressed: frozenset[int] = frozenset()

    @property
    def mask(self) -> int:
        """The disabled kinds of faults as a bit mask."""
        return sum(1 << kind for kind in self.disabled)


@dataclass
class Report:
    """The result of a run: the event counts, and the violation if there was one."""

    violation: str | None = None
    time: int = 0
    """The simulated time, in nanoseconds."""
    events: int = 0
    requests: int = 0
    """The number of requests that reached a server."""
    faults: int = 0
    """The number of possible faults, whether they happened or not. Each has an ordinal."""
    marks: dict[str, int] = field(default_factory=dict)
    by_kind: dict[str, int] = field(default_factory=dict)
    """The number of faults of each kind."""

    @classmethod
    def parse(cls, text: str) -> Report:
        """Parses a report from lines of the form "key value"."""
        report = cls()
        for line in text.splitlines():
            if line.startswith("violation "):
                report.violation = line.removeprefix("violation ")
                continue
            # The names of marks contain spaces.
            key, _, value = line.rpartition(" ")
            kind, _, name = key.partition(".")
            if key in ("time", "events", "requests", "faults"):
                setattr(report, key, int(value))
            elif kind == "mark":
                report.marks[name] = int(value)
            elif kind == "fault":
                report.by_kind[name] = int(value)
            else:
                raise ValueError(f"unknown line in the world's report: {line!r}")
        return report


def find_library() -> Path:
    """Returns the path in TWOFOLD_SIMULATION_LIBRARY, or the path of the checkout's library.

    Raises:
        FileNotFoundError: The library does not exist.
    """
    named = os.environ.get("TWOFOLD_SIMULATION_LIBRARY")
    checkout = Path(__file__).resolve().parents[2]
    path = Path(named or checkout / ".build" / "release" / "libtwofold-simulation.so")
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist; run `make server` to build it")
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
        "open": (number, [unsigned, number]),
        "close": (None, [unsigned, number]),
        "send": (None, [unsigned, number, data, number, data, number]),
        "receive": (number, [unsigned, number, *frame, *frame]),
        "fault": (number, [unsigned, number]),
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
    """The clock, network, disk and servers of one run. A seed determines their behaviour.

    The methods take and return the values of the C interface. Do not call a method after `destroy`.

    Args:
        seed: The seed of all random choices.
        clients: The number of clients, which are numbered from 0.
        faults: The faults to leave out.
    """

    def __init__(self, seed: int, clients: int, faults: Faults) -> None:
        library = self._library = _library()
        arguments = seed, clients, faults.mask, *_ordinals(faults)
        handle = self._handle = library.simulation_create(*arguments)
        self._frames = ctypes.c_void_p(), ctypes.c_int64(), ctypes.c_void_p(), ctypes.c_int64()
        self._places = [ctypes.byref(place) for place in self._frames]
        # Bound here, because a request calls them many times.
        self.now: Callable[[], int] = functools.partial(library.simulation_now, handle)
        """Returns the simulated time, in nanoseconds."""
        self.next: Callable[[], int] = functools.partial(library.simulation_next, handle)
        """Advances to a client's next event. Returns its number, NOTHING_LEFT or VIOLATED."""
        self.wake: Callable[[int, int], None] = functools.partial(library.simulation_wake, handle)
        """Sets the latest time at which a client runs again, in nanoseconds."""
        self.fault: Callable[[int], int] = functools.partial(library.simulation_fault, handle)
        """Returns 1 if a fault of this kind happens in a client now, else 0."""

    def destroy(self) -> None:
        """Frees the world's memory."""
        self._library.simulation_destroy(self._handle)

    def open(self, client: int) -> int:
        """Opens a connection to the server. Returns the connection's number."""
        return int(self._library.simulation_open(self._handle, client))

    def close(self, socket: int) -> None:
        """Closes a connection."""
        self._library.simulation_close(self._handle, socket)

    def send(self, socket: int, header: bytes, payload: bytes | None) -> None:
        """Sends a request. The world adds a request id, as libzmq's REQ socket does."""
        size = -1 if payload is None else len(payload)
        self._library.simulation_send(self._handle, socket, header, len(header), payload, size)

    def receive(self, socket: int) -> list[bytes] | None:
        """Returns the frames of the reply to the newest request; None if it has not arrived."""
        if not self._library.simulation_receive(self._handle, socket, *self._places):
            return None
        header, header_size, payload, payload_size = (place.value for place in self._frames)
        frames = [ctypes.string_at(header or 0, header_size or 0)]
        if payload_size is not None and payload_size >= 0:
            frames.append(ctypes.string_at(payload or 0, payload_size) if payload_size else b"")
        return frames

    def kill_client(self, client: int) -> None:
        """Closes all of a client's sockets."""
        self._library.simulation_kill_client(self._handle, client)

    def mark(self, name: str) -> None:
        """Counts an event (mark), such as "recovered". A campaign checks that marks occur."""
        encoded = name.encode()
        self._library.simulation_mark(self._handle, encoded, len(encoded))

    def jumped(self) -> int:
        """Returns the nanoseconds by which the clock has jumped so far."""
        return int(self._library.simulation_jumped(self._handle))

    def is_open(self, session: bytes) -> bool:
        """Returns True if the server has an open session with this id."""
        return bool(self._library.simulation_is_open(self._handle, session))

    def calm(self) -> None:
        """Ends all faults. Servers that are down start again."""
        self._library.simulation_calm(self._handle)

    def settle(self) -> None:
        """Checks, after all clients have ended, that the server has no sessions or memory left."""
        self._library.simulation_settle(self._handle)

    def report(self) -> Report:
        """Returns the report so far."""
        return _read(functools.partial(self._library.simulation_report, self._handle))


def run_models(seed: int, requests: int, faults: Faults) -> Report:
    """Executes a run of `requests` requests, with clients modelled in Swift."""
    arguments = seed, requests, faults.mask, *_ordinals(faults)
    return _read(functools.partial(_library().simulation_models, *arguments))


def _read(report: Any) -> Report:
    """Calls a C function that writes a report into a buffer, and parses the report."""
    buffer = ctypes.create_string_buffer(_REPORT_BYTES)
    size = report(buffer, len(buffer))
    if size > len(buffer):
        raise ValueError(f"the world's report has {size} bytes; increase _REPORT_BYTES")
    parsed = Report.parse(buffer.raw[:size].decode())
    if tuple(parsed.by_kind) != KINDS:
        raise ValueError(f"{find_library()}: its fault kinds differ from KINDS; run `make server`")
    return parsed
