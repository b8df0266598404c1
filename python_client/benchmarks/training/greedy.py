"""Evaluates an example's saved agent with greedy actions, and prints the evaluation as JSON.

    python greedy.py ppo runs/ppo-1/model.pt --episodes 1000

It runs in the virtual environment of the example's library.
"""

from __future__ import annotations

import argparse
import importlib
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np

import twofold

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))


def ppo(path: Path) -> Any:
    """Returns a policy that takes the most probable actions."""
    module = importlib.import_module("ppo")
    return module.policy_of(module.load(path))


def dqn_afterstates(path: Path) -> Any:
    """Returns a policy that takes the actions with the highest reward + value of the afterstate."""
    module = importlib.import_module("dqn_afterstates")
    return module.policy_of(*module.load(path))


def train_ntuple(path: Path) -> Any:
    """Returns the greedy policy of an n-tuple network from Twofold or TDL2048-Demo."""
    if path.suffix == ".npz":
        return twofold.policies.NTuple.load(path)
    return twofold.policies.read_network(path)


def tdl2048(path: Path) -> Any:
    """Returns the greedy policy of a TDL2048 network whose tuples have a predefined name.

    For each tuple, the file contains its cells as the hexadecimal digits of a number, then the
    weights, and then the two sums of temporal coherence.
    """
    tuples: list[list[int]] = []
    weights: list[Any] = []
    with path.open("rb") as file:
        _, count = struct.unpack("<BI", file.read(5))
        for _ in range(count):
            _, cells, size, _ = struct.unpack("<BIHH", file.read(9))
            tuples.append([cells >> 4 * digit & 15 for digit in reversed(range(size))])
            numbers = []
            while struct.unpack("<H", file.read(2))[0]:
                [length] = struct.unpack("<Q", file.read(8))
                numbers.append(np.fromfile(file, "<f4", length))
            weights.append(numbers[0])
    return twofold.policies.NTuple(tuples, weights, exponents=16, symmetric=True)


LOADERS = {loader.__name__: loader for loader in (ppo, dqn_afterstates, train_ntuple, tdl2048)}


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("program", choices=LOADERS, help="name of the example")
    parser.add_argument("agent", type=Path, help="file with the saved agent")
    parser.add_argument("--episodes", type=int, default=1000, help="games (seeds start at 2^63)")
    options = parser.parse_args()
    policy = LOADERS[options.program](options.agent)
    print(twofold.evaluate(policy, episodes=options.episodes).to_json())


if __name__ == "__main__":
    main()
