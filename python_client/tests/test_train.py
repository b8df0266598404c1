"""Tests of `twofold.train`: its arithmetic, determinism, files and refusals."""

from __future__ import annotations

import errno
import itertools
import json
import re
import resource
import signal
import subprocess
import sys
import textwrap
import time
import tracemalloc
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loops import interrupt
from plain_learner import PlainLearner
from servers import PATIENCE, running, wait_until
from test_optimum import solve

import twofold
from twofold import _text, cli
from twofold.client import lookup
from twofold.client.embedded import EmbeddedLearner
from twofold.envs.seeding import consecutive
from twofold.errors import InvalidArgument, ResourceExhausted, ServerStartFailed
from twofold.games.game2048 import Game2048
from twofold.learning import Point, Training, checkpoints, train, training
from twofold.learning.patterns import PATTERNS, default_tuples
from twofold.policies import NTuple
from twofold.policies.served_policies import network_form

# On 2 x 3 boards, the highest exponent is 7.
SMALL: dict[str, Any] = {"size": (2, 3), "exponents": 8}


def learner_of(
    tuples: Any,
    *,
    num_envs: int = 8,
    seed: int = 1,
    threads: int = 1,
    learning_rate: float = 1.0,
    initial_value: float = 0.0,
    exponents: int = 8,
    **rules: Any,
) -> EmbeddedLearner:
    """Returns the library's learner, with games in progress."""
    game = Game2048.of(**rules)
    create = type(game.request)()
    create.CopyFrom(game.request)
    create.num_envs = num_envs
    form = network_form(tuples, exponents, symmetric=True)
    learner = EmbeddedLearner(create, form, threads=threads, learning_rate=learning_rate)
    learner.start(consecutive(seed, num_envs))
    images = 8 if game.rows == game.columns else 4
    learner.weights += np.float32(initial_value / (images * len(tuples)))
    return learner


def content(learner: EmbeddedLearner) -> tuple[bytes, bytes, bytes]:
    return learner.weights.tobytes(), learner.errors.tobytes(), learner.state.tobytes()


