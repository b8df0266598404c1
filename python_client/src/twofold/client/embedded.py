"""The service in this process: libtwofold.so. Sources/CTwofold/twofold.h declares its functions."""

from __future__ import annotations

import ctypes
import functools
import threading
import warnings
from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from twofold.client import system
from twofold.client.carrier import DONE, Answer, Call, Carrier, Steps
from twofold.client.lookup import VERSION, find_library
from twofold.client.payloads import Buffer, BufferPool
from twofold.client.surroundings import SYSTEM, Surroundings
from twofold.errors import (
    DeadlineExceeded,
    InvalidArgument,
    ProtocolError,
    ResourceExhausted,
    ServerStartFailed,
    from_reply,
)
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment
from twofold.v1 import rollout_pb2 as wire

# The statuses that the library's functions return.
_ANSWERED, _STEPPED, _TOO_SMALL = 0, 1, 2

_INTERFACE = 6
# The initial size of the buffer for a reply's header. The buffer grows if a header needs more.
_HEADER_BYTES = 4096
# The library runs up to this many boards on one thread.
_BOARDS_OF_A_THREAD = 64


class _Reply(ctypes.Structure):
    """`twofold_reply`: the buffers for a reply."""

    _fields_: ClassVar[list[tuple[str, type[Any]]]] = [
        ("header", ctypes.c_void_p),
        ("header_capacity", ctypes.c_size_t),
        ("header_size", ctypes.c_size_t),
        ("payload", ctypes.c_void_p),
        ("payload_capacity", ctypes.c_size_t),
        ("payload_size", ctypes.c_size_t),
    ]


class _Steps(ctypes.Structure):
    """`twofold_steps`: the part of a step that all steps of a session share."""

    _fields_: ClassVar[list[tuple[str, type[Any]]]] = [
        ("service", ctypes.c_uint64),
        ("session", ctypes.c_uint8 * 16),
        ("epoch", ctypes.c_uint32),
        ("width", ctypes.c_int32),
        ("count", ctypes.c_size_t),
        ("reply", ctypes.POINTER(_Reply)),
    ]


