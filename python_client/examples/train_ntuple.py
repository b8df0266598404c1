"""Learns to play 2048 on thousands of boards at once, with an n-tuple network in numpy.

    python train_ntuple.py                                # two minutes, and then 1,000 games
    python train_ntuple.py --seconds 1800 --save-at 1800
    python train_ntuple.py --endpoint tcp://10.0.0.7:5555 # boards on a server
    twofold evaluate ntuple:runs/ntuple-0/agent-1800.npz --against fixed-order

This is the readable version of `twofold train`, which learns in the same way, plays several times
as many moves per second, and can resume a training run.

The agent learns afterstate values with an n-tuple network (Szubert and Jaśkowski, "Temporal
difference learning of n-tuple networks for the game 2048", 2014). An afterstate is the board after
slide and merge, before the new tile, so it does not depend on chance. Its value V is the expected
score still to come. The agent takes the action with the highest reward + V(afterstate), and learns
by moving V of the last afterstate towards that sum. This is undiscounted TD(0) with greedy actions,
because new tiles explore enough. Temporal coherence gives each weight its own learning rate (Beal
and Smith 1999; Jaśkowski 2017).

Read the file from top to bottom: the network, choosing, training, the program.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy loads; the matrices here are small

import argparse
import json
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

import twofold
from twofold.policies import NTuple

Array = NDArray[Any]
VectorEnv = gym.vector.VectorEnv[Any, Any, Any]


# ---- the network: V(board) is a sum of 32 table entries ------------------------------------------

#    0  1  2  3       0  1  2  3     .  .  .  .     0  1  2  .     .  .  .  .
#    4  5  6  7       4  5  .  .     4  5  6  7     4  5  6  .     4  5  6  .
#    8  9 10 11       .  .  .  .     8  9  .  .     .  .  .  .     8  9 10  .
#   12 13 14 15       .  .  .  .     .  .  .  .     .  .  .  .     .  .  .  .
TUPLES = ((0, 1, 2, 3, 4, 5), (4, 5, 6, 7, 8, 9), (0, 1, 2, 4, 5, 6), (4, 5, 6, 8, 9, 10))
EXPONENTS = 16  # a cell holds 0 ... 15; a 65536 counts as a 32768
FEATURES = 8 * len(TUPLES)


def symmetries() -> Array:
    """Returns the eight symmetries of a board: row s has each cell's place under symmetry s."""
    cells = np.arange(16).reshape(4, 4)
    turned = [np.rot90(cells, quarter) for quarter in range(4)]
    return np.stack([image.ravel() for board in turned for image in (board, board.T)])


class TupleTable:
    """The weights of one 6-tuple: one per combination of tiles, shared by all eight images."""

    def __init__(self, cells: tuple[int, ...]) -> None:
        # An image's place in the table is a number whose digits are the tiles in its cells, so one
        # matrix product computes all places. float32 is exact, because places are below 2^24.
        self.digits = np.zeros((8, 16), np.float32)
        for image, moved in enumerate(symmetries()):
            self.digits[image, moved[list(cells)]] = EXPONENTS ** np.arange(len(cells))
        size = EXPONENTS ** len(cells)
        self.weights = np.zeros(size, np.float32)
        # The real part is the sum of a weight's errors, the imaginary part the sum of their sizes.
        # They are stored together, because memory access dominates the time of an update.
        self.history = np.zeros(size, np.complex64)

    def places(self, cells: Array) -> Array:
        """Returns the table indices of the eight images of M boards, (8, M)."""
        places: Array = self.digits @ cells
        return places.astype(np.int64)

    def look_up(self, cells: Array) -> Array:
        """Returns the sum of the weights of each of M boards, (M), given their cells (16, M)."""
        sums: Array = self.weights.take(self.places(cells)).sum(axis=0)
        return sums

    def update(self, cells: Array, errors: Array) -> None:
        """Corrects the weights of M boards by their errors (M), given their cells (16, M)."""
        if len(errors):
            self.correct(self.places(cells), errors)

    def correct(self, places: Array, errors: Array) -> None:
        """Corrects the weights at `places` (8, M) by the errors of M boards.

        A weight that occurs several times moves by the *mean* of its errors, because their sum
        would overshoot. Its learning rate is its temporal coherence, |sum of errors| / sum of
        |errors|: 1 while the errors agree, and close to 0 when they are only noise.
        """
        # Sorting integers that pack (place, board) groups the errors of each weight.
        packed = (places << 32 | np.arange(len(errors))).ravel()
        packed.sort()
        place, board = packed >> 32, packed & 0xFFFFFFFF
        is_edge = np.ones(len(place) + 1, bool)
        np.not_equal(place[1:], place[:-1], out=is_edge[1:-1])
        edges = np.flatnonzero(is_edge)
        first, count = edges[:-1], np.diff(edges).astype(np.float32)
        weight, error = place[first], np.add.reduceat(errors.take(board), first) / count

        history = self.history[weight]
        total, size = history.real, history.imag
        rate = np.divide(np.abs(total), size, out=np.ones_like(error), where=size > 0)
        self.weights[weight] += rate * error / FEATURES
        total += error
        size += np.abs(error)
        self.history[weight] = history


