"""Measures how long each step of `make test` takes in a fresh clone of this checkout's HEAD.

    make times

Prints the times as Markdown. It takes a few minutes longer than `make test`.
"""

import argparse
import os
import re
import subprocess
import tempfile
import time
from pathlib import Path

import figures
import tables

STEPS = {
    "build the server and install the Python environment": (
        "make --jobs --output-sync=target server .venv/installed"
    ),
    "build the Swift tests, and run all tests": "make test",
}
SLOWEST = 15
# `✔ Test run with 629 tests in 84 suites passed after 76.8 seconds.`
# `4346 passed, 49 skipped in 364.03s (0:06:04)`
SUITES = {
    "the Swift tests": re.compile(r"Test run with .* passed after (?P<seconds>[\d.]+)"),
    "the Python tests": re.compile(r"\d+ passed.* in (?P<seconds>[\d.]+)s"),
}
# `✔ Test "a sentence" with 3 test cases passed after 1.234 seconds.`
SWIFT_TEST = re.compile(
    r"Test (?!run with)(?P<name>.+?)(?: with \d+ test cases)? passed after (?P<seconds>[\d.]+)"
)
# `12.34s call     tests/test_x.py::test_y`
PYTHON_TEST = re.compile(
    r"^(?P<seconds>[\d.]+)s (?:call|setup|teardown) +(?P<name>\S.*)$", re.MULTILINE
)


def measure(command: str, checkout: Path) -> tuple[float, float, str]:
    """Runs a command in `checkout`. Returns its time and processor time (s), and its output."""
    environment = {**os.environ, "PYTEST_ADDOPTS": f"--durations={SLOWEST}"}
    begin, used = time.monotonic(), figures.processor_seconds()
    done = subprocess.run(
        command.split(), check=False, cwd=checkout, env=environment, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise SystemExit(f"{command} failed:\n{done.stdout[-4000:]}{done.stderr[-2000:]}")
    seconds, used = time.monotonic() - begin, figures.processor_seconds() - used
    return seconds, used, done.stdout + done.stderr


def slowest(tests: re.Pattern[str], output: str) -> list[figures.Row]:
    """Returns the slowest tests, given the output of a test run."""
    found = {(float(test["seconds"]), sentence(test["name"])) for test in tests.finditer(output)}
    chosen = sorted(found, reverse=True)[:SLOWEST]
    return [{"test": name, "seconds": seconds} for seconds, name in chosen]


def sentence(name: str) -> str:
    """Returns a test's name as a sentence, prefixed with its Python module or "Swift"."""
    python = re.fullmatch(r".*?(\w+)\.py::test_(.*)", name)
    if python is None:
        words = name.strip('"')
        return f"Swift: {words[:110]}"
    module, words = python.groups()
    return f"`{module}`: {words.replace('_', ' ')[:110]}"


def main() -> None:
    """Measures all steps and prints their times."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--publish", action="store_true", help=figures.HELP)
    arguments = parser.parse_args()
    rows: list[figures.Row] = []
    total, outputs = 0.0, {}
    with tempfile.TemporaryDirectory(prefix="twofold-times-") as folder:
        checkout = Path(folder) / "twofold"
        repository = figures.REPOSITORY
        subprocess.run(["git", "clone", "--quiet", repository, checkout], check=True)
        for name, command in STEPS.items():
            seconds, used, outputs[command] = measure(command, checkout)
            total += seconds
            rows.append({"step": name, "seconds": seconds, "busy": used / seconds})
        tests = outputs["make test"]
        for name, suite in SUITES.items():
            seconds = float(suite.findall(tests)[-1])
            rows.append({"step": f"… of which {name}", "seconds": seconds, "busy": None})
        rows.append({"step": "all", "seconds": total, "busy": None})
        # Swift tests run one after another, because parallel tests would count each other's time.
        *_, alone = measure("make test-swift SWIFT_TEST_ARGS=--no-parallel", checkout)
    rows += slowest(SWIFT_TEST, alone) + slowest(PYTHON_TEST, tests)
    print(tables.times(rows), tables.slowest(rows), sep="\n", end="")
    if arguments.publish:
        figures.publish("times", rows)


if __name__ == "__main__":
    main()
