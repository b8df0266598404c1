"""Finds the library and the server program that belong to this package."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
from pathlib import Path

from twofold.errors import ServerStartFailed

VERSION = importlib.metadata.version("twofold")

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
    return _find("libtwofold.so", "TWOFOLD_LIBRARY", is_program=False)


def find_program() -> Path:
    """Finds twofold-server at TWOFOLD_SERVER or, if unset, in the package or checkout or on PATH.

    Raises:
        ServerStartFailed: No program was found; the message says how to get one.
    """
    return _find("twofold-server", "TWOFOLD_SERVER", is_program=True)


def _find(name: str, variable: str, *, is_program: bool) -> Path:
    named = os.environ.get(variable)
    # Absolute, because the system looks up a name without a slash in other places.
    candidates = [Path(named).absolute()] if named else _candidates(name)
    places = ", ".join(map(str, candidates))
    if is_program and not named:
        places += " or on PATH"
        if on_path := shutil.which(name):
            candidates.append(Path(on_path))
    for candidate in candidates:
        if candidate.is_file() and (not is_program or os.access(candidate, os.X_OK)):
            return candidate
    if named:
        kind = "a program" if is_program else "a file"
        raise ServerStartFailed(
            f"{variable} is {named!r}, which is not {kind}; set it to the path of {name}, or unset "
            "it"
        )
    raise ServerStartFailed(f"{name} was not found at {places}. " + WAYS_OUT.format(variable))


def _candidates(name: str) -> list[Path]:
    """Returns the file's paths in the installed package and, if there is one, in the checkout."""
    package = Path(__file__).resolve().parents[1]
    candidates = [package / "_bin" / name]
    # An editable installation: package = checkout/python_client/src/twofold.
    checkout = package.parents[2]
    if (checkout / "Package.swift").is_file():
        candidates.append(checkout / ".build" / "release" / name)
    return candidates