class Network:
    """Four tables, each in a separate thread, because numpy releases the GIL while it computes."""

    def __init__(self) -> None:
        self.tables = [TupleTable(cells) for cells in TUPLES]
        self.threads = ThreadPoolExecutor(max_workers=len(TUPLES))

    def look_up(self, boards: Array) -> Array:
        """Returns the values V of M boards (M, 4, 4)."""
        cells = repeat(cells_of(boards))
        sums = list(self.threads.map(TupleTable.look_up, self.tables, cells))
        values: Array = np.sum(sums, axis=0)
        return values

    def update(self, boards: Array, errors: Array) -> None:
        """Corrects V of M boards (M, 4, 4) by their errors (M)."""
        cells = repeat(cells_of(boards))
        list(self.threads.map(TupleTable.update, self.tables, cells, repeat(errors)))


def cells_of(boards: Array) -> Array:
    """Returns the exponents of M boards as float32 (16, M), for matrix products."""
    cells: Array = np.minimum(boards.reshape(-1, 16).T, EXPONENTS - 1, order="C")
    return cells.astype(np.float32)


# ---- choosing: the best reward + V(afterstate) ---------------------------------------------------


class Choice(NamedTuple):
    """The greedy policy's actions on N lanes, and the data needed for learning."""

    actions: Array  # (N)
    worth: Array  # (N) reward + V(afterstate) of the action; 0 where none is legal
    lanes: Array  # (K) the lanes with a legal action,
    boards: Array  # (K, 4, 4) the afterstates chosen there,
    values: Array  # (K) and their V

    def on(self, wanted: Array) -> "Choice":
        """Returns the actions and data for the wanted lanes, bool (N)."""
        keep = wanted[self.lanes]
        if keep.all():
            return self
        return self._replace(
            lanes=self.lanes[keep], boards=self.boards[keep], values=self.values[keep]
        )


def choose(network: Network, boards: Array, rewards: Array, mask: Array) -> Choice:
    """Chooses greedy actions for N lanes. Afterstates are (N, 4, 4, 4), other arguments (N, 4)."""
    # One row per lane and action, because indexing one axis is faster than indexing two.
    boards, rewards = boards.reshape(-1, 4, 4), rewards.ravel()
    legal = np.flatnonzero(mask)
    value, worth = np.zeros(mask.size, np.float32), np.full(mask.size, -np.inf, np.float32)
    value[legal] = network.look_up(boards.take(legal, axis=0))
    worth[legal] = rewards[legal] + value[legal]
    actions = worth.reshape(mask.shape).argmax(axis=1)
    row = np.arange(0, mask.size, mask.shape[1]) + actions
    can_act = mask.ravel()[row] != 0
    lanes = np.flatnonzero(can_act)
    return Choice(
        actions=actions,
        worth=np.where(can_act, worth[row], 0),
        lanes=lanes,
        boards=boards.take(row[lanes], axis=0),
        values=value[row[lanes]],
    )


# ---- training ------------------------------------------------------------------------------------


@dataclass
class Progress:
    """The training so far."""

    seconds: float = 0.0
    steps: int = 0
    episodes: int = 0
    scores: deque[int] = field(default_factory=lambda: deque(maxlen=1000))  # of the last episodes


