"""Tests of the program that serves OpenEnv clients, and of the Space's folder."""

import asyncio
import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from raw import statistics_of
from servers import PATIENCE, Server

import twofold
from twofold import cli

pytest.importorskip("openenv", reason="`make openenv-test` has it")

import gradio_client
from openenv.core.generic_client import GenericEnvClient
from openenv.validation.graders import Subject
from openenv.validation.graders.runtime import (
    ObservationSchemaGrader,
    RewardWellFormedGrader,
    StateContractGrader,
)
from openenv.validation.parsers.openenv_yaml import OpenEnvYamlParser
from openenv.validation.runtime.collector import collect_runtime_evidence
from openenv.validation.runtime.contracts import load_runtime_plan
from openenv_servers import Connection, serving

SPACE = Path(__file__).resolve().parents[2] / "spaces/twofold_2048"


SERVE = [sys.executable, "-m", "twofold", "openenv", "serve", "--port", "0"]


@contextlib.contextmanager
def running(
    command: list[str],
    directory: Path = Path("/"),
    variables: Mapping[str, str] = os.environ,
    ended_by: int = signal.SIGTERM,
    status: int = 143,
) -> Iterator[str]:
    """Runs a server program and yields its address. A signal ends the program."""
    with subprocess.Popen(
        command, cwd=directory, env=variables, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line, "it has ended"
            yield str(json.loads(line)["url"]) if line.startswith("{") else line.split()[-1]
            process.send_signal(ended_by)
            assert process.wait(PATIENCE) == status
        finally:
            process.kill()


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
        text: str = answer.read().decode()
        return text


@pytest.fixture(scope="module")
def page() -> Iterator[str]:
    """Runs a program with the page at /web."""
    variables = os.environ | {"ENABLE_WEB_INTERFACE": "true"}
    with running([*SERVE, "--json", "--allow", "size"], variables=variables) as url:
        yield url


def validate(*arguments: str) -> dict[str, Any]:
    """Returns the report of `openenv validate`, which must succeed."""
    command = [sys.executable, "-m", "openenv.cli", "validate", *arguments, "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    report: dict[str, Any] = json.loads(ran.stdout)
    return report


def test_openenv_validates_a_running_server(page: str) -> None:
    report = validate("--url", page, "--timeout", "30")
    assert report["passed"]
    assert report["summary"]["failed_criteria"] == []
    assert report["mode"] == "simulation"


def test_openenv_validates_the_folder_of_the_space() -> None:
    report = validate(str(SPACE), "--skip-build")
    results = {result["check_id"]: result["status"] for result in report["results"]}
    assert results["static.manifest"] == "pass"
    assert set(results.values()) == {"pass", "skip"}


def test_openenvs_graders_accept_the_declarations_of_the_space() -> None:
    manifest = OpenEnvYamlParser().parse(SPACE)
    with serving(allow=["size", "goal", "max_episode_steps"]) as url:
        plan = load_runtime_plan(SPACE, manifest.execution)
        evidence = collect_runtime_evidence(url, plan, episode_timeout_s=30)
    assert evidence.failure_reason is None
    assert len(evidence.exchanges) == 2 * (1 + len(plan.actions))
    subject = Subject(SPACE, manifest, None, None, SPACE, evidence)
    for grader in (RewardWellFormedGrader(), ObservationSchemaGrader(), StateContractGrader()):
        result = grader.run(subject)
        assert (result.status.value, result.evidence) == (
            "pass",
            ["observed runtime contract holds"],
        )


def test_the_space_serves_the_game_to_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SPACE.parent))
    package = importlib.import_module("twofold_2048")
    command = [sys.executable, "-m", "server.app", "--host", "127.0.0.1", "--port", "0"]
    variables = os.environ | {"MAX_CONCURRENT_ENVS": "1", "TWOFOLD_ALLOW": "size"}
    with (
        running(command, SPACE, variables, status=-signal.SIGTERM) as url,
        package.Game2048Client(url).sync() as client,
    ):
        assert np.shape(client.reset(seed=3, size=3).observation.board) == (3, 3)
        result = client.step(package.Game2048Action(direction="left"))
        assert isinstance(result.observation, package.Game2048Observation)
        assert isinstance(client.state(), package.Game2048State)
        assert Connection(url).receive()["data"]["code"] == "CAPACITY_REACHED"


