"""Tests of examples/train_ntuple.py: its arithmetic, and its training over a server."""

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import learning_figures
import numpy as np
import pytest
import tables
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from servers import Server

from twofold.policies import NTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
train_ntuple: Any = importlib.import_module("train_ntuple")
random_agent: Any = importlib.import_module("random_agent")


class Clock:
    """A clock for training that advances when it is read: a second is 512 steps of all boards."""

    def __init__(self) -> None:
        self._readings = 0

    def perf_counter(self) -> float:
        self._readings += 1
        return self._readings / 512


@pytest.fixture(autouse=True)
def _training_takes_a_number_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train_ntuple, "time", Clock())


@pytest.fixture(scope="module")
def network() -> Any:
    """Returns a network with random weights, which tests must not change."""
    network, rng = train_ntuple.Network(), np.random.default_rng(0)
    for table in network.tables:
        table.weights = rng.random(table.weights.size, np.float32)
    return network


@pytest.fixture
def _small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes new networks from 4-tuples, with tables 256 times smaller than for 6-tuples."""
    tuples = ((0, 1, 2, 3), (4, 5, 6, 7), (0, 1, 4, 5), (5, 6, 9, 10))
    monkeypatch.setattr(train_ntuple, "TUPLES", tuples)


def some_boards(number: int, highest: int = 4) -> Any:
    rng = np.random.default_rng(1)
    return rng.integers(0, highest + 1, (number, 4, 4), dtype=np.uint8)


def make(num_envs: int, endpoint: str, **arguments: Any) -> Any:
    return gym.make_vec("twofold/Game2048-v0", num_envs=num_envs, endpoint=endpoint, **arguments)


# ---- the network ---------------------------------------------------------------------------------


def test_all_eight_images_of_a_board_have_one_value(network: Any) -> None:
    boards = some_boards(50)
    images = [
        np.rot90(b, turn, axes=(1, 2)) for turn in range(4) for b in (boards, boards.swapaxes(1, 2))
    ]
    values = [network.look_up(np.ascontiguousarray(image)) for image in images]
    assert np.unique(values[0]).size > 40
    for value in values[1:]:
        np.testing.assert_allclose(value, values[0], rtol=1e-5)


def test_a_value_is_the_sum_of_32_weights_at_exact_places() -> None:
    network = train_ntuple.Network()
    board = np.arange(16, dtype=np.uint8).reshape(1, 4, 4)
    for table, cells in zip(network.tables, train_ntuple.TUPLES, strict=True):
        places = table.places(train_ntuple.cells_of(board))
        assert places.shape == (8, 1)
        # The first image is the unchanged board.
        assert places[0, 0] == sum(cell * 16**digit for digit, cell in enumerate(cells))
        table.weights[:] = 0.25
    assert network.look_up(board) == [8.0]


def test_tiles_past_32768_do_not_leave_the_table(network: Any) -> None:
    cells = train_ntuple.cells_of(np.full((1, 4, 4), 17, np.uint8))
    for table in network.tables:
        assert set(table.places(cells).ravel().tolist()) == {16**6 - 1}


def test_errors_of_one_weight_are_averaged() -> None:
    table = train_ntuple.TupleTable((0, 1, 2, 3, 4, 5))
    table.correct(np.array([[5, 5, 9, 5]]), np.array([1, 3, -2, 8], np.float32))
    assert table.weights[5] * train_ntuple.FEATURES == pytest.approx(4)
    assert table.weights[9] * train_ntuple.FEATURES == pytest.approx(-2)
    assert np.count_nonzero(table.weights) == 2


@pytest.mark.parametrize("copies", [1, 2, 1000])
def test_one_update_brings_a_board_to_its_target_however_often_it_occurs(copies: int) -> None:
    network = train_ntuple.Network()
    boards = np.repeat(some_boards(1), copies, axis=0)
    network.update(boards, 1000 - network.look_up(boards))
    np.testing.assert_allclose(network.look_up(boards), 1000, rtol=1e-5)


def test_errors_that_cancel_bring_the_rate_to_zero() -> None:
    table = train_ntuple.TupleTable((0, 1, 2, 3, 4, 5))
    weights = [0.0]
    for error in (32, -32, 32):
        table.correct(np.array([[7]]), np.array([error], np.float32))
        weights.append(float(table.weights[7]))
    # The rate is 1 while all errors agree, and 0 after +32 and -32.
    assert weights == [0, 1, 0, 0]


def test_an_update_of_no_boards_changes_nothing(network: Any) -> None:
    before = [table.weights.copy() for table in network.tables]
    boards = some_boards(0)
    network.update(boards, network.look_up(boards))
    for table, weights in zip(network.tables, before, strict=True):
        assert np.array_equal(table.weights, weights)


# ---- choosing ------------------------------------------------------------------------------------


def test_the_choice_is_the_best_legal_reward_plus_value(network: Any) -> None:
    rng = np.random.default_rng(2)
    boards = some_boards(400).reshape(100, 4, 4, 4)
    rewards = rng.integers(0, 5, (100, 4)).astype(np.float32)
    mask = rng.integers(0, 2, (100, 4), dtype=np.int8)
    mask[:10] = 0
    choice = train_ntuple.choose(network, boards, rewards, mask)
    values = network.look_up(boards.reshape(-1, 4, 4)).reshape(100, 4)
    assert np.array_equal(choice.lanes, np.flatnonzero(mask.any(axis=1)))
    for lane in range(100):
        legal = np.flatnonzero(mask[lane])
        if not len(legal):
            assert choice.worth[lane] == 0
            continue
        worth = rewards[lane] + values[lane]
        assert choice.actions[lane] == max(legal, key=lambda action: worth[action])
        assert choice.worth[lane] == pytest.approx(worth[choice.actions[lane]])
    chosen = boards[choice.lanes, choice.actions[choice.lanes]]
    assert np.array_equal(choice.boards, chosen)
    np.testing.assert_allclose(choice.values, network.look_up(chosen))


# ---- learning over a server ----------------------------------------------------------------------


class Spy:
    """A network that values every afterstate at 1000, and records its updates."""

    def __init__(self) -> None:
        self.errors: list[Any] = []

    def look_up(self, boards: Any) -> Any:
        return np.full(len(boards), 1000, np.float32)

    def update(self, boards: Any, errors: Any) -> None:
        assert boards.shape == (len(errors), 4, 4)
        self.errors.append(errors)


def test_nothing_is_learned_from_autoreset_steps_and_truncation_is_not_an_end() -> None:
    spy, envs = Spy(), make(16, "embedded", max_episode_steps=3)
    train_ntuple.train(envs, spy, seconds=0.2, seed=0)
    envs.close()
    # Three steps, then the step that only resets.
    assert [len(errors) for errors in spy.errors[:12]] == [16, 16, 16, 0] * 3
    assert all((errors >= 0).all() for errors in spy.errors)


def test_the_last_afterstate_of_a_terminated_episode_has_the_value_zero() -> None:
    spy, envs = Spy(), make(16, "embedded", goal=8, stop_at_goal=True)
    train_ntuple.train(RecordEpisodeStatistics(envs), spy, seconds=0.2, seed=0)
    envs.close()
    errors = np.concatenate(spy.errors)
    assert (errors == -1000).sum() > 16
    assert (errors[errors != -1000] >= 0).all()  # the rewards


@pytest.mark.usefixtures("_small_tables")
def test_the_program_trains_over_a_server_and_saves_its_curve_and_its_evaluation(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--seconds", "1.5", "--num-envs", "128", "--episodes", "100", "--out", str(tmp_path)]
    train_ntuple.main([*words, "--endpoint", server.tcp])
    evaluation = json.loads((tmp_path / "evaluation.json").read_text())
    assert evaluation["episodes"] == 100
    assert evaluation["score"]["mean"] > 2 * 1095
    report = json.loads((tmp_path / "curve.json").read_text())
    assert report["options"]["num_envs"] == 128
    [last] = report["curve"]
    assert last["steps"] == 768 * 128
    assert last["seconds"] == 1.5
    assert last["steps_per_second"] == 512 * 128
    shown = capsys.readouterr().out
    assert shown.startswith("    2 s         98,304 steps     65,536 steps/s  score ")
    assert "100 games" in shown


@pytest.mark.usefixtures("_small_tables")
def test_networks_at_given_times_are_saved(tmp_path: Path) -> None:
    words = ["--num-envs", "64", "--episodes", "20", "--out", str(tmp_path), "--seconds", "0.75"]
    train_ntuple.main([*words, "--save-at", "0.75", "0.5"])
    early, late = json.loads((tmp_path / "curve.json").read_text())["saved"]
    assert [early["file"], late["file"]] == ["agent-0.5.npz", "agent-0.75.npz"]
    assert [early["seconds"], late["seconds"]] == [0.5, 0.75]
    # Almost all steps are moves.
    assert 246 * 64 < early["moves"] < 256 * 64
    assert 369 * 64 < late["moves"] < 384 * 64
    networks = [NTuple.load(tmp_path / one["file"]) for one in (early, late)]
    learnt = [sum(np.count_nonzero(table) for table in one.weights) for one in networks]
    assert 0 < learnt[0] < learnt[1]


def test_the_random_agent_scores_like_random_play() -> None:
    # The standard deviation of one game is 535.
    assert abs(random_agent.main(num_envs=500, endpoint="embedded") - 1095) < 4 * 535 / 500**0.5


# ---- comparing training runs ---------------------------------------------------------------------


def test_training_runs_are_compared_over_their_common_range(tmp_path: Path) -> None:
    paths = []
    for index, speed in enumerate((1, 2)):
        told = [
            {
                "episodes": 100 * at,
                "steps": 10**6 * at,
                "seconds": 60 * at / speed,
                "evaluation": {"score": {"mean": at}},
            }
            for at in (1 * speed, 3 * speed)
        ]
        paths.append(tmp_path / f"{index}.json")
        paths[-1].write_text(json.dumps({"evaluations": told}))
    trainings = [learning_figures.evaluations(path) for path in paths]
    table = tables.learning(learning_figures.compared(trainings))
    # From 200 games, where the second run begins, to 300, where the first run ends.
    assert "| games | 200 | 2 | 2 to 2 |" in table
    assert "| games | 300 | 3 | 3 to 3 |" in table
    assert "| minutes | 2.0 | 3 | 2 to 4 |" in table


def test_a_training_run_without_evaluations_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps({"evaluations": []}))
    with pytest.raises(SystemExit, match="--evaluate-every"):
        learning_figures.evaluations(path)
