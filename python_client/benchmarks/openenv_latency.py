"""Measures how long a move takes over OpenEnv's WebSockets while a thousand connections play.

    python python_client/benchmarks/openenv_latency.py --peer OpenEnv/envs/openspiel_env

Each connection plays a separate game of 2048 with random legal moves. At first, each connection
makes a move about every two seconds, like an agent that thinks. Then it moves as fast as possible.
The peer is OpenEnv's 2048, from a checkout of huggingface/OpenEnv. It needs open_spiel and openenv.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import figures
import numpy as np
import websockets
from tabulate import tabulate


@dataclass(frozen=True)
class Measured:
    """The measurements of one server's moves under one load, with times in milliseconds."""

    server: str
    load: str
    moves_per_second: float
    p50: float
    p99: float
    p999: float
    server_ms: float
    """The server's processor time for each move."""
    megabytes: float
    """The server's resident memory."""
    refused: int
    """The number of moves to which the server replied with an error."""


def main() -> None:
    """Measures all servers and loads, and prints a table and a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--connections", type=int, default=1000, metavar="N")
    parser.add_argument("--interval", type=float, default=2.0, metavar="SECONDS")
    parser.add_argument("--seconds", type=float, default=20.0, help="seconds per load")
    parser.add_argument("--peer", type=Path, metavar="FOLDER", help="OpenEnv's envs/openspiel_env")
    parser.add_argument("--publish", action="store_true", help=figures.HELP)
    arguments = parser.parse_args()
    most, port = str(arguments.connections + 10), _free_port()
    command = [sys.executable, "-m", "twofold", "openenv", "serve", "--max-sessions", most]
    servers: list[tuple[str, list[str], Path, str, dict[str, str]]] = []
    servers.append(("twofold", [*command, "--port", str(port)], Path("/"), "direction", {}))
    if arguments.peer is not None:
        command = [sys.executable, "-m", "uvicorn", "server.app:app", "--log-level", "warning"]
        variables = {"OPENSPIEL_GAME": "2048", "MAX_CONCURRENT_ENVS": most}
        command += ["--port", str(port)]
        servers.append(("openspiel_env", command, arguments.peer, "action_id", variables))
    results = []
    for name, command, folder, field, variables in servers:
        with _running(command, folder, variables, port) as pid:
            results += asyncio.run(_measure(name, port, pid, field, arguments))
    rows = [asdict(result) for result in results]
    print(tabulate(rows, "keys", floatfmt=",.1f"))
    print(json.dumps(rows))
    if arguments.publish:
        figures.publish("openenv", rows)


async def _measure(
    name: str, port: int, pid: int, field: str, arguments: argparse.Namespace
) -> list[Measured]:
    url, count = f"ws://127.0.0.1:{port}/ws", arguments.connections
    # Only a few at a time, so that no handshake waits too long.
    gate = asyncio.Semaphore(50)

    async def connect() -> Any:
        async with gate:
            return await websockets.connect(
                url, compression=None, proxy=None, open_timeout=120, ping_interval=None
            )

    connections = await asyncio.gather(*(connect() for _ in range(count)))
    results = []
    thinking = f"a move every {arguments.interval:g} s"
    for load, interval in ((thinking, arguments.interval), ("as fast as they can", 0.0)):
        # This makes the first boards.
        first = await asyncio.gather(*(_ask(c, {"type": "reset", "data": {}}) for c in connections))
        times: list[float] = []
        refused: list[str] = []
        before, spent = time.perf_counter(), _spent(pid)
        end = before + arguments.seconds
        players = zip(connections, first, strict=True)
        await asyncio.gather(
            *(_play(c, seen, field, interval, end, times, refused) for c, seen in players)
        )
        seconds = time.perf_counter() - before
        p50, p99, p999 = 1e3 * np.percentile(times, [50, 99, 99.9])
        cost = 1e3 * (_spent(pid) - spent) / len(times)
        memory = _resident(pid) / 1e6
        rate = len(times) / seconds
        results.append(Measured(name, load, rate, p50, p99, p999, cost, memory, len(refused)))
    for connection in connections:
        await connection.close()
    return results


async def _ask(connection: Any, message: dict[str, Any]) -> Any:
    await connection.send(json.dumps(message))
    return json.loads(await connection.recv())["data"]


async def _play(
    connection: Any,
    seen: Any,
    field: str,
    interval: float,
    end: float,
    times: list[float],
    refused: list[str],
) -> None:
    """Plays until the time `end`, beginning with the observation `seen`. Times each move."""
    while True:
        pause = random.uniform(0, 2 * interval)
        if time.perf_counter() + pause >= end:
            return
        await asyncio.sleep(pause)
        before = time.perf_counter()
        legal = seen["observation"]["legal_actions"]
        data = await _ask(connection, {"type": "step", "data": {field: random.choice(legal)}})
        times.append(time.perf_counter() - before)
        if "observation" not in data:
            refused.append(data["message"])
        if "observation" not in data or data["done"]:
            data = await _ask(connection, {"type": "reset", "data": {}})
        seen = data


@contextlib.contextmanager
def _running(
    command: list[str], folder: Path, variables: dict[str, str], port: int
) -> Iterator[int]:
    """Runs a server, waits until it answers, and yields its process id."""
    with subprocess.Popen(command, cwd=folder, env=os.environ | variables) as process:
        try:
            for _ in range(600):
                with contextlib.suppress(OSError):
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
                    break
                time.sleep(0.1)
            yield process.pid
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
            process.kill()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def _spent(pid: int) -> float:
    """Returns the processor time of all threads of a process, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
