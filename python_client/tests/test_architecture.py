"""ARCHITECTURE.md agrees with the files, and the sources use only permitted functions."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "ARCHITECTURE.md").read_text()
CODE = {".swift", ".c", ".h", ".py"}
# Generated, and the links to another folder's files.
OTHERS = re.compile(r"/(Generated|v1|Kernel2048AVX2)/")
# Names of libc, and of functions that only Linux has.
LINUX = re.compile(
    r"\b(Glibc|Musl|Darwin|CLinux|CPlatform|eventfd|signalfd|epoll|malloc_trim|accept4|__r(?:limit|usage)\w*"
    r"|(sched|SOCK|pthread_setaffinity)_\w+)\b|/proc/|/sys/"
)

# Code that Swift 6.2, the version in Package.swift, does not compile.
SWIFT_6_3 = re.compile(
    r"^\s*@(specialized|c)\b|withUnsafeTemporaryAllocation\([^{]*\{\s*\([^)]*\) throws\(",
    re.MULTILINE,
)


@pytest.fixture(scope="module")
def files() -> list[Path]:
    """The hand-written files of the package and the server."""
    command = ["git", "ls-files", "Sources", "python_client/src"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this is not a checkout")
    paths = [Path(line) for line in listed.stdout.splitlines()]
    return [
        path
        for path in paths
        if path.suffix in CODE and not OTHERS.search(f"/{path}") and (ROOT / path).exists()
    ]


def folders_in(table: str) -> set[str]:
    """Returns the folders in the first column of a table; `…/X` is a sibling of the one before."""
    rows = TEXT.split(f"| {table} |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    found: set[str] = set()
    for row in rows:
        last = ""
        for name in re.findall(r"`([^`]+)`", row.split("|")[1]):
            parent = last.rpartition("/")[0] or last
            last = name.replace("…", parent)
            found.add(last)
    return found


@pytest.mark.parametrize(
    ("table", "root"),
    [
        ("folder of `Sources`", "Sources"),
        ("folder of `python_client/src/twofold`", "python_client/src/twofold"),
    ],
)
def test_each_folder_has_a_row_in_the_table(files: list[Path], table: str, root: str) -> None:
    folders = {str(path.parent.relative_to(root)) for path in files if path.is_relative_to(root)}
    folders -= {".", "CLinux/include", "CPlatform/include"}
    if root == "Sources":
        folders |= {"Kernel2048AVX2", "CZeroMQ"}
        folders |= {"TwofoldProtocol"}
    assert folders_in(table) == folders


def test_each_path_exists() -> None:
    paths = set(re.findall(r"`((?:Sources|python_client|proto|docs)/[\w./-]+)`", TEXT))
    assert paths
    assert {path for path in paths if not (ROOT / path).exists()} == set()


def test_no_source_needs_a_newer_swift_than_the_package_declares() -> None:
    assert (ROOT / "Package.swift").read_text().startswith("// swift-tools-version: 6.2\n")
    sources = [*ROOT.glob("Sources/**/*.swift"), *ROOT.glob("Tests/**/*.swift")]
    newer = [source for source in sources if SWIFT_6_3.search(source.read_text())]
    assert [str(source.relative_to(ROOT)) for source in newer] == []


def test_only_platform_names_libc_and_linux_only_functions(files: list[Path]) -> None:
    platform = Path("Sources/Platform")
    swift = [path for path in files if path.suffix == ".swift"]
    named = {path for path in swift if LINUX.search((ROOT / path).read_text())}
    assert platform / "Platform.swift" in named
    assert {str(path) for path in named if not path.is_relative_to(platform)} == set()
