"""Installs Debian's base system in a folder with debootstrap, which needs root."""

from __future__ import annotations

from pathlib import Path

from build import run

ROOTS = Path(__file__).resolve().parents[2] / ".build" / "wheel" / "roots"


def make_root(release: str, *packages: str, name: str | None = None) -> Path:
    """Makes a folder with a Debian release's base system and `packages`, unless it exists.

    Args:
        release: A release's name, such as "bookworm".
        packages: The packages' Debian names; debootstrap adds their dependencies.
        name: The folder's name; by default the release's name.
    """
    root = ROOTS / (name or release)
    if not (root / "made").exists():
        run("rm", "-rf", root)
        root.mkdir(parents=True)
        include = [f"--include={','.join(packages)}"] if packages else []
        mirror = "http://deb.debian.org/debian"
        run("debootstrap", "--variant=minbase", *include, release, root, mirror)
        (root / "made").touch()
    return root
