"""Plays one game of random legal moves on each of thousands of boards.

python random_agent.py
"""

import gymnasium as gym
import numpy as np

import twofold  # noqa: F401  (registers twofold/Game2048-v0)


def main(num_envs: int = 4096, endpoint: str | None = None) -> float:
    """Returns the mean score of each board's first game."""
    rng = np.random.default_rng(0)
    envs = gym.make_vec("twofold/Game2048-v0", num_envs=num_envs, endpoint=endpoint)
    _, infos = envs.reset(seed=0)
    scores = np.full(num_envs, -1)
    while (scores < 0).any():
        actions = (rng.random((num_envs, 4)) * infos["action_mask"]).argmax(axis=1)
        _, _, terminations, truncations, infos = envs.step(actions)
        ended = (terminations | truncations) & (scores < 0)
        scores[ended] = infos["score"][ended]
    envs.close()
    return float(scores.mean())


if __name__ == "__main__":
    print(f"mean score {main():,.1f}")  # 1,095 in the long run
