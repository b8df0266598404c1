"""The command `twofold`: its table of subcommands, and its errors."""

import argparse
import importlib
import json
import os
import re
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from servers import PATIENCE, running
from terminal import Terminal

import twofold
from twofold import cli, errors
from twofold.cli import playing
from twofold.cli.common import check_outputs

OF_THE_SERVER = ("serve", "keygen", "ping", "solve", "bench")
OWN = [name for name in cli.SUBCOMMANDS if name not in OF_THE_SERVER]


@pytest.mark.parametrize("name", cli.SUBCOMMANDS)
def test_every_subcommand_of_the_table_has_a_help(
    name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_info:
        cli.main([name, "--help"])
    assert exit_info.value.code == 0
    text = capfd.readouterr().out
    if name in OF_THE_SERVER:
        assert f"USAGE: twofold {name} " in text
        assert "twofold-server" not in text
    else:
        assert text.startswith(f"usage: twofold {name}")
        assert f"\n\nExample: twofold {name}" in text


def options(name: str) -> dict[str, argparse.Action]:
    """Returns a subcommand's options and arguments by name, without --help."""
    parser = argparse.ArgumentParser(add_help=False)
    importlib.import_module(cli.SUBCOMMANDS[name][0]).add_arguments(parser)
    assert not any(len(action.option_strings) > 1 for action in parser._actions)
    return {(action.option_strings or [action.dest])[0]: action for action in parser._actions}


@pytest.mark.parametrize("name", OWN)
def test_every_option_has_a_help_with_its_unit_and_default(name: str) -> None:
    for option, action in options(name).items():
        assert action.help
        takes_value = action.nargs != 0
        if option.startswith("--") and takes_value:
            assert action.metavar or action.choices, option
        if takes_value and action.default not in (None, []):
            assert "(default: " in action.help, option


@pytest.mark.parametrize("name", OWN)
def test_every_subcommand_has_json(name: str) -> None:
    assert "--json" in options(name)


def test_a_name_means_the_same_in_every_subcommand() -> None:
    meanings: dict[str, set[object]] = {}
    for name in OWN:
        for option, action in options(name).items():
            if option.startswith("--") and option != "--format":
                text = str(action.help).partition(" (default: ")[0]
                kind = (action.metavar, action.type, action.nargs, text)
                meanings.setdefault(option, set()).add(kind)
    assert {option for option, kinds in meanings.items() if len(kinds) > 1} == set()
    connection = {"--endpoint", "--curve-server", "--curve-client", "--timeout"}
    assert all(
        not connection & options(each).keys() or connection <= options(each).keys() for each in OWN
    )
    shows = ["evaluate", "train", "write-dataset", "export", "verify"]
    assert [each for each in OWN if "--quiet" in options(each)] == shows


def test_the_help_lists_all_subcommands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    output = capsys.readouterr().out
    assert all(name in output for name in cli.SUBCOMMANDS)


TWICE, EXCLUSIVE = r"argument --[a-z]+: given twice", "not allowed with argument"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("evaluate random --against greedy --against fixed-order", TWICE),
        ("evaluate --strategy a.py --strategy=b.py", TWICE),
        ("evaluate random --episodes 2 --episodes 2", TWICE),
        ("write-dataset random --transitions 9 --out a --out b", TWICE),
        ("doctor tcp://a:5555 --endpoint tcp://b:5555", EXCLUSIVE),
        ("stats --endpoint tcp://a:5555 tcp://b:5555", EXCLUSIVE),
        ("replay a.json --html b.html --speed 9", EXCLUSIVE),
    ],
)
def test_arguments_that_exclude_each_other_are_wrong_usage(
    words: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words.split()) == 2
    assert re.search(text, capsys.readouterr().err)


@pytest.mark.parametrize(
    "command", ["evaluate random", "train {}/a.npz", "write-dataset random --out {}/a"]
)
@pytest.mark.parametrize("size", ["big", "3x4x5", "3x", ""])
def test_a_size_without_one_or_two_sides_is_wrong_usage(
    command: str, size: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*command.format(tmp_path).split(), "--size", size]) == 2
    expected = f"--size is {size!r}; expected 4, or 3x5 for rows x columns\n"
    assert capsys.readouterr().err.endswith(expected)


