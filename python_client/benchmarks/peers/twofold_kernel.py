"""Rollouts without a transport, measured by `twofold-server bench`: the limit for any transport.

    twofold_kernel.py N

It steps with random actions on one thread, and writes the arrays that `VectorEnv.rollout` returns.
"""

from __future__ import annotations

import json
import subprocess
from typing import Any

from worker import serve_slices

from twofold.client.lookup import find_program


class InProcess:
    """A contestant that measures each slice of time in a new process."""

    def __init__(self, num_envs: int) -> None:
        self._num_envs = num_envs
        self._command = [str(find_program()), "bench", "--json", "--rounds", "1"]
        self._command += ["--only", "rollout, kernel", "--boards", str(num_envs)]
        self.details = {"engine": self._measure(0.001)["engine"]}

    def run(self, seconds: float, work: int = 0) -> dict[str, float]:
        """Measures the rate for `seconds` s."""
        rate = self._measure(seconds)["median"] / self._num_envs
        return {
            "calls": 1,
            "steps": rate * seconds,
            "seconds": seconds,
            "median_us": 1e6 / rate,
            "p99_us": 1e6 / rate,
            "elapsed": seconds,
        }

    def _measure(self, seconds: float) -> dict[str, Any]:
        """Runs `twofold-server bench`, and returns the fastest kernel's result."""
        command = [*self._command, "--milliseconds", str(max(1, round(seconds * 1000)))]
        report = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        return max(report["rows"], key=lambda row: row["median"])


if __name__ == "__main__":
    serve_slices(InProcess)
