"""The function `train`, which trains an n-tuple network to play 2048."""

from __future__ import annotations

import json
import math
import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from twofold import _arguments, _text
from twofold.envs.seeding import consecutive
from twofold.envs.settings import Settings
from twofold.errors import InvalidArgument, ResourceExhausted
from twofold.evaluation import Evaluation, evaluate, report
from twofold.games.game2048 import Game2048
from twofold.learning import checkpoints
from twofold.learning.patterns import PATTERNS, default_tuples
from twofold.policies import NTuple
from twofold.policies.served_policies import network_form, read_tuples
from twofold.v1 import environment_pb2 as environment

if TYPE_CHECKING:
    from twofold.client.embedded import EmbeddedLearner

Patterns: TypeAlias = str | Sequence[Sequence[int]] | None

# The default number of boards per thread. More boards make no learner faster, and new weights reach
# each board later.
_BOARDS_OF_A_THREAD = 64
# The duration of one call of the library in seconds. Ctrl-C takes effect between two calls.
_CALL_SECONDS = 0.1
_DEFAULT_SECONDS = 120.0


class Point(NamedTuple):
    """A point of a learning curve."""

    seconds: float
    """The seconds of training so far, without evaluations and checkpoints."""
    steps: int
    """The steps of all boards together so far. A step that starts an episode counts, too."""
    episodes: int
    """The episodes that have ended so far."""
    mean_score: float
    """The mean score of the episodes that have ended since the previous point."""
    goal_share: float
    """The share of these episodes that reached the goal."""


Progress: TypeAlias = Callable[[float, float, int], None]
"""A callback that `train` calls about ten times a second.

Its arguments are three numbers: the work done and the total work, in seconds or steps, and the
steps so far.
"""


@dataclass(frozen=True)
class Training:
    """The result of `train`.

    Attributes:
        policy: The network, for `twofold.evaluate` and `VectorEnv.rollout`.
        seconds: The seconds of training, without evaluations and checkpoints.
        steps: The steps of all boards together.
        episodes: The number of episodes that ended.
        curve: The mean score over time.
        evaluations: The evaluations that `evaluate_every` requested, including those before a
            resume. Each comes with its point on the curve.
    """

    policy: NTuple
    seconds: float
    steps: int
    episodes: int
    curve: tuple[Point, ...]
    evaluations: tuple[tuple[Point, Evaluation], ...]

    def plot(self, path: str | Path | None = None) -> Any:
        """Plots the learning curve and returns the matplotlib Figure.

        Args:
            path: The file to save the plot to, if any. Its suffix selects the format.

        Raises:
            MissingDependency: matplotlib is not installed.
            InvalidArgument: matplotlib does not support the file's suffix.
        """
        curve = self.curve
        return report.plot_curve(
            [point.seconds for point in curve], [point.mean_score for point in curve], path
        )


