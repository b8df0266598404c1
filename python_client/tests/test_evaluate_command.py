"""The command `twofold evaluate` finds policies, checks its options first, and writes its files."""

import io
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evaluations import CONCENTRATION, first_legal
from gymnasium.vector import VectorEnv

import twofold
from twofold import cli, errors
from twofold.policies import SB3Policy
from twofold.policies.choosers import FunctionChooser
from twofold.policies.lookup import load

POLICY_FILE = """
def up_first(observations, action_mask):
    return action_mask.argmax(axis=1)
not_a_policy = 5
class Corner:
    def __call__(self, observations, action_mask):
        return action_mask.argmax(axis=1)
corner = Corner()
"""


# ---- policies ------------------------------------------------------------------------------------


def test_the_command_evaluates_a_function_of_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text(POLICY_FILE)
    command = ["evaluate", f"{tmp_path}/mine.py:up_first", "--episodes", "20"]
    command += ["--endpoint", "embedded", "--size", "3x4"]
    saved = tmp_path / "a.json"
    assert cli.main([*command, "--json", "--save", str(saved)]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["episodes"] == 20
    assert printed["rule_card"]["size"] == "3 x 4"
    again = twofold.Evaluation.from_json(saved.read_text())
    direct = twofold.evaluate(first_legal, episodes=20, size=(3, 4), endpoint="embedded")
    np.testing.assert_array_equal(again.scores, direct.scores)

    assert cli.main([*command, "--against", "random", "--format", "markdown"]) == 0
    output = capsys.readouterr().out
    assert output.count("### ") == 3
    assert "against random, the same 20 seeds each" in output
    assert "| mean scores " in output

    assert cli.main([*command, "--name", "up first", "--against", "random"]) == 0
    output = capsys.readouterr().out
    assert output.startswith("up first on twofold/Game2048-v0: 20 games")
    assert "up first against random, the same 20 seeds each" in output

    assert cli.main([*command, "--against", "random", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed.keys() == {"evaluations", "comparison"}
    assert [one["episodes"] for one in printed["evaluations"]] == [20, 20]
    assert printed["evaluations"][0]["policy"] == printed["comparison"]["first"]
    assert printed["comparison"]["second"] == "random"


def test_the_command_evaluates_an_object_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(POLICY_FILE)
    assert isinstance(load(f"{tmp_path}/mine.py:corner"), FunctionChooser)


def test_a_policys_file_may_define_dataclasses(tmp_path: Path) -> None:
    """With annotations that are not evaluated, `dataclass` looks up the module of its class."""
    (tmp_path / "twofold_test_dataclass.py").write_text(
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "@dataclass\n"
        "class Corner:\n"
        "    name: str\n"
        "    def __call__(self, observations, action_mask): ...\n"
        "corner = Corner('upper left')\n"
    )
    assert isinstance(load(f"{tmp_path}/twofold_test_dataclass.py:corner"), FunctionChooser)


def test_the_command_finds_functions_of_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "twofold_test_policies.py").write_text(POLICY_FILE)
    monkeypatch.chdir(tmp_path)
    policy = load("twofold_test_policies:up_first")
    assert policy.name == "twofold_test_policies:up_first"
    assert isinstance(policy, FunctionChooser)
    function: Any = policy.make(VectorEnv())
    assert np.array_equal(function(None, np.array([[0, 1, 0, 1]], np.int8)), [1])


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("clever", "'clever' is unknown; expected random"),
        ("expectimax:deep", "expected a depth"),
        (f"expectimax:{'9' * 5000}", "expected a depth"),
        (f"last-k-memory:{'9' * 5000}", "expected a number of cards"),
        ("expectimax:0", "depth is 0"),
        ("ntuple:model.zip", "is not a readable n-tuple network"),
        ("ntuple:nowhere.npz", "No such file"),
        ("no_such_module:f", "no module 'no_such_module'"),
        ("nowhere.py:f", "no file 'nowhere.py'"),
        ("mine.py", "'mine.py' is a file. A program with strategy(board) is judged in a sandbox"),
        ("mine.py:g", "has no 'g'"),
        ("mine.py:not_a_policy", "policy is 5; expected a function"),
        ("one.py:strategy", "policy function does not take two arguments; expected a function"),
        ("one.py:strategy", "in a sandbox, use --strategy FILE"),
        ("one.py:network", "twofold.policies.TorchPolicy turns a PyTorch network into such"),
        ("mine.py:Corner", "is the class Corner; pass an instance, policy = Corner()"),
        ("carded.py:f", "the policy's card is int; expected a mapping"),
        ("needs_module:f", "importing 'needs_module' raised ModuleNotFoundError: No module named"),
        ("broken.py:f", "importing 'broken.py' raised ZeroDivisionError"),
        ("broken.py:f", "broken.py:2 in divide)"),
        ("broken_module:f", "broken_module.py:2 in divide)"),
        ("unclosed.py:f", "SyntaxError: '(' was never closed (unclosed.py, line 1)\n"),
        ("unclosed_module:f", "was never closed (unclosed_module.py, line 1)\n"),
        ("leaves.py:f", "importing 'leaves.py' raised SystemExit"),
        ("lazy.py:f", "importing 'lazy.py' raised ImportError: no f"),
        ("lazy.py:f", "lazy.py:1 in __getattr__)"),
        ("nowhere.zip", "no file 'nowhere.zip'"),
        ("model.zip", "pass --trust-pickle"),
    ],
)
def test_the_command_reports_why_it_found_no_policy(
    word: str,
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "mine.py").write_text(POLICY_FILE)
    for end in (".py", "_module.py"):
        (tmp_path / f"broken{end}").write_text("def divide():\n    1 / 0\ndivide()")
        (tmp_path / f"unclosed{end}").write_text("f = (")
    (tmp_path / "one.py").write_text(
        "def strategy(board): ...\nclass Network:\n    def __call__(self, boards): ...\n"
        "network = Network()"
    )
    (tmp_path / "carded.py").write_text("def f(boards, mask): ...\nf.card = 5")
    (tmp_path / "needs_module.py").write_text("import no_such_module")
    (tmp_path / "leaves.py").write_text("import sys; sys.exit(0)")
    (tmp_path / "lazy.py").write_text("def __getattr__(name): raise ImportError('no f')")
    (tmp_path / "model.zip").write_bytes(b"no zip")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["evaluate", word]) == 2
    assert text in capsys.readouterr().err


