"""Builds the server and the library with the oldest supported Swift.

`make swift-6.2` runs it as root. Debian sid has Swift 6.2; debootstrap makes a folder with it. The
build uses the packages that an earlier build of this checkout has fetched, so it needs no network.
"""

from __future__ import annotations

from build import start
from debian import enter, make_compiler

BUILD = """
set -e
cd /twofold
swift --version 2>&1 | grep "Swift version 6.2"
swift build -c release --disable-automatic-resolution
"""


def main() -> None:
    """Builds with Swift 6.2. Raises CalledProcessError if the build fails."""
    enter(make_compiler(), BUILD)


if __name__ == "__main__":
    start(main)
