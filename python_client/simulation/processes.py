"""Client processes in the simulated world. Each process is a greenlet; one runs at a time.

World.next                  greenlet.switch
┌──► the next event's client ──────────────────► the client runs: its calls, the whole package
│                                                                 │ waits for a reply, sleeps
└─────────────────────────────────────────────────────────────────┘
World.wake, and switch back
"""

from __future__ import annotations

import contextlib
import math
import random
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, Protocol

import zmq
from greenlet import greenlet
from pacing import Pace
from world import INTERRUPT, KILL, VIOLATED, Faults, Report, World

from twofold.client import stateless
from twofold.client.curve import CurveKeys, HandshakeWatch
from twofold.client.surroundings import SYSTEM, Surroundings, surroundings

ENDPOINT = "tcp://simulated:1"
"""The only address. The world decides which server gets a request."""

# After these faults a server may have lost a session. The session may even have restarted, from an
# older file or a delayed duplicate of its create request.
_LOSING_FAULTS = {
    *("killServer", "stopServer", "secondServer", "powerLoss"),
    *("tornWrite", "diskFull", "flippedBit"),
}
# The nanoseconds that clients may take to finish after the last fault, and that a run may take.
_LAST_CALLS = 300 * 10**9
_MAX_RUN = 24 * 3600 * 10**9
# The nanoseconds that servers may take to finish once no client waits for them.
_LAST_JOBS = 60 * 10**9
# The maximum seconds until a killed process starts again.
_RESTART_SECONDS = 3.0


class Killed(BaseException):
    """The exception that ends the greenlet of a killed process."""


class Violation(BaseException):
    """The error for wrong behaviour of the system under test.

    Not an Exception, because the package suppresses those when it closes a session.
    """


class Program(Protocol):
    """A client. When a process is killed, a new process calls `run` again."""

    def run(self, process: Process) -> None:
        """Uses the system until the run is over, then closes all sessions."""


