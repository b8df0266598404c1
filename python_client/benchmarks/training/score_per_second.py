"""Trains each 2048 learner for the same time; prints its scores after 1, 10 and 60 minutes.

    make score-per-second                                     # an hour for each learner
    make score-per-second SCORE_ARGS="--minutes 0.2 0.4 --games 100"
    make score-per-second SCORE_ARGS=--report                 # the table of existing results

One learner runs at a time, on each number of cores that `--cores` names. TDL2048-Demo uses one core
only. A learner has a single run per number of cores, with learning rates scheduled for the whole
run. It saves the agent at each of the times in `--minutes`. Afterwards, each agent plays the same
games with greedy actions and without learning. TDL2048-Demo is compiled with its makefile's flags,
from its pinned commit or from the source that --tdl-demo names. TDL2048 is compiled by its makefile
in the folder that --tdl2048 names. Without a source or a compiler, a learner is skipped and listed.
The table shows how many of its cores each learner kept busy. Results are kept in
runs/score_per_second, and runs with a result are not repeated.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import figures
import machine
import tables
from downloads import REPOSITORY, Download, Unavailable

HERE = Path(__file__).resolve().parent
EXAMPLES = REPOSITORY / "python_client" / "examples"
TORCH = REPOSITORY / ".build" / "trainers" / "sb3" / "bin" / "python"

TDL_DEMO = Download(
    "https://raw.githubusercontent.com/moporgic/TDL2048-Demo/"
    "e8a974606bf1b90aff139ed98f8cdc2b6fa0076d/2048.cpp",
    "b6832fe08d83efdc8542ad90bcce536108a2e0f2736c704fe1f5d6e3b565538c",
    "tdl2048-demo",
)
# The flags of TDL2048-Demo's makefile.
TDL_FLAGS = ("-std=c++11", "-O3", "-g", "-Wall", "-fmessage-length=0")

Saved = list[dict[str, Any]]
"""The saved agents: the file of each, and the seconds and moves of its training."""


@dataclass(frozen=True)
class Learner:
    """A learner: the function that trains it, and the loader of its agents in greedy.py."""

    name: str
    label: str
    policy: str
    """The name of the agents' policy in the table."""
    program: str
    """The name of the agents' loader in greedy.py."""
    train: Callable[[argparse.Namespace, Path], Saved]
    scales: bool = True
    """Whether the learner can use more than one core."""
    python: Path = Path(sys.executable)


def run(words: Sequence[object], out: Path) -> str:
    """Runs a program and returns its output. Appends its output and errors to files in `out`.

    Raises:
        Unavailable: The program failed.
    """
    command = [str(word) for word in words]
    with (out / "errors.txt").open("a") as errors:
        ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    with (out / "output.txt").open("a") as output:
        output.write(ran.stdout)
    if ran.returncode:
        raise Unavailable(f"exit status {ran.returncode}, see {out}/errors.txt")
    return ran.stdout


def arguments(options: argparse.Namespace, out: Path) -> list[object]:
    """Returns the arguments that all programs in examples/ accept."""
    seconds = [60 * minutes for minutes in options.minutes]
    words: list[object] = ["--seconds", seconds[-1], "--save-at", *seconds, "--out", out]
    return [*words, "--seed", options.seed, "--episodes", 2]


def train_ntuple(options: argparse.Namespace, out: Path) -> Saved:
    """Trains the n-tuple network."""
    run([sys.executable, EXAMPLES / "train_ntuple.py", *arguments(options, out)], out)
    saved: Saved = json.loads((out / "curve.json").read_text())["saved"]
    return saved


def train_native(*network: object) -> Callable[[argparse.Namespace, Path], Saved]:
    """Returns a function that trains with `twofold train` and these arguments of the network."""

    def train(options: argparse.Namespace, out: Path) -> Saved:
        saved: Saved = []
        agent = out / "agent.npz"
        words: list[object] = [sys.executable, "-m", "twofold", "train", agent, "--json", "--quiet"]
        words += [*network, "--threads", options.cores, "--seed", options.seed]
        for minutes in options.minutes:
            seconds = 60 * minutes
            result = json.loads(run([*words, "--seconds", f"{seconds:g}"], out))
            kept = agent.with_name(f"agent-{seconds:g}.npz")
            shutil.copy(agent, kept)
            # A step that starts a game plays no move.
            moves = result["steps"] - result["episodes"]
            saved.append({"file": kept.name, "seconds": result["seconds"], "moves": moves})
            words += ["--resume"] if len(saved) == 1 else []
        agent.unlink()
        return saved

    return train