def test_a_model_of_stable_baselines3_is_found_with_and_without_its_suffix(tmp_path: Path) -> None:
    (tmp_path / "model.zip").write_bytes(b"no zip")
    for name in ("model", "model.zip"):
        with pytest.raises(errors.InvalidArgument, match=r"model\.zip contains pickled objects"):
            SB3Policy.load(tmp_path / name)
    with pytest.raises(errors.NotFound, match=r"no file '.*nowhere\.zip'"):
        SB3Policy.load(tmp_path / "nowhere")


def test_a_text_as_trust_pickle_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.zip").write_bytes(b"no zip")
    with pytest.raises(errors.InvalidArgument, match="True or False") as info:
        SB3Policy.load(tmp_path / "model.zip", trust_pickle="false")  # type: ignore[arg-type]
    assert info.value.field == "trust_pickle"


def zip_of(data: str, first_byte: int | None = None, method: int | None = None) -> bytes:
    """Makes a zip of the file `data`, optionally with another first byte or compression method."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data", data)
    content = bytearray(file.getvalue())
    if first_byte is not None:
        content[34] = first_byte
    if method is not None:
        content[content.index(b"PK\x01\x02") + 10] = method
    return bytes(content)


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (b"no zip", "BadZipFile"),
        (zip_of("[]"), "AttributeError"),
        (zip_of("null"), "TypeError"),
        (zip_of("[" * 100_000), "RecursionError"),
        (zip_of("{}", first_byte=0xFF), "error: Error -3"),
        (zip_of("{}", method=77), "NotImplementedError"),
    ],
    ids=["no zip", "a list", "null", "nested", "damaged", "an unknown compression"],
)
def test_a_zip_without_a_model_is_refused_before_anything_is_unpickled(
    content: bytes, cause: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model.zip").write_bytes(content)
    assert cli.main(["evaluate", f"{tmp_path}/model.zip", "--trust-pickle"]) == 2
    assert f"model.zip is not a Stable-Baselines3 model ({cause}" in capsys.readouterr().err


def test_perfect_memory_is_evaluated_by_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["evaluate", "perfect-memory", "--against", "random", "--env", CONCENTRATION]
    command += ["--size", "2x4", "--episodes", "300", "--endpoint", "embedded"]
    assert cli.main(command) == 0
    assert "perfect-memory against random, the same 300 seeds each" in capsys.readouterr().out
    assert cli.main(["evaluate", "perfect-memory", "--endpoint", "embedded"]) == 2
    error = capsys.readouterr().err
    assert "expected a Concentration environment" in error
    assert "--env" in error


# ---- options and files ---------------------------------------------------------------------------


def played(observations: Any, action_mask: Any) -> Any:
    raise AssertionError("a game was played")


PLAYED = f"{__name__}:played"


@pytest.mark.parametrize(
    ("words", "player"),
    [
        ("--model gpt", "chat"),
        ("--prompt nowhere", "chat"),
        ("--retries 5", "chat"),
        ("--unsafe", "strategy"),
        ("--move-timeout 1", "strategy"),
    ],
)
def test_the_command_refuses_options_of_another_player(
    words: str, player: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["evaluate", "random", "--episodes", "2", *words.split()]) == 2
    assert f"{words.split()[0]} requires --{player}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        ("--save {}/nowhere/a.json", 1, "{}/nowhere: the folder does not exist; make it first"),
        ("--save {}/file/a.json", 1, "{}/file/a.json: Not a directory"),
        ("--save {}", 1, "{}: Is a directory"),
        ("--save {}/b.json --against random", 1, "{}/b.against.json: Is a directory"),
        ("--record best {}/nowhere/a.json", 1, "{}/nowhere: the folder"),
        ("--record longest {}/a.json", 2, "which is 'longest'"),
        ("--record 20 {}/a.json", 2, "which is 20; expected 0 ... 19"),
        (f"--record {'9' * 5000} {{}}/a.json", 2, "expected 'best'"),
        ("--plot {}/nowhere/a.png", 1, "{}/nowhere: the folder"),
        ("--plot {}/a.unknown", 2, "unknown"),
        ("--plot .", 2, ". is a folder; expected a file"),
        ("--save . --against random", 1, "Is a directory"),
        ("--save {}/a.json --record best {}/a.json", 2, "given for two results"),
    ],
)
def test_the_command_checks_its_files_before_the_first_game(
    words: str, status: int, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if "--plot" in words:
        pytest.importorskip("matplotlib")
    (tmp_path / "file").write_text("kept")
    (tmp_path / "b.against.json").mkdir()
    before = sorted(tmp_path.iterdir())
    command = ["evaluate", PLAYED, "--episodes", "20", *words.split()]
    assert cli.main([word.replace("{}", str(tmp_path)) for word in command]) == status
    message = capsys.readouterr().err
    assert text.replace("{}", str(tmp_path)) in message
    assert "a game was played" not in message
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "file").read_text() == "kept"


def test_the_command_looks_for_matplotlib_before_the_first_game(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    command = ["evaluate", PLAYED, "--plot", f"{tmp_path}/a.png"]
    assert cli.main(command) == 1
    assert "pip install 'twofold[plot]'" in capsys.readouterr().err


def test_a_file_that_can_not_be_written_costs_neither_the_report_nor_the_other_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "best.json"
    command = ["evaluate", "random", "--episodes", "20", "--save", "/dev/full"]
    command += ["--record", "best", str(file)]
    assert cli.main(command) == 1
    out, err = capsys.readouterr()
    assert out.startswith("random on twofold/Game2048-v0: 20 games")
    assert err == "twofold evaluate: /dev/full: No space left on device\n"
    assert file.read_text().startswith("{")
    assert cli.main([*command, "--json"]) == 1
    report, error = map(json.loads, capsys.readouterr().out.splitlines())
    assert report["episodes"] == 20
    assert "/dev/full" in error["error"]["message"]


def test_the_first_policy_is_reported_and_saved_where_the_second_one_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.json"
    command = ["evaluate", "random", "--episodes", "20", "--against", PLAYED]
    assert cli.main([*command, "--save", str(file)]) == 1
    out, err = capsys.readouterr()
    assert out.startswith("random on twofold/Game2048-v0: 20 games")
    assert "a game was played" in err
    assert list(tmp_path.iterdir()) == [file]
    assert twofold.Evaluation.from_json(file.read_text()).episodes == 20


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("--against optimal", "optimal plays only 2048; in other games, pass a function, random"),
        ("--against greedy", "and in Concentration also perfect-memory or last-k-memory:4"),
        ("--against fixed-order", "pass max_episode_steps"),
        ("--regret", "twofold.ceilings computes the expected results of optimal play"),
        ("--against random --regret", "regret requires 2048 on a board with at most nine cells"),
    ],
)
def test_the_command_checks_its_second_policy_and_regret_before_the_first_game(
    words: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["evaluate", PLAYED, "--env", CONCENTRATION, *words.split()]
    assert cli.main(command) == 2
    out, err = capsys.readouterr()
    assert not out
    assert text in err


def test_the_command_checks_the_size_of_the_second_policys_board_before_the_first_game(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = ["evaluate", PLAYED, "--against", "optimal", "--episodes", "20"]
    assert cli.main(command) == 2
    out, err = capsys.readouterr()
    assert not out
    assert "optimal play is available for at most 9 cells" in err