def test_the_page_shows_the_board_as_a_picture_and_the_legal_actions(page: str) -> None:
    client = gradio_client.Client(f"{page}/web/", verbose=False)
    picture, actions, *_ = client.predict([], api_name="/reset_env")
    assert picture["value"].startswith('<img src="data:image/png;base64,iVBOR')
    shown = [label for label, _ in actions["choices"]]
    assert shown == [word for word in ("up", "right", "down", "left") if word in shown] != []


def test_the_schema_describes_every_field(page: str) -> None:
    schema = json.loads(get(f"{page}/schema"))
    for kind in ("action", "observation", "state"):
        fields = schema[kind]["properties"]
        assert all(field["description"] for field in fields.values())
    assert "connection continues the episode" in schema["observation"]["properties"]["episode_id"][
        "description"
    ].replace("\n", " ")
    assert schema["action"]["properties"]["direction"]["anyOf"][0]["enum"][0] == "up"


def test_the_program_passes_its_options_to_the_app(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def make(game: str, **arguments: Any) -> NoReturn:
        given.update(arguments, game=game)
        raise KeyboardInterrupt

    monkeypatch.setattr("twofold.integrations.openenv.app.make_openenv_app", make)
    words = "--game concentration --max-sessions 5 --keep-seconds 60 --keep-episodes 7"
    words += " --allow size,preset --reward reward.json --illegal-action terminate --timeout 2"
    assert cli.main(["openenv", "serve", *words.split()]) == cli.INTERRUPTED
    assert given == {
        "game": "concentration",
        "max_sessions": 5,
        "keep_seconds": 60.0,
        "keep_episodes": 7,
        "allow": ["size", "preset"],
        "reward": "reward.json",
        "illegal_action": "terminate",
        "timeout": 2.0,
    }


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_program_and_its_sessions_on_a_server(
    server: Server, number: int, status: int
) -> None:
    arguments = ["--game", "concentration", "--size", "2x3", "--endpoint", server.ipc]
    with running([*SERVE, *arguments], ended_by=number, status=status) as url:
        kept, played = Connection(url), Connection(url)
        assert np.shape(kept.reset(seed=1)["cards"]) == (2, 3)
        kept.close()
        played.reset(seed=1)
        before = statistics_of(server.ipc).usage.sessions
    assert before - statistics_of(server.ipc).usage.sessions == 2


def test_a_thousand_connections_play_at_once_each_its_own_game() -> None:
    async def play_all(url: str) -> list[Any]:
        clients = [GenericEnvClient(url, connect_timeout_s=100) for _ in range(1000)]
        await asyncio.gather(*(client.connect() for client in clients))
        await asyncio.gather(*(client.reset(seed=seed) for seed, client in enumerate(clients)))
        for direction in (0, 1, 2, 3) * 2:
            steps = [client.step({"direction": direction}) for client in clients]
            results = await asyncio.gather(*steps)
        await asyncio.gather(*(client.close() for client in clients))
        return [result.observation["board"] for result in results]

    with running([*SERVE, "--max-sessions", "1000"]) as url:
        boards = asyncio.run(play_all(url))
    envs = twofold.Game2048VectorEnv(1000, autoreset_mode="Disabled")
    envs.reset(seed=0)
    for direction in (0, 1, 2, 3) * 2:
        observations, *_ = envs.step(np.full(1000, direction))
    assert boards == twofold.tile_values(observations).tolist()
    envs.close()
