"""Learns to play 2048 on thousands of boards at once, and compares the result with random play.

    python train_ntuple.py                       about two and a half minutes, most of it training
    python train_ntuple.py --quick               ten seconds
    python train_ntuple.py --endpoint tcp://10.0.0.7:5555 --seconds 900      on another machine
    python train_ntuple.py --seconds 1800 --checkpoint agent.npz --evaluate-every 300
    python train_ntuple.py --seconds 3600 --checkpoint agent.npz --resume    the second half hour
    twofold evaluate ntuple:agent.npz                                        evaluates the agent

The agent learns afterstate values with an n-tuple network (Szubert and Jaśkowski, "Temporal
difference learning of n-tuple networks for the game 2048", 2014). An afterstate is the board after
slide and merge, before the new tile, so it does not depend on chance. Its value V is the expected
score still to come. The agent takes the action with the highest reward + V(afterstate), and learns
by moving V of the last afterstate towards that sum. This is undiscounted TD(0) with greedy actions,
because new tiles explore enough. Temporal coherence gives each weight its own learning rate (Beal
and Smith 1999; Jaśkowski 2017).

Read the file from top to bottom: the network, choosing, checkpoints, training, evaluation, report.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy loads; the matrices here are small

import argparse
import json
import platform
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from twofold.policies import NTuple  # twofold registers twofold/Game2048-v0

Array = NDArray[Any]
VectorEnv = gym.vector.VectorEnv[Any, Any, Any]

# Evaluation seeds start here, above all training seeds.
EVALUATION_SEED = 2**63
TILES = (256, 512, 1024, 2048, 4096, 8192)


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


# ---- checkpoints ---------------------------------------------------------------------------------


def save_checkpoint(path: Path, network: Network, progress: "Progress") -> None:
    """Saves everything needed to continue training or to play. Replaces the file atomically.

    The file is a numpy .npz. For table k it has the cells (`tuple_k`), all weights (`weights_k`),
    and the updated places (`places_k`) with their sums of errors (`history_k`). It also has
    `exponents`, `symmetric` and, as JSON, `training`. Because it contains all weights,
    `twofold.policies.NTuple.load` reads it too.
    """
    arrays: dict[str, Any] = {"exponents": np.array(EXPONENTS), "symmetric": np.array(True)}
    for k, (cells, table) in enumerate(zip(TUPLES, network.tables, strict=True)):
        places = np.flatnonzero(table.history.imag)
        arrays |= {
            f"tuple_{k}": np.array(cells, np.uint8),
            f"weights_{k}": table.weights,
            f"places_{k}": places.astype(np.uint32),
            f"history_{k}": table.history[places],
        }
    training = {"steps": progress.steps, "episodes": progress.episodes, "curve": progress.curve}
    training |= {"seconds": progress.elapsed(), "evaluations": progress.evaluations}
    arrays["training"] = np.array(json.dumps(training))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.part")
    with temporary.open("wb") as file:
        np.savez(file, **arrays)
    temporary.replace(path)


def load_checkpoint(path: Path, network: Network) -> dict[str, Any]:
    """Fills a network from a checkpoint, and returns the checkpoint's `training`."""
    with np.load(path, allow_pickle=False) as arrays:
        for k, (cells, table) in enumerate(zip(TUPLES, network.tables, strict=True)):
            if tuple(arrays[f"tuple_{k}"]) != cells or int(arrays["exponents"]) != EXPONENTS:
                raise SystemExit(f"{path} holds a different kind of network; expected {TUPLES}")
            table.weights[:] = arrays[f"weights_{k}"]
            table.history[:] = 0
            table.history[arrays[f"places_{k}"]] = arrays[f"history_{k}"]
        return dict(json.loads(str(arrays["training"])))


# ---- training ------------------------------------------------------------------------------------


class Stopwatch:
    """A stopwatch that calls functions and adds up their time."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a function and returns its result."""
        start = time.perf_counter()
        result = function(*arguments)
        self.seconds += time.perf_counter() - start
        return result


