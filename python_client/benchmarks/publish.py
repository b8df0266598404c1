"""Measures the documents' figures that no other command measures; writes them to docs/figures.

    python python_client/benchmarks/publish.py demo       # two minutes of training; idle machine
    python python_client/benchmarks/publish.py agents     # half an hour
    python python_client/benchmarks/publish.py commands   # time and memory of three commands
    python python_client/benchmarks/publish.py memory_of_cards  # a minute
    python python_client/benchmarks/publish.py optimum    # minutes; solves the small boards
    python python_client/benchmarks/publish.py optimal_play  # a million 3 x 3 games
    python python_client/benchmarks/publish.py campaigns  # two hours of simulation
    python python_client/benchmarks/publish.py ppo        # 20 minutes; needs `make trainers`
    python python_client/benchmarks/publish.py learning   # 90 minutes of training; idle machine
    python python_client/benchmarks/publish.py recurrent  # from runs of recurrent_ppo.py
    python python_client/benchmarks/publish.py gru        # from runs of popgym_gru.py

The last two read the reports that the examples wrote to runs/.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "simulation"))
sys.path.append(str(Path(__file__).resolve().parent / "training"))

import compare
import figures
import learning_figures
import score_per_second
import tables
from figures import REPOSITORY, Row, output

RUNS = REPOSITORY / "runs"
TWOFOLD = [sys.executable, "-m", "twofold"]

AGENTS = {
    "random": ("none", "random --episodes 100000"),
    "fixed order: the first legal of up, right, down, left": (
        "none",
        "fixed-order --episodes 100000",
    ),
    "greedy: highest reward": ("1 max layer (1 ply)", "greedy --episodes 10000"),
    "expectimax, depth 1": (
        "1 max layer (1 ply), 2 layers (3 plies) at 3 empty cells or fewer",
        "expectimax:1 --protocol deep",
    ),
    "expectimax, depth 2": (
        "2 max layers (3 plies), 3 layers (5 plies) at 3 empty cells or fewer",
        "expectimax --protocol deep",
    ),
    "expectimax, depth 3": (
        "3 max layers (5 plies), 4 layers (7 plies) at 3 empty cells or fewer",
        "expectimax:3 --protocol deep",
    ),
}
"""The agents, with their search depths and their arguments for `twofold evaluate`."""


PPO = (
    compare.Program("ppo", "PPO in PyTorch", "sb3", "torch", "SAME_STEP"),
    compare.Program("ppo_jax", "PPO in one jitted function", "jax", "jax", "SAME_STEP"),
)
"""The examples with the same network, boards and options."""


MEMORIES = {"playground": (*"0123456", "8", "all"), "popgym-hard": (*"012345",)}
"""The numbers of remembered cards by preset, up to the largest number solvable in seconds."""


MARKS = (40_960, 81_920, 122_880)
"""The training steps of `recurrent_ppo.py` at which the documents report its turns per game."""


def trained(file: Path, *words: str) -> dict[str, Any]:
    """Trains a network on all processors, and returns the output of `twofold train`."""
    threads = ("--threads", f"{len(os.sched_getaffinity(0))}")
    return output("train", str(file), *threads, "--quiet", *words)


def demo() -> list[Row]:
    """Trains a network as `make demo` does, and evaluates it and two baselines."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "agent.npz"
        trained(file, "--seconds", "120")
        players = {"random": "random", "fixed order": "fixed-order", "trained": f"ntuple:{file}"}
        words = ("--episodes", "2000", "--quiet")
        return [
            {"agent": agent, **tables.evaluated(output("evaluate", player, *words))}
            for agent, player in players.items()
        ]


def agents() -> list[Row]:
    """Evaluates the agents that need no training."""
    rows = []
    for agent, (depth, command) in AGENTS.items():
        began = time.monotonic()
        found = output("evaluate", *command.split(), "--quiet")
        moves = found["moves"]["mean"] * found["episodes"]
        rate = moves / (time.monotonic() - began)
        rows.append(
            {"agent": agent, **tables.evaluated(found), "depth": depth, "moves_per_second": rate}
            | {"command": command}
        )
    return rows