def train_torch(name: str) -> Callable[[argparse.Namespace, Path], Saved]:
    """Returns a function that trains with a PyTorch program."""

    def train(options: argparse.Namespace, out: Path) -> Saved:
        if not TORCH.exists():
            raise Unavailable(f"{TORCH} is missing; `make score-per-second` creates it")
        words = [TORCH, EXAMPLES / f"{name}.py", "--threads", options.cores]
        run([*words, *arguments(options, out)], out)
        saved: Saved = json.loads((out / "curve.json").read_text())["saved"]
        return [{**one, "moves": one["steps"]} for one in saved]

    return train


def train_tdl_demo(options: argparse.Namespace, out: Path) -> Saved:
    """Trains TDL2048-Demo, compiled with Twofold's `main`."""
    source = options.tdl_demo or TDL_DEMO.fetch()
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise Unavailable("no C++ compiler was found; install g++ or clang++")
    program = REPOSITORY / ".build" / "tdl2048-demo" / "train"
    program.parent.mkdir(parents=True, exist_ok=True)
    words = [compiler, *TDL_FLAGS, f'-DDEMO="{source.resolve()}"', "-o", program]
    run([*words, HERE / "tdl_demo.cpp"], out)
    seconds = [f"{60 * minutes:g}" for minutes in options.minutes]
    lines = run([program, out, options.seed, *seconds], out).splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def train_tdl2048(options: argparse.Namespace, out: Path) -> Saved:
    """Trains TDL2048 with temporal coherence, with a thread for each core.

    The program must be given the number of games in advance, and games become longer as it learns.
    Therefore, training has several rounds, each of which continues with the previous round's
    network. A round has at most twice as many games as the previous round, and at most as many as
    should take half of the remaining time. It lasts as long as its slowest thread. The time for
    loading and saving does not count.
    """
    if options.tdl2048 is None:
        raise Unavailable("its source is needed; --tdl2048 names the folder")
    program = REPOSITORY / ".build" / "tdl2048" / "2048"
    program.parent.mkdir(parents=True, exist_ok=True)
    run(["make", "-C", options.tdl2048, f"OUTPUT={program}"], out)
    network = out / "agent.w"
    words: list[object] = [program, "-n", "4x6patt", "-a", "1.0", "-p", options.cores]
    saved: Saved = []
    seconds, moves, rounds, games, pace = 0.0, 0.0, 0, 500, 100.0
    for minutes in options.minutes:
        while (left := 60 * minutes - seconds) > 0.6 * minutes:
            games = min(2 * games, math.ceil(pace * left / 2))
            rounds += 1
            # Each thread plays one unit of games, and prints one line.
            call = [*words, "-s", f"{options.seed}{rounds:03}", "-t", f"{options.cores}x{games}"]
            output = run([*call, "info", "-io" if rounds > 1 else "-o", network], out)
            threads = re.findall(r"^\d+/\d+ (\d+)ms ([\d.]+)ops", output, re.M)
            took = max(1, *(int(milliseconds) for milliseconds, _ in threads)) / 1000
            seconds += took
            moves += sum(int(milliseconds) / 1000 * float(speed) for milliseconds, speed in threads)
            pace = games / took
        kept = out / f"agent-{60 * minutes:g}.w"
        shutil.copy(network, kept)
        saved.append({"file": kept.name, "seconds": seconds, "moves": moves})
    network.unlink()
    return saved


AFTERSTATES = "greedy over afterstates, 1 ply"
LEARNERS = (
    Learner(
        "train", "n-tuple network, `twofold train`", AFTERSTATES, "train_ntuple", train_native()
    ),
    Learner(
        "train8",
        "8 tuples, optimistic, `twofold train`",
        AFTERSTATES,
        "train_ntuple",
        train_native("--patterns", "matsuzaki", "--initial-value", 320_000),
    ),
    Learner("ntuple", "n-tuple network, numpy", AFTERSTATES, "train_ntuple", train_ntuple),
    Learner("ppo", "PPO, masked", "most probable action", "ppo", train_torch("ppo"), python=TORCH),
    Learner(
        "dqn",
        "DQN on afterstates",
        AFTERSTATES,
        "dqn_afterstates",
        train_torch("dqn_afterstates"),
        python=TORCH,
    ),
    Learner("tdl-demo", "TDL2048-Demo", AFTERSTATES, "train_ntuple", train_tdl_demo, scales=False),
    Learner("tdl2048", "TDL2048", AFTERSTATES, "tdl2048", train_tdl2048),
)


@contextlib.contextmanager
def on_cores(number: int) -> Iterator[int]:
    """Restricts this process and its children to `number` cores. Yields the number available."""
    before = os.sched_getaffinity(0)
    chosen = sorted(before)[:number]
    os.sched_setaffinity(0, chosen)
    try:
        yield len(chosen)
    finally:
        os.sched_setaffinity(0, before)


