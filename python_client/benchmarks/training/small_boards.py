"""Trains one learner on a small 2048 board, and measures its exact regret during training.

    python small_boards.py td --size 2 3 --moves 1000000 --seed 1 --out runs/regret/td-2x3-1

`make regret` runs it for all learners, boards and seeds. regret.py describes the measurement.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
from numpy.typing import NDArray
from tabular import Afterstates, Exploration, QLearning

import twofold

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

# The cells of the n-tuple network, row by row from 0.
TUPLES = {
    (2, 2): ((0, 1, 2, 3),),
    (2, 3): ((0, 1, 3, 4), (0, 1, 2)),
    (3, 3): ((0, 1, 2, 3, 4, 5), (0, 1, 2, 3, 4, 6)),
}
MARKS = [10 ** (k / 4 - 3) for k in range(13)]
"""The measurement points, as shares of all moves: from a thousandth to all of them."""

Policy = Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]


class Curve:
    """A learning curve, which measures the policy at each of the MARKS.

    Args:
        size: The size of the board.
        moves: The number of moves in the whole training run.
        games: The number of games in each measurement.
    """

    def __init__(self, size: tuple[int, int], moves: int, games: int) -> None:
        self.size, self.moves, self.games = size, moves, games
        self.marks = [round(part * moves) for part in MARKS]
        self.points: list[dict[str, Any]] = []
        self.began = time.perf_counter()

    def watch(self, policy: Policy | twofold.policies.Policy, moves: int) -> None:
        """Measures the policy if a measurement is due. This does not count as training time."""
        if not self.marks or moves < self.marks[0]:
            return
        self.marks = [mark for mark in self.marks if mark > moves]
        paused = time.perf_counter()
        result = twofold.evaluate(policy, size=self.size, episodes=self.games, regret=True)
        assert result.regret is not None
        regrets = result.regret.games
        self.points.append(
            {
                "moves": moves,
                "seconds": paused - self.began,
                "score": float(result.scores.mean()),
                "regret_of_a_game": float(regrets.mean()),
                "standard_error": float(regrets.std(ddof=1) / len(regrets) ** 0.5),
                "regret_of_a_move": float(regrets.sum() / result.lengths.sum()),
            }
        )
        self.began += time.perf_counter() - paused


def make_boards(options: argparse.Namespace, **arguments: Any) -> Any:
    """Makes the boards."""
    return gym.make_vec(
        "twofold/Game2048-v0",
        num_envs=options.num_envs,
        size=tuple(options.size),
        autoreset_mode="SameStep",
        **arguments,
    )


def train_table(options: argparse.Namespace, curve: Curve) -> None:
    """Trains one of the learners in tabular.py."""
    kind: Any = {"q": QLearning, "td": Afterstates}[options.learner]
    learner = kind(make_boards(options), options.seed, Exploration(options.seed, 0.1))
    for played in range(0, options.moves, options.num_envs):
        curve.watch(learner.policy, played)
        learner.step(1 - played / options.moves)
    curve.watch(learner.policy, options.moves)


def train_native(options: argparse.Namespace, curve: Curve) -> None:
    """Trains the n-tuple network of `twofold.train`."""
    options.out.parent.mkdir(parents=True, exist_ok=True)
    file = options.out.with_suffix(".npz")
    file.unlink(missing_ok=True)
    rows, columns = options.size
    steps = moves = 0
    while curve.marks:
        steps += curve.marks[0] - moves
        training = twofold.train(
            TUPLES[rows, columns],
            steps=steps,
            num_envs=options.num_envs,
            seed=options.seed,
            exponents=rows * columns + 2,  # from an empty cell to the largest possible tile
            file=file,
            resume=file.exists(),
            size=(rows, columns),
        )
        # A step that starts a game plays no move.
        steps, moves = training.steps, training.steps - training.episodes
        curve.watch(training.policy, moves)
    file.unlink()


def train_ppo(options: argparse.Namespace, curve: Curve) -> None:
    """Trains the agent of examples/ppo.py. Rewards are scores divided by the board's optimum."""
    sys.path.insert(0, str(EXAMPLES))
    ppo: Any = importlib.import_module("ppo")
    out = options.out.with_suffix(".ppo")
    out.mkdir(parents=True, exist_ok=True)
    words = (
        f"--seconds inf --steps {options.moves} --num-envs {options.num_envs} --num-steps 32 "
        f"--hidden 128 --gamma 1 --gae-lambda 0.95 --threads 1 --seed {options.seed}"
    )
    envs = make_boards(
        options,
        obs="one_hot",
        reward={"merge_score": 1 / options.scale},
        extra_infos=("episode",),
        copy=False,
    )
    ppo.train(
        ppo.parse_arguments(words.split()),
        envs,
        out,
        lambda agent, steps: curve.watch(ppo.policy_of(agent), steps),
    )


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("learner", choices=("q", "td", "train", "ppo"))
    add("--size", type=int, nargs=2, required=True, metavar=("ROWS", "COLUMNS"))
    add("--moves", type=int, required=True, help="moves of training, on all boards together")
    add("--seed", type=int, default=1, help="seed of boards, weights and random actions")
    add("--num-envs", type=int, default=128, help="number of boards")
    add("--games", type=int, default=1000, help="games per measurement")
    add("--scale", type=float, default=1, help="the optimal expected score")
    add("--out", type=Path, required=True, help="JSON file for results")
    options = parser.parse_args()
    curve = Curve(tuple(options.size), options.moves, options.games)
    {"train": train_native, "ppo": train_ppo}.get(options.learner, train_table)(options, curve)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    report = {"options": vars(options), "points": curve.points}
    options.out.write_text(json.dumps(report, default=str, indent=1) + "\n")


if __name__ == "__main__":
    main()
