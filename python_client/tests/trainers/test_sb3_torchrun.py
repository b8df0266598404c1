"""Tests of the documents' program for several processes."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from servers import PATIENCE, Server

pytest.importorskip("torch", reason="`make trainers` has it")

PAGE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "training.md"


def run(directory: Path, **variables: str) -> list[str]:
    """Runs both ranks, and returns their sorted output."""
    programs = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    [program] = [text for text in programs if "init_process_group" in text]
    program = program.replace(
        "dist.init_process_group", "torch.manual_seed(0)\ndist.init_process_group"
    )
    (directory / "train.py").write_text(program)
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py"]
    ran = subprocess.run(
        [sys.executable, *command],
        cwd=directory,
        env={**os.environ, "OMP_NUM_THREADS": "1", **variables},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert ran.returncode == 0, ran.stderr
    return sorted(ran.stdout.splitlines())


def test_two_ranks_train_one_network_here_and_on_a_server(tmp_path: Path, server: Server) -> None:
    here = run(tmp_path, TWOFOLD_ENDPOINT="embedded")
    assert [line.split()[1] for line in here] == ["0", "1"]
    assert here[0].split()[-1] == here[1].split()[-1]
    assert run(tmp_path, TWOFOLD_ENDPOINT=server.ipc) == here
