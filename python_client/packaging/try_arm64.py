"""Builds and tests Twofold for arm64: the programs run in emulated Debian systems.

`make arm64-test` runs it as root. arm64.py makes the systems. The script

    compiles the library and the server, and installs the client in sid's Python
    compares the signatures of `twofold-server bench` with this machine's
    compares a hash of all golden games with this machine's, with AVX2 and without
    looks for loops over the lanes of a register in the kernel's machine code
    builds the wheel twice, installs it in Debian bookworm, and uses it
    compiles and runs the Swift tests
    runs the Python tests that need neither a browser nor a training library

This takes over an hour, at low priority. A second call skips the parts that have passed at this
commit. With --keep, it also skips the parts that passed at an earlier commit; each row of the
figures names its commit. With --short, the wheel and the tests are left out. With --publish,
docs/figures/arm64.json is written.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import arm64
from build import CHECKOUT, DIST, WORK, make_wheel, output, start, toolchain
from debian import enter, make_compiler
from try_wheel import RELEASES, make_wheelhouse, try_wheel, unpack

sys.path.append(str(CHECKOUT / "python_client" / "benchmarks"))

import figures

UNUSED = ("grpcio-tools", "mypy", "setuptools", "types-")
"""The packages for development that the tests do not need. The first has no wheel for sid."""

MEMORY = "QEMU ignores limits on address space"
SWIFT_LEFT_OUT = {
    "AddressSpaceTests": MEMORY,
    "OwnedMemoryTests": MEMORY,
    "ShortMemoryTests": f"{MEMORY}, and Swift 6.2 can't compile it",
}
PYTHON_LEFT_OUT = {
    "tests/trainers": "needs training libraries",
    "tests/test_replay_page.py": "needs a browser",
    "tests/test_connections.py::test_a_system_that_accepts_no_connections": "QEMU refuses seccomp",
    "tests/test_judging.py::test_a_game_has_its_limits": MEMORY,
    "tests/test_judging.py::test_a_program_without_a_sandbox_may_die_of_any_signal[64-SIGRTMAX]": (
        "QEMU uses signal 64 itself"
    ),
    "tests/test_limits.py::test_a_server_that_can_start_too_few_threads_says_so": (
        "QEMU starts a thread itself"
    ),
    "tests/test_short_memory.py": MEMORY,
    "tests/test_small_boards.py::test_the_command_fails_if_a_training_run_fails[missing]": (
        "QEMU starts a missing program, which then exits with 127"
    ),
    "tests/test_state_dir.py::test_a_session_too_large_for_the_memory_harms_no_other": MEMORY,
    "tests/test_state_dir.py::test_ignored_hangups_and_interrupts_stay_ignored": (
        "/proc shows the signals that QEMU ignores"
    ),
    "tests/test_train.py::test_a_network_beyond_the_memory_is_refused": MEMORY,
    "tests/test_train.py::test_memory_that_the_process_takes_later_does_not_end_a_training": MEMORY,
}
"""The tests that do not run, and the reasons."""

BENCH = ".build/release/twofold-server bench --signature-only --json"
RUNTIME = "LD_LIBRARY_PATH=/usr/lib/swift/linux"
SWIFT_TESTS = f"{RUNTIME} .build/release/twofoldPackageTests.xctest --testing-library swift-testing"
PYTEST = (  # Debian's clang is not in /usr/bin
    "cd python_client && PATH=$PATH:/usr/libexec/swift/bin OPENBLAS_NUM_THREADS=1 "
    f"{RUNTIME} /venv/bin/python -m pytest -m 'not long' "
    "--numprocesses $(($(nproc) + 1)) --dist worksteal --timeout 7200"
)
EDITABLE = "pip install --quiet --no-index --no-deps --no-build-isolation --editable python_client"


class Parts:
    """The parts that have passed, in a file; each row names its commit.

    Without a commit (None: there are uncommitted changes), every part runs again.
    """

    def __init__(self, path: Path, commit: str | None, *, keep: bool) -> None:
        self._path, self.commit, self._keep = path, commit, keep
        self._stored: dict[str, figures.Row] = json.loads(path.read_text()) if path.exists() else {}
        self.rows: list[figures.Row] = []
        self.failed: list[str] = []

    def add(self, name: str, measure: Callable[[], figures.Row | None]) -> None:
        """Runs a part, unless it has passed. The key "failed" of its row lists its failures."""
        if not self._has_passed(name):
            print(f"---- {name}", flush=True)
            started = time.monotonic()
            row = measure() or {}
            failed = [f"{name}: {failure}" for failure in row.pop("failed", [])]
            if failed:
                self.failed += failed
                return
            seconds = round(time.monotonic() - started)
            self._stored[name] = {"part": name, **row, "seconds": seconds, "commit": self.commit}
            self._path.write_text(json.dumps(self._stored))
        self.rows.append(self._stored[name])

    def _has_passed(self, name: str) -> bool:
        row = self._stored.get(name, {"commit": None})
        return row["commit"] is not None and (self._keep or row["commit"] == self.commit)


def main() -> None:
    """Runs all parts. Exits with a list of failures, if there are any."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--short", action="store_true", help="leave out the wheel and the tests")
    parser.add_argument("--keep", action="store_true", help="skip parts that passed earlier, too")
    parser.add_argument("--publish", action="store_true", help=figures.HELP)
    options = parser.parse_args()
    if options.short and options.publish:
        parser.error("--publish needs the tests; leave out --short")
    os.nice(19)
    root = arm64.make_system("sid")
    parts = Parts(root / "parts.json", figures.commit(), keep=options.keep)
    # Always: `make swift-6.2` builds in the same folder, and does not leave the programs for arm64.
    arm64.swift_build("sid")
    parts.add("Python packages", partial(install_packages, root))
    parts.add("signatures", compare_signatures)
    parts.add("golden games", compare_games)
    parts.add("vector code", find_scalar_code)
    if not options.short:
        parts.add("wheel", use_wheel)
        add_tests(parts)
    if parts.failed:
        sys.exit("failed:\n" + "\n".join(parts.failed))
    found = versions()
    print("everything works, with", ", ".join(f"{name} {found[name]}" for name in found))
    if options.publish:
        publish(parts, root)


