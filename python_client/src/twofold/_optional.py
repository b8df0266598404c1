"""Imports of packages that only some features need."""

from __future__ import annotations

import importlib
from typing import Any

from twofold.errors import MissingDependency


def optional_import(module: str, purpose: str, extra: str) -> Any:
    """Imports a module of an optional package.

    `purpose` is a plural noun for the features that need it; `extra` is the extra that installs it.

    Raises:
        MissingDependency: The package is not installed; the message has the command to install it.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise MissingDependency(
            f"{purpose} need {package}, which is not installed: pip install 'twofold[{extra}]'"
        ) from None
