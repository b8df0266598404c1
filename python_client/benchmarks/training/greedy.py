"""Evaluates an example's saved agent with greedy actions, and prints the evaluation as JSON.

    python greedy.py ppo runs/ppo-1/model.pt --episodes 1000

It runs in the virtual environment of the example's library.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from typing import Any

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


LOADERS = {loader.__name__: loader for loader in (ppo, dqn_afterstates, train_ntuple)}


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
