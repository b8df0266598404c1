"""A job for a Ray cluster that plays games or writes a dataset. A test may cut one node off.

python ray_job.py ADDRESS random EPISODES RESULT.npz
python ray_job.py ADDRESS games FOLDER IP RESULT.npz
python ray_job.py ADDRESS dataset FOLDER IP plays|played
"""

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import ray
from ray_calls import evaluate, write_dataset

import twofold

GAMES = 400
DATASET: dict[str, Any] = {"transitions": 700_000, "num_envs": 64, "seed": 7}
# The steps per row group of these lanes: 262,144 / 64.
STEPS = 4096
FIELDS = ("seeds", "scores", "moves", "lengths", "max_exponents")


class Random(twofold.policies.Random):
    """Random play in the service. Each copy prints the node where it is unpickled."""

    def __reduce__(self) -> Any:
        return arrived, ()


def arrived() -> Random:
    """Unpickles a copy, and prints the node where this happens."""
    print("on", ray.util.get_node_ip_address(), flush=True)
    return Random()


class FirstLegal:
    """A policy that plays the first legal action. It can make one node wait at a given call.

    Args:
        folder: A folder for three files. `begun` has the node address of each copy that plays.
            `held` exists once the node has reached the call. The test makes `cut` when it cuts
            the node off.
        ip: The node's address.
        call: The number of the call.
        waits: Whether the node waits at this call until it is cut off.
    """

    def __init__(self, folder: Path, ip: str, call: int, waits: bool) -> None:
        self.folder, self.ip, self.call, self.waits = folder, ip, call, waits
        self.calls = 0
        self.here = ""

    def __call__(self, boards: Any, mask: Any) -> Any:
        if not self.calls:
            self.here = ray.util.get_node_ip_address() if ray.is_initialized() else ""
            with open(self.folder / "begun", "a") as file:
                file.write(f"{self.here}\n")
        self.calls += 1
        if self.here == self.ip and self.calls == self.call:
            (self.folder / "held").touch()
            if self.waits:
                wait(self.folder)
        return mask.argmax(axis=1)


def wait(folder: Path) -> None:
    """Waits until the node is cut off."""
    while not (folder / "cut").exists():
        time.sleep(0.05)


def save(result: twofold.Evaluation, path: str) -> None:
    """Prints an evaluation and saves the results of its games."""
    np.savez(path, **{name: getattr(result, name) for name in FIELDS})
    print(result)


def main() -> None:
    """Runs the job."""
    address, what, *rest = sys.argv[1:]
    ray.init(address=address, logging_level="warning")
    if what == "random":
        save(evaluate(Random(), episodes=int(rest[0]), workers=2), rest[1])
        return
    folder, ip = Path(rest[0]), rest[1]
    if what == "games":
        policy = FirstLegal(folder, ip, 50, waits=True)
        save(evaluate(policy, episodes=GAMES, workers=2), rest[2])
        return
    # The cut comes in the second row group, or after it was played but before the driver read it.
    is_played = rest[2] == "played"
    policy = FirstLegal(folder, ip, 2 * STEPS if is_played else 3 * STEPS // 2, not is_played)

    def progress(done: int, of: int) -> None:
        if is_played:
            wait(folder)

    write_dataset(folder / "data.parquet", policy, workers=2, progress=progress, **DATASET)


if __name__ == "__main__":
    main()