def train(learner: Learner, options: argparse.Namespace, out: Path) -> dict[str, Any]:
    """Trains a learner if there is no result yet, and returns the content of trained.json.

    Raises:
        Unavailable: The learner can't be run here.
    """
    path = out / "trained.json"
    if not has_result(path, options.minutes):
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        busy = machine.busy_cores()
        began, before = time.perf_counter(), figures.processor_seconds()
        points = learner.train(options, out)
        used = (figures.processor_seconds() - before) / (time.perf_counter() - began)
        result = {
            "machine": machine.describe(),
            "cores": options.cores,
            "busy_cores_before": busy,
            "seed": options.seed,
            "minutes": options.minutes,
            "cores_used": used,
            "points": points,
        }
        path.write_text(json.dumps(result, indent=1) + "\n")
    return dict(json.loads(path.read_text()))


def measure(learner: Learner, options: argparse.Namespace, out: Path) -> None:
    """Trains and evaluates a learner, writes result.json, and removes the agents.

    Raises:
        Unavailable: The learner can't be run here.
    """
    with on_cores(options.cores) as options.cores:
        result = train(learner, options, out)
        for point in result["points"]:
            words = [learner.python, HERE / "greedy.py", learner.program, out / point["file"]]
            point["evaluation"] = json.loads(run([*words, "--episodes", options.games], out))
    (out / "result.json").write_text(json.dumps(result, indent=1) + "\n")
    for point in result["points"]:
        (out / point["file"]).unlink()


def has_result(path: Path, minutes: list[float]) -> bool:
    """Returns True if the file contains a result after these times of training."""
    return path.exists() and json.loads(path.read_text())["minutes"] == minutes


def rows(results: Iterable[tuple[Learner, dict[str, Any]]]) -> list[figures.Row]:
    """Converts the learners' results to rows of figures."""
    found = []
    for learner, result in results:
        last = result["points"][-1]
        scores = [point["evaluation"]["score"] for point in result["points"]]
        found.append(
            {
                "learner": learner.label,
                "policy": learner.policy,
                "processor": result["machine"]["machine"]["processor"],
                "cores": result["cores"],
                "cores_used": result["cores_used"],
                "moves_per_second": last["moves"] / last["seconds"],
                "scores": {
                    f"{at:g}": [score["mean"], *score["mean_interval"]]
                    for at, score in zip(result["minutes"], scores, strict=True)
                },
            }
        )
    return found


def parse(words: list[str] | None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    names = [learner.name for learner in LEARNERS]
    add("--only", nargs="+", choices=names, default=names, metavar="LEARNER", help=str(names))
    add("--minutes", type=float, nargs="+", default=[1, 10, 60], help="training times, in minutes")
    add("--games", type=int, default=1000, help="games per evaluation")
    add("--cores", type=int, nargs="+", default=[2], help="numbers of cores for each learner")
    add("--seed", type=int, default=1, help="seed of boards, weights and actions")
    add("--tdl-demo", type=Path, metavar="FILE", help="source file 2048.cpp of TDL2048-Demo")
    add("--tdl2048", type=Path, metavar="FOLDER", help="folder with the source of TDL2048")
    out = REPOSITORY / "runs" / "score_per_second"
    add("--out", type=Path, default=out, help="folder for results")
    add("--report", action="store_true", help="only print the table")
    add("--figure", default="score_per_second", metavar="NAME", help="name of the figures")
    add("--publish", action="store_true", help=figures.HELP)
    options = parser.parse_args(words)
    options.minutes.sort()
    return options


def main(words: list[str] | None = None) -> None:
    """Runs the command."""
    options = parse(words)
    results = []
    for learner in LEARNERS:
        for cores in options.cores if learner.scales else [1]:
            out = options.out / f"{learner.name}-{cores}-{options.seed}"
            path = out / "result.json"
            is_wanted = learner.name in options.only and not options.report
            if is_wanted and not has_result(path, options.minutes):
                print(f"{learner.name}: {options.minutes[-1]:g} minutes", file=sys.stderr)
                try:
                    measure(learner, argparse.Namespace(**{**vars(options), "cores": cores}), out)
                except Unavailable as error:
                    print(f"skipped {learner.name}: {error}", file=sys.stderr)
            if path.exists():
                results.append((learner, json.loads(path.read_text())))
    found = rows(results)
    print(tables.score_per_second(found).rstrip() if found else "no results yet", flush=True)
    if options.publish:
        figures.publish(options.figure, found)


if __name__ == "__main__":
    main()
