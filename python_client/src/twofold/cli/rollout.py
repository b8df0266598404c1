"""`twofold rollout`."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from twofold import datasets
from twofold.cli import progress
from twofold.cli.environment import add_environment_arguments, environment_arguments
from twofold.policies.lookup import load


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("policy", help="a policy, as for `twofold evaluate`")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="Parquet file to write"
    )
    parser.add_argument(
        "--transitions",
        type=int,
        default=1_000_000,
        metavar="N",
        help="number of transitions, rounded up to whole steps (default: 1,000,000)",
    )
    parser.add_argument(
        "--seed", type=int, metavar="N", help="seed of the boards (default: random)"
    )
    parser.add_argument(
        "--trust-pickle", action="store_true", help="load model.zip, which can run any code"
    )
    progress.add_argument(parser)
    add_environment_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Writes the file."""
    policy = load(arguments.policy, trust_pickle=arguments.trust_pickle)
    start = time.monotonic()
    with progress.progress(policy.name, "transitions", arguments) as update:
        number = datasets.write(
            arguments.out,
            policy,
            transitions=arguments.transitions,
            env=arguments.env,
            seed=arguments.seed,
            progress=update,
            **({} if arguments.num_envs is None else {"num_envs": arguments.num_envs}),
            **environment_arguments(arguments),
        )
    seconds, size = time.monotonic() - start, arguments.out.stat().st_size
    print(
        f"{arguments.out}: {number:,} transitions, {size / 1e6:,.1f} MB, {seconds:.3g} s, "
        f"{number / seconds:,.0f} per second"
    )
    return 0