def saved(file: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the arrays of a file, and the part of its training that does not depend on time."""
    with np.load(file) as arrays:
        found = {
            name: (array.dtype, array.shape, array.tobytes()) for name, array in arrays.items()
        }
        training = json.loads(str(arrays["training"]))
    del found["training"]
    return found, {name: training[name] for name in ("arguments", "counts")}


def played_in(file: Path) -> int:
    """Returns the number of steps on each board."""
    return int(saved(file)[1]["counts"][0])


def bytes_of(training: Training) -> bytes:
    return b"".join(table.tobytes() for table in training.policy.weights)


def run_script(text: str, *arguments: object) -> str:
    """Runs a Python program and returns its output."""
    command = [sys.executable, "-c", textwrap.dedent(text), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---- the arithmetic ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "arguments"),
    [
        (2000, {"size": (2, 3), "num_envs": 1}),
        (600, {"size": (2, 3), "num_envs": 5}),
        (50, {"size": (2, 3), "num_envs": 64, "exponents": 16, "tuples": [[0, 1, 2, 3, 4]]}),
        (25, {"size": (2, 3), "num_envs": 70, "tuples": [[0, 1, 3], [5], [1, 4, 2]]}),
        (2000, {"size": 3, "num_envs": 1}),
        (60, {"size": 3, "num_envs": 64, "goal": 64}),
        (35, {"size": 3, "num_envs": 70, "tuples": [[0, 1, 3], [4], [8, 4, 1, 7]]}),
        # Boards that the general engine plays.
        (8, {"size": (5, 4), "num_envs": 70, "tuples": [[0, 1, 6], [19, 3, 4, 5, 9]]}),
        (30, {"size": (2, 6), "num_envs": 30, "four_probability": 0.5}),
        # Many exponents are above the largest, 2.
        (60, {"size": 3, "num_envs": 9, "exponents": 3, "learning_rate": 0.5}),
        (20, {"num_envs": 70, "dialect": "jumanji", "tuples": [[0, 1, 2, 3], [5, 6, 9]]}),
        (80, {"size": 3, "num_envs": 9, "initial_value": 500.0, "learning_rate": 0.3}),
        (60, {"size": (2, 3), "num_envs": 70, "goal": 16, "stop_at_goal": True}),
        # A start tile is the goal, so a step without a move may end the episode.
        (60, {"size": 2, "num_envs": 70, "goal": 4, "stop_at_goal": True}),
        (60, {"size": 2, "num_envs": 7, "seed": 2**64 - 3}),
    ],
    ids=str,
)
def test_the_library_computes_the_same_numbers_as_a_plain_learner(
    steps: int, arguments: dict[str, Any]
) -> None:
    given = {"seed": 3, "exponents": 8, **arguments}
    size = given.pop("size", 4)
    rows, columns = size if isinstance(size, tuple) else (size, size)
    tuples = given.pop("tuples", None) or default_tuples(rows, columns)
    learner = learner_of(tuples, size=size, **given)
    learner.run(steps)
    if given.pop("dialect", None):
        given["start_tiles"] = 1
    plain = PlainLearner(tuples, rows=rows, columns=columns, **given)
    plain.run(steps)
    assert learner.weights.tobytes() == plain.weights.tobytes()
    assert learner.errors.tobytes() == plain.errors.tobytes()
    assert learner.counts == (steps, plain.moves, plain.episodes, plain.score, plain.goals)
    assert np.count_nonzero(plain.errors) > 5


def test_errors_larger_than_their_magnitudes_correct_a_weight_like_agreeing_errors() -> None:
    # Threads without locks can leave such sums.
    tuples = default_tuples(2, 3)
    learner = learner_of(tuples, num_envs=9, seed=3, size=(2, 3))
    plain = PlainLearner(tuples, rows=2, columns=3, num_envs=9, seed=3, exponents=8)
    learner.errors[:] = plain.errors[:] = np.array([-100, 0.5], np.float32)
    learner.run(60)
    plain.run(60)
    assert learner.weights.tobytes() == plain.weights.tobytes()
    assert learner.errors.tobytes() == plain.errors.tobytes()
    assert np.abs(learner.weights).max() < 1000


def test_train_starts_from_the_initial_value_and_the_seed() -> None:
    trained = train([[0, 1], [2]], size=(2, 3), steps=700, num_envs=7, seed=5, initial_value=100)
    learner = learner_of(
        [[0, 1], [2]], size=(2, 3), num_envs=7, seed=5, initial_value=100, exponents=16
    )
    learner.run(100)
    assert bytes_of(trained) == learner.weights.tobytes()
    assert trained.episodes == learner.counts.episodes > 0


# ---- determinism ---------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_weights_and_another_seed_others() -> None:
    first, again = (train(**SMALL, steps=5000) for _ in range(2))
    other = train(**SMALL, steps=5000, seed=1)
    assert bytes_of(first) == bytes_of(again) != bytes_of(other)
    assert first.episodes == again.episodes


def test_the_result_does_not_depend_on_how_the_steps_are_divided() -> None:
    whole, parts = (learner_of([[0, 1, 2], [4]], size=(2, 3), num_envs=70) for _ in range(2))
    whole.run(100)
    for steps in (0, 1, 1, 2, 17, 0, 79):
        parts.run(steps)
    assert content(whole) == content(parts)
    assert whole.counts == parts.counts


def test_a_copy_of_all_arrays_continues_like_the_original() -> None:
    original, copy = (learner_of([[0, 1, 2]], size=3, seed=seed) for seed in (1, 2))
    original.run(50)
    for name in ("weights", "errors", "state"):
        getattr(copy, name)[:] = getattr(original, name)
    original.run(50)
    copy.run(50)
    assert content(original) == content(copy)


@pytest.mark.parametrize(("steps", "num_envs", "played"), [(1, 64, 64), (100, 7, 105), (70, 7, 70)])
def test_steps_are_rounded_up_to_whole_steps(steps: int, num_envs: int, played: int) -> None:
    reports: list[tuple[float, float, int]] = []
    trained = train(
        **SMALL, steps=steps, num_envs=num_envs, progress=lambda *each: reports.append(each)
    )
    assert trained.steps == played
    assert reports[-1] == (played, played, played)


def test_seconds_end_a_training_before_its_steps() -> None:
    reports: list[tuple[float, float, int]] = []
    trained = train(**SMALL, seconds=0.05, steps=2**62, progress=lambda *each: reports.append(each))
    assert reports[-1] == (0.05, 0.05, trained.steps)
    assert trained.seconds >= 0.05
    assert isinstance(trained.curve[-1], Point)


def test_a_training_ends_in_the_middle_of_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "_CALL_SECONDS", 5.0)
    assert 0.2 <= train(**SMALL, seconds=0.2).seconds < 2


def test_a_long_training_has_a_curve_of_a_few_hundred_points(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Each call plays one step on each board, and takes 10 seconds of this clock.
    monkeypatch.setattr(time, "perf_counter", itertools.count(0, 10).__next__)
    trained = train(**SMALL, steps=64 * 1000)
    assert trained.seconds == 10_000
    assert 300 < len(trained.curve) < 600


def test_evaluations_are_reported_and_change_no_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    # Evaluations play in this process, too.
    monkeypatch.setenv("TWOFOLD_ENDPOINT", "tcp://127.0.0.1:1")
    told: list[Any] = []
    trained = train(
        **SMALL,
        steps=150_000,
        evaluate_every=0.001,
        episodes=5,
        evaluated=lambda point, found: told.append((point, found)),
    )
    assert tuple(told) == trained.evaluations
    point, found = told[-1]
    assert point in trained.curve
    assert len(found.scores) == 5
    assert bytes_of(trained) == bytes_of(train(**SMALL, steps=150_000))


@pytest.mark.parametrize(("more", "points"), [(3, 1), (80, 2)])
def test_a_curve_does_not_end_with_a_point_of_few_games(
    more: int, points: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first 101 steps on each board take 10 seconds, and the others no time.
    times = itertools.chain([0, 0.001, 0.001, 10], itertools.repeat(10))
    clock = types.SimpleNamespace(perf_counter=lambda: next(times))
    monkeypatch.setattr(training, "time", clock)
    trained = train(**SMALL, steps=64 * (101 + more))
    assert len(trained.curve) == points
    assert trained.episodes > trained.curve[0].episodes > 100


@pytest.mark.parametrize(
    ("episodes", "text"),
    [(1, r"mean score [\d,.]+ in 1 game"), (20, r"mean score \S+ \(\S+ \.\.\. \S+\) in 20 games")],
)
def test_the_command_prints_evaluations(
    episodes: int, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", str(tmp_path / "agent.npz"), "--size", "2", "--steps", "50000"]
    started = time.monotonic()
    assert cli.main([*words, "--evaluate-every", "0.001", "--episodes", str(episodes)]) == 0
    longest = round(time.monotonic() - started)
    lines = capsys.readouterr().err.splitlines()
    assert lines
    for line in lines:
        found = re.fullmatch(rf"after (\d+) s: {text}", line)
        assert found is not None, line
        assert int(found[1]) <= longest, line


@pytest.mark.parametrize(
    ("words", "patterns", "own"),
    [
        (
            "--size 2x3 --goal 16 --patterns 0,1,2 3,4,5 --exponents 8",
            [[0, 1, 2], [3, 4, 5]],
            SMALL | {"goal": 16},
        ),
        ("--patterns yeh --exponents 4", "yeh", {"exponents": 4}),
    ],
)
def test_the_command_trains_with_its_options_and_prints_the_last_scores(
    words: str, patterns: Any, own: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.npz"
    others = "--steps 30000 --seed 3 --num-envs 16 --learning-rate 0.5 --initial-value 50"
    assert cli.main(["train", str(file), *words.split(), *others.split()]) == 0
    expected = train(
        patterns, steps=30_000, seed=3, num_envs=16, learning_rate=0.5, initial_value=50, **own
    )
    weights = NTuple.load(file).weights
    for table, same in zip(weights, expected.policy.weights, strict=True):
        np.testing.assert_array_equal(table, same)
    last = expected.curve[-1]
    text = capsys.readouterr().out
    assert text.startswith(f"{file}: {expected.steps:,} steps and {expected.episodes:,} games in ")
    assert text.endswith(
        f" s; mean score {last.mean_score:,.0f} in the last games, {last.goal_share:.1%} of which "
        "reached the goal\n"
    )


def test_many_boards_play_as_few_steps_as_a_short_training_allows() -> None:
    assert train(**SMALL, num_envs=200_000, seconds=0.001).steps == 200_000


# ---- files ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a training of 30,000 steps."""
    file = tmp_path_factory.mktemp("finished") / "agent.npz"
    train(**SMALL, steps=30_000, file=file)
    return file


def test_a_trained_network_refuses_boards_of_another_size(tmp_path: Path) -> None:
    file = tmp_path / "agent.npz"
    trained = train(steps=1000, size=(2, 3), file=file).policy
    trained.save(tmp_path / "saved.npz")
    for policy in (trained, f"ntuple:{file}", f"ntuple:{tmp_path / 'saved.npz'}"):
        assert twofold.evaluate(policy, episodes=2, size=(2, 3)).scores.size == 2
        for size in (3, (3, 2), 4):
            with pytest.raises(InvalidArgument, match="plays boards of 2 x 3") as caught:
                twofold.evaluate(policy, episodes=2, size=size)
            assert caught.value.field == "policy"


def test_a_training_is_saved_at_its_intervals_and_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds: list[float] = []
    save = checkpoints.save

    def count(path: Any, learner: Any, training: Any) -> None:
        seconds.append(training["seconds"])
        save(path, learner, training)

    monkeypatch.setattr(checkpoints, "save", count)
    monkeypatch.setattr(training, "_CALL_SECONDS", 0.001)
    train(**SMALL, seconds=0.5, save_every=0.1, file=tmp_path / "agent.npz")
    assert len(seconds) >= 2
    assert all(later - earlier >= 0.1 for earlier, later in itertools.pairwise(seconds[:-1]))


def test_a_checkpoint_has_the_errors_of_corrected_weights_only(tmp_path: Path) -> None:
    learner = learner_of([(0, 1, 2, 3, 4, 5), (0,)], exponents=12, size=(2, 3))
    learner.weights[:] = np.arange(learner.weights.size)
    # Every third weight of the first table was corrected.
    learner.errors[: 12**6 : 3] = np.arange(12**6 // 3)[:, None] + 1
    file = tmp_path / "agent.npz"
    training = {"arguments": {"size": [2, 3]}, "seconds": 1.0}
    checkpoints.save(file, learner, training)
    expected = {
        "exponents": 12,
        "symmetric": True,
        "size": [2, 3],
        "tuple_0": np.arange(6, dtype=np.uint8),
        "weights_0": learner.weights[: 12**6],
        "tuple_1": np.zeros(1, np.uint8),
        "weights_1": learner.weights[12**6 :],
        "places_0": np.arange(0, 12**6, 3, dtype=np.uint32),
        "errors_0": learner.errors[: 12**6 : 3],
        "places_1": np.empty(0, np.uint32),
        "errors_1": np.empty((0, 2), np.float32),
        "state": learner.state,
        "training": json.dumps(training),
    }
    with np.load(file) as arrays:
        assert arrays.files == list(expected)
        for name, array in expected.items():
            np.testing.assert_array_equal(arrays[name], array, name, strict=True)


def test_a_checkpoint_is_written_and_read_one_table_at_a_time(tmp_path: Path) -> None:
    tuples = [(0, 1, 2, 3, 4), (0, 1, 2, 3, 5), (0, 1, 2, 4, 5), (0, 1, 3, 4, 5)]
    learner, other = (learner_of(tuples, exponents=12, size=(2, 3)) for _ in range(2))
    learner.weights[:] = np.arange(learner.weights.size)
    learner.errors[::3] = np.arange(len(learner.errors[::3]))[:, None] + 1
    file = tmp_path / "agent.npz"
    tracemalloc.start()
    checkpoints.save(file, learner, {"arguments": {"size": [2, 3]}})
    _, save_peak = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    checkpoints.restore(file, other)
    _, restore_peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert save_peak < 0.6 * learner.weights.nbytes
    assert restore_peak < 0.5 * learner.weights.nbytes
    np.testing.assert_array_equal(other.weights, learner.weights)
    np.testing.assert_array_equal(other.errors, learner.errors)


class Interrupt:
    """A function for `progress` that raises an error in its third call."""

    def __init__(self, error: type[BaseException]) -> None:
        self.error, self.calls = error, 0

    def __call__(self, done: float, total: float, steps: int, /) -> None:
        self.calls += 1
        if self.calls == 3:
            raise self.error


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_interrupted_training_can_be_resumed(tmp_path: Path, error: type[BaseException]) -> None:
    file = tmp_path / "agent.npz"
    with pytest.raises(error):
        train(**SMALL, seconds=1000, file=file, progress=Interrupt(error))
    played = played_in(file)
    assert played > 0
    # Other spellings of the same arguments.
    same: dict[str, Any] = {"size": [2, 3], "four_probability": 0.1, "start_tiles": 2, "seed": 0}
    resumed = train(exponents=8, file=file, resume=True, steps=(played + 9) * 64, **same)
    assert resumed.steps == (played + 9) * 64
    other = tmp_path / "undisturbed.npz"
    train(**SMALL, steps=(played + 9) * 64, file=other)
    assert saved(file) == saved(other)


def test_a_killed_training_can_be_resumed(tmp_path: Path) -> None:
    file, other = tmp_path / "agent.npz", tmp_path / "undisturbed.npz"
    script = (
        "import sys; from twofold.learning import train; "
        "train(size=(2, 3), exponents=8, seconds=1000, file=sys.argv[1], save_every=0.001)"
    )
    # Nearly all of its time goes into saving.
    with running([sys.executable, "-c", script, str(file)]) as process:
        wait_until(lambda: checkpoints.version(file) is not None)
        time.sleep(0.1)
        process.send_signal(signal.SIGKILL)
    NTuple.load(file)
    steps = played_in(file) * 64 + 6400
    train(**SMALL, steps=steps, file=file, resume=True)
    train(**SMALL, steps=steps, file=other)
    assert saved(file) == saved(other)


@pytest.mark.parametrize("resume", [True, False])
@pytest.mark.parametrize("is_last", [True, False])
def test_two_trainings_do_not_overwrite_each_other(
    tmp_path: Path, resume: bool, is_last: bool
) -> None:
    file = tmp_path / "agent.npz"
    if resume:
        train(**SMALL, steps=64, file=file)
    more: dict[str, Any] = {"steps": 640} if is_last else {"seconds": 1000, "save_every": 0.001}
    once = iter([True])

    def save_another(*_: object) -> None:
        if next(once, False):
            train(**SMALL, steps=6400, file=file, resume=resume)

    with pytest.raises(InvalidArgument, match="another training run has saved") as raised:
        train(**SMALL, **more, file=file, resume=resume, progress=save_another)
    assert raised.value.field == "file"
    assert played_in(file) == 100
    [own] = set(tmp_path.iterdir()) - {file}
    assert str(own) in str(raised.value)
    undisturbed = tmp_path / "undisturbed.npz"
    train(**SMALL, steps=played_in(own) * 64, file=undisturbed)
    assert saved(own) == saved(undisturbed)


def test_a_resume_with_another_size_names_the_size(tmp_path: Path) -> None:
    file = tmp_path / "agent.npz"
    train(steps=64, size=3, file=file)
    with pytest.raises(InvalidArgument, match=r"^size is \[4, 4\], but .* has \[3, 3\]"):
        train(steps=640, file=file, resume=True)


def test_an_interrupt_right_after_a_save_is_not_another_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, once, replace = tmp_path / "agent.npz", iter([True]), _text._replace

    def interrupted(temporary: Path, target: Path) -> bool:
        replaced = replace(temporary, target)
        if next(once, False):
            raise KeyboardInterrupt
        return replaced

    monkeypatch.setattr(_text, "_replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(**SMALL, seconds=1000, save_every=0.001, file=file)
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("change", [Path.unlink, Path.touch])
def test_a_training_saves_to_a_file_that_lost_no_other_training(
    tmp_path: Path, change: Any
) -> None:
    file = tmp_path / "agent.npz"
    train(**SMALL, steps=64, file=file)
    train(**SMALL, steps=640, file=file, resume=True, progress=lambda *_: change(file, True))
    assert played_in(file) == 10
    assert list(tmp_path.iterdir()) == [file]


def test_a_training_can_be_resumed_several_times(finished: Path, tmp_path: Path) -> None:
    file = tmp_path / "agent.npz"
    for steps in (1000, 12_800, 30_000):
        trained = train(**SMALL, steps=steps, file=file, resume=file.exists())
    assert saved(file) == saved(finished)
    # A finished training plays no more steps.
    again = train(**SMALL, steps=30_000, file=file, resume=True)
    assert saved(file) == saved(finished)
    assert (again.steps, again.episodes) == (trained.steps, trained.episodes)
    assert again.seconds == trained.seconds


def test_a_resumed_training_continues_its_curve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each call of the library takes a second, so it plays one step on each board.
    monkeypatch.setattr(
        training, "time", types.SimpleNamespace(perf_counter=itertools.count().__next__)
    )
    whole = train(**SMALL, steps=12_800)
    for steps in (6400, 12_800):
        resumed = train(**SMALL, steps=steps, file=tmp_path / "a.npz", resume=steps == 12_800)
    assert resumed.curve == whole.curve
    assert len(whole.curve) > 20


def test_a_resumed_training_keeps_its_evaluations(tmp_path: Path) -> None:
    file, other = tmp_path / "agent.npz", tmp_path / "undisturbed.npz"
    often: dict[str, Any] = {"evaluate_every": 0.001, "episodes": 5}

    def documents(training: Training) -> list[Any]:
        return [(point, found.to_json(games=True)) for point, found in training.evaluations]

    first = train(**SMALL, **often, steps=100_000, file=file)
    again = train(**SMALL, **often, steps=150_000, file=file, resume=True)
    kept = len(first.evaluations)
    assert kept > 0
    assert len(again.evaluations) > kept
    assert documents(again)[:kept] == documents(first)
    # The last call evaluates nothing.
    last = train(**SMALL, steps=150_000, file=file, resume=True)
    assert documents(last) == documents(again)
    train(**SMALL, steps=150_000, file=other)
    assert saved(file)[0] == saved(other)[0]


def test_an_interrupted_evaluation_is_made_after_the_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "agent.npz"
    seldom: dict[str, Any] = {"evaluate_every": 0.3, "episodes": 5, "file": file}
    with monkeypatch.context() as patch:
        patch.setattr(training._Run, "evaluate", interrupt)
        with pytest.raises(KeyboardInterrupt):
            train(**SMALL, **seldom, seconds=1000)
    steps = played_in(file) * 64
    resumed = train(**SMALL, **seldom, steps=steps, resume=True)  # plays no more steps
    assert len(resumed.evaluations) == 1
    seldom["evaluate_every"] = 1000
    again = train(**SMALL, **seldom, steps=steps + 64, resume=True)
    assert len(again.evaluations) == 1


def test_a_resumed_training_is_not_evaluated_for_the_time_before(tmp_path: Path) -> None:
    file = tmp_path / "agent.npz"
    first = train(**SMALL, seconds=0.02, file=file)
    often: dict[str, Any] = {"evaluate_every": 0.001, "episodes": 5, "steps": first.steps}
    again = train(**SMALL, **often, file=file, resume=True)  # plays no more steps
    assert again.evaluations == ()


def test_an_evaluation_belongs_to_the_steps_so_far_even_if_no_episode_has_ended(
    tmp_path: Path,
) -> None:
    often: dict[str, Any] = {"evaluate_every": 0.001, "episodes": 1, "seconds": 0.001}
    file = tmp_path / "agent.npz"
    short = train(size=6, num_envs=1, **often, file=file)
    [(first, _)] = short.evaluations
    assert (first.steps, first.episodes) == (short.steps, 0)
    again = train(size=6, num_envs=1, file=file, resume=True, steps=short.steps)
    assert [point for point, _ in again.evaluations] == [first]


def test_a_training_can_be_resumed_with_more_threads(tmp_path: Path) -> None:
    file, other = tmp_path / "agent.npz", tmp_path / "one_thread.npz"
    for path, threads in ((file, 2), (other, 1)):
        train(**SMALL, steps=12_800, num_envs=128, file=path)
        more = train(**SMALL, steps=40_000, threads=threads, file=path, resume=True)
        assert more.steps == 40_064
        assert saved(path)[1]["arguments"]["num_envs"] == 128
    # The second thread has half of the boards: it corrects weights in another order.
    assert saved(file)[0] != saved(other)[0]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"size": (3, 2)}, "size"),
        ({"size": 3}, "size"),
        ({"patterns": [[0, 1]]}, "patterns"),
        ({"num_envs": 65}, "num_envs"),
        ({"seed": 1}, "seed"),
        ({"learning_rate": 0.5}, "learning_rate"),
        ({"initial_value": 1}, "initial_value"),
        ({"exponents": 9}, "exponents"),
        ({"four_probability": 0.2}, "four_probability"),
        ({"start_tiles": 1}, "start_tiles"),
        ({"goal": 32}, "goal"),
        ({"stop_at_goal": True}, "stop_at_goal"),
    ],
    ids=str,
)
def test_a_training_with_another_argument_is_not_resumed(
    finished: Path, changes: dict[str, Any], field: str
) -> None:
    before = finished.read_bytes()
    with pytest.raises(InvalidArgument, match=f"{field} is .*, but the training in .* has") as no:
        train(**(SMALL | changes), steps=40_000, file=finished, resume=True)
    assert no.value.field == field
    assert finished.read_bytes() == before


