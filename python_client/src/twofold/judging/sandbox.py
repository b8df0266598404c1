"""The judge's interface to the processes that run a program. Their code is in `runner`."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import itertools
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twofold.errors import SandboxUnavailable
from twofold.judging.runner import LONGEST, READY

# Skips the packages' __init__ modules, which import numpy and more. This keeps the process small,
# and a game's process contains nothing but the program.
_START = """
import sys, types
sys.path[:] = [path for path in sys.path if path]
for name, path in (("twofold", sys.argv[1]), ("twofold.judging", sys.argv[1] + "/judging")):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [path]
from twofold.judging import runner
runner.main(int(sys.argv[2]))
"""
# The time limit in seconds for the start, for each reply and for the end.
_PATIENCE = 60.0
# If `select` returns more seconds late than this, this process was stopped.
_STOPPED = 0.1
_ADDR_NO_RANDOMIZE = 0x0040000
_REMEDY = (
    'the page "Judging programs and chat models" lists its requirements. '
    "--unsafe (unsafe=True) runs the program with limits only"
)
# The remedies for limits that also apply without the sandbox.
_REMEDIES = {
    errno.EAGAIN: "play fewer boards at once (num_envs), or raise `ulimit -u`",
    errno.EMFILE: "play fewer boards at once (num_envs), or raise `ulimit -n`",
    errno.ENOMEM: "play fewer boards at once (num_envs)",
}


@dataclass(eq=False)
class Game:
    """A game's process.

    Attributes:
        number: The game's number in messages to the runner.
        socket: The judge's end of the game's socket. Each message is a question or an answer.
        seconds: The time that the process has spent on answers.
        end: The exit of the process; None until `Sandbox.end` is called.
    """

    number: int
    socket: socket.socket
    seconds: float = 0.0
    end: End | None = None


@dataclass(eq=False)
class Question:
    """A board or another message sent to a game's process, and the answer.

    Attributes:
        text: The board as JSON, or READY to load the program.
        timeout: The time limit for the answer, in seconds.
        answer: The answer; None if it did not arrive in time, b"" if the process has ended.
        sent: The time at which it was sent, on the monotonic clock.
    """

    game: Game
    text: bytes
    timeout: float
    answer: bytes | None = None
    sent: float = 0.0


@dataclass(frozen=True)
class End:
    """The exit of a game's process.

    Attributes:
        status: The exit status, or the negative number of the signal that killed the process.
            SIGXCPU if the process had used up its processor time, even if it ignored this signal.
        cpu_seconds: The processor time used.
    """

    status: int
    cpu_seconds: float


class Sandbox:
    """A program's sandboxed processes, one for each game.

    Args:
        source: The program's source code.
        file: The program's file name in messages.
        memory_mb: The limit on each game process's address space, in megabytes.
        cpu_seconds: The limit on each game process's processor time, in seconds.
        unsafe: Whether to run the program with limits only, without isolation.

    Raises:
        SandboxUnavailable: The sandbox is unavailable on this system.
    """

    def __init__(
        self, source: str, *, file: str, memory_mb: int, cpu_seconds: int, unsafe: bool
    ) -> None:
        if sys.platform != "linux":
            raise SandboxUnavailable("programs are judged on Linux only", missing="Linux")
        if not os.access(sys.executable or "", os.X_OK):  # Python is embedded, or was removed
            raise SandboxUnavailable(
                f"sys.executable is {sys.executable!r}; set it to a Python interpreter",
                missing="a Python interpreter",
            )
        import fcntl  # Windows has no such module

        with _limits_reported():
            self._control, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            # In a daemon, 0, 1 and 2 may be free, but `Popen` needs these numbers.
            with other:
                theirs = socket.socket(fileno=fcntl.fcntl(other, fcntl.F_DUPFD_CLOEXEC, 3))
        self._control.settimeout(_PATIENCE)
        self._made, self._cpu_seconds = 0, cpu_seconds
        package = str(Path(__file__).resolve().parents[1])
        variables = {"PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8", "HOME": "/"}
        if "LD_LIBRARY_PATH" in os.environ:  # this Python may need it
            variables["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
        descriptor = str(theirs.fileno())
        try:
            with theirs, _fixed_addresses(), _limits_reported():
                self._process = subprocess.Popen(
                    [sys.executable, "-s", "-S", "-B", "-c", _START, package, descriptor],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    env=variables,
                    cwd="/",
                    start_new_session=True,
                )
        except BaseException:
            self._control.close()
            raise
        settings: dict[str, Any] = {
            "source": source,
            "file": file,
            "memory_mb": memory_mb,
            "cpu_seconds": cpu_seconds,
            "unsafe": unsafe,
        }
        assert self._process.stdin is not None
        try:
            # If the process has ended, reading its reply reports that.
            with contextlib.suppress(BrokenPipeError), self._process.stdin as pipe:
                pipe.write(json.dumps(settings).encode())
            self._check(self._reply())
        except BaseException:
            self.close()
            raise

    def _reply(self, message: str = "", *descriptors: int) -> bytes:
        """Sends a message, if any, with file descriptors. Returns the runner's next reply."""
        try:
            if message:
                socket.send_fds(self._control, [message.encode()], descriptors)
            reply = self._control.recv(LONGEST)
        except ConnectionError:
            reply = b""
        except TimeoutError:
            raise SandboxUnavailable(
                f"the process that runs the games did not answer within {_PATIENCE:g} s",
                missing="an answer in time",
            ) from None
        if not reply:
            raise SandboxUnavailable("the process that runs the games ended unexpectedly")
        return reply

    def _check(self, reply: bytes) -> None:
        if reply != READY:
            _, number, missing = reply.decode(errors="replace").split(" ", 2)
            raise _unavailable(missing, int(number))

    def begin(self, seed: int) -> Game:
        """Starts the process of a game. The seed is for Python's `random`, not for the game."""
        with _limits_reported():
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        game = Game(self._made, ours)
        self._made += 1
        try:
            with theirs:
                self._check(self._reply(f"begin {game.number} {seed}", theirs.fileno()))
        except BaseException:
            ours.close()
            raise
        return game

    def end(self, game: Game) -> End:
        """Ends the process of a game, even if it has already exited. Returns its exit."""
        if game.end is None:
            game.socket.close()
            code, seconds = self._reply(f"end {game.number}").split()
            status, used = int(code), float(seconds)
            # The kernel kills a process that ignores SIGXCPU one second later.
            if status == -signal.SIGKILL and used > self._cpu_seconds:
                status = -signal.SIGXCPU
            game.end = End(status, used)
        return game.end

    def ask(self, questions: Sequence[Question]) -> None:
        """Sends questions to different games, and stores the answer in each question.

        At most one question per processor that this process may use is open at a time, so that
        games do not compete for processor time. For the same reason, a process that does not answer
        in time is ended.
        """
        waiting = iter(questions)
        with _limits_reported():
            selector = selectors.DefaultSelector()
        with selector:
            for question in itertools.islice(waiting, len(os.sched_getaffinity(0))):
                _send(question, selector)
            while open_ones := [key.data for key in selector.get_map().values()]:
                first = min(each.sent + each.timeout for each in open_ones)
                before = time.monotonic()
                # Python's `select` does not look again after this process was stopped (Ctrl-Z).
                answered = selector.select(max(0.0, first - before)) or selector.select(0)
                now = time.monotonic()
                # After a stop, nobody knows when the answers came, so the wait is not charged.
                answered_by = before if now > first + _STOPPED else now
                done = [each for each in open_ones if now >= each.sent + each.timeout]
                for key, _ in answered:
                    key.data.answer = _receive(key.data.game.socket)
                    done += [key.data] if key.data not in done else []
                for question in done:
                    until = now if question.answer is None else answered_by
                    question.game.seconds += until - question.sent
                    selector.unregister(question.game.socket)
                    if question.answer is None:
                        self.end(question.game)
                    for following in itertools.islice(waiting, 1):
                        _send(following, selector)

    def close(self) -> None:
        """Ends all processes."""
        # Closing is not enough if a process that this one has forked holds a copy of the socket.
        with contextlib.suppress(OSError):  # the runner has ended
            self._control.shutdown(socket.SHUT_RDWR)
        self._control.close()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _unavailable(missing: str, number: int | None) -> SandboxUnavailable:
    remedy = _REMEDIES.get(number or 0, _REMEDY)
    return SandboxUnavailable(f"the sandbox is unavailable: {missing}; {remedy}", missing=missing)


