"""Compiles for arm64 on a machine with another processor, and runs the programs (as root).

Debian's Swift runs on this machine, in a folder with Debian sid. It compiles for another folder,
which has Debian for arm64, and QEMU runs the programs there. As a program (`make wheel-arm64`), it
adds the wheel for arm64 to python_client/dist.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from build import WORK, Target, fetch_zeromq, make_wheel, print_files, run, start, toolchain
from debian import copy_packages, enter, make_compiler, make_root

TRIPLE = "aarch64-unknown-linux-gnu"

PACKAGES = {
    "swiftlang": "6.2.3-1+b1",
    "g++": "4:16.1.0-3",
    "libzmq3-dev": "4.3.5-1+b8",
    "python3": "3.14.8-1",
    "python3-venv": "3.14.8-1",
}
"""The packages of sid for arm64, and the versions with which everything passed."""

PROCESSOR = "neoverse-n1"
"""The processor that QEMU emulates: an early one for servers (Arm, 2019).

QEMU's default has pointer authentication, with which Python takes four times as long.
"""

BINFMT = Path("/proc/sys/fs/binfmt_misc")
COMPILER = "/usr/libexec/swift/bin"
RUNTIME = "/sid/usr/libexec/swift/lib"
"""The folders with Debian's compiler, and with its runtime for arm64 in the compiler's system."""


@functools.cache
def make_system(release: str) -> Path:
    """Makes a folder with Debian for arm64, unless it exists. Exits if a package is missing.

    Args:
        release: "sid", with Swift's runtime; or "bookworm", with an older glibc and without Swift.
    """
    enable_emulation()
    packages = ["ca-certificates", "python3", "python3-venv", "libstdc++-12-dev", "libsodium-dev"]
    if release == "sid":
        packages = list(PACKAGES)
    try:
        root = make_root(release, *packages, name=f"{release}-arm64", architecture="arm64")
    except subprocess.CalledProcessError:
        worked = ", ".join(f"{name} {version}" for name, version in PACKAGES.items())
        sys.exit(
            f"debootstrap could not install {release} for arm64. If it names packages above, "
            "Debian lacks them or their dependencies at the moment; try again in a few days. "
            f"These versions of sid's packages worked: {worked}."
        )
    (root / "etc" / "hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")
    # The compiler sees the folder from outside, where a link to /lib leads elsewhere.
    for link in (root / "usr" / "lib" / "aarch64-linux-gnu").glob("*.so"):
        if link.is_symlink() and link.readlink().is_absolute():
            target = root / link.readlink().relative_to("/")
            link.unlink()
            link.symlink_to(os.path.relpath(target, link.parent))
    return root


def enable_emulation() -> None:
    """Makes the kernel run arm64 programs with QEMU, also where QEMU's files are not visible."""
    needed = ("binfmt-support", "qemu-user-static")
    entry = BINFMT / "qemu-aarch64"
    if subprocess.run(["dpkg", "--status", *needed], capture_output=True, check=False).returncode:
        run("apt-get", "install", "--yes", "--no-install-recommends", *needed)
    if not (BINFMT / "status").exists():
        run("mount", "-t", "binfmt_misc", "binfmt_misc", BINFMT)
    if not entry.exists():
        run("update-binfmts", "--enable", "qemu-aarch64")
    [flags] = [line for line in entry.read_text().splitlines() if line.startswith("flags:")]
    if "F" not in flags.removeprefix("flags:"):
        sys.exit(f"{entry} has '{flags}', without F: QEMU can't run in a folder with Debian")
    os.environ["QEMU_CPU"] = PROCESSOR


