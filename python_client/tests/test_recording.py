"""Tests of recordings: small files that replay to the same board and score, or report a fault."""

import base64
import dataclasses
import errno
import itertools
import json
import math
import os
import shutil
import sys
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference
from terminal import Terminal

import twofold
from twofold import cli, errors
from twofold.cli import replay as cli_replay
from twofold.games.game2048 import DIRECTIONS, Game2048
from twofold.recordings import Recording, RecordingRules, replay
from twofold.recordings.file_format import pack_actions, unpack_actions
from twofold.recordings.recording import SpawnLawTest, binomial_p, chi_square_tail


def play(seed: int, steps: int = 10**6, **arguments: Any) -> Any:
    """Plays pseudo-random legal actions in the reference. Returns the game, actions and boards."""
    game, rng = reference.Game(seed, **arguments), np.random.default_rng(seed)
    boards = [game.board]
    actions: list[int] = []
    while not game.terminated and len(actions) < steps:
        actions.append(int(rng.choice(game.legal())))
        game.step(actions[-1])
        boards.append(game.board)
    shape = (game.rows, game.columns)
    return game, actions, np.array(boards, np.uint8).reshape(-1, *shape)


def recording(seed: int = 5, **arguments: Any) -> Recording:
    _, actions, _ = play(seed, **arguments)
    sizes = {k: v for k, v in arguments.items() if k != "steps"}
    return Recording.of_seed(RecordingRules(**sizes), seed, actions)


RULES = [
    {},
    {"rows": 3, "columns": 5, "start_tiles": 4},
    {"rows": 2, "columns": 2, "four_probability": 0.5},
    {"rows": 8, "columns": 3, "four_probability": 1.0, "steps": 150},
    {"rows": 6, "columns": 8, "four_probability": 0.0, "steps": 150},
]


# ---- the replay ----------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", RULES)
def test_a_replay_goes_through_the_boards_of_the_reference(arguments: dict[str, Any]) -> None:
    for seed in (0, 2**63 + 1, 2**64 - 1):
        game, actions, boards = play(seed, **arguments)
        sizes = {k: v for k, v in arguments.items() if k != "steps"}
        made = Recording.of_seed(RecordingRules(**sizes), seed, actions)
        np.testing.assert_array_equal(made.first_board(), boards[0])
        for step, board in zip(made.steps(), boards[1:], strict=True):
            assert step.board == board.ravel().tolist()
        assert made.score == game.score
        verified = made.verify()
        assert (verified.moves, verified.score, verified.is_over) == (
            game.moves,
            game.score,
            game.terminated,
        )


def test_illegal_actions_are_steps_without_moves_or_random_draws() -> None:
    seed = next(s for s in range(99) if len(reference.Game(s).legal()) < 4)
    game = reference.Game(seed)
    illegal = next(a for a in range(4) if a not in game.legal())
    legal = game.legal()[0]
    game.step(illegal)
    game.step(legal)
    made = Recording.of_seed(RecordingRules(), seed, [illegal, legal])
    assert tuple(made.board.ravel()) == game.board
    assert made.verify().illegal_actions == 1
    assert ", 1 illegal actions; every new tile follows from the generator" in str(made.verify())
    moves = base64.b64decode(made.to_html().split('"moves": "', 1)[1].split('"', 1)[0])
    assert moves[:4] == bytes((illegal, 0, 0xFF, legal))  # no motion and no new tile


@pytest.mark.parametrize(
    ("actions", "text"),
    [
        ([0, 1, 4], r"action 2 is 4; expected 0 \.\.\. 3"),
        ([-1], "action 0 is -1;"),
        ([0.5], r"actions are float64 of shape \(1,\)"),
        ([[0]], r"of shape \(1, 1\); expected integers \(steps,\)"),
    ],
)
def test_wrong_actions_are_not_recorded(actions: Any, text: str) -> None:
    with pytest.raises(errors.InvalidArgument, match=text) as caught:
        Recording.of_seed(RecordingRules(), 5, actions)
    assert caught.value.field == "actions"