class _Learner(ctypes.Structure):
    """`twofold_learner`: a network that learns, and the boards on which it plays."""

    _fields_: ClassVar[list[tuple[str, type[Any]]]] = [
        ("request", ctypes.c_char_p),
        ("request_size", ctypes.c_size_t),
        ("form", ctypes.c_char_p),
        ("form_size", ctypes.c_size_t),
        ("threads", ctypes.c_uint32),
        ("learning_rate", ctypes.c_float),
        ("steps", ctypes.c_uint64),
        ("seeds", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
        ("state", ctypes.c_void_p),
        ("weight_count", ctypes.c_size_t),
        ("state_size", ctypes.c_size_t),
        ("played", ctypes.c_uint64),
        ("moves", ctypes.c_uint64),
        ("episodes", ctypes.c_uint64),
        ("score", ctypes.c_uint64),
        ("goals", ctypes.c_uint64),
    ]


@functools.cache
def library() -> ctypes.CDLL:
    """Returns the library; each call into the library releases the GIL.

    Raises:
        ServerStartFailed: The library is missing, can't be loaded, or has another version.
    """
    path = find_library()
    try:
        library = ctypes.CDLL(str(path))
        library.twofold_version.restype = ctypes.c_char_p
        interface, version = library.twofold_interface(), library.twofold_version().decode()
    except (OSError, AttributeError) as error:
        raise ServerStartFailed(f"{path} can't be loaded: {error}") from None
    if interface != _INTERFACE or version != VERSION:
        raise ServerStartFailed(
            f"{path} has version {version}, but this package has {VERSION}: rebuild the library"
        )
    number: Any = ctypes.c_uint64
    text, size, reply = ctypes.c_char_p, ctypes.c_size_t, ctypes.POINTER(_Reply)
    library.twofold_create.argtypes = [ctypes.POINTER(number), text, size]
    library.twofold_call.argtypes = [number, text, size, text, size, reply]
    library.twofold_step.argtypes = [ctypes.POINTER(_Steps), number, text]
    library.twofold_learn.argtypes = [ctypes.POINTER(_Learner), reply]
    return library


def _start() -> tuple[ctypes.CDLL, int]:
    """Starts a service for the life of this process; returns the library and the service's id.

    Raises:
        ServerStartFailed: The library can't be used, or an environment variable for the service is
            invalid.
    """
    loaded = library()
    number, message = ctypes.c_uint64(), ctypes.create_string_buffer(500)
    if loaded.twofold_create(number, message, len(message)) != _ANSWERED:
        reason = message.value.decode(errors="replace")
        raise ServerStartFailed(f"the service in this process can't start: {reason}")
    return loaded, number.value


# The size of an action of each dtype in bytes, negative for signed dtypes.
_WIDTHS = {np.dtype(kind): np.dtype(kind).itemsize for kind in np.typecodes["UnsignedInteger"]}
_WIDTHS |= {np.dtype(kind): -np.dtype(kind).itemsize for kind in np.typecodes["Integer"]}

# Reentrant, because a signal handler may need a service while the interrupted call starts one. A
# fork waits for it, because a child could never use a library that was just starting.
_lock = threading.RLock()
_service: tuple[ctypes.CDLL, int] | None = None
# Whether the parent process used the library before the fork, and this process has not warned yet.
_is_confined = False


def _forget_in_child() -> None:
    """Makes a forked child start its own service and leave its parent's boards alone."""
    global _lock, _service, _is_confined
    _lock = threading.RLock()
    _is_confined = _service is not None
    _service = None


system.at_fork(
    before=lambda: _lock.acquire(),
    after_in_parent=lambda: _lock.release(),
    after_in_child=_forget_in_child,
)


class EmbeddedCarrier(Carrier):
    """A carrier that calls the library on the caller's thread, with the GIL released.

    No message can get lost, and no request waits for another process. If an interrupt arrives
    before the reply, the caller repeats the request, as with any carrier.

    Args:
        surroundings: The clock for deadlines.

    Raises:
        ServerStartFailed: The service can't be started.
    """

    is_remote = False

    def __init__(self, surroundings: Surroundings = SYSTEM) -> None:
        super().__init__("embedded")
        self._now = surroundings.now
        global _service
        with _lock:
            if _service is None:
                started = _start()
                # A signal handler may meanwhile have started a service and made boards there.
                _service = _service or started
            loaded, self._number = _service
        self._call, self._step = loaded.twofold_call, loaded.twofold_step
        self._buffers = BufferPool()
        # Steps have a separate reply structure, because the size of their payloads is constant.
        self._reply, self._step_reply = _Reply(), _Reply()
        self._make_header_room(_HEADER_BYTES)
        # The arguments of the last step, and the `Steps` from which they were made.
        self._steps = _Steps(service=self._number, reply=ctypes.pointer(self._step_reply))
        self._kind: tuple[Steps | None, int, int] = None, 0, 0

    def _warn_of_threads(self, num_envs: int) -> None:
        """Warns once, if the boards could use more threads, that a forked process has only one."""
        global _is_confined
        if _is_confined and self.service.threads > 1 and num_envs > _BOARDS_OF_A_THREAD:
            _is_confined = False
            warnings.warn(
                "this process was forked from one that had used Twofold, so its batches run on one "
                "thread; start it with 'spawn' or 'forkserver' for more",
                RuntimeWarning,
                stacklevel=2,
            )

    def _make_header_room(self, size: int) -> None:
        self._header = ctypes.create_string_buffer(size)
        for reply in (self._reply, self._step_reply):
            reply.header = ctypes.addressof(self._header)
            reply.header_capacity = size

    @override
    def exchange(self, call: Call, deadline: float, room: Buffer | None = None) -> Answer:
        if self._now() >= deadline:
            raise DeadlineExceeded(f"no time was left for {call.slot}; raise timeout=")
        if call.slot == "create":
            self._warn_of_threads(envelope.Request.FromString(call.request).create.num_envs)
        size = max(call.reply_size or 0, call.reply_room)  # the library reports an unknown size
        reply = self._reply
        while True:
            memory, reply.payload = room or self._buffers.take(size)
            reply.payload_capacity = memory.size
            payload = call.payload
            status = self._call(
                self._number,
                call.request,
                len(call.request),
                payload,
                0 if payload is None else len(payload),
                reply,
            )
            if status == _ANSWERED:
                return self._read_header(reply), memory[: reply.payload_size]
            self._make_room(status, call.slot, reply)
            size = max(size, reply.payload_size)

    @override
    def pack(self, actions: NDArray[np.integer[Any]]) -> tuple[bytes, int]:
        return actions.tobytes(), _WIDTHS[actions.dtype]

    @override
    def step(
        self,
        steps: Steps,
        seq: int,
        actions: bytes,
        width: int,
        deadline: float,
        room: Buffer | None,
    ) -> Answer:
        reply = self._step_reply
        memory, reply.payload = room or self._buffers.take(steps.room)
        kind = steps, len(actions), width
        if kind != self._kind:
            request = self._steps
            request.session[:], request.epoch = steps.session, steps.epoch
            request.width, request.count = width, len(actions) // abs(width)
            reply.payload_capacity = steps.room
            self._kind = kind
        while True:
            status = self._step(self._steps, seq, actions)
            if status == _STEPPED:
                return DONE, memory
            if status == _ANSWERED:
                return self._read_header(reply), memory[: reply.payload_size]
            self._make_room(status, "step", reply)

    def _read_header(self, reply: _Reply) -> envelope.Reply:
        return envelope.Reply.FromString(ctypes.string_at(self._header, reply.header_size))

    def _make_room(self, status: int, slot: str, reply: _Reply) -> None:
        """Enlarges the header buffer if necessary. Raises ProtocolError for any other status."""
        if status != _TOO_SMALL:
            raise ProtocolError(f"the library did not execute {slot}: it returned status {status}")
        if reply.header_size > reply.header_capacity:
            self._make_header_room(reply.header_size)

    @override
    def begin(self, call: Call) -> None:
        raise AssertionError("begin() is not supported: the library replies during the call")

    def close(self) -> None:
        """Does nothing, because no request is in progress between calls."""


class Counts(NamedTuple):
    """The counts of a learner since its first start."""

    played: int
    """The number of steps on each board."""
    moves: int
    """The number of moves on all boards; a step that starts an episode plays none."""
    episodes: int
    """The number of episodes that ended."""
    score: int
    """The sum of these episodes' scores."""
    goals: int
    """The number of these episodes that reached the goal."""


class EmbeddedLearner:
    """Boards of 2048 in this process, and an n-tuple network that learns on them.

    All memory belongs to this object. With one thread, everything that the learner computes is a
    pure function of the arguments and the arrays.

    Args:
        create: The request to create the boards.
        form: The form of the network.
        threads: The number of threads. Several threads share the weights without locks.
        learning_rate: The factor of all corrections, above 0 and at most 1.

    Attributes:
        form: The form of the network.
        weights: float32 (weights,): the tables of the tuples, one after another; 0 at first.
        errors: float32 (weights, 2): for each weight, the sum of its errors and the sum of their
            magnitudes. In memory, they follow the weight.
        state: uint8: the boards, and the afterstate of each board's last move. Call `start` first,
            or copy the state of another learner here.
        counts: The counts since the first start.

    Raises:
        InvalidArgument: An argument is wrong; `field` names it.
        ResourceExhausted: The network is larger than the limits or the memory of this process.
        ServerStartFailed: The library can't be used, or a variable that configures it is invalid.
    """

    def __init__(
        self,
        create: environment.CreateRequest,
        form: wire.NTupleForm,
        *,
        threads: int,
        learning_rate: float,
    ) -> None:
        self._learn = library().twofold_learn
        self._header = ctypes.create_string_buffer(_HEADER_BYTES)
        self._reply = _Reply(
            header=ctypes.addressof(self._header), header_capacity=len(self._header)
        )
        request = envelope.Request(create=create).SerializeToString(deterministic=True)
        self.form = form
        network = form.SerializeToString(deterministic=True)
        self._learner = _Learner(
            request=request,
            request_size=len(request),
            form=network,
            form_size=len(network),
            threads=threads,
            learning_rate=learning_rate,
        )
        try:
            with _lock:  # a fork waits for the library's first call
                self._call()  # checks the arguments and reports the sizes
        except InvalidArgument as error:
            if error.field:
                raise
            # A variable that configures the service, or the limit on this process's memory.
            raise ServerStartFailed(f"the learner can't start: {error}") from None
        count = self._learner.weight_count
        try:
            self._weights = np.zeros((count, 3), np.float32)
            self.weights, self.errors = self._weights[:, 0], self._weights[:, 1:]
            self.state = np.zeros(self._learner.state_size, np.uint8)
        except MemoryError:
            raise ResourceExhausted(
                f"the network and its learning rates take {12 * count:,} bytes, which this process "
                "can't allocate; use fewer or smaller tuples",
                field="tuples",
            ) from None

    def start(self, seeds: NDArray[np.uint64]) -> None:
        """Starts a new episode on each board, from its seed, uint64 (num_envs,)."""
        self._run(0, seeds.ctypes.data)

    def run(self, steps: int) -> None:
        """Plays this number of steps on each board and learns from each.

        A step on a board whose episode has ended starts the next episode and plays no move. The
        call ends only when all steps are done.
        """
        self._run(steps, None)

    @property
    def counts(self) -> Counts:
        """The counts since the first start. The library counts, so no interrupt can lose a step."""
        return Counts(*(getattr(self._learner, name) for name in Counts._fields))

    @counts.setter
    def counts(self, counts: Iterable[int]) -> None:
        for name, value in zip(Counts._fields, counts, strict=True):
            setattr(self._learner, name, value)

    def _run(self, steps: int, seeds: int | None) -> None:
        learner = self._learner
        learner.steps, learner.seeds = steps, seeds
        learner.weights, learner.state = self._weights.ctypes.data, self.state.ctypes.data
        self._call()

    def _call(self) -> None:
        status = self._learn(self._learner, self._reply)
        if status != _ANSWERED:
            raise ProtocolError(f"the library failed to train: it returned status {status}")
        header = ctypes.string_at(self._header, self._reply.header_size)
        reply = envelope.Reply.FromString(header)
        if reply.HasField("error"):
            raise from_reply(reply.error)
