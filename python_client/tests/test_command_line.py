"""docs/reference/command_line.md is right about each command's JSON and each exit status."""

import contextlib
import itertools
import json
import os
import re
import resource
import shlex
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from servers import PATIENCE, Server, running, wait_until

import twofold
from twofold import cli
from twofold.cli.common import check_outputs
from twofold.client.lookup import find_program

PAGE = (Path(__file__).resolve().parents[2] / "docs/reference/command_line.md").read_text()
JSON = PAGE.split("## JSON\n", 1)[1].split("\n## ", 1)[0]
ROWS = re.findall(r"^\| `(.*?)` \| (.*) \|$", JSON, re.MULTILINE)
NAMES = {name: set(re.findall(r"`(\w+)`", names)) for name, names in ROWS}
OWN = ["serve", "keygen", "ping", "solve", "bench"]
# Run until a signal ends them; tests/trainers/test_openenv_served.py and test_mcp.py start them.
ENDLESS = ["openenv", "mcp"]

EVALUATE = ["evaluate", "random", "--episodes", "20"]
# The commands that succeed, by their row in the page.
RIGHT = {
    "stats": ["stats", "--endpoint", "{ipc}"],
    "evaluate": EVALUATE,
    "evaluate --against": [*EVALUATE, "--against", "greedy"],
    "replay": ["replay", "{files}/good.json"],
    "write-dataset": ["write-dataset", "random", "--transitions", "9", "--out", "{files}/new"],
    "export": ["export", "{files}/good.parquet", "--huggingface", "{files}/{number}"],
    "convert-weights": ["convert-weights", "{files}/network.bin", "{files}/network.npz"],
    "train": ["train", "{files}/trained.npz", "--size", "2", "--steps", "1000"],
    "verify": ["verify", "{files}/good.parquet"],
    "doctor": ["doctor"],
}
WRONG = [
    (1, "stats --timeout 0.1 --endpoint ipc:///nowhere/s", "DeadlineExceeded"),
    (1, "evaluate {files}/policy.py:raises --episodes 2", "PolicyError"),
    (1, "evaluate random --episodes 2 --save {files}/nowhere/a.json", "FileNotFoundError"),
    (1, "replay {files}/nowhere.json", "FileNotFoundError"),
    (1, "replay {files}", "IsADirectoryError"),
    (1, "evaluate ntuple:{files}/loop.npz", "OSError"),
    (1, "evaluate --strategy {files}/loop.npz --episodes 1", "OSError"),
    (1, "replay {files}/bad.json", "InvalidRecording"),
    (1, "replay {files}/good.parquet", "InvalidRecording"),
    (1, "write-dataset random --transitions 9 --out {files}/nowhere/a", "FileNotFoundError"),
    (1, "write-dataset {files}/policy.py:raises --out {files}", "IsADirectoryError"),
    (1, "write-dataset {files}/policy.py:raises --out {files}/nowhere/a", "FileNotFoundError"),
    (1, "replay {files}/bad.json --html {files}/nowhere/a", "FileNotFoundError"),
    (1, "export {files}/nowhere.parquet --huggingface {files}/a", "FileNotFoundError"),
    (1, "export {files}/bad.json --huggingface {files}/a", "InvalidDataset"),
    (1, "export {files}/good.parquet --huggingface {files}/a/b", "FileNotFoundError"),
    (1, "convert-weights {files}/nowhere.bin {files}/a.npz", "FileNotFoundError"),
    (1, "train {files}/nowhere/a.npz --steps 1", "FileNotFoundError"),
    (1, "train {files}/nowhere.npz --size 2 --resume", "FileNotFoundError"),
    (2, "train {files}/network.npz --size 2 --resume", "InvalidArgument"),
    (2, "train {files}/a.npz --patterns 0,1,x --size 2", "InvalidArgument"),
    (2, "train {files}/a.npz --threads 0 --size 2", "InvalidArgument"),
    (2, "train {files}/a.npz --episodes 5 --steps 1 --size 2", "InvalidArgument"),
    (1, "convert-weights {files}/network.bin {files}/nowhere/a.npz", "FileNotFoundError"),
    (1, "convert-weights {files}/good.json {files}", "IsADirectoryError"),
    (1, "verify {files}/nowhere.parquet", "FileNotFoundError"),
    (1, "verify {files}/bad.json", "InvalidDataset"),
    (
        1,
        "verify {files}/good.parquet --endpoint ipc:///nowhere/s --timeout 0.1",
        "DeadlineExceeded",
    ),
    (2, "", "UsageError"),
    (2, "dance", "UsageError"),
    (2, "stats --end x", "UsageError"),
    (2, "stats --endpoint x", "InvalidArgument"),
    (2, "stats --timeout 0", "UsageError"),
    (2, "stats --curve-server a --endpoint {ipc}", "InvalidArgument"),
    (2, "evaluate", "UsageError"),
    (2, "evaluate clever", "InvalidArgument"),
    (2, "evaluate ntuple:{files}/nowhere.npz", "NotFound"),
    (2, "evaluate {files}/nowhere.py:f", "NotFound"),
    (2, "evaluate random --env Dance-v0", "InvalidArgument"),
    (2, "evaluate random --env nowhere:Dance-v0", "InvalidArgument"),
    (2, "evaluate random --env ::", "InvalidArgument"),
    (2, "evaluate random --env MountainCar-v0 --size 3", "InvalidArgument"),
    (2, "evaluate random --size 99", "InvalidArgument"),
    (2, "write-dataset random --transitions 0 --out {files}/a", "InvalidArgument"),
    (2, "export {files}/good.parquet", "UsageError"),
    (2, "export {files}/good.parquet --minari a/b-v0 --huggingface {files}/a", "UsageError"),
    (2, "export {files}/good.parquet --huggingface {files}", "InvalidArgument"),
    (2, "convert-weights {files}/good.json {files}/a.npz", "InvalidArgument"),
    (2, "verify {files}/good.parquet --endpoint x", "InvalidArgument"),
    (2, "doctor --verbose", "UsageError"),
]

