"""The server's heap allocations per step: few, and the same number for any number of boards."""

import subprocess
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from servers import Server

STEPS = 150


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that counts calls to the allocator."""
    library = tmp_path_factory.mktemp("allocations") / "allocations.so"
    source = Path(__file__).with_name("allocations.c")
    command = ["clang", "-O1", "-fPIC", "-shared", "-fno-builtin", "-o", str(library), str(source)]
    subprocess.run(command, check=True)
    return library


def allocations_per_step(
    counter: Path, num_envs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> float:
    count_file = tmp_path / f"count-{num_envs}"
    count_file.write_bytes(bytes(8))
    monkeypatch.setenv("LD_PRELOAD", str(counter))
    monkeypatch.setenv("ALLOCATIONS", str(count_file))
    with Server("--threads", "1") as server:
        monkeypatch.undo()
        envs = gym.make_vec("twofold/Game2048-v0", num_envs=num_envs, endpoint=server.ipc)
        envs.reset(seed=0)
        actions = np.zeros(num_envs, np.uint8)

        def run(steps: int) -> int:
            before = int.from_bytes(count_file.read_bytes(), "little")
            for step in range(steps):
                actions[:] = step % 4
                envs.step(actions)
            return int.from_bytes(count_file.read_bytes(), "little") - before

        run(50)  # the pool of reply buffers fills
        once, twice = run(STEPS), run(2 * STEPS)
        envs.close()
    assert once > 0, "the counter counts"
    return (twice - once) / STEPS


def test_a_step_allocates_as_often_for_any_number_of_boards(
    counter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = (64, 512, 4096)
    counts = [allocations_per_step(counter, size, tmp_path, monkeypatch) for size in sizes]
    print("allocations for a step:", dict(zip(sizes, counts, strict=True)))
    # libzmq reads large payloads in different portions from small ones: a few more or fewer.
    assert max(counts) - min(counts) <= 5, counts
    assert max(counts) <= 60, counts