def train(
    envs: VectorEnv,
    network: Network,
    seconds: float,
    seed: int,
    before: dict[str, Any] | None = None,
    now_and_then: "Callable[[Progress], None]" = lambda progress: None,
) -> "Progress":
    """Plays and learns until the time is up.

    `before` is a checkpoint's `training`. The time before the checkpoint counts towards `seconds`,
    and the boards get seeds that were not used before. `now_and_then` is called after each step of
    all boards. Its time does not count.
    """
    # glibc's malloc requests every large block from the system again, and fresh pages cost more
    # than the arithmetic on them. Freeing a block of nearly 32 MB makes it keep smaller blocks.
    np.empty(31 << 20, np.uint8)

    env: Any = envs.unwrapped  # wrappers forward reset and step, but not Twofold's afterstates
    environment = Stopwatch()
    progress = Progress(seconds, before or {})
    scores: deque[int] = deque(maxlen=envs.num_envs)  # of the last episodes
    last: Choice | None = None

    envs.reset(seed=seed + progress.steps)
    finished = np.zeros(envs.num_envs, bool)
    while progress.elapsed() < seconds:
        choice = choose(network, *environment(env.afterstates))
        if last is not None:
            # A terminated lane has no legal action, so its last afterstate is worth 0.
            network.update(last.boards, choice.worth[last.lanes] - last.values)
        # A finished lane ignores its action and returns the next episode's first board (NEXT_STEP
        # autoreset). The chosen action is not played, so nothing is learned from it.
        last = choice.on(~finished)

        _, _, terminations, truncations, infos = environment(envs.step, choice.actions)
        finished = terminations | truncations
        scores.extend(infos["score"][finished])
        progress.episodes += int(finished.sum())
        progress.add(envs.num_envs, scores, environment.seconds)
        start = time.perf_counter()
        now_and_then(progress)
        progress.start += time.perf_counter() - start
    return progress


class Progress:
    """The progress of training: its curve, shown as a bar on a terminal or as occasional lines."""

    def __init__(self, seconds: float, before: dict[str, Any]) -> None:
        self.seconds = seconds
        self.before = float(before.get("seconds", 0))
        self.start = time.perf_counter() - self.before
        self.steps = int(before.get("steps", 0))
        self.episodes = int(before.get("episodes", 0))
        self.environment_share = 0.0
        self.curve: list[dict[str, float]] = list(before.get("curve", []))
        self.evaluations: list[dict[str, Any]] = list(before.get("evaluations", []))
        self.steps_before = self.steps
        self.is_terminal = sys.stdout.isatty()
        self.next_point, self.next_line = 0.0, 0.0

    def elapsed(self) -> float:
        """Returns the seconds of training so far, including the time before a checkpoint."""
        return time.perf_counter() - self.start

    def add(self, steps: int, scores: deque[int], environment_seconds: float) -> None:
        """Counts steps, and adds a point to the curve twice a second."""
        self.steps += steps
        elapsed = self.elapsed()
        self.environment_share = environment_seconds / (elapsed - self.before)
        if elapsed >= min(self.next_point, self.seconds) and scores:
            self.next_point = elapsed + 0.5
            mean = float(np.mean(scores))
            self.curve.append({"seconds": elapsed, "steps": self.steps, "mean_score": mean})
            self.show(elapsed, mean)

    def speed(self, elapsed: float) -> float:
        """Returns the steps per second of this run."""
        return (self.steps - self.steps_before) / max(1e-9, elapsed - self.before)

    def show(self, elapsed: float, mean: float) -> None:
        """Prints the progress."""
        is_last = elapsed >= self.seconds
        text = (
            f"{clock(elapsed)} of {clock(self.seconds)}  {self.speed(elapsed):9,.0f} steps/s  "
            f"mean score {mean:6,.0f}  environment {self.environment_share:3.0%}"
        )
        if self.is_terminal:
            width = max(0, min(30, shutil.get_terminal_size().columns - len(text) - 3))
            done = round(width * min(1.0, elapsed / self.seconds))
            bar = "#" * done + "." * (width - done)
            print(f"\r{bar}  {text}", end="\n" if is_last else "", flush=True)
        elif is_last or elapsed >= self.next_line:
            self.next_line = elapsed + max(1.0, self.seconds / 12)
            print(text, flush=True)


