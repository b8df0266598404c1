"""Imports of packages that only some features need."""

from __future__ import annotations

import importlib
from typing import Any

from twofold.errors import MissingDependency


def optional_import(module: str, purpose: str, extra: str) -> Any:
    """Imports a module of an optional package.

    `purpose` is the feature that needs it, in the plural; `extra` is the extra that installs it.

    Raises:
        MissingDependency: It is not installed; the text has the command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise MissingDependency(
            f"{purpose} need {package}, which is not installed: pip install 'twofold[{extra}]'"
        ) from None
