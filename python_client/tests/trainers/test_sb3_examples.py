"""The examples that require only PyTorch."""

import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from servers import PATIENCE, Server

import twofold

pytest.importorskip("torch", reason="`make trainers` has it")
pytest.importorskip("tensorboard")

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
import dqn_afterstates
import popgym_gru
import ppo
import recurrent_ppo
import torch


def turns(out: Path, *words: str) -> float:
    """Returns the mean number of turns on 2 x 3 cards after a short training run."""
    words = ("--size", "2", "3", "--num-steps", "32", "--steps", "50000", *words)
    options = recurrent_ppo.parse_arguments(list(words))
    agent = recurrent_ppo.train(options, recurrent_ppo.make_boards(options), out)
    evaluation = twofold.evaluate(
        recurrent_ppo.Player(agent),
        env="twofold/Concentration-v0",
        size=(2, 3),
        peeks=0,
        obs="one_hot_last",
        max_episode_steps=36,
    )
    return float(evaluation.lengths.mean() / 2)


def test_a_recurrent_network_learns_to_remember_cards(tmp_path: Path) -> None:
    # Without a memory, random play takes 9 turns, and trying each card with the same first card
    # takes 6. A perfect memory takes 13/3.
    assert turns(tmp_path) < 5
    assert turns(tmp_path, "--forget") > 5.5


