"""Verifies the games' rules against exact values, known statistics and other packages.

    .venv/bin/python python_client/certify/certify.py           # ten minutes; `make certify`
    .venv/bin/python python_client/certify/certify.py --quick   # one or two minutes
    .venv/bin/python python_client/certify/certify.py --only exact,dialects

Prints a report. Also saves the report, and a JSON file with all measured values, in a new folder in
runs/certify/. The exit status is 1 if any check disagrees.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import checks
import concentration
import episodes
import exact
import mutants
import numpy as np
import optimum
import packages
from checks import Check, Expected
from environments import InstallationFailed
from forward import Forward

import twofold

REPOSITORY = Path(__file__).resolve().parents[2]
# A number above all training seeds.
SEED = 2**63


@dataclass
class Section:
    """One table of the report."""

    title: str
    note: str
    checks: list[Check] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether the section has checks and all of them passed."""
        return bool(self.checks) and all(check.passed for check in self.checks)


# ---- exact mathematics ---------------------------------------------------------------------------


def known_of(values: exact.Values) -> Expected:
    """Converts values from exact.py to expected values."""
    reaching = {value: p for value, p in values.items() if isinstance(value, int) and value > 4}
    return Expected(values["score"], values["moves"], reaching)


def certify_exact(count: int, fewer: int, negligible: float = 1e-15) -> Iterator[Section]:
    """Checks games on 2 x 2, 2 x 3 and 3 x 3 boards against exact values.

    The policy is uniform over the legal actions. On 2 x 2, the optimal policy plays further games.

    Args:
        count: The number of episodes for each main table of the report.
        fewer: The number of episodes for each other table.
        negligible: On 2 x 3 and 3 x 3, the exact values may leave out episodes with at most this
            total probability.
    """
    rng = np.random.default_rng(0)
    uniform = episodes.uniform_legal(rng)
    cases: list[tuple[str, int, dict[str, Any]]] = [
        ("2 x 2", count, {}),
        ("2 x 2 up to the goal 8", fewer, {"goal": 8}),
        ("2 x 2 up to the goal 16", fewer, {"goal": 16}),
        ("2 x 2, half of the tiles 4s", fewer, {"four_probability": 0.5}),
        ("2 x 2, one start tile", fewer, {"start_tiles": 1}),
        ("2 x 2, three start tiles", fewer, {"start_tiles": 3}),
    ]
    for title, some, changes in cases:
        known = known_of(exact.Solver(2, 2, **changes).solve())
        stop = {"stop_at_goal": True} if "goal" in changes else {}
        played = play(some, uniform, size=2, **changes, **stop)
        rest = {name: value for name, value in changes.items() if name != "goal"}
        found = checks.certify_play(played, known, until_stuck=not stop, **rest)
        yield Section(f"{title}, uniform legal play", summary(played), found)

    solver = exact.Solver(2, 2)
    known = known_of(solver.solve(best="score"))
    played = play(count, episodes.from_table(solver.policy), size=2)
    found = checks.certify_play(played, known)
    yield Section("2 x 2, optimal play", summary(played), found)

    for rows, columns, some in ((2, 3, fewer), (3, 3, count)):
        expected = Forward(rows, columns).solve(negligible)
        reaching = {2**k: expected.reaching(2**k) for k in range(3, 12)}
        known = Expected(expected.score, expected.moves, reaching)
        played = play(some, uniform, size=(rows, columns))
        note = f"{summary(played)}; exact values over {expected.states:,} states up to symmetry"
        found = checks.certify_play(played, known)
        yield Section(f"{rows} x {columns}, uniform legal play", note, found)


