"""The processes that run a judged program. They import only `jail` and `seccomp` from Twofold.

`main` enters the sandbox and forks a process for each game. The game's process loads the program,
receives boards on its own socket, and answers each board with an action. Therefore, each game
starts from a fresh state, and the kernel's limits apply to each game separately.

The judge keeps the boards and applies the rules. It treats everything that a game's process writes
to its socket as that game's next answer, so a misbehaving program can only hurt its own score.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import random
import select
import signal
import socket
import sys
import types
from collections.abc import Callable
from typing import Any

from twofold.judging import jail
from twofold.judging.seccomp import Filter

READY = b"ready"
"""The message that requests loading the program, and the reply after the program is loaded."""
LONGEST = 4096
"""The maximum size of an answer, in bytes. Longer answers are cut off."""
DIRECTIONS = ("up", "right", "down", "left")

_ACTIONS = {
    **{name: action for action, name in enumerate(DIRECTIONS)},
    **{letter: action for action, letter in enumerate("wdsa")},
    **{str(action): action for action in range(4)},
}
_SOCKET = 3  # a game's other open descriptors all refer to the null device


class _Failed(Exception):
    """A failure of the program. The arguments are a one-word reason and the details."""


# ---- the process that forks ----------------------------------------------------------------------


# The modules that programs use most. They are loaded once for all games, before the sandbox hides
# the shared libraries that some of them need.
_PRELOADED = """
    base64 bisect collections copy dataclasses decimal enum fractions functools hashlib heapq
    itertools math operator random re statistics string time typing zlib
"""


def main(control: int) -> None:
    """Executes the judge's messages until the socket `control` closes or the judge ends.

    The settings come from standard input.
    """
    # The judge may have been started with these signals ignored, as by `trap '' CHLD`.
    for number in (signal.SIGCHLD, signal.SIGXCPU):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    # A process that the judge has forked may keep the judge's end of the socket open.
    parent: list[int] = []
    with contextlib.suppress(AttributeError, OSError):  # an old Python or kernel
        parent.append(os.pidfd_open(os.getppid()))
    # A low number, so that a game's process closes it: the judge may have thousands of descriptors.
    lowest = os.dup(control)
    os.close(control)
    with socket.socket(fileno=lowest) as judge:
        settings = json.load(sys.stdin)
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        for name in _PRELOADED.split():
            with contextlib.suppress(ImportError):  # this Python may be built without the module
                importlib.import_module(name)
        jail.end_first()  # before the judge, because no limit counts the games' page tables
        try:
            system_calls = None if settings["unsafe"] else _walls()
            child = 0 if settings["unsafe"] else os.fork()
        except (jail.Refused, OSError) as error:
            _refuse(judge, error)
            return
        if child == 0:
            if not settings["unsafe"]:
                jail.die_with_parent()
            judge.send(READY)
            _serve(judge, parent, settings, system_calls)
            return
    os.waitpid(child, 0)


def _refuse(judge: socket.socket, error: Exception) -> None:
    """Replies with "refused ERRNO MESSAGE". ERRNO is 0 if a part of the sandbox is unavailable."""
    judge.send(f"refused {getattr(error, 'errno', None) or 0} {error}".encode())


def _walls() -> Filter:
    """Moves this process into the sandbox. Returns the seccomp filter for the games' processes."""
    system_calls = Filter()
    child = os.fork()  # tries the filter, which could not be removed from this process
    if child == 0:
        status = 1
        try:
            jail.drop_privileges()
            system_calls.install()
            status = 0
        except OSError as error:
            status = error.errno or 1
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status != 0:
        raise jail.Refused(f"a system-call filter: seccomp: {os.strerror(abs(status))}")
    jail.enter()
    return system_calls


def _serve(
    judge: socket.socket, parent: list[int], settings: dict[str, Any], system_calls: Filter | None
) -> None:
    """Executes the judge's messages: "begin NUMBER SEED" with a game's socket, and "end NUMBER".

    `parent` contains the descriptor that becomes readable when the judge's process ends.
    """
    games: dict[int, int] = {}
    own = os.getpid()
    watched: list[socket.socket | int] = [judge, *parent]
    while select.select(watched, [], [])[0] == [judge]:
        message, descriptors, _, _ = socket.recv_fds(judge, 256, 1)
        word, *numbers = message.split()
        if not word:
            break
        if word == b"begin":
            number, seed = map(int, numbers)
            try:
                child = os.fork()
            except OSError as error:
                _refuse(judge, error)
                continue
            if child == 0:
                _play(descriptors[0], settings, system_calls, seed, own)
            games[number] = child
            os.close(descriptors[0])
            judge.send(READY)
        else:
            child = games.pop(int(numbers[0]))
            os.kill(child, signal.SIGKILL)  # nothing happens if it has already ended
            _, status, usage = os.wait4(child, 0)
            seconds = usage.ru_utime + usage.ru_stime
            # A fixed width gives later games the same memory addresses in every run.
            judge.send(f"{os.waitstatus_to_exitcode(status)} {seconds:012.6f}".encode())
    for child in games.values():
        os.kill(child, signal.SIGKILL)


