"""Finds the library and the server program that belong to this package."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
from pathlib import Path

from twofold.errors import ServerStartFailed

VERSION = importlib.metadata.version("twofold")

_HOW_TO_BUILD = "Build it with `make server` in a checkout of Twofold, or name one in"


def find_library() -> Path | None:
    """libtwofold.so: the one that TWOFOLD_LIBRARY names, the package's own, or the checkout's.

    Returns:
        None if it does not exist.

    Raises:
        ServerStartFailed: TWOFOLD_LIBRARY does not name a file.
    """
    named = os.environ.get("TWOFOLD_LIBRARY")
    if named and not Path(named).is_file():
        raise ServerStartFailed(f"TWOFOLD_LIBRARY is {named!r}, which is not a file")
    return next((path for path in _candidates("LIBRARY", "libtwofold.so") if path.is_file()), None)


def no_library() -> str:
    """The message for a missing library."""
    return (
        "there is no libtwofold.so; looked for "
        + ", ".join(map(str, _candidates("LIBRARY", "libtwofold.so")))
        + f". {_HOW_TO_BUILD} the environment variable TWOFOLD_LIBRARY"
    )


def find_program() -> Path:
    """The twofold-server to start: TWOFOLD_SERVER, the package's own, the checkout's, or PATH's.

    Raises:
        ServerStartFailed: None exists; the message says how to get one.
    """
    named = os.environ.get("TWOFOLD_SERVER")
    if named and not _is_program(Path(named)):
        raise ServerStartFailed(f"TWOFOLD_SERVER is {named!r}, which is not a program")
    candidates = _candidates("SERVER", "twofold-server")
    on_path = shutil.which("twofold-server")
    if on_path:
        candidates.append(Path(on_path))
    for candidate in candidates:
        if _is_program(candidate):
            return candidate
    raise ServerStartFailed(
        "there is no twofold-server program; looked for "
        + ", ".join(map(str, candidates))
        + f" and on PATH. {_HOW_TO_BUILD} the environment variable TWOFOLD_SERVER, or connect to a "
        "running server with endpoint="
    )


def _candidates(variable: str, name: str) -> list[Path]:
    """The file that the variable names; else the package's own and the checkout's."""
    named = os.environ.get("TWOFOLD_" + variable)
    if named:
        return [Path(named)]
    package = Path(__file__).resolve().parents[1]
    candidates = [package / "_bin" / name]
    # An editable installation: package = checkout/python_client/src/twofold.
    checkout = package.parents[2]
    if (checkout / "Package.swift").is_file():
        candidates.append(checkout / ".build" / "release" / name)
    return candidates


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
