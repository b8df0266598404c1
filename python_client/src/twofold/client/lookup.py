"""Finds the library and the server program that belong to this package."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
from pathlib import Path

from twofold.errors import ServerStartFailed

VERSION = importlib.metadata.version("twofold")

_LIBRARY, _PROGRAM = "libtwofold.so", "twofold-server"
WAYS_OUT = (
    "Install a wheel for this platform, build it with `make server` in a checkout of Twofold, set "
    "the environment variable {} to its path, or connect to a running server with endpoint="
)
"""The end of the message for a missing file; {} is the variable that can name its path."""


def find_library() -> Path:
    """Finds libtwofold.so at TWOFOLD_LIBRARY or, if that is unset, in the package or checkout.

    Raises:
        ServerStartFailed: No library was found; the message says how to get one.
    """
    named = os.environ.get("TWOFOLD_LIBRARY")
    candidates = [Path(named)] if named else _candidates(_LIBRARY)
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    if named:
        raise ServerStartFailed(
            f"TWOFOLD_LIBRARY is {named!r}, which is not a file; set it to the path of {_LIBRARY}, "
            "or unset it"
        )
    raise ServerStartFailed(
        f"{_LIBRARY} was not found at {', '.join(map(str, candidates))}. "
        + WAYS_OUT.format("TWOFOLD_LIBRARY")
    )


def find_program() -> Path:
    """Finds twofold-server at TWOFOLD_SERVER or, if unset, in the package or checkout or on PATH.

    Raises:
        ServerStartFailed: No program was found; the message says how to get one.
    """
    named = os.environ.get("TWOFOLD_SERVER")
    candidates = [Path(named)] if named else _candidates(_PROGRAM)
    if not named and (on_path := shutil.which(_PROGRAM)):
        candidates.append(Path(on_path))
    for candidate in candidates:
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate
    if named:
        raise ServerStartFailed(
            f"TWOFOLD_SERVER is {named!r}, which is not a program; set it to the path of "
            f"{_PROGRAM}, or unset it"
        )
    raise ServerStartFailed(
        f"{_PROGRAM} was not found at {', '.join(map(str, candidates))} or on PATH. "
        + WAYS_OUT.format("TWOFOLD_SERVER")
    )


def _candidates(name: str) -> list[Path]:
    """Returns the file's paths in the installed package and, if there is one, in the checkout."""
    package = Path(__file__).resolve().parents[1]
    candidates = [package / "_bin" / name]
    # An editable installation: package = checkout/python_client/src/twofold.
    checkout = package.parents[2]
    if (checkout / "Package.swift").is_file():
        candidates.append(checkout / ".build" / "release" / name)
    return candidates
