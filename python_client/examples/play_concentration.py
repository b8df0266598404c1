"""Measures how much memory helps in Concentration, and shows a game.

    python play_concentration.py
    python play_concentration.py --games 20000 --picture games.png

Three players play a thousand games each: random play, a perfect memory, and a perfect memory that
peeks at all cards at the start. Then it shows one game move by move.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from PIL import Image

from twofold.policies import PerfectMemory

ID = "twofold/Concentration-v0"
Policy = Callable[[Any, dict[str, Any]], Any]


def chance(seed: int) -> Policy:
    """Returns a policy that flips a random card that can be flipped."""
    rng = np.random.default_rng(seed)

    def act(observations: Any, infos: dict[str, Any]) -> Any:
        mask = infos["action_mask"][:, :-1]  # without the peek
        return (rng.random(mask.shape) * mask).argmax(1)

    return act


def peek_first(envs: Any, memory: PerfectMemory) -> Policy:
    """Returns a policy that peeks at all cards once, and then plays with a perfect memory."""
    peek = envs.single_action_space.n - 1

    def act(observations: Any, infos: dict[str, Any]) -> Any:
        return np.where(infos["peeks"] == 0, peek, memory(observations, infos["action_mask"]))

    return act


def measure(envs: Any, policy: Policy) -> tuple[float, float]:
    """Plays one episode on each board. Returns the mean number of turns and the mean return."""
    observations, infos = envs.reset(seed=0)
    running = np.ones(envs.num_envs, np.bool_)
    turns, returns = np.zeros(envs.num_envs), np.zeros(envs.num_envs)
    while running.any():
        observations, rewards, terminations, _, infos = envs.step(policy(observations, infos))
        returns[running] += rewards[running]
        turns[running] = infos["turns"][running]
        running &= ~terminations
    return float(turns.mean()), float(returns.mean())


def main() -> None:
    """Measures the three players, then shows a game."""
    parser = argparse.ArgumentParser(description="Measures how much memory helps in Concentration.")
    parser.add_argument("--games", type=int, default=1000)
    parser.add_argument("--picture", help="PNG file for some games in progress")
    arguments = parser.parse_args()

    envs: Any = gym.make_vec(ID, num_envs=arguments.games, preset="playground").unwrapped
    memory = PerfectMemory(envs)
    print(f"{arguments.games} games of 8 pairs        turns    return")
    for name, policy in (
        ("by chance", chance(seed=1)),
        ("with a perfect memory", lambda seen, infos: memory(seen, infos["action_mask"])),
        ("with memory and one peek", peek_first(envs, memory)),
    ):
        turns, mean = measure(envs, policy)
        print(f"{name:26} {turns:9.2f} {mean:9.2f}")

    if arguments.picture:
        observations, infos = envs.reset(seed=1)
        for _ in range(12):
            observations, *_, infos = envs.step(memory(observations, infos["action_mask"]))
        Image.fromarray(envs.render_grid(columns=40, width=3200)).save(arguments.picture)
        print(f"wrote {arguments.picture}")
    envs.close()

    env = gym.make(ID, preset="playground", size=(2, 4), render_mode="ansi")
    memory = PerfectMemory(env)
    observation, info = env.reset(seed=3)
    terminated = False
    while not terminated:
        observation, _, terminated, _, info = env.step(memory(observation, info["action_mask"]))
        print(f"\nturn {info['turns']}, pairs {info['pairs']}\n{env.render()}")
    env.close()


if __name__ == "__main__":
    main()
