"""docs/determinism.md: its thirty lines of Python play whole games, bit by bit."""

import json
import re
from pathlib import Path
from typing import Any

import make_golden
import numpy as np
import pytest

import twofold

PAGE = Path(__file__).resolve().parents[2] / "docs" / "determinism.md"


@pytest.fixture(scope="module")
def play() -> Any:
    """The page's `play`."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    return names["play"]


def test_the_page_plays_the_golden_games(play: Any) -> None:
    """Those of the arguments that it takes."""
    played = 0
    taken = {"rows", "columns", "four_probability", "start_tiles"}
    for path in sorted(make_golden.GOLDEN.glob("*.json")):
        golden = json.loads(path.read_text())
        config = golden["config"]
        if config["stop_at_goal"] or config["max_episode_steps"]:
            continue
        if config["illegal_action"] != "noop" or "autoreset_mode" in config:
            continue
        for lane in golden["lanes"]:
            steps = lane["steps"]
            arguments = {name: config[name] for name in taken}
            told = list(play(lane["seed"], lane["actions"], **arguments))
            assert told[0] == (lane["initial"]["observation"], 0, False)
            columns = (steps["observation"], steps["reward"], steps["terminated"])
            assert told[1:] == list(zip(*columns, strict=True))
            played += 1
    assert played >= 15


@pytest.mark.parametrize("size", [(4, 4), (3, 5)])
def test_the_page_plays_what_the_server_plays(play: Any, size: tuple[int, int]) -> None:
    envs = twofold.Game2048VectorEnv(3, endpoint="embedded", size=size)
    actions = np.random.default_rng(0).integers(0, 4, (400, 3))
    boards, _ = envs.reset(seed=2**64 - 2)
    told = [(boards, np.zeros(3), np.zeros(3, np.bool_))]
    for row in actions:
        boards, rewards, terminations, _, _ = envs.step(row)
        told.append((boards, rewards, terminations))
    assert sum(int(terminations.sum()) for _, _, terminations in told) >= 3
    for lane in range(3):
        seed = (2**64 - 2 + lane) % 2**64
        games = play(seed, actions[:, lane].tolist(), *size)
        for step, (board, reward, over) in enumerate(games):
            boards, rewards, terminations = told[step]
            assert boards[lane].ravel().tolist() == board
            assert (rewards[lane], terminations[lane]) == (reward, over)
    envs.close()