def train(
    patterns: Patterns = None,
    *,
    seconds: float | None = None,
    steps: int | None = None,
    threads: int = 1,
    num_envs: int | None = None,
    seed: int = 0,
    learning_rate: float = 1.0,
    initial_value: float = 0.0,
    exponents: int = 16,
    file: str | PathLike[str] | None = None,
    save_every: float = 300.0,
    resume: bool = False,
    evaluate_every: float | None = None,
    episodes: int | None = None,
    progress: Progress | None = None,
    evaluated: Callable[[Point, Evaluation], None] | None = None,
    **env_arguments: Any,
) -> Training:
    """Trains an n-tuple network to play 2048, in this process.

        training = twofold.train(seconds=600, threads=2, file="agent.npz")
        print(twofold.evaluate(training.policy))

    The network learns the value of afterstates by TD(0) with temporal coherence: after each move,
    it moves the value of the last afterstate towards the highest reward + value of an afterstate on
    the next board. The reward is the raw score. The page "A strong baseline in one call" describes
    the method.

    With one thread, the weights are a pure function of the arguments and the number of steps. Two
    or more threads share the weights without locks, so each run gives different weights, which play
    equally well.

    Args:
        patterns: The tuples of cells: a name from `twofold.learning.PATTERNS`, or a list of tuples
            of 1 ... 12 cells, numbered row by row (default: "yeh" on 4 x 4, one tuple of all cells
            on at most 6 cells, squares of 2 x 2 on more than 16 cells, else rectangles of 2 x 3 and
            3 x 2). Each tuple has exponents ** cells weights, which all images of the board share.
        seconds: The duration of training (default: 120, if `steps` is not given).
        steps: The number of steps of all boards together, rounded up to whole steps.
        threads: The number of threads. They share the boards in blocks of 64: of 192 boards, two
            threads play 128 and 64, and 64 boards keep only one thread busy.
        num_envs: The number of boards (default: 64 per thread, or with `resume`, the number in
            `file`).
        seed: The seed of the first board; board i has seed + i.
        learning_rate: The factor of all corrections, above 0 and at most 1.
        initial_value: The value of every board before training. A high value, such as 320,000,
            makes the network try moves that it has not tried (optimistic initialisation).
        exponents: The number of distinct exponents, 2 ... 32; larger exponents count as the
            largest.
        file: The file for the network and the state of the training. `twofold.policies.NTuple.load`
            and the policy "ntuple:FILE" read it. If another training run saves to it in the
            meantime, this run saves to a new file next to it, and ends with InvalidArgument.
        save_every: The seconds of training between two saves. The file is also saved at the end,
            and when Ctrl-C interrupts the training.
        resume: Whether to continue the training run in `file`. `seconds` and `steps` include the
            earlier training. `patterns`, `num_envs`, `seed`, `learning_rate`, `initial_value`,
            `exponents` and the rules must be the same. Without `resume`, an existing file is
            replaced.
        evaluate_every: The seconds of training between two evaluations (default: none).
        episodes: The number of games in each evaluation (default: 500).
        progress: A function to call about ten times a second; see `Progress`.
        evaluated: A function that receives each evaluation, and its point on the curve.
        **env_arguments: The rules of 2048, such as size=3 or four_probability=0.2.

    Returns:
        The trained network, and the learning curve.

    Raises:
        InvalidArgument: An argument is wrong; `field` names it.
        ResourceExhausted: The network is larger than the limits or the memory of this process.
        OSError: The file can't be read or written.
        TransportError: The library was not found, or can't start.
    """
    if _arguments.boolean("resume", resume) and file is None:
        raise InvalidArgument("resume needs file, which holds the training", field="file")
    version = None if file is None else checkpoints.version(file)
    saved = checkpoints.load(file) if resume and file is not None else None
    if saved is not None and num_envs is None:
        num_envs = saved["arguments"]["num_envs"]
    game = _game(env_arguments)
    threads = _arguments.integer("threads", threads, 1, 1024)
    if num_envs is None:
        num_envs = _BOARDS_OF_A_THREAD * threads
    plan = _Plan(
        game=game,
        tuples=_tuples(patterns, game),
        threads=threads,
        num_envs=_arguments.integer("num_envs", num_envs, 1, 2**31 - 1),
        seed=_arguments.integer("seed", seed, 0, 2**64 - 1),
        learning_rate=_arguments.real("learning_rate", learning_rate),
        initial_value=_arguments.real("initial_value", initial_value, -1e9, 1e9),
        exponents=_arguments.integer("exponents", exponents, 2, 32),
    )
    if seconds is None and steps is None:
        seconds = _DEFAULT_SECONDS
    limit = math.inf if seconds is None else _arguments.seconds("seconds", seconds)
    played = math.inf
    if steps is not None:
        played = math.ceil(_arguments.integer("steps", steps, 1, 2**62) / plan.num_envs)
    save_every = _arguments.seconds("save_every", save_every)
    if evaluate_every is not None:
        evaluate_every = _arguments.seconds("evaluate_every", evaluate_every)
    elif episodes is not None:
        raise InvalidArgument(
            f"episodes is {episodes!r} without evaluate_every; pass both, or neither",
            field="episodes",
        )
    games = _arguments.integer("episodes", 500 if episodes is None else episodes, 1)
    _arguments.progress(progress)
    _arguments.progress(evaluated, "evaluated")
    if file is not None:
        _text.check_writable(Path(file))

    learner = plan.learner()
    run = _Run(plan, learner, None if file is None else Path(file), version)
    if saved is not None and file is not None:
        run.resume(file, saved)
    else:
        learner.start(consecutive(plan.seed, plan.num_envs))
        learner.weights += np.float32(plan.initial_value / plan.features)
    next_save = run.seconds + save_every
    try:
        while True:
            # A resumed run may lack an evaluation that was interrupted.
            if evaluate_every is not None and run.has_passed(evaluate_every):
                run.evaluate(games, evaluated)
            run.checked_seconds = run.seconds
            if run.seconds >= next_save:
                run.save()
                next_save = run.seconds + save_every
            if run.seconds >= limit or learner.counts.played >= played:
                break
            run.step(min(_CALL_SECONDS, limit - run.seconds), played - learner.counts.played)
            if progress is not None:
                total = run.steps(played) if seconds is None else limit
                done = run.steps(learner.counts.played) if seconds is None else run.seconds
                progress(min(done, total), total, run.steps(learner.counts.played))
    finally:
        run.save()
    return run.result()


