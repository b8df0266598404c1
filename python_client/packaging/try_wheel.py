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
import time
from pathlib import Path

from build import CHECKOUT, DIST, WORK, make_tools, run, start
from debian import enter, make_root

PACKAGING = Path(__file__).resolve().parent

RELEASES = {"bookworm": "3.11", "trixie": "3.13"}
"""Debian releases with different versions of glibc (2.36 and 2.41), and their Python."""

PLATFORMS = (
    *("manylinux_2_35", "manylinux_2_34", "manylinux_2_28", "manylinux_2_17"),
    "manylinux2014",  # the only tag of some wheels
)


def main() -> None:
    """Tests both wheels in each release. Raises CalledProcessError if anything fails."""
    machine = os.uname().machine
    [wheel] = DIST.glob(f"*manylinux*_{machine}.whl")
    [pure] = DIST.glob("*none-any.whl")
    for release, python in RELEASES.items():
        root = make_root(release, "python3", "python3-venv", "ca-certificates")
        house = try_wheel(wheel, root, python, machine)
        use_pure(root, house, pure)
    print("everything works")


def try_wheel(wheel: Path, root: Path, python: str, machine: str) -> Path:
    """Tests the wheel with the library in a Debian system.

    Args:
        wheel: The wheel.
        root: The folder with the Debian system.
        python: The system's version of Python, such as "3.13".
        machine: The kernel's name of the system's architecture.

    Returns:
        The folder with the wheel's dependencies.
    """
    for absent in ("swift", "libzmq.so.5"):
        assert not list((root / "usr").rglob(absent)), f"{absent} is in {root}"
    loop = re.search(r"```python\n(.*?)```", (CHECKOUT / "README.md").read_text(), re.DOTALL)
    assert loop is not None
    (root / "loop.py").write_text(loop[1])
    (root / "use.py").write_text((PACKAGING / "use_wheel.py").read_text())
    house = make_wheelhouse(WORK / f"wheelhouse-{python}-{machine}", python, wheel, machine=machine)
    enter(root, "rm -rf /venv && python3 -m venv /venv")
    started = time.monotonic()
    install(root, house, wheel)
    enter(root, "/venv/bin/python /loop.py")
    print(f"{root.name}: installed and played in {time.monotonic() - started:.0f} s", flush=True)
    enter(root, "/venv/bin/twofold doctor && /venv/bin/python /use.py")
    return house


def make_wheelhouse(house: Path, python: str, *wanted: str | Path, machine: str) -> Path:
    """Downloads wheels into the folder `house`, and returns the folder.

    Args:
        house: The folder.
        python: The version of Python, such as "3.13".
        wanted: Wheels whose dependencies are downloaded, or pip's names of packages.
        machine: The kernel's name of the architecture.
    """
    run(*pip("download", python, machine), "--dest", house, *wanted)
    return house


def unpack(house: Path, python: str, packages: Path, machine: str) -> None:
    """Installs all wheels of the folder `house` in a `site-packages` of any architecture."""
    options = ("--no-index", "--no-deps", "--ignore-requires-python", "--target", packages)
    run(*pip("install", python, machine), *options, *house.glob("*.whl"))


def pip(command: str, python: str, machine: str) -> list[str | Path]:
    """Returns a command of pip for a version of Python and an architecture."""
    options = ["--quiet", "--disable-pip-version-check", "--only-binary=:all:"]
    options += [f"--platform={name}_{machine}" for name in PLATFORMS]
    return [make_tools() / "pip", command, *options, "--python-version", python]


def install(root: Path, house: Path, wheel: Path) -> None:
    """Installs a wheel without a network."""
    run("rm", "-rf", root / "house")
    run("cp", "-r", house, root / "house")
    for other in (root / "house").glob("twofold-*"):
        other.unlink()
    run("cp", wheel, root / "house")
    pip = "/venv/bin/pip install --quiet --force-reinstall --no-index --find-links /house"
    enter(root, f"{pip} /house/{wheel.name}")


def use_pure(root: Path, house: Path, pure: Path) -> None:
    """Tests the pure wheel with the bundle's server, which runs outside the Debian system."""
    install(root, house, pure)
    program = str(WORK / "bundle" / "twofold-server")
    command = [program, "serve", "--endpoint", "tcp://127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().split()[2]
        try:
            enter(root, f"/venv/bin/python /use.py {address}")
        finally:
            server.terminate()


if __name__ == "__main__":
    start(main)
