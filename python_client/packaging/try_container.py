"""Builds the images with Docker, and runs them as compose.yaml describes.

`make container-test` runs it as root. Docker runs inside a folder with a Debian system (made by
debootstrap), in separate namespaces and on a copy of the checkout. This machine needs no Docker.
Only that folder remains afterwards. use_container.py contains the part that runs inside the folder.
Base images that can't be pulled are replaced:

    debian:bookworm-slim    the base system that debootstrap makes
    swift:6.3-bookworm      the same system with that image's packages and this machine's Swift
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from build import CHECKOUT, output, run, start, toolchain
from debian import ROOTS, make_root

AUTHORITIES = Path("/usr/local/share/ca-certificates")

ENGINE = (
    *("ca-certificates", "docker-buildx", "docker-cli", "docker-compose", "docker.io"),
    *("iproute2", "iptables", "python3", "slirp4netns"),
)
"""The Debian packages of Docker and its network tools."""

ENTER = """
set -e
cd "$1"
mount --bind . .
cd "$1"
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
mkdir -p given checkout tmp/upper tmp/work .outside
mount -t tmpfs tmpfs given
mount -t overlay -o "lowerdir=$2,upperdir=tmp/upper,workdir=tmp/work" checkout checkout
shift 2
while [ $# -gt 0 ]; do
    mkdir -p "given/$1"
    mount --bind -o ro "$2" "given/$1"
    shift 2
done
echo nameserver 10.0.2.3 > etc/resolv.conf
pivot_root . .outside
umount -l .outside
cd /checkout
exec env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin PYTHONUNBUFFERED=1 \\
    python3 python_client/packaging/use_container.py
"""
"""A script that enters the Debian system in folder $1, with a copy of the checkout $2.

The other arguments are pairs: a name in /given, and the folder to mount there.
"""


def main() -> None:
    """Makes the folders, runs use_container.py in the Debian system, and exits with its status."""
    engine = make_root("trixie", *ENGINE, name="engine")
    given = {
        "debian": make_root("bookworm", name="bookworm-slim"),
        "swift": toolchain().parent,
        "site": make_site(),
    }
    before = groups()
    pairs = [str(word) for pair in given.items() for word in pair]
    enter = ("sh", "-c", ENTER, "sh", str(engine), str(CHECKOUT), *pairs)
    try:
        done = subprocess.run(("unshare", "--mount", "--pid", "--fork", "--kill-child", *enter))
    finally:
        for group in groups() - before:
            run("find", group, "-depth", "-type", "d", "-exec", "rmdir", "{}", ";")
    sys.exit(done.returncode)


def make_site() -> Path:
    """Makes a folder with this machine's certificate authorities and local git mirrors."""
    site = ROOTS / "site"
    run("rm", "-rf", site)
    (site / "etc").mkdir(parents=True)
    folders = {AUTHORITIES}
    listed = output("sh", "-c", "git config --get-regexp '^url[.]/.*[.]insteadof$' || true")
    for line in listed.splitlines():
        name, address = line.split(maxsplit=1)
        folder = name.removeprefix("url.").removesuffix(".insteadof")
        key = f"url.{folder}.insteadOf"
        run("git", "config", "--file", site / "etc" / "gitconfig", "--add", key, address)
        folders.add(Path(folder))
    for each in sorted(filter(Path.is_dir, folders)):
        (site / each.parent.relative_to("/")).mkdir(parents=True, exist_ok=True)
        run("cp", "--archive", each, site / each.parent.relative_to("/"))
    return site


def groups() -> set[Path]:
    """Returns the folders of Docker's cgroups (version 1 or 2)."""
    mount = Path("/sys/fs/cgroup")
    return {*mount.glob("docker"), *mount.glob("*/docker")}


if __name__ == "__main__":
    start(main)
