"""Tests that with little address space, each request succeeds or gets a typed error."""

import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest
from servers import PATIENCE, Server, wait_until

import twofold

MEGABYTES = [
    megabytes if megabytes == 300 else pytest.param(megabytes, marks=pytest.mark.long)
    for megabytes in range(300, 2001, 100)
]

PLAY = """
import resource, sys
limit, endpoint = int(sys.argv[1]) * 1_000_000, sys.argv[2] or None
if limit:
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
import numpy as np
import twofold
from twofold import errors, rules

done = refused = 0

def attempt(request):
    global done, refused
    try:
        result = request()
    except (errors.ResourceExhausted, errors.ServerStartFailed, MemoryError):
        refused += 1
        return None
    except errors.InvalidArgument as error:
        assert "which this process can't allocate" in str(error)  # the arrays of a rollout
        refused += 1
        return None
    done += 1
    return result

for lanes in (1, 50_000, 200_000, 1_000_000):
    for mode in ("NextStep", "SameStep")[lanes > 1 :]:
        attempt(lambda: rules.afterstates(np.ones((lanes, 4, 4), np.uint8), endpoint=endpoint))
        envs = attempt(lambda: twofold.Game2048VectorEnv(
            lanes, autoreset_mode=mode, max_episode_steps=2, endpoint=endpoint))
        if envs is None:
            continue
        if attempt(lambda: envs.reset(seed=0)) is not None:
            actions = np.zeros(lanes, np.int64)
            for _ in range(3):
                attempt(lambda: envs.step(actions))
            snapshot = attempt(envs.snapshot)
            if snapshot is not None:
                attempt(lambda: envs.restore(snapshot))
            for policy in ("random", "greedy"):
                attempt(lambda: envs.rollout(1, policy=policy))
            snapshot = None
        envs.close()
        envs = None
print(done, refused)
"""


def play(megabytes: int, endpoint: str = "") -> tuple[int, int]:
    """Plays in a process with this limit (0 for none); counts executed and refused requests."""
    # The threads of numpy's OpenBLAS take address space that has nothing to do with Twofold.
    variables = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", PLAY, str(megabytes), endpoint]
    ran = subprocess.run(command, capture_output=True, text=True, env=variables, timeout=PATIENCE)
    assert ran.returncode == 0, ran.stderr
    done, refused = map(int, ran.stdout.split())
    return done, refused


@pytest.mark.parametrize("megabytes", MEGABYTES)
def test_a_service_in_a_process_with_little_address_space_refuses_and_continues(
    megabytes: int,
) -> None:
    done, refused = play(megabytes)
    assert done + refused > 0
    if megabytes == 300:
        assert refused > 0
    if megabytes == 2000:
        assert done > refused


@pytest.mark.parametrize("megabytes", MEGABYTES)
def test_a_server_with_little_address_space_refuses_and_continues(megabytes: int) -> None:
    with Server(limits=[f"--as={megabytes * 1_000_000}"]) as server:
        done, refused = play(0, server.ipc)
        assert server.process.poll() is None
        assert done > refused
        if megabytes == 300:
            assert refused > 0


def test_the_address_space_of_closed_sessions_returns_although_others_remain() -> None:
    """In the past, steps were refused, and sessions could not be saved, because it did not."""
    with Server(limits=["--as=600000000"]) as server:

        def address_space() -> int:
            statm = Path(f"/proc/{server.process.pid}/statm").read_text()
            return int(statm.split()[0]) * mmap.PAGESIZE

        def make(lanes: int) -> twofold.Game2048VectorEnv:
            envs = twofold.Game2048VectorEnv(lanes, endpoint=server.ipc)
            envs.reset(seed=0)
            return envs

        make(20_000).close()
        before = address_space()
        sessions = [make(lanes) for _ in range(20) for lanes in (20_000, 1)]
        added = address_space() - before
        for large in sessions[::2]:
            large.close()
        wait_until(lambda: address_space() - before < added / 3)
        for small in sessions[1::2]:
            small.close()


SQUEEZE = """
import mmap, resource
import numpy as np
from twofold import errors, rules

large, small = np.ones((1000, 5, 5), np.uint8), np.ones((4, 4, 4), np.uint8)
rules.legal(small)
in_use = int(open("/proc/self/statm").read().split()[0]) * mmap.PAGESIZE
limit = in_use + (3 << 20)  # less than the stack of a thread
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for boards in (large, small):
    try:
        rules.legal(boards)
    except errors.ResourceExhausted:
        print("refused")
"""


def test_rules_without_memory_for_a_thread_or_a_block_are_refused() -> None:
    """In the past, one call waited forever for a thread, and another call ended the process."""
    variables = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "TWOFOLD_THREADS": "4"}
    command = [sys.executable, "-c", SQUEEZE]
    ran = subprocess.run(command, capture_output=True, text=True, env=variables, timeout=PATIENCE)
    assert ran.returncode == 0, ran.stderr
    assert "refused" in ran.stdout


WITHOUT_DESCRIPTORS = """
import mmap, os, resource, twofold
from twofold import errors

envs = twofold.Game2048VectorEnv(100_000)
envs.reset(seed=0)
snapshot = envs.snapshot()
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
limit = int(open("/proc/self/statm").read().split()[0]) * mmap.PAGESIZE + (4 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
held = []
try:
    while True:
        held.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
try:
    envs.restore(snapshot)
except errors.ResourceExhausted:
    print("refused")
"""


def test_little_memory_is_noticed_without_a_free_descriptor() -> None:
    """In the past, the memory limit was unknown then, and an allocation ended the process."""
    variables = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", WITHOUT_DESCRIPTORS]
    ran = subprocess.run(command, capture_output=True, text=True, env=variables, timeout=PATIENCE)
    assert (ran.returncode, ran.stdout) == (0, "refused\n"), ran.stderr


def test_a_limit_on_stacks_larger_than_memory_is_reported() -> None:
    """In the past, the total size of the threads' stacks overflowed, which ended the process."""
    limits = ["--stack=2305843009213693952:unlimited", "--as=3000000000"]
    make = "import twofold; twofold.Game2048VectorEnv(4)"
    variables = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    command = ["prlimit", *limits, sys.executable, "-c", make]
    ran = subprocess.run(command, capture_output=True, text=True, env=variables, timeout=PATIENCE)
    assert "errors.ServerStartFailed" in ran.stderr
