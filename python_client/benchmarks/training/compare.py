"""Trains agents with each RL library and several seeds, and prints the table of their results.

    make training                                 # hours: ten minutes and three seeds each
    make training TRAINING_ARGS="--only ppo --seconds 60"
    make training TRAINING_ARGS=--report          # the table of existing results

Each program in examples/ runs on one thread, in the virtual environment of its library. One program
per core runs at a time. Results are kept in runs/training. Runs with a result of the same duration
are not repeated.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))

import figures
import tables
from figures import REPOSITORY

HERE = Path(__file__).resolve().parent
EXAMPLES = REPOSITORY / "python_client" / "examples"
ENVIRONMENTS = REPOSITORY / ".build" / "trainers"

# Ignores gymnasium-2048's pin of Gymnasium, which conflicts with the libraries here.
USUAL = ("gymnasium-2048==0.1.2", "pygame==2.6.1")


@dataclass(frozen=True)
class Program:
    """A training program in examples/."""

    name: str
    label: str
    library: str
    """The name of the virtual environment."""
    distribution: str
    """The name of the library on PyPI."""
    mode: str
    """The autoreset mode that the library uses."""
    has_usual: bool = True
    """Whether usual.py connects the library with gymnasium-2048."""
    words: tuple[str, ...] = ()
    """Further arguments of the program."""


PROGRAMS = (
    Program("ppo", "PPO in one file", "sb3", "torch", "SAME_STEP"),
    Program("dqn_afterstates", "DQN on afterstates", "sb3", "torch", "SAME_STEP", has_usual=False),
    Program("maskable_ppo", "MaskablePPO", "sb3", "sb3-contrib", "SAME_STEP"),
    Program("torchrl_ppo", "PPO of TorchRL", "torchrl", "torchrl", "DISABLED"),
    Program("tianshou_ppo", "PPO of Tianshou", "tianshou", "tianshou", "NEXT_STEP"),
    Program("rllib_ppo", "PPO of RLlib", "rllib", "ray", "NEXT_STEP", words=("--runners", "0")),
)


def python_of(program: Program) -> str:
    """Returns the interpreter of the library's virtual environment."""
    python = ENVIRONMENTS / program.library / "bin" / "python"
    if not python.exists():
        raise SystemExit(f"{python} is missing; `make trainers` creates it")
    return str(python)


def run(program: Program, script: Path, words: list[str], out: Path) -> None:
    """Runs a program, and writes its output to a file in `out`."""
    out.mkdir(parents=True, exist_ok=True)
    words = [python_of(program), str(script), *words, *program.words]
    words += ["--threads", "1", "--out", str(out)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with (out / "output.txt").open("w") as output:
        code = subprocess.run(words, stdout=output, stderr=output, env=environment).returncode
    print(f"{out.name}: {'done' if code == 0 else f'exit status {code}, see {out}/output.txt'}")


def train(program: Program, seed: int, seconds: float, out: Path) -> None:
    """Trains on Twofold's boards, unless a result of the same duration exists."""
    if not (out / "evaluation.json").exists() or report(out)["options"]["seconds"] != seconds:
        (out / "evaluation.json").unlink(missing_ok=True)
        words = ["--seed", str(seed), "--seconds", str(seconds)]
        run(program, EXAMPLES / f"{program.name}.py", words, out)


def report(folder: Path) -> dict[str, Any]:
    """Returns the options of a training run, and its curve."""
    content: dict[str, Any] = json.loads((folder / "curve.json").read_text())
    return content


def train_usual(program: Program, seconds: float, out: Path) -> None:
    """Trains on gymnasium-2048's boards, unless a result exists."""
    if not (out / "curve.json").exists():
        pip = [python_of(program), "-m", "pip", "install", "--quiet", "--no-deps", *USUAL]
        subprocess.run(pip, check=True)
        run(program, HERE / "usual.py", [program.name, "--seconds", str(seconds)], out)


def glue(program: Program) -> int:
    """Returns the number of lines of code that connect the library with the boards."""
    tree = ast.parse((EXAMPLES / f"{program.name}.py").read_text())
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == "make_boards":
            return (node.end_lineno or 0) - node.body[1].lineno + 1  # after the docstring
    raise LookupError(f"{program.name} has no make_boards")


def version(program: Program) -> str:
    """Returns the version of the program's library."""
    code = f"import importlib.metadata as m; print(m.version({program.distribution!r}))"
    found = subprocess.run([python_of(program), "-c", code], capture_output=True, text=True)
    return found.stdout.strip()


def row(program: Program, folder: Path, seeds: list[int]) -> figures.Row | None:
    """Returns the program's figures; None if the run of a seed is missing."""
    runs = [folder / f"{program.name}-{seed}" for seed in seeds]
    if not all((one / "evaluation.json").exists() for one in runs):
        return None
    scores = [json.loads((one / "evaluation.json").read_text())["score"]["mean"] for one in runs]
    ends = [report(one)["curve"][-1] for one in runs]
    # Only some programs measure the environment's share of the training time.
    shares = [end["environment_share"] for end in ends if "environment_share" in end]
    usual = folder / f"{program.name}-usual"
    has_usual = (usual / "curve.json").exists()
    return {
        "learner": program.label,
        "library": f"{program.distribution} {version(program)}",
        "glue": glue(program),
        "autoreset": program.mode,
        "steps_per_second": statistics.median(end["steps_per_second"] for end in ends),
        "usual": report(usual)["curve"][-1]["steps_per_second"] if has_usual else None,
        "minutes": report(runs[0])["options"]["seconds"] / 60,
        "score": [statistics.median(scores), min(scores), max(scores)],
        "environment_share": [min(shares), max(shares)] if shares else None,
    }


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    names = [program.name for program in PROGRAMS]
    add("--only", nargs="+", choices=names, default=names, metavar="PROGRAM", help=", ".join(names))
    add("--seconds", type=float, default=600, help="seconds of each training run")
    add("--usual-seconds", type=float, default=120, help="seconds of each run with gymnasium-2048")
    add("--seeds", type=int, nargs="+", default=[1, 2, 3], help="seeds, one training run each")
    add("--jobs", type=int, default=os.cpu_count(), help="number of training runs at once")
    add("--out", type=Path, default=REPOSITORY / "runs" / "training", help="folder for results")
    add("--report", action="store_true", help="only print the table")
    add("--publish", action="store_true", help=figures.HELP)
    options = parser.parse_args()
    chosen = [program for program in PROGRAMS if program.name in options.only]
    if not options.report:
        runs = []
        with ThreadPoolExecutor(options.jobs) as pool:
            for program in chosen:
                for seed in options.seeds:
                    out = options.out / f"{program.name}-{seed}"
                    runs.append(pool.submit(train, program, seed, options.seconds, out))
                if program.has_usual:
                    out = options.out / f"{program.name}-usual"
                    runs.append(pool.submit(train_usual, program, options.usual_seconds, out))
        for one in runs:
            one.result()  # raises the run's error
    rows = [row(program, options.out, options.seeds) for program in PROGRAMS]
    found = [one for one in rows if one is not None]
    print(tables.training(found, figures.read("agents")["rows"]), end="")
    if options.publish:
        figures.publish("training", found)
    if None in rows:
        sys.exit("some training runs are missing; if they were started, their output.txt says why")


if __name__ == "__main__":
    main()
