"""How a step fares beside other processes, and what a session costs that does little.

    .venv/bin/python python_client/benchmarks/neighbours.py
    .venv/bin/python python_client/benchmarks/neighbours.py --quick

An idle machine is not where people train. Each round measures every contestant alone and then
beside one process that does nothing but compute, and beside two. Printed are means and 99th
percentiles in microseconds, medians over the rounds, and the ratios to the round alone. The second
table is the processor time of a server and a client, in a minute without requests and while the
client computes for 0.3 ms between two steps.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from worker_process import WorkerProcess

import twofold
from twofold._zeromq import ZeroMQCarrier

PEERS = Path(__file__).parent / "peers"
CONTESTANTS = {
    "in the process, `Session`": ("twofold_client.py", "embedded", "raw"),
    "in the process, `VectorEnv.step`": ("twofold_client.py", "embedded", "vector"),
    "ipc, `VectorEnv.step`": ("twofold_client.py", "ipc", "vector"),
    "ipc, bare echo": ("zmq_echo.py", "ipc"),
    "tcp, `VectorEnv.step`": ("twofold_client.py", "tcp", "vector"),
    "tcp, bare echo": ("zmq_echo.py", "tcp"),
}
ECHO = {"ipc, `VectorEnv.step`": "ipc, bare echo", "tcp, `VectorEnv.step`": "tcp, bare echo"}
BUSY = "while True: pass"

Slice = dict[str, float]


@contextlib.contextmanager
def neighbours(count: int) -> Iterator[None]:
    """So many processes that compute, each in a session of its own, as another user's would be."""
    processes = [
        subprocess.Popen([sys.executable, "-c", BUSY], start_new_session=True) for _ in range(count)
    ]
    try:
        # Until the scheduler has found places for them.
        time.sleep(0.2 if count else 0.0)
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def measure(size: int, rounds: int, seconds: float, counts: list[int]) -> None:
    """Measures all contestants with `size` boards, and prints a row for each."""
    slices: dict[tuple[str, int], list[Slice]] = {}
    with tempfile.TemporaryDirectory() as logs:
        workers = {}
        try:
            for number, (name, (script, *arguments)) in enumerate(CONTESTANTS.items()):
                command = [sys.executable, str(PEERS / script), *arguments, str(size)]
                workers[name] = WorkerProcess(command, Path(logs) / str(number))
                workers[name].ready()
            for _ in range(rounds):
                for count in counts:
                    with neighbours(count):
                        for name, worker in workers.items():
                            slices.setdefault((name, count), []).append(worker.run(seconds))
        finally:
            for worker in workers.values():
                worker.stop()
    for name in CONTESTANTS:
        row = [f"{size:,}", name]
        alone = slices[name, 0]
        for count in counts:
            these = slices[name, count]
            cell = f"{middle(map(mean, these)):.1f} / {middle(one['p99_us'] for one in these):.0f}"
            if count:
                times = middle(mean(a) / mean(b) for a, b in zip(these, alone, strict=True))
                tail = middle(
                    a["p99_us"] / b["median_us"] for a, b in zip(these, alone, strict=True)
                )
                cell += f" ({times:.2f}, {tail:.1f})"
            if name in ECHO:
                limit = slices[ECHO[name], count]
                share = middle(mean(b) / mean(a) for a, b in zip(these, limit, strict=True))
                cell += f" [{share * 100:.0f} %]"
            row.append(cell)
        print("| " + " | ".join(row) + " |", flush=True)


def mean(one: Slice) -> float:
    """Microseconds of a call."""
    return 1e6 * one["seconds"] / one["calls"]


def middle(values: Iterator[float]) -> float:
    """The median over the rounds."""
    return statistics.median(values)


def processor_seconds(process: int | str) -> float:
    """What a process has computed so far, in user and system mode."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def scheduled_seconds(process: int | str) -> float:
    """The same, finer: for all threads, to the nanosecond."""
    threads = Path(f"/proc/{process}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


def costs(idle_seconds: float, thinking_seconds: float) -> None:
    """Prints the processor time of sessions that do little."""
    print("\n| 256 boards | server | client |\n| --- | --- | --- |")
    for endpoint in ("private", "embedded"):
        envs = twofold.Game2048VectorEnv(256, endpoint=endpoint)
        envs.reset(seed=0)
        carrier = envs._session._carrier
        server: int | None = None
        if isinstance(carrier, ZeroMQCarrier) and carrier.server is not None:
            server = carrier.server.pid
        actions = [0] * 256

        def spent(server: int | None = server) -> tuple[float, float]:
            return (0.0 if server is None else scheduled_seconds(server)), scheduled_seconds("self")

        before = spent()
        time.sleep(idle_seconds)
        idle = [(a - b) * 60 / idle_seconds for a, b in zip(spent(), before, strict=True)]
        print(
            f"| {endpoint}: idle, in a minute | {idle[0] * 1e3:.1f} ms | {idle[1] * 1e3:.1f} ms |"
        )
        before, started, steps = spent(), time.perf_counter(), 0
        while time.perf_counter() - started < thinking_seconds:
            envs.step(actions)
            thought = time.perf_counter()
            while time.perf_counter() - thought < 0.3e-3:
                pass
            steps += 1
        elapsed = time.perf_counter() - started
        share = [(a - b) / elapsed * 100 for a, b in zip(spent(), before, strict=True)]
        print(
            f"| {endpoint}: 0.3 ms between steps, {steps / elapsed:,.0f} steps/s "
            f"| {share[0]:.0f} % | {share[1]:.0f} % |",
            flush=True,
        )
        envs.close()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="How a step fares beside other processes.")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--sizes", default="1,256,4096,65536", help="boards, with commas")
    arguments = parser.parse_args()
    rounds, seconds = (3, 0.3) if arguments.quick else (7, 1.0)
    counts = [0, 1, 2]
    print("Microseconds a step: mean / p99. In parentheses: the mean as a multiple of the mean")
    print("alone, and the p99 of the median alone. In brackets: the share of the echo's rate.\n")
    print("| N | | alone | one busy process | two |\n| --- | --- | --- | --- | --- |")
    for size in map(int, arguments.sizes.split(",")):
        measure(size, rounds, seconds, counts)
    costs(*((5.0, 1.0) if arguments.quick else (60.0, 5.0)))


if __name__ == "__main__":
    main()