def test_rules_must_be_recording_rules() -> None:
    rules: Any = {"rows": 3}
    with pytest.raises(errors.InvalidArgument, match="expected RecordingRules") as caught:
        Recording.of_seed(rules, 5, [0])
    assert caught.value.field == "rules"


def test_motions_are_listed_from_the_wall() -> None:
    board = [1, 1, 1, 1, 0, 2, 0, 2]
    reward, motions = replay.move(board, 2, 4, 3)
    assert (reward, board) == (16, [2, 2, 0, 0, 3, 0, 0, 0])
    assert [tuple(m) for m in motions] == [
        (1, 0, True),
        (2, 1, False),
        (3, 1, True),
        (5, 4, False),
        (7, 4, True),
    ]


# ---- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", RULES)
def test_a_saved_file_loads_unchanged_and_is_small(
    arguments: dict[str, Any], tmp_path: Path
) -> None:
    made = recording(**arguments)
    made.save(tmp_path / "a.json")
    again = Recording.load(tmp_path / "a.json")
    assert again.to_json() == made.to_json()
    assert again.verify() == made.verify()
    np.testing.assert_array_equal(again.actions, made.actions)
    assert (tmp_path / "a.json").stat().st_size < 1500 + len(made.actions) / 2


def test_two_threads_may_save_the_same_file(tmp_path: Path) -> None:
    made, path = recording(), tmp_path / "a.json"
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: made.save(path), range(20)))
    assert Recording.load(path).to_json() == made.to_json()
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("number", [errno.EBUSY, errno.EPERM])
def test_a_file_that_can_not_be_replaced_is_overwritten(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(source: Path, target: Path) -> None:  # as for a file that is mounted
        raise OSError(number, os.strerror(number), source, None, target)

    monkeypatch.setattr(os, "replace", refused)
    check_that_a_save_overwrites(tmp_path / "a.json")


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()])
def test_an_overwrite_that_fails_leaves_a_complete_file(
    failure: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(source: Path, target: Path) -> None:
        raise OSError(errno.EBUSY, "busy", source, None, target)

    def truncates(source: Path, target: Path) -> None:
        target.write_bytes(b"")
        raise failure

    path = tmp_path / "a.json"
    recording().save(path)
    complete = path.read_bytes()
    monkeypatch.setattr(os, "replace", refused)
    monkeypatch.setattr(shutil, "copyfile", truncates)
    with pytest.raises(type(failure)) as raised:
        recording().save(path)
    [kept] = set(tmp_path.iterdir()) - {path}
    assert kept.read_bytes() == complete
    assert isinstance(failure, KeyboardInterrupt) or str(kept) in str(raised.value)


def test_a_file_in_a_folder_without_write_permission_is_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As for a user who isn't root.
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)
    check_that_a_save_overwrites(tmp_path / "a.json")


def check_that_a_save_overwrites(path: Path) -> None:
    made = recording()
    path.touch()
    before = path.stat().st_ino
    made.save(path)
    assert Recording.load(path).to_json() == made.to_json()
    assert path.stat().st_ino == before
    assert list(path.parent.iterdir()) == [path]


def test_ten_thousand_moves_take_four_kilobytes() -> None:
    actions = np.random.default_rng(0).integers(0, 4, 10_000)
    made = Recording.of_seed(RecordingRules(), 1, actions)
    assert len(made.to_json()) < 4200


def test_actions_are_packed_four_to_a_byte() -> None:
    assert pack_actions(np.array([1, 2, 3, 0, 3], np.uint8)) == bytes([0b00_11_10_01, 0b11])
    for length in range(9):
        actions = np.arange(length).astype(np.uint8) % 4
        np.testing.assert_array_equal(unpack_actions(pack_actions(actions), length), actions)


def change(document: dict[str, Any], part: str, value: Any) -> str:
    changed = dict(document)
    if value is None:
        del changed[part]
    else:
        changed[part] = value
    return json.dumps(changed)


