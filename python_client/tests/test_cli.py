"""The command `twofold`: its table of subcommands, and its errors."""

import argparse
import importlib
import json
import subprocess
import sys
import types

import pytest
from terminal import Terminal

import twofold
from twofold import cli, errors


def test_every_subcommand_of_the_table_has_a_help(capfd: pytest.CaptureFixture[str]) -> None:
    for name, (module, _) in cli.SUBCOMMANDS.items():
        assert callable(importlib.import_module(module).run)
        if module == "twofold.cli.server":
            assert cli.main([name, "--help"]) == 0
            assert f"twofold-server {name}" in capfd.readouterr().out
            continue
        with pytest.raises(SystemExit) as exit_info:
            cli.main([name, "--help"])
        assert exit_info.value.code == 0
        assert f"usage: twofold {name}" in capfd.readouterr().out


def test_the_help_lists_all_subcommands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    output = capsys.readouterr().out
    assert all(name in output for name in cli.SUBCOMMANDS)


def test_no_and_unknown_subcommands_are_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["dance"]):
        with pytest.raises(SystemExit) as exit_info:
            cli.main(arguments)
        assert exit_info.value.code == 2
        assert "usage: twofold" in capsys.readouterr().err


def test_the_console_script_becomes_the_server() -> None:
    command = [sys.executable, "-m", "twofold", "serve", "--endpoint", "tcp://127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        assert server.stdout is not None
        assert server.stdout.readline().startswith(b"listening on tcp://")
        server.terminate()
        assert server.wait(10) == 0


def test_the_module_runs_as_a_program() -> None:
    command = [sys.executable, "-m", "twofold", "version"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert output.splitlines()[0].split() == ["twofold", twofold.__version__]


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (errors.InvalidArgument("lanes are 0"), 1, "twofold broken: lanes are 0\n"),
        (FileNotFoundError(2, "No such file", "a"), 1, "No such file: 'a'"),
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
    assert text in capsys.readouterr().err


@pytest.mark.parametrize("flag", [[], ["--no-progress"]])
def test_progress_is_drawn_by_rich_on_a_terminal(
    flag: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    command = ["evaluate", "random", "--episodes", "50", "--endpoint", "embedded"]
    assert cli.main([*command, *flag]) == 0
    assert ("50 of 50 games" in screen.getvalue()) == (not flag)
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    assert cli.main([*command, *flag]) == (0 if flag else 1)
    if not flag:
        assert screen.getvalue().endswith("not installed: pip install 'twofold[cli]'\n")


def test_the_arguments_of_concentration_make_its_boards(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = ["evaluate", "perfect-memory", "--env", "twofold/Concentration-v0", "--size", "2x4"]
    command += ["--symbols", "2", "--peeks", "0", "--episodes", "20", "--format", "json"]
    assert cli.main(command) == 0
    card = json.loads(capsys.readouterr().out)["rule_card"]
    assert (card["size"], card["symbols"], card["peeks"]) == ("2 x 4", 2, 0)


@pytest.mark.parametrize(
    ("env", "flag"),
    [
        ("twofold/Game2048-v0", ["--peeks", "3"]),
        ("twofold/Concentration-v0", ["--start-tiles", "3"]),
    ],
)
def test_the_arguments_of_another_game_are_refused(
    capsys: pytest.CaptureFixture[str], env: str, flag: list[str]
) -> None:
    assert cli.main(["evaluate", "random", "--env", env, *flag]) == 1
    assert capsys.readouterr().err.startswith(f"twofold evaluate: {flag[0]} is for twofold/")
