"""`twofold evaluate`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from twofold.cli.environment import add_environment_arguments, environment_arguments
from twofold.cli.progress import ProgressLine
from twofold.evaluation import Evaluation, evaluate
from twofold.evaluation.run import FIRST_SEED, PROTOCOLS
from twofold.policies import lookup

FORMATS: dict[str, Callable[[Evaluation], str]] = {
    "table": str,
    "json": Evaluation.to_json,
    "markdown": Evaluation.to_markdown,
    "tdl": Evaluation.to_tdl,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    presets = ", ".join(f"{name} {number:,}" for name, number in PROTOCOLS.items())
    parser.add_argument(
        "policy",
        help=f"{', '.join(lookup.NAMES)}; module:function or file.py:function, a function "
        "(observations, action_mask) -> actions; or model.zip of Stable-Baselines3",
    )
    parser.add_argument("--against", metavar="POLICY", help="another, compared on the same seeds")
    number = parser.add_mutually_exclusive_group()
    number.add_argument("--episodes", type=int, help="how many games (default 1,000)")
    number.add_argument("--protocol", choices=PROTOCOLS, help=f"a usual number of games: {presets}")
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED, help="default 2^63")
    parser.add_argument("--format", choices=FORMATS, default="table", help="default table")
    parser.add_argument("--save", type=Path, metavar="FILE", help="every game's result, as JSON")
    parser.add_argument(
        "--record",
        nargs=2,
        action="append",
        default=[],
        metavar=("WHICH", "FILE"),
        help="keep a game: best, worst, median or its number; may be given several times",
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="a picture, .png, .svg or .pdf")
    parser.add_argument(
        "--trust-pickle",
        action="store_true",
        help="open model.zip, which can run any code",
    )
    parser.add_argument(
        "--policy-timeout", type=float, default=60.0, help="seconds for one call (default 60)"
    )
    add_environment_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Plays and prints."""
    names = [arguments.policy, *([arguments.against] if arguments.against else [])]
    policies = [lookup.load(n, trust_pickle=arguments.trust_pickle) for n in names]
    results = []
    for policy in policies:
        bar = ProgressLine(policy.name, "games")
        try:
            results.append(
                evaluate(
                    policy,
                    episodes=arguments.episodes,
                    protocol=arguments.protocol,
                    first_seed=arguments.first_seed,
                    policy_timeout=arguments.policy_timeout,
                    progress=bar,
                    record=bool(arguments.record),
                    num_envs=arguments.num_envs,
                    env=arguments.env,
                    **environment_arguments(arguments),
                )
            )
        finally:
            bar.clear()
    if arguments.save:
        _save(arguments.save, results)
    for which, file in arguments.record:
        results[0].recording(which).save(file)
    if arguments.plot:
        results[0].plot(arguments.plot, *results[1:])
    reports = [FORMATS[arguments.format](result) for result in results]
    if len(results) == 1:
        print(*reports)
        return 0
    comparison = results[0].compare(results[1])
    if arguments.format == "json":
        evaluations = ", ".join(reports)
        print(f'{{"evaluations": [{evaluations}], "comparison": {comparison.to_json()}}}')
    else:
        print(*reports, comparison, sep="\n\n")
    return 0


def _save(path: Path, results: list[Evaluation]) -> None:
    """The first in the file that is named; the second beside it."""
    path.write_text(results[0].to_json(games=True) + "\n")
    for other in results[1:]:
        path.with_suffix(f".against{path.suffix}").write_text(other.to_json(games=True) + "\n")