@pytest.mark.parametrize(
    ("part", "value", "text"),
    [
        ("format", "png", 'its "format" is not'),
        ("version", 2, "version is 2; expected 1"),
        ("environment", "chess", "environment is 'chess'"),
        ("rules", {"rows": 1}, "rows is 1"),
        ("rules", {"walls": 1}, "rules: .*walls"),
        ("actions", "###", "actions: "),
        ("actions", "é", "actions: "),
        ("actions", "AAAA", "actions: 3 bytes for"),
        ("actions", None, "'actions' is missing"),
        ("steps", "many", "steps is str; expected int"),
        ("generator", [1, 2, 3], "four 32-bit words"),
        ("generator", None, "either a generator or spawns"),
        ("spawns", "AAAA", "either a generator or spawns"),
        ("seed", "6", "does not belong to seed 6"),
        ("seed", "-6", "seed is '-6'"),
        ("seed", "\u0665", "seed is "),
        ("seed", "9" * 5000, r"seed is '9+'; expected 0 ... 2\^64 - 1"),
        ("board", [[1, 2], [3, 4]], "board: expected 4 rows of 4 exponents"),
        ("board", [1, 2, 3, 4], "board: expected 4 rows of 4 exponents"),
        ("board", [[99] * 4] * 4, "board: expected 4 rows of 4 exponents"),
        ("score", None, "'score' is missing"),
    ],
)
def test_a_damaged_file_is_reported_with_the_damaged_part(part: str, value: Any, text: str) -> None:
    document = json.loads(recording().to_json())
    with pytest.raises(errors.InvalidRecording, match=text):
        Recording.from_json(change(document, part, value))


def test_other_files_are_not_recordings(tmp_path: Path) -> None:
    for content in (b"\xff\x00", b"", b"[]", b"{}", b'"twofold-recording"', b"[" * 200_000):
        (tmp_path / "a").write_bytes(content)
        with pytest.raises(errors.InvalidRecording, match="not a recording"):
            Recording.load(tmp_path / "a")
    with pytest.raises(FileNotFoundError):
        Recording.load(tmp_path / "b")


@pytest.mark.timeout(60)
def test_a_pipe_and_a_device_are_not_recordings(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(
            errors.InvalidRecording, match=r"not a recording: .* not a regular file"
        ):
            Recording.load(path)


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="needs /proc of Linux")
def test_a_failed_read_names_the_file() -> None:
    # The first page of a process is never readable.
    with pytest.raises(OSError, match="Input/output error: '/proc/self/mem'"):
        Recording.load("/proc/self/mem")
    with pytest.raises(OSError, match="Input/output error: '/proc/self/mem'"):
        twofold.policies.NTuple.load("/proc/self/mem")


def test_a_changed_score_board_or_action_does_not_verify() -> None:
    document = json.loads(recording().to_json())
    board = [list(row) for row in document["board"]]
    board[2][1] += 1
    actions = "A" + document["actions"][1:]
    if actions == document["actions"]:
        actions = "B" + document["actions"][1:]
    for part, value, text in (
        ("score", document["score"] + 4, f"replay's score is {document['score']}; the recording"),
        ("board", board, "last board has .* in row 2, column 1; the recording has"),
        ("actions", actions, "the replay's"),
    ):
        changed = Recording.from_json(change(document, part, value))
        with pytest.raises(errors.InvalidRecording, match=text):
            changed.verify()
        with pytest.raises(errors.InvalidRecording, match=text):
            changed.to_html()


# ---- games of other engines ----------------------------------------------------------------------


@pytest.mark.parametrize("arguments", RULES)
def test_a_game_of_another_engine_is_imported_from_its_boards(arguments: dict[str, Any]) -> None:
    game, _, boards = play(11, **arguments)
    law = {k: arguments[k] for k in ("four_probability", "start_tiles") if k in arguments}
    made = Recording.from_boards(boards, score=game.score, **law)
    assert made.generator is None
    again = Recording.from_json(made.to_json())
    verified = again.verify()
    assert (verified.score, verified.moves) == (game.score, game.moves)
    assert verified.spawns_fit
    assert "fit the spawn probabilities" in str(verified)


