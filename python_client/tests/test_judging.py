"""Programs are judged in a sandbox: they play, fail in some games, and can do nothing else.

Most tests judge the games of one SECRET, so that the games are the same each time.
"""

import contextlib
import functools
import hashlib
import io
import json
import os
import platform
import random
import re
import resource
import select
import selectors
import shutil
import signal
import struct
import subprocess
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import foreseer
import numpy as np
import pytest
from evaluations import FIRST_SEED, first_legal
from servers import PATIENCE, is_running, no_more_descriptors, wait_until

import twofold
from twofold import cli, errors
from twofold.evaluation import report as reports
from twofold.judging import jail, seccomp
from twofold.judging import sandbox as sandboxes
from twofold.judging.players import Failure
from twofold.judging.sandbox import Question, Sandbox
from twofold.judging.strategy import StrategyPlayer
from twofold.policies import Strategy

SECRET = "5a" * 32


sandboxed = pytest.mark.usefixtures("_sandbox")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="programs are judged on Linux")

SLIDE = """
def slide(row):
    tiles, done = [tile for tile in row if tile], []
    while tiles:
        value = tiles.pop(0)
        if tiles and tiles[0] == value:
            value += tiles.pop(0)
        done.append(value)
    return done + [0] * (len(row) - len(done))

def moved(board, turned, back):
    lines = [list(line) for line in (zip(*board) if turned else board)]
    return any(slide(line[::back])[::back] != line for line in lines)

WAYS = [(True, 1), (False, -1), (True, -1), (False, 1)]  # up, right, down, left

def legal(board):
    return [action for action, way in enumerate(WAYS) if moved(board, *way)]
"""
FIRST_LEGAL = SLIDE + "def strategy(board):\n    return legal(board)[0]\n"


# For programs that answer: only the tests of time limits have shorter ones.
UNHURRIED: dict[str, Any] = {"move_timeout": PATIENCE, "game_timeout": PATIENCE}


@pytest.fixture(scope="module")
def sandbox_missing() -> str:
    """The part of the sandbox that this machine refuses; "" if it allows all parts."""
    try:
        Sandbox("", file="a", memory_mb=256, cpu_seconds=9, unsafe=False).close()
    except errors.SandboxUnavailable as error:
        # A defect of the sandbox must not skip its tests.
        filters = Path("/proc/sys/kernel/seccomp/actions_avail")
        if has_walls() and ("seccomp" not in error.missing or filters.exists()):
            raise
        return error.missing
    return ""


def has_walls() -> bool:
    """Returns True if another program gets the namespaces and the file system of the sandbox."""
    spaces = ["--user", "--map-root-user", "--mount", "--pid", "--fork", "--net", "--ipc", "--uts"]
    probe = ["unshare", *spaces, "--cgroup", "mount", "-t", "tmpfs", "none", "/tmp"]
    return shutil.which("unshare") is not None and subprocess.run(probe).returncode == 0


@pytest.fixture
def _sandbox(sandbox_missing: str) -> None:
    if sandbox_missing:
        pytest.skip(f"no sandbox here: {sandbox_missing}")


@pytest.fixture(autouse=True)
def _loading_takes_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twofold.judging.strategy._LOAD_SECONDS", PATIENCE)


def judged(source: str, episodes: int = 2, size: int = 4, **arguments: Any) -> twofold.Evaluation:
    strategy = Strategy(source, **{**UNHURRIED, **arguments})
    return twofold.evaluate(
        strategy, episodes=episodes, size=size, endpoint="embedded", secret=SECRET
    )


def failure(source: str, **arguments: Any) -> errors.GameFailed:
    """Returns the failure of two games, which must be the same in both."""
    result = judged(source, **arguments)
    assert result.failures is not None
    assert [each.episode for each in result.failures] == [0, 1]
    assert len({each.reason for each in result.failures}) == 1
    return result.failures[0]


# ---- play ----------------------------------------------------------------------------------------


@sandboxed
@pytest.mark.parametrize("own", [{}, {"size": (3, 5)}, {"dialect": "jumanji"}, {"dialect": "pgx"}])
def test_a_program_plays_the_games_of_the_same_function(own: dict[str, Any]) -> None:
    arguments: dict[str, Any] = {**own, "endpoint": "embedded", "secret": SECRET}
    result = twofold.evaluate(Strategy(FIRST_LEGAL, **UNHURRIED), episodes=2, **arguments)
    order = (1, 2, 3, 0) if own.get("dialect") == "pgx" else (0, 1, 2, 3)

    def by_hand(observations: Any, action_mask: Any) -> Any:
        ordered = action_mask[:, order]
        return np.array(order)[ordered.argmax(axis=1)]

    expected = twofold.evaluate(by_hand, episodes=2, num_envs=2, **arguments)
    np.testing.assert_array_equal(result.scores, expected.scores)
    np.testing.assert_array_equal(result.lengths, expected.lengths)
    assert result.failures == ()
    assert 0 < result.policy_seconds <= result.seconds
    assert result.compare(expected).ties == 2


@sandboxed
def test_directions_may_be_words_letters_and_numbers() -> None:
    forms = [
        *("up", "right", "down", "left"),
        *("UP ", "Right", "down\n", "LEFT"),
        *("W", "d", "S", "a"),
        *(0, 1, 2, 3),
        *("0", "1", "2", "3"),
    ]
    source = f"forms = {forms}\ndef strategy(board):\n    return forms[board[0][0]]\n"
    arguments: dict[str, Any] = {"file": "a.py", "memory_mb": 256, "cpu_seconds": 9}
    with contextlib.closing(Sandbox(source, unsafe=False, **arguments)) as sandbox:
        game = sandbox.begin(0)
        for number, form in enumerate(forms):
            question = Question(game, b"[[%d]]" % number, PATIENCE)
            sandbox.ask([question])
            assert question.answer == b"%d" % (number % 4), form


@sandboxed
def test_a_failed_game_counts_with_its_score_so_far_and_the_others_continue() -> None:
    source = f"""{SLIDE}
count = 0
def strategy(board):
    global count
    count += 1
    if count > 20 and max(map(max, board)) >= 256:
        raise ValueError(f"tired after {{count}}")
    return legal(board)[0]
"""
    tired = Strategy(source, name="tired.py", **UNHURRIED)
    result = twofold.evaluate(tired, episodes=8, record=True, secret=SECRET)
    assert result.failures is not None
    failed = {each.episode: each for each in result.failures}
    assert 2 < len(failed) < 8
    whole = twofold.evaluate(first_legal, episodes=8, secret=SECRET)
    for episode in range(8):
        recording = result.recording(episode)
        assert recording.verify().score == result.scores[episode]
        if episode not in failed:
            assert result.scores[episode] == whole.scores[episode]
            continue
        each = failed[episode]
        assert recording.board.max() == 8
        assert result.max_exponents is not None
        assert result.max_exponents[episode] == 8
        assert each.step == result.lengths[episode] == result.moves[episode]
        assert (each.seed, each.reason) == (result.seeds[episode], "raised")
        assert each.detail == (
            f"ValueError: tired after {each.step + 1} (line 25: raise ValueError("
            'f"tired after {count}"))'
        )
        assert f"(episode {episode}, seed {each.seed}, step {each.step})" in str(each)
    again = twofold.Evaluation.from_json(result.to_json(games=True))
    assert again.summary == result.summary
    assert [vars(each) for each in again.failures or ()] == [vars(each) for each in failed.values()]
    summary = result.summary["failures"]
    assert summary["games"] == len(failed)
    assert summary["reasons"]["raised"]["games"] == len(failed)
    assert summary["reasons"]["raised"]["first"]["episode"] == next(iter(failed))
    for text in (str(result), result.to_markdown()):
        assert re.search(rf"raised[ |]+{len(failed)}[ |]+\d+.\d\d %[ |]+episode", text)


# ---- the rule card -------------------------------------------------------------------------------


@sandboxed
def test_the_rule_card_has_the_conditions_of_a_program_and_its_hash() -> None:
    result = twofold.evaluate(
        Strategy(FIRST_LEGAL, move_timeout=50, game_timeout=70.5, memory_mb=128), episodes=2, size=2
    )
    card = json.loads(result.to_json())["rule_card"]
    assert card["illegal action"] == "the game ends"
    assert card["sandbox"] == "on"
    assert card["move timeout, s"] == 50
    assert card["game timeout, s"] == 70.5
    assert card["memory, MB"] == 128
    assert card["program, SHA-256"] == hashlib.sha256(FIRST_LEGAL.encode()).hexdigest()
    for text in (str(result), result.to_markdown()):
        assert re.search(r"sandbox[ |]+on\b", text)
        assert re.search(r"game timeout, s[ |]+70\.5\b", text)
    # A function's own illegal actions raise, so its rule for them does not matter.
    other = twofold.evaluate(first_legal, episodes=2, size=2, secret=result.secret)
    assert result.compare(other).ties == 2


def test_the_rule_card_says_that_a_program_ran_without_a_sandbox() -> None:
    with pytest.warns(RuntimeWarning):
        result = twofold.evaluate(
            Strategy(FIRST_LEGAL, unsafe=True, **UNHURRIED), episodes=2, size=2
        )
    assert result.card["sandbox"] == "off"
    assert result.card["seeds"] == "drawn for these games, and readable by the program"