def swift_build(release: str, *options: str, environment: Mapping[str, str] | None = None) -> None:
    """Runs `swift build -c release` for Debian `release` for arm64.

    The build is in /twofold, where the folder WORK is /wheel.
    """
    compiler = make_compiler()
    mounts = {name: make_system(name) for name in dict.fromkeys(("sid", release))}
    # The linker finds a part of the static runtime only here: `target` below does not change that.
    mounts[f"{release}/usr/lib/swift_static"] = mounts["sid"] / "usr/libexec/swift/lib/swift_static"
    mounts["wheel"] = WORK
    # Debian lacks this library, which the tests name but do not use: an empty archive replaces it.
    archive = compiler / "twofold" / ".build" / TRIPLE / "release" / "lib_Testing_Foundation.a"
    archive.parent.mkdir(parents=True, exist_ok=True)
    archive.write_bytes(b"!<arch>\n")
    sdk = compiler / "sdks" / f"{release}.artifactbundle" / "sdk"
    sdk.mkdir(parents=True, exist_ok=True)
    artifact = {"type": "swiftSDK", "version": "1", "variants": [{"path": "sdk"}]}
    _write(sdk.parent / "info.json", {"artifacts": {release: artifact}})
    _write(
        sdk / "toolset.json",
        {
            "rootPath": COMPILER,
            "linker": {"path": "ld.lld"},
            "swiftCompiler": {"extraCLIOptions": ["-use-ld=lld"]},
        },
    )
    target = {
        "sdkRootPath": f"/{release}",
        "swiftResourcesPath": f"{RUNTIME}/swift",
        "swiftStaticResourcesPath": f"{RUNTIME}/swift_static",
        "toolsetPaths": ["toolset.json"],
    }
    _write(sdk / "swift-sdk.json", {"targetTriples": {TRIPLE: target}}, version="4.0")
    variables = {"TWOFOLD_ARM64": f"{RUNTIME}/swift_static", **(environment or {})}
    command = [
        *("cd /twofold && exec env", *(f"{name}={value}" for name, value in variables.items())),
        "swift build -c release --disable-automatic-resolution --swift-sdks-path /sdks",
        *("--swift-sdk", release, *options),
    ]
    enter(compiler, " ".join(command), mounts)


def _write(file: Path, content: Mapping[str, object], version: str = "1.0") -> None:
    """Writes a file of Swift's SDKs."""
    file.write_text(json.dumps({"schemaVersion": version, **content}))


class Arm64(Target):
    """An arm64 machine. Its binaries link to the libraries of Debian bookworm."""

    machine = "aarch64"

    def __init__(self) -> None:
        self.sysroot = make_system("bookworm")
        compiling = "-fuse-ld=lld -Wno-unused-command-line-argument"
        self.cmake = {
            "CMAKE_SYSTEM_NAME": "Linux",
            "CMAKE_SYSTEM_PROCESSOR": self.machine,
            "CMAKE_SYSROOT": str(self.sysroot),
            "CMAKE_C_COMPILER": str(toolchain() / "bin" / "clang"),
            "CMAKE_CXX_COMPILER": str(toolchain() / "bin" / "clang++"),
            "CMAKE_C_COMPILER_TARGET": "aarch64-linux-gnu",
            "CMAKE_CXX_COMPILER_TARGET": "aarch64-linux-gnu",
            "CMAKE_C_FLAGS": compiling,
        }

    def inside(self, file: Path) -> str:  # noqa: D102 (see Target)
        if file.is_relative_to(self.sysroot):
            return f"/bookworm/{file.relative_to(self.sysroot)}"
        return f"/wheel/{file.relative_to(WORK)}"

    def swift_build(self, *options: str, archives: str) -> None:  # noqa: D102 (see Target)
        copy_packages(WORK / f"swift-{self.machine}")
        shim = WORK / "glibc.o"
        compiler = (toolchain() / "bin" / "clang", "--target=aarch64-linux-gnu", "-O2", "-fPIC")
        source = Path(__file__).with_name("glibc.c")
        run(*compiler, f"--sysroot={self.sysroot}", "-c", source, "-o", shim)
        swift_build(
            "bookworm",
            *options,
            *("-Xswiftc", "-file-prefix-map", "-Xswiftc", "/twofold=."),
            *("-Xcc", f"-I{self.inside(fetch_zeromq() / 'include')}"),
            *("-Xlinker", self.inside(shim)),
            environment={"TWOFOLD_ZEROMQ_ARCHIVES": archives},
        )

    def swift_licence(self) -> Path:  # noqa: D102 (see Target)
        return make_system("sid") / "usr" / "share" / "doc" / "swiftlang" / "copyright"


def main() -> None:
    """Adds the wheel for arm64 to DIST, and prints all files there."""
    make_wheel(Arm64())
    print_files()


if __name__ == "__main__":
    start(main)