def test_a_recording_may_start_in_the_middle_of_a_game(tmp_path: Path) -> None:
    _, _, boards = play(11)
    whole = Recording.from_boards(boards)
    assert whole.spawns is not None
    steps = list(whole.steps())[40:]
    later = dataclasses.replace(
        whole,
        start=boards[40],
        actions=whole.actions[40:],
        spawns=whole.spawns[42:],
        score=sum(step.reward for step in steps),
    )
    later.save(tmp_path / "a.json")
    again = Recording.load(tmp_path / "a.json")
    np.testing.assert_array_equal(again.first_board(), boards[40])
    assert list(again.steps()) == steps
    assert again.verify().moves == len(steps)


def test_new_tiles_that_do_not_fit_the_moves_do_not_verify() -> None:
    _, _, boards = play(11)
    made = Recording.from_boards(boards)
    assert made.spawns is not None
    first, count = made.spawns[0], len(made.spawns)
    for at, value, text in (
        (1, first, f"start tile 1: outcome {first} cannot be placed; expected an empty cell"),
        (5, 32, "step 3: outcome 32 cannot be placed"),
        (count, 0, f"spawns lists {count + 1} new tiles; {count - 2} moves need {count}"),
    ):
        spawns = np.append(made.spawns, 0)[: max(count, at + 1)]
        spawns[at] = value
        with pytest.raises(errors.InvalidRecording, match=text):
            dataclasses.replace(made, spawns=spawns).verify()


def test_boards_that_do_not_follow_are_reported() -> None:
    _, _, boards = play(11)
    for change_at, cell, value in ((0, None, 3), (7, 0, 9)):
        changed = boards.copy()
        at = np.flatnonzero(changed[change_at].ravel())[0] if cell is None else cell
        changed[change_at].ravel()[at] = value
        with pytest.raises(errors.InvalidArgument, match=f"board {change_at} "):
            Recording.from_boards(changed)
    values = boards.astype(int)
    values[3, 0, 0] = 2048
    with pytest.raises(errors.InvalidArgument, match="board 3 has exponents outside"):
        Recording.from_boards(values)
    with pytest.raises(errors.InvalidArgument, match="of shape"):
        Recording.from_boards(boards[0])
    with pytest.raises(errors.InvalidArgument, match="boards can't be read as an array"):
        Recording.from_boards([[[1, 0], [0, 1]], [[2]]])
    up = [[[1, 0], [0, 1]], [[1, 1], [2, 0]]]
    assert Recording.from_boards(up).verify().moves == 1
    up[1][1][0] = 3
    with pytest.raises(errors.InvalidArgument, match="board 1 does not follow"):
        Recording.from_boards(up)


def test_the_threshold_for_a_4_is_rounded_half_up() -> None:
    assert [replay.threshold_of(half / 2**33) for half in range(6)] == [0, 1, 1, 2, 2, 3]


def test_numbers_of_numpy_are_saved(tmp_path: Path) -> None:
    game, _, boards = play(11, 20)
    made = Recording.from_boards(
        boards,
        score=np.int64(game.score),
        four_probability=np.float32(0.125),
        start_tiles=np.int64(2),
    )
    made.save(tmp_path / "game.json")
    loaded = Recording.load(tmp_path / "game.json")
    loaded.verify()
    assert loaded.rules == made.rules
    assert loaded.to_html() == made.to_html()


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        *(("score", score) for score in (12.0, "12", True, math.nan, -1)),
        *(("about", about) for about in ({"x": np.int64(1)}, {"x": math.nan}, "text", 5)),
        ("four_probability", "0.1"),
        ("start_tiles", 2.0),
    ],
    ids=str,
)
def test_an_argument_that_a_file_cannot_hold_is_refused(argument: str, value: Any) -> None:
    _, _, boards = play(11, 20)
    with pytest.raises(errors.InvalidArgument, match=argument) as caught:
        Recording.from_boards(boards, **{argument: value})
    assert caught.value.field == argument


