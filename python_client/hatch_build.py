"""Adds the library and the server to a wheel, which pyproject.toml alone can't do.

If TWOFOLD_BUNDLE names a folder (packaging/build.py makes it), the wheel contains the folder's
files in `twofold/_bin`, and installs on this platform with any Python 3. Otherwise, the wheel
contains only the client, and installs on every system.
"""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BundleHook(BuildHookInterface[Any]):
    """Adds the library, the server and their licences to a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Adds the files. hatchling calls this method before it builds the wheel."""
        bundle = os.environ.get("TWOFOLD_BUNDLE")
        if bundle is None or version == "editable":
            return
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
        for file in sorted(Path(bundle).rglob("*")):
            if file.is_file():
                build_data["force_include"][str(file)] = f"twofold/_bin/{file.relative_to(bundle)}"