@contextlib.contextmanager
def _limits_reported() -> Iterator[None]:
    """Raises SandboxUnavailable if this process has reached a limit on descriptors or processes."""
    try:
        yield
    except OSError as error:
        raise _unavailable(str(error), error.errno) from None


@contextlib.contextmanager
def _fixed_addresses() -> Iterator[None]:
    """Disables address randomisation for this thread's new processes, if the kernel allows it.

    Otherwise, Python's `id` and the default hashes of objects would differ from run to run.
    """
    personality = ctypes.CDLL(None).personality
    before = personality(ctypes.c_ulong(0xFFFFFFFF))  # reads the value without changing it
    personality(ctypes.c_ulong(before | _ADDR_NO_RANDOMIZE))
    try:
        yield
    finally:
        personality(ctypes.c_ulong(before))


def _send(question: Question, selector: selectors.BaseSelector) -> None:
    question.sent = time.monotonic()
    selector.register(question.game.socket, selectors.EVENT_READ, question)
    # If the process has ended, reading its answer reports that.
    with contextlib.suppress(ConnectionError, BlockingIOError):
        question.game.socket.send(question.text)


def _receive(game: socket.socket) -> bytes:
    """Returns an answer, or b"" if the process has ended."""
    try:
        return game.recv(LONGEST)
    except ConnectionError:
        return b""
