"""The server's machine code: only one module has instructions that some processors lack."""

import platform
import re
import shutil
import subprocess

import pytest

from twofold.client.lookup import find_program

FUNCTION = re.compile(r"[0-9a-f]+ <(.+)>:")
# VEX-encoded instructions, of which AVX2's are a part.
VECTOR = re.compile(r"\tv[a-z0-9]+ .*%[xyz]mm")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="AVX2 is of x86_64 alone")
@pytest.mark.skipif(shutil.which("objdump") is None, reason="binutils are not installed")
def test_only_the_module_for_avx2_has_its_instructions() -> None:
    command = ["objdump", "--disassemble", "--no-show-raw-insn", str(find_program())]
    functions, name = set(), ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if match := FUNCTION.match(line):
                name = match[1]
            elif VECTOR.search(line):
                functions.add(name)
    assert functions, "there is no such module in this server"
    # Swift's mangled names begin with the module's: 14 letters, Kernel2048AVX2.
    assert {name for name in functions if not name.startswith("$s14Kernel2048AVX2")} == set()
