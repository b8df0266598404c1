"""Tests of optimal play on small boards: the table, the infos, the policy, and regret.

The expected values come from certify/exact.py, which shares no code with the server.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import exact
import numpy as np
import pytest
from numpy.typing import NDArray
from servers import PATIENCE

import twofold
from twofold.client.lookup import find_program
from twofold.errors import FailedPrecondition, InvalidArgument
from twofold.evaluation import Evaluation
from twofold.evaluation.regret import Regret
from twofold.judging import Failure
from twofold.policies.choosers import PlayerChooser

EXTRAS = ("optimal_value", "action_values", "regret")
OPTIMUM, UNIFORM = 66.96414946, 19.65654018
GOALS: dict[str, Any] = {"objective": "goal", "goal": 16}


def solve(*arguments: str) -> dict[str, Any]:
    """Solves a board with the server program. Returns the JSON that the program prints."""
    command = [str(find_program()), "solve", "--json", "--quiet", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.fixture(scope="module")
def tables() -> Path:
    """A directory with some tables."""
    for arguments in (
        ["--size", "2"],
        ["--size", "2", "--objective", "goal", "--goal", "16"],
        ["--size", "2", "--goal", "16", "--stop-at-goal"],
        ["--size", "2x3"],
    ):
        solve(*arguments)
    return Path(os.environ["TWOFOLD_TABLES"])


@cache
def exact_values(best: str | int = "score") -> tuple[dict[bytes, float], dict[bytes, Any]]:
    """Returns the value of each 2 x 2 board, and of its actions, by the board's exponents."""
    goal = best if isinstance(best, int) else None
    solver = exact.Solver(2, 2, goal=goal)
    values: dict[str, float] = {}
    actions: dict[str, list[float]] = {}
    for board in reversed(solver.boards()):
        actions[board] = [-math.inf] * 4
        for after, score, action in solver.after[board]:
            reached = goal is not None and exact.exponent(after) >= solver.goal
            gain = float(reached) if goal else score
            rest = sum(chance * values[spawned] for spawned, chance in solver.spawns(after))
            actions[board][action] = gain + rest
        values[board] = max([0.0, *actions[board]])
    packed = {board: bytes(exact.exponent(cell) for cell in board) for board in values}
    return (
        {packed[board]: value for board, value in values.items()},
        {packed[board]: each for board, each in actions.items()},
    )


# ---- solve ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "changes", "best"),
    [
        ([], {}, "score"),
        (["--objective", "moves"], {}, "moves"),
        (["--four-probability", "0.4"], {"four_probability": 0.4}, "score"),
        (["--start-tiles", "3"], {"start_tiles": 3}, "score"),
        (["--objective", "goal", "--goal", "32"], {"goal": 32}, 32),
        (["--goal", "16", "--stop-at-goal"], {"goal": 16}, "score"),
    ],
)
def test_a_solved_board_has_the_exact_values(
    arguments: list[str], changes: dict[str, Any], best: str | int, tmp_path: Path
) -> None:
    solved = solve("--size", "2", "--tables", str(tmp_path), *arguments)
    known = exact.Solver(2, 2, **changes).solve(best=best)
    assert solved["value"] == pytest.approx(known[best], rel=1e-12)
    assert solved["moves"] == pytest.approx(known["moves"], rel=1e-5)
    assert solved["score"] == pytest.approx(known["score"], rel=1e-5)
    for tile, probability in solved["reached"].items():
        assert probability == pytest.approx(known[int(tile)], abs=1e-5)
    # A second run finds the table and checks it.
    assert solve("--size", "2", "--tables", str(tmp_path), *arguments)["value"] == solved["value"]


def test_2x2_has_the_known_boards_and_values(tmp_path: Path) -> None:
    solved = solve("--size", "2", "--tables", str(tmp_path))
    assert (solved["states"], solved["terminal"]) == (110, 36)
    assert solved["value"] == pytest.approx(OPTIMUM, abs=5e-9)
    assert solved["error_bound"] < 1e-5


