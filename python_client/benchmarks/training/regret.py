"""Trains learners on small 2048 boards, where the optimum is known, and prints their regret.

    make regret                                        # about an hour on two cores
    make regret REGRET_ARGS="--boards 2x2 --seeds 1"   # a minute
    make regret REGRET_ARGS=--report                   # the table of existing results

All learners play the same number of moves on a board. At 13 points in the training, from a
thousandth of the moves to all of them, each learner plays complete games without random actions and
without learning. The board's table (docs/reference/optimum.md) gives the regret of each move: the
value of the board minus the value of the action. A game's regrets therefore add up to the learner's
distance from the optimum, free of luck in the spawns. Tables are made once, before the runs.
Results are kept in runs/regret, and runs with a result for the same number of moves are not
repeated. After `--publish`, `make pictures PICTURES_ARGS=regret.png` draws the results.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))

import figures
import tables
from figures import REPOSITORY

import twofold

HERE = Path(__file__).resolve().parent
PYTHON = REPOSITORY / ".build" / "trainers" / "sb3" / "bin" / "python"
RUNS = REPOSITORY / "runs" / "regret"


@dataclass(frozen=True)
class Board:
    """A board, and the number of moves that learners play on it."""

    rows: int
    columns: int
    moves: int

    @property
    def name(self) -> str:
        """The size as text: rows x columns."""
        return f"{self.rows}x{self.columns}"


BOARDS = (Board(2, 2, 200_000), Board(2, 3, 2_000_000), Board(3, 3, 4_000_000))
LEARNERS = {
    "q": "Q-learning",
    "td": "TD, afterstates",
    "train": "n-tuple network, `twofold train`",
    "ppo": "PPO",
}
BASELINES = {
    "random": "random play",
    "fixed-order": "the first legal action",
    "greedy": "highest reward",
}
SEEDS = (1, 2, 3)
"""The seeds of the published results."""
GAMES = 10_000
"""The number of games in the baselines' evaluations."""


def solve(board: Board) -> float:
    """Makes the board's table, or checks an existing one. Returns the optimal expected score."""
    return float(figures.output("solve", "--size", board.name)["value"])


def known(boards: Sequence[Board], out: Path) -> dict[str, dict[str, float]]:
    """Makes the boards' tables. Returns the optimum and the baselines' regret on each board."""
    path = out / "known.json"
    known: dict[str, dict[str, float]] = json.loads(path.read_text()) if path.exists() else {}
    for board in boards:
        optimum = solve(board)
        here = known.setdefault(board.name, {"optimum": optimum})
        size = (board.rows, board.columns)
        for policy in BASELINES.keys() - here.keys():
            played = twofold.evaluate(policy, size=size, episodes=GAMES, regret=True)
            assert played.regret is not None
            here[policy] = float(played.regret.games.mean())
    path.write_text(json.dumps(known, indent=1) + "\n")
    return known


def read(path: Path, moves: int) -> dict[str, Any] | None:
    """Returns a stored result; None if it is missing or for a different number of moves."""
    result: dict[str, Any] | None = json.loads(path.read_text()) if path.exists() else None
    return result if result and result["options"]["moves"] == moves else None


def run(name: str, moves: int, words: Sequence[object], out: Path) -> bool:
    """Runs small_boards.py unless a result exists, and writes its output to a file.

    Returns False if the program failed.
    """
    result, log = out / f"{name}.json", out / f"{name}.txt"
    if read(result, moves):
        return True
    words = [*words, "--moves", moves]
    command = [str(word) for word in (PYTHON, HERE / "small_boards.py", *words, "--out", result)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with log.open("w") as output:
        code = subprocess.run(command, stdout=output, stderr=output, env=environment).returncode
    print(f"{name}: {'done' if code == 0 else f'exit status {code}, see {log}'}", flush=True)
    return code == 0


def measured(boards: Sequence[Board], out: Path) -> list[figures.Row]:
    """Returns the regret per game after all moves: median, lowest and highest over the seeds."""
    optima = json.loads((out / "known.json").read_text())
    rows: list[figures.Row] = []
    for board in boards:
        known = optima[board.name]
        optimum = {"learner": "optimum", "moves": board.moves, "score": known["optimum"]}
        rows.append({"board": board.name, **optimum})
        for learner, label in LEARNERS.items():
            paths = out.glob(f"{learner}-{board.name}-*.json")
            runs = [one for path in paths if (one := read(path, board.moves))]
            ends = [one["points"][-1]["regret_of_a_game"] for one in runs]
            regret = [statistics.median(ends), min(ends), max(ends)] if len(ends) > 1 else ends
            rows.append({"board": board.name, "learner": label, "regret": regret})
        for policy, label in BASELINES.items():
            label = f"{label}, without learning"
            rows.append({"board": board.name, "learner": label, "regret": [known[policy]]})
    return rows


def check_complete(boards: Sequence[Board], out: Path) -> None:
    """Checks that there is a result for each learner, board and seed.

    Raises:
        SystemExit: A result is missing.
    """
    names = {
        f"{learner}-{board.name}-{seed}": board.moves
        for board in boards
        for learner in LEARNERS
        for seed in SEEDS
    }
    missing = [name for name, moves in names.items() if not read(out / f"{name}.json", moves)]
    if missing:
        sys.exit(f"nothing was published, because these results are missing: {', '.join(missing)}")


def main(words: list[str] | None = None) -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    names = [board.name for board in BOARDS]
    add("--boards", nargs="+", choices=names, default=names, metavar="BOARD", help=", ".join(names))
    learners = list(LEARNERS)
    add("--learners", nargs="+", choices=learners, default=learners, help=", ".join(learners))
    add("--seeds", type=int, nargs="+", default=SEEDS, help="seeds, one training run each")
    add("--moves", type=int, help="moves of each run (default: the board's number)")
    add("--games", type=int, default=1000, help="games per measurement")
    add("--jobs", type=int, default=os.cpu_count(), help="number of training runs at once")
    add("--out", type=Path, default=RUNS, help="folder for results")
    add("--report", action="store_true", help="only print the table")
    add("--publish", action="store_true", help=figures.HELP)
    options = parser.parse_args(words)
    boards = [board for board in BOARDS if board.name in options.boards]
    if options.moves:
        boards = [replace(board, moves=options.moves) for board in boards]
    runs: list[Future[bool]] = []
    if not options.report:
        options.out.mkdir(parents=True, exist_ok=True)
        optima = known(boards, options.out)
        with ThreadPoolExecutor(options.jobs) as pool:
            for board in boards:
                size = ["--size", board.rows, board.columns]
                scale = ["--scale", optima[board.name]["optimum"], "--games", options.games]
                for seed in options.seeds:
                    for learner in options.learners:
                        call = [learner, *size, *scale, "--seed", seed]
                        name = f"{learner}-{board.name}-{seed}"
                        runs.append(pool.submit(run, name, board.moves, call, options.out))
    succeeded = [each.result() for each in runs]
    rows = measured(boards, options.out)
    print(tables.regret(rows), end="")
    if not all(succeeded):
        sys.exit("some training runs failed, as listed above")
    if options.publish:
        check_complete(boards, options.out)
        figures.publish("regret", rows)


if __name__ == "__main__":
    main()