class Simulation:
    """One run of the simulated world with its client processes.

    Args:
        seed: The seed of all random choices.
        steps: The total number of operations by all clients, after which the faults end and the
            clients finish.
        faults: The faults to leave out.
        programs: The clients.
        log: Called with a line for each event; None for no log.
    """

    def __init__(
        self,
        seed: int,
        steps: int,
        faults: Faults,
        programs: list[Program],
        log: Callable[[str], None] | None = None,
    ) -> None:
        self.seed, self.log = seed, log
        self.world = World(seed, len(programs), faults)
        self.time, self.seconds = 0, 0.0
        self.is_calm = False
        self._steps_left = steps
        self._programs = programs
        self._processes: dict[int, Process] = {}
        self._greenlets = [greenlet(self._live) for _ in programs]
        self._unfinished = dict.fromkeys(range(len(programs)), "nothing yet")
        self._ignored: str | None = None

    def run(self) -> Report:
        """Executes the run to its end."""
        for number in self._unfinished:
            self.world.wake(number, 0)
        with self._noting_ignored():
            violation = self._loop()
        violation = violation or self._ignored
        if violation is None and self.world.report().violation is None:
            self._settle()
        report = self.world.report()
        report.violation = report.violation or violation
        return report

    def destroy(self) -> None:
        """Ends all client processes, and frees the simulated world."""
        self._programs = []
        for process in self._processes.values():
            process.is_dead = True
        for one in self._greenlets:
            if one:
                one.throw(Killed)
        self.world.destroy()
        # The connections of `twofold.rules` belong to the process, not to an environment.
        for key in [*stateless._idle]:
            if key[2] is not SYSTEM:
                del stateless._idle[key]

    def _loop(self) -> str | None:
        world, greenlets, last = self.world, self._greenlets, _MAX_RUN
        try:
            while self._unfinished:
                client = world.next()
                if client < 0:
                    return None if client == VIOLATED else "waits forever: " + self._waiting()
                self.time = world.now()
                self.seconds = self.time * 1e-9
                was_calm = self.is_calm
                if self.time > last:
                    if was_calm:
                        return "takes too long to finish: " + self._waiting()
                    self.calm()
                greenlets[client].switch(client)
                if self.is_calm and not was_calm:
                    last = self.time + _LAST_CALLS
        except Violation as violation:
            return str(violation)
        except Exception as error:
            # Any exception becomes a violation, which is reported with the seed. Its first line
            # says what happened, because reports of planted defects show only that line.
            return f"{error!r}\n" + "".join(traceback.format_exception(error))
        return None

    @contextlib.contextmanager
    def _noting_ignored(self) -> Iterator[None]:
        """Keeps the first violation in a finalizer, which Python ignores."""
        hook = sys.unraisablehook

        def note(error: sys.UnraisableHookArgs) -> None:
            if isinstance(error.exc_value, Violation):
                self._ignored = self._ignored or str(error.exc_value)
            else:
                hook(error)

        sys.unraisablehook = note
        try:
            yield
        finally:
            sys.unraisablehook = hook

    def _settle(self) -> None:
        """Lets servers finish the remaining requests. Checks that no sessions are left."""
        for client in range(len(self._greenlets)):
            self.world.kill_client(client)
        self.world.wake(0, self.time + _LAST_JOBS)
        if self.world.next() >= 0:
            self.world.settle()

    def _waiting(self) -> str:
        return "; ".join(f"client {client} in {call}" for client, call in self._unfinished.items())

    def _live(self, client: int) -> None:
        """Runs a client's processes, one after another."""
        generation = 0
        while not self._live_once(client, generation):
            generation += 1
            self.say(client, "is killed")
            try:
                pause = random.Random(f"{self.seed} {client} {generation} pause").random()
                self._sleep(client, _RESTART_SECONDS * pause)
            except Killed:
                return

    def _live_once(self, client: int, generation: int) -> bool:
        """Runs one process. Returns True if the program or the run has ended, else False."""
        process = self._processes[client] = Process(self, client, generation)
        before = surroundings.set(process.surroundings)
        try:
            self._programs[client].run(process)
            del self._unfinished[client]
            return True
        except Killed:
            return not self._programs
        except Violation:
            if not process.is_dead:
                raise
            return not self._programs
        finally:
            surroundings.reset(before)
            process.is_dead = True

    def _sleep(self, client: int, seconds: float) -> None:
        end = self.time + math.ceil(seconds * 1e9)
        while self.time < end and self._programs:
            self.pause(client, end)

    def pause(self, client: int, until: int) -> None:
        """Lets other clients run until the time `until`, or until this client gets a message."""
        self.world.wake(client, max(until, self.time + 1))
        parent = self._greenlets[client].parent
        assert parent is not None
        parent.switch()

    def say(self, client: int, text: str) -> None:
        """Adds a line to the log."""
        if self.log is not None:
            self.log(f"{self.time} {client} {text}")

    def calls(self, client: int, call: str) -> None:
        """Records that a client begins an operation. Ends the faults after the last step."""
        self._unfinished[client] = call
        if not self.is_calm:
            self._steps_left -= 1
            if self._steps_left < 0:
                self.calm()

    def may_lose_sessions(self) -> bool:
        """Returns True after a fault or an idle timeout that may have ended sessions."""
        report = self.world.report()
        was_lost = any(report.by_kind[fault] for fault in _LOSING_FAULTS)
        return was_lost or report.marks["idleExpired"] > 0

    def calm(self) -> None:
        """Ends all faults, so that clients can finish."""
        self.is_calm = True
        self.world.calm()
        if self.log is not None:
            self.log(f"{self.time} calm")


class Process:
    """One process of a client, with simulated time, random bytes and connections.

    Args:
        simulation: The run.
        client: The client's number.
        generation: The number of earlier processes of this client, which were killed.

    Attributes:
        random: The source of the program's choices.
        is_dead: Whether the process was killed. A killed process can't affect the simulated world.
        pace: The check on when the current call repeats its requests.
    """

    def __init__(self, simulation: Simulation, client: int, generation: int) -> None:
        self.simulation, self.client = simulation, client
        self.world = simulation.world
        name = f"{simulation.seed} {client} {generation}"
        self.random = random.Random(name)
        self.is_dead = False
        self.pace = Pace()
        self.surroundings = Surroundings(
            now=self._now,
            sleep=self._sleep,
            random_bytes=random.Random(name + " ids").randbytes,
            connect=self._connect,
        )

    def say(self, text: str) -> None:
        """Adds a line to the log."""
        self.simulation.say(self.client, text)

    def mark(self, name: str) -> None:
        """Counts an event (mark), such as "recovered". A campaign checks that marks occur."""
        if not self.is_dead:
            self.world.mark(name)

    def idle(self, seconds: float) -> None:
        """Waits for `seconds`. A fault may kill the process during the wait."""
        self.check_life()
        self.simulation._sleep(self.client, seconds)
        self.check_life()

    def check_life(self) -> None:
        """Kills this process if the world chooses this fault now."""
        if self.is_dead:
            raise Killed
        if self.world.fault(KILL):
            self.is_dead = True
            self.world.kill_client(self.client)
            raise Killed

    def interrupt(self) -> None:
        """Raises KeyboardInterrupt, as Ctrl-C would, if the world chooses this fault now."""
        if not self.is_dead and self.world.fault(INTERRUPT):
            self.say("is interrupted")
            self.pace.interrupted()
            raise KeyboardInterrupt

    def _now(self) -> float:
        self.interrupt()
        return self.simulation.seconds

    def _sleep(self, seconds: float) -> None:
        self.interrupt()
        if not self.is_dead:
            self.simulation._sleep(self.client, seconds)

    def _connect(
        self, endpoint: str, keys: CurveKeys | None, watch: HandshakeWatch
    ) -> SimulatedSocket:
        if self.is_dead:
            raise zmq.ZMQError(zmq.ENOTSOCK)
        self.interrupt()
        return SimulatedSocket(self)