# ---- a game's process ----------------------------------------------------------------------------


def _play(
    descriptor: int, settings: dict[str, Any], system_calls: Filter | None, seed: int, parent: int
) -> None:
    """Plays one game, then ends the process. `parent` is the process that forked this one."""
    status = 1
    try:
        os.setsid()
        os.dup2(descriptor, _SOCKET)
        os.closerange(_SOCKET + 1, 4096)
        jail.die_with_parent()
        if os.getppid() != parent:  # it ended before the call above
            return
        jail.limit(settings["memory_mb"], settings["cpu_seconds"])
        if system_calls is not None:
            jail.forbid_dumps()  # the filter keeps the program from allowing them again
            system_calls.install()
        random.seed(seed)
        _answer(settings["source"], settings["file"])
        status = 0
    finally:
        os._exit(status)


def _answer(source: str, file: str) -> None:
    """Answers each board with an action, or with the reason why the program failed."""
    # Local names, because the program may replace these functions in their modules.
    read, write, loads, describe = os.read, os.write, json.loads, _describe
    strategy: Callable[[Any], object] | None = None
    while True:
        try:
            question = read(_SOCKET, 1 << 16)  # may find that the program has taken all memory
            if not question:
                return
            if strategy is None:
                strategy = _load(source, file)
            if question == READY:
                write(_SOCKET, READY)
                continue
            answer = b"%d" % _action(strategy(loads(question)))
        except _Failed as failed:
            answer = "!{}\n{}".format(*failed.args).encode(errors="replace")
        except MemoryError as error:
            error.__traceback__ = None  # frees the objects of the frames
            answer = b"!memory\nran out of memory"
        except BaseException as error:
            answer = b"!raised\n" + describe(error, source, file).encode(errors="replace")
        write(_SOCKET, answer[:LONGEST])


def _load(source: str, file: str) -> Callable[[Any], object]:
    """Runs a program's source code, and returns the function `strategy` that it defines."""
    try:
        # `dont_inherit`: without this module's future statements.
        code = compile(source.removeprefix("\ufeff"), file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:  # ValueError: the source contains a zero byte
        number = getattr(error, "lineno", None)
        line = f"line {number}: " if number else ""
        raise _Failed("syntax", f"{line}{getattr(error, 'msg', error)}") from None
    module = types.ModuleType("strategy")
    sys.modules["strategy"] = module  # `dataclass` looks up a class's module there
    exec(code, vars(module))
    strategy = vars(module).get("strategy")
    if not callable(strategy):
        raise _Failed("no_function", "the program defines no function strategy(board)")
    return strategy  # type: ignore[no-any-return]


def _action(value: object) -> int:
    """Converts a program's answer to the number of a direction, 0 ... 3.

    The answer is a direction's name, one of the letters W, D, S and A, or a number 0 ... 3.
    """
    if isinstance(value, str):
        text = str.__str__(value)
        action = _ACTIONS.get(text.strip().lower(), -1) if len(text) < 100 else -1
        shown = repr(text[:40]) + ("…" if len(text) > 40 else "")
    elif isinstance(value, int) and not isinstance(value, bool):
        action = int.__index__(value)
        shown = str(action) if action.bit_length() < 64 else "a large integer"
    else:
        action, shown = -1, f"a value of type {type(value).__name__}"
    if not 0 <= action < 4:
        raise _Failed("not_a_direction", f"returned {shown}")
    return action


def _describe(error: BaseException, source: str, file: str) -> str:
    """Describes an exception that the program raised, and quotes the line that led to it."""
    text, line = "an exception", 0
    # The program may have defined its class, its __str__ and its traceback.
    with contextlib.suppress(BaseException):
        text = _cut(type(error).__name__, 100)
        text += _cut(f": {error}", 200)
        if isinstance(error, ModuleNotFoundError):
            text += "; only Python's standard library can be imported"
    with contextlib.suppress(BaseException):
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == file:
                line = trace.tb_lineno
            trace = trace.tb_next
    # Python's source has these line ends; `splitlines` would also split at others.
    lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if not 0 < line <= len(lines):
        return text
    return f"{text} (line {line}: {_cut(lines[line - 1].strip(), 80)})"


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
