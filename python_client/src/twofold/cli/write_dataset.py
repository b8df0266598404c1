"""The subcommand `twofold write-dataset`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

from twofold import datasets
from twofold._tables import significant
from twofold.cli import playing
from twofold.cli.common import Result, check_outputs, policy_files
from twofold.envs import BY_ID
from twofold.games.game2048 import Game2048
from twofold.policies.lookup import load


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.epilog = (
        "Example: twofold write-dataset greedy --out data.parquet --transitions 10000000"
    )
    add = parser.add_argument
    add("policy", help="policy to play, named as for `twofold evaluate`")
    add("--out", type=Path, required=True, metavar="FILE", help="Parquet file to write")
    add(
        "--transitions",
        type=int,
        default=1_000_000,
        metavar="N",
        help="number of transitions, rounded up to whole steps of all boards (default: 1,000,000)",
    )
    add("--seed", type=int, metavar="N", help="seed of the boards (default: random)")
    games = [BY_ID[Game2048.environment_id]]  # datasets support no other game
    playing.add_environment_arguments(parser, "1,024", games=games)


def run(arguments: argparse.Namespace) -> Iterator[Result]:
    """Plays the games and writes the file."""
    policy = load(arguments.policy, trust_pickle=arguments.trust_pickle)
    check_outputs([arguments.out], *policy_files(arguments.policy))
    start = time.monotonic()
    with playing.progress(policy.name, "transitions", arguments) as update:
        number = datasets.write(
            arguments.out,
            policy,
            transitions=arguments.transitions,
            seed=arguments.seed,
            progress=update,
            **({} if arguments.num_envs is None else {"num_envs": arguments.num_envs}),
            **playing.environment_arguments(arguments, Game2048.environment_id),
        )
    seconds, size = time.monotonic() - start, arguments.out.stat().st_size
    rate = number / seconds
    text = (
        f"{arguments.out}: {number:,} transitions, {size / 1e6:,.1f} MB, {significant(seconds)} s, "
        f"{rate:,.0f} per second"
    )
    document = {"file": str(arguments.out), "bytes": size, "transitions": number}
    yield Result(text, document | {"seconds": seconds, "transitions_per_second": rate})