def clock(seconds: float) -> str:
    """Returns a duration in minutes and seconds, such as 2:05."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


# ---- evaluation ----------------------------------------------------------------------------------

Policy = Callable[[Array, Array, Array], Array]  # afterstates, their rewards, the mask -> actions


def random_policy(seed: int) -> Policy:
    """Returns a policy that takes random legal actions, all equally likely."""
    rng = np.random.default_rng(seed)
    return lambda boards, rewards, mask: (rng.random(mask.shape) * mask).argmax(axis=1)


def fixed_order_policy() -> Policy:
    """Returns the first-legal-action policy, which scores twice as much as random play."""
    return lambda boards, rewards, mask: mask.argmax(axis=1)


def greedy_policy(network: Network) -> Policy:
    """Returns a policy that takes the action with the highest reward + V(afterstate)."""
    return lambda boards, rewards, mask: choose(network, boards, rewards, mask).actions


class Games(NamedTuple):
    """The final scores and highest exponents of whole games."""

    scores: Array
    exponents: Array

    def row(self, policy: str) -> dict[str, Any]:
        """Returns a row of the report's table."""
        tiles = 2 ** self.exponents.astype(int)
        return {
            "policy": policy,
            "episodes": len(self.scores),
            "mean_score": float(self.scores.mean()),
            "standard_error": float(self.scores.std(ddof=1) / len(self.scores) ** 0.5),
            "median_score": float(np.median(self.scores)),
            "reached": {str(tile): float((tiles >= tile).mean()) for tile in TILES},
            "best_tile": int(tiles.max()),
        }


def play(envs: VectorEnv, policy: Policy, episodes: int, seed: int) -> Games:
    """Plays a fixed number of games on every lane.

    Taking the first games to finish would be biased: with many lanes, short games finish first.
    """
    env: Any = envs.unwrapped
    left = np.full(envs.num_envs, episodes)
    scores, exponents = [], []
    envs.reset(seed=seed)
    while left.any():
        boards, rewards, mask = env.afterstates()
        actions = policy(boards, rewards, mask * (left > 0)[:, None])  # idle lanes get no choice
        _, _, terminations, truncations, infos = envs.step(actions)
        ended = (terminations | truncations) & (left > 0)
        left -= ended
        scores.append(infos["score"][ended])
        exponents.append(infos["max_exponent"][ended])
    return Games(np.concatenate(scores), np.concatenate(exponents))


# ---- report --------------------------------------------------------------------------------------


