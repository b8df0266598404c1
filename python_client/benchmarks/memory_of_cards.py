"""Measures how the return in Concentration depends on the number of cards a player remembers.

    python python_client/benchmarks/memory_of_cards.py    # a minute

Each player makes the best possible use of its memory (`twofold.policies.LastKMemory`). No player
peeks.
"""

from __future__ import annotations

import argparse
from typing import Any

import figures
import tables

import twofold

MEMORIES = {"playground": (*"0123456", "8", "all"), "popgym-hard": (*"012345",)}
"""The numbers of remembered cards by preset, up to the largest number solvable in seconds."""


def rows(episodes: int) -> list[figures.Row]:
    """Plays `episodes` games with each preset and memory, and returns their mean returns."""
    found = []
    for preset, memories in MEMORIES.items():
        policies = {"random": "random"} | {one: f"last-k-memory:{one}" for one in memories}
        for memory, policy in policies.items():
            options: dict[str, Any] = {"preset": preset, "peeks": 0}
            played = twofold.evaluate(
                policy, env="twofold/Concentration-v0", episodes=episodes, **options
            )
            score = played.summary["score"]
            found.append(
                {
                    "preset": preset,
                    "memory": memory,
                    "games": episodes,
                    "return": [round(each, 4) for each in (score["mean"], *score["mean_interval"])],
                    "turns": round(played.summary["moves"]["mean"] / 2, 2),
                }
            )
    return found


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--episodes", type=int, default=1000, help="games per player")
    parser.add_argument("--publish", action="store_true", help=figures.HELP)
    arguments = parser.parse_args()
    found = rows(arguments.episodes)
    print(tables.memory_of_cards(found), end="")
    if arguments.publish:
        figures.publish("memory_of_cards", found)


if __name__ == "__main__":
    main()