POLICY = """
def raises(observations, action_mask):
    raise KeyError("observations")

def prints(observations, action_mask):
    print("thinking")
    return action_mask.argmax(axis=1)
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with valid and invalid files."""
    made = tmp_path_factory.mktemp("files")
    (made / "policy.py").write_text(POLICY)
    result = twofold.evaluate("random", episodes=1, record=True)
    result.recording("best").save(made / "good.json")
    (made / "bad.json").write_text(
        (made / "good.json").read_text().replace('"score": ', '"score": 1')
    )
    # One tuple of one cell, as TDL2048-Demo writes it.
    name = b"1-tuple pattern 3"
    network = struct.pack(f"<Qi{len(name)}sQ16f", 1, len(name), name, 16, *range(16))
    (made / "network.bin").write_bytes(network)
    words = ["convert-weights", str(made / "network.bin"), str(made / "network.npz")]
    assert cli.main(words) == 0
    twofold.datasets.write(made / "good.parquet", "random", transitions=9, num_envs=3)
    (made / "loop.npz").symlink_to("loop.npz")
    return made


@pytest.fixture
def run(server: Server, files: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs a command in this process; returns its status, standard output and standard error."""
    numbers = itertools.count()

    def run(command: list[str]) -> tuple[int, str, str]:
        values = {"ipc": server.ipc, "files": files, "number": next(numbers)}
        status = cli.main([word.format(**values) for word in command])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


def test_the_page_has_all_commands_and_statuses() -> None:
    assert {row.split()[0] for row in NAMES} | {*OWN, *ENDLESS} == cli.SUBCOMMANDS.keys()
    assert all(f"`{name}" in PAGE for name in OWN + ENDLESS)
    statuses = [0, cli.FAILED, cli.WRONG_USAGE, cli.INTERRUPTED, cli.TERMINATED]
    assert re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE) == list(map(str, statuses))


@pytest.mark.parametrize("row", NAMES)
def test_a_command_that_succeeds_prints_text_or_one_line_of_json(row: str, run: Any) -> None:
    status, text, _ = run(RIGHT[row])
    assert status == 0
    assert text
    assert not text.startswith("{")
    status, line, _ = run([*RIGHT[row], "--json"])
    assert status == 0
    assert line.count("\n") == 1
    assert json.loads(line).keys() == NAMES[row]


@pytest.mark.parametrize(("status", "command", "kind"), WRONG)
def test_a_command_that_fails_reports_it_in_text_and_in_json(
    status: int, command: str, kind: str, run: Any
) -> None:
    words = command.split()
    got, text, message = run(words)
    assert (got, text) == (status, "")
    assert ": " in message
    assert "Traceback" not in message
    got, line, message = run([*words, "--json"])
    assert got == status
    document = json.loads(line)
    assert document.keys() == {"error"}
    assert document["error"]["type"] == kind
    assert message.endswith(f": {document['error']['message']}\n")


@pytest.mark.parametrize(
    ("status", "arguments", "kind", "told"),
    [
        (1, ["solve", "--size", "2x2", "--tables", "/proc/none"], "TwofoldError", "/proc/none"),
        (64, ["solve", "--size", "2x99"], "UsageError", "size is 2 x 99"),
        (64, ["solve", "--objective", "goal"], "UsageError", "requires --goal TILE"),
        (64, ["bench", "--dance"], "UsageError", "Unknown option '--dance'"),
        (64, ["solve", "--tables", b"t\xff"], "UsageError", "is not valid UTF-8"),
        (1, ["bench", "--boards", str(10**12)], "TwofoldError", "there is not enough memory"),
        (64, ["bench", "--boards", str(2**63 - 1)], "UsageError", "--boards must be in 1..."),
    ],
)
def test_a_command_of_the_server_that_fails_reports_it_in_text_and_in_json(
    status: int, arguments: list[str | bytes], kind: str, told: str
) -> None:
    # Some kernels grant any memory, and end a process that uses it.
    command = ["prlimit", f"--as={1 << 35}", find_program(), *arguments, "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert ran.returncode == status
    error = json.loads(ran.stdout)["error"]
    assert error["type"] == kind
    assert told in error["message"]
    assert "EnvironmentError(" not in error["message"]
    assert error["message"] in ran.stderr


def test_a_missing_package_is_named_with_the_extra_that_installs_it(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    status, _, message = run(["mcp"])
    assert status == 1
    assert "pip install 'twofold[mcp]'" in message


def test_an_error_has_the_fields_of_the_exception(run: Any) -> None:
    _, line, _ = run(["evaluate", "{files}/policy.py:raises", "--episodes", "2", "--json"])
    error = json.loads(line)["error"]
    assert error.keys() == {"type", "message", "policy", "call"}
    _, line, _ = run(["evaluate", "random", "--size", "99", "--json"])
    assert line in PAGE


def test_an_error_without_a_text_is_reported_by_its_type(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> NoReturn:
        raise MemoryError

    monkeypatch.setattr("twofold.cli.doctor.run", fail)
    status, line, message = run(["doctor", "--json"])
    assert (status, message) == (1, "twofold doctor: MemoryError\n")
    assert json.loads(line) == {"error": {"type": "MemoryError", "message": "MemoryError"}}


def test_the_words_of_a_policy_stay_out_of_the_json(run: Any) -> None:
    command = ["evaluate", "{files}/policy.py:prints", "--episodes", "1", "--json"]
    status, line, other = run(command)
    assert status == 0
    assert json.loads(line)["episodes"] == 1
    assert other.startswith("thinking\n")


def test_a_signal_ends_a_long_command_and_its_temporary_file(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "twofold", "write-dataset", "random", "--json"]
    command += ["--transitions", "1000000000", "--out", str(tmp_path / "long")]
    with running(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        wait_until(lambda: any(tmp_path.glob("*.part")))
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 143
    assert json.loads(output)["error"]["type"] == "Terminated"
    assert errors == b""
    assert not any(tmp_path.iterdir())


# Commands that write a file; the last word of each is its name.
WRITING = [
    "write-dataset random --transitions 9 --num-envs 3 --out",
    "evaluate random --episodes 1 --save",
    "evaluate random --episodes 1 --record best",
    "replay {files}/good.json --html",
    "convert-weights {files}/network.bin",
]


@contextlib.contextmanager
def full_disk() -> Iterator[None]:
    """Makes every write of this process to a file fail, as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("command", WRITING)
def test_a_new_file_follows_links_and_keeps_permissions(
    command: str, run: Any, tmp_path: Path
) -> None:
    (tmp_path / "real").mkdir()
    file, link = tmp_path / "real/file", tmp_path / "link"
    file.write_text("old")
    file.chmod(0o604)
    os.chown(file, os.getuid(), max(os.getgroups(), default=os.getgid()))
    before = file.stat()
    link.symlink_to("real/file")
    assert run([*command.split(), str(link)])[0] == 0
    assert link.is_symlink()
    after = file.stat()
    assert after.st_size > 100
    assert (after.st_mode, after.st_uid, after.st_gid) == (
        before.st_mode,
        before.st_uid,
        before.st_gid,
    )
    assert {path.name for path in tmp_path.rglob("*")} == {"link", "real", "file"}


@pytest.mark.parametrize("command", WRITING)
def test_a_pipe_a_device_or_a_file_without_a_name_is_written_directly(
    command: str, run: Any, tmp_path: Path
) -> None:
    reader, writer = os.pipe()
    assert run([*command.split(), f"/dev/fd/{writer}"])[0] == 0
    os.close(writer)
    with open(reader, "rb") as pipe:
        assert len(pipe.read()) > 100
    assert run([*command.split(), "/dev/null"])[0] == 0
    with (tmp_path / "file").open("w+b") as file:
        (tmp_path / "file").unlink()
        assert run([*command.split(), f"/dev/fd/{file.fileno()}"])[0] == 0
        assert len(file.read()) > 100
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("command", WRITING)
def test_a_full_disk_leaves_the_previous_file(command: str, run: Any, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    with full_disk():
        status, _, text = run([*command.split(), str(file)])
    assert status == 1
    assert text.endswith(f"twofold {command.split()[0]}: {file}: File too large\n")
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_an_export_to_a_full_disk_leaves_nothing_and_names_the_folder(
    run: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "new"
    with full_disk():
        status, _, text = run(["export", "{files}/good.parquet", "--huggingface", str(folder)])
    assert (status, text) == (1, f"twofold export: {folder}: File too large\n")
    assert not any(tmp_path.iterdir())


def test_names_may_contain_bytes_that_are_not_utf_8(run: Any, tmp_path: Path) -> None:
    file, folder = (str(tmp_path / name) for name in ("d\udcff", "new\udcff"))
    write = ["write-dataset", "random", "--transitions", "9", "--out", file]
    for command in (write, ["verify", file], ["export", file, "--huggingface", folder]):
        assert run([*command, "--json"])[0] == 0
    assert sorted(os.listdir(os.fsencode(tmp_path))) == [b"d\xff", b"new\xff"]


def test_an_interrupted_check_of_a_new_file_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = Path.open

    def interrupted(path: Path, mode: str) -> NoReturn:
        make(path, mode).close()
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "open", interrupted)
    with pytest.raises(KeyboardInterrupt):
        check_outputs([tmp_path / "new"])
    assert not any(tmp_path.iterdir())


def test_the_check_of_a_new_file_leaves_what_another_process_has_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = Path.open

    def overtaken(path: Path, mode: str) -> Any:
        with open(path, "w") as file:
            file.write("complete")
        return make(path, mode)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", overtaken)
        check_outputs([tmp_path / "new"])
    assert (tmp_path / "new").read_text() == "complete"


def in_shell(
    command: list[str], redirection: str, output: int = subprocess.DEVNULL
) -> tuple[int, str]:
    """Runs a command with redirected output. Returns its status and the end of its errors."""
    # The command writes its output when it ends.
    variables = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    line = shlex.join([sys.executable, "-m", "twofold", *command])
    ran = subprocess.run(
        ["bash", "-c", f"{line} {redirection}"],
        stdout=output,
        stderr=subprocess.PIPE,
        text=True,
        env=variables,
    )
    return ran.returncode, ran.stderr.rpartition("] ")[2]


@pytest.mark.parametrize("words", [["keygen", "a"], ["--help"], ["--version"]], ids=str)
def test_output_of_a_server_command_to_a_full_disk_is_status_1(
    words: list[str], tmp_path: Path
) -> None:
    command = shlex.join([str(find_program()), *words])
    ran = subprocess.run(
        ["sh", "-c", f"{command} >/dev/full"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    assert ran.returncode == 1
    assert "No space left on device" in ran.stderr


@pytest.mark.parametrize("closed", [">&- 2>&-", "<&- 2>&-"])
def test_a_board_is_solved_without_standard_descriptors(closed: str, tmp_path: Path) -> None:
    command = [str(find_program()), "solve", "--size", "2", "--tables", str(tmp_path)]
    ran = subprocess.run(["sh", "-c", f'exec "$0" "$@" {closed}', *command])
    assert ran.returncode == 0
    assert list(tmp_path.glob("*.table"))


@pytest.mark.parametrize("command", ["keygen new", "solve --size 2 --tables new --quiet --json"])
def test_the_servers_commands_survive_the_limit_on_file_size(command: str, tmp_path: Path) -> None:
    with full_disk():
        ran = subprocess.run(
            [str(find_program()), *command.split()], cwd=tmp_path, capture_output=True, text=True
        )
    assert ran.returncode == 1
    assert "File too large" in ran.stderr
    assert ("File too large" in ran.stdout) == ("--json" in command)
    assert not list(tmp_path.glob("*secret"))


def test_a_variable_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    variables = {**os.environb, b"TWOFOLD_TABLES": os.fsencode(tmp_path) + b"/t\xff"}
    command = [str(find_program()), "solve", "--size", "2"]
    ran = subprocess.run(command, env=variables, capture_output=True, text=True)
    assert ran.returncode == 64
    assert "which is not valid UTF-8" in ran.stderr
    assert not any(tmp_path.iterdir())


def test_a_signal_ends_a_command_that_is_the_first_process_of_a_container() -> None:
    new_processes = ["unshare", "--pid", "--fork"]
    if not shutil.which("unshare") or subprocess.run([*new_processes, "true"]).returncode:
        pytest.skip("this user may not make a PID namespace")
    command = [*new_processes, str(find_program()), "bench", "--boards", "1", "--rounds", "1000"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")

        def has_ended() -> bool:
            # A signal that comes before the program has its handlers is lost.
            for child in children.read_text().split():
                os.kill(int(child), signal.SIGTERM)
            return process.poll() is not None

        try:
            wait_until(has_ended)
        finally:
            for child in children.read_text().split() if process.poll() is None else ():
                os.kill(int(child), signal.SIGKILL)
    assert process.returncode == 128 + signal.SIGTERM


def test_output_of_a_help_to_a_full_disk_is_status_1() -> None:
    assert in_shell(["--help"], ">/dev/full") == (1, "No space left on device\n")


@pytest.mark.parametrize("redirection", [">> {}", "| cat >> {}"])
def test_a_file_is_not_the_standard_output(redirection: str, tmp_path: Path) -> None:
    file = tmp_path / "collected"
    file.write_text("earlier")
    command = ["evaluate", "random", "--episodes", "1", "--save", "/dev/stdout"]
    _, text = in_shell(command, redirection.format(file))
    assert "/dev/stdout is the standard output" in text
    assert file.read_text() == "earlier"


def test_an_error_has_its_status_and_json_even_if_it_can_not_be_logged() -> None:
    status, _ = in_shell(["replay", "/nowhere", "--json"], "2>/dev/full | grep -q '\"error\"'")
    assert status == 0
    assert in_shell(["evaluate", "nobody"], "2>/dev/full")[0] == 2


def test_an_evaluation_that_can_not_be_logged_does_not_end_its_training(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    command = ["train", str(tmp_path / "agent.npz"), "--steps", "20000", "--size", "2x3", "--json"]
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stderr", full)
        assert cli.main([*command, "--evaluate-every", "0.001", "--episodes", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["evaluations"]
    assert (tmp_path / "agent.npz").exists()


def test_a_link_to_itself_is_a_file_that_can_not_be_written(run: Any, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("link")
    status, _, text = run(["replay", "{files}/good.json", "--html", str(link)])
    assert status == 1
    assert text.endswith("Too many levels of symbolic links\n")
    assert link.is_symlink()


def test_output_to_a_closed_pipe_is_status_1(files: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    for command in (["replay", f"{files}/good.json", "--json"], ["--version"]):
        assert in_shell(command, "", writer) == (1, "")
    os.close(writer)


def test_an_evaluation_that_can_not_be_printed_is_saved(tmp_path: Path) -> None:
    file = tmp_path / "games.json"
    command = ["evaluate", "random", "--episodes", "2", "--save", str(file)]
    assert in_shell(command, ">/dev/full") == (1, "No space left on device\n")
    assert twofold.Evaluation.from_json(file.read_text()).episodes == 2


def test_a_closed_standard_output_is_fine(files: Path) -> None:
    assert in_shell(["replay", f"{files}/good.json"], ">&-") == (0, "")