def test_the_recurrent_example_saves_the_policy_that_it_evaluates(
    tmp_path: Path, server: Server
) -> None:
    def run(*words: str) -> list[tuple[str, str]]:
        command = [sys.executable, str(recurrent_ppo.__file__), "--size", "2", "2", *words]
        ran = subprocess.run(
            [*command, "--endpoint", server.ipc, "--episodes", "100"],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert ran.returncode == 0, ran.stderr
        return re.findall(r"^([\d.]+) turns; ([\d.]+) with a perfect memory$", ran.stdout, re.M)

    [trained] = run("--seconds", "8", "--out", str(tmp_path))
    report = json.loads((tmp_path / "curve.json").read_text(), parse_constant=pytest.fail)
    assert report["options"]["steps"] is None
    curve = report["curve"]
    assert curve
    assert all(row["turns_mean"] >= 2 for row in curve)
    assert [row["steps"] for row in curve] == sorted(row["steps"] for row in curve)
    assert list(tmp_path.glob("events.out.tfevents.*"))
    assert json.loads((tmp_path / "evaluation.json").read_text())["episodes"] == 100
    assert run("--evaluate", str(tmp_path / "model.pt")) == [trained]


# This is POPGym's easy game, but with four cards instead of 52.
FOUR_CARDS: dict[str, Any] = {
    "size": (2, 2),
    "peeks": 0,
    "matched_cards": "face_up",
    "illegal_action": "end_turn",
    "max_episode_steps": 8,
    "reward": {"match": 1 / 2, "mismatch": -1 / 4, "face_up_touch": -1 / 8},
}


def test_a_trained_gru_exceeds_the_best_play_without_memory(tmp_path: Path) -> None:
    words = ["--steps", "16000", "--num-envs", "64", "--hidden", "32", "--epochs", "4"]
    boards = gym.make_vec(
        popgym_gru.ENVIRONMENT, num_envs=64, observe_last_action=True, **FOUR_CARDS
    )
    agent, report = popgym_gru.train(popgym_gru.parse_arguments(words), boards, tmp_path)
    means = [row["mean_return"] for row in report["curve"]]
    assert report["mmer"]["mean_return"] == max(means)
    envs = gym.make_vec(
        popgym_gru.ENVIRONMENT, num_envs=500, observe_last_action=True, **FOUR_CARDS
    )
    played = twofold.evaluate(
        popgym_gru.Player(agent), env=popgym_gru.WithoutMask(envs), episodes=1000
    )
    without = twofold.ceilings.concentration(memory=0, **FOUR_CARDS).mean_return
    perfect = twofold.ceilings.concentration(**FOUR_CARDS).mean_return
    assert without < played.scores.mean() < perfect


def test_a_gru_remembers_each_board_since_its_reset() -> None:
    torch.manual_seed(0)
    agent = popgym_gru.Agent(cards=4, symbols=2, hidden=8)
    observations = np.random.default_rng(0).integers(3, size=(3, 2, 5), dtype=np.uint8)
    player = popgym_gru.Player(agent)
    mask = np.ones((2, 4), np.int8)
    player.reset(np.array([True, True]))
    for shown in observations[:2]:
        player(shown, mask)
    player.reset(np.array([False, True]))
    player(observations[2], mask)
    encoded = torch.stack([agent.encode(shown) for shown in observations])
    for board, since in ((0, 0), (1, 2)):
        _, _, state = agent(encoded[since:, board : board + 1])
        assert torch.allclose(player.state[:, board], state[:, 0], atol=1e-6)


def test_the_value_of_an_episode_is_its_discounted_rewards_up_to_its_end() -> None:
    rewards = torch.tensor([[1.0, 1.0], [2.0, 4.0], [4.0, 0.0]])
    values = torch.tensor([[0.5, 0.5], [0.25, 0.25], [0.125, 0.0]])
    advantages = popgym_gru.advantages_of(rewards, values, gamma=0.5, gae_lambda=1.0)
    assert (advantages + values)[:, 0].tolist() == [3.0, 4.0, 4.0]
    assert (advantages + values)[:, 1].tolist() == [3.0, 4.0, 0.0]


def test_the_gru_example_prints_its_returns_next_to_the_ceilings(
    tmp_path: Path, server: Server
) -> None:
    def run(*words: str) -> list[tuple[str, str]]:
        command = [sys.executable, str(popgym_gru.__file__), "--hidden", "8", *words]
        ran = subprocess.run(
            [*command, "--endpoint", server.ipc, "--episodes", "50", "--out", str(tmp_path)],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert ran.returncode == 0, ran.stderr
        return re.findall(r"^ +(-?[\d.]+)  (.*)$", ran.stdout, re.M)

    trained = run("--steps", "3000", "--num-envs", "16")
    report = json.loads((tmp_path / "result.json").read_text())
    assert [row["steps"] for row in report["curve"]] == [1664, 3328]
    assert report["evaluation"]["mean_steps"] <= 104
    for of in ("evaluation", "random"):
        low, high = report[of]["interval"]
        assert low < report[of]["mean_return"] < high
    assert report["random"]["episodes"] == 32
    assert report["random"]["mmer"] > report["random"]["mean_return"]
    ceilings = [figure for figure, what in trained if what.startswith("the maximum")]
    assert ceilings == ["0.4499", "0.7047", "0.8143", "0.8319", "0.8333"]
    assert list(tmp_path.glob("events.out.tfevents.*"))
    again = run("--evaluate", str(tmp_path / "model.pt"))
    assert again[0] == trained[0]
    assert again[-5:] == trained[-5:]


@pytest.mark.parametrize(
    ("module", "name", "words"),
    # With small batches, each agent has learnt something by then.
    [(ppo, "model", ["--num-steps", "8"]), (dqn_afterstates, "network", ["--batch", "8"])],
)
def test_an_example_saves_its_agents_at_given_times(
    module: ModuleType, name: str, words: list[str], tmp_path: Path
) -> None:
    words = [*words, "--seconds", "6", "--save-at", "3", "6", "--num-envs", "32"]
    options = module.parse_arguments([*words, "--threads", "1"])
    module.train(options, module.make_boards(options), tmp_path)
    report = json.loads((tmp_path / "curve.json").read_text(), parse_constant=pytest.fail)
    early, late = report["saved"]
    assert [early["file"], late["file"]] == [f"{name}-3.pt", f"{name}-6.pt"]
    assert 3 <= early["seconds"] < late["seconds"]
    assert 0 < early["steps"] < late["steps"]
    weights = []
    for file in (early["file"], late["file"], f"{name}.pt"):
        loaded = module.load(tmp_path / file)
        parts = loaded if isinstance(loaded, tuple) else (loaded,)
        weights.append([array.numpy().tobytes() for array in parts[0].state_dict().values()])
    assert weights[0] != weights[1] == weights[2]
    assert twofold.evaluate(module.policy_of(*parts), episodes=50).scores.mean() > 500


def test_ppo_plays_small_boards_and_calls_watch_while_it_learns(tmp_path: Path) -> None:
    words = ["--seconds", "inf", "--steps", "3000", "--num-envs", "32", "--num-steps", "32"]
    options = ppo.parse_arguments([*words, "--threads", "1"])
    envs = gym.make_vec(
        "twofold/Game2048-v0",
        num_envs=32,
        size=(2, 3),
        obs="one_hot",
        extra_infos=("episode",),
        autoreset_mode="SameStep",
    )
    watched = []

    def watch(agent: ppo.Agent, steps: int) -> None:
        weights = [array.numpy().tobytes() for array in agent.state_dict().values()]
        watched.append((steps, weights))

    agent = ppo.train(options, envs, tmp_path, watch)
    assert [steps for steps, _ in watched] == [0, 1024, 2048, 3072]
    assert watched[0][1] != watched[1][1]
    loaded = ppo.load(tmp_path / "model.pt")
    boards = np.array([[[1, 1, 0], [2, 0, 3]]], np.uint8)
    mask = twofold.rules.legal(boards)
    actions = [ppo.policy_of(each)(boards, mask).tolist() for each in (agent, loaded)]
    assert actions[0] == actions[1]
    assert twofold.evaluate(ppo.policy_of(loaded), size=(2, 3), episodes=50).scores.mean() > 20