@dataclass(frozen=True)
class _Plan:
    """The checked arguments that determine a training run."""

    game: Game2048
    tuples: tuple[tuple[int, ...], ...]
    threads: int
    num_envs: int
    seed: int
    learning_rate: float
    initial_value: float
    exponents: int

    @property
    def features(self) -> int:
        """The number of weights in the value of a board."""
        images = 8 if self.game.rows == self.game.columns else 4
        return images * len(self.tuples)

    def as_json(self) -> dict[str, Any]:
        """Returns the arguments that must be the same to resume a training run."""
        rules = self.game.request.game2048
        return {
            # The size comes first, because the default of `patterns` depends on it.
            "size": [rules.rows, rules.columns],
            "patterns": [list(cells) for cells in self.tuples],
            "num_envs": self.num_envs,
            "seed": self.seed,
            "learning_rate": self.learning_rate,
            "initial_value": self.initial_value,
            "exponents": self.exponents,
            "four_probability": rules.four_probability,
            "start_tiles": rules.start_tiles,
            "goal": rules.goal,
            "stop_at_goal": rules.stop_at_goal,
        }

    def learner(self) -> EmbeddedLearner:
        """Makes the learner."""
        # because: clients of a server also run on systems without the library
        from twofold.client.embedded import EmbeddedLearner

        create = environment.CreateRequest()
        create.CopyFrom(self.game.request)
        create.num_envs = self.num_envs
        form = network_form(self.tuples, self.exponents, symmetric=True)
        try:
            return EmbeddedLearner(
                create, form, threads=self.threads, learning_rate=self.learning_rate
            )
        except (InvalidArgument, ResourceExhausted) as error:
            if error.field == "tuples":
                error.field = "patterns"
            raise


def _game(env_arguments: Mapping[str, Any]) -> Game2048:
    """Returns the game with these rules, after checking that a network can learn it."""
    if "endpoint" in env_arguments:
        raise InvalidArgument(
            "endpoint is given, but a network learns only in this process, because a long request "
            "would block the server; omit it",
            field="endpoint",
        )
    if env_arguments.get("reward") is not None:
        raise InvalidArgument(
            "reward is given, but a network learns the raw score; omit it", field="reward"
        )
    game, others = Game2048.split(env_arguments)
    if game.objective != "score":
        raise InvalidArgument(
            f"objective is {game.objective!r}, but a network learns the score; omit it",
            field="objective",
        )
    Settings.read("train", game, others)
    for name in others:
        raise InvalidArgument(f"{name} does not apply to training; omit it", field=name)
    return game


def _tuples(patterns: Patterns, game: Game2048) -> tuple[tuple[int, ...], ...]:
    if patterns is None:
        return default_tuples(game.rows, game.columns)
    if not isinstance(patterns, str):
        return read_tuples("patterns", patterns, game.rows * game.columns)
    if patterns not in PATTERNS:
        raise InvalidArgument(
            f"patterns is {patterns!r}; expected {', '.join(map(repr, PATTERNS))}, or a list of "
            "tuples of cells",
            field="patterns",
        )
    if (game.rows, game.columns) != (4, 4):
        raise InvalidArgument(
            f"patterns is {patterns!r}, which is for 4 x 4 boards; omit it, or pass a list of "
            "tuples of cells",
            field="patterns",
        )
    return PATTERNS[patterns]