def _refuse(errno: int) -> NoReturn:
    raise zmq.ZMQError(errno)


class SimulatedSocket:
    """A simulated REQ socket, with the methods of pyzmq's socket that the package uses.

    Args:
        process: The process that owns the socket.
    """

    def __init__(self, process: Process) -> None:
        self._process, self._simulation = process, process.simulation
        self._world, self._client = process.world, process.client
        self._number = self._world.open(process.client)
        # The header of a request whose payload has not been sent yet.
        self._header: bytes | None = None
        self._awaits_reply = False
        self._frames: list[bytes] = []
        # The package sets the timeout before each request's first wait, so that it never waits
        # forever.
        self._timeout = 0
        self._is_open = True

    def send(self, data: bytes, flags: int = 0) -> None:
        """Adds a frame to the request. A frame without SNDMORE completes and sends the request."""
        self._check(not self._awaits_reply)
        if flags & zmq.SNDMORE:
            if self._header is not None:
                _refuse(zmq.EFSM)  # a third frame, which the package never sends
            self._header = data
            return
        process = self._process
        process.check_life()
        process.interrupt()
        header, payload = (data, None) if self._header is None else (self._header, data)
        self._header, self._awaits_reply = None, True
        if self._simulation.log is not None:
            process.say(f"sends {len(header)} {None if payload is None else len(payload)}")
        problem = process.pace.problem(header, payload, self._simulation.seconds)
        if problem is not None:
            raise Violation(problem)
        self._world.send(self._number, header, payload)

    def recv(self) -> bytes:
        """Returns the next frame; raises zmq.Again after RCVTIMEO."""
        self._check(self._awaits_reply)
        if not self._frames:
            self._wait()
        return self._take()

    def recv_into(self, buffer: Any) -> int:
        """Writes as much of the next frame as fits into `buffer`. Returns the frame's size."""
        frame = self.recv()
        room = memoryview(buffer)
        size = min(len(frame), len(room))
        room[:size] = frame[:size]
        return len(frame)

    def get(self, option: int) -> int:
        """Returns 1 if the message that `recv` began has more frames, otherwise 0."""
        self._check()
        if option != zmq.RCVMORE:
            _refuse(zmq.EINVAL)
        return int(bool(self._frames))

    def set(self, option: int, value: int) -> None:
        """Sets RCVTIMEO, the time that `recv` waits, in milliseconds."""
        self._check()
        if option != zmq.RCVTIMEO:
            _refuse(zmq.EINVAL)
        self._timeout = value

    def close(self) -> None:
        """Closes the socket. Safe to call twice."""
        if self._is_open:
            self._is_open = False
            if not self._process.is_dead:
                self._world.close(self._number)

    def _check(self, is_its_turn: bool = True) -> None:
        if not self._is_open or self._process.is_dead:
            _refuse(zmq.ENOTSOCK)
        if not is_its_turn:
            _refuse(zmq.EFSM)

    def _wait(self) -> None:
        """Waits for the reply."""
        process, simulation = self._process, self._simulation
        process.interrupt()
        until = simulation.time + self._timeout * 1_000_000
        while (frames := self._world.receive(self._number)) is None:
            if simulation.time >= until:
                raise zmq.Again
            simulation.pause(self._client, until)
            process.check_life()
            process.interrupt()
        self._frames = frames
        process.pace.answered(frames[0], simulation.seconds)
        if simulation.log is not None:
            process.say(f"receives {' '.join(str(len(frame)) for frame in frames)}")

    def _take(self) -> bytes:
        frame = self._frames.pop(0)
        self._awaits_reply = bool(self._frames)
        return frame
