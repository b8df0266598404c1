"""Compares a program that searches for its game's seed with the same program without the search.

    .venv/bin/python python_client/certify/foresight.py                 # 200 games per program

Both play the same games. The report shows the 95 % interval of the difference between their mean
scores. The searching program also plays games with public seeds in this process, where it finds the
seeds; the report gives its mean score. The exit status is 1 if the interval excludes 0.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))

import figures
import foreseer
import numpy as np
from numpy.typing import NDArray

import twofold
from twofold.policies import Strategy

SOURCE = Path(foreseer.__file__).read_text()


class Foreseeing:
    """A policy that runs one copy of the searching program for each board, in this process.

    It satisfies `twofold.policies.PolicyWithMemory`.
    """

    def __init__(self) -> None:
        self._games: dict[int, foreseer.Foreseer] = {}

    def reset(self, lanes: NDArray[np.bool_]) -> None:
        """Starts a new copy of the program for each lane where `lanes` is True."""
        self._games |= {int(lane): foreseer.Foreseer() for lane in np.flatnonzero(lanes)}

    def __call__(self, observations: Any, action_mask: NDArray[np.int8]) -> list[int]:
        """Calls the program for each board that has a legal action."""
        boards = twofold.tile_values(observations).tolist()
        playing = action_mask.max(axis=1).tolist()
        return [self._games[i](board) if playing[i] else 0 for i, board in enumerate(boards)]


def judged(looks: bool, episodes: int, secret: str | None) -> twofold.Evaluation:
    """Evaluates the program, with or without its search for the seed (`looks`)."""
    name = "the program that searches" if looks else "the program without the search"
    source = SOURCE.replace("LOOKS = True", f"LOOKS = {looks}")
    program = Strategy(source, name=name, move_timeout=60, game_timeout=3600)
    return twofold.evaluate(program, episodes=episodes, secret=secret)


def row(seeds: str, program: str, played: twofold.Evaluation) -> figures.Row:
    """Returns one row of the published table: the number of games and their mean score."""
    found = {"games": len(played.scores), "mean": float(played.scores.mean())}
    return {"seeds": seeds, "program": program, **found, "difference": None}


def main() -> int:
    """Plays the games and prints the report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--episodes", type=int, default=200, help="games per program (default: 200)"
    )
    parser.add_argument(
        "--public", type=int, default=8, help="games with public seeds (default: 8)"
    )
    parser.add_argument("--publish", action="store_true", help=figures.HELP)
    options = parser.parse_args()
    looking = judged(True, options.episodes, None)
    blind = judged(False, options.episodes, looking.secret)
    comparison = looking.compare(blind)
    print(comparison)
    public = twofold.evaluate(Foreseeing(), episodes=options.public, num_envs=1)
    print(f"\nwith public seeds, {options.public} games: mean score {public.scores.mean():,.0f}")
    if options.publish:
        difference = [comparison.difference, *comparison.difference_interval]
        rows = [
            row("secret", "looks for its seed", looking) | {"difference": difference},
            row("secret", "the same, without looking", blind),
            row("public", "looks for its seed", public),
        ]
        figures.publish("foresight", rows)
    return int(comparison.is_significant)


if __name__ == "__main__":
    sys.exit(main())
