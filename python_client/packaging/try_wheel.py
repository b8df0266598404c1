"""Installs the wheels as a user would, in Debian systems without Swift and libzmq.

`make wheel-test` runs it. For each of RELEASES, debootstrap (which needs root) makes a folder with
Debian's base system and Python. In each folder it runs:

    pip install of the wheel, with its dependencies from a folder; the README's first loop, timed
    twofold doctor
    a server with CURVE and its client, check_vector_env, a million steps

The pure wheel must work with a server outside the folder. Everything else must raise an error that
lists the options.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

from build import run
from debian import make_root

PACKAGING = Path(__file__).resolve().parent
CHECKOUT = PACKAGING.parents[1]
WORK = CHECKOUT / ".build" / "wheel"
DIST = PACKAGING.parent / "dist"

RELEASES = {"bookworm": "3.11", "trixie": "3.13"}
"""Debian releases with different versions of glibc (2.36 and 2.41), and their Python."""

PLATFORMS = ("manylinux_2_35", "manylinux_2_34", "manylinux_2_28", "manylinux_2_17")


def main() -> None:
    """Tests both wheels in each release. Raises CalledProcessError if anything fails."""
    [wheel] = DIST.glob("*manylinux*.whl")
    [pure] = DIST.glob("*none-any.whl")
    loop = re.search(r"```python\n(.*?)```", (CHECKOUT / "README.md").read_text(), re.DOTALL)
    assert loop is not None
    for release, python in RELEASES.items():
        root = make_root(release, "python3", "python3-venv", "ca-certificates")
        for absent in ("swift", "libzmq.so.5"):
            assert not list((root / "usr").rglob(absent)), f"{absent} is in {root}"
        (root / "loop.py").write_text(loop[1])
        (root / "use.py").write_text((PACKAGING / "use_wheel.py").read_text())
        house = make_wheelhouse(wheel, python)
        inside(root, "rm -rf /venv && python3 -m venv /venv")
        started = time.monotonic()
        install(root, house, wheel)
        inside(root, "/venv/bin/python /loop.py")
        print(f"{release}: installed and played in {time.monotonic() - started:.0f} s", flush=True)
        inside(root, "/venv/bin/twofold doctor && /venv/bin/python /use.py")
        use_pure(root, house, pure)
    print("everything works")


def make_wheelhouse(wheel: Path, python: str) -> Path:
    """Makes a folder with the wheel's dependencies for a version of Python."""
    house = WORK / f"wheelhouse-{python}"
    pip = WORK / "tools" / "bin" / "pip"
    options = ["--quiet", "--disable-pip-version-check", "--only-binary=:all:"]
    options += [f"--platform={name}_{os.uname().machine}" for name in PLATFORMS]
    run(pip, "download", *options, "--python-version", python, "--dest", house, wheel)
    return house


def install(root: Path, house: Path, wheel: Path) -> None:
    """Installs a wheel without a network."""
    run("rm", "-rf", root / "house")
    run("cp", "-r", house, root / "house")
    for other in (root / "house").glob("twofold-*"):
        other.unlink()
    run("cp", wheel, root / "house")
    pip = "/venv/bin/pip install --quiet --force-reinstall --no-index --find-links /house"
    inside(root, f"{pip} /house/{wheel.name}")


def use_pure(root: Path, house: Path, pure: Path) -> None:
    """Tests the pure wheel with the bundle's server, which runs outside the Debian system."""
    install(root, house, pure)
    program = str(WORK / "bundle" / "twofold-server")
    command = [program, "serve", "--endpoint", "tcp://127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().split()[2]
        try:
            inside(root, f"/venv/bin/python /use.py {address}")
        finally:
            server.terminate()


def inside(root: Path, command: str) -> None:
    """Runs a command in the Debian system, with /proc and almost no environment variables."""
    mounted = f"mount -t proc proc {root}/proc && exec chroot {root} sh -c '{command}'"
    path = "PATH=/usr/sbin:/usr/bin:/sbin:/bin"
    run("unshare", "--mount", "env", "-i", path, "HOME=/root", "sh", "-c", mounted)


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"failed: {' '.join(map(str, error.cmd))}")
