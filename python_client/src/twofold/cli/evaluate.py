"""`twofold evaluate`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path

from twofold.cli import playing
from twofold.cli.common import Result, positive
from twofold.evaluation import Evaluation, evaluate
from twofold.evaluation.run import FIRST_SEED, PROTOCOLS
from twofold.policies.lookup import NAMES, load

FORMATS: dict[str, Callable[[Evaluation], str]] = {
    "table": str,
    "markdown": Evaluation.to_markdown,
    "tdl": Evaluation.to_tdl,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.epilog = "Example: twofold evaluate expectimax --episodes 100 --against greedy"
    presets = ", ".join(f"{name} {number:,}" for name, number in PROTOCOLS.items())
    add = parser.add_argument
    add(
        "policy",
        help=f"{', '.join(NAMES)}; a function (observations, action_mask) -> actions, as "
        "module:function or file.py:function; or model.zip of Stable-Baselines3",
    )
    add("--against", metavar="POLICY", help="compare with this policy")
    number = parser.add_mutually_exclusive_group()
    number.add_argument(
        "--episodes", type=int, metavar="N", help="number of games (default: 1,000)"
    )
    number.add_argument("--protocol", choices=PROTOCOLS, help=f"preset number of games: {presets}")
    add(
        "--first-seed",
        type=int,
        default=FIRST_SEED,
        metavar="N",
        help="first game's seed (default: 2^63)",
    )
    add("--save", type=Path, metavar="FILE", help="save every game as JSON")
    add(
        "--record",
        nargs=2,
        action="append",
        default=[],
        metavar=("WHICH", "FILE"),
        help="save a recording of a game: best, worst, median or its number; repeatable",
    )
    add("--plot", type=Path, metavar="FILE", help="save a plot (.png, .svg, .pdf)")
    add(
        "--policy-timeout",
        type=positive,
        default=60.0,
        metavar="SECONDS",
        help="time limit of one call of the policy (default: 60)",
    )
    playing.add_environment_arguments(parser, "as many as games, at most 4,096", list(FORMATS))


def run(arguments: argparse.Namespace) -> Iterator[Result]:
    """Evaluates one policy or two."""
    names = [arguments.policy, *([arguments.against] if arguments.against else [])]
    policies = [load(name, trust_pickle=arguments.trust_pickle) for name in names]
    results = []
    for policy in policies:
        with playing.progress(policy.name, "games", arguments) as update:
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
                **playing.environment_arguments(arguments),
            )
        results.append(result)
    _save(arguments, results)
    reports = [FORMATS[arguments.format](result) for result in results]
    documents = [json.loads(result.to_json()) for result in results]
    if len(results) == 1:
        yield Result(reports[0], documents[0])
    else:
        comparison = results[0].compare(results[1])
        yield Result(
            "\n\n".join([*reports, str(comparison)]),
            {"evaluations": documents, "comparison": json.loads(comparison.to_json())},
        )


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
