"""The benchmark, with Twofold alone: peers are installed by whoever runs all of it."""

import json
import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def test_the_benchmark_measures_reports_and_draws(tmp_path: Path) -> None:
    chosen = ["limit-ipc", "twofold-ipc", "raw-ipc", "bare-ipc", "rollout-ipc"]
    chosen += ["rollout-in-process", "limit-tcp", "twofold-tcp", "raw-tcp", "numpy"]
    command = [sys.executable, str(BENCHMARKS / "end_to_end.py"), "--only", ",".join(chosen)]
    command += ["--sizes", "64", "--rounds", "1", "--seconds", "0.01", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "end_to_end.json").read_text())["results"]
    assert {one["contestant"] for one in results} == set(chosen)
    for one in results:
        assert one["failure"] is None, one
        assert one["rates"][0] > 0
    report = (tmp_path / "end_to_end.md").read_text()
    assert report == done.stdout.removesuffix("\n")
    assert (tmp_path / "end_to_end.png").read_bytes().startswith(b"\x89PNG")
