"""Checks on the machine and the installed Python packages."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from twofold.client.private_server import temporary_directory
from twofold.doctor.findings import Finding, failed, ok, warning
from twofold.errors import SandboxUnavailable
from twofold.judging.sandbox import Question, Sandbox

_MIN_FILES = 256
_MIN_MEMORY = 256 << 20
# The packages of the extras whose versions matter most in bug reports.
_OPTIONAL = (
    *("torch", "stable-baselines3", "sb3-contrib", "torchrl", "tianshou", "ray", "trl"),
    *("jax", "matplotlib", "pyarrow", "rich"),
)
# A coarser clock, in seconds, would make deadlines noticeably late.
_COARSEST_CLOCK = 0.016
_ANSWER_SECONDS = 10.0


def machine_findings() -> Iterator[Finding]:
    """Yields the findings about Python, its packages, the machine's limits and the sandbox."""
    yield _python()
    yield from _packages()
    yield _extras()
    yield _processor()
    yield _memory()
    yield _open_files()
    yield _temporary_files()
    yield _clock()
    yield _sandbox()


def _python() -> Finding:
    text = f"Python {platform.python_version()} on {platform.platform()}"
    if sys.maxsize < 2**32:
        return failed("python", f"{text}, 32 bits", "Use a 64-bit Python.")
    return ok("python", text)


def _packages() -> Iterator[Finding]:
    """Yields a finding for each package that Twofold's installed metadata requires."""
    try:
        from packaging.requirements import Requirement
    except ImportError:
        yield failed("packages", "packaging is not installed", "Run `pip install packaging`.")
        return
    for requirement in map(Requirement, importlib.metadata.requires("twofold") or ()):
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        name, wanted = requirement.name, requirement.specifier
        install = f'Run `pip install "{name}{wanted}"`.'
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            yield failed("packages", f"{name} is not installed", install)
            continue
        if not wanted.contains(version, prereleases=True):
            yield failed("packages", f"{name} {version} is installed; needs {wanted}", install)
        else:
            yield ok("packages", f"{name} {version}")


def _extras() -> Finding:
    """Returns a finding that lists the installed optional packages, including torch's build."""
    installed = []
    for name in _OPTIONAL:
        try:
            installed.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ok("extras", ", ".join(installed) or "none")


def _processor() -> Finding:
    machine, cores = platform.machine(), os.cpu_count() or 1
    text = f"{machine}, {cores} processors"
    if hasattr(os, "sched_getaffinity"):
        usable = len(os.sched_getaffinity(0))
        if usable < cores:
            text += f", of which this process may use {usable}"
    cpuinfo = Path("/proc/cpuinfo")
    if machine == "x86_64" and cpuinfo.exists() and "avx2" not in cpuinfo.read_text():
        return warning(
            "processor",
            f"{text}, no AVX2",
            "Steps run at about half the speed. Nothing needs fixing.",
        )
    return ok("processor", text)


def _memory() -> Finding:
    limits = [*_own_limits(), *_cgroup_limits()]
    if not limits:
        return ok("memory", "no limit on this process")
    text = f"this process may use {min(limits) / 2**20:,.0f} MiB"
    if min(limits) < _MIN_MEMORY:
        return failed(
            "memory",
            text,
            "Raise the limit (`ulimit -v`, `ulimit -d`, or the container's memory).",
        )
    return ok("memory", text)


def _own_limits() -> list[int]:
    try:
        import resource
    except ImportError:
        return []
    soft = [resource.getrlimit(each)[0] for each in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    return [limit for limit in soft if limit != resource.RLIM_INFINITY]


def _cgroup_limits() -> list[int]:
    limits = []
    for name in ("memory.max", "memory/memory.limit_in_bytes"):  # of version 2, and of version 1
        with contextlib.suppress(OSError):
            limits.append(Path("/sys/fs/cgroup", name).read_text().strip())
    # Version 1 writes "unlimited" as a number larger than any memory.
    return [int(limit) for limit in limits if limit.isdecimal() and int(limit) < 2**60]


def _open_files() -> Finding:
    try:
        import resource
    except ImportError:
        return ok("open files", "not limited by this system")
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    text = f"this process may open {soft:,} files"
    if soft < _MIN_FILES:
        return failed("open files", text, f"Run `ulimit -n {_MIN_FILES}` in the shell first.")
    return ok("open files", text)


def _temporary_files() -> Finding:
    """Checks that the directory for a private server's socket is writable."""
    try:
        directory = temporary_directory()
        with tempfile.TemporaryDirectory(dir=directory) as path:
            Path(path, "file").touch()
    except OSError as error:
        return failed(
            "temporary files", str(error), "Set TMPDIR to a directory that you can write to."
        )
    return ok("temporary files", directory)


def _clock() -> Finding:
    resolution = time.get_clock_info("monotonic").resolution
    if resolution > _COARSEST_CLOCK:
        return warning(
            "clock",
            f"the monotonic clock has a resolution of {resolution * 1e3:.0f} ms",
            "Deadlines may be late by that much; use another clock source.",
        )
    return ok("clock", f"the monotonic clock has a resolution of {resolution * 1e9:.0f} ns")


def _sandbox() -> Finding:
    """Checks that a sandboxed program can play a move, as in `twofold evaluate --strategy`."""
    if sys.platform != "linux":
        return ok("sandbox", "programs are judged on Linux only")
    fix = (
        "`twofold evaluate --strategy` needs the sandbox: allow the refused part. Pass --unsafe "
        "only for programs that you have read."
    )
    program = "def strategy(board): return 0"
    try:
        sandbox = Sandbox(program, file="doctor", memory_mb=256, cpu_seconds=10, unsafe=False)
        with contextlib.closing(sandbox):
            question = Question(sandbox.begin(0), b"[[0]]", _ANSWER_SECONDS)
            sandbox.ask([question])
            sandbox.end(question.game)
    except SandboxUnavailable as error:
        return warning("sandbox", f"refused: {error.missing or error}", fix)
    if question.answer != b"0":
        return warning("sandbox", "a sandboxed program does not answer", fix)
    if os.geteuid() == 0:
        return ok("sandbox", "a sandboxed program plays; judge as an ordinary user, not as root")
    return ok("sandbox", "a sandboxed program plays")
