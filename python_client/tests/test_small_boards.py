"""The learners of `make regret`, their tables, and the command's output."""

import argparse
import importlib
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from numpy.typing import NDArray

import twofold

CLIENT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(CLIENT / "benchmarks" / "training"))
tabular: Any = importlib.import_module("tabular")
small_boards: Any = importlib.import_module("small_boards")
regret: Any = importlib.import_module("regret")


def make(*size: int, num_envs: int = 32) -> Any:
    return gym.make_vec(
        "twofold/Game2048-v0", num_envs=num_envs, size=size, autoreset_mode="SameStep"
    )


def some_boards(number: int, *size: int) -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 8, (number, *size), dtype=np.uint8)


# ---- the table -----------------------------------------------------------------------------------


def test_each_key_of_a_table_has_one_row() -> None:
    rng, table = np.random.default_rng(0), tabular.Table(2)
    # There are few different keys, so some of them occur twice in a batch and again later.
    for _ in range(40):
        keys = rng.integers(0, 200, 15).astype(np.uint64) << np.uint64(rng.integers(0, 2) * 40)
        rows = table.find(keys, insert=True)
        table.rows[rows, 0] = keys
    known = np.array(list(table.places), np.uint64)
    assert len(known) > 100
    np.testing.assert_array_equal(table.rows[table.find(known), 0], known.astype(np.float32))


def test_missing_keys_of_a_table_are_zero_and_are_not_added() -> None:
    table = tabular.Table(3)
    [row] = table.find(np.array([5], np.uint64), insert=True)
    table.rows[row] = 7
    rows = table.find(np.array([5, 6, 7], np.uint64))
    np.testing.assert_array_equal(table.rows[rows], [[7, 7, 7], [0, 0, 0], [0, 0, 0]])
    assert list(table.places) == [5]


def test_different_boards_have_different_keys() -> None:
    boards = np.indices((6, 6, 6, 6), np.uint8).reshape(4, -1).T.reshape(-1, 2, 2)
    assert len(np.unique(tabular.keys_of(boards))) == 6**4
    highest = np.full((1, 3, 3), 15, np.uint8)
    assert tabular.keys_of(highest).tolist() == [16**9 - 1]


def test_an_entry_that_occurs_twice_gets_the_mean_of_its_errors() -> None:
    entries, errors = tabular.by_entry(np.array([4, 2, 4]), np.array([1.0, 5.0, 2.0]))
    assert (entries.tolist(), errors.tolist()) == ([2, 4], [5.0, 1.5])