def test_the_rules_of_a_training_are_needed_to_resume_it(tmp_path: Path) -> None:
    file = tmp_path / "agent.npz"
    train(**SMALL, steps=100, four_probability=0.2, file=file)
    with pytest.raises(InvalidArgument, match=r"four_probability is 0.1, .* has 0.2"):
        train(**SMALL, steps=200, file=file, resume=True)


def changed(**entries: Any) -> Any:
    """Returns a function that changes these entries of the training in the arrays of a file."""

    def damage(arrays: dict[str, Any]) -> None:
        training = json.loads(str(arrays["training"])) | entries
        arrays["training"] = np.array(json.dumps(training))

    return damage


DAMAGES: dict[str, Any] = {
    "no training": lambda arrays: arrays.pop("training"),
    "no JSON": lambda arrays: arrays.update(training=np.array("{")),
    "a list": lambda arrays: arrays.update(training=np.array("[]")),
    "no arguments": lambda arrays: arrays.update(training=np.array("{}")),
    "evaluations in words": changed(evaluations="none"),
    "an evaluation without games": changed(evaluations=[[[1.0, 64, 1, 4.0, 0.0], "{}"]]),
    "other tuples": lambda arrays: arrays.update(tuple_0=arrays["tuple_0"][::-1]),
    "no symmetry": lambda arrays: arrays.update(symmetric=False),
    "no state": lambda arrays: arrays.pop("state"),
    "a short state": lambda arrays: arrays.update(state=arrays["state"][1:]),
    "a state of zeros": lambda arrays: arrays.update(state=arrays["state"] * 0),
    "a state of noise": lambda arrays: arrays.update(state=arrays["state"] ^ 255),
    "no errors": lambda arrays: arrays.pop("errors_0"),
    "errors elsewhere": lambda arrays: arrays.update(places_0=arrays["places_0"] + 2**31),
    "errors without a number": lambda arrays: arrays.update(errors_0=arrays["errors_0"] * np.nan),
    "weights without a number": lambda arrays: arrays.update(weights_0=arrays["weights_0"] / 0),
    "other weights": lambda arrays: arrays.update(
        exponents=7, weights_0=arrays["weights_0"][: 7**6]
    ),
}


