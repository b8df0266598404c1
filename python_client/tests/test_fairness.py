"""A client with a quarter of a million boards, and two hundred with one."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from servers import Server


def run(*arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "fairness", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent)


def small(endpoint: str, seconds: float) -> dict[str, Any]:
    process = run("small", endpoint, str(seconds))
    output, _ = process.communicate(timeout=seconds + 60)
    assert process.returncode == 0
    result: dict[str, Any] = json.loads(output)
    return result


def test_small_clients_are_not_starved_by_a_large_one(
    own_server: Server, scale: int, record_property: Any
) -> None:
    seconds = 2.0 if scale == 1 else 20.0
    alone = small(own_server.ipc, seconds)
    large = run("large", own_server.ipc)
    assert large.stdout is not None
    for _ in range(3):
        assert large.stdout.readline() == "step\n"
    beside = small(own_server.ipc, seconds)
    large.terminate()
    steps = large.stdout.read().count("step\n")
    large.wait()
    # Every client makes progress: the large one too, and the small ones about equally.
    assert steps > 2
    assert beside["fewest"] > beside["most"] / 3 > 1
    for quantile in ("p50", "p99"):
        record_property(f"{quantile} alone and beside", (alone[quantile], beside[quantile]))
    print(
        f"\n200 clients with one board: median {1e3 * alone['p50']:.2f} ms alone, "
        f"{1e3 * beside['p50']:.2f} ms beside one with 262,144 boards; "
        f"p99 {1e3 * alone['p99']:.2f} and {1e3 * beside['p99']:.2f} ms; "
        f"the large one made {steps / seconds:.0f} steps a second"
    )
    if scale > 1:  # a measurement, for an otherwise idle machine
        assert beside["p50"] <= max(3 * alone["p50"], 0.002)
