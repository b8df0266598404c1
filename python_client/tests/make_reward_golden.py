"""Writes the golden trajectories with declared rewards that Swift and Python tests share.

    cd python_client/tests && python -m make_reward_golden

Games, actions and format are the same as in make_golden.py. In addition, each file has `reward`,
the declared spec, and each step has the extra infos. Tests/Fixtures/rewards/README.md describes the
format.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import reward_reference
from make_golden import choose
from reference import Game

FOLDER = Path(__file__).resolve().parents[2] / "Tests" / "Fixtures" / "rewards"

TABLE = [round(0.37 * exponent - 3.3, 2) for exponent in range(32)]


def spec(cells: int) -> dict[str, Any]:
    """Returns a spec of eleven terms, one of which occurs twice."""
    return {
        "terms": [
            {"term": "merge_score", "weight": 0.1},
            {"term": "empty_cells", "weight": 0.7, "gamma": 0.99},
            {"term": "monotonicity", "weight": 0.3, "gamma": 0.9},
            {"term": "merge_table", "weight": -0.2, "table": TABLE},
            {"term": "illegal_action", "weight": -1.1},
            {"term": "smoothness", "weight": 0.13, "gamma": 0.99},
            {"term": "empty_cells", "weight": -0.4, "gamma": 1.0},
            {"term": "corner", "weight": 0.9, "gamma": 0.99},
            {
                "term": "cell_weights",
                "weight": 0.01,
                "gamma": 0.99,
                "table": [cell * cell - 5 for cell in range(cells)],
            },
            {"term": "new_max_tile", "weight": 3.3},
            {"term": "game_over", "weight": -7.7},
        ],
        "scale": 0.3,
        "clip": [-3.0, 2.0],
    }


# name: (steps, seeds, config)
TRAJECTORIES: dict[str, tuple[int, list[int], dict[str, Any]]] = {
    "4x4": (250, [0, 2**63 + 5], {"rows": 4, "columns": 4}),
    "2x3-at-most-20-steps": (200, [1, 2], {"rows": 2, "columns": 3, "max_episode_steps": 20}),
}


def play(reward: dict[str, Any], config: dict[str, Any], seed: int, steps: int) -> dict[str, Any]:
    """Returns one lane's trajectory: actions and, per step, an entry in each column."""
    rng = random.Random(seed)
    game = Game(seed, **config)
    cells = game.rows * game.columns
    actions: list[int] = []
    columns: dict[str, list[Any]] = {}
    for _ in range(steps):
        actions.append(choose(game, rng, 0.1))
        plays = not (game.terminated or game.truncated)
        before = game.board
        game.step(actions[-1])
        told: dict[str, Any] = {
            "observation": list(game.board),
            "terminated": int(game.terminated),
            "truncated": int(game.truncated),
            "reward": 0.0,
            "reward_terms": [0.0] * len(reward["terms"]),
            "merges": [0] * cells,
            "chance": -1,
            "afterstates": [0] * cells,
        }
        if plays:
            step = reward_reference.Transition(
                before, actions[-1], game.board, game.terminated, game.rows, game.columns, game.goal
            )
            terms = reward_reference.terms(reward, step)
            told |= {
                "reward": reward_reference.reward(reward, terms),
                # 0.0: a zero is never negative.
                "reward_terms": [float(np.float32(term)) + 0.0 for term in terms],
                "merges": list(step.merges),
                "chance": step.chance,
                "afterstates": list(step.afterstate),
            }
        for name, value in told.items():
            columns.setdefault(name, []).append(value)
    return {"seed": seed, "actions": actions, "steps": columns}


def files() -> Iterator[tuple[str, str]]:
    """Yields the name and text of every golden file."""
    for name, (steps, seeds, config) in TRAJECTORIES.items():
        reward = spec(config["rows"] * config["columns"])
        golden = {
            "environment_id": "twofold/Game2048-v0",
            "config": {"max_episode_steps": None, **config},
            "reward": reward,
            "lanes": [play(reward, config, seed, steps) for seed in seeds],
        }
        yield f"{name}.json", json.dumps(golden, separators=(",", ":")) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in files():
        (FOLDER / name).write_text(text)
        print(f"{len(text):7,} bytes  {name}")
