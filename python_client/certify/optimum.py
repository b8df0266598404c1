"""Compares the tables of `twofold solve` with exact.py, and with games played from the tables."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import checks
import exact
import figures
from checks import Check
from forward import Forward

import twofold

OPTIMUM_3X3 = 5468.48679741
"""The expected score of optimal play on 3 x 3, from a solver that shares no code with Twofold's."""

# The objectives of exact.py, each with the options of `twofold solve`.
OBJECTIVES: list[tuple[str | int, list[str]]] = [
    ("score", []),
    ("moves", ["--objective", "moves"]),
    (16, ["--objective", "goal", "--goal", "16"]),
    (32, ["--objective", "goal", "--goal", "32"]),
]


def compare_2x2() -> Iterator[Check]:
    """Compares `twofold solve` on 2 x 2 with exact.py, for each objective."""
    for best, arguments in OBJECTIVES:
        solved = figures.output("solve", "--quiet", "--size", "2", *arguments)
        end = best if isinstance(best, int) else None
        known = exact.Solver(2, 2, goal=end).solve(best=best)
        name = "score" if best == "score" else "moves" if best == "moves" else f"P({best})"
        yield Check(f"best {name}", known[best], solved["value"], 1e-12 * known[best])
        # The results of play that uses the rounded values.
        yield Check(f"best {name}: its score", known["score"], solved["score"], 1e-5)
        yield Check(f"best {name}: its moves", known["moves"], solved["moves"], 1e-5)
    play = Forward(2, 2).solve()
    solved = figures.output("solve", "--quiet", "--size", "2")
    yield Check("boards up to symmetry", play.states, solved["states"])
    yield Check("terminal boards", play.terminal, solved["terminal"])


def compare_games(size: str, count: int, known: float | None = None) -> Iterator[Check]:
    """Compares optimal and random games on one board size with the values in its table.

    Optimal games must have no regret. A random game's regret must have the expected mean.
    """
    solved = figures.output("solve", "--quiet", "--size", size)
    if known is not None:
        yield Check("expected score", known, solved["value"], 1e-9 * known)
    sides = tuple(int(side) for side in size.split("x"))
    arguments: dict[str, Any] = {"size": sides if len(sides) == 2 else sides[0], "regret": True}
    played = twofold.evaluate("optimal", episodes=count, **arguments)
    assert played.max_exponents is not None
    assert played.regret is not None
    yield checks.mean("optimal play: score", solved["value"], played.scores)
    yield checks.mean("optimal play: moves", solved["moves"], played.moves)
    for tile, probability in sorted(solved["reached"].items(), key=lambda each: int(each[0])):
        if 1e-4 < probability < 1 - 1e-4:
            reached = played.max_exponents >= int(math.log2(int(tile)))
            yield checks.share(f"optimal play: reaches {tile}", probability, reached)
    largest = float(played.regret.games.max())
    bound = solved["error_bound"] * float(played.moves.max())
    yield Check("optimal play: 1 if a game has a regret", 0, float(largest > bound))
    played = twofold.evaluate("random", episodes=count, **arguments)
    assert played.regret is not None
    rows, columns = (sides * 2)[:2]
    uniform = Forward(rows, columns).solve(negligible=1e-9)
    difference = solved["value"] - uniform.score
    yield checks.mean("random play: regret of a game", difference, played.regret.games)
    together = played.scores + played.regret.games
    yield checks.mean("random play: score and regret", solved["value"], together)