def play(count: int, choose: episodes.Choose, **arguments: Any) -> episodes.Episodes:
    """Plays at least `count` episodes on the server."""
    boards = min(16384, max(1, count // 16))
    envs = twofold.Game2048VectorEnv(boards, **arguments)
    try:
        return episodes.play(envs, choose, count, SEED)
    finally:
        envs.close()


def summary(played: episodes.Episodes) -> str:
    """Returns the number of episodes and the number of steps, as text."""
    return f"{played.count:,} episodes, {int(played.length.sum()):,} steps"


# ---- 4 x 4 ---------------------------------------------------------------------------------------


def certify_statistics(count: int, fewer: int) -> Iterator[Section]:
    """Checks random games on 4 x 4 against the statistics of 20 million games."""
    rng = np.random.default_rng(1)
    played = play(count, episodes.uniform_legal(rng))
    note = f"{summary(played)}, compared with a count of 20 million games. {intervals(played)}"
    found = checks.certify_play(played, checks.RANDOM_4X4)
    yield Section("4 x 4, uniform legal play", note, found)
    # Illegal actions change nothing, so the episodes follow the same distribution.
    played = play(fewer, episodes.uniform_any(rng))
    found = checks.certify_play(played, checks.RANDOM_4X4, only_legal=False)
    yield Section("4 x 4, uniform play including illegal actions", summary(played), found)


def intervals(played: episodes.Episodes) -> str:
    """Returns the mean score, the mean number of moves and the highest tiles, as text.

    The means have 95 % intervals. Each highest tile has its percentage of games.
    """

    def around(sample: Any) -> str:
        half = 1.96 * sample.std(ddof=1) / math.sqrt(len(sample))
        return f"{sample.mean():.2f} ± {half:.2f}"

    shares = np.bincount(played.highest, minlength=3) / played.count * 100
    highest = ", ".join(f"{2**k} {share:.4g}" for k, share in enumerate(shares) if share)
    return (
        f"With 95 % intervals: score {around(played.score)}, moves {around(played.moves)}. "
        f"Highest tile, percent: {highest}."
    )


# ---- optimal play --------------------------------------------------------------------------------


def certify_optimum(count: int, fewer: int, *, largest: bool = False) -> Iterator[Section]:
    """Checks the tables of optimal values, and games played from these tables.

    Args:
        count: The number of games on 3 x 3.
        fewer: The number of games on each other board size.
        largest: True to include 3 x 3, which takes minutes to solve.
    """
    note = "`twofold solve` compared with the solver of exact.py"
    yield Section("The optimum of 2 x 2", note, list(optimum.compare_2x2()))
    sizes: list[tuple[str, int, float | None]] = [("2x2", fewer, None), ("2x3", fewer, None)]
    if largest:
        sizes.append(("3x3", count, optimum.OPTIMUM_3X3))
    for size, games, known in sizes:
        found = list(optimum.compare_games(size, games, known))
        title = f"Optimal play and regret on {size.replace('x', ' x ')}"
        yield Section(title, f"{games:,} games by each policy", found)


# ---- mutants -------------------------------------------------------------------------------------


def certify_mutants(count: int) -> Iterator[Section]:
    """Runs the server's checks on a correct engine, and on engines that each have one defect."""
    played, found = try_engine(mutants.Defect(), count)
    yield Section("A correct engine in numpy", summary(played), found)
    for defect in mutants.DEFECTS:
        played, found = try_engine(defect, count)
        failed = [check for check in found if not check.passed]
        known = f"score {defect.score}, moves {defect.moves}"
        names = ", ".join(f"{check.what} ({check.deviation:+.1f})" for check in failed) or "nothing"
        note = (
            f"{summary(played)}: score {played.score.mean():.1f}, moves {played.moves.mean():.1f}, "
            f"steps {played.length.mean():.1f}"
            f" (published for this defect: {known}). Caught by: {names}."
        )
        caught = Check("1 if a check fails", 1.0, float(bool(failed)))
        yield Section(f"An engine that {defect.name}", note, [caught])


def try_engine(defect: mutants.Defect, count: int) -> tuple[episodes.Episodes, list[Check]]:
    """Plays on an engine with the given defect. Returns the episodes and the checks' results."""
    engine = mutants.Engine(min(-(-count // 4), 4096), defect)
    rng = np.random.default_rng(4)
    choose = episodes.uniform_any(rng) if defect.illegal_spawns else episodes.uniform_legal(rng)
    played = episodes.play(engine, choose, count, 5)
    only_legal = not defect.illegal_spawns
    return played, checks.certify_play(played, checks.RANDOM_4X4, only_legal=only_legal)


# ---- dialects ------------------------------------------------------------------------------------


def certify_dialects(out: Path, boards: int) -> Iterator[Section]:
    """Checks each dialect against recordings of the package whose rules the dialect follows."""
    for dialect in packages.DIALECTS:
        try:
            recording = packages.record(dialect, out, boards=boards, steps=400, given=boards)
        except (InstallationFailed, subprocess.SubprocessError) as failure:
            missing = Check("1 if the package runs", 1.0, 0.0)
            yield Section(f'dialect="{dialect}"', f"Not compared: {failure}.", [missing])
            continue
        found = list(packages.compare(dialect, recording))
        if dialect == "envpool":
            found += packages.check_envpool_limits(recording)
        note = f"{recording['package']}, {len(recording['action']):,} transitions"
        yield Section(f'dialect="{dialect}"', note, found)


# ---- Concentration -------------------------------------------------------------------------------


def certify_concentration(out: Path, count: int) -> Iterator[Section]:
    """Checks each of Concentration's POPGym presets against POPGym itself."""
    for variant in concentration.VARIANTS:
        title = f"Concentration as POPGym's {variant}"
        try:
            recording = concentration.record(variant, out, episodes=count)
        except (InstallationFailed, subprocess.SubprocessError) as failure:
            missing = Check("1 if the package runs", 1.0, 0.0)
            yield Section(title, f"Not compared: {failure}.", [missing])
            continue
        played = f"{count} episodes, {recording['lengths'].sum():,} transitions"
        note = f"{concentration.REQUIREMENTS[0]}, {played}"
        yield Section(title, note, list(concentration.compare(variant, recording)))


# ---- the run -------------------------------------------------------------------------------------


def main() -> int:
    """Runs the checks that the command line selects. Returns the exit status."""
    arguments = parse()
    started = datetime.datetime.now(datetime.timezone.utc)
    out: Path = arguments.out or REPOSITORY / "runs" / "certify" / f"{started:%Y%m%d-%H%M%S}"
    out.mkdir(parents=True, exist_ok=True)
    os.environ["TWOFOLD_TABLES"] = str(out / "tables")  # read when the service starts
    count: int = arguments.episodes or (20_000 if arguments.quick else 1_000_000)
    fewer = max(count // 5, 1000)
    parts: dict[str, Callable[[], Iterator[Section]]] = {
        "exact": lambda: certify_exact(count, fewer),
        "statistics": lambda: certify_statistics(count, fewer),
        "optimum": lambda: certify_optimum(count, fewer, largest=not arguments.quick),
        "mutants": lambda: certify_mutants(min(fewer, 50_000)),
        "dialects": lambda: certify_dialects(out, 64 if arguments.quick else 512),
        "concentration": lambda: certify_concentration(out, 60 if arguments.quick else 1500),
    }
    sections: list[Section] = []
    for name in arguments.only:
        clock = time.monotonic()
        for section in parts[name]():
            section.seconds, clock = time.monotonic() - clock, time.monotonic()
            sections.append(section)
            word = "agrees" if section.passed else "DISAGREES"
            print(f"{section.title}: {word} ({section.seconds:.0f} s)", file=sys.stderr, flush=True)
    passed = all(section.passed for section in sections)
    run = {
        "started": f"{started:%Y-%m-%d %H:%M} UTC",
        "twofold": twofold.__version__,
        "limit": checks.LIMIT,
        "passed": passed,
        "sections": [as_json(section) for section in sections],
    }
    (out / "certificate.json").write_text(json.dumps(run, indent=1) + "\n")
    text = markdown(run, sections)
    (out / "certificate.md").write_text(text)
    print(text)
    print(f"In {out}: certificate.md, certificate.json", file=sys.stderr)
    return 0 if passed else 1


def as_json(section: Section) -> dict[str, Any]:
    """Returns the section as a JSON object. Infinite values and NaN become null."""

    def number(value: float) -> float | None:
        return value if math.isfinite(value) else None

    return {
        "title": section.title,
        "note": section.note,
        "seconds": round(section.seconds, 1),
        "passed": section.passed,
        "checks": [
            {
                "what": check.what,
                "expected": number(check.expected),
                "measured": number(check.measured),
                "standard_error": number(check.error),
                "deviation": number(check.deviation),
                "passed": check.passed,
            }
            for check in section.checks
        ],
    }


def markdown(run: dict[str, Any], sections: list[Section]) -> str:
    """Returns the report as Markdown."""
    total = sum(len(section.checks) for section in sections)
    failed = sum(not check.passed for section in sections for check in section.checks)
    verdict = "Everything agrees" if run["passed"] else f"**{failed} of {total} checks disagree**"
    lines = [
        "# Certificate of the rules",
        "",
        f"Twofold {run['twofold']}, {run['started']}. {verdict}: {total} checks. A value "
        f"agrees within {run['limit']:g} standard errors, or exactly if it has no standard error.",
    ]
    for section in sections:
        lines += ["", f"## {section.title}", "", section.note, ""]
        lines += [
            "| | expected | measured | standard error | deviation | |",
            "|---|--:|--:|--:|--:|---|",
        ]
        for check in section.checks:
            error = f"{check.error:.3g}" if check.error else ""
            deviation = f"{check.deviation:+.2f}" if check.error else ""
            lines.append(
                f"| {check.what} | {check.expected:.9g} | {check.measured:.9g} | {error} "
                f"| {deviation} | {'' if check.passed else '**disagrees**'} |"
            )
    return "\n".join(lines) + "\n"


def parse() -> argparse.Namespace:
    """Parses and checks the command line."""
    names = ["exact", "statistics", "optimum", "mutants", "dialects", "concentration"]

    def chosen(text: str) -> list[str]:
        parts = text.split(",")
        if not set(parts) <= set(names):
            raise argparse.ArgumentTypeError(f"expected one or more of {','.join(names)}")
        return parts

    def positive(text: str) -> int:
        value = int(text)
        if value < 1:
            raise ValueError
        return value

    parser = argparse.ArgumentParser(description="Certifies the rules.")
    parser.add_argument("--only", type=chosen, default=names, help="parts: " + ",".join(names))
    parser.add_argument("--episodes", type=positive, help="episodes for each main table (1000000)")
    parser.add_argument("--quick", action="store_true", help="20000 episodes, fewer transitions")
    parser.add_argument("--out", type=Path, help="result folder (runs/certify/<date>-<time>)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
