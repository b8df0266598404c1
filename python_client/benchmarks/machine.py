"""The machine, its load and the software versions, for benchmark reports."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import zmq
from figures import REPOSITORY, processor

from twofold.client.lookup import find_program


def describe() -> dict[str, Any]:
    """Returns a description of the machine and the software versions."""
    program = find_program()
    return {
        "machine": {
            "processor": processor(),
            "architecture": platform.machine(),
            "cores": len(os.sched_getaffinity(0)),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "system": platform.platform(),
        },
        "commit": _output("git", "-C", str(REPOSITORY), "rev-parse", "HEAD"),
        "has_uncommitted_changes": bool(
            _output("git", "-C", str(REPOSITORY), "status", "--porcelain")
        ),
        "server": {
            "program": str(program),
            "version": _output(str(program), "--version"),
            "sha256": hashlib.sha256(program.read_bytes()).hexdigest(),
        },
        "python": sys.version,
        "numpy": np.__version__,
        "pyzmq": zmq.__version__,
        "libzmq": zmq.zmq_version(),
    }


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Ensures that only one benchmark of this checkout runs at a time. Waits for its turn."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("waiting for another benchmark to end", file=sys.stderr)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def busy_cores() -> float:
    """Waits for a second, and returns the average number of busy cores during that time.

    The benchmark's own processes also wait, so the load comes from other programs or the host.
    """
    before = _busy_ticks()
    started = time.monotonic()
    time.sleep(1)
    ticks = _busy_ticks() - before
    return ticks / os.sysconf("SC_CLK_TCK") / (time.monotonic() - started)


def _busy_ticks() -> int:
    # cpu  user nice system idle iowait irq softirq steal …
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4]


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as error:
        return f"unknown ({error})"
