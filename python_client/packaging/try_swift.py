"""Builds the server and the library with the oldest supported Swift.

`make swift-6.2` runs it as root. Debian sid has Swift 6.2; debootstrap makes a folder with it. The
build uses the packages that an earlier build of this checkout has fetched, so it needs no network.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from build import run
from debian import make_root

CHECKOUT = Path(__file__).resolve().parents[2]
PARTS = ("Package.swift", "Package.resolved", "Sources", "Tests")
FETCHED = ("checkouts", "repositories", "workspace-state.json")

ENTER = """
set -e
cd "$1"
mount -t proc proc proc
mount --rbind /dev dev
exec chroot . env -i PATH=/usr/bin:/bin HOME=/root sh -c "$2"
"""
"""A script that enters the Debian system in folder $1 and runs the command $2."""

BUILD = """
set -e
cd /twofold
swift --version 2>&1 | grep "Swift version 6.2"
swift build -c release --disable-automatic-resolution
"""


def main() -> None:
    """Builds with Swift 6.2. Raises CalledProcessError if the build fails."""
    root = make_root("sid", "swiftlang", "g++", "git", "libzmq3-dev", name="swift-6.2")
    copy = root / "twofold"
    (copy / ".build").mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        run("rm", "-rf", copy / part)
        run("cp", "-a", CHECKOUT / part, copy / part)
    for part in FETCHED:
        if not (copy / ".build" / part).exists():
            run("cp", "-a", CHECKOUT / ".build" / part, copy / ".build" / part)
    run("unshare", "--mount", "sh", "-c", ENTER, "sh", root, BUILD)


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"failed: {' '.join(map(str, error.cmd))}")
