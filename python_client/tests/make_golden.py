"""Writes the golden trajectories that Swift and Python tests share.

    cd python_client/tests && python -m make_golden

The games come from reference.py, the actions from `random.Random(seed).random()`, which Python
keeps the same for ever, so running this again changes nothing. Tests/Fixtures/golden/README.md has
the format.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reference import Game

GOLDEN = Path(__file__).resolve().parents[2] / "Tests" / "Fixtures" / "golden"

SEEDS = [0, 1, 2**32, 2**63 + 5, 2**64 - 1]

# name: (steps, share of deliberately illegal actions, seeds, config)
TRAJECTORIES: dict[str, tuple[int, float, list[int], dict[str, Any]]] = {
    "4x4": (250, 0.1, SEEDS, {}),
    "2x2": (200, 0.1, SEEDS, {"rows": 2, "columns": 2}),
    "3x5": (300, 0.1, [3, 2**64 - 2], {"rows": 3, "columns": 5}),
    "8x8": (300, 0.1, [8], {"rows": 8, "columns": 8}),
    "4x4-only-twos": (250, 0.1, [20], {"four_probability": 0.0}),
    "4x4-half-fours": (250, 0.1, [21], {"four_probability": 0.5}),
    "4x4-only-fours": (250, 0.1, [22], {"four_probability": 1.0}),
    "4x4-one-start-tile": (250, 0.1, [30], {"start_tiles": 1}),
    "4x4-five-start-tiles": (250, 0.1, [31], {"start_tiles": 5}),
    "4x4-stop-at-64": (300, 0.1, [40, 2**62], {"goal": 64, "stop_at_goal": True}),
    "4x4-illegal-terminates": (200, 0.04, [50, 51], {"illegal_action": "terminate"}),
    "4x4-at-most-20-steps": (200, 0.1, [60], {"max_episode_steps": 20}),
    "2x2-at-most-6-steps": (200, 0.1, [61], {"rows": 2, "columns": 2, "max_episode_steps": 6}),
}


def choose(game: Game, rng: random.Random, illegal_share: float) -> int:
    """A random legal action, sometimes an illegal one; anything where the lane will be reset."""
    legal = game.mask()
    wanted = 0 if rng.random() < illegal_share else 1
    actions = [action for action in range(4) if legal[action] == wanted] or range(4)
    return actions[int(rng.random() * len(actions))]


def state(game: Game) -> dict[str, Any]:
    """What a reset or a step tells, under the names of the environment's arrays."""
    return {
        "observation": list(game.board),
        "action_mask": game.mask(),
        "score": game.score,
        "max_exponent": max(game.board),
        "episode_length": game.episode_length,
        "moves": game.moves,
        "goal_reached": int(game.goal_reached),
    }


def play(config: dict[str, Any], seed: int, steps: int, illegal_share: float) -> dict[str, Any]:
    """One lane's trajectory: actions and, per step, one entry in each of the columns."""
    rng = random.Random(seed)
    game = Game(seed, **config)
    initial, actions = state(game), []
    columns: dict[str, list[Any]] = {
        name: [] for name in (*initial, "reward", "terminated", "truncated")
    }
    for _ in range(steps):
        actions.append(choose(game, rng, illegal_share))
        reward = game.step(actions[-1])
        told = {
            **state(game),
            "reward": reward,
            "terminated": int(game.terminated),
            "truncated": int(game.truncated),
        }
        for name, value in told.items():
            columns[name].append(value)
    return {
        "seed": seed,
        "initial": initial,
        "actions": actions,
        "steps": columns,
        "generator": list(game.generator.words),
    }


def files() -> Iterator[tuple[str, str]]:
    """Name and text of every golden file."""
    defaults = {
        "rows": 4,
        "columns": 4,
        "goal": 2048,
        "stop_at_goal": False,
        "four_probability": 0.1,
        "start_tiles": 2,
        "illegal_action": "noop",
        "max_episode_steps": None,
    }
    for name, (steps, illegal_share, seeds, changes) in TRAJECTORIES.items():
        config = {**defaults, **changes}
        lanes = [play(config, seed, steps, illegal_share) for seed in seeds]
        golden = {"environment_id": "twofold/Game2048-v0", "config": config, "lanes": lanes}
        yield f"{name}.json", json.dumps(golden, separators=(",", ":")) + "\n"


if __name__ == "__main__":
    for name, text in files():
        (GOLDEN / name).write_text(text)
        print(f"{len(text):7,} bytes  {name}")
