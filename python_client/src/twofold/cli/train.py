"""The subcommand `twofold train`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from twofold.cli import playing
from twofold.cli.common import (
    Result,
    add_output_arguments,
    check_outputs,
    numeric,
    positive,
    show,
)
from twofold.errors import InvalidArgument
from twofold.evaluation import Evaluation, report
from twofold.games.game2048 import Game2048
from twofold.learning import PATTERNS, Point, train


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.epilog = (
        "Example: twofold train agent.npz --seconds 600 --threads 2, and then "
        "twofold evaluate ntuple:agent.npz"
    )
    add = parser.add_argument
    add("file", type=Path, help=".npz file for the network and the state of the training")
    number = parser.add_mutually_exclusive_group()
    number.add_argument(
        "--seconds",
        type=positive,
        metavar="S",
        help="duration of training, including the time before a resume (default: 120)",
    )
    number.add_argument(
        "--steps",
        type=int,
        metavar="N",
        help="number of steps of all boards together, including those before a resume",
    )
    add("--threads", **numeric(1, "number of threads"))
    add(
        "--resume",
        action="store_true",
        help="continue the training in the file; repeat its options, except --seconds, --steps, "
        "--threads and the options for saving and evaluating; without --resume, an existing file "
        "is replaced",
    )
    add(
        "--patterns",
        nargs="+",
        metavar="CELLS",
        help=f"tuples of cells, such as 0,1,2,4,5,6 4,5,6,8,9,10; or one of {', '.join(PATTERNS)} "
        "(default: yeh on 4 x 4, else rectangles or squares)",
    )
    add(
        "--learning-rate",
        type=float,
        default=1.0,
        metavar="RATE",
        help="factor of all corrections, at most 1 (default: 1)",
    )
    add(
        "--initial-value",
        type=float,
        default=0.0,
        metavar="VALUE",
        help="value of every board before training; a high value, such as 320000, is optimistic "
        "(default: 0)",
    )
    exponents = "number of distinct exponents; larger ones count as the largest"
    add("--exponents", **numeric(16, exponents))
    add("--seed", **numeric(0, "seed of the boards"))
    add("--num-envs", type=int, metavar="N", help="boards to play at once (default: 64 per thread)")
    add("--save-every", **numeric(300.0, "seconds of training between two saves", "S"))
    add(
        "--evaluate-every",
        type=positive,
        metavar="S",
        help="seconds of training between two evaluations (default: none)",
    )
    add(
        "--episodes",
        type=int,
        metavar="N",
        help="number of games (default: 500 in each evaluation of --evaluate-every)",
    )
    add("--plot", type=Path, metavar="FILE", help="save a plot (.png, .svg, .pdf)")
    add("--quiet", action="store_true", help="show no progress bar")
    add_output_arguments(parser)
    add = parser.add_argument_group("2048").add_argument
    add("--size", metavar="SIZE", help="4, or 3x5 for rows x columns (default: 4)")
    playing.add_rules(Game2048, add, without=["objective"])  # a network learns the score


def run(arguments: argparse.Namespace) -> Iterator[Result]:
    """Trains the network and saves it."""
    plots = [] if arguments.plot is None else [report.check_plot(arguments.plot)]
    check_outputs([arguments.file, *plots])
    rules = {name: getattr(arguments, name, None) for name in playing.flags(Game2048)}
    rules = {name: value for name, value in rules.items() if value is not None}
    if arguments.size is not None:
        rules["size"] = playing.read_size(arguments.size)
    unit = "seconds" if arguments.steps is None else "steps"
    with playing.progress(arguments.file.name, unit, arguments) as update:
        training = train(
            _patterns(arguments.patterns),
            seconds=arguments.seconds,
            steps=arguments.steps,
            threads=arguments.threads,
            num_envs=arguments.num_envs,
            seed=arguments.seed,
            learning_rate=arguments.learning_rate,
            initial_value=arguments.initial_value,
            exponents=arguments.exponents,
            file=arguments.file,
            save_every=arguments.save_every,
            resume=arguments.resume,
            evaluate_every=arguments.evaluate_every,
            episodes=arguments.episodes,
            progress=update,
            evaluated=_print_evaluation,
            **rules,
        )
    last = training.curve[-1] if training.curve else None
    text = (
        f"{arguments.file}: {training.steps:,} steps and {training.episodes:,} games in "
        f"{training.seconds:,.0f} s"
    )
    if last is not None:
        text += (
            f"; mean score {last.mean_score:,.0f} in the last games, {last.goal_share:.1%} of "
            "which reached the goal"
        )
    document = {
        "file": str(arguments.file),
        "seconds": training.seconds,
        "steps": training.steps,
        "episodes": training.episodes,
        "curve": [point._asdict() for point in training.curve],
        "evaluations": [
            {**point._asdict(), "evaluation": json.loads(evaluation.to_json())}
            for point, evaluation in training.evaluations
        ],
    }
    try:
        yield Result(text, document)
    finally:
        if arguments.plot is not None:
            training.plot(arguments.plot)


def _patterns(words: Sequence[str] | None) -> Any:
    """Returns the value of --patterns: a name, or a list of tuples of cells."""
    if words is None or words[0] in PATTERNS:
        return words if words is None or len(words) > 1 else words[0]
    try:
        return [[int(cell) for cell in word.split(",")] for word in words]
    except ValueError:
        raise InvalidArgument(
            f"--patterns is {' '.join(words)}; expected one of {', '.join(PATTERNS)}, or tuples "
            "such as 0,1,2,4,5,6 4,5,6,8,9,10",
            field="patterns",
        ) from None


def _print_evaluation(point: Point, evaluation: Evaluation) -> None:
    """Prints an evaluation next to the progress bar."""
    score = evaluation.summary["score"]
    mean, ends = report.estimate(score["mean"], score["mean_interval"])
    text = f"after {point.seconds:,.0f} s: mean score {mean}"
    if evaluation.episodes == 1:
        text += " in 1 game"
    else:
        text += f" ({ends}) in {evaluation.episodes:,} games"
    show(text, sys.stderr)