def install_packages(root: Path) -> None:
    """Installs the client and what its tests need in a virtual environment for sid's Python.

    pip resolves and unpacks the wheels on this machine, which takes seconds instead of minutes.
    """
    python = (root / "usr" / "bin" / "python3").readlink().name.removeprefix("python")
    wanted = ["editables", "hatchling", "pip"]
    for line in importlib.metadata.requires("twofold") or ():
        name, _, extra = line.partition("; extra == ")
        if extra.strip("'\"") in ("", "cli", "data", "dev", "plot"):
            wanted += [] if name.startswith(UNUSED) else [name]
    house = make_wheelhouse(WORK / "wheelhouse-arm64", python, *wanted, machine="aarch64")
    inside("rm -rf /venv && python3 -m venv --without-pip /venv")
    unpack(house, python, root / "venv" / "lib" / f"python{python}" / "site-packages", "aarch64")
    inside(f"/venv/bin/python -m {EDITABLE}")


def find_scalar_code() -> figures.Row:
    """Disassembles the kernel. Each row of lanes must stay in NEON registers.

    A loop over the lanes of a register takes single bytes out of it or puts them in.
    """
    objects = make_compiler() / "twofold" / ".build" / "release" / "Kernel2048.build"
    command = (toolchain() / "bin" / "llvm-objdump", "--disassemble", "--no-show-raw-insn")
    code = output(*command, *objects.glob("*.o"))
    vectors = len(re.findall(r"\tv\d+\.16b", code))
    scalars = len(re.findall(r"\t(?:[us]mov\tw\d+, |(?:mov|ins)\t)v\d+\.b\[", code))
    failed = [f"{scalars} instructions with one byte of a register"] if scalars else []
    return {"vector instructions": vectors, "failed": failed if vectors else ["no vector code"]}


def use_wheel() -> figures.Row:
    """Builds the wheel twice, and uses it in Debian bookworm as `make wheel-test` does."""
    hashes = []
    for _ in range(2):
        shutil.rmtree(WORK / "swift-aarch64", ignore_errors=True)
        make_wheel(arm64.Arm64())
        [wheel] = DIST.glob("*_aarch64.whl")
        hashes.append(hashlib.sha256(wheel.read_bytes()).hexdigest())
    try_wheel(wheel, arm64.make_system("bookworm"), RELEASES["bookworm"], "aarch64")
    failed = [] if hashes[0] == hashes[1] else [f"two builds differ: {hashes}"]
    return {"name": wheel.name, "failed": failed}


def compare_signatures() -> figures.Row:
    """Compares the signatures with this machine's."""
    program, *arguments = BENCH.split()
    texts = (output(CHECKOUT / program, *arguments), ask(BENCH))
    here, there = (
        {run["play"]: run["signature"] for run in json.loads(text)["signatures"]} for text in texts
    )
    return {"hashes": there, "failed": [] if here == there else [f"{there}; here: {here}"]}


