"""Debian's base system in folders, made by debootstrap (which wants root)."""

from __future__ import annotations

from pathlib import Path

from build import run

ROOTS = Path(__file__).resolve().parents[2] / ".build" / "wheel" / "roots"


def make_root(release: str, *packages: str, name: str | None = None) -> Path:
    """Returns a release's base system with these packages in a folder, which is kept.

    Args:
        release: A release's name, such as "bookworm".
        packages: Debian's names; debootstrap adds what they depend on.
        name: The folder's name; the release's by default.
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
