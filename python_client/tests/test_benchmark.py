"""The benchmark, with Twofold alone: only a full run installs the peers."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from servers import PATIENCE

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.mark.long
def test_the_benchmark_measures_reports_and_draws(tmp_path: Path) -> None:
    chosen = ["twofold", "twofold-held", "session", "twofold-same-step", "twofold-reward"]
    chosen += ["rollout", "twofold-ipc", "rollout-ipc", "limit-ipc"]
    chosen += ["twofold-tcp", "twofold-tcp-same-step", "limit-tcp"]
    command = [sys.executable, str(BENCHMARKS / "end_to_end.py"), "--only", ",".join(chosen)]
    command += ["--sizes", "256", "--rounds", "1", "--seconds", "0.01", "--quick"]
    command += ["--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "end_to_end.json").read_text())["results"]
    assert {one["contestant"] for one in results} == {*chosen, "nothing"}
    for one in results:
        assert one["failure"] is None, one
        assert all(rate > 0 for rate in one["rates"])
    assert {one["condition"] for one in results if one["slices"]} == {
        "alone",
        "beside one",
        "learner, 0.1 ms",
        "learner, 0.3 ms",
        "learner, 3 ms",
    }
    report = (tmp_path / "end_to_end.md").read_text()
    assert report == done.stdout.removesuffix("\n")
    assert (tmp_path / "end_to_end.png").read_bytes().startswith(b"\x89PNG")
