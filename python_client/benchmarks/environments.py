"""The virtual environments of the peers, which are created once and kept."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

from contestants import ENVIRONMENTS, NOTHING, Contestant
from figures import REPOSITORY

import twofold

VENVS = REPOSITORY / ".build" / "bench-venvs"

# Enough for jax's 100 MB from a slow mirror. A slower peer is reported as not installed.
INSTALL_SECONDS = 900


class InstallationFailed(Exception):
    """The error for a virtual environment that can't be created. The message says why."""


def install(chosen: list[Contestant]) -> tuple[dict[str, Path | str], dict[str, list[str]]]:
    """Creates the missing virtual environments.

    Returns:
        Each contestant's interpreter, or why it has none; and the packages of each
        virtual environment.
    """
    pythons: dict[str, Path | str] = {NOTHING.name: Path(sys.executable)}
    packages = {"twofold": packages_of(Path(sys.executable))}
    for contestant in chosen:
        name = contestant.environment
        if name is None:
            pythons[contestant.name] = Path(sys.executable)
            continue
        try:
            python = python_of(VENVS / name, ENVIRONMENTS[name])
            packages[name] = packages_of(python)
            pythons[contestant.name] = python
        except InstallationFailed as failure:
            print(f"{name}: not installed: {failure}", file=sys.stderr)
            pythons[contestant.name] = f"not installed: {failure}"
    return pythons, packages


def python_of(folder: Path, requirements: tuple[str, ...]) -> Path:
    """Returns the interpreter of the virtual environment in `folder`. Creates it if necessary.

    Raises:
        InstallationFailed: The requirements could not be installed.
    """
    python = folder / "bin" / "python"
    marker = folder / "installed.txt"
    wanted = "\n".join((sys.version, twofold.__version__, *requirements))
    if marker.is_file() and marker.read_text() == wanted:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    try:
        venv.create(folder, with_pip=True)
        _run(python, "install", "--quiet", *requirements)
    except subprocess.TimeoutExpired:
        raise InstallationFailed(f"pip took longer than {INSTALL_SECONDS} s") from None
    except subprocess.CalledProcessError as error:
        lines = (error.stderr or error.stdout or "no output").strip().splitlines()
        raise InstallationFailed(f"pip: {lines[-1]}") from None
    marker.write_text(wanted)
    return python


def packages_of(python: Path) -> list[str]:
    """Returns the installed packages, as `pip freeze` lists them."""
    return _run(python, "freeze").splitlines()


def _run(python: Path, *arguments: str) -> str:
    command = [str(python), "-m", "pip", "--disable-pip-version-check", *arguments]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=INSTALL_SECONDS
    ).stdout
