"""Measures how long each step of `make test` takes in a fresh clone of this checkout's HEAD.

    make times

Prints the times as Markdown. It takes as long as a build and `make test`.
"""

import argparse
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
# `✔ Test run with 629 tests in 84 suites passed after 76.8 seconds.`
# `4346 passed, 49 skipped in 364.03s (0:06:04)`
SUITES = {
    "the Swift tests": re.compile(r"Test run with .* passed after (?P<seconds>[\d.]+)"),
    "the Python tests": re.compile(r"\d+ passed.* in (?P<seconds>[\d.]+)s"),
}


def measure(command: str, checkout: Path) -> tuple[float, float, str]:
    """Runs a command in `checkout`. Returns its time and processor time (s), and its output."""
    begin, used = time.monotonic(), figures.processor_seconds()
    done = subprocess.run(
        command.split(), check=False, cwd=checkout, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise SystemExit(f"{command} failed:\n{done.stdout[-4000:]}{done.stderr[-2000:]}")
    seconds, used = time.monotonic() - begin, figures.processor_seconds() - used
    return seconds, used, done.stdout + done.stderr


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
    print(tables.times(rows), end="")
    if arguments.publish:
        figures.publish("times", rows)


if __name__ == "__main__":
    main()