def test_a_score_that_contradicts_the_rules_does_not_verify() -> None:
    game, _, boards = play(11)
    made = Recording.from_boards(boards, score=int(boards[-1].max()))
    with pytest.raises(errors.InvalidRecording, match=f"score is {game.score}; the recording"):
        made.verify()


def spoilt(kind: str) -> Any:
    """Returns a recording of a long game by an engine that spawns tiles wrongly."""
    rng = np.random.default_rng(2)
    board = [0] * 16
    for cell in (0, 15):
        board[cell] = 1
    boards = [list(board)]
    while len(boards) < 400 and replay.legal(board, 4, 4):
        choice = replay.legal(board, 4, 4)
        replay.move(board, 4, 4, next(a for a in (0, 3, 1, 2) if a in choice))
        empty = [cell for cell in range(16) if not board[cell]]
        fours = 0.35 if kind == "fours" else 0.1
        last = len(empty) if kind != "last" else max(1, len(empty) - 1)
        board[empty[rng.integers(last)]] = 2 if rng.random() < fours else 1
        boards.append(list(board))
    return np.array(boards).reshape(-1, 4, 4)


def test_wrong_spawn_laws_are_noticed() -> None:
    right = Recording.from_boards(spoilt("none")).verify()
    assert right.spawns_fit
    fours = Recording.from_boards(spoilt("fours")).verify()
    assert not fours.spawns_fit
    assert fours.fours_p is not None
    assert fours.fours_p < 1e-6
    last = Recording.from_boards(spoilt("last")).verify()
    assert last.cells_p is not None
    assert right.cells_p is not None
    assert last.cells_p < 1e-4 < right.cells_p
    assert "do NOT fit" in str(last)


def test_p_values_are_uniform_under_the_right_spawn_law() -> None:
    values = []
    for seed in range(30):
        _, _, boards = play(seed)
        verified = Recording.from_boards(boards).verify()
        assert verified.cells_p is not None
        values.append(verified.cells_p)
    assert 0.33 < np.mean(values) < 0.67
    assert min(values) > 1e-4


@pytest.mark.parametrize(
    ("rules", "actions"),
    [
        (RecordingRules(), [0, 1]),
        (RecordingRules(four_probability=0.01), [0, 1, 2, 3, 0]),
        (RecordingRules(8, 8), [0, 1] * 4),
    ],
    ids=str,
)
def test_short_honest_games_fit_the_spawn_law(rules: RecordingRules, actions: list[int]) -> None:
    for seed in range(100):
        game = Recording.of_seed(rules, seed, actions)
        steps = [np.array(step.board).reshape(rules.rows, -1) for step in game.steps()]
        boards = [game.first_board(), *steps]
        moves = [new for old, new in itertools.pairwise(boards) if (old != new).any()]
        fours = rules.four_probability
        made = Recording.from_boards([boards[0], *moves], four_probability=fours)
        assert made.verify().spawns_fit, seed


def test_tiles_in_cells_that_are_seldom_empty_fit_the_spawn_law() -> None:
    law = SpawnLawTest(RecordingRules(8, 8))
    for cell in list(range(16, 64)) * 10:
        law.add([1] * 16 + [0] * 48, cell)
    for rare in range(16):
        board = [1] * 16 + [0] * 48
        board[rare] = 0
        # Three or more of 16 tiles have a probability of 0.4 %, if each has 1 / 49.
        law.add(board, rare if rare < 3 else 48)
    assert law.cells_p() > 1e-3


