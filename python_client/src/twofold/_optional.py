"""Imports of packages that only some features need."""

from __future__ import annotations

import importlib
from typing import Any

from twofold.errors import MissingDependency


def optional_import(module: str, purpose: str, extra: str) -> Any:
    """Imports a module of an optional package.

    `purpose` is a plural noun for the features that need it; `extra` is the extra to install.

    Raises:
        MissingDependency: The package is missing, or the installed version is unsuitable. The
            message gives the installation command.
    """
    package = module.partition(".")[0]
    try:
        importlib.import_module(package)  # is the package missing, or a module in it?
        return importlib.import_module(module)
    except ImportError as error:
        command = f"pip install 'twofold[{extra}]'"
        if error.name == package:
            message = f"{purpose} need {package}, which is not installed: {command}"
        else:
            # Here the command could break the package that needs the installed version.
            message = f"{purpose} can't use the installed {package} ({error}): {command}"
            message += " in a new virtual environment"
        raise MissingDependency(message) from None