def compare_games() -> figures.Row:
    """Compares the hashes of use_golden.py, between carriers, engines and machines."""
    script = "python_client/packaging/use_golden.py"
    there = json.loads(ask(f"/venv/bin/python {script}"))
    hashes = {"arm64": there}
    for engine in ("avx2", "baseline"):
        text = output("env", f"TWOFOLD_ENGINE={engine}", sys.executable, CHECKOUT / script)
        hashes[f"{engine} here"] = json.loads(text)
    equal = all(each == there and each["library"] == each["server"] for each in hashes.values())
    return {"hashes": there, "failed": [] if equal else [f"{hashes}"]}


def add_tests(parts: Parts) -> None:
    """Builds and runs the tests: each Swift target, and groups of four Python files, is a part."""
    parts.add("build of the Swift tests", partial(arm64.swift_build, "sid", "--build-tests"))
    skipped = " ".join(f"--skip {name}" for name in SWIFT_LEFT_OUT)
    for folder in sorted((CHECKOUT / "Tests").glob("*Tests")):
        command = f"{SWIFT_TESTS} --filter {folder.name} {skipped} --xunit-output /tmp/tests.xml"
        parts.add(f"Swift: {folder.name}", partial(run_tests, command))
    skipped = " ".join(f"--deselect {name}" for name in PYTHON_LEFT_OUT)
    client = CHECKOUT / "python_client"
    files = sorted(str(file.relative_to(client)) for file in client.glob("tests/**/test_*.py"))
    files = [file for file in files if not file.startswith(tuple(PYTHON_LEFT_OUT))]
    for first in range(0, len(files), 4):
        group = files[first : first + 4]
        command = f"{PYTEST} --junitxml /tmp/tests.xml {skipped} {' '.join(group)}"
        parts.add(f"Python: {group[0]} to {group[-1]}", partial(run_tests, command))


def run_tests(command: str) -> figures.Row:
    """Runs a command that writes /tmp/tests.xml in JUnit's format, and counts its tests."""
    results = arm64.make_system("sid") / "tmp" / "tests.xml"
    results.unlink(missing_ok=True)
    failed = []
    try:
        inside(command)
    except subprocess.CalledProcessError as error:
        failed.append(f"exit status {error.returncode}")
    # Not parsed: Swift 6.2 does not escape the quotes in a test's name.
    text = results.read_text() if results.exists() else ""
    tests, skipped = (text.count(f"<{element}") for element in ("testcase", "skipped"))
    if not tests:
        failed.append("no test ran")
    return {"tests": tests, "skipped": skipped, "failed": failed}


def publish(parts: Parts, root: Path) -> None:
    """Writes docs/figures/arm64.json: the system, the parts, and the tests that were left out."""
    if figures.commit() != parts.commit:
        sys.exit("The checkout has changed since the tests started. Run `make arm64-test` again.")
    qemu = output("qemu-aarch64-static", "--version").splitlines()[0]
    system = {"versions": {**versions(), "emulator": f"{qemu}, {arm64.PROCESSOR}"}}
    seconds = int((root / "made").read_text())
    left_out = (SWIFT_LEFT_OUT | PYTHON_LEFT_OUT).items()
    rows = [
        {"part": "Debian system", **system, "seconds": seconds, "commit": parts.commit},
        *parts.rows,
        *({"left out": name, "reason": reason} for name, reason in left_out),
    ]
    figures.publish("arm64", rows)


def versions() -> dict[str, str]:
    """Returns the versions of arm64.PACKAGES in the Debian system."""
    form = r"--showformat='${Package} ${Version}\n'"
    lines = ask(f"dpkg-query --show {form} {' '.join(arm64.PACKAGES)}").splitlines()
    return dict(line.split() for line in lines)


def ask(command: str) -> str:
    """Runs a command as `inside` does, and returns its output."""
    inside(f"{command} >/tmp/output")
    return (arm64.make_system("sid") / "tmp" / "output").read_text()


def inside(command: str) -> None:
    """Runs a shell command in Debian sid for arm64, in the compiler's copy of the checkout."""
    checkout = make_compiler() / "twofold"
    command = f"set -e\ncd /twofold\n{command}"
    enter(arm64.make_system("sid"), command, {"twofold": checkout})


if __name__ == "__main__":
    start(main)