@pytest.mark.parametrize("share", [0.1, 0.3])  # the rounding errors are positive, and negative
def test_rounding_errors_of_many_spawns_add_no_degree_of_freedom(share: float) -> None:
    law, rng = SpawnLawTest(RecordingRules()), np.random.default_rng(0)
    surplus, covariance = np.zeros(16), np.zeros((16, 16))
    for _ in range(5000):
        empty = rng.random(16) < share
        cell = int(rng.integers(16))
        empty[cell] = True
        law.add((~empty).astype(int).tolist(), cell)
        p = empty / empty.sum()
        surplus += np.eye(16)[cell] - p
        covariance += np.diag(p) - np.outer(p, p)
    # The surpluses add up to 0, so the last cell follows from the others.
    value = surplus[:-1] @ np.linalg.solve(covariance[:-1, :-1], surplus[:-1])
    assert law.cells_p() == pytest.approx(chi_square_tail(float(value), 15), rel=1e-6)


@pytest.mark.parametrize(
    ("count", "trials", "p", "expected"),
    [
        (2, 2, 0.1, 0.01),
        (1, 2, 0.1, 0.19),
        (0, 2, 0.1, 1.0),
        (3, 10, 0.5, 352 / 1024),
        (7, 10, 0.5, 352 / 1024),
        (0, 0, 0.1, 1.0),
        (0, 3, 0.0, 1.0),
        (1, 3, 0.0, 0.0),
        (3, 3, 1.0, 1.0),
        (0, 5, 5e-324, 1.0),
        (1, 5, 1e-300, 5e-300),
        (10_000, 100_000, 0.1, 1.0),
        (0, 100_000, 0.1, 0.0),
    ],
)
def test_binomial_p_values_are_exact(count: int, trials: int, p: float, expected: float) -> None:
    assert binomial_p(count, trials, p) == pytest.approx(expected, rel=1e-9, abs=0)


@pytest.mark.parametrize(
    ("value", "degrees", "tail"),
    [  # values from tables of the chi-square distribution
        (3.841, 1, 0.05),
        (5.991, 2, 0.05),
        (7.815, 3, 0.05),
        (24.996, 15, 0.05),
        (32.0, 16, 0.01),
        (37.697, 15, 0.001),
        (0.0, 1, 1.0),
        (0.0, 4, 1.0),
    ],
)
def test_chi_square_tails_match_published_tables(value: float, degrees: int, tail: float) -> None:
    assert chi_square_tail(value, degrees) == pytest.approx(tail, rel=2e-3)


# ---- from an evaluation --------------------------------------------------------------------------


def test_an_evaluation_records_best_worst_and_median() -> None:
    result = twofold.evaluate(
        "random", episodes=101, num_envs=9, record=True, size=(3, 4), endpoint="embedded"
    )
    for which, score in (
        ("best", result.scores.max()),
        ("worst", result.scores.min()),
        ("median", np.median(result.scores)),
    ):
        made = result.recording(which)
        assert made.score == score
        assert made.verify().is_over
        assert made.about["policy"] == "random"
    for episode in range(101):
        made = result.recording(episode)
        assert made.score == result.scores[episode]
        assert made.verify().moves == result.moves[episode]
        assert made.seed == 2**63 + episode
    several: Any = np.array(["best", "worst"])
    for bad in ("good", 101, -1, several):
        with pytest.raises(errors.InvalidArgument, match="which is"):
            result.recording(bad)


def test_long_games_are_recorded_completely() -> None:
    def corner(observations: Any, action_mask: Any) -> Any:
        order = np.array([0, 3, 1, 2])
        return order[action_mask[:, order].argmax(axis=1)]

    result = twofold.evaluate(
        corner, episodes=8, num_envs=4, record=True, size=5, endpoint="embedded"
    )
    assert result.lengths.max() > 600  # more than fits in the log's first table
    for episode in range(8):
        assert result.recording(episode).score == result.scores[episode]


def test_without_record_a_game_has_no_recording() -> None:
    result = twofold.evaluate("random", episodes=2, endpoint="embedded")
    with pytest.raises(errors.InvalidArgument, match="record=True"):
        result.recording("best")


# ---- the command ---------------------------------------------------------------------------------