# ---- the learners --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def solved() -> Iterator[None]:
    """Makes the table for 2 x 2 boards, once for all tests."""
    optimum = regret.solve(regret.BOARDS[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(regret, "solve", lambda board: optimum)
        yield


@pytest.mark.parametrize(
    ("kind", "steps", "most"), [(tabular.QLearning, 1500, 8), (tabular.Afterstates, 750, 4)]
)
def test_a_learner_comes_close_to_the_optimum_of_2x2(
    solved: None, kind: Any, steps: int, most: float
) -> None:
    # The optimum scores 66.96, and random play 19.66.
    learner = kind(make(2, 2), 1, tabular.Exploration(1, 0.1))
    for step in range(steps):
        learner.step(1 - step / steps)
    played = twofold.evaluate(learner.policy, size=2, episodes=1000, regret=True)
    assert played.regret is not None
    assert played.regret.games.mean() < most
    assert len(learner.table.places) < 6**4


def test_q_learning_moves_a_value_towards_its_target() -> None:
    envs = make(2, 2, num_envs=1)
    learner = tabular.QLearning(envs, 3, tabular.Exploration(0, 0))
    before = learner.boards.copy()
    action = int(learner.policy(before, learner.mask)[0])
    _, score = twofold.rules.move(before, [action])[:2]
    learner.step(1)
    row = learner.table.rows[learner.table.find(tabular.keys_of(before))][0]
    # The first visit's rate is 1, and the next board has no value yet.
    assert row[action] == score[0]
    assert row[4 + action] == 1
    assert np.count_nonzero(row) == np.count_nonzero([score[0], 1])


def test_the_last_board_of_a_game_has_the_value_zero() -> None:
    learner = tabular.Afterstates(make(2, 2, num_envs=8), 1, tabular.Exploration(1, 0.1))
    for _ in range(200):
        learner.step(0)
        ended = learner.ended.copy()
        entries = learner.entries
        visits = learner.table.rows[entries, 1].copy()
        learner.step(0)
        first = ended & (visits == 0)
        # With a learning rate of 1 at the first visit, the value equals the target.
        np.testing.assert_array_equal(learner.table.rows[entries[first], 0], 0)


def test_actions_are_random_with_the_given_probability() -> None:
    mask = np.tile(np.array([0, 1, 1, 0], np.int8), (20_000, 1))
    best = np.full(20_000, 2)
    mixed = tabular.Exploration(0, 0.4).mix(best, mask, left=0.5)
    assert set(mixed.tolist()) == {1, 2}
    assert math.isclose((mixed == 1).mean(), 0.1, abs_tol=0.01)
    assert (tabular.Exploration(0, 0.4).mix(best, mask, left=0) == 2).all()


def test_the_steps_that_start_a_game_are_not_counted_as_moves(
    solved: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, trained = twofold.train, []

    def kept(*arguments: Any, **options: Any) -> Any:
        trained.append(train(*arguments, **options))
        return trained[-1]

    monkeypatch.setattr(twofold, "train", kept)
    options = argparse.Namespace(size=(2, 2), num_envs=128, seed=1, out=tmp_path / "train.json")
    curve = small_boards.Curve((2, 2), 4000, 20)
    small_boards.train_native(options, curve)
    made = [training.steps - training.episodes for training in trained]
    moves = [point["moves"] for point in curve.points]
    assert set(moves) <= set(made)
    assert 4000 <= moves[-1] == made[-1] < 4128


# ---- the command ---------------------------------------------------------------------------------


def test_the_command_trains_reports_and_repeats_nothing(
    solved: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(regret, "PYTHON", Path(sys.executable))
    words = ["--boards", "2x2", "--moves", "4000", "--games", "50", "--out", str(tmp_path)]
    regret.main([*words, "--learners", "td", "train", "--seeds", "1"])
    assert capsys.readouterr().out.count(": done\n") == 2
    words += ["--learners", "td", "--seeds", "1", "2"]
    regret.main(words)
    shown = capsys.readouterr().out
    assert shown.startswith("td-2x2-2: done\n| ")
    points = json.loads((tmp_path / "td-2x2-1.json").read_text())["points"]
    moves = [point["moves"] for point in points]
    assert moves == sorted(set(moves))
    assert moves[-1] == 4000
    assert points[-1]["regret_of_a_game"] < points[0]["regret_of_a_game"]
    assert points[-1]["regret_of_a_move"] > 0
    table = shown[shown.index("| regret of a game ") :]
    assert "| TD, afterstates | " in table
    assert "| Q-learning |  |" in table
    assert "| the optimum's score | 66.964 |" in table
    regret.main(words)
    assert capsys.readouterr().out == table
    # A table for another number of moves does not include these runs.
    more = ["5000" if word == "4000" else word for word in words]
    regret.main([*more, "--report"])
    assert "| TD, afterstates |  |" in capsys.readouterr().out
    (tmp_path / "td-2x2-1.json").unlink()
    regret.main([*words, "--report"])
    assert "..." not in capsys.readouterr().out.splitlines()[3]


def test_a_failed_training_run_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(regret, "PYTHON", Path(sys.executable))
    assert not regret.run("td-9x9-1", 10, ["td", "--size", 9, 9], tmp_path)
    log = tmp_path / "td-9x9-1.txt"
    assert capsys.readouterr().out == f"td-9x9-1: exit status 1, see {log}\n"
    assert "size is 9; expected 2 ... 8" in log.read_text()


@pytest.mark.parametrize(
    ("python", "error"),
    [("/bin/false", SystemExit), ("/nowhere/python", FileNotFoundError)],
    ids=["failing", "missing"],
)
def test_the_command_fails_if_a_training_run_fails(
    solved: None,
    python: str,
    error: type[BaseException],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(regret, "PYTHON", Path(python))
    words = ["--boards", "2x2", "--learners", "td", "--seeds", "1", "--out", str(tmp_path)]
    with pytest.raises(error, match=r"some training runs failed|/nowhere/python"):
        regret.main(words)


def test_only_the_results_of_all_learners_and_seeds_are_published(
    solved: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published: list[str] = []
    monkeypatch.setattr(regret.figures, "publish", lambda name, rows: published.append(name))
    regret.known(regret.BOARDS[:1], tmp_path)
    point = {"regret_of_a_game": 1.0}
    result = json.dumps({"options": {"moves": 200_000}, "points": [point]})
    for learner in regret.LEARNERS:
        for seed in regret.SEEDS:
            (tmp_path / f"{learner}-2x2-{seed}.json").write_text(result)
    words = ["--report", "--publish", "--boards", "2x2", "--out", str(tmp_path)]
    regret.main(words)
    assert published == ["regret"]
    for name in ("td-2x2-3", "ppo-2x2-1"):
        (tmp_path / f"{name}.json").unlink()
    with pytest.raises(SystemExit, match=r"are missing: td-2x2-3, ppo-2x2-1$"):
        regret.main(words)
    assert published == ["regret"]