def train(
    envs: VectorEnv,
    network: Network,
    seconds: float,
    seed: int,
    after_step: Callable[[Progress], None] = lambda progress: None,
) -> None:
    """Plays and learns for `seconds` s.

    Calls `after_step` after each step of all boards. Its time does not count.
    """
    # glibc's malloc requests every large block from the system again, and fresh pages cost more
    # than the arithmetic on them. Freeing a block of nearly 32 MB makes it keep smaller blocks.
    np.empty(31 << 20, np.uint8)

    env: Any = envs.unwrapped  # wrappers forward reset and step, but not Twofold's afterstates
    envs.reset(seed=seed)
    progress = Progress()
    finished = np.zeros(envs.num_envs, bool)
    last: Choice | None = None
    while progress.seconds < seconds:
        start = time.perf_counter()
        choice = choose(network, *env.afterstates())
        if last is not None:
            # A terminated lane has no legal action, so its last afterstate is worth 0.
            network.update(last.boards, choice.worth[last.lanes] - last.values)
        # A finished lane ignores its action and returns the next episode's first board (NEXT_STEP
        # autoreset). The chosen action is not played, so nothing is learned from it.
        last = choice.on(~finished)

        _, _, terminations, truncations, infos = envs.step(choice.actions)
        finished = terminations | truncations
        progress.scores.extend(infos["score"][finished])
        progress.episodes += int(finished.sum())
        progress.steps += envs.num_envs
        progress.seconds += time.perf_counter() - start
        after_step(progress)


# ---- the program ---------------------------------------------------------------------------------


def parse_arguments(words: list[str] | None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--seed", type=int, default=0, help="seed of the first board")
    add("--endpoint", help="a server's address (default: boards in this process)")
    add("--seconds", type=float, default=120, help="duration of training in seconds")
    add("--num-envs", type=int, default=4096, help="number of boards")
    add("--out", type=Path, help="output folder (default: runs/ntuple-<seed>)")
    add("--save-at", type=float, nargs="+", default=[], help="when to save, in seconds")
    add("--episodes", type=int, default=1000, help="games in the final evaluation")
    return parser.parse_args(words)


class Schedule:
    """The progress lines and saved agents during training."""

    def __init__(self, options: argparse.Namespace, network: Network) -> None:
        self.options, self.network = options, network
        self.out: Path = options.out or Path(f"runs/ntuple-{options.seed}")
        self.out.mkdir(parents=True, exist_ok=True)
        self.shown, self.steps = 0.0, 0  # at the last line
        self.save_at = sorted(options.save_at)
        self.curve: list[dict[str, float]] = []
        self.saved: list[dict[str, Any]] = []

    def __call__(self, progress: Progress) -> None:
        """Does what is due."""
        is_over = progress.seconds >= self.options.seconds
        if progress.scores and (is_over or progress.seconds >= self.shown + 5):
            self.show(progress)
        while self.save_at and progress.seconds >= self.save_at[0]:
            path = self.out / f"agent-{self.save_at.pop(0):g}.npz"
            policy_of(self.network).save(path)
            # A finished lane's next step starts a game and plays no move.
            moves = progress.steps - progress.episodes
            self.saved.append({"file": path.name, "seconds": progress.seconds, "moves": moves})

    def show(self, progress: Progress) -> None:
        """Prints the progress, and adds it to the curve."""
        row = {
            "steps": progress.steps,
            "seconds": progress.seconds,
            "steps_per_second": (progress.steps - self.steps) / (progress.seconds - self.shown),
            "score_mean": float(np.mean(progress.scores)),
        }
        self.curve.append(row)
        self.shown, self.steps = progress.seconds, progress.steps
        print(
            f"{row['seconds']:5.0f} s  {row['steps']:>13,} steps  "
            f"{row['steps_per_second']:9,.0f} steps/s  score {row['score_mean']:7,.0f}",
            flush=True,
        )


def policy_of(network: Network) -> NTuple:
    """Returns the network's greedy policy, for `twofold.evaluate`."""
    weights = [table.weights for table in network.tables]
    return NTuple(TUPLES, weights, exponents=EXPONENTS, size=4)


def main(words: list[str] | None = None) -> None:
    """Trains an agent and evaluates it."""
    options = parse_arguments(words)
    network = Network()
    envs = gym.make_vec("twofold/Game2048-v0", num_envs=options.num_envs, endpoint=options.endpoint)
    schedule = Schedule(options, network)
    train(envs, network, options.seconds, options.seed, schedule)
    envs.close()
    report = {"options": vars(options), "curve": schedule.curve, "saved": schedule.saved}
    (schedule.out / "curve.json").write_text(json.dumps(report, default=str))
    evaluation = twofold.evaluate(policy_of(network), episodes=options.episodes)
    (schedule.out / "evaluation.json").write_text(evaluation.to_json())
    print(evaluation)


if __name__ == "__main__":
    main()
