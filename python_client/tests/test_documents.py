"""The documents' examples work: their Python runs, and their servers start.

All blocks tagged `python` in a page run unchanged, as one program. A block that can't be run,
because it needs an hour, a GPU or another machine, has `<!-- no-run: why -->` before it.
"""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import make_golden
import numpy as np
import pytest
from servers import PATIENCE

import twofold
from twofold.client.lookup import find_program

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    "README.md",
    "SECURITY.md",
    "python_client/README.md",
    *sorted(str(page.relative_to(ROOT)) for page in ROOT.glob("docs/**/*.md")),
]


# The beginning of commands that call the server.
SERVER = r"^\S*twofold(-server)?"
FENCE = re.compile(
    r"(?P<why><!-- no-run: (?:(?!-->).)*-->\n\n?)?"
    r"^```(?P<tag>[^\n`]*)\n(?P<code>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
# The beginning of a line that can only be Python.
PYTHON = re.compile(r"^(import|from \S+ import|def|class|>>>) ", re.MULTILINE)


class Block(NamedTuple):
    """A block of code in a page."""

    tag: str
    code: str
    # Its first line in the page, from 0.
    line: int
    # Whether the page says that it is not run.
    excused: bool


def blocks(text: str) -> list[Block]:
    return [
        Block(
            match["tag"],
            match["code"],
            text.count("\n", 0, match.start("code")),
            bool(match["why"]),
        )
        for match in FENCE.finditer(text)
    ]


def complaints(text: str) -> list[str]:
    """Returns a complaint for each block that is neither run nor marked as `no-run`."""
    told = [
        f"line {block.line + 1}: this looks like Python; tag it python, or say why it is not run"
        for block in blocks(text)
        if not block.excused and block.tag != "python"
        if block.tag not in ("", "text") or PYTHON.search(block.code)
    ]
    if len(re.findall(r"^\s*(?:```|~~~)", text, re.MULTILINE)) != 2 * len(blocks(text)):
        told.append("a block is indented or not closed")
    return told


def program(page: str) -> str:
    """Returns a page's Python, with the page's line numbers, so that tracebacks name them."""
    text = (ROOT / page).read_text()
    lines = [""] * text.count("\n")
    for block in blocks(text):
        if block.tag == "python" and not block.excused:
            code = block.code.splitlines()
            lines[block.line : block.line + len(code)] = code
    return "\n".join(lines) + "\n"


def commands(page: str, command: str) -> list[str]:
    """Returns the lines of a page that run the server program with this subcommand."""
    text = (ROOT / page).read_text()
    lines = [line for block in blocks(text) if not block.tag for line in block.code.splitlines()]
    return [line for line in lines if re.match(rf"{SERVER} {command}\b", line)]


WITH_PYTHON = [page for page in PAGES if program(page).strip()]
SERVERS = [
    pytest.param(page, number, id=f"{page}-{number}")
    for page in PAGES
    for number in range(len(commands(page, "serve")))
]


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory for a page's files. Its name is short, because a socket's path must be short."""
    made = Path(tempfile.mkdtemp(prefix="twofold-test-", dir="/tmp"))
    yield made
    shutil.rmtree(made)


@contextlib.contextmanager
def serving(page: str, number: int, directory: Path) -> Iterator[int]:
    """Runs the page's server, with its files in `directory`. Yields the port that replaces 5555."""
    for line in commands(page, "keygen"):
        line = re.sub(SERVER, shlex.quote(str(find_program())), line)
        subprocess.run(["bash", "-euc", line], cwd=directory, check=True, capture_output=True)
    line = commands(page, "serve")[number].replace(":5555", ":0").replace("/tmp/", f"{directory}/")
    arguments = shlex.split(line, comments=True)[1:]
    server = subprocess.Popen(
        [find_program(), *arguments, "--parent-pid", str(os.getpid())],
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert server.stdout is not None
        told = [server.stdout.readline() for _ in range(arguments.count("--endpoint"))]
        assert all(line.startswith("listening on ") for line in told), server.communicate()[1]
        (port,) = re.findall(r"tcp://\S+:(\d+)\n", "".join(told))
        yield int(port)
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=PATIENCE)
    assert server.returncode == 0


# Runs each program in a fork of one process that has imported the package.
RUN = """
import os, runpy, sys, twofold
for path in sys.argv[1:]:
    if os.fork() == 0:
        os.chdir(os.path.dirname(path))
        runpy.run_path(path, run_name="__main__")
        sys.exit()
    assert os.wait()[1] == 0, path
"""


def run(pages: list[str], directory: Path) -> str:
    """Runs the pages' programs, with the pages' servers if they need any. Returns the output."""
    paths = []
    with contextlib.ExitStack() as stack:
        for page in pages:
            folder = directory / page
            folder.mkdir(parents=True)
            code = program(page)
            if ":5555" in code:
                port = stack.enter_context(serving(page, 0, folder))
                code = code.replace(":5555", f":{port}")
            # A page about tests defines one.
            code += "for name in [*vars()]:\n    if name[:5] == 'test_': vars()[name]()\n"
            # Fewer games, steps and transitions find the same errors: 10_000 becomes 1000.
            code = code.replace("_000", "00")
            paths.append(folder / "program.py")
            paths[-1].write_text(code)
        # A page's test may warn about another environment, and Python about the threads of numpy.
        ignored = ["-Wignore:check_vector_env", "-Wignore:This process"]
        ran = subprocess.run(
            [sys.executable, *ignored, "-c", RUN, *paths],
            capture_output=True,
            text=True,
            timeout=PATIENCE * len(pages),
        )
    assert ran.stderr == ""
    assert ran.returncode == 0
    return ran.stdout


@pytest.mark.parametrize("page", PAGES)
def test_each_block_of_python_is_run_or_says_why_not(page: str) -> None:
    assert complaints((ROOT / page).read_text()) == []


@pytest.mark.parametrize(
    ("text", "complains"),
    [
        ("```python\nimport twofold\n```\n", False),
        ("```\ntwofold stats\n```\n", False),
        ("```\nimport twofold\n```\n", True),
        ("```py\nprint(1)\n```\n", True),
        ("```pycon\n>>> 1\n```\n", True),
        ("<!-- no-run: takes an hour -->\n```pycon\n>>> 1\n```\n", False),
        ("<!-- no-run: takes an hour -->\n\nText.\n\n```pycon\n>>> 1\n```\n", True),
        ("- Item\n\n  ```python\n  import twofold\n  ```\n", True),
        ("```python\nimport twofold\n", True),
    ],
)
def test_a_block_that_is_neither_run_nor_excused_is_found(text: str, complains: bool) -> None:
    assert bool(complaints(text)) == complains


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_are_in_the_wheel(page: str) -> None:
    text = (ROOT / page).read_text()
    assert re.findall(r"\.venv/bin|\.build/|twofold-server [a-z].*", text) == []
    if not page.startswith(("README.md", "docs/reference/")):
        code = "".join(block.code for block in blocks(text))
        assert re.findall(r"^make\b.*", code, re.MULTILINE) == []


def test_an_excused_block_is_distinguished_from_others() -> None:
    text = "<!-- no-run: why -->\n```python\n1\n```\n\n```python\n2\n```\n"
    assert [(block.line, block.excused) for block in blocks(text)] == [(2, True), (6, False)]


def test_the_python_of_the_pages_runs(directory: Path) -> None:
    # These pages have tests of their own below.
    others = {"README.md", "docs/guides/rules.md", "docs/quick_start.md"}
    run([page for page in WITH_PYTHON if page not in others], directory)


@pytest.mark.parametrize(("page", "number"), SERVERS)
def test_the_servers_of_a_page_start(page: str, number: int, directory: Path) -> None:
    with serving(page, number, directory) as port:
        socket.create_connection(("127.0.0.1", port)).close()


def test_the_first_program_prints_what_the_page_says(directory: Path) -> None:
    (line,) = re.findall(r"^print\(.*# (\d+)$", program("README.md"), re.MULTILINE)
    assert run(["README.md"], directory) == f"best tile on 4096 boards: {line}\n"


def test_the_quick_start_prints_what_it_shows(directory: Path) -> None:
    page = "docs/quick_start.md"
    printed = run([page], directory)
    numbers = re.findall(r"^print\(.*# (\w+)$", program(page), re.MULTILINE)
    assert [line for line in printed.splitlines() if line in numbers] == numbers
    texts = [block.code for block in blocks((ROOT / page).read_text()) if not block.tag]
    outputs = [text for text in texts if not re.match("pip|twofold|TWOFOLD_", text)]
    assert len(outputs) == 2
    assert all(output in printed for output in outputs)


def test_the_expectimax_of_the_page_plays_far_better_than_random(directory: Path) -> None:
    printed = run(["docs/guides/rules.md"], directory)
    score = re.fullmatch(r"mean score after 300 moves: ([\d.]+)\n", printed)
    # Random play ends long before, with 1,095 on average; 300 moves without a loss score about
    # 5,000.
    assert score is not None
    assert float(score[1]) > 3000


# ---- docs/reference/determinism.md: whole games in plain Python ----------------------------------


@pytest.fixture(scope="module")
def play() -> Any:
    """The function `play` of the page."""
    names: dict[str, Any] = {}
    exec(program("docs/reference/determinism.md"), names)
    return names["play"]


def test_the_page_plays_the_golden_games(play: Any) -> None:
    """Uses the golden games whose arguments the page's `play` supports."""
    played = 0
    taken = {"rows", "columns", "four_probability", "start_tiles"}
    for path in sorted(make_golden.GOLDEN.glob("*.json")):
        golden = json.loads(path.read_text())
        config = golden["config"]
        if config["stop_at_goal"] or config["max_episode_steps"]:
            continue
        if config["illegal_action"] != "noop" or "autoreset_mode" in config:
            continue
        for lane in golden["lanes"]:
            steps = lane["steps"]
            arguments = {name: config[name] for name in taken}
            told = list(play(lane["seed"], lane["actions"], **arguments))
            assert told[0] == (lane["initial"]["observation"], 0, False)
            columns = (steps["observation"], steps["reward"], steps["terminated"])
            assert told[1:] == list(zip(*columns, strict=True))
            played += 1
    assert played >= 15


@pytest.mark.parametrize("size", [(4, 4), (3, 5)])
def test_the_page_plays_what_the_server_plays(play: Any, size: tuple[int, int]) -> None:
    envs = twofold.Game2048VectorEnv(3, endpoint="embedded", size=size)
    actions = np.random.default_rng(0).integers(0, 4, (400, 3))
    boards, _ = envs.reset(seed=2**64 - 2)
    told: list[tuple[Any, Any, Any]] = [(boards, np.zeros(3), np.zeros(3, np.bool_))]
    for row in actions:
        boards, rewards, terminations, _, _ = envs.step(row)
        told.append((boards, rewards, terminations))
    assert sum(int(terminations.sum()) for _, _, terminations in told) >= 3
    for lane in range(3):
        seed = (2**64 - 2 + lane) % 2**64
        games = play(seed, actions[:, lane].tolist(), *size)
        for step, (board, reward, over) in enumerate(games):
            boards, rewards, terminations = told[step]
            assert boards[lane].ravel().tolist() == board
            assert (rewards[lane], terminations[lane]) == (reward, over)
    envs.close()
