"""A proxy between client and server that behaves like a bad network."""

import contextlib
import heapq
import itertools
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

import zmq

DROP, DELAY, DUPLICATE, REORDER = "drop", "delay", "duplicate", "reorder"
KINDS = (DROP, DELAY, DUPLICATE, REORDER)


class FaultProxy:
    """A proxy that forwards messages to a server, with random faults.

    A message in either direction has a fault with probability `rate`. The fault is one of `kinds`:
    the proxy drops the message, delays it by 1 to 40 ms, sends it twice (the second time up to
    30 ms later), or holds it back until a later message has overtaken it. `seed` determines the
    faults.

    Attributes:
        endpoint: The address for clients.
        counts: The number of messages with each fault and without a fault ("passed"), and the
            number of cuts ("cut").
    """

    def __init__(
        self, server: str, *, rate: float = 0.0, kinds: Sequence[str] = KINDS, seed: int = 0
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.rate = rate
        self._server = server
        self._kinds = kinds
        self._random = random.Random(seed)
        self._directory = tempfile.TemporaryDirectory(prefix="twofold-proxy-", dir="/tmp")
        self.endpoint = f"ipc://{Path(self._directory.name) / 's'}"
        # (when, number, direction, frames); direction 0 is to the server.
        self._waiting: list[tuple[float, int, int, list[bytes]]] = []
        self._held: list[list[list[bytes]]] = [[], []]
        self._numbers = itertools.count()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._is_over = False
        self._is_cut = False
        self._open()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def __enter__(self) -> "FaultProxy":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_over = True
        self._thread.join()
        self._context.destroy(linger=0)
        self._directory.cleanup()

    def cut(self) -> None:
        """Breaks all connections; messages in flight are lost."""
        self._is_cut = True

    def switch_to(self, server: str) -> None:
        """Connects the proxy to another server; messages in flight are lost."""
        self._server = server
        self.cut()

    def passes_another(self) -> Callable[[], bool]:
        """Returns a function that returns True once another message has passed without a fault."""
        before = self.counts["passed"]
        return lambda: self.counts["passed"] > before

    def _open(self) -> None:
        self._front = self._context.socket(zmq.ROUTER)
        self._back = self._context.socket(zmq.DEALER)
        self._front.bind(self.endpoint)
        self._back.set(zmq.RECONNECT_IVL, 5)
        self._back.connect(self._server)

    def _reopen(self) -> None:
        self._is_cut = False
        for socket in (self._front, self._back):
            socket.close(linger=0)
        self._waiting.clear()
        self._held = [[], []]
        # libzmq unbinds on another thread.
        for _ in range(1000):
            with contextlib.suppress(zmq.ZMQError):
                self._open()
                break
            for socket in (self._front, self._back):
                socket.close(linger=0)
            time.sleep(0.001)
        self.counts["cut"] += 1

    def _run(self) -> None:
        while not self._is_over:
            if self._is_cut:
                self._reopen()
            wait = 20.0
            if self._waiting:
                wait = min(wait, 1000 * max(0.0, self._waiting[0][0] - time.monotonic()))
            ready = zmq.select([self._front, self._back], [], [], wait / 1000)[0]
            for direction, socket in enumerate((self._front, self._back)):
                if socket in ready:
                    self._pass_on(direction, socket.recv_multipart())
            while self._waiting and self._waiting[0][0] <= time.monotonic():
                _, _, direction, frames = heapq.heappop(self._waiting)
                self._send(direction, frames)

    def _pass_on(self, direction: int, frames: list[bytes]) -> None:
        fault = None
        if self._random.random() < self.rate:
            fault = self._random.choice(self._kinds)
        self.counts[fault or "passed"] += 1
        if fault == DROP:
            return
        if fault == DELAY:
            self._later(self._random.uniform(0.001, 0.04), direction, frames)
            return
        if fault == REORDER:
            self._held[direction].append(frames)
            return
        self._send(direction, frames)
        if fault == DUPLICATE:
            self._later(self._random.uniform(0, 0.03), direction, frames)
        held, self._held[direction] = self._held[direction], []
        for overtaken in held:
            self._send(direction, overtaken)

    def _later(self, seconds: float, direction: int, frames: list[bytes]) -> None:
        entry = (time.monotonic() + seconds, next(self._numbers), direction, frames)
        heapq.heappush(self._waiting, entry)

    def _send(self, direction: int, frames: list[bytes]) -> None:
        # Like a network, it never waits for a receiver.
        with contextlib.suppress(zmq.Again):
            (self._back, self._front)[direction].send_multipart(frames, zmq.DONTWAIT)
