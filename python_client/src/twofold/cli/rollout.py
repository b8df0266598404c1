"""`twofold rollout`."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from twofold import datasets
from twofold.cli import playing
from twofold.policies.lookup import load


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add = parser.add_argument
    add("policy", help="a policy, as for `twofold evaluate`")
    add("--out", type=Path, required=True, metavar="FILE", help="Parquet file to write")
    add(
        "--transitions",
        type=int,
        default=1_000_000,
        metavar="N",
        help="number of transitions, rounded up to whole steps (default: 1,000,000)",
    )
    add("--seed", type=int, metavar="N", help="seed of the boards (default: random)")
    playing.add_environment_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Writes the file."""
    policy = load(arguments.policy, trust_pickle=arguments.trust_pickle)
    start = time.monotonic()
    with playing.progress(policy.name, "transitions", arguments) as update:
        number = datasets.write(
            arguments.out,
            policy,
            transitions=arguments.transitions,
            env=arguments.env,
            seed=arguments.seed,
            progress=update,
            **({} if arguments.num_envs is None else {"num_envs": arguments.num_envs}),
            **playing.environment_arguments(arguments),
        )
    seconds, size = time.monotonic() - start, arguments.out.stat().st_size
    print(
        f"{arguments.out}: {number:,} transitions, {size / 1e6:,.1f} MB, {seconds:.3g} s, "
        f"{number / seconds:,.0f} per second"
    )
    return 0