@pytest.mark.parametrize(
    "arguments",
    [
        ["--size", "4"],
        ["--size", "2x"],
        ["--size", "2", "--objective", "goal"],
        ["--size", "2", "--stop-at-goal"],
        ["--size", "2", "--objective", "goal", "--goal", "64"],
        ["--size", "2", "--four-probability", "2"],
    ],
    ids=" ".join,
)
def test_a_board_that_has_no_optimum_is_wrong_usage(arguments: list[str]) -> None:
    command = [str(find_program()), "solve", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 64
    assert done.stdout == ""


# ---- infos ---------------------------------------------------------------------------------------


@pytest.fixture
def make(tables: Path, endpoint: str) -> Iterator[Any]:
    made: list[Any] = []

    def make(num_envs: int = 64, **arguments: Any) -> Any:
        usual: dict[str, Any] = {"size": 2, "extra_infos": EXTRAS, "endpoint": endpoint}
        made.append(twofold.Game2048VectorEnv(num_envs, **(usual | arguments)))
        return made[-1]

    yield make
    for envs in made:
        envs.close()


def random_actions(rng: np.random.Generator, mask: NDArray[Any]) -> NDArray[Any]:
    """Returns random actions, most of them legal."""
    chances = rng.random(mask.shape) * (mask + 0.05)
    return np.asarray(chances.argmax(axis=1))


def assert_near(found: Any, expected: Any, tolerance: float = 1e-5) -> None:
    """Compares whole arrays, because `pytest.approx` takes long for thousands of numbers."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance, equal_nan=False)


@pytest.mark.parametrize(
    ("mode", "changes"), [("NextStep", {}), ("SameStep", GOALS)], ids=["score", "goal"]
)
def test_every_step_reports_the_exact_values(make: Any, mode: str, changes: dict[str, Any]) -> None:
    values, actions = exact_values(16 if changes else "score")
    envs, rng = make(autoreset_mode=mode, **changes), np.random.default_rng(1)
    boards, infos = envs.reset(seed=1)
    begins = np.zeros(64, np.bool_)
    for _ in range(200):
        before, mask = boards, infos["action_mask"]
        played = random_actions(rng, mask)
        boards, _, terminated, _, infos = envs.step(played)
        value, known, regret = np.zeros(64), np.zeros((64, 4)), np.zeros(64)
        for lane in range(64):
            # Once the goal is reached, there is nothing left to win.
            if changes and boards[lane].max() >= 4:
                known[lane] = np.where(infos["action_mask"][lane], 0.0, -np.inf)
            else:
                board = boards[lane].tobytes()
                value[lane], known[lane] = values[board], actions[board]
            old, was_past = before[lane].tobytes(), bool(changes) and before[lane].max() >= 4
            if not begins[lane] and mask[lane, played[lane]] and not was_past:
                regret[lane] = values[old] - actions[old][played[lane]]
        assert_near(infos["optimal_value"], value)
        assert_near(infos["action_values"], known)
        assert_near(infos["regret"], regret, tolerance=2e-5)
        begins = terminated if mode == "NextStep" else begins


@pytest.mark.parametrize("copy", [True, False])
def test_the_final_info_has_the_values_of_the_final_board(make: Any, copy: bool) -> None:
    values, actions = exact_values()
    envs, rng = (
        make(autoreset_mode="SameStep", max_episode_steps=7, copy=copy),
        np.random.default_rng(2),
    )
    _, infos = envs.reset(seed=1)
    truncations = 0
    for _ in range(50):
        played = random_actions(rng, infos["action_mask"])
        boards, _, terminated, truncated, infos = envs.step(played)
        ended = terminated | truncated
        # The infos themselves belong to the new boards, and all of them are valid.
        assert infos["_optimal_value"].all()
        assert infos["_action_values"].all()
        assert infos["_regret"].tolist() == (~ended).tolist()
        if not ended.any():
            continue
        begun = [board.tobytes() for board in boards[ended]]
        last = [board.tobytes() for board in infos["final_obs"][ended]]
        final = infos["final_info"]
        for told, known in ((infos, begun), (final, last)):
            assert_near(told["optimal_value"][ended], [values[board] for board in known])
            assert_near(told["action_values"][ended], [actions[board] for board in known])
        assert final["regret"][ended].tolist() == infos["regret"][ended].tolist()
        assert [values[board] == 0 for board in last] == terminated[ended].tolist()
        truncations += np.count_nonzero(truncated & ~terminated)
        for name in EXTRAS:
            assert final["_" + name][ended].all()
    assert truncations > 20
    data = envs.rollout(40, policy="random")
    finals = data.finals
    known = [values[board.tobytes()] for board in finals.observations]
    assert len(known) > 50
    assert finals.infos["optimal_value"] == pytest.approx(known, abs=1e-5)


def test_an_illegal_action_has_no_regret_or_all_of_the_value(make: Any) -> None:
    board = np.array([[1, 2], [3, 3]], np.uint8)
    values, _ = exact_values()
    for illegal_action, cost in (("noop", 0.0), ("terminate", values[board.tobytes()])):
        envs = make(1, illegal_action=illegal_action)
        envs.reset(seed=0, options={"boards": board[np.newaxis]})
        _, _, terminated, _, infos = envs.step([0])
        assert infos["regret"] == pytest.approx([cost])
        assert terminated == [illegal_action == "terminate"]
        assert infos["optimal_value"] == pytest.approx([values[board.tobytes()] - cost])
        assert np.isneginf(infos["action_values"]).all() == terminated[0]


def test_the_values_follow_resets_snapshots_and_forks(make: Any) -> None:
    envs = make(4)
    envs.reset(seed=3)
    blob = envs.snapshot()
    actions = envs.rollout(1, policy="random").actions[0]
    envs.restore(blob)
    boards, *_, infos = envs.step(actions)
    regrets = infos["regret"].copy()
    envs.restore(blob)
    assert envs.step(actions)[4]["regret"].tobytes() == regrets.tobytes()
    fork = envs.fork([1], 3)
    values, actions_of = exact_values()
    rest = boards[1].tobytes()
    legal = int(np.argmax(np.isfinite(actions_of[rest])))
    regret = values[rest] - actions_of[rest][legal]
    assert fork.step([legal] * 3)[4]["regret"] == pytest.approx([regret] * 3, abs=2e-5)
    fork.close()
    boards, infos = envs.reset(options={"reset_mask": np.array([True, False, False, False])})
    begun = boards[0].tobytes()
    legal = int(np.argmax(infos["action_mask"][0]))
    regret = values[begun] - actions_of[begun][legal]
    regrets = envs.step(infos["action_mask"].argmax(axis=1))[4]["regret"]
    assert regrets[0] == pytest.approx(regret, abs=2e-5)


def test_rollouts_have_the_same_infos_as_steps(make: Any) -> None:
    envs = make(130, autoreset_mode="Disabled", extra_infos=("regret", "chance", "optimal_value"))
    envs.reset(seed=5)
    data = envs.rollout(40, policy="random", infos=("regret", "optimal_value", "chance"))
    assert not data.infos["regret"][~data.valid].any()
    values, actions = exact_values()
    boards = [board.tobytes() for board in data.observations[:-1][data.valid]]
    played = zip(boards, data.actions[data.valid], strict=True)
    regrets = [values[board] - actions[board][action] for board, action in played]
    assert_near(data.infos["regret"][data.valid], regrets, tolerance=2e-5)
    again = make(130, extra_infos=("chance",))
    again.reset(seed=5)
    assert (again.step(data.actions[0])[4]["chance"] == data.infos["chance"][0]).all()


def test_a_board_that_no_game_reaches_has_no_value(make: Any) -> None:
    envs = make(2)
    boards = np.array([[[9, 9], [0, 0]], [[1, 1], [0, 0]]], np.uint8)
    envs.reset(seed=0, options={"boards": boards})
    infos = envs.step([3, 3])[4]
    assert np.isnan(infos["regret"]).tolist() == [True, False]
    assert np.isnan(infos["optimal_value"]).tolist() == [True, False]
    mask = infos["action_mask"] == 1
    assert np.isnan(infos["action_values"][0][mask[0]]).all()
    assert np.isneginf(infos["action_values"][0][~mask[0]]).all()
    with pytest.raises(FailedPrecondition, match="no game reaches the board of lane 0") as refused:
        envs.rollout(1, policy="optimal")
    assert (refused.value.field, refused.value.lane) == ("policy", 0)


@pytest.mark.parametrize("autoreset_mode", ["NextStep", "Disabled"])
def test_a_finished_board_that_no_game_reaches_stops_no_other(
    make: Any, autoreset_mode: str
) -> None:
    envs = make(2, autoreset_mode=autoreset_mode, max_episode_steps=1)
    boards = np.array([[[9, 9], [0, 0]], [[1, 1], [0, 0]]], np.uint8)
    envs.reset(seed=0, options={"boards": boards})
    assert envs.step([3, 3])[3].all()
    if autoreset_mode == "Disabled":
        envs.reset(seed=1, options={"reset_mask": np.array([False, True])})
    data = envs.rollout(1, policy="optimal")
    assert data.valid.tolist() == [[False, autoreset_mode == "Disabled"]]


# ---- refusals ------------------------------------------------------------------------------------


def test_without_a_table_the_refusal_names_the_command(make: Any) -> None:
    with pytest.raises(
        FailedPrecondition, match="`twofold solve --size 2x2 --start-tiles 1 --tables '/"
    ) as no:
        make(start_tiles=1)
    assert no.value.field == "extra_infos"
    envs = make(start_tiles=1, extra_infos=())
    envs.reset(seed=0)
    with pytest.raises(FailedPrecondition, match="twofold solve --size 2x2") as no:
        envs.rollout(1, policy="optimal")
    assert no.value.field == "policy"


def test_wrong_arguments_are_refused_by_name(make: Any, endpoint: str) -> None:
    for arguments, field in (
        ({"size": 4}, "size"),
        ({"size": (2, 5)}, "size"),
        ({"objective": "goal"}, "goal"),
        ({"objective": "win"}, "objective"),
        ({"extra_infos": ("regret", "regret")}, "extra_infos"),
        ({"extra_infos": ("regrets",)}, "extra_infos"),
    ):
        with pytest.raises(InvalidArgument) as refused:
            make(**arguments)
        assert refused.value.field == field
    cards = twofold.ConcentrationVectorEnv(2, endpoint=endpoint)
    cards.reset(seed=0)
    with pytest.raises(InvalidArgument, match="plays only 2048"):
        cards.rollout(1, policy="optimal")
    cards.close()


@pytest.fixture
def own(tables: Path) -> tuple[float, Path]:
    """A `four_probability` that only this test uses, because services cache tables; its table."""
    chance = next(_CHANCES) / 64
    return chance, Path(solve("--size", "2", "--four-probability", str(chance))["path"])


_CHANCES = itertools.count(1)


def test_a_table_that_changes_on_disk_changes_no_environment(
    make: Any, own: tuple[float, Path]
) -> None:
    chance, path = own
    envs = make(four_probability=chance)
    envs.reset(seed=1)
    # Writes into the same file, as cp does.
    path.write_bytes(b"\xff" * path.stat().st_size)
    assert np.isfinite(envs.step(np.zeros(64, np.int64))[4]["optimal_value"]).all()
    path.write_bytes(b"")
    assert np.isfinite(envs.step(np.ones(64, np.int64))[4]["optimal_value"]).all()


def test_a_damaged_table_is_refused_until_its_file_changes(
    make: Any, own: tuple[float, Path]
) -> None:
    chance, path = own
    path.write_bytes(path.read_bytes()[:-1])
    for _ in range(2):
        with pytest.raises(FailedPrecondition, match=r"can't be used: it has .* bytes; expected"):
            make(four_probability=chance)
    path.unlink()
    solve("--size", "2", "--four-probability", str(chance))
    make(four_probability=chance)


# ---- the policy, and regret ----------------------------------------------------------------------


def standard_error(values: NDArray[Any]) -> float:
    return float(values.std(ddof=1)) / math.sqrt(len(values))


@pytest.fixture(scope="module")
def uniform(tables: Path) -> Evaluation:
    return twofold.evaluate("random", size=2, episodes=4000, regret=True)


def test_optimal_play_attains_the_optimum_and_has_no_regret(tables: Path) -> None:
    played = twofold.evaluate("optimal", size=2, episodes=4000, regret=True)
    assert abs(played.scores.mean() - OPTIMUM) < 4 * standard_error(played.scores)
    assert played.regret is not None
    assert played.regret.games.max() < 1e-3
    assert "regret of a game" in str(played)


def test_of_equally_good_actions_optimal_play_takes_the_first(make: Any) -> None:
    envs = make(130, autoreset_mode="Disabled")
    envs.reset(seed=5)
    data = envs.rollout(20, policy="optimal", infos=("action_values",))
    # The values of a step's board are an info of the step before.
    values, valid = data.infos["action_values"][:-1], data.valid[1:]
    is_best = values == values.max(axis=-1, keepdims=True)
    assert (is_best.sum(axis=-1) > 1)[valid].any()
    assert (data.actions[1:] == is_best.argmax(axis=-1))[valid].all()


def test_optimal_play_reaches_the_goal_as_often_as_possible(tables: Path) -> None:
    played = twofold.evaluate("optimal", size=2, episodes=20_000, **GOALS)
    assert played.max_exponents is not None
    reached = played.max_exponents >= 4
    assert abs(reached.mean() - 0.9625112538) < 4 * standard_error(reached)


def test_the_sum_of_regrets_is_on_average_the_policys_loss(uniform: Evaluation) -> None:
    assert uniform.regret is not None
    games = uniform.regret.games
    assert abs(games.mean() - (OPTIMUM - UNIFORM)) < 4 * standard_error(games)
    # With the regrets added, only the randomness of the spawns remains.
    together = uniform.scores + games
    assert abs(together.mean() - OPTIMUM) < 4 * standard_error(together)


def test_regret_is_reported_per_game_per_move_and_by_kind_of_board(uniform: Evaluation) -> None:
    assert uniform.regret is not None
    report = uniform.summary["regret"]
    steps, total = int(uniform.lengths.sum()), uniform.regret.games.sum()
    assert report["per_game"]["mean"] == pytest.approx(total / 4000)
    assert report["per_move"]["mean"] == pytest.approx(total / steps)
    for name in ("per_game", "per_move", "optimum"):
        low, high = report[name]["mean_interval"]
        assert low < report[name]["mean"] < high
    assert report["optimum"]["mean"] == pytest.approx(OPTIMUM, rel=0.02)
    for name in ("by_tile_sum", "by_empty_cells"):
        rows = report[name].values()
        assert sum(row["steps"] for row in rows) == steps
        assert sum(row["share"] for row in rows) == pytest.approx(1)
        assert sum(row["steps"] * row["mean"] for row in rows) == pytest.approx(total)
    # A start board has two tiles on four cells.
    assert list(report["by_empty_cells"]) == ["0", "1", "2"]
    assert next(iter(report["by_tile_sum"])) == "4-7"
    assert "empty cells" in uniform.to_markdown()


def test_the_first_move_of_a_game_with_one_start_tile_is_in_the_report() -> None:
    chance = next(_CHANCES) / 64
    solve("--size", "2", "--start-tiles", "1", "--four-probability", str(chance))
    rules: dict[str, Any] = {"size": 2, "start_tiles": 1, "four_probability": chance}
    played = twofold.evaluate("random", episodes=200, regret=True, **rules)
    rows = played.summary["regret"]["by_tile_sum"]
    assert list(rows)[:2] == ["2-3", "4-7"]
    assert sum(row["steps"] for row in rows.values()) == played.lengths.sum()
    assert sum(row["share"] for row in rows.values()) == pytest.approx(1)


def test_a_function_and_a_policy_in_the_server_have_the_same_regrets(tables: Path) -> None:
    def first_legal(observations: Any, mask: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(mask.argmax(axis=1))

    one = twofold.evaluate(first_legal, size=2, episodes=300, num_envs=7, regret=True)
    flat = twofold.evaluate(first_legal, size=2, episodes=300, regret=True, obs="one_hot")
    assert one.regret is not None
    assert flat.regret is not None
    assert one.regret.games.tolist() == flat.regret.games.tolist()
    assert one.regret.by_tile_sum.tolist() == pytest.approx(flat.regret.by_tile_sum)
    values, actions = exact_values()
    envs = twofold.Game2048VectorEnv(1, size=2)
    boards, infos = envs.reset(seed=[2**63 + 5])
    total, is_over = 0.0, False
    while not is_over:
        action = infos["action_mask"].argmax(axis=1)
        total += values[boards.tobytes()] - actions[boards.tobytes()][action[0]]
        boards, _, terminated, _, infos = envs.step(action)
        is_over = bool(terminated[0])
    envs.close()
    assert one.regret.games[5] == pytest.approx(total, abs=1e-4)


class Quitter:
    """A player that fails in the middle of a game, or before its first move.

    Args:
        moves: The number of moves before the player fails, by the parity of its seed.
    """

    card: ClassVar[dict[str, Any]] = {}

    def __init__(self, *moves: int) -> None:
        self._moves = moves

    def make(self, envs: Any) -> Quitter:
        self._left = np.zeros(envs.num_envs, np.int64)
        return self

    def begin(self, lanes: NDArray[Any], seeds: NDArray[Any]) -> None:
        self._left[lanes] = np.array(self._moves)[(seeds % np.uint64(2)).astype(np.intp)]

    def choose(self, boards: NDArray[Any], mask: NDArray[Any], lanes: NDArray[Any]) -> list[Any]:
        self._left[lanes] -= 1
        quits = Failure("quit", "has had enough")
        first = mask.argmax(axis=1).tolist()
        return [a if n >= 0 else quits for a, n in zip(first, self._left[lanes], strict=True)]

    def summary(self) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        pass


def quitter(*moves: int) -> PlayerChooser:
    return PlayerChooser("quitter", lanes=64, policy=Quitter(*moves))  # type: ignore[arg-type]


@pytest.mark.parametrize("objective", ["score", "goal"])
def test_a_failed_game_is_charged_the_value_of_its_last_board(tables: Path, objective: str) -> None:
    own = {} if objective == "score" else GOALS
    values, actions = exact_values(own.get("goal", "score"))
    counter = "goal_reached" if own else "score"
    played = twofold.evaluate(quitter(0, 3), size=2, episodes=3_000, regret=True, **own)
    assert played.regret is not None
    assert played.failures is not None
    assert len(played.failures) > 2_900  # few games end within three moves
    for each in played.failures[:20]:
        assert each.episode is not None
        envs = twofold.Game2048VectorEnv(1, size=2, **own)
        infos: Any
        boards, infos = envs.reset(seed=[each.seed])
        regret, got = 0.0, 0.0
        for _ in range(each.step + 1):  # includes the move that replaces the failed one
            action, got = infos["action_mask"].argmax(axis=1), float(infos[counter][0])
            before = boards.tobytes()
            last = values[before] - actions[before][action[0]]
            regret += last
            boards, _, _, _, infos = envs.step(action)
        envs.close()
        unplayed = last + float(infos[counter][0]) - got + values.get(boards.tobytes(), 0.0)
        assert played.regret.unplayed[each.episode] == pytest.approx(unplayed, abs=1e-3)
        expected = regret - last + unplayed
        assert played.regret.games[each.episode] == pytest.approx(expected, abs=1e-3)
    if objective == "score":
        together = played.scores + played.regret.games
        assert abs(together.mean() - OPTIMUM) < 4 * standard_error(together)


def test_a_truncated_game_is_charged_the_value_of_its_last_board(tables: Path) -> None:
    for policy in ("random", lambda boards, mask: mask.argmax(axis=1)):
        cut = twofold.evaluate(policy, size=2, episodes=1500, max_episode_steps=4, regret=True)
        whole = twofold.evaluate(policy, size=2, episodes=100, regret=True)
        assert cut.regret is not None
        assert whole.regret is not None
        together = cut.scores + cut.regret.games
        assert abs(together.mean() - OPTIMUM) < 4 * standard_error(together)
        report = cut.summary["regret"]["unplayed"]
        assert 500 < report["games"] == np.count_nonzero(cut.regret.unplayed) < 1500
        assert report["share"] == pytest.approx(cut.regret.unplayed.sum() / cut.regret.games.sum())
        assert "unplayed, in " in str(cut)
        assert not whole.regret.unplayed.any()
        assert "unplayed" not in str(whole)


def test_games_that_fail_at_the_first_move_have_the_whole_optimum_as_regret(tables: Path) -> None:
    played = twofold.evaluate(quitter(0, 0), size=2, episodes=500, regret=True)
    regret = played.summary["regret"]
    assert regret["per_game"]["mean"] == pytest.approx(OPTIMUM, rel=0.05)
    assert regret["unplayed"] == {
        "games": 500,
        "mean": pytest.approx(regret["per_game"]["mean"]),
        "share": pytest.approx(1),
    }
    assert math.isnan(regret["per_move"]["mean"])
    assert re.search(r"^of a move +- +-$", str(played), re.MULTILINE)
    again = Evaluation.from_json(played.to_json(games=True))
    assert again.summary["regret"]["unplayed"] == regret["unplayed"]


def test_a_saved_evaluation_keeps_its_regret(tables: Path, tmp_path: Path) -> None:
    played = twofold.evaluate("random", size=2, episodes=300, regret=True, name=r"x $\foo$")
    again = Evaluation.from_json(played.to_json(games=True))
    assert again.summary["regret"] == played.summary["regret"]
    played.plot(tmp_path / "regret.png", played)
    assert (tmp_path / "regret.png").stat().st_size > 10_000


def test_infos_that_are_not_names_are_refused_before_a_game_begins(tables: Path) -> None:
    arguments: Any = {"extra_infos": "chance"}
    with pytest.raises(InvalidArgument) as caught:
        twofold.evaluate("random", size=2, episodes=1, regret=True, **arguments)
    assert caught.value.field == "extra_infos"


def test_regret_needs_a_board_with_an_optimum(tables: Path) -> None:
    with pytest.raises(InvalidArgument) as refused:
        twofold.evaluate("random", episodes=2, regret=True)
    assert refused.value.field == "size"
    envs = twofold.Game2048VectorEnv(2, size=2)
    with pytest.raises(InvalidArgument, match="extra_infos") as refused:
        twofold.evaluate(lambda o, m: m.argmax(axis=1), env=envs, episodes=2, regret=True)
    assert refused.value.field == "regret"
    envs.close()


def test_regrets_of_parts_are_joined() -> None:
    rng = np.random.default_rng(0)
    games, unplayed = rng.random((2, 5))
    sums, cells = rng.random((2, 2048, 2)), rng.random((2, 10, 2))
    parts = [
        Regret("score", games[each], unplayed[each], sums[part], cells[part])
        for part, each in enumerate((slice(0, 2), slice(2, 5)))
    ]
    joined = Regret.join(parts)
    assert joined.objective == "score"
    np.testing.assert_array_equal(joined.games, games)
    np.testing.assert_array_equal(joined.unplayed, unplayed)
    np.testing.assert_array_equal(joined.by_tile_sum, sums[0] + sums[1])
    np.testing.assert_array_equal(joined.by_empty_cells, cells[0] + cells[1])
    assert joined.summary(np.array([3, 1, 2, 4, 5]), None)["per_move"]["mean"] == pytest.approx(
        (games.sum() - unplayed.sum()) / 15
    )
