"""A loop like a training loop, with fixed actions and a hash of each step's results."""

import contextlib
import os
import signal
import threading
import time
import types
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from games import GAMES
from servers import PATIENCE, wait_until

import twofold

BOARDS = 16
_PACKAGE = str(Path(twofold.__file__).parent)


def make(endpoint: str | None, game: str = "Game2048", **keywords: Any) -> twofold.TwofoldVectorEnv:
    """Makes a batch whose episodes have at most 60 steps."""
    keywords = {"max_episode_steps": 60, "endpoint": endpoint, "timeout": PATIENCE} | keywords
    return GAMES[game](BOARDS, **keywords)


@contextlib.contextmanager
def hurried(*batches: twofold.TwofoldVectorEnv) -> Iterator[None]:
    """Sets the timeout to 0.3 s inside the block, for calls that will never get a reply."""
    sessions = [envs._session for envs in batches]
    before = [session._timeout for session in sessions]
    for session in sessions:
        session._timeout = 0.3
    try:
        yield
    finally:
        for session, timeout in zip(sessions, before, strict=True):
            session._timeout = timeout


def actions(step: int, choices: int = 4) -> Any:
    """Returns the actions for a step; the same step always has the same actions."""
    return np.random.default_rng(step).integers(0, choices, BOARDS)


def number(results: tuple[Any, ...]) -> int:
    """Returns a hash of the results of a reset or step."""
    *arrays, infos = results
    return zlib.crc32(b"".join([*(np.asarray(array).tobytes() for array in arrays), flat(infos)]))


def flat(infos: Any) -> bytes:
    """Returns the bytes of all arrays in infos, including the final infos."""
    parts = []
    for name in sorted(infos):
        value = infos[name]
        if isinstance(value, dict):
            parts.append(flat(value))
        elif value.dtype == object:
            parts += [item.tobytes() for item in value if item is not None]
        else:
            parts.append(value.tobytes())
    return b"".join(parts)


def one_step(envs: twofold.TwofoldVectorEnv, step: int) -> int:
    """Plays one step and returns the hash of its results. Every 400th step is a reset.

    Every second reset has a seed, starting with the first reset.
    """
    if step % 400 == 0:
        return number(envs.reset(seed=step or 7) if step % 800 == 0 else envs.reset())
    return number(envs.step(actions(step, envs.num_actions)))


def play(envs: twofold.TwofoldVectorEnv, steps: int, start: int = 0) -> list[int]:
    """Plays the steps `start` to `steps` - 1. Returns the hash of each step's results."""
    return [one_step(envs, step) for step in range(start, steps)]


def undisturbed(endpoint: str | None, steps: int, game: str = "Game2048") -> list[int]:
    """Returns the hashes of a run without faults, which any other run must reproduce."""
    envs = make(endpoint, game)
    try:
        return play(envs, steps)
    finally:
        envs.close()


def assert_same(left: Any, right: Any) -> None:
    """Checks that two rollouts are equal."""
    for name in (
        *("observations", "action_masks", "actions", "rewards"),
        *("terminations", "truncations", "valid"),
    ):
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name), err_msg=name)
    assert left.infos.keys() == right.infos.keys()
    for name, array in left.infos.items():
        np.testing.assert_array_equal(array, right.infos[name], err_msg=name)
    assert (left.finals is None) == (right.finals is None)
    if left.finals is not None:
        for name in ("steps", "lanes", "observations"):
            np.testing.assert_array_equal(getattr(left.finals, name), getattr(right.finals, name))
        assert left.finals.infos.keys() == right.finals.infos.keys()
        for name, array in left.finals.infos.items():
            np.testing.assert_array_equal(array, right.finals.infos[name], err_msg=name)


def notes_of(error: BaseException) -> list[str]:
    """Returns an exception's notes, which mypy does not know, because Python 3.10 lacks them."""
    return list(getattr(error, "__notes__", []))


def interrupt(*_: object) -> NoReturn:
    """Raises KeyboardInterrupt. Tests replace functions of the package with it."""
    raise KeyboardInterrupt


def interrupt_when(condition: Callable[[], bool]) -> None:
    """Interrupts the main thread like Ctrl-C, as soon as the condition holds."""

    def run() -> None:
        wait_until(condition)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=run).start()


class Interrupts:
    """Simulates Ctrl-C at random moments, but only while the package's own code runs.

    At other moments, the interrupt would hit the loop itself, which no environment can protect.

    Args:
        seed: The seed of the random moments.
        longest: The maximum number of seconds between the first moments.
    """

    def __init__(self, seed: int, longest: float) -> None:
        self._random = np.random.default_rng(seed)
        self._longest, self._growth = longest, longest / 100

    def __enter__(self) -> "Interrupts":
        # A timer in the kernel, so that Python does not choose the moments of the signal.
        self._started = time.monotonic()
        self._timer = signal.setitimer(signal.ITIMER_REAL, 0)
        self._previous = signal.signal(signal.SIGALRM, self._handle)
        self._again()
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._previous)
        # pytest's own timeout uses it too.
        remaining, interval = self._timer
        if remaining:
            spent = time.monotonic() - self._started
            signal.setitimer(signal.ITIMER_REAL, max(0.001, remaining - spent), interval)

    def _again(self) -> None:
        # Slightly rarer each time: in the end, even a slow processor executes a call between two.
        self._longest += self._growth
        signal.setitimer(signal.ITIMER_REAL, float(self._random.uniform(1e-5, self._longest)))

    def _handle(self, _: int, frame: types.FrameType | None) -> None:
        try:
            self._interrupt(frame)
        finally:
            # Not earlier, because on a slow processor the next signal would come within this one.
            self._again()

    def _interrupt(self, frame: types.FrameType | None) -> None:
        allowed = self._timer[0]
        if allowed and time.monotonic() - self._started > allowed:
            raise TimeoutError("the test takes too long")
        codes = []
        while frame is not None:
            codes.append(frame.f_code)
            frame = frame.f_back
        # Python drops the exceptions of everything that a destructor calls.
        if not any(code.co_name in ("__del__", "make") for code in codes) and any(
            code.co_filename.startswith(_PACKAGE) for code in codes
        ):
            raise KeyboardInterrupt