class _Run:
    """The progress of a training run."""

    def __init__(
        self,
        plan: _Plan,
        learner: EmbeddedLearner,
        file: Path | None,
        version: str | None,
    ) -> None:
        self.plan, self.learner = plan, learner
        # The file, and the versions (`checkpoints.version`) that it may have: the last saved one
        # and, because an interrupt may prevent a save, the version before it.
        self.file, self.versions = file, (version, version)
        # `checked_seconds` is the part of `seconds` in which no evaluation is missing.
        self.seconds = self.checked_seconds = 0.0
        self.curve: list[Point] = []
        self.evaluations: list[tuple[Point, Evaluation]] = []
        # The number of episodes, their score and the goals at the last point of the curve.
        self._last = (0, 0, 0)
        # The steps per second on each board in the last call.
        self._rate = 10.0

    def step(self, seconds: float, most: float) -> None:
        """Plays for about this time, and at most this number of steps on each board."""
        steps = int(max(1, min(self._rate * seconds, most)))
        start = time.perf_counter()
        self.learner.run(steps)
        passed = time.perf_counter() - start
        self.seconds += passed
        self._rate = steps / max(passed, 1e-6)
        last = self.curve[-1].seconds if self.curve else 0.0
        if self.seconds - last >= max(0.5, self.seconds / 200):
            self.add_point()

    def steps(self, played: float) -> int:
        """Returns the steps of all boards together, from the steps on each board."""
        return int(played * self.plan.num_envs)

    def add_point(self, least: float = 1) -> None:
        """Adds a point to the curve, if this number of episodes has ended since the last one."""
        counts = self.learner.counts
        now = counts.episodes, counts.score, counts.goals
        episodes, score, goals = (new - old for new, old in zip(now, self._last, strict=True))
        if episodes >= least:
            self._last = now
            self.curve.append(
                Point(
                    self.seconds,
                    self.steps(counts.played),
                    counts.episodes,
                    score / episodes,
                    goals / episodes,
                )
            )

    def network(self) -> NTuple:
        """Returns the network with a copy of the current weights."""
        tables = checkpoints.tables(self.learner.weights, self.learner.form)
        size = self.plan.game.rows, self.plan.game.columns
        return NTuple(self.plan.tuples, tables, exponents=self.plan.exponents, size=size)

    def has_passed(self, interval: float) -> bool:
        """Returns True if an interval of this many seconds has ended, but is not checked yet."""
        return self.seconds // interval > self.checked_seconds // interval

    def evaluate(
        self, episodes: int, evaluated: Callable[[Point, Evaluation], None] | None
    ) -> None:
        """Evaluates the network on the first games of every evaluation."""
        self.add_point()
        counts = self.learner.counts
        last = self.curve[-1] if self.curve else Point(0.0, 0, 0, 0.0, 0.0)
        point = last._replace(
            seconds=self.seconds, steps=self.steps(counts.played), episodes=counts.episodes
        )
        rules: dict[str, Any] = {**self.plan.game.arguments, "endpoint": "embedded"}
        found = point, evaluate(self.network(), episodes=episodes, **rules)
        self.evaluations.append(found)
        self.checked_seconds = self.seconds
        if evaluated is not None:
            evaluated(*found)

    def save(self) -> None:
        """Saves the network and the state of the training to its file, if it has one."""
        if self.file is None:
            return
        training = {
            "arguments": self.plan.as_json(),
            "seconds": self.seconds,
            "checked_seconds": self.checked_seconds,
            "counts": self.learner.counts,
            "last": self._last,
            "curve": self.curve,
            "evaluations": [
                (point, found.to_json(games=True)) for point, found in self.evaluations
            ],
        }
        file, version = self.file, checkpoints.version(self.file)
        is_changed = version not in (None, *self.versions)
        if is_changed:
            self.file = file.with_stem(f"{file.stem[:50]}-{secrets.token_hex(4)}")
        self.versions = version, json.dumps(training)
        checkpoints.save(self.file, self.learner, training)
        if is_changed:
            raise InvalidArgument(
                f"another training run has saved {file}; this one is in {self.file}. Pass a "
                "different file for each training run",
                field="file",
            )

    def resume(self, file: str | PathLike[str], saved: dict[str, Any]) -> None:
        """Continues the training run in a file. `saved` is the result of `checkpoints.load`."""
        for name, value in self.plan.as_json().items():
            before = saved["arguments"].get(name)
            if before != value:
                raise InvalidArgument(
                    f"{name} is {value}, but the training in {os.fspath(file)} has {before}; pass "
                    "the same value to resume it",
                    field=name,
                )
        checkpoints.restore(file, self.learner)
        self.learner.counts = saved["counts"]
        self.seconds, self._last = saved["seconds"], tuple(saved["last"])
        self.checked_seconds = saved["checked_seconds"]
        self.curve = [Point(*point) for point in saved["curve"]]
        self.evaluations = [(Point(*point), found) for point, found in saved["evaluations"]]

    def result(self) -> Training:
        """Returns the result. Omits a last point of few episodes, which would say little."""
        ends = [0, 0, *(point.episodes for point in self.curve)]
        self.add_point(least=max(1, (ends[-1] - ends[-2]) / 2))
        counts = self.learner.counts
        return Training(
            policy=self.network(),
            seconds=self.seconds,
            steps=self.steps(counts.played),
            episodes=counts.episodes,
            curve=tuple(self.curve),
            evaluations=tuple(self.evaluations),
        )
