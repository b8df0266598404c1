"""A trajectory is a pure function of config, seed and actions."""

import functools
import hashlib
import subprocess
import sys
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any

import golden
import make_golden
import make_reward_golden
import numpy as np
import pytest
from games import GAMES, MakeBatch
from servers import PATIENCE, Server

from twofold import TwofoldVectorEnv

STEPS = 60

# One client, which plays all games and prints a digest of everything that it sees.
CLIENT = """
import sys
from test_determinism import PLAYED, digests
endpoint, num_envs, seed = sys.argv[1], *map(int, sys.argv[2:])
for played in PLAYED:
    print(*digests(played, endpoint, num_envs, seed), sep="\\n")
"""

# Small enough for episodes to end within the steps; and 4 x 4, which runs on the kernel.
PLAYED: dict[str, tuple[str, dict[str, Any]]] = {
    "2048 on 3 x 3": ("Game2048", {"size": 3}),
    "2048 on 4 x 4": ("Game2048", {"max_episode_steps": 25}),
    "Concentration": ("Concentration", {"size": (2, 4), "peeks": 0}),
}


def digests(
    played: str, endpoint: str, num_envs: int, seed: int, snapshots: Container[int] = ()
) -> list[str]:
    """Returns a digest of each lane over STEPS steps; a lane's actions depend only on its seed.

    Before the steps in `snapshots`, another environment continues from a snapshot.
    """
    game, arguments = PLAYED[played]
    make = functools.partial(GAMES[game], num_envs, endpoint=endpoint, **arguments)
    envs: TwofoldVectorEnv = make()
    num_actions = envs.single_action_space.n  # type: ignore[attr-defined]
    actions = np.empty((num_envs, STEPS), np.uint8)
    for lane in range(num_envs):
        actions[lane] = np.random.default_rng(seed + lane).integers(0, num_actions, STEPS)
    observations, infos = envs.reset(seed=seed)
    told = [rows(num_envs, observations, infos)]
    for step in range(STEPS):
        if step in snapshots:
            blob = envs.snapshot()
            envs.close()
            envs = make()
            envs.restore(blob)
        *arrays, infos = envs.step(actions[:, step])
        told.append(rows(num_envs, *arrays, infos))
    envs.close()
    lanes = np.concatenate(told, axis=1)
    return [hashlib.sha256(lane.tobytes()).hexdigest() for lane in lanes]


def rows(num_envs: int, *told: Any) -> Any:
    """Returns all results of a call as one row of bytes for each board."""
    *arrays, infos = told
    arrays += [infos[name] for name in sorted(infos)]
    parts = [np.ascontiguousarray(array).reshape(num_envs, -1) for array in arrays]
    return np.concatenate([part.view(np.uint8) for part in parts], axis=1)


@pytest.fixture(scope="module")
def one_thread() -> Iterator[Server]:
    with Server("--threads", "1") as server:
        yield server


@pytest.fixture(scope="module", params=PLAYED)
def played(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def alone(played: str) -> list[str]:
    """Returns the digests of 4096 boards that are played in one batch on three threads over ipc."""
    with Server("--threads", "3") as server:
        return digests(played, server.ipc, 4096, seed=0)


NUMBERS = [1, 63, 64, 65, 4096]


@pytest.mark.parametrize("num_envs", NUMBERS)
def test_a_board_plays_the_same_in_any_batch_on_any_number_of_threads_over_any_carrier(
    one_thread: Server, played: str, alone: list[str], num_envs: int
) -> None:
    for endpoint in (one_thread.tcp, "embedded"):
        assert digests(played, endpoint, num_envs, seed=0) == alone[:num_envs]


@pytest.mark.parametrize("engine", ["reference", "automatic"])
def test_a_board_plays_the_same_on_any_engine_and_through_snapshots(
    played: str, alone: list[str], engine: str
) -> None:
    with Server("--threads", "2", TWOFOLD_ENGINE=engine) as server:
        for num_envs in NUMBERS:
            # Some boards wait for their autoreset at step 25.
            told = digests(played, server.ipc, num_envs, seed=0, snapshots=(10, 25, 26))
            assert told == alone[:num_envs], num_envs


def test_different_seeds_play_differently(alone: list[str]) -> None:
    assert len(set(alone)) == 4096


def test_an_unseeded_reset_continues_the_stream_and_does_not_repeat(
    server: Server, make_batch: MakeBatch
) -> None:
    envs = make_batch(64, endpoint=server.ipc)

    def play(seed: int | None = None) -> bytes:
        """Plays a few steps, so that the results of every game depend on its board."""
        envs.reset(seed=seed)
        return b"".join(envs.step([action] * 64)[0].tobytes() for action in range(3))

    boards = [play(seed=0)] + [play() for _ in range(20)]
    assert len(set(boards)) == 21
    assert play(seed=0) == boards[0]
    assert [play() for _ in range(20)] == boards[1:]
    envs.close()


def test_two_clients_at_once_get_the_same_results_as_alone(server: Server) -> None:
    def start(seed: int) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", CLIENT, server.tcp, "64", str(seed)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parent,
        )

    expected = [
        [digest for played in PLAYED for digest in digests(played, server.tcp, 64, seed)]
        for seed in (0, 1000)
    ]
    clients = [start(seed) for seed in (0, 1000)]
    outputs = [client.communicate(timeout=PATIENCE)[0].split() for client in clients]
    assert [client.returncode for client in clients] == [0, 0]
    assert outputs == expected


GOLDEN_FILES = [*make_golden.GOLDEN.rglob("*.json"), *make_reward_golden.FOLDER.glob("*.json")]


@pytest.mark.parametrize("path", sorted(GOLDEN_FILES), ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_every_carrier_reproduces_the_golden_games(endpoint: str, path: Path) -> None:
    golden.check(*golden.load(path, endpoint))
