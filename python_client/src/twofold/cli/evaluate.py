"""`twofold evaluate`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from twofold.cli import progress
from twofold.cli.environment import add_environment_arguments, environment_arguments
from twofold.evaluation import Evaluation, evaluate
from twofold.evaluation.run import FIRST_SEED, PROTOCOLS
from twofold.policies.lookup import NAMES, load

FORMATS: dict[str, Callable[[Evaluation], str]] = {
    "table": str,
    "json": Evaluation.to_json,
    "markdown": Evaluation.to_markdown,
    "tdl": Evaluation.to_tdl,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    presets = ", ".join(f"{name} {number:,}" for name, number in PROTOCOLS.items())
    parser.add_argument(
        "policy",
        help=f"{', '.join(NAMES)}; a function (observations, action_mask) -> actions, as "
        "module:function or file.py:function; or model.zip of Stable-Baselines3",
    )
    parser.add_argument("--against", metavar="POLICY", help="compare with this policy")
    number = parser.add_mutually_exclusive_group()
    number.add_argument(
        "--episodes", type=int, metavar="N", help="number of games (default: 1,000)"
    )
    number.add_argument("--protocol", choices=PROTOCOLS, help=f"preset number of games: {presets}")
    parser.add_argument(
        "--first-seed",
        type=int,
        default=FIRST_SEED,
        metavar="N",
        help="first game's seed (default: 2^63)",
    )
    parser.add_argument(
        "--format", choices=FORMATS, default="table", help="output format (default: %(default)s)"
    )
    parser.add_argument("--save", type=Path, metavar="FILE", help="save every game as JSON")
    parser.add_argument(
        "--record",
        nargs=2,
        action="append",
        default=[],
        metavar=("WHICH", "FILE"),
        help="save a recording of a game: best, worst, median or its number; repeatable",
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="save a plot (.png, .svg, .pdf)")
    parser.add_argument(
        "--trust-pickle", action="store_true", help="load model.zip, which can run any code"
    )
    parser.add_argument(
        "--policy-timeout",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="time limit of one call of the policy (default: 60)",
    )
    progress.add_argument(parser)
    add_environment_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Evaluates one policy or two."""
    names = [arguments.policy, *([arguments.against] if arguments.against else [])]
    policies = [load(name, trust_pickle=arguments.trust_pickle) for name in names]
    results = []
    for policy in policies:
        with progress.progress(policy.name, "games", arguments) as update:
            result = evaluate(
                policy,
                episodes=arguments.episodes,
                protocol=arguments.protocol,
                first_seed=arguments.first_seed,
                policy_timeout=arguments.policy_timeout,
                progress=update,
                record=bool(arguments.record),
                num_envs=arguments.num_envs,
                env=arguments.env,
                **environment_arguments(arguments),
            )
        results.append(result)
    _save(arguments, results)
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


def _save(arguments: argparse.Namespace, results: list[Evaluation]) -> None:
    """Writes the files that were asked for."""
    if arguments.save:
        paths = [arguments.save, arguments.save.with_suffix(f".against{arguments.save.suffix}")]
        for path, result in zip(paths, results, strict=False):
            path.write_text(result.to_json(games=True) + "\n")
    for which, file in arguments.record:
        results[0].recording(which).save(file)
    if arguments.plot:
        results[0].plot(arguments.plot, *results[1:])
