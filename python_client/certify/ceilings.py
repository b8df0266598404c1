"""Prints a table of ceilings: the best possible mean returns for Concentration's presets.

    python ceilings.py                                # the table; takes ten minutes and 6 GB
    python ceilings.py --only popgym-hard --memory 6
    python ceilings.py --episodes 100000              # also plays this many games for each row

The games use a policy that should reach the ceiling. The exit status is 1 if the games disagree
with the table.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))

import checks
import figures
import tables

import twofold
from twofold.games.concentration import PRESETS

MEMORIES = ("0", "1", "2", "4", "6", "8", "all")


def parse() -> argparse.Namespace:
    """Parses the command-line arguments."""

    def words(text: str) -> list[str]:
        return text.split(",")

    parser = argparse.ArgumentParser(description="Prints the ceilings of Concentration's presets.")
    parser.add_argument("--only", type=words, default=list(PRESETS), help="presets")
    parser.add_argument("--memory", type=words, default=list(MEMORIES), help="memory sizes, or all")
    parser.add_argument("--episodes", type=int, help="games to play for each row (none)")
    parser.add_argument("--publish", action="store_true", help=figures.HELP)
    return parser.parse_args()


def row(preset: Any, memory: str) -> figures.Row | None:
    """Returns a row of the table. If there are too many states, says so and returns None."""
    capacity = None if memory == "all" else int(memory)
    try:
        found = twofold.ceilings.concentration(memory=capacity, preset=preset)
    except twofold.errors.InvalidArgument as error:
        print(f"{preset}: {error}", file=sys.stderr)
        return None
    return {
        "preset": preset,
        "memory": memory,
        "return": found.mean_return,
        "steps": found.mean_length,
        "turns": found.mean_turns,
        "cleared": found.cleared,
    }


def play(preset: Any, memory: str, episodes: int) -> list[checks.Check]:
    """Plays `episodes` games and compares their mean return and length with the ceiling."""
    capacity = None if memory == "all" else int(memory)
    ceiling = twofold.ceilings.concentration(memory=capacity, preset=preset)
    played = twofold.evaluate(
        f"last-k-memory:{memory}", env="twofold/Concentration-v0", episodes=episodes, preset=preset
    )
    rounding = 1e-6  # due to float32 rewards
    # If games rarely end before the limit, the sample may have no such game, and therefore no
    # deviation.
    rare = 0.0
    if not played.lengths.std():
        rare = ceiling.mean_length * math.sqrt(ceiling.cleared / episodes)
    return [
        checks.mean("return", ceiling.mean_return, played.scores, rounding),
        checks.mean("steps", ceiling.mean_length, played.lengths, rounding + rare),
    ]


def main() -> int:
    """Prints the table, plays games if requested, and returns the exit status."""
    arguments = parse()
    agrees = True
    rows = []
    for preset in arguments.only:
        for memory in arguments.memory:
            found = row(preset, memory)
            if found is None:
                continue
            rows.append(found)
            if arguments.episodes:
                played = play(preset, memory, arguments.episodes)
                agrees = agrees and all(check.passed for check in played)
                deviations = ", ".join(f"{check.deviation:+.2f}" for check in played)
                print(
                    f"{preset}, {memory}: mean return of the games {played[0].measured:.4f} ± "
                    f"{played[0].error:.4f}, deviations {deviations}",
                    flush=True,
                )
    print(tables.ceilings(rows), end="")
    if arguments.publish:
        figures.publish("ceilings", rows)
    return 0 if agrees else 1


if __name__ == "__main__":
    sys.exit(main())
