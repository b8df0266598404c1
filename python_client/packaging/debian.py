"""Installs Debian's base system in a folder with debootstrap, and runs commands in it (as root)."""

from __future__ import annotations

import filecmp
import functools
import shutil
import time
from collections.abc import Mapping
from pathlib import Path

from build import CHECKOUT, WORK, install, output, run

ROOTS = WORK / "roots"
FETCHED = ("checkouts", "repositories", "workspace-state.json")
"""The parts of .build with the Swift packages that an earlier build has fetched."""

ENTER = """
set -e
cd "$1"
command=$2
shift 2
while test $# -gt 0; do mkdir -p "$1"; mount --bind "$2" "$1"; shift 2; done
mount -t proc proc proc
mount --rbind /dev dev
processor=${QEMU_CPU:+QEMU_CPU=$QEMU_CPU}
chroot . env -i PATH=/usr/bin:/bin HOME=/root $processor sh -c "$command" || exit
"""
"""A script that enters the Debian system in folder $1, runs the command $2, and mounts the rest.

Its shell waits for the command, because the first process must collect processes without a parent.
"""


def make_root(
    release: str, *packages: str, name: str | None = None, architecture: str | None = None
) -> Path:
    """Makes a folder with a Debian release's base system and `packages`, unless it exists.

    Args:
        release: A release's name, such as "bookworm".
        packages: The packages' Debian names; debootstrap adds their dependencies.
        name: The folder's name; by default the release's name.
        architecture: Debian's name of the architecture, which this machine must be able to run; by
            default this machine's.

    Returns:
        The folder. Its file `made` contains the seconds that debootstrap took.
    """
    root = ROOTS / (name or release)
    if not (root / "made").exists():
        if shutil.which("debootstrap") is None:
            install("debootstrap")
        started = time.monotonic()
        run("rm", "-rf", root)
        root.mkdir(parents=True)
        options = [f"--include={','.join(packages)}"] if packages else []
        options += [f"--arch={architecture}"] if architecture else []
        mirror = "http://deb.debian.org/debian"
        run("debootstrap", "--variant=minbase", *options, release, root, mirror)
        (root / "made").write_text(f"{time.monotonic() - started:.0f}")
    return root


@functools.cache
def make_compiler() -> Path:
    """Makes the folder with Debian's Swift 6.2, and copies the checkout to /twofold there."""
    root = make_root("sid", "swiftlang", "g++", "git", "libzmq3-dev", name="swift-6.2")
    copy_checkout(root)
    return root


def copy_checkout(root: Path) -> None:
    """Copies the checkout and its fetched Swift packages to /twofold in a Debian system.

    Leaves unchanged files alone, so that builds there are incremental.
    """
    copy, copied = root / "twofold", root / "copied"
    listed = output(
        *("git", "-C", CHECKOUT, "ls-files", "-z"),
        *("--cached", "--others", "--exclude-standard"),
    )
    names = [name for name in listed.split("\0") if name and (CHECKOUT / name).is_file()]
    names.append("Package.resolved")
    before = copied.read_text().split("\0") if copied.exists() else []
    for name in {*before} - {*names}:
        (copy / name).unlink(missing_ok=True)
    for name in names:
        source, target = CHECKOUT / name, copy / name
        if not (target.exists() and filecmp.cmp(source, target)):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
    copied.write_text("\0".join(names))
    copy_packages(copy / ".build")


def copy_packages(scratch: Path) -> None:
    """Copies the fetched Swift packages to a folder in which SwiftPM will build."""
    scratch.mkdir(parents=True, exist_ok=True)
    for part in FETCHED:
        if not (scratch / part).exists():
            copy = scratch / f"{part}.part"
            run("rm", "-rf", copy)
            run("cp", "-a", CHECKOUT / ".build" / part, copy)
            copy.rename(scratch / part)


def enter(root: Path, command: str, mounts: Mapping[str, Path] | None = None) -> None:
    """Runs a shell command in a Debian system, in /, and ends all processes that it leaves behind.

    Args:
        root: The folder with the Debian system.
        command: The command. Of this process's environment variables it gets only QEMU_CPU, the
            processor that QEMU emulates.
        mounts: Folders of this machine that the command sees, by their names in /.
    """
    separate = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
    pairs = [part for pair in (mounts or {}).items() for part in pair]
    run(*separate, "sh", "-c", ENTER, "sh", root, command, *pairs)