@pytest.mark.filterwarnings("ignore:.*divide:RuntimeWarning", "ignore:invalid:RuntimeWarning")
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_refused_and_stays_unchanged(
    finished: Path, tmp_path: Path, damage: str
) -> None:
    arrays = dict(np.load(finished))
    DAMAGES[damage](arrays)
    file = tmp_path / "agent.npz"
    np.savez(file, **arrays)
    before = file.read_bytes()
    with pytest.raises(InvalidArgument, match="is not a readable checkpoint") as refused:
        train(**SMALL, steps=40_000, file=file, resume=True)
    assert refused.value.field == "file"
    assert file.read_bytes() == before


def test_no_changed_bit_of_a_checkpoint_changes_the_training(tmp_path: Path) -> None:
    file, rng = tmp_path / "agent.npz", np.random.default_rng(0)
    small: dict[str, Any] = {"patterns": [[0, 1], [2]], "size": (2, 3), "num_envs": 2}
    train(**small, steps=200, file=file)
    good = file.read_bytes()
    train(**small, steps=300, file=file, resume=True)
    expected, refusals = saved(file), 0
    for _ in range(150):
        bad = bytearray(good)
        bad[rng.integers(len(bad))] ^= 1 << rng.integers(8)
        file.write_bytes(bad)
        refused = None
        try:
            train(**small, steps=300, file=file, resume=True)
        except InvalidArgument as error:
            refused = error
        if refused is None:
            assert saved(file) == expected
        else:
            assert refused.field == "file"
            assert file.read_bytes() == bad
            refusals += 1
    assert refusals > 100


