"""The processes that a judged program runs in; nothing of Twofold is imported here but its jail.

`main` goes behind the walls and forks a process for each game, which loads the program and answers
board after board on its own socket. So each game starts from fresh state, and the kernel's limits
hold for each game.

A game's process can do what it likes with its socket, but its bytes are read as that game's next
answers and as nothing else: it can only hurt its own score. The boards and the rules are elsewhere.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import random
import signal
import socket
import sys
import types
from collections.abc import Callable
from typing import Any

from twofold.judging import jail
from twofold.judging.seccomp import Filter

READY = b"ready"
"""The question whether the program can be loaded, and its answer."""
LONGEST = 4096
"""Bytes of the longest answer; more is cut off."""
DIRECTIONS = ("up", "right", "down", "left")

_ACTIONS = {
    **{name: action for action, name in enumerate(DIRECTIONS)},
    **{letter: action for action, letter in enumerate("wdsa")},
    **{str(action): action for action in range(4)},
}
_SOCKET = 3  # the only descriptor of a game's process but the null device


class _Failed(Exception):
    """The program failed; the arguments are the reason's word and its particulars."""


# ---- the process that forks ----------------------------------------------------------------------


# The modules that programs use most: loaded once for all games, and while the shared libraries of
# some are still to be seen.
_PRELOADED = """
    base64 bisect collections copy dataclasses decimal enum fractions functools hashlib heapq
    itertools math operator random re statistics string time typing zlib
"""


def main(control: int) -> None:
    """Serves the judge on a socket until that closes, with the settings from standard input."""
    # A low number, which a game's process closes: the judge may have thousands of descriptors.
    lowest = os.dup(control)
    os.close(control)
    with socket.socket(fileno=lowest) as judge:
        settings = json.load(sys.stdin)
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        for name in _PRELOADED.split():
            with contextlib.suppress(ImportError):  # of a Python built without it
                importlib.import_module(name)
        try:
            system_calls = None if settings["unsafe"] else _walls()
        except (jail.Refused, OSError) as error:
            judge.send(f"refused {error}".encode())
            return
        child = 0 if settings["unsafe"] else os.fork()
        if child == 0:
            judge.send(READY)
            _serve(judge, settings, system_calls)
            return
    os.waitpid(child, 0)


def _walls() -> Filter:
    """Raises the walls around this process; the filter is for the games alone."""
    system_calls = Filter()
    child = os.fork()  # one that tries the filter, because it is for good
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
        raise jail.Refused(f"a filter of system calls: seccomp: {os.strerror(abs(status))}")
    jail.enter()
    return system_calls


def _serve(judge: socket.socket, settings: dict[str, Any], system_calls: Filter | None) -> None:
    """Answers the judge: "begin NUMBER SEED" with a game's socket, and "end NUMBER"."""
    games: dict[int, int] = {}
    while True:
        message, descriptors, _, _ = socket.recv_fds(judge, 256, 1)
        word, *numbers = message.split()
        if not word:
            break
        if word == b"begin":
            number, seed = map(int, numbers)
            try:
                child = os.fork()
            except OSError as error:
                judge.send(f"refused {error}".encode())
                continue
            if child == 0:
                _play(descriptors[0], settings, system_calls, seed)
            games[number] = child
            os.close(descriptors[0])
            judge.send(READY)
        else:
            child = games.pop(int(numbers[0]))
            os.kill(child, signal.SIGKILL)  # nothing happens if it has already ended
            _, status, usage = os.wait4(child, 0)
            seconds = usage.ru_utime + usage.ru_stime
            # Of the same width each time, so that the games after it have the same addresses.
            judge.send(f"{os.waitstatus_to_exitcode(status)} {seconds:012.6f}".encode())
    for child in games.values():
        os.kill(child, signal.SIGKILL)


# ---- a game's process ----------------------------------------------------------------------------


def _play(
    descriptor: int, settings: dict[str, Any], system_calls: Filter | None, seed: int
) -> None:
    """Plays one game and ends the process."""
    status = 1
    try:
        os.setsid()
        os.dup2(descriptor, _SOCKET)
        os.closerange(_SOCKET + 1, 4096)
        jail.die_with_parent()
        jail.limit(settings["memory_mb"], settings["cpu_seconds"])
        if system_calls is not None:
            system_calls.install()
        random.seed(seed)
        _answer(settings["source"], settings["file"])
        status = 0
    finally:
        os._exit(status)


def _answer(source: str, file: str) -> None:
    """Answers each question with an action, or with the reason for which the game has failed."""
    # Kept from what the program may put in their places.
    read, write, loads, describe = os.read, os.write, json.loads, _describe
    strategy: Callable[[Any], object] | None = None
    while True:
        question = read(_SOCKET, 1 << 16)
        if not question:
            return
        try:
            if strategy is None:
                strategy = _load(source, file)
            if question == READY:
                write(_SOCKET, READY)
                continue
            answer = b"%d" % _action(strategy(loads(question)))
        except _Failed as failed:
            answer = "!{}\n{}".format(*failed.args).encode(errors="replace")
        except MemoryError as error:
            error.__traceback__ = None  # frees what the frames hold
            answer = b"!memory\nran out of memory"
        except BaseException as error:
            answer = b"!raised\n" + describe(error, source, file).encode(errors="replace")
        write(_SOCKET, answer[:LONGEST])


def _load(source: str, file: str) -> Callable[[Any], object]:
    """Returns the function `strategy` of a program."""
    try:
        # Without the future statements of this module.
        code = compile(source.removeprefix("\ufeff"), file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:  # ValueError: it holds a zero byte
        number = getattr(error, "lineno", None)
        line = f"line {number}: " if number else ""
        raise _Failed("syntax", f"{line}{getattr(error, 'msg', error)}") from None
    module = types.ModuleType("strategy")
    sys.modules["strategy"] = module  # dataclasses look their module up there
    exec(code, vars(module))
    strategy = vars(module).get("strategy")
    if not callable(strategy):
        raise _Failed("no_function", "there is no function strategy(board)")
    return strategy  # type: ignore[no-any-return]


def _action(value: object) -> int:
    """Returns a direction's number, from a word, a letter of W D S A, or 0 ... 3."""
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
    """Describes an exception of the program, with the last line of the program's own code."""
    text, line = "an exception", 0
    # Its class, its __str__ and its traceback may be the program's, too.
    with contextlib.suppress(BaseException):
        text = _cut(type(error).__name__, 100)
        text += _cut(f": {error}", 200)
        if isinstance(error, ModuleNotFoundError):
            text += "; only Python's own library can be imported"
    with contextlib.suppress(BaseException):
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == file:
                line = trace.tb_lineno
            trace = trace.tb_next
    # The ends of lines that Python has; `splitlines` knows more.
    lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if not 0 < line <= len(lines):
        return text
    return f"{text} (line {line}: {_cut(lines[line - 1].strip(), 80)})"


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
