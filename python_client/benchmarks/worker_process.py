"""Starts and controls the process of a contestant, which runs `peers/worker.py`."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

# The seconds for start and warm-up; jax compiles for a minute on a busy machine.
START_SECONDS = 300.0
# A slice may take this many times its planned time, plus this many seconds, because one step of
# 65,536 boards takes a slow peer a second.
SLACK_FACTOR, SLACK_SECONDS = 10.0, 60.0


class WorkerFailed(Exception):
    """The error for a contestant that ended, hung or returned garbage; the message says which."""


class WorkerProcess:
    """One contestant with N boards, in a separate process group.

    Args:
        command: The program and its arguments. The last argument is N.
        log: The file for the process's standard error.
    """

    def __init__(self, command: list[str], log: Path) -> None:
        self._log = log
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        self._received = b""

    def ready(self) -> dict[str, str]:
        """Waits until the contestant is warmed up, and returns its details."""
        details: dict[str, str] = self._answer(START_SECONDS, "at its start")["details"]
        return details

    def run(self, seconds: float, work: int = 0) -> dict[str, float]:
        """Makes the contestant measure one slice, with `work` network layers before each step."""
        with contextlib.suppress(BrokenPipeError):  # reported when the answer is missing
            self._input.write(f"run {seconds} {work}\n".encode())
            self._input.flush()
        return self._answer(seconds * SLACK_FACTOR + SLACK_SECONDS, "in a slice")

    def stop(self) -> None:
        """Asks the process to end, and kills it if it does not."""
        with contextlib.suppress(OSError):
            self._input.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._kill()
        self._output.close()

    def _answer(self, limit: float, when: str) -> dict[str, Any]:
        deadline = time.monotonic() + limit
        with selectors.DefaultSelector() as selector:
            selector.register(self._output, selectors.EVENT_READ)
            while b"\n" not in self._received:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    self._kill()
                    raise WorkerFailed(f"killed {when}: no answer for {limit:.0f} s")
                read = os.read(self._output.fileno(), 65536)
                if not read:
                    self._kill()
                    raise WorkerFailed(f"ended {when}: {self._last_words()}")
                self._received += read
        line, _, self._received = self._received.partition(b"\n")
        try:
            answer: dict[str, Any] = json.loads(line)
        except ValueError:
            self._kill()
            raise WorkerFailed(f"answered {line[:80]!r} {when}") from None
        return answer

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[-1][:200] if lines else f"status {self._process.returncode}, nothing said"
