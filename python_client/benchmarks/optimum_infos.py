"""Measures the speed of steps on small boards, with and without the optimum's infos.

    twofold solve --size 3                                             # once
    taskset -c 0 .venv/bin/python python_client/benchmarks/optimum_infos.py     # on one core

First it records random games and optimal games. Then environments that differ only in their
infos take turns to replay these games, in several rounds, with `copy=False`. Only their steps are
timed.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import figures
import gymnasium as gym
import machine
import numpy as np
from numpy.typing import NDArray

INFOS: tuple[tuple[str, ...], ...] = (
    (),
    ("regret",),
    ("optimal_value",),
    ("action_values",),
    ("optimal_value", "action_values", "regret"),
)


def make(options: argparse.Namespace, infos: tuple[str, ...]) -> Any:
    """Makes the boards."""
    return gym.make_vec(
        "twofold/Game2048-v0",
        num_envs=options.num_envs,
        size=tuple(options.size),
        extra_infos=infos,
        autoreset_mode="SameStep",
        copy=False,
        endpoint="embedded",
    )


def record(options: argparse.Namespace, optimal: bool) -> NDArray[np.uint8]:
    """Plays steps with optimal or random legal actions, and returns the actions (steps, N)."""
    envs = make(options, ("action_values",))
    rng = np.random.default_rng(0)
    _, infos = envs.reset(seed=1)
    actions = np.empty((options.steps, options.num_envs), np.uint8)
    for row in actions:
        row[:] = (rng.random(infos["action_mask"].shape) * infos["action_mask"]).argmax(axis=1)
        if optimal and "action_values" in infos:  # the infos of a reset have none
            row[:] = infos["action_values"].argmax(axis=1)
        infos = envs.step(row)[4]
    envs.close()
    return actions


def seconds(envs: Any, actions: NDArray[np.uint8]) -> float:
    """Replays the actions and returns the time of the steps, in seconds."""
    envs.reset(seed=1)
    began = time.perf_counter()
    for row in actions:
        envs.step(row)
    return time.perf_counter() - began


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--size", type=int, nargs=2, default=[3, 3], metavar=("ROWS", "COLUMNS"))
    add("--num-envs", type=int, default=4096, help="number of boards")
    add("--steps", type=int, default=400, help="steps of all boards per round")
    add("--rounds", type=int, default=7)
    add("--publish", action="store_true", help=figures.HELP)
    options = parser.parse_args()
    size = " x ".join(map(str, options.size))
    print(
        f"{figures.machine()}, other work on {machine.busy_cores():.2f} cores; "
        f"{options.num_envs:,} boards of {size}; medians of {options.rounds} rounds\n"
    )
    print("| play | infos | million lanes/s | lowest to highest | relative to no infos |")
    print("|---|---|---:|---|---:|")
    published = []
    for play in ("random", "optimal"):
        actions = record(options, play == "optimal")
        contestants = [make(options, infos) for infos in INFOS]
        rounds = [[seconds(one, actions) for one in contestants] for _ in range(options.rounds)]
        for at, (infos, envs) in enumerate(zip(INFOS, contestants, strict=True)):
            rates = sorted(actions.size / times[at] / 1e6 for times in rounds)
            name = "all three" if len(infos) == 3 else ", ".join(infos) or "none of them"
            rate = 1e6 * statistics.median(rates)
            published.append({"games": f"{play} play", "infos": name, "rate": rate})
            share = statistics.median(times[0] / times[at] for times in rounds)
            print(
                f"| {play} | {name} | {statistics.median(rates):.1f} "
                f"| {rates[0]:.1f} to {rates[-1]:.1f} | {share:.0%} |"
            )
            envs.close()
    if options.publish:
        figures.publish("optimum_infos", published)


if __name__ == "__main__":
    main()
