"""Imports of packages that only some features need."""

from __future__ import annotations

import importlib
from typing import Any

from twofold.errors import MissingDependency


def optional_import(module: str, purpose: str, extra: str) -> Any:
    """Imports a module of an optional package.

    Args:
        module: The module's full name.
        purpose: The feature that needs it, in the plural, for the message.
        extra: The extra of this package that installs it.

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