@pytest.mark.parametrize(
    "words",
    [
        "evaluate random --save {}/a.json",
        "evaluate random --record best {}/a.json",
        "evaluate random --plot {}/a.png",
        "write-dataset random --out {}/a.parquet",
        "replay nowhere.json --html {}/a.html",
        "export nowhere.parquet --huggingface {}/a",
        "convert-weights nowhere.bin {}/a.npz",
        "train {}/a.npz",
        "train {0}.npz --size 2 --steps 1 --plot {0}/a.png",
    ],
)
def test_a_missing_folder_is_reported_before_the_work(
    words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "nowhere"
    given = words.format(folder)
    assert cli.main(given.split()) == 1
    expected = f"{folder}: the folder does not exist; make it first\n"
    assert capsys.readouterr().err.endswith(expected)


@pytest.mark.parametrize(
    "words",
    [
        "evaluate --strategy a.py --save a.py",
        "evaluate --strategy a.py --save link",
        "evaluate --strategy a.py --record best a.py",
        "evaluate a.py:policy --save a.py",
        "evaluate random --against a.py:policy --record best a.py",
        "evaluate --chat http://127.0.0.1:9 --model m --prompt prompt --save prompt",
        "evaluate ntuple:net --save net",
        "evaluate random --against ntuple:net --record best net",
        "evaluate read.by_name:policy --save read/by_name.py",
        "write-dataset a.py:policy --out a.py",
        "write-dataset ntuple:net --out net",
        "replay a.json --html a.json",
        "convert-weights a.bin a.bin",
    ],
)
def test_no_command_overwrites_a_file_that_it_reads(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"a.py": "def policy(observations, mask): 1 / 0", "prompt": "{board}", "a.json": "x"}
    files |= {"a.bin": "x", "read/by_name.py": files["a.py"]}
    (tmp_path / "read").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "link").symlink_to("a.py")
    twofold.policies.NTuple([[0]], [np.zeros(16, np.float32)]).save(tmp_path / "net")
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    monkeypatch.chdir(tmp_path)
    assert cli.main(words.split()) == 2
    assert "is also an input; name a different file" in capsys.readouterr().err
    assert {file: file.read_bytes() for file in before} == before


def test_a_model_of_stable_baselines3_is_an_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def load(path: str, *, trust_pickle: bool) -> Callable[..., object]:
        return lambda observations, action_mask: 1 / 0

    monkeypatch.setattr("twofold.policies.sb3.SB3Policy.load", load)
    monkeypatch.chdir(tmp_path)
    Path("model.zip").write_text("x")
    assert cli.main(["evaluate", "model.zip", "--save", "model.zip"]) == 2
    assert "is also an input" in capsys.readouterr().err
    assert Path("model.zip").read_text() == "x"


def test_a_result_may_replace_a_file_with_the_name_of_a_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "greedy").write_text("the result of an earlier evaluation")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["evaluate", "greedy", "--episodes", "2", "--save", "greedy"]) == 0
    assert (tmp_path / "greedy").read_text().startswith("{")


