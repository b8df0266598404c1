"""A client with 262,144 boards shares a server with two hundred clients with one board each."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from servers import PATIENCE, Server


def run(*arguments: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "fairness", *arguments]
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
        cwd=Path(__file__).parent,
    )


class Small:
    """The small clients. After `play`, each makes at least `steps` steps."""

    def __init__(self, endpoint: str, steps: int) -> None:
        self._process = run("small", endpoint, str(steps))
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def play(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")

    def end(self) -> dict[str, Any]:
        """Waits until all clients have made their steps. Returns their report."""
        output, _ = self._process.communicate(timeout=PATIENCE)
        assert self._process.returncode == 0
        result: dict[str, Any] = json.loads(output)
        return result


class Large:
    """The large client."""

    def __init__(self, endpoint: str) -> None:
        self._process = run("large", endpoint)

    def makes_steps(self, count: int) -> None:
        """Waits until the client has made `count` more steps."""
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        os.set_blocking(descriptor, False)
        while self._process.stdout.read(1 << 16):
            pass
        os.set_blocking(descriptor, True)
        for _ in range(count):
            assert self._process.stdout.readline() == b"step\n"

    def end(self) -> None:
        self._process.kill()
        self._process.communicate(timeout=PATIENCE)


def test_small_clients_are_not_starved_by_a_large_one(
    own_server: Server, scale: int, record_property: Any
) -> None:
    steps = 20 * scale
    small = Small(own_server.ipc, steps)
    large = Large(own_server.ipc)
    large.makes_steps(3)
    small.play()
    large.makes_steps(3)
    beside = small.end()
    large.end()
    # Every client makes progress: the large one too, and the small ones about equally.
    assert beside["fewest"] > beside["most"] / 3
    for quantile in ("p50", "p99"):
        record_property(quantile, beside[quantile])
    print(
        "\n200 clients with one board, alongside one with 262,144 boards: "
        f"median {1e3 * beside['p50']:.2f} ms, p99 {1e3 * beside['p99']:.2f} ms"
    )