@pytest.mark.parametrize("text", [b"", b"PK", b"not a checkpoint", b"\x93NUMPY"])
def test_another_kind_of_file_is_refused(tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "agent.npz"
    file.write_bytes(text)
    with pytest.raises(InvalidArgument) as refused:
        train(**SMALL, steps=100, file=file, resume=True)
    assert refused.value.field == "file"
    assert file.read_bytes() == text
    train(**SMALL, steps=100, file=file)
    assert played_in(file) == 2


def test_a_file_that_cannot_be_used_is_refused_before_the_training(tmp_path: Path) -> None:
    calls: list[Any] = []
    arguments = SMALL | {"seconds": 1000, "progress": lambda *each: calls.append(each)}
    for file, error in (
        (tmp_path, IsADirectoryError),
        (tmp_path / "nowhere" / "agent.npz", FileNotFoundError),
        ("/proc/agent.npz", OSError),
    ):
        with pytest.raises(error):
            train(**arguments, file=file)
    with pytest.raises(FileNotFoundError):
        train(**arguments, file=tmp_path / "agent.npz", resume=True)
    assert calls == []
    assert list(tmp_path.iterdir()) == []


def test_a_training_writes_to_a_device() -> None:
    assert train(**SMALL, steps=64, save_every=0.001, file="/dev/null").steps == 64


def test_a_full_disk_leaves_the_file_unchanged(finished: Path, tmp_path: Path) -> None:
    file = tmp_path / "agent.npz"
    before = finished.read_bytes()
    file.write_bytes(before)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            train(**SMALL, steps=31_000, file=file, resume=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [file] == list(tmp_path.iterdir())
    assert file.read_bytes() == before


def test_the_command_prints_its_result_before_it_saves_the_plot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plot = tmp_path / "curve.png"

    def fail(training: Training, path: Path) -> None:
        assert path == plot
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(Training, "plot", fail)
    words = ["train", str(tmp_path / "agent.npz"), "--size", "2", "--steps", "1000"]
    assert cli.main([*words, "--plot", str(plot)]) == 1
    shown = capsys.readouterr()
    assert "agent.npz: 1,024 steps and " in shown.out
    assert shown.err == f"twofold train: {plot}: No space left on device\n"


def test_the_plot_must_not_replace_the_network(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    file = str(tmp_path / "agent.png")
    assert cli.main(["train", file, "--size", "2", "--steps", "64", "--plot", file]) == 2
    assert "is given for two results" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


# ---- several threads -----------------------------------------------------------------------------


def test_two_threads_play_all_steps_and_learn() -> None:
    learner = learner_of(default_tuples(2, 3), size=(2, 3), num_envs=128, threads=2)
    learner.run(1000)
    assert learner.counts.played == 1000
    # Each step is a move, or starts an episode, of which at most one per board has not begun.
    assert 0 <= learner.counts.moves + learner.counts.episodes - 128_000 <= 128
    trained = train(**SMALL, steps=300_000, threads=2)
    assert trained.steps == 300_032
    assert np.isfinite(trained.policy.weights[0]).all()
    played = twofold.evaluate(trained.policy, size=(2, 3), episodes=500)
    uniform = twofold.evaluate("random", size=(2, 3), episodes=500)
    assert played.scores.mean() > 1.5 * uniform.scores.mean()


def test_more_threads_than_boards_play_all_steps() -> None:
    trained = train(**SMALL, steps=300, num_envs=3, threads=16)
    assert trained.steps == 300


def test_a_forked_process_can_train() -> None:
    script = """
        import os
        from twofold.learning import train
        for threads in (1, 2):
            train(size=(2, 3), exponents=8, steps=2000, threads=2)
            child = os.fork()
            if child == 0:
                trained = train(size=(2, 3), exponents=8, steps=2000, threads=threads)
                os._exit(0 if trained.steps >= 2000 else 1)
            print(os.waitpid(child, 0)[1])
    """
    assert run_script(script).split() == ["0", "0"]


# ---- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"patterns": "yea"}, "patterns"),
        ({"patterns": "yeh"}, "patterns"),  # it is for 4 x 4
        ({"patterns": [[0, 6]]}, "patterns"),
        ({"patterns": [[0, 64]]}, "patterns"),
        ({"patterns": [[0, 0]]}, "patterns"),
        ({"patterns": []}, "patterns"),
        ({"patterns": [[]]}, "patterns"),
        ({"patterns": ["01"]}, "patterns"),
        ({"patterns": 1}, "patterns"),
        ({"endpoint": "embedded"}, "endpoint"),
        ({"reward": {"merge_score": 1.0}}, "reward"),
        ({"objective": "moves"}, "objective"),
        ({"max_episode_steps": 10}, "max_episode_steps"),
        ({"obs": "one_hot"}, "obs"),
        ({"size": 9}, "size"),
        ({"four_probability": 2}, "four_probability"),
        ({"threads": 0}, "threads"),
        ({"threads": 2000}, "threads"),
        ({"num_envs": 0}, "num_envs"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**64}, "seed"),
        ({"learning_rate": 0}, "learning_rate"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"learning_rate": 2}, "learning_rate"),
        ({"learning_rate": 1e-60}, "learning_rate"),  # 0 in float32
        ({"initial_value": float("inf")}, "initial_value"),
        ({"exponents": 1}, "exponents"),
        ({"exponents": 33}, "exponents"),
        ({"seconds": 0}, "seconds"),
        ({"steps": 0}, "steps"),
        ({"save_every": 0}, "save_every"),
        ({"evaluate_every": 0}, "evaluate_every"),
        ({"episodes": 0, "evaluate_every": 1}, "episodes"),
        ({"episodes": 500}, "episodes"),  # nothing is evaluated
        ({"progress": 1}, "progress"),
        ({"evaluated": 1}, "evaluated"),
        ({"resume": 1}, "resume"),
        ({"resume": True}, "file"),
    ],
    ids=str,
)
def test_a_wrong_argument_is_refused_by_name(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        train(**(SMALL | {"steps": 10} | changes))
    assert refused.value.field == field


def test_an_unknown_argument_is_a_type_error() -> None:
    with pytest.raises(
        TypeError, match="train got an unexpected keyword argument 'four_probabilit'"
    ):
        train(**SMALL, steps=10, four_probabilit=0.2)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"patterns": [list(range(8))], "size": 4, "exponents": 16}, "patterns"),
        ({"patterns": [list(range(12))], "size": 4, "exponents": 32}, "patterns"),
        ({"num_envs": 2**31 - 1}, "num_envs"),
    ],
    ids=str,
)
def test_a_training_beyond_the_limits_is_refused(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(ResourceExhausted) as refused:
        train(**(SMALL | changes), steps=10)
    assert refused.value.field == field


def test_the_boards_count_towards_the_limit_on_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWOFOLD_MAX_BYTES", str(64 << 20))
    with pytest.raises(ResourceExhausted, match="no memory for the boards") as refused:
        train(**(SMALL | {"num_envs": 1 << 20}), steps=10)
    assert refused.value.field == "num_envs"


# Limits the address space to `room` more bytes.
LIMIT_MEMORY = """
    import re, resource, sys
    from pathlib import Path
    import numpy as np
    from twofold.errors import ResourceExhausted, ServerStartFailed
    from twofold.learning import train

    def limit(room):
        used = 1024 * int(re.search(r"VmSize:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
        resource.setrlimit(resource.RLIMIT_AS, (used + room, resource.RLIM_INFINITY))

    train(size=(2, 3), exponents=8, steps=100)
"""


def test_a_network_beyond_the_memory_is_refused() -> None:
    script = """
    limit(300 << 20)
    try:
        train(size=(2, 3), exponents=16, steps=100)  # takes 192 MiB
    except ResourceExhausted as error:
        print(error.field)
    print(train(size=(2, 3), exponents=8, steps=128).steps)
    limit(50 << 20)
    try:
        train(size=(2, 3), exponents=8, steps=128)
    except ServerStartFailed as error:
        print(error)
    """
    shown = run_script(LIMIT_MEMORY + script).splitlines()
    assert shown[:2] == ["patterns", "128"]
    assert "raise the limits" in shown[2]


def test_memory_that_the_process_takes_later_does_not_end_a_training() -> None:
    script = """
    limit(1 << 30)
    kept = []
    def progress(*_):
        kept.append(np.zeros(200 << 20, np.uint8))
        if len(kept) == 3:
            raise KeyboardInterrupt
    try:
        train(size=(2, 3), exponents=16, seconds=1000, progress=progress)
    except KeyboardInterrupt:
        print("interrupted")
    """
    assert run_script(LIMIT_MEMORY + script) == "interrupted\n"


@pytest.mark.parametrize("variable", ["TWOFOLD_THREADS", "TWOFOLD_MAX_BYTES"])
def test_a_wrong_variable_of_the_library_is_named(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "many")
    with pytest.raises(ServerStartFailed, match=f"{variable} is 'many'"):
        train(**SMALL, steps=10)


@pytest.mark.usefixtures("_unstarted")
def test_without_the_library_a_training_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TWOFOLD_LIBRARY", raising=False)
    monkeypatch.setattr(lookup, "_candidates", lambda name: [])
    with pytest.raises(ServerStartFailed, match=r"libtwofold.so was not found"):
        train(**SMALL, steps=10)


def test_a_learner_refuses_a_state_of_noise_and_stays_unchanged() -> None:
    rng = np.random.default_rng(0)
    learner = learner_of([[0, 1, 2]], size=3)
    learner.run(50)
    good, refusals = learner.state.copy(), 0
    for _ in range(300):
        learner.state[:] = good
        learner.state[rng.integers(good.size, size=3)] = rng.integers(256, size=3)
        before, counts = content(learner), learner.counts
        try:
            learner.run(20)
        except InvalidArgument:
            assert content(learner) == before
            assert learner.counts == counts
            refusals += 1
        assert np.isfinite(learner.weights).all()
    assert refusals > 30


# ---- the trained network -------------------------------------------------------------------------


def test_the_file_is_a_network_that_plays_like_the_result(tmp_path: Path) -> None:
    file = tmp_path / "agent.npz"
    trained = train(**SMALL, steps=20_000, file=file)
    loaded = NTuple.load(file)
    assert loaded.tuples == trained.policy.tuples
    envs, actions = twofold.Game2048VectorEnv(16, size=(2, 3)), []
    for each in (trained.policy, loaded):
        envs.reset(seed=1)
        actions.append(envs.rollout(100, policy=each).actions)
    envs.close()
    np.testing.assert_array_equal(actions[0], actions[1])
    played = [
        twofold.evaluate(policy, size=(2, 3), episodes=50)
        for policy in (trained.policy, f"ntuple:{file}")
    ]
    assert played[0].scores.tolist() == played[1].scores.tolist()


@pytest.mark.long
def test_a_learner_of_2x3_comes_close_to_the_optimum() -> None:
    optimum = solve("--size", "2x3")["value"]
    # The high initial value makes the network try all moves.
    trained = train(**SMALL, steps=14_000_000, initial_value=480, learning_rate=0.5)
    played = twofold.evaluate(trained.policy, size=(2, 3), episodes=3000, regret=True)
    assert played.regret is not None
    assert played.regret.games.mean() < 0.01 * optimum


def test_published_tuples_fit_their_board() -> None:
    for name, tuples in PATTERNS.items():
        assert all(len(set(cells)) == len(cells) and max(cells) < 16 for cells in tuples), name
    assert PATTERNS["yeh"] == default_tuples(4, 4)


@pytest.mark.parametrize("rows", range(2, 9))
@pytest.mark.parametrize("columns", range(2, 9))
def test_the_default_tuples_cover_each_board_once(rows: int, columns: int) -> None:
    tuples = default_tuples(rows, columns)
    cells = np.arange(rows * columns).reshape(rows, columns)
    turned = [np.rot90(board, turns) for board in (cells, cells.T) for turns in range(4)]
    images = [image.ravel() for image in turned if image.shape == cells.shape]
    shown = [{tuple(sorted(image[list(each)])) for image in images} for each in tuples]
    assert {cell for of_tuple in shown for each in of_tuple for cell in each} == set(cells.flat)
    assert sum(map(len, shown)) == len(set().union(*shown))