def test_the_commands_record_replay_and_verify(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "best.json")
    command = ["evaluate", "random", "--episodes", "20", "--endpoint", "embedded"]
    assert cli.main([*command, "--record", "best", file]) == 0
    capsys.readouterr()
    assert cli.main(["replay", file]) == 0
    made = Recording.load(file)
    shown = capsys.readouterr().out
    assert f"step {len(made.actions)}  " in shown
    assert "every new tile follows from the generator" in shown
    assert "\x1b" not in shown

    page = tmp_path / "best.html"
    assert cli.main(["replay", file, "--html", str(page)]) == 0
    assert f"score {made.score:,}" in page.read_text()

    document = json.loads(Path(file).read_text())
    Path(file).write_text(change(document, "score", 8))
    assert cli.main(["replay", file, "--verify"]) == 1
    assert "the recording has 8" in capsys.readouterr().err


@pytest.mark.parametrize(("speed", "pause"), [("4", 0.25), ("1e-11", 1e6), ("1e-320", 1e6)])
def test_a_replay_on_a_terminal_pauses_before_each_move(
    speed: str, pause: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = twofold.evaluate("random", size=2, episodes=1, record=True).recording("best")
    made.save(tmp_path / "a.json")
    pauses: list[float] = []
    monkeypatch.setattr(cli_replay, "time", types.SimpleNamespace(sleep=pauses.append))
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    assert cli.main(["replay", str(tmp_path / "a.json"), "--speed", speed]) == 0
    assert pauses == [pause] * len(made.actions)


def test_a_replay_on_a_terminal_draws_each_board_over_the_previous_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = twofold.evaluate("random", size=(2, 3), episodes=1, record=True).recording("best")
    made.save(tmp_path / "a.json")
    terminal = Terminal()
    monkeypatch.setattr(cli_replay, "time", types.SimpleNamespace(sleep=lambda _: None))
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    assert cli.main(["replay", str(tmp_path / "a.json")]) == 0
    drawn = [view.splitlines() for view in terminal.getvalue().split("\x1b[4A")]
    shown, score = [("step 0  start  score 0", made.first_board())], 0
    for number, step in enumerate(made.steps(), 1):
        score += step.reward
        title = f"step {number}  {DIRECTIONS[step.action]}  score {score:,}"
        shown.append((title, np.array(step.board, np.uint8).reshape(2, 3)))
    assert len(drawn) == len(shown)
    for lines, (title, board) in zip(drawn, shown, strict=True):
        assert "\n".join(map(str.rstrip, lines[:4])) == f"{title}\n{Game2048.text(board)}\n"
        assert {len(line) for line in lines[:4]} == {40}


def test_a_dumb_terminal_shows_all_boards_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = twofold.evaluate("random", size=2, episodes=1, record=True).recording("best")
    made.save(tmp_path / "a.json")
    terminal = Terminal()
    monkeypatch.setattr(cli_replay, "time", None)  # no pause
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "dumb")
    assert cli.main(["replay", str(tmp_path / "a.json")]) == 0
    assert terminal.getvalue().count("step ") == len(made.actions) + 1
    assert "\x1b" not in terminal.getvalue()


def test_a_game_with_wrong_spawns_exits_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Recording.from_boards(spoilt("fours")).save(tmp_path / "a.json")
    assert cli.main(["replay", str(tmp_path / "a.json"), "--verify"]) == 1
    assert "do NOT fit" in capsys.readouterr().out


# ---- the page ------------------------------------------------------------------------------------


def test_the_page_needs_no_other_files() -> None:
    page = recording().to_html()
    assert "{{" not in page
    for outside in ("http:", "https:", "//cdn", "src=", "@import", "url("):
        assert outside not in page


def test_names_in_a_page_are_escaped() -> None:
    made = recording()
    rules, evil = made.rules, "</script><script>alert(1)</script>"
    other = Recording.of_seed(rules, 5, made.actions, {"policy": evil})
    assert "alert(1)" in other.to_html()
    assert "<script>alert" not in other.to_html()


def test_a_note_in_a_page_is_shown_as_it_is_written() -> None:
    made = recording()
    page = Recording.of_seed(made.rules, 5, made.actions, {"note": "{{data}}"}).to_html()
    assert "note {{data}}" in page