@sandboxed
@pytest.mark.parametrize("user", [0, 1000])
def test_a_judge_who_is_root_is_warned(user: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twofold.judging.strategy.os.geteuid", lambda: user)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        judged(FIRST_LEGAL, episodes=1, size=2)
    assert ["is judged by root" in str(each.message) for each in warned] == [True] * (user == 0)


def test_the_command_prints_a_warning_of_its_own_as_one_line(tmp_path: Path) -> None:
    (tmp_path / "judged.py").write_text(FIRST_LEGAL)
    (tmp_path / "trusted.py").write_text(
        "import warnings\n"
        "def policy(observations, action_mask):\n"
        "    warnings.warn('slow')\n"
        "    return action_mask.argmax(axis=1)\n"
    )
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "twofold", "evaluate", "--strategy", "judged.py", "--unsafe"),
            *("--against", "trusted.py:policy", "--episodes", "1", "--quiet"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    own, *others = ran.stderr.splitlines()
    assert own == (
        "twofold: warning: judged.py runs without a sandbox: it can read and delete files, and "
        "connect anywhere"
    )
    assert others[0].endswith("trusted.py:3: UserWarning: slow")


@sandboxed
def test_a_warning_that_is_an_error_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twofold.judging.strategy.os.geteuid", lambda: 0)
    before = descendants(os.getpid())
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        with pytest.raises(RuntimeWarning, match="is judged by root"):
            judged(FIRST_LEGAL, episodes=1, size=2)
    assert descendants(os.getpid()) == before


@sandboxed
def test_both_policies_of_a_comparison_play_the_games_of_the_same_new_secret(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "my program.py"
    file.write_text(FIRST_LEGAL)
    given = ["evaluate", f"--strategy={file}", "--size", "2", "--move-timeout", "50", "--json"]
    given += ["--episodes", "17", "--against", "random"]
    assert cli.main(given) == 0
    first, against = json.loads(capsys.readouterr().out)["evaluations"]
    assert first["secret"] == against["secret"]
    assert first["rule_card"]["seeds"] == "drawn for these games"
    assert cli.main([*given, "--secret", first["secret"]]) == 0
    again = json.loads(capsys.readouterr().out)["evaluations"]
    assert [each["score"] for each in again] == [first["score"], against["score"]]


def test_the_policy_of_against_may_be_a_player(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "player.py").write_text(
        f"from twofold.policies import Strategy\npolicy = Strategy({FIRST_LEGAL!r}, unsafe=True)\n"
    )
    given = ["evaluate", "random", "--against", f"{tmp_path}/player.py:policy", "--size", "2"]
    with pytest.warns(RuntimeWarning, match="without a sandbox"):
        assert cli.main([*given, "--episodes", "3", "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)["evaluations"]
    assert first["secret"] is not None
    assert second["secret"] == first["secret"]


@sandboxed
def test_the_scores_of_finished_games_are_shown_next_to_all_scores() -> None:
    source = f"""{SLIDE}
def strategy(board):
    return legal(board)[0] if max(map(max, board)) < 64 else "north"
"""
    result = judged(source, episodes=9, size=3)
    assert result.failures is not None
    failed = {each.episode for each in result.failures}
    assert 0 < len(failed) < 9
    finished = [score for k, score in enumerate(result.scores) if k not in failed]
    summary = result.summary["failures"]["finished"]
    assert summary["mean"] == np.mean(finished)
    shown, _ = reports.estimate(summary["mean"], summary["mean_interval"])
    for text in (str(result), result.to_markdown()):
        assert f": 9 games, {len(failed)} of them failed" in text
        assert re.search(rf"score of finished[ |]+{shown}\b", text)
    none = judged("def strategy(board):\n    return 5\n", episodes=2)
    assert none.summary["failures"]["finished"] is None
    assert "score of finished" not in str(none)


@sandboxed
def test_failures_are_the_same_for_any_number_of_boards_and_have_their_whole_details() -> None:
    source = f"""{SLIDE}
def strategy(board):
    if max(map(max, board)) == 8:
        raise ValueError("x" * 150)
    return legal(board)[0]
"""
    strategy = Strategy(source, **UNHURRIED)
    results = [
        twofold.evaluate(strategy, episodes=4, num_envs=lanes, secret=SECRET) for lanes in (4, 3)
    ]
    first, again = (json.loads(each.to_json(games=True))["games"] for each in results)
    assert first["failures"] == again["failures"]
    assert all(each["call"] == each["step"] > 0 for each in first["failures"])
    assert "x" * 150 in results[0].to_markdown()
    assert "x" * 150 not in str(results[0])


# ---- secrets -------------------------------------------------------------------------------------


@sandboxed
def test_judged_games_are_repeated_by_the_secret_in_their_report() -> None:
    source = f"""{SLIDE}
import random
seen = []
def strategy(board):
    seen.append(hash("salt") % 97 + random.random())
    return legal(board)[int(sum(seen)) % len(legal(board))]
"""
    judge = functools.partial(
        twofold.evaluate, Strategy(source, **UNHURRIED), record=True, size=3, endpoint="embedded"
    )
    first = judge(episodes=6, num_envs=6)
    assert first.failures == ()
    assert len(set(first.scores.tolist())) > 2
    report = json.loads(first.to_json())
    again = judge(episodes=6, num_envs=4, secret=report["secret"])
    fewer = judge(episodes=3, secret=twofold.Evaluation.from_json(first.to_json(games=True)).secret)
    for repeated, episodes in ((again, 6), (fewer, 3)):
        for name in ("seeds", "scores", "moves", "lengths"):
            expected = getattr(first, name)[:episodes]
            np.testing.assert_array_equal(getattr(repeated, name), expected, strict=True)
        for episode in range(episodes):
            played, expected = repeated.recording(episode), first.recording(episode)
            np.testing.assert_array_equal(played.actions, expected.actions, strict=True)
    assert (first.card["seeds"], again.card["seeds"]) == ("drawn for these games", "known before")
    for text in (str(first), first.to_markdown()):
        assert re.search(rf"secret[ |]+{first.secret}\b", text)
    other = judge(episodes=1)
    assert not set(other.seeds.tolist()) & set(first.seeds.tolist())
    assert other.secret != first.secret


@sandboxed
def test_ids_and_hashes_of_objects_are_the_same_in_each_evaluation() -> None:
    source = f"""{SLIDE}
seen = []
class Thing:
    pass
def strategy(board):
    things = {{Thing() for _ in range(9)}} | {{int, str, len, strategy}}
    seen.append(hash(tuple(map(id, things))) ^ id(board) ^ hash("text"))
    moves = legal(board)
    return moves[sum(seen) % len(moves)]
"""
    first, again = (
        twofold.evaluate(
            Strategy(source, **UNHURRIED), episodes=6, num_envs=4, size=3, secret=SECRET
        )
        for _ in range(2)
    )
    assert first.failures == ()
    np.testing.assert_array_equal(again.scores, first.scores)


def test_the_seeds_of_judged_games_are_unrelated_numbers_of_64_bits() -> None:
    seeds = twofold.evaluate(first_legal, episodes=200, secret=SECRET, endpoint="embedded").seeds
    bits = (seeds[:, np.newaxis] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    assert (abs(bits.mean(axis=0) - 0.5) < 0.2).all()
    differences = np.unique(np.diff(seeds))
    assert len(differences) == 199


@sandboxed
def test_a_judged_game_takes_no_public_seed() -> None:
    for arguments in ({"first_seed": FIRST_SEED}, {"first_seed": FIRST_SEED, "secret": SECRET}):
        with pytest.raises(errors.InvalidArgument, match="seeds derived from a secret") as info:
            twofold.evaluate(Strategy(FIRST_LEGAL), episodes=2, **arguments)
        assert info.value.field == "first_seed"
    for secret in ("5a", SECRET.upper(), 5, int("1" * 64)):
        with pytest.raises(errors.InvalidArgument, match="64 hexadecimal digits") as info:
            twofold.evaluate(Strategy(FIRST_LEGAL), episodes=2, secret=secret)  # type: ignore[arg-type]
        assert info.value.field == "secret"


FORESEER = Path(foreseer.__file__).read_text()


def test_a_program_finds_a_public_seed_by_its_boards_and_any_seed_of_random() -> None:
    """The foreseer succeeds here, and the next tests show that it fails in judged games."""
    seed = FIRST_SEED + 7
    program = foreseer.Foreseer()
    envs = twofold.Game2048VectorEnv(1, endpoint="embedded")
    observations, _ = envs.reset(seed=[seed])
    for _ in range(foreseer.CONFIRMATIONS + 1):
        assert program.seed is None
        direction = program(twofold.tile_values(observations)[0].tolist())
        observations, *_ = envs.step(np.array([direction]))
    envs.close()
    program(twofold.tile_values(observations)[0].tolist())
    assert program.seed == seed
    state = random.getstate()
    for number in (0, 5, 2**31, 2**32, 2**63, 2**64 - 1):
        random.seed(number)
        assert number in foreseer.seed_of_random()
    random.setstate(state)


@sandboxed
def test_a_judged_program_finds_no_seed_that_foretells_its_tiles() -> None:
    source = f"""{FORESEER}
def strategy(board, look=strategy):
    direction = look(board)
    if look.confirmations > CONFIRMATIONS:
        raise ValueError(f"the seed is {{look.seed}}")
    return direction
"""
    result = twofold.evaluate(Strategy(source, **UNHURRIED), episodes=2, endpoint="embedded")
    assert [each.detail.split(" (")[0] for each in result.failures or ()] == [
        "ValueError: the seed is None"
    ] * 2


@sandboxed
def test_the_seeds_of_random_are_unrelated_to_those_of_the_games() -> None:
    source = f"{FORESEER}\ndef strategy(board):\n    raise ValueError(seed_of_random()[1])\n"

    def found(secret: str) -> tuple[list[int], list[int]]:
        strategy = Strategy(source, **UNHURRIED)
        result = twofold.evaluate(strategy, episodes=3, secret=secret, endpoint="embedded")
        details = [each.detail.split()[1] for each in result.failures or ()]
        return result.seeds.tolist(), list(map(int, details))

    seeds, own = found(SECRET)
    assert len({*seeds, *own}) == 6
    other_seeds, same = found(SECRET[:32] + "00" * 16)
    assert (other_seeds, len({*own, *same})) == (seeds, 6)
    same_seeds, other = found("00" * 16 + SECRET[32:])
    assert (len({*seeds, *same_seeds}), other) == (6, own)


def test_no_process_of_a_program_has_a_games_seed_in_its_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Uses no sandbox, because only root may read a game's memory in a sandbox."""
    strategy = Strategy(FIRST_LEGAL, unsafe=True, **UNHURRIED)
    seeds = twofold.evaluate(first_legal, episodes=2, secret=SECRET, endpoint="embedded").seeds
    traces = [
        form for seed in seeds.tolist() for form in (b"%d" % seed, seed.to_bytes(8, "little"))
    ]
    answered = StrategyPlayer.choose
    searched: list[bytes] = []

    def searching(player: StrategyPlayer, *arguments: Any) -> Any:
        choices = answered(player, *arguments)
        if not searched:
            runner = player._sandbox._process.pid
            processes = [runner, *descendants(runner)]
            searched.extend(memory(process) for process in processes)
        return choices

    monkeypatch.setattr(StrategyPlayer, "choose", searching)
    with pytest.warns(RuntimeWarning, match="without a sandbox"):
        twofold.evaluate(strategy, episodes=2, secret=SECRET, endpoint="embedded")
    assert len(searched) == 3
    for process in searched:
        assert b"def strategy(board):" in process
        assert [trace for trace in traces if trace in process] == []


def memory(process: int) -> bytes:
    """Returns all of a process's memory that the process itself can read."""
    parts = []
    with open(f"/proc/{process}/mem", "rb", buffering=0) as file:
        for line in Path(f"/proc/{process}/maps").read_text().splitlines():
            if line.split()[1][0] != "r" or "[v" in line:
                continue
            start, end = (int(word, 16) for word in line.split()[0].split("-"))
            file.seek(start)
            parts.append(file.read(end - start))
    return b"".join(parts)


# ---- programs that fail --------------------------------------------------------------------------


# The body of a function that starts in line 1, 3, 5, …, and how it fails.
FAILING = [
    ("return 0 if 0 else 'north'", "not_a_direction", "returned 'north'"),
    ("return None", "not_a_direction", "returned a value of type NoneType"),
    ("return True", "not_a_direction", "returned a value of type bool"),
    ("return 4", "not_a_direction", "returned 4"),
    ("return 1.0", "not_a_direction", "returned a value of type float"),
    ("return 10**5000", "not_a_direction", "returned a large integer"),
    ("return 'up' * 10**7", "not_a_direction", "returned 'upupup"),
    ("return [board] * 10**6", "not_a_direction", "returned a value of type list"),
    ("return board[4][4]", "raised", "IndexError: list index out of range (line 18: return bo"),
    ("raise SystemExit(3)", "raised", "SystemExit: 3"),
    ("raise KeyboardInterrupt", "raised", "KeyboardInterrupt"),
    ("raise GeneratorExit", "raised", "GeneratorExit"),
    ("return strategy(board)", "raised", "RecursionError: maximum recursion depth"),
    ("raise type('E', (BaseException,), {'__str__': lambda self: 1 / 0})()", "raised", "E ("),
    (
        "raise type('M', (type,), {'__name__': property(lambda c: c[0])})('E', (OSError,), {})",
        "raised",
        "an exception (line 30: raise type(",
    ),
    (
        "raise type('E', (OSError,), {'__traceback__': property(lambda e: 1 / 0)})",
        "raised",
        "E: ",
    ),
    ("raise type('x' * 10**6, (OSError,), {})('y' * 10**6)", "raised", "xxx…: yyy"),
    ("return open('/etc/passwd').read()", "raised", "FileNotFoundError"),
    ("return open('/proc/1/environ').read()", "raised", "FileNotFoundError"),
    (r"raise KeyError('\x1b[2J\n')", "raised", r"KeyError: '\x1b[2J\n' (line 40: raise"),
    (r"raise ValueError('\x1b[2J\n')", "raised", r"ValueError: ?[2J? (line 42: raise"),
    ("import numpy", "raised", "No module named 'numpy'; only Python's standard library can be"),
    ("import os; os._exit(7)", "exited", "exited with status 7"),
    ("import os; os.close(3)\n    while True: pass", "killed", "signal 9 (Killed)"),
    ("import ctypes; ctypes.string_at(0)", "killed", "signal 11 (Segmentation fault)"),
    ("import os; os.write(3, b'7')", "bad_answer", "wrote 1 bytes that are not an answer"),
    ("import os; os.write(3, b'!raised\\nx' * 9**6)", "raised", "Error"),
    ("import os; os.write(3, b'!win\\n1')", "bad_answer", "that are not an answer"),
    ("return 'x' * 41", "not_a_direction", f"returned '{'x' * 40}'…"),
]


@sandboxed
def test_a_game_ends_with_the_reason_of_its_failure() -> None:
    """Each game has another tile in a corner, by which the program chooses the failure."""
    games = len(FAILING)
    source = "".join(
        f"def strategy{number}(board):\n    {body}\n" for number, (body, *_) in enumerate(FAILING)
    )
    source += (
        "def strategy(board): return globals()[f'strategy{board[0][0].bit_length() - 2}'](board)"
    )
    boards = np.zeros((games, 4, 4), np.uint8)
    boards[:, 0, 0] = np.arange(1, games + 1)
    envs = twofold.Game2048VectorEnv(games, endpoint="embedded")
    with contextlib.closing(Strategy(source, **UNHURRIED).make(envs)) as player:
        player.begin(np.arange(games), np.zeros(games, np.uint64))
        choices = player.choose(boards, np.ones((games, 4)), np.arange(games))
    envs.close()
    for (body, reason, detail), found in zip(FAILING, choices, strict=True):
        assert isinstance(found, Failure)
        assert found.reason == reason, body
        assert detail in found.detail, body
        assert len(found.detail) < 400


@sandboxed
def test_a_direction_that_moves_nothing_ends_the_game() -> None:
    result = judged("def strategy(board):\n    return 'left'\n", episodes=20)
    assert result.failures is not None
    assert {(each.reason, each.detail) for each in result.failures} == {
        ("illegal", "the move left does not change the board")
    }
    assert len(result.failures) == 20
    assert 0 < result.moves.mean() < 20
    np.testing.assert_array_equal(result.moves, result.lengths)


@sandboxed
@pytest.mark.parametrize("body", ["while True: pass", "import time; time.sleep(1e6)"])
def test_a_move_that_takes_too_long_is_a_timeout(body: str) -> None:
    source = f"{SLIDE}first = True\ndef strategy(board):\n    global first\n"
    source += f"    if not first:\n        {body}\n    first = False\n    return legal(board)[0]\n"
    for seconds in (0.3, 3, 30):  # a busy machine may delay the first move, too
        found = failure(source, move_timeout=seconds)
        if found.step:
            break
    assert found.step == 1
    assert (found.reason, found.detail) == ("timeout", f"did not answer within {seconds:g} s")


@sandboxed
def test_the_moves_of_a_game_have_a_separate_time_limit() -> None:
    for seconds in (0.5, 5, 50):  # a busy machine may delay the first move
        source = f"{SLIDE}import time\ndef strategy(board):\n"
        source += f"    time.sleep({seconds / 10})\n    return legal(board)[0]\n"
        found = failure(source, move_timeout=seconds, game_timeout=seconds)
        if found.step:
            break
    assert found.reason == "timeout"
    assert found.detail == f"took {seconds:g} s for all moves"
    assert 0 < found.step <= 10


@sandboxed
def test_loading_does_not_count_as_a_games_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[float, float, bytes]] = []
    ask = Sandbox.ask

    def noting(sandbox: Sandbox, questions: Any) -> None:
        asked.extend((each.game.seconds, each.timeout, each.text) for each in questions)
        ask(sandbox, questions)

    monkeypatch.setattr(Sandbox, "ask", noting)
    source = f"import time\ntime.sleep(0.2)\n{FIRST_LEGAL}"
    assert judged(source, episodes=1, size=2).failures == ()
    tried, loaded, first, second, *_ = asked
    assert tried == loaded == (0.0, PATIENCE, b"ready")
    assert first[:2] == (0.0, PATIENCE)
    assert 0.0 < second[0] == pytest.approx(PATIENCE - second[1])
    monkeypatch.setattr("twofold.judging.strategy._LOAD_SECONDS", 0.3)
    with pytest.raises(errors.StrategyError, match=r"took longer than 0\.3 s to load") as info:
        judged(f"import time\ntime.sleep(1e6)\n{FIRST_LEGAL}")
    assert info.value.reason == "timeout"


def test_a_game_has_its_limits() -> None:
    source = """
import resource
def strategy(board):
    names = "AS CPU FSIZE NOFILE NPROC CORE MEMLOCK"
    limits = [resource.getrlimit(getattr(resource, f"RLIMIT_{name}")) for name in names.split()]
    raise ValueError(limits)
"""
    with pytest.warns(RuntimeWarning):
        found = failure(source, game_timeout=19.5, memory_mb=256, unsafe=True)
    seconds = int(PATIENCE) + 20  # for loading and for all moves
    limits = [(256 << 20,) * 2, (seconds, seconds + 1), (0, 0), (32, 32), (0, 0), (0, 0), (0, 0)]
    assert found.detail.startswith(f"ValueError: {limits} (")


@pytest.mark.long
@sandboxed
@pytest.mark.parametrize("handler", ["SIG_DFL", "SIG_IGN"])
def test_the_kernel_limits_the_processor_time_of_a_game(handler: str) -> None:
    source = f"""
import signal
signal.signal(signal.SIGXCPU, signal.{handler})
while True: pass
"""
    sandbox = Sandbox(source, file="a.py", memory_mb=256, cpu_seconds=1, unsafe=False)
    question = Question(sandbox.begin(0), b"[]", PATIENCE)
    sandbox.ask([question])
    end = sandbox.end(question.game)
    sandbox.close()
    assert question.answer == b""
    assert end.status == -signal.SIGXCPU
    assert 0.5 < end.cpu_seconds < 5


@sandboxed
def test_games_do_not_inherit_ignored_and_blocked_signals() -> None:
    source = """
import signal
def strategy(board):
    raise ValueError(signal.getsignal(signal.SIGXCPU).name, signal.pthread_sigmask(0, []))
"""
    with contextlib.ExitStack() as restore:
        for number in (signal.SIGCHLD, signal.SIGXCPU):
            restore.callback(signal.signal, number, signal.signal(number, signal.SIG_IGN))
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGXCPU])
        restore.callback(signal.pthread_sigmask, signal.SIG_SETMASK, before)
        found = failure(source)
    assert found.detail.startswith("ValueError: ('SIG_DFL', set())")


@sandboxed
@pytest.mark.parametrize(
    "body",
    [
        "return bytearray(10**9)",
        "x = []\n    while True: x.append(bytes(10**6))",
    ],
)
def test_memory_is_limited(body: str) -> None:
    found = failure(f"def strategy(board):\n    {body}\n", memory_mb=128)
    assert (found.reason, found.detail) == ("memory", "ran out of memory")


@sandboxed
def test_a_program_that_keeps_all_memory_after_its_move_ran_out_of_memory() -> None:
    source = f"""{SLIDE}
kept = []
def strategy(board):
    for size in (10**6, 10**5, 60_000):
        try:
            while True:
                kept.append(bytes(size))
        except MemoryError:
            pass
    return legal(board)[0]
"""
    found = failure(source, memory_mb=64)
    assert (found.reason, found.detail) == ("memory", "ran out of memory")


@sandboxed
def test_the_kernel_ends_games_before_the_judge_when_memory_runs_out() -> None:
    """A limit on address space does not count page tables, so memory can run out."""
    own = Path("/proc/self/oom_score_adj")
    before = own.read_text()
    sandbox = Sandbox(FIRST_LEGAL, file="a.py", memory_mb=256, cpu_seconds=9, unsafe=False)
    sandbox.begin(0)
    processes = [sandbox._process.pid, *descendants(sandbox._process.pid)]
    scores = [Path(f"/proc/{each}/oom_score_adj").read_text() for each in processes]
    sandbox.close()
    assert scores == ["1000\n"] * 3
    assert own.read_text() == before


def test_limits_that_are_already_lower_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process without privileges can't raise them again."""
    unlimited = resource.RLIM_INFINITY
    memory = resource.RLIMIT_AS
    given = {memory: (200 << 20, unlimited), resource.RLIMIT_NOFILE: (30, 30)}
    limits = dict(given)

    def lower(name: int, wanted: tuple[int, int]) -> None:
        if name in limits and limits[name][1] != unlimited and wanted[1] > limits[name][1]:
            raise ValueError("not allowed to raise maximum limit")
        limits[name] = wanted

    monkeypatch.setattr(resource, "getrlimit", lambda n: limits.get(n, (unlimited, unlimited)))
    monkeypatch.setattr(resource, "setrlimit", lower)
    jail.limit(memory_mb=256, cpu_seconds=60)
    assert {name: limits[name][0] for name in given} == {n: soft for n, (soft, _) in given.items()}
    assert limits[memory][1] == 200 << 20
    assert limits[resource.RLIMIT_NPROC] == (0, 0)


@pytest.mark.parametrize(
    ("shell", "program"),
    [((-1, -1), (60, 61)), ((2, -1), (2, 3)), ((5, 5), (4, 5)), ((90, 90), (60, 61))],
)
def test_the_limit_on_processor_time_ends_a_program_before_the_kernel_kills_it(
    shell: tuple[int, int], program: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: dict[int, tuple[int, int]] = {}
    monkeypatch.setattr(resource, "getrlimit", lambda _: shell)
    monkeypatch.setattr(resource, "setrlimit", limits.__setitem__)
    jail.limit(memory_mb=256, cpu_seconds=60)
    assert limits[resource.RLIMIT_CPU] == program


REACHING_OUT = [
    "import os; os.fork()",
    "import threading; threading.Thread(target=print).start()",
    "import subprocess; subprocess.run(['/bin/sh'])",
    "import os; os.execv('/bin/sh', ['sh'])",
    "import os; os.system('true')",
    "import socket; socket.socket()",
    "import socket; socket.create_connection(('127.0.0.1', 1))",
    "open('/tmp/twofold-was-here', 'w')",
    "open('was-here', 'w')",
    "open('/root/was-here', 'a')",
    "open('/dev/null', 'r+')",
    "import os; os.mkdir('/tmp/x')",
    "import os; os.remove(os.__file__)",
    "import os; os.kill(os.getppid(), 9)",
    "import os; os.kill(1, 9)",
    "import os; os.kill(-1, 9)",
    "import os; os.killpg(0, 9)",
    "import os; os.rename('/x', '/y')",
    "import os; os.link('/x', '/y')",
    "import os; os.symlink('/', '/x')",
    "import os; os.mkfifo('/x')",
    "import os; os.truncate('/x', 0)",
    "import os; os.ftruncate(3, 0)",
    "import os; os.chmod('/', 0o777)",
    "import os; os.fchmod(3, 0o777)",
    "import os; os.chown('/', 0, 0)",
    "import os; os.chroot('/')",
    "import os; os.memfd_create('x')",
    "import socket; socket.socketpair()",
    "import signal; signal.raise_signal(0)",
    *(
        f"import ctypes; ctypes.CDLL(None).{call}"
        for call in (
            "fork()",
            "vfork()",
            "system(b'true')",
            "ptrace(16, 1, 0, 0)",
            "process_vm_readv(1, None, 0, None, 0, 0)",
            "process_vm_writev(1, None, 0, None, 0, 0)",
            "connect(3, b'', 0)",
            "bind(3, b'', 0)",
            "listen(3, 1)",
            "unshare(0x10000000)",
            "setns(3, 0)",
            "mount(b'x', b'/', b'proc', 0, None)",
            "umount2(b'/', 2)",
        )
    ),
]


@sandboxed
def test_a_system_call_that_reaches_out_ends_the_game() -> None:
    # The program's handling of errors does not matter, because the process ends.
    source = f"""
BODIES = {REACHING_OUT}
def strategy(board):
    try:
        exec(BODIES[board[0][0]])
    except BaseException:
        pass
    return 0
"""
    ends = {}
    with contextlib.closing(
        Sandbox(source, file="a.py", memory_mb=256, cpu_seconds=20, unsafe=False)
    ) as sandbox:
        for number, body in enumerate(REACHING_OUT):
            question = Question(sandbox.begin(0), b"[[%d]]" % number, PATIENCE)
            sandbox.ask([question])
            ends[body] = sandbox.end(question.game).status
    assert ends == dict.fromkeys(REACHING_OUT, -signal.SIGSYS)
    assert failure(source).reason == "forbidden"
    assert not Path("/tmp/twofold-was-here").exists()


@sandboxed
def test_other_system_calls_fail_and_nothing_is_there_to_be_read() -> None:
    source = f"""{SLIDE}
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
packages = os.path.dirname(os.__file__) + "/site-packages"
def strategy(board):
    report = {{
        "root": sorted({{*os.listdir("/"), *os.listdir("/.."), *os.listdir(".")}}),
        "variables": sorted(os.environ),
        "ids": [os.getpid() < 100, os.getppid(), os.getuid(), os.getgid()],
        "descriptors": [fd for fd in range(64) if not is_closed(fd)],
        "keyctl": refused(250), "bpf": refused(321), "io_uring": refused(425),
        "prctl": refused(157), "setuid": refused(105), "sendmsg": refused(46),
        "mlock": refused(149), "shmget": refused(29), "perf": refused(298),
        "host": os.uname().nodename == "sandbox",
        "domain": domain() == b"sandbox",
        "packages": sum((files for way, _, files in os.walk(packages)), []) == [],
        "writable": [way for way, folders, files in os.walk("/") if os.access(way, os.W_OK)],
    }}
    raise ValueError(repr(report))
def domain():
    names = ctypes.create_string_buffer(6 * 65)  # struct utsname
    libc.uname(names)
    return names.raw[5 * 65 :].rstrip(b"\\0")
def is_closed(descriptor):
    try:
        os.fstat(descriptor)
    except OSError:
        return True
def refused(number):
    return libc.syscall(number, 0, 0, 0, 0, 0) == -1 and ctypes.get_errno() == 1
"""
    if os.uname().machine != "x86_64":
        pytest.skip("the numbers are x86_64's")
    sandbox = Sandbox(
        source.replace("raise ValueError(repr(report))", "os.write(3, repr(report).encode())"),
        file="a.py",
        memory_mb=256,
        cpu_seconds=20,
        unsafe=False,
    )
    question = Question(sandbox.begin(0), b"[[0]]", PATIENCE)
    sandbox.ask([question])
    sandbox.end(question.game)
    sandbox.close()
    assert question.answer is not None
    report = eval(question.answer.decode())
    folders = {path.split("/")[1] for path in (os.__file__, sys.base_prefix)}
    assert set(report.pop("root")) == folders
    given = {"HOME", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "PYTHONHASHSEED"}
    assert set(report.pop("variables")) <= given
    # The init of its namespace is its parent; nobody is its user and its group.
    assert report.pop("ids") == [True, 1, 65534, 65534]
    assert report.pop("descriptors") == [0, 1, 2, 3]
    assert report.pop("writable") == []
    assert report == dict.fromkeys(report, True)


HARMLESS = """
    os.listdir(folder) os.stat(file) os.lstat(file) os.fstat(0) os.access(file,4) os.getcwd()
    os.path.realpath(file) open(file).read(9) open(file,"rb",0).seek(9) os.pread(0,1,0)
    os.readv(0,[bytearray(9)]) os.writev(1,[b"x"]) os.pipe() select.select([],[],[],0)
    select.poll().poll(0) time.sleep(0.001) time.time() time.process_time() os.times()
    time.get_clock_info("time") resource.getrusage(0) os.urandom(9) os.sched_yield()
    os.sched_getaffinity(0) os.uname() os.sysconf("SC_PHYS_PAGES") signal.signal(10,print)
    signal.pthread_sigmask(0,[]) bytearray(10**7) mmap.mmap(-1,9).resize(9**5)
    threading.Lock().acquire() queue.SimpleQueue().put(1) decimal.Decimal(2).sqrt()
"""


@sandboxed
def test_a_program_may_read_the_library_wait_and_ask_about_its_own_process() -> None:
    source = f"""
import decimal, mmap, os, queue, resource, select, signal, threading, time
file, folder = os.__file__, os.path.dirname(os.__file__)
def strategy(board):
    own = os.getpid(), os.getppid(), os.getuid(), os.geteuid(), os.getgid(), os.getegid()
    refused = ["ids"] if min(*own, threading.get_native_id()) < 1 or max(own) > 65534 else []
    for text in {HARMLESS.split()}:
        try:
            eval(text)
        except Exception as error:
            refused.append(text)
    raise ValueError(refused)
"""
    assert failure(source).detail.startswith("ValueError: [] (")


@sandboxed
def test_a_game_has_no_capabilities_and_gains_none() -> None:
    sandbox = Sandbox(FIRST_LEGAL, file="a.py", memory_mb=256, cpu_seconds=9, unsafe=False)
    with contextlib.closing(sandbox):
        sandbox.ask([Question(sandbox.begin(0), b"[[0, 2]]", PATIENCE)])
        game = descendants(sandbox._process.pid)[-1]
        status = dict(re.findall(r"(\w+):\t(.*)", Path(f"/proc/{game}/status").read_text()))
    assert int(status["CapInh"] + status["CapPrm"] + status["CapEff"], 16) == 0
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")


@sandboxed
def test_a_program_runs_with_the_shared_libraries_of_the_judges_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/of/this/python")
    variable = "os.environ['LD_LIBRARY_PATH']"
    found = failure(f"import os\ndef strategy(board):\n    raise ValueError({variable})\n")
    assert found.detail.startswith("ValueError: /of/this/python (")


@sandboxed
def test_two_games_can_not_wake_each_other() -> None:
    """They could map the same file, and so send each other signals."""
    source = f"""
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
def strategy(board):
    file = os.open(os.__file__, os.O_RDONLY)
    word = ctypes.c_void_p(libc.mmap(None, 4096, 1, 1, file, 0))  # PROT_READ, MAP_SHARED
    raise ValueError(wake(word, 1), wake(word, 1 | 128))  # FUTEX_WAKE, FUTEX_PRIVATE_FLAG
def wake(word, operation):
    woken = libc.syscall({seccomp.numbers(platform.machine())["futex"]}, word, operation, 1)
    return os.strerror(ctypes.get_errno()) if woken < 0 else woken
"""
    assert failure(source).detail.startswith("ValueError: ('Operation not permitted', 0) (")


@sandboxed
def test_a_game_can_not_observe_another_process() -> None:
    source = """
import os, time
def strategy(board):
    processor_time = ~1 << 3 | 2  # of process 1
    time.clock_gettime(time.CLOCK_PROCESS_CPUTIME_ID)
    os.sched_getaffinity(0)
    raise ValueError(
        refused(time.clock_gettime, processor_time),
        refused(time.clock_getres, processor_time),
        refused(os.sched_getaffinity, 1),
    )
def refused(call, argument):
    try:
        return call(argument)
    except PermissionError:
        return True
"""
    assert failure(source).detail.startswith("ValueError: (True, True, True) (")


@sandboxed
def test_a_game_that_crashes_leaves_no_core_dump(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its limit does not apply if the kernel passes core dumps to a program."""
    # Without the filter, the program can ask for PR_GET_DUMPABLE.
    unfiltered = "runner.Filter.install = lambda self: None\nrunner.main"
    start = sandboxes._START.replace("runner.main", unfiltered)
    monkeypatch.setattr(sandboxes, "_START", start)
    source = """
import ctypes, resource
def strategy(board):
    raise ValueError(resource.getrlimit(resource.RLIMIT_CORE), ctypes.CDLL(None).prctl(3))
"""
    assert failure(source).detail.startswith("ValueError: ((0, 0), 0) (")


@sandboxed
def test_a_game_has_no_descriptor_of_the_judge_however_many_the_judge_has() -> None:
    source = """
import os
def strategy(board):
    found = []
    for descriptor in range(10_000):
        try:
            os.fstat(descriptor)
            found.append(descriptor)
        except OSError:
            pass
    raise ValueError(found)
"""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4_300
    if hard < wanted + 200:
        pytest.skip("too few descriptors are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted + 200), hard))
    null = os.open(os.devnull, os.O_RDONLY)
    held = [null]
    try:
        while held[-1] < wanted:
            held.append(os.dup(null))
        found = failure(source)
    finally:
        for each in held:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert found.detail.startswith("ValueError: [0, 1, 2, 3] (")


MISCHIEF = [
    "print('x' * 10**6); raise KeyError",
    "import sys; sys.stderr.write('x' * 10**6); sys.stdout = sys.stderr = None",
    "import builtins; builtins.isinstance = builtins.int = builtins.len = None",
    "import sys, json; json.loads = json.dumps = None; sys.modules.clear()",
    "import os, sys; os.read = os.write = None; sys.exit = os._exit = None",
    "import gc; [getattr(o, 'clear', id)() for o in gc.get_objects() if type(o) is list]",
    "import signal; [signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15, 24, 31)]",
    "import sys; sys.setrecursionlimit(10**9); sys.settrace(lambda *a: 1 / 0)",
]


@sandboxed
def test_a_program_that_changes_its_own_process_harms_only_itself() -> None:
    """The games of another program, judged afterwards, are not affected."""
    for mischief in MISCHIEF:
        source = f"""{SLIDE}
class Grave:
    def __del__(self):
        raise SystemExit
def strategy(board):
    grave = Grave()
    {mischief}
    return legal(board)[0]
"""
        # Small boards, whose games are short: each move repeats the mischief.
        result = judged(source, episodes=2, size=2, memory_mb=2048)
        assert result.failures is not None
        ends = {each.reason for each in result.failures}
        assert ends <= {"raised", "killed", "exited"}, mischief
    after = judged(FIRST_LEGAL, episodes=2, size=2)
    expected = twofold.evaluate(first_legal, episodes=2, size=2, endpoint="embedded", secret=SECRET)
    np.testing.assert_array_equal(after.scores, expected.scores)


@sandboxed
def test_answers_written_ahead_are_played_as_that_games_next_moves() -> None:
    source = f"""{SLIDE}
import os
def strategy(board):
    os.write(3, b"%d" % legal(board)[0])
    while True:
        os.write(3, b"0")
"""
    result = judged(source, episodes=3)
    assert result.failures is not None
    assert {each.reason for each in result.failures} == {"illegal"}
    assert {each.detail for each in result.failures} == {"the move up does not change the board"}
    expected = twofold.evaluate(first_legal, episodes=3, endpoint="embedded", secret=SECRET)
    assert (result.scores <= expected.scores).all()


@sandboxed
def test_an_answer_written_ahead_is_late_when_all_time_of_its_game_is_used() -> None:
    source = "import os\ndef strategy(board):\n    os.write(3, b'1')\n    return 1\n"
    boards, mask, lanes = np.zeros((1, 4, 4), np.uint8), np.ones((1, 4)), np.arange(1)
    envs = twofold.Game2048VectorEnv(1, endpoint="embedded")
    with contextlib.closing(Strategy(source, **UNHURRIED).make(envs)) as player:
        player.begin(lanes, np.zeros(1, np.uint64))
        assert player.choose(boards, mask, lanes) == [1]
        game = player._games[0]
        wait_until(lambda: bool(select.select([game.socket], [], [], 0)[0]))
        game.seconds = PATIENCE
        late = Failure("timeout", f"took {PATIENCE:g} s for all moves")
        assert player.choose(boards, mask, lanes) == [late]
    assert game.end is not None
    envs.close()


@sandboxed
def test_the_output_of_a_program_is_discarded(capfd: pytest.CaptureFixture[str]) -> None:
    source = f"""{SLIDE}
import sys
def strategy(board):
    print("thinking", flush=True)
    print("thinking", file=sys.stderr, flush=True)
    return legal(board)[0]
"""
    assert judged(source, size=2).failures == ()
    assert capfd.readouterr() == ("", "")


@sandboxed
def test_the_details_of_a_failure_can_not_control_the_terminal() -> None:
    detail = failure(r"def strategy(board): raise ValueError('\x1b[2J')").detail
    assert "ValueError: ?[2J" in detail
    assert detail.isprintable()


@sandboxed
def test_a_long_reason_that_a_program_itself_writes_is_cut() -> None:
    found = failure("""
import os
def strategy(board):
    os.write(3, b"!raised\\n" + b"x" * 4_000)
""")
    assert (found.reason, found.detail) == ("raised", "x" * 500)


@sandboxed
def test_an_exceptions_text_is_only_text_in_each_report() -> None:
    words = "a|b <script>a()</script> ![x](http://e/y) `z` &amp; *w* ~~v~~ $u$"
    result = judged(f"def strategy(board):\n    raise ValueError({words!r})\n", name="<i>|.py")
    text, markdown, html = str(result), result.to_markdown(), result._repr_html_()
    assert words in text
    shown = (
        r"a\|b &lt;script&gt;a()&lt;/script&gt; !\[x\](http://e/y) \`z\` &amp;amp; \*w\* "
        r"\~\~v\~\~ \$u\$"
    )
    assert shown in markdown
    assert "### &lt;i&gt;\\|.py on " in markdown
    for report in (markdown, html):
        assert "<script>" not in report
        assert "<i>" not in report


# ---- programs that can't be judged ---------------------------------------------------------------


@sandboxed
def test_a_program_may_have_any_name() -> None:
    program = Strategy("def strategy(board): return 0", name="a\0b")
    assert twofold.evaluate(program, episodes=1, endpoint="embedded").failures is not None


@sandboxed
@pytest.mark.parametrize(
    ("source", "reason", "text"),
    [
        ("def strategy(board) return 0", "syntax", "line 1: "),
        ("a = '\0'", "syntax", "judged: source code string cannot contain null bytes"),
        ("((" * 10**5, "syntax", ""),
        ("def play(board):\n    return 0", "no_function", "no function strategy(board)"),
        ("strategy = 5", "no_function", "no function strategy(board)"),
        ("x = 1\n1 / 0", "raised", r"ZeroDivisionError: division by zero (line 2: 1 / 0)"),
        ("import socket; socket.socket()", "forbidden", "open a socket or signal a process"),
        ("```python\ndef strategy(board): return 0\n```", "syntax", "remove the ``` lines"),
        ("x = bytearray(10**9)", "memory", "out of memory"),
    ],
)
def test_a_program_that_can_not_be_loaded_is_refused(source: str, reason: str, text: str) -> None:
    with pytest.raises(errors.StrategyError) as info:
        judged(source)
    assert info.value.reason == reason
    assert text in str(info.value)


@sandboxed
def test_a_program_is_read_as_python_reads_it() -> None:
    # Annotations are evaluated, as in any program without a future statement.
    typed = "def typed(board: list): pass\nassert typed.__annotations__['board'] is list\n"
    source = "\ufeff" + (typed + FIRST_LEGAL).replace("\n", "\r\n")
    assert judged(source, size=2).failures == ()


@sandboxed
def test_a_program_may_define_dataclasses() -> None:
    """With annotations that are not evaluated, `dataclass` looks up the module of its class."""
    source = f"""from __future__ import annotations
from dataclasses import dataclass
{SLIDE}
@dataclass
class Move:
    direction: int
def strategy(board):
    return Move(legal(board)[0]).direction
"""
    assert judged(source, size=2).failures == ()


@sandboxed
def test_the_line_of_an_exception_is_the_one_that_python_counts() -> None:
    found = failure("x = 'a\u2028b\x0cc'\r\ndef strategy(board):\r\n    return x[99]\r\n")
    assert found.detail == "IndexError: string index out of range (line 3: return x[99])"


def test_only_a_file_of_text_is_a_program(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_bytes(b"\xef\xbb\xbf" + FIRST_LEGAL.encode())
    assert Strategy.load(file).source == FIRST_LEGAL
    os.mkfifo(tmp_path / "pipe")
    for path, text in ((tmp_path / "pipe", "not a regular"), (Path("/dev/zero"), "not a regular")):
        with pytest.raises(errors.InvalidArgument, match=text):
            Strategy.load(path)
    file.write_bytes(b"#" * ((1 << 20) + 1))
    with pytest.raises(errors.InvalidArgument, match="larger than 1,048,576 bytes"):
        Strategy.load(file)
    file.write_bytes(b"# \xe9\n")
    with pytest.raises(errors.InvalidArgument, match="not UTF-8"):
        Strategy.load(file)
    with pytest.raises(errors.NotFound, match="Is a directory"):
        Strategy.load(tmp_path)
    (tmp_path / "\x1b[2J.py").write_text(FIRST_LEGAL)
    assert Strategy.load(tmp_path / "\x1b[2J.py").name == "?[2J.py"


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"name": 5}, "name"),
        ({"move_timeout": 0}, "move_timeout"),
        ({"game_timeout": float("inf")}, "game_timeout"),
        ({"memory_mb": 5}, "memory_mb"),
        ({"source": 5}, "source"),
        ({"unsafe": "false"}, "unsafe"),
        ({"unsafe": 0}, "unsafe"),
        ({"unsafe": None}, "unsafe"),
    ],
)
def test_wrong_settings_are_refused_by_name(arguments: Any, field: str) -> None:
    with pytest.raises(errors.InvalidArgument) as info:
        Strategy(**{"source": FIRST_LEGAL, **arguments})
    assert info.value.field == field


def test_settings_of_numpys_types_become_pythons() -> None:
    settings: dict[str, Any] = {
        "move_timeout": np.float32(2),
        "game_timeout": np.int64(9),
        "memory_mb": np.uint16(256),
        "unsafe": np.bool_(False),
    }
    strategy = Strategy(FIRST_LEGAL, **settings)
    plain = Strategy(FIRST_LEGAL, move_timeout=2.0, game_timeout=9.0, memory_mb=256, unsafe=False)
    assert repr(strategy) == repr(plain)
    assert json.dumps(strategy.conditions()) == json.dumps(plain.conditions())


def test_a_limit_that_is_too_small_is_refused_with_the_smallest_one() -> None:
    expected = r"1e-05; expected seconds, 0\.001 \.\.\. 1"
    with pytest.raises(errors.InvalidArgument, match=expected):
        Strategy(FIRST_LEGAL, move_timeout=1e-5)
    with pytest.raises(errors.InvalidArgument, match=expected):
        Strategy(FIRST_LEGAL, game_timeout=1e-5)
    with pytest.raises(errors.InvalidArgument, match=expected):
        twofold.evaluate("random", episodes=1, policy_timeout=1e-5)


@sandboxed
def test_a_text_that_is_cut_ends_with_dots() -> None:
    result = judged("def strategy(board):\n    raise ValueError('x' * 900)" + "  # " + "y" * 99)
    assert result.failures is not None
    long = result.failures[0].detail
    assert re.fullmatch(r"ValueError: x{197}… \(line 2: raise .*y…\)", long)
    assert re.search(r"ValueError: x{67}…$", str(result), re.MULTILINE)
    assert failure("def strategy(board):\n    return 'north' * 20").detail.endswith("north'…")


def test_a_program_as_a_function_is_refused_with_the_way_to_judge_it(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(FIRST_LEGAL)
    for given in (["random", "--against"], []):
        with contextlib.redirect_stderr(io.StringIO()) as said:
            assert cli.main(["evaluate", *given, f"{tmp_path}/mine.py:strategy"]) == 2
        assert "--strategy FILE" in said.getvalue()
        assert "in a sandbox" in said.getvalue()


def test_programs_play_2048_only_and_in_evaluate_only(tmp_path: Path) -> None:
    strategy = Strategy(FIRST_LEGAL)
    with pytest.raises(errors.InvalidArgument, match="play only 2048") as info:
        twofold.evaluate(strategy, env="twofold/Concentration-v0", episodes=2)
    assert info.value.field == "env"
    with pytest.raises(errors.InvalidArgument, match="omit obs"):
        twofold.evaluate(strategy, episodes=2, obs="one_hot")
    envs = twofold.Game2048VectorEnv(2, endpoint="embedded")
    envs.reset(seed=0)
    with pytest.raises(errors.InvalidArgument, match="pass it to"):
        envs.rollout(3, policy=strategy)
    envs.close()
    pytest.importorskip("pyarrow")
    with pytest.raises(errors.InvalidArgument, match="pass it to"):
        twofold.datasets.write(tmp_path / "a", strategy, transitions=9)


# ---- without a sandbox ---------------------------------------------------------------------------

REFUSES = """
import ctypes, os, sys, twofold
libc = ctypes.CDLL(None)

def judge(kind):
    uid, gid = os.geteuid(), os.getegid()
    assert libc.unshare(0x10000000) == 0
    open("/proc/self/setgroups", "w").write("deny")
    open("/proc/self/uid_map", "w").write(f"0 {uid} 1")
    open("/proc/self/gid_map", "w").write(f"0 {gid} 1")
    open(f"/proc/sys/user/max_{kind}_namespaces", "w").write("0")
    strategy = twofold.policies.Strategy("def strategy(board): return 0")
    try:
        twofold.evaluate(strategy, episodes=2)
    except twofold.errors.SandboxUnavailable as error:
        print(error.missing)
        print(error, flush=True)

for kind in sys.argv[1:]:
    child = os.fork()  # has one thread, as unshare(2) requires
    if child == 0:
        status = 1
        try:
            judge(kind)
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
"""


@sandboxed
def test_a_kernel_that_refuses_a_wall_is_reported_by_name() -> None:
    kinds = {"user": "user", "mnt": "mount", "pid": "pid", "net": "network"}
    kinds |= {name: name for name in ("ipc", "uts", "cgroup")}
    command = [sys.executable, "-c", REFUSES, *kinds]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    for name, missing, text in zip(kinds.values(), lines[::2], lines[1::2], strict=True):
        assert missing == f"{name} namespaces: unshare: No space left on device"
        assert missing in text
        assert "--unsafe" in text


def test_unsafe_runs_without_isolation_but_with_limits_and_warns(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("content")
    source = f"""{SLIDE}
x = open({str(target)!r}).read()
def strategy(board):
    if len(x) != 7:
        return None
    with open({str(target)!r}, "a") as file:
        file.write("more")
    return legal(board)[0]
"""
    with pytest.warns(RuntimeWarning, match="can read and delete files"):
        result = judged(source, unsafe=True)
    # The file can be opened, but not a single byte can be written.
    assert result.failures is not None
    assert [each.reason for each in result.failures] == ["raised", "raised"]
    assert "File too large" in result.failures[0].detail
    assert target.read_text() == "content"
    with pytest.warns(RuntimeWarning):
        played = judged(FIRST_LEGAL, size=2, unsafe=True)
    assert played.failures == ()


@pytest.mark.parametrize("number", [1, 35, 64])
def test_a_program_without_a_sandbox_may_die_of_any_signal(number: int) -> None:
    source = f"import os\ndef strategy(board):\n    os.kill(os.getpid(), {number})\n"
    with pytest.warns(RuntimeWarning):
        found = failure(source, unsafe=True)
    assert found.reason == "killed"
    assert f"was killed by signal {number} ({signal.strsignal(number)})" in found.detail


def test_a_program_without_a_sandbox_that_kills_its_process_group_ends_only_its_game() -> None:
    source = "import os\ndef strategy(board):\n    os.killpg(0, 9)\n"
    with pytest.warns(RuntimeWarning):
        found = failure(source, unsafe=True)
    assert found.reason == "killed"
    assert found.detail == "closed its socket or was killed by signal 9 (Killed)"


def test_games_without_a_sandbox_end_with_the_process_that_forked_them() -> None:
    source = """
import signal
for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
def strategy(board):
    return 0
"""
    sandbox = Sandbox(source, file="a.py", memory_mb=256, cpu_seconds=9, unsafe=True)
    question = Question(sandbox.begin(0), b"[]", PATIENCE)
    with contextlib.closing(sandbox), question.game.socket as game:
        sandbox.ask([question])
        assert question.answer == b"0"
        sandbox._process.kill()
        game.settimeout(PATIENCE)
        assert game.recv(1) == b"", "only the game's process has the other end"


@sandboxed
def test_the_process_of_a_finished_game_ends_although_no_game_follows_on_its_lane(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It could compute while other games are played."""
    choose = StrategyPlayer.choose
    played: list[int] = []
    processes: list[int] = []

    def counting(player: StrategyPlayer, boards: Any, mask: Any, lanes: Any) -> Any:
        choices = choose(player, boards, mask, lanes)
        played.append(len(lanes))
        processes.append(len(descendants(player._sandbox._process.pid)) - 1)  # without init
        return choices

    monkeypatch.setattr(StrategyPlayer, "choose", counting)
    assert judged(FIRST_LEGAL, episodes=3, size=2).failures == ()
    assert processes == played
    assert set(played) == {1, 2, 3}


@sandboxed
def test_all_processes_end_with_the_evaluation_and_with_the_judge() -> None:
    source = "import time\ndef strategy(board):\n    time.sleep(1e6)\n"
    code = f"import twofold; twofold.evaluate(twofold.policies.Strategy({source!r}), episodes=4)"
    with subprocess.Popen([sys.executable, "-c", code]) as judge:
        wait_until(lambda: len(descendants(judge.pid)) >= 6 or judge.poll() is not None)
        assert judge.poll() is None
        found = descendants(judge.pid)
        judge.kill()
    # The namespace's init ends when the judge's socket closes, and its processes with it.
    wait_until(lambda: not any(map(is_running, found)))


def test_a_runner_that_does_not_answer_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twofold.judging.sandbox._START", "import time; time.sleep(1e6)")
    monkeypatch.setattr("twofold.judging.sandbox._PATIENCE", 0.2)
    with pytest.raises(errors.SandboxUnavailable, match=r"did not answer within 0\.2 s"):
        Sandbox(FIRST_LEGAL, file="a.py", memory_mb=256, cpu_seconds=9, unsafe=False)


@sandboxed
def test_a_daemon_without_standard_descriptors_judges_programs() -> None:
    """A daemon is a fork of the process, for each set of closed descriptors."""
    code = """
import os, sys
from twofold.judging.sandbox import Question, Sandbox

def judge(closed):
    for number in closed:
        os.close(number)
    sandbox = Sandbox(sys.argv[1], file="a.py", memory_mb=256, cpu_seconds=9, unsafe=False)
    question = Question(sandbox.begin(0), b"[[0, 2]]", float(sys.argv[2]))
    sandbox.ask([question])
    sandbox.end(question.game)
    sandbox.close()
    return question.answer

for closed in ((0, 1), (0, 2), (1, 2), (0, 1, 2)):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if judge(closed) == b"3" else 2
        finally:
            os._exit(status)
    print(closed, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
    command = [sys.executable, "-c", code, FIRST_LEGAL, str(PATIENCE)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert ran.stdout.splitlines() == ["(0, 1) 0", "(0, 2) 0", "(1, 2) 0", "(0, 1, 2) 0"]


@pytest.mark.parametrize("interpreter", ["", None, "/nowhere/python"])
def test_a_missing_interpreter_is_reported(
    interpreter: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", interpreter)
    with pytest.raises(errors.SandboxUnavailable, match=r"sys\.executable is ") as info:
        Sandbox(FIRST_LEGAL, file="a.py", memory_mb=256, cpu_seconds=9, unsafe=False)
    assert info.value.missing == "a Python interpreter"


@sandboxed
def test_a_limit_on_descriptors_is_reported_with_its_remedy() -> None:
    expected = r"Too many open files; play fewer boards at once \(num_envs\), or raise `ulimit -n`"
    arguments: dict[str, Any] = {"file": "a.py", "memory_mb": 256, "cpu_seconds": 9}
    refused = pytest.raises(errors.SandboxUnavailable, match=expected)
    with no_more_descriptors(), refused:
        Sandbox(FIRST_LEGAL, unsafe=False, **arguments)
    with contextlib.closing(Sandbox(FIRST_LEGAL, unsafe=False, **arguments)) as sandbox:
        question = Question(sandbox.begin(0), b"[[0, 2]]", PATIENCE)
        with no_more_descriptors(), refused:
            sandbox.begin(1)
        with no_more_descriptors(), refused:
            sandbox.ask([question])
        sandbox.ask([question])
        assert question.answer == b"3"


def test_a_limit_on_processes_is_reported_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    start = f"""
import errno, os
def fork():
    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
os.fork = fork
{sandboxes._START}"""
    monkeypatch.setattr(sandboxes, "_START", start)
    expected = r"play fewer boards at once \(num_envs\), or raise `ulimit -u`"
    arguments: dict[str, Any] = {"file": "a.py", "memory_mb": 256, "cpu_seconds": 9}
    refused = pytest.raises(errors.SandboxUnavailable, match=expected)
    with refused:
        Sandbox(FIRST_LEGAL, unsafe=False, **arguments)
    with contextlib.closing(Sandbox(FIRST_LEGAL, unsafe=True, **arguments)) as sandbox, refused:
        sandbox.begin(0)


@sandboxed
def test_a_game_without_an_answer_is_ended_before_the_next_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the past, programs that hung slowed the others down until they exceeded their limits."""
    sent: list[Question] = []
    send = sandboxes._send

    def record(question: Question, selector: selectors.BaseSelector) -> None:
        assert all(each.answer is not None or each.game.end is not None for each in sent)
        sent.append(question)
        send(question, selector)

    monkeypatch.setattr(sandboxes, "_send", record)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    source = "def strategy(board):\n    while board[0][0]: pass\n    return 0"
    sandbox = Sandbox(source, file="a.py", memory_mb=256, cpu_seconds=9, unsafe=False)
    asked = [(b"[[2]]", 0.2), (b"[[0]]", PATIENCE), (b"[[4]]", 0.2), (b"[[0]]", PATIENCE)]
    questions = [Question(sandbox.begin(0), board, seconds) for board, seconds in asked]
    sandbox.ask(questions)
    assert [question.answer for question in questions] == [None, b"0", None, b"0"]
    assert sandbox.end(questions[0].game).status == -signal.SIGKILL
    sandbox.close()


@sandboxed
def test_answers_that_arrive_while_the_judge_is_stopped_are_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0

    class Stopped(selectors.DefaultSelector):
        """A selector that finds nothing after its time limit, as happens after Ctrl-Z and `fg`."""

        def select(self, timeout: float | None = None) -> list[Any]:
            nonlocal now
            answered = super().select(PATIENCE)
            if timeout == 0:
                return answered
            now += 60.0
            return []

    sandbox = Sandbox(FIRST_LEGAL, file="a.py", memory_mb=256, cpu_seconds=9, unsafe=False)
    question = Question(sandbox.begin(0), b"[[0, 2]]", 2.0)
    monkeypatch.setattr(selectors, "DefaultSelector", Stopped)
    monkeypatch.setattr(sandboxes, "time", types.SimpleNamespace(monotonic=lambda: now))
    sandbox.ask([question])
    assert question.answer == b"3"
    assert question.game.seconds == 0.0
    sandbox.close()


def test_the_judge_keeps_the_random_addresses_of_its_other_processes() -> None:
    personality = Path("/proc/thread-self/personality")
    before = personality.read_text()
    Sandbox(FIRST_LEGAL, file="a.py", memory_mb=256, cpu_seconds=9, unsafe=True).close()
    assert personality.read_text() == before


@sandboxed
def test_a_copy_of_the_judges_socket_does_not_keep_the_processes_alive() -> None:
    """A process that another thread forks during an evaluation has such a copy."""
    sandbox = Sandbox(FIRST_LEGAL, file="a.py", memory_mb=256, cpu_seconds=9, unsafe=False)
    copy = sandbox._control.dup()
    sandbox.close()
    copy.close()
    assert sandbox._process.returncode == 0, "it was not killed"


@sandboxed
def test_an_interrupt_at_the_judges_terminal_does_not_reach_the_processes() -> None:
    sandbox = Sandbox(FIRST_LEGAL, file="a.py", memory_mb=256, cpu_seconds=9, unsafe=False)
    sandbox.begin(0)
    processes = [sandbox._process.pid, *descendants(sandbox._process.pid)]
    sessions = {os.getsid(process) for process in processes}
    sandbox.close()
    assert os.getsid(0) not in sessions


@sandboxed
def test_the_processes_end_with_a_judge_that_is_killed_after_a_fork() -> None:
    code = f"""
import os, signal
from twofold.judging.sandbox import Sandbox
sandbox = Sandbox({FIRST_LEGAL!r}, file="a.py", memory_mb=256, cpu_seconds=9, unsafe=False)
sandbox.begin(0)
print(sandbox._process.pid, flush=True)
if os.fork() == 0:
    os.read(0, 1)  # until the test ends
    os._exit(0)
os.kill(os.getpid(), signal.SIGKILL)
"""
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as judge:
        assert judge.stdout is not None
        runner = int(judge.stdout.readline())
        wait_until(lambda: not is_running(runner))


@sandboxed
def test_a_runner_that_is_gone_is_reported() -> None:
    sandbox = Sandbox(FIRST_LEGAL, file="a.py", memory_mb=256, cpu_seconds=9, unsafe=False)
    game = sandbox.begin(0)
    for process in descendants(sandbox._process.pid):
        # Some end with their parent.
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    sandbox._process.wait()
    with pytest.raises(errors.SandboxUnavailable, match="ended unexpectedly"):
        sandbox.begin(1)
    question = Question(game, b"[[0]]", PATIENCE)
    sandbox.ask([question])
    assert question.answer == b""
    with pytest.raises(errors.SandboxUnavailable, match="ended unexpectedly"):
        sandbox.end(game)
    sandbox.close()


def descendants(process: int) -> list[int]:
    children = Path(f"/proc/{process}/task/{process}/children")
    found = [int(word) for word in children.read_text().split()] if children.exists() else []
    return found + [each for child in found for each in descendants(child)]


# ---- the filter ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("machine", "header"),
    [
        ("x86_64", "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
        ("aarch64", "/usr/include/asm-generic/unistd.h"),
    ],
)
def test_the_numbers_of_the_system_calls_are_the_kernels(machine: str, header: str) -> None:
    if not Path(header).exists():
        pytest.skip("the kernel's headers are not installed")
    text = Path(header).read_text()
    # Of fstatat64 and newfstatat, and the like, 64-bit processors have the second.
    known = dict(re.findall(r"#define __NR(?:3264)?_(\w+) (\d+)$", text, re.MULTILINE))
    aliases = {"newfstatat": "fstatat"} if machine == "aarch64" else {}
    for name, number in seccomp.numbers(machine).items():
        assert int(known[aliases.get(name, name)]) == number, name
    lacking = set(seccomp.ALLOWED.split()) | set(seccomp.KILLING.split())
    lacking |= {name for name, *_ in seccomp.CONDITIONAL}
    lacking -= seccomp.numbers(machine).keys()
    assert [name for name in lacking if name in known] == []


@functools.cache
def instructions(machine: str) -> list[tuple[int, ...]]:
    return list(struct.iter_unpack("=HBBI", seccomp.program(machine)))


def verdict(machine: str, number: int, *arguments: int, architecture: int | None = None) -> str:
    """Runs a machine's filter on a system call, as the kernel does, and returns its verdict.

    The instructions are classic BPF (linux/bpf_common.h), on a struct seccomp_data.
    """
    if architecture is None:
        architecture = seccomp.ARCHITECTURES[machine]
    values = (*arguments, 0, 0, 0, 0, 0, 0)[:6]
    call = struct.pack("=IIQ6Q", number, architecture, 0, *values)
    code = instructions(machine)
    loaded, at = 0, 0
    while True:
        operation, if_true, if_false, value = code[at]
        at += 1
        match operation:
            case 0x20:  # BPF_LD | BPF_W | BPF_ABS
                (loaded,) = struct.unpack_from("=I", call, value)
            case 0x06:  # BPF_RET | BPF_K
                return {0x7FFF0000: "allow", 0x80000000: "kill", 0x00050001: "EPERM"}[value]
            case 0x15:  # BPF_JMP | BPF_JEQ | BPF_K
                at += if_true if loaded == value else if_false
            case 0x35:  # BPF_JMP | BPF_JGE | BPF_K
                at += if_true if loaded >= value else if_false
            case 0x45:  # BPF_JMP | BPF_JSET | BPF_K
                at += if_true if loaded & value else if_false
            case _:
                raise AssertionError(operation)


MACHINES = pytest.mark.parametrize("machine", ["x86_64", "aarch64"])


@MACHINES
def test_the_filter_allows_kills_or_refuses_each_system_call(machine: str) -> None:
    numbers = seccomp.numbers(machine)
    known = dict.fromkeys(range(1000), "EPERM")
    known |= {numbers[name]: "allow" for name in seccomp.ALLOWED.split() if name in numbers}
    known |= {numbers[name]: "kill" for name in seccomp.KILLING.split() if name in numbers}
    # Without any bits in their arguments.
    known |= {numbers[name]: "allow" for name, *_ in seccomp.CONDITIONAL if name in numbers}
    known |= {numbers["futex"]: "EPERM"}
    assert {number: verdict(machine, number) for number in known} == known
    assert verdict(machine, 2**32 - 1) == ("kill" if machine == "x86_64" else "EPERM")


@MACHINES
def test_the_filter_allows_to_open_files_for_reading_only(machine: str) -> None:
    numbers = seccomp.numbers(machine)
    calls = {"openat": (2**32 - 100, 4096), "open": (4096,)}
    for name, arguments in calls.items():
        if name not in numbers:
            continue
        for flags in (os.O_RDONLY, os.O_CLOEXEC, os.O_NONBLOCK | os.O_APPEND):
            assert verdict(machine, numbers[name], *arguments, flags) == "allow"
            # The kernel ignores the upper half.
            assert verdict(machine, numbers[name], *arguments, flags | 1 << 32) == "allow"
        for flags in (os.O_WRONLY, os.O_RDWR, os.O_CREAT, os.O_TRUNC, os.O_TMPFILE | os.O_RDWR):
            for more in (0, os.O_CLOEXEC, os.O_DIRECTORY):
                assert verdict(machine, numbers[name], *arguments, flags | more) == "kill"


@MACHINES
def test_the_filter_allows_to_wait_within_a_process_only(machine: str) -> None:
    number, within_a_process, real_time = seccomp.numbers(machine)["futex"], 128, 256
    for operation in range(14):
        for more in (0, real_time, 1 << 32, within_a_process << 32):
            assert verdict(machine, number, 4096, operation | more) == "EPERM"
            allowed = operation | more | within_a_process
            assert verdict(machine, number, 4096, allowed) == "allow"


@MACHINES
def test_the_filter_refuses_to_tell_a_process_about_another_one(machine: str) -> None:
    numbers = seccomp.numbers(machine)
    clocks = ["clock_gettime", "clock_getres", "clock_nanosleep"]
    for name in clocks:
        for clock in (*range(12), 1 << 32):
            assert verdict(machine, numbers[name], clock) == "allow"
        # The processor time of process 1 and of its thread, and a clock from a descriptor.
        for clock in (~1 << 3 | 2, ~1 << 3 | 6, ~3 << 3 | 3):
            for argument in (clock % 2**32, clock % 2**64):
                assert verdict(machine, numbers[name], argument) == "EPERM"
    for process, answer in ((0, "allow"), (1, "EPERM"), (2**22, "EPERM"), (2**32 - 1, "EPERM")):
        assert verdict(machine, numbers["sched_getaffinity"], process) == answer
        assert verdict(machine, numbers["sched_getaffinity"], process | 1 << 32) == answer


@MACHINES
def test_the_filter_kills_calls_of_another_architecture(machine: str) -> None:
    i386 = 0x40000003
    others = {i386, *seccomp.ARCHITECTURES.values()} - {seccomp.ARCHITECTURES[machine]}
    for other in others:
        for number in range(1000):
            assert verdict(machine, number, architecture=other) == "kill"
    if machine == "x86_64":
        x32 = 1 << 30
        assert {verdict(machine, x32 + number) for number in range(1000)} == {"kill"}


def test_a_processor_without_a_filter_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(OSError, match="no system-call filter for riscv64"):
        seccomp.Filter()


def test_a_refused_call_is_named() -> None:
    with pytest.raises(jail.Refused, match="a root of its own: umount2: "):
        jail._call("a root of its own", "umount2", b"/nowhere", 0)


# ---- the command ---------------------------------------------------------------------------------


@sandboxed
def test_the_command_judges_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.py"
    file.write_text(FIRST_LEGAL)
    command = ["evaluate", "--strategy", str(file), "--size", "2", "--episodes", "5"]
    assert cli.main([*command, "--json", "--against", "random"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["evaluations"][0]["failures"]["games"] == 0
    assert printed["comparison"]["first"] == "mine.py"
    secret = printed["evaluations"][0]["secret"]
    assert cli.main([*command, "--json", "--secret", secret]) == 0
    repeated = json.loads(capsys.readouterr().out)
    assert repeated["score"] == printed["evaluations"][0]["score"]
    assert cli.main([*command, "--first-seed", str(FIRST_SEED)]) == 2
    assert "seeds derived from a secret" in capsys.readouterr().err
    file.write_text("def strategy(board):\n    return 'left'\n")
    assert cli.main(command) == 0
    assert re.search(r"^illegal +5 +100.00 %", capsys.readouterr().out, re.MULTILINE)
    file.write_text("def strategy(board:\n")
    assert cli.main(command) == 1
    assert "mine.py can't be judged: line 1: " in capsys.readouterr().err
    assert cli.main([*command[:2], str(tmp_path / "none.py")]) == 2
    assert "No such file" in capsys.readouterr().err
    assert cli.main([*command, "random"]) == 2
    assert "not allowed with argument" in capsys.readouterr().err


def test_the_command_judges_with_its_limits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text(FIRST_LEGAL)
    limits = "--move-timeout 50 --game-timeout 70.5 --memory 128 --unsafe"
    command = f"evaluate --strategy {tmp_path}/mine.py --size 2 --episodes 1 --json {limits}"
    with pytest.warns(RuntimeWarning, match="without a sandbox"):
        assert cli.main(command.split()) == 0
    card = json.loads(capsys.readouterr().out)["rule_card"]
    names = ("move timeout, s", "game timeout, s", "memory, MB", "sandbox")
    assert [card[name] for name in names] == [50, 70.5, 128, "off"]


def test_an_emoji_on_an_ascii_terminal_loses_nothing(tmp_path: Path) -> None:
    file, game, page = tmp_path / "\U0001f3b2.py", tmp_path / "game.json", tmp_path / "game.html"
    file.write_text(f"{SLIDE}def strategy(board):\n    raise ValueError('\U0001f3b2')\n")
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}

    def run(*words: str) -> str:
        command = [sys.executable, "-m", "twofold", *words]
        environment = os.environ | plain
        ran = subprocess.run(command, capture_output=True, timeout=PATIENCE, env=environment)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.decode("ascii")

    judge = ["evaluate", "--strategy", str(file), "--unsafe", "--episodes", "2"]
    said = run(*judge, "--record", "best", str(game))
    assert "????.py on twofold/Game2048-v0: 2 games" in said
    assert r"ValueError: \U0001f3b2 (line" in said
    document = json.loads(game.read_text())
    document["about"]["policy"] = "\U0001f3b2"
    game.write_text(json.dumps(document))
    run("replay", str(game), "--html", str(page))
    assert "\U0001f3b2" in page.read_text("utf-8")