def test_the_console_script_becomes_the_server() -> None:
    command = [sys.executable, "-m", "twofold", "serve", "--endpoint", "tcp://127.0.0.1:0"]
    with running(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        assert server.stdout is not None
        assert server.stdout.readline().startswith(b"listening on tcp://")
        server.terminate()
        assert server.wait(PATIENCE) == 0


def test_the_module_runs_as_a_program() -> None:
    command = [sys.executable, "-m", "twofold", "--version"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert output == f"twofold {twofold.__version__}\n"


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (errors.InvalidArgument("lanes are 0"), 2, "twofold broken: lanes are 0\n"),
        (errors.NotFound("no such policy", field="policy"), 2, "twofold broken: no such policy\n"),
        (errors.NotFound("no such session", field="session"), 1, "broken: no such session\n"),
        (errors.FailedPrecondition("no table", field="policy"), 1, "broken: no table\n"),
        (errors.ResourceExhausted("too slow", field="policy"), 1, "broken: too slow\n"),
        (errors.PolicyError("it raised", policy="a", call=0), 1, "twofold broken: it raised\n"),
        (FileNotFoundError(2, "No such file", "a"), 1, "a: No such file\n"),
        (MemoryError(), 1, "twofold broken: MemoryError\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_errors_print_one_line_and_exit_with_a_status(
    error: BaseException,
    status: int,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    module = types.ModuleType("twofold_broken")

    def add_arguments(parser: argparse.ArgumentParser) -> None:
        pass

    def run(arguments: argparse.Namespace) -> int:
        raise error

    vars(module).update(add_arguments=add_arguments, run=run)
    monkeypatch.setitem(sys.modules, "twofold_broken", module)
    monkeypatch.setitem(cli.SUBCOMMANDS, "broken", ("twofold_broken", "fail"))
    assert cli.main(["broken"]) == status
    message = capsys.readouterr().err
    assert message.endswith(text)
    assert message.count("\n") == bool(text)


@pytest.mark.parametrize("flag", [[], ["--json"], ["--quiet"]])
def test_progress_is_drawn_by_rich_on_a_terminal(
    flag: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    command = ["evaluate", "random", "--episodes", "50", "--endpoint", "embedded"]
    assert cli.main([*command, *flag]) == 0
    assert ("50 of 50 games" in screen.getvalue()) == (flag != ["--quiet"])
    monkeypatch.setitem(sys.modules, "rich", None)
    assert cli.main([*command, *flag]) == 0
    note = "progress bars need rich, which is not installed: pip install 'twofold[cli]'\n"
    assert screen.getvalue().endswith(note) == (flag != ["--quiet"])


def test_progress_shows_a_name_as_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    name = "qwen3 [/no_think] v2[old].npz :smile: \x1b[2J"
    with playing.progress(name, "games", argparse.Namespace(quiet=False)) as update:
        assert update is not None
        update(1, 2)
    assert "qwen3 [/no_think] v2[old].npz :smile: ?[2J" in screen.getvalue()


def test_the_rate_of_a_resumed_task_counts_only_its_new_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    seconds = iter([100.0, 102.0])
    clock = types.SimpleNamespace(monotonic=lambda: next(seconds, 102.0))
    monkeypatch.setattr(playing, "time", clock)
    with playing.progress("agent", "seconds", argparse.Namespace(quiet=False)) as update:
        assert update is not None
        update(50, 90, 1_000_000)
        update(52, 90, 1_000_600)
    assert re.findall(r"([\d,]+) steps/s", screen.getvalue())[-1] == "300"


def test_the_arguments_of_concentration_make_its_boards(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = ["evaluate", "perfect-memory", "--env", "twofold/Concentration-v0", "--size", "2x4"]
    command += ["--symbols", "2", "--peeks", "0", "--episodes", "20", "--json"]
    assert cli.main(command) == 0
    card = json.loads(capsys.readouterr().out)["rule_card"]
    assert (card["size"], card["symbols"], card["peeks"]) == ("2 x 4", 2, 0)


def test_the_number_of_peeks_may_be_unlimited(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["evaluate", "perfect-memory", "--env", "twofold/Concentration-v0", "--size", "2"]
    assert cli.main([*command, "--peeks", "unlimited", "--episodes", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rule_card"]["peeks"] == "any number"
    assert cli.main([*command, "--peeks", "many"]) == 2
    assert "invalid peeks value: 'many'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("env", "flag"),
    [
        ("twofold/Game2048-v0", ["--peeks", "3"]),
        ("twofold:twofold/Game2048-v0", ["--peeks", "3"]),
        ("twofold/Concentration-v0", ["--start-tiles", "3"]),
    ],
)
def test_the_arguments_of_another_game_are_refused(
    capsys: pytest.CaptureFixture[str], env: str, flag: list[str]
) -> None:
    assert cli.main(["evaluate", "random", "--env", env, *flag]) == 2
    message = capsys.readouterr().err
    assert message.startswith(f"twofold evaluate: {flag[0]} applies to twofold/")
    assert message.endswith(f" only, not to {env}\n")


def test_an_environment_of_another_package_gets_only_the_given_arguments() -> None:
    parser = argparse.ArgumentParser()
    playing.add_environment_arguments(parser, "1")
    arguments = parser.parse_args(["--env", "other/Game-v0", "--goal", "64", "--peeks", "2"])
    assert playing.environment_arguments(arguments, arguments.env) == {"goal": 64, "peeks": 2}


def test_two_spellings_of_a_path_name_the_same_result(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    check_outputs([tmp_path / "a", tmp_path / "folder" / "a"])
    with pytest.raises(errors.InvalidArgument, match="a is given for two results"):
        check_outputs([tmp_path / "a", tmp_path / "folder" / ".." / "a"])


def test_a_result_may_go_to_the_device_that_is_the_standard_output(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = os.stat(os.devnull)
    monkeypatch.setattr(os, "fstat", lambda _: device)
    check_outputs([Path(os.devnull)])


def test_only_one_name_of_patterns_is_accepted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--patterns", "yeh", "matsuzaki", "--steps", "64"]
    assert cli.main(["train", str(tmp_path / "a.npz"), *words]) == 2
    assert "patterns[0] is 'yeh'; expected a tuple of cells" in capsys.readouterr().err
