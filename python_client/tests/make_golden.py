"""Writes the golden trajectories that Swift and Python tests share.

    cd python_client/tests && python -m make_golden

reference.py and reference_concentration.py play the games. The actions come from
`random.Random(seed).random()`, whose numbers are the same in all Python versions. The command
therefore always writes the same files. Tests/Fixtures/golden/README.md describes the format.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reference import Game, Lane
from reference_concentration import Game as Cards

GOLDEN = Path(__file__).resolve().parents[2] / "Tests" / "Fixtures" / "golden"
CONCENTRATION = GOLDEN / "concentration"

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
    "3x3": (200, 0.1, [70, 71], {"rows": 3, "columns": 3}),
    "2x8": (200, 0.1, [72], {"rows": 2, "columns": 8}),
    "8x2": (200, 0.1, [72], {"rows": 8, "columns": 2}),
    "4x4-goal-32": (200, 0.1, [73], {"goal": 32}),
    "4x4-stop-at-4": (100, 0.1, [74, 75], {"goal": 4, "stop_at_goal": True}),
    "4x4-fifteen-start-tiles": (200, 0.1, [76], {"start_tiles": 15}),
    "4x4-stop-at-32-illegal-terminates-at-most-40-steps": (
        300,
        0.02,
        [77],
        {
            "goal": 32,
            "stop_at_goal": True,
            "illegal_action": "terminate",
            "max_episode_steps": 40,
        },
    ),
}
for mode in ("same_step", "disabled"):
    name, at_most = mode.replace("_", "-"), {"autoreset_mode": mode, "max_episode_steps": 8}
    TRAJECTORIES[f"2x2-{name}"] = (120, 0.1, SEEDS, {"rows": 2, "columns": 2, **at_most})
    TRAJECTORIES[f"4x4-{name}"] = (250, 0.1, [62, 63], {**at_most, "max_episode_steps": 120})


def choose(game: Lane, rng: random.Random, illegal_share: float, peek_share: float = 0.0) -> int:
    """Returns a random legal action, sometimes a peek or an illegal action.

    Before a reset, returns any action.
    """
    actions = range(4)
    if isinstance(game, Cards):
        actions = game.each_card()
        if game.num_actions > game.cards and rng.random() < peek_share:
            return game.cards
    legal = game.mask()
    wanted = 0 if rng.random() < illegal_share else 1
    chosen = [action for action in actions if legal[action] == wanted] or actions
    return chosen[int(rng.random() * len(chosen))]


def play(
    game: Lane, seed: int, steps: int, illegal_share: float, peek_share: float = 0.0
) -> dict[str, Any]:
    """Returns the trajectory of a new lane: actions and, per step, an entry in each column."""
    rng = random.Random(seed)
    initial, actions = game.told(), []
    resets: list[dict[str, Any]] = []
    finals: list[dict[str, Any]] = []
    columns: dict[str, list[Any]] = {
        name: [] for name in (*initial, "reward", "terminated", "truncated")
    }
    for step in range(steps):
        if game.autoreset_mode == "disabled" and (game.terminated or game.truncated):
            game.start()
            resets.append({"step": step, **game.told()})
        actions.append(choose(game, rng, illegal_share, peek_share))
        reward = game.step(actions[-1])
        told = {
            **game.told(),
            "reward": reward,
            "terminated": int(game.terminated),
            "truncated": int(game.truncated),
        }
        for name, value in told.items():
            columns[name].append(value)
        if game.final is not None:
            finals.append({"step": step, **game.final})
    extra = {"resets": resets} if game.autoreset_mode == "disabled" else {}
    extra |= {"finals": finals} if game.autoreset_mode == "same_step" else {}
    return {
        "seed": seed,
        "initial": initial,
        "actions": actions,
        "steps": columns,
        **extra,
        "generator": list(game.generator.words),
    }


# name: (steps, share of deliberately illegal actions, share of peeks, seeds, config)
CARDS: dict[str, tuple[int, float, float, list[int], dict[str, Any]]] = {
    "4x4": (300, 0.1, 0.05, [0, 2**64 - 1], {}),
    "1x2": (100, 0.2, 0.2, [1], {"rows": 1, "columns": 2, "symbols": 1}),
    "2x3-two-peeks": (
        300,
        0.2,
        0.2,
        [2, 3],
        {"rows": 2, "columns": 3, "symbols": 3, "peeks": 2, "observe_last_action": True},
    ),
    "2x3-same-step": (
        200,
        0.1,
        0.1,
        [7, 8],
        {
            "rows": 2,
            "columns": 3,
            "symbols": 3,
            "autoreset_mode": "same_step",
            "max_episode_steps": 18,
        },
    ),
    "2x4-face-up": (
        300,
        0.2,
        0,
        [4],
        {"rows": 2, "columns": 4, "symbols": 2, "peeks": 0, "matched_cards": "face_up"},
    ),
    "2x4-illegal-terminates": (
        300,
        0.03,
        0.1,
        [5],
        {"rows": 2, "columns": 4, "symbols": 4, "peeks": 1, "illegal_action": "terminate"},
    ),
    "4x13-popgym": (
        250,
        0.15,
        0,
        [6],
        {
            "rows": 4,
            "columns": 13,
            "symbols": 2,
            "peeks": 0,
            "matched_cards": "face_up",
            "illegal_action": "end_turn",
            "max_episode_steps": 104,
        },
    ),
    "2x4-one-peek-ends-turns": (
        300,
        0.3,
        0.2,
        [8],
        {
            "rows": 2,
            "columns": 4,
            "symbols": 4,
            "peeks": 1,
            "illegal_action": "end_turn",
            "max_episode_steps": 20,
        },
    ),
    "8x16": (120, 0.05, 0.01, [9], {"rows": 8, "columns": 16, "symbols": 64}),
}


def files() -> Iterator[tuple[str, str]]:
    """Yields the path and text of every golden file."""
    defaults: dict[str, Any] = {
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
        lanes = [play(Game(seed, **config), seed, steps, illegal_share) for seed in seeds]
        yield f"{name}.json", text_of("Game2048", config, lanes)
    defaults = {
        "rows": 4,
        "columns": 4,
        "symbols": 8,
        "peeks": None,
        "matched_cards": "removed",
        "illegal_action": "noop",
        "observe_last_action": False,
        "max_episode_steps": None,
    }
    for name, (steps, illegal_share, peek_share, seeds, changes) in CARDS.items():
        config = {**defaults, **changes}
        lanes = [
            play(Cards(seed, **config), seed, steps, illegal_share, peek_share) for seed in seeds
        ]
        yield f"concentration/{name}.json", text_of("Concentration", config, lanes)


def text_of(game: str, config: dict[str, Any], lanes: list[dict[str, Any]]) -> str:
    golden = {"environment_id": f"twofold/{game}-v0", "config": config, "lanes": lanes}
    return json.dumps(golden, separators=(",", ":")) + "\n"


if __name__ == "__main__":
    CONCENTRATION.mkdir(exist_ok=True)
    for name, text in files():
        (GOLDEN / name).write_text(text)
        print(f"{len(text):7,} bytes  {name}")