def table(rows: list[dict[str, Any]]) -> str:
    """Returns the rows as aligned text."""
    header = ["policy", "episodes", "mean", "median", *map(str, TILES), "best tile"]
    cells = [
        [
            row["policy"],
            f"{row['episodes']:,}",
            f"{row['mean_score']:,.0f}",
            f"{row['median_score']:,.0f}",
            *(f"{share:.1%}" for share in row["reached"].values()),
            str(row["best_tile"]),
        ]
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
    return "\n".join(
        line[0].ljust(widths[0])
        + "".join(cell.rjust(width + 2) for cell, width in zip(line[1:], widths[1:], strict=True))
        for line in [header, *cells]
    )


def plot(path: Path, results: dict[str, Any]) -> None:
    """Saves a plot of the learning curve, with the policies' mean scores as lines."""
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    curve = results["training"]["curve"]
    seconds = [point["seconds"] for point in curve]
    axes.plot(seconds, [point["mean_score"] for point in curve], label="while learning")
    for row, color in zip(results["table"], ("tab:gray", "tab:olive", "tab:green"), strict=True):
        label = f"{row['policy']}: {row['mean_score']:,.0f} in {row['episodes']:,} fresh games"
        axes.axhline(row["mean_score"], color=color, linestyle="--", label=label)
    boards = results["config"]["num_envs"]
    axes.set_title(f"2048: n-tuple network, TD learning on {boards:,} boards at once")
    axes.set_xlabel("seconds of training")
    axes.set_ylabel(f"mean score of the last {boards:,} games")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right", bbox_to_anchor=(1, 0.05))  # above the line for random play
    figure.savefig(path, dpi=150)


# ---- main ----------------------------------------------------------------------------------------


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("--num-envs", type=int, help="boards at once (default 4096)")
    parser.add_argument("--seconds", type=float, help="length of training (default 120)")
    parser.add_argument(
        "--episodes", type=int, help="games to play with each policy (default 2048)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of training (default 0)")
    parser.add_argument(
        "--endpoint",
        default="private",
        help="a server's address, or 'embedded' for none (default: a private server)",
    )
    parser.add_argument("--out", type=Path, default=Path("runs"), help="folder (default runs)")
    parser.add_argument("--checkpoint", type=Path, help=".npz file for the agent")
    parser.add_argument(
        "--checkpoint-every", type=float, default=120.0, help="interval in seconds (default 120)"
    )
    parser.add_argument(
        "--resume", action="store_true", help="resume from the checkpoint, for --seconds in total"
    )
    parser.add_argument(
        "--evaluate-every", type=float, help="seconds of training between evaluations"
    )
    parser.add_argument(
        "--save-at",
        type=float,
        nargs="+",
        default=[],
        metavar="SECONDS",
        help="also save the network at these times, as agent-<seconds>.npz in --out",
    )
    parser.add_argument("--quick", action="store_true", help="run everything in ten seconds")
    config = parser.parse_args(arguments)
    if config.resume and not config.checkpoint:
        parser.error("--resume requires --checkpoint FILE")
    defaults = (512, 5.0, 512) if config.quick else (4096, 120.0, 2048)
    for name, default in zip(("num_envs", "seconds", "episodes"), defaults, strict=True):
        if getattr(config, name) is None:
            setattr(config, name, default)
    return config


class NowAndThen:
    """The schedule of checkpoints, evaluations and saved networks during training."""

    def __init__(self, config: argparse.Namespace, network: Network) -> None:
        self.config, self.network = config, network
        self.next_checkpoint = self.next_evaluation = -1.0
        self.marks = sorted(config.save_at)
        self.saved: list[dict[str, Any]] = []

    def __call__(self, progress: Progress) -> None:
        """Runs the evaluations and saves the checkpoints and networks that are due."""
        elapsed, config = progress.elapsed(), self.config
        if self.next_checkpoint < 0:  # the first call
            self.next_checkpoint = elapsed + config.checkpoint_every
            self.next_evaluation = elapsed + (config.evaluate_every or float("inf"))
        if elapsed >= self.next_evaluation:
            self.next_evaluation += config.evaluate_every
            self.evaluate(progress, elapsed)
        if config.checkpoint and elapsed >= self.next_checkpoint:
            self.next_checkpoint = elapsed + config.checkpoint_every
            save_checkpoint(config.checkpoint, self.network, progress)
        while self.marks and elapsed >= self.marks[0]:
            path = config.out / f"agent-{self.marks.pop(0):g}.npz"
            tables = [table.weights for table in self.network.tables]
            NTuple(TUPLES, tables, exponents=EXPONENTS).save(path)
            # A finished lane's next step starts a game and plays no move.
            moves = progress.steps - progress.episodes
            self.saved.append({"file": path.name, "seconds": elapsed, "moves": moves})

    def evaluate(self, progress: Progress, elapsed: float) -> None:
        """Evaluates the current weights over some games, always from the same seeds."""
        lanes = min(self.config.episodes, 512)
        envs = make(lanes, self.config.endpoint)
        row = play(envs, greedy_policy(self.network), 1, EVALUATION_SEED).row("so far")
        envs.close()
        row |= {"seconds": elapsed, "steps": progress.steps, "games": progress.episodes}
        progress.evaluations.append(row)
        reached = row["reached"]
        print(
            f"\nafter {clock(elapsed)}, {progress.episodes:,} games: mean "
            f"{row['mean_score']:,.0f} +- {row['standard_error']:,.0f} over {lanes} games, 2048 in "
            f"{reached['2048']:.1%}, 4096 in {reached['4096']:.1%}, 8192 in {reached['8192']:.1%}",
            flush=True,
        )


def make(num_envs: int, endpoint: str | None) -> VectorEnv:
    """Makes a vector environment for 2048."""
    return gym.make_vec("twofold/Game2048-v0", num_envs=num_envs, endpoint=endpoint)


def step_seconds(num_envs: int, endpoint: str) -> float:
    """Returns the median time of 300 steps at an endpoint, in seconds."""
    envs = make(num_envs, endpoint)
    envs.reset(seed=0)
    actions = np.random.default_rng(0).integers(0, 4, (300, num_envs))
    times = []
    for row in actions:
        start = time.perf_counter()
        envs.step(row)
        times.append(time.perf_counter() - start)
    envs.close()
    return float(np.median(times))


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    """Trains, evaluates and reports. Returns the data that it also saves as JSON."""
    config = parse(arguments)
    config.out.mkdir(parents=True, exist_ok=True)
    network, before = Network(), None
    if config.resume:
        before = load_checkpoint(config.checkpoint, network)
        print(f"resuming after {clock(before['seconds'])} and {before['episodes']:,} games")
    print(f"training for {clock(config.seconds)} on {config.num_envs:,} boards")
    envs = make(config.num_envs, config.endpoint)
    now_and_then = NowAndThen(config, network)
    progress = train(envs, network, config.seconds, config.seed, before, now_and_then)
    seconds = progress.elapsed()
    now_and_then(progress)
    envs.close()
    if config.checkpoint:
        save_checkpoint(config.checkpoint, network, progress)
        print(f"the agent is in {config.checkpoint}: twofold evaluate ntuple:{config.checkpoint}")

    lanes = min(config.episodes, 4096)
    each = -(-config.episodes // lanes)
    print(f"\nplaying {lanes * each:,} games with each policy (seeds from 2^63 up)")
    envs = make(lanes, config.endpoint)
    policies = {
        "random": random_policy(EVALUATION_SEED),
        "fixed order": fixed_order_policy(),
        "trained": greedy_policy(network),
    }
    rows = []
    for name, policy in policies.items():
        start = time.perf_counter()
        rows.append(play(envs, policy, each, EVALUATION_SEED).row(name))
        print(f"{name} took {time.perf_counter() - start:.0f} s", flush=True)
    envs.close()

    *baselines, score = (row["mean_score"] for row in rows)
    over_random, over_fixed_order = (score / baseline for baseline in baselines)
    step = {where: step_seconds(config.num_envs, where) for where in (config.endpoint, "embedded")}
    results = {
        "config": {name: str(v) if isinstance(v, Path) else v for name, v in vars(config).items()},
        "evaluation_seed": EVALUATION_SEED,
        "versions": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "gymnasium": gym.__version__,
            "twofold": version("twofold"),
        },
        "training": {
            "steps": progress.steps,
            "episodes": progress.episodes,
            "steps_per_second": progress.speed(seconds),
            "saved": now_and_then.saved,
            "evaluations": progress.evaluations,
            "environment_share": progress.environment_share,
            "step_seconds": step,
            "curve": progress.curve,
        },
        "table": rows,
        "ratio": over_random,
    }
    print(f"\n{table(rows)}\n")
    print(
        f"The trained agent's mean score is {over_random:.1f} times that of random play, and "
        f"{over_fixed_order:.1f} times that of the first legal action."
    )
    stem = config.out / f"train_ntuple-{time.strftime('%Y%m%d-%H%M%S')}"
    stem.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n")
    plot(stem.with_suffix(".png"), results)
    print(f"Learning curve and numbers: {stem}.png, {stem}.json")
    over = f"{step[config.endpoint] * 1e6:,.0f} us at the endpoint {config.endpoint!r}"
    here = f"{step['embedded'] * 1e6:,.0f} us in this process, without a server"
    print(f"A step of {config.num_envs:,} boards takes {over}, and {here}.")
    return results


if __name__ == "__main__":
    main()
