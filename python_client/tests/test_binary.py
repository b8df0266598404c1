"""The server's machine code: only one module has instructions that some processors lack."""

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from twofold.client.lookup import find_program

PACKAGE = Path(__file__).resolve().parents[2] / "Package.swift"
FUNCTION = "^[0-9a-f]+ <(.+)>:"
# VEX-encoded instructions, of which AVX2's are a part.
VECTOR = "\tv[a-z0-9]+ .*%[xyz]mm"


def test_only_the_target_for_avx2_gets_the_flag() -> None:
    _, *targets = re.split(r"\.\w*[tT]arget\(", PACKAGE.read_text())
    flagged = [target.split('"')[1] for target in targets if "-mavx2" in target]
    assert flagged == ["Kernel2048AVX2"]


@pytest.mark.long
@pytest.mark.skipif(platform.machine() != "x86_64", reason="AVX2 is of x86_64 alone")
@pytest.mark.skipif(shutil.which("objdump") is None, reason="binutils are not installed")
def test_only_the_module_for_avx2_has_its_instructions() -> None:
    command = ["objdump", "--disassemble", "--no-show-raw-insn", str(find_program())]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        # grep selects these lines of millions faster than Python.
        selected = subprocess.run(
            ["grep", "-E", "-e", FUNCTION, "-e", VECTOR],
            stdin=process.stdout,
            stdout=subprocess.PIPE,
            text=True,
            env={"LC_ALL": "C", "PATH": os.environ["PATH"]},
            check=True,
        )
    assert process.returncode == 0
    functions, name = set(), ""
    for line in selected.stdout.splitlines():
        if match := re.match(FUNCTION, line):
            name = match[1]
        else:
            functions.add(name)
    assert functions, "there is no such module in this server"
    # Swift's mangled names begin with the module's: 14 letters, Kernel2048AVX2.
    assert {name for name in functions if not name.startswith("$s14Kernel2048AVX2")} == set()
