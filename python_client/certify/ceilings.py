"""Prints a table of ceilings: the best possible mean returns for Concentration's presets.

    python ceilings.py                                # the table; takes ten minutes and 4 GB
    python ceilings.py --only popgym-hard --memory 6

Tests compare the ceilings with played games.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))

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


def main() -> None:
    """Prints the table."""
    arguments = parse()
    found = (row(preset, memory) for preset in arguments.only for memory in arguments.memory)
    rows = [one for one in found if one is not None]
    print(tables.ceilings(rows), end="")
    if arguments.publish:
        figures.publish("ceilings", rows)


if __name__ == "__main__":
    main()
