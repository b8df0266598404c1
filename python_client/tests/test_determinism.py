"""A trajectory is a function of config, seed and actions, and of nothing else."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import make_golden
import numpy as np
import pytest
from servers import Server

import twofold

STEPS = 200

# One client: plays and prints a digest of everything that it sees.
CLIENT = """
import sys
import test_determinism
endpoint, num_envs, seed = sys.argv[1:]
print(*test_determinism.digests(endpoint, int(num_envs), int(seed)), sep="\\n")
"""


def digests(endpoint: str, num_envs: int, seed: int) -> list[str]:
    """A digest of each lane over STEPS steps, where a lane's actions depend on its seed only."""
    envs = twofold.Game2048VectorEnv(num_envs, endpoint=endpoint, size=3)
    actions = np.empty((num_envs, STEPS), np.uint8)
    for lane in range(num_envs):
        actions[lane] = np.random.default_rng(seed + lane).integers(0, 4, STEPS)
    observations, infos = envs.reset(seed=seed)
    lanes = [hashlib.sha256(observations[lane].tobytes()) for lane in range(num_envs)]
    for step in range(STEPS):
        observations, *rest, infos = envs.step(actions[:, step])
        told = [observations, *rest, *(infos[name] for name in sorted(infos))]
        for lane, digest in enumerate(lanes):
            for array in told:
                digest.update(array[lane].tobytes())
    envs.close()
    return [digest.hexdigest() for digest in lanes]


@pytest.fixture(scope="module", params=[1, 2])
def threaded_server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server("--threads", str(request.param)) as server:
        yield server


@pytest.fixture(scope="module")
def alone(server: Server) -> list[str]:
    """The digests of 1000 boards, each played as one of a thousand."""
    return digests(server.ipc, 1000, seed=0)


@pytest.mark.parametrize("num_envs", [1, 7, 64, 300, 1000])
def test_a_board_plays_the_same_in_any_batch_on_any_number_of_threads(
    threaded_server: Server, alone: list[str], num_envs: int
) -> None:
    assert digests(threaded_server.tcp, num_envs, seed=0) == alone[:num_envs]


def test_different_seeds_play_differently(alone: list[str]) -> None:
    assert len(set(alone)) == 1000


def test_an_unseeded_reset_goes_on_and_does_not_repeat(server: Server) -> None:
    envs = twofold.Game2048VectorEnv(64, endpoint=server.ipc)
    first, _ = envs.reset(seed=0)
    boards = [first.tobytes()] + [envs.reset()[0].tobytes() for _ in range(20)]
    assert len(set(boards)) == 21
    assert envs.reset(seed=0)[0].tobytes() == boards[0]
    assert [envs.reset()[0].tobytes() for _ in range(20)] == boards[1:]
    envs.close()


def test_three_clients_at_once_see_what_they_see_alone(server: Server) -> None:
    def start(seed: int) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", CLIENT, server.tcp, "64", str(seed)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parent,
        )

    expected = [digests(server.tcp, 64, seed) for seed in (0, 1000, 2000)]
    clients = [start(seed) for seed in (0, 1000, 2000)]
    outputs = [client.communicate(timeout=60)[0].split() for client in clients]
    assert [client.returncode for client in clients] == [0, 0, 0]
    assert outputs == expected


@pytest.mark.parametrize("path", sorted(make_golden.GOLDEN.glob("*.json")), ids=lambda p: p.stem)
def test_the_golden_trajectories_come_back_from_the_server(server: Server, path: Path) -> None:
    golden: dict[str, Any] = json.loads(path.read_text())
    config = dict(golden["config"])
    size = (config.pop("rows"), config.pop("columns"))
    lanes = golden["lanes"]
    envs = twofold.Game2048VectorEnv(len(lanes), endpoint=server.ipc, size=size, **config)
    observations, infos = envs.reset(seed=[lane["seed"] for lane in lanes])
    told = {"observation": observations, **infos}
    for index, lane in enumerate(lanes):
        for name, value in lane["initial"].items():
            assert told[name][index].ravel().tolist() == np.ravel(value).tolist(), name
    for step in range(len(lanes[0]["actions"])):
        actions = [lane["actions"][step] for lane in lanes]
        observations, rewards, terminations, truncations, infos = envs.step(actions)
        told = {
            "observation": observations,
            "reward": rewards,
            "terminated": terminations,
            "truncated": truncations,
            **infos,
        }
        for index, lane in enumerate(lanes):
            for name, column in lane["steps"].items():
                expected = np.ravel(column[step]).tolist()
                assert told[name][index].ravel().tolist() == expected, (step, name)
    envs.close()
