"""The virtual environments of the peers, which are created once and kept."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

# Enough for jax's 100 MB from a slow mirror. A slower peer is reported as not installed.
INSTALL_SECONDS = 900


class InstallationFailed(Exception):
    """The error for a virtual environment that can't be created. The message says why."""


def python_of(folder: Path, requirements: tuple[str, ...]) -> Path:
    """Returns the interpreter of the virtual environment in `folder`. Creates it if necessary.

    Raises:
        InstallationFailed: The requirements could not be installed.
    """
    python = folder / "bin" / "python"
    marker = folder / "installed.txt"
    wanted = "\n".join((sys.version, *requirements))
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


def packages(python: Path) -> list[str]:
    """Returns the installed packages, as `pip freeze` lists them."""
    return _run(python, "freeze").splitlines()


def _run(python: Path, *arguments: str) -> str:
    command = [str(python), "-m", "pip", "--disable-pip-version-check", *arguments]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=INSTALL_SECONDS
    ).stdout
