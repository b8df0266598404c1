"""`twofold rollout`."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from twofold import datasets
from twofold.cli.environment import add_environment_arguments, environment_arguments
from twofold.cli.progress import ProgressLine
from twofold.policies import lookup


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("policy", help="as `twofold evaluate` takes it")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="data.parquet")
    parser.add_argument("--transitions", type=int, default=1_000_000, help="default 1,000,000")
    parser.add_argument("--seed", type=int, help="of the boards; drawn by default")
    parser.add_argument(
        "--trust-pickle", action="store_true", help="open model.zip, which can run any code"
    )
    add_environment_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Writes the file."""
    policy = lookup.load(arguments.policy, trust_pickle=arguments.trust_pickle)
    line, start = ProgressLine(policy.name, "transitions"), time.monotonic()
    try:
        number = datasets.write(
            arguments.out,
            policy,
            transitions=arguments.transitions,
            env=arguments.env,
            seed=arguments.seed,
            progress=line,
            **({} if arguments.num_envs is None else {"num_envs": arguments.num_envs}),
            **environment_arguments(arguments),
        )
    finally:
        line.clear()
    seconds, size = time.monotonic() - start, arguments.out.stat().st_size
    print(
        f"{arguments.out}: {number:,} transitions, {size / 1e6:,.1f} MB, {seconds:.3g} s, "
        f"{number / seconds:,.0f} per second"
    )
    return 0