def usage(*words: str, folder: str) -> tuple[bytes, float, resource.struct_rusage]:
    """Runs a `twofold` command in a folder.

    Returns its output, its duration in seconds, and its use of time and memory.
    """
    began = time.monotonic()
    with subprocess.Popen([*TWOFOLD, *words], cwd=folder, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        printed = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, words
    return printed, time.monotonic() - began, used


def commands() -> list[Row]:
    """Measures the time and the memory of three commands."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for words in (
            "evaluate random --episodes 100000",
            "write-dataset random --transitions 10000000 --seed 1 --out data.parquet",
            "verify data.parquet",
        ):
            _, seconds, used = usage(*words.split(), folder=folder)
            megabytes = used.ru_maxrss * 1024 / 1e6
            rows.append({"command": f"twofold {words}", "seconds": seconds, "megabytes": megabytes})
    return rows


def memory_of_cards() -> list[Row]:
    """Plays Concentration with each number of remembered cards, and measures the returns.

    Each player makes the best possible use of its memory. No player peeks.
    """
    import twofold

    rows = []
    for preset, memories in MEMORIES.items():
        for memory in ("random", *memories):
            played = twofold.evaluate(
                memory if memory == "random" else f"last-k-memory:{memory}",
                env="twofold/Concentration-v0",
                episodes=1000,
                preset=preset,
                peeks=0,
            )
            score = played.summary["score"]
            found = [round(each, 4) for each in (score["mean"], *score["mean_interval"])]
            turns = round(played.summary["moves"]["mean"] / 2, 2)
            rows.append({"preset": preset, "memory": memory, "games": 1000})
            rows[-1] |= {"return": found, "turns": turns}
    return rows


def optimum() -> list[Row]:
    """Solves four small boards for the highest expected score, and measures time and memory."""
    rows = []
    for board in ("2x2", "2x3", "2x4", "3x3"):
        with tempfile.TemporaryDirectory() as folder:
            words = ("--size", board, "--json", "--quiet", "--tables", folder)
            printed, _, used = usage("solve", *words, folder=folder)
        found = json.loads(printed)
        tiles = sorted(((int(tile), share) for tile, share in found["reached"].items()))
        rows.append(
            {
                "board": board,
                "boards": found["states"],
                "terminal": found["terminal"],
                # Exact, whereas play chooses actions by the table's rounded values.
                "score": found["value"],
                "moves": found["moves"],
                "tiles": [tiles[-1], tiles[-2]],
                "megabytes": float(f"{found['bytes'] / 1e6:.2g}"),
                "processor_seconds": float(f"{used.ru_utime + used.ru_stime:.2g}"),
                "memory_gigabytes": float(f"{used.ru_maxrss * 1024 / 1e9:.2g}"),
            }
        )
    return rows


def optimal_play() -> list[Row]:
    """Plays a million optimal games on 3 x 3, using the table that `twofold solve` created."""
    words = ("--size", "3", "--episodes", "1000000", "--quiet")
    found = output("evaluate", "optimal", *words)
    tiles = sorted(((int(tile), one["share"]) for tile, one in found["reached"].items()))
    return [
        {
            "board": "3x3",
            "games": found["episodes"],
            "mean": found["score"]["mean"],
            "standard_error": found["score"]["standard_error"],
            "tiles": [tiles[-2], tiles[-1]],
        }
    ]


def campaigns() -> list[Row]:
    """Runs four half-hour campaigns: two kinds of client, each with two ranges of seeds."""
    from campaign import campaign, cores
    from runs import Run
    from world import Faults

    rows = []
    for models, first in itertools.product((True, False), (1, 1_000_001)):
        steps, began = 3000 if models else 1000, time.monotonic()
        seeds = (Run(seed, steps, Faults(), models) for seed in itertools.count(first))
        total = campaign(seeds, 1800, cores(), print)
        assert not total.violations, total.violations
        rows.append(
            {
                "clients": "modelled in Swift" if models else "the Python package",
                "seeds": [first, first + total.runs - 1],
                "steps": steps,
                "requests": total.requests,
                "requests_per_second": total.requests / (time.monotonic() - began),
                "simulated_hours": total.simulated_seconds / 3600,
                "marks": {name: total.marks[name] for name in tables.MARKS if total.marks[name]},
            }
        )
    return rows


def ppo() -> list[Row]:
    """Trains the programs of `PPO` one after the other, on the same core, and evaluates them."""
    seconds = 600
    rows = []
    pythons = [compare.python_of(program) for program in PPO]
    with score_per_second.on_cores(1):
        for program, python in zip(PPO, pythons, strict=True):
            script, out = compare.EXAMPLES / f"{program.name}.py", RUNS / f"publish-{program.name}"
            words = [python, str(script), "--seconds", f"{seconds}", "--out", str(out)]
            began, before = time.perf_counter(), figures.processor_seconds()
            subprocess.run(words, env=os.environ | {"OMP_NUM_THREADS": "1"}, check=True)
            used = figures.processor_seconds() - before
            curve = json.loads((out / "curve.json").read_text())["curve"]
            score = json.loads((out / "evaluation.json").read_text())["score"]
            rows.append(
                {
                    "learner": program.label,
                    "library": f"{program.distribution} {compare.version(program)}",
                    "cores_used": used / (time.perf_counter() - began),
                    "steps_per_second": curve[-1]["steps"] / curve[-1]["seconds"],
                    "scores": scores_while_learning(curve, seconds),
                    "greedy": [score["mean"], *score["mean_interval"]],
                }
            )
    return rows


def scores_while_learning(curve: Sequence[Row], seconds: float) -> dict[str, float]:
    """Returns the mean score of the games that ended in each twentieth of the training time.

    The keys are the ends of the twentieths, in minutes.
    """
    sums: dict[str, tuple[float, float]] = {}
    for row in curve:
        if row["episodes"]:
            number = min(math.ceil(20 * row["seconds"] / seconds), 20)
            end = f"{number * seconds / 20 / 60:g}"
            games, total = sums.get(end, (0, 0))
            sums[end] = games + row["episodes"], total + row["episodes"] * row["score_mean"]
    return {end: total / games for end, (games, total) in sums.items()}


def reports(pattern: str) -> list[dict[str, Any]]:
    """Returns the contents of the JSON reports in runs/ whose paths match a pattern.

    Raises:
        SystemExit: No report matches the pattern.
    """
    paths = sorted(RUNS.glob(pattern))
    if not paths:
        raise SystemExit(f"no {RUNS / pattern}; run the example first")
    return [json.loads(path.read_text()) for path in paths]


def learning() -> list[Row]:
    """Trains three networks for half an hour each, evaluates them, and compares their curves."""
    rows: list[Row] = []
    trainings = []
    for seed in (0, 1, 2):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "agent.npz"
            words = ("--seconds", "1800", "--evaluate-every", "300", "--seed", f"{seed}")
            training = trained(file, *words)
            found = output("evaluate", f"ntuple:{file}", "--episodes", "2000", "--quiet")
        agent = (
            f"n-tuple network, training seed {seed}: {training['episodes']:,} games, "
            f"{training['steps'] / 1e6:,.0f} M moves"
        )
        rows.append({"agent": agent, **tables.evaluated(found), "depth": "1 max layer (1 ply)"})
        trainings.append(training["evaluations"])
    return [*rows, *learning_figures.compared(trainings)]


def recurrent() -> list[Row]:
    """Returns the turns per game of `recurrent_ppo.py`, of a perfect memory and of random play."""
    import twofold

    rows: list[Row] = []
    for curve, learned in zip(
        reports("recurrent-ppo-*/curve.json"),
        reports("recurrent-ppo-*/evaluation.json"),
        strict=True,
    ):
        points = curve["curve"]
        near = {at: min(points, key=lambda point: abs(point["steps"] - at)) for at in MARKS}
        rows.append(
            {
                "player": f"`--seed {curve['options']['seed']}`",
                "turns": learned["moves"]["mean"] / 2,
                "turns_at": {str(at): point["turns_mean"] for at, point in near.items()},
                "steps_per_second": points[-1]["steps_per_second"],
            }
        )
    for policy, label in {"perfect-memory": "a perfect memory", "random": "random play"}.items():
        played = twofold.evaluate(
            policy, env="twofold/Concentration-v0", size=(4, 4), peeks=0, episodes=1000
        )
        rows.append({"player": label, "turns": played.lengths.mean() / 2})
    return rows


def gru() -> list[Row]:
    """Returns the results of `popgym_gru.py` on each preset."""
    return [
        {
            "preset": report["options"]["preset"],
            "steps": report["curve"][-1]["steps"],
            "mmer": report["mmer"]["mean_return"],
            "return": report["evaluation"]["mean_return"],
            "interval": report["evaluation"]["interval"],
            "random": report["random"]["mean_return"],
            "random_mmer": report["random"]["mmer"],
        }
        for report in reports("popgym-gru-*/result.json")
    ]


FILES = {
    measure.__name__: measure
    for measure in (
        *(demo, agents, commands, memory_of_cards, optimum, optimal_play),
        *(campaigns, ppo, learning, recurrent, gru),
    )
}


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="+", choices=FILES, metavar="NAME", help=", ".join(FILES))
    for name in parser.parse_args().names:
        figures.publish(name, FILES[name]())


if __name__ == "__main__":
    main()
