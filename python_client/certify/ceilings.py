"""Prints the ceilings of Concentration's presets as a table, and plays games that attain them.

    python ceilings.py                                # the table; ten minutes, 6 GB
    python ceilings.py --only popgym-hard --memory 6
    python ceilings.py --episodes 100000              # with the means of this many games each

The exit status is 1 if games disagree with the table.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from typing import Any

import checks

import twofold
from twofold.games.concentration import PRESETS

HEADER = ("preset", "remembered cards", "return", "steps", "turns", "cleared")
MEMORIES = ("0", "1", "2", "4", "6", "8", "all")


def parse() -> argparse.Namespace:
    """Reads the command line."""

    def words(text: str) -> list[str]:
        return text.split(",")

    parser = argparse.ArgumentParser(description="Prints the ceilings of Concentration's presets.")
    parser.add_argument("--only", type=words, default=list(PRESETS), help="presets")
    parser.add_argument("--memory", type=words, default=list(MEMORIES), help="numbers, or all")
    parser.add_argument("--episodes", type=int, help="games to play for each row; none by default")
    return parser.parse_args()


def row(preset: Any, memory: str) -> list[str] | None:
    """Returns a row of the table; None, with a message, where there are too many states."""
    capacity = None if memory == "all" else int(memory)
    try:
        found = twofold.ceilings.concentration(memory=capacity, preset=preset)
    except twofold.errors.InvalidArgument as error:
        print(f"{preset}: {error}", file=sys.stderr)
        return None
    return [
        preset,
        memory,
        f"{found.mean_return:.4f}",
        f"{found.mean_length:.2f}",
        f"{found.mean_turns:.2f}",
        f"{found.cleared * 100:.2f} %",
    ]


def play(preset: Any, memory: str, episodes: int) -> list[checks.Check]:
    """Compares this many games with the ceiling."""
    capacity = None if memory == "all" else int(memory)
    ceiling = twofold.ceilings.concentration(memory=capacity, preset=preset)
    played = twofold.evaluate(
        f"last-k-memory:{memory}", env="twofold/Concentration-v0", episodes=episodes, preset=preset
    )
    rounding = 1e-6  # of float32 rewards
    # If games rarely end before the limit, a sample may have no such game, and no deviation.
    rare = 0.0
    if not played.lengths.std():
        rare = ceiling.mean_length * math.sqrt(ceiling.cleared / episodes)
    return [
        checks.mean("return", ceiling.mean_return, played.scores, rounding),
        checks.mean("steps", ceiling.mean_length, played.lengths, rounding + rare),
    ]


def line(cells: Sequence[str]) -> str:
    """Returns a line of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """Prints the table; the exit status."""
    arguments = parse()
    header = [*HEADER, "return of games", "deviation"] if arguments.episodes else list(HEADER)
    print(line(header))
    print(f"|---|{'--:|' * (len(header) - 1)}")
    agrees = True
    for preset in arguments.only:
        for memory in arguments.memory:
            cells = row(preset, memory)
            if cells is None:
                continue
            if arguments.episodes:
                found = play(preset, memory, arguments.episodes)
                agrees = agrees and all(check.passed for check in found)
                cells.append(f"{found[0].measured:.4f} ± {found[0].error:.4f}")
                cells.append(", ".join(f"{check.deviation:+.2f}" for check in found))
            print(line(cells), flush=True)
    return 0 if agrees else 1


if __name__ == "__main__":
    sys.exit(main())
