"""The part of try_arm64.py that plays, on this machine and in the Debian system for arm64.

Prints JSON: a hash of all games in Tests/Fixtures/golden, played by the library and by a server,
and the hash that the C client in docs/reference prints. TWOFOLD_ENGINE chooses the engine.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

import golden
from loops import number
from make_golden import GOLDEN
from servers import Server

SOURCE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "minimal_client.c"


def digest(endpoint: str) -> str:
    """Returns a hash of all results of the golden games, played at an endpoint."""
    found = hashlib.sha256()
    for path in sorted(GOLDEN.rglob("*.json")):
        games, envs = golden.load(path, endpoint)
        for _, results in golden.play(games, envs):
            found.update(b"%d " % number(results))
        envs.close()
    return found.hexdigest()


def session(endpoint: str) -> str:
    """Compiles the C client, and returns the hash of the session that it plays."""
    with tempfile.TemporaryDirectory() as folder:
        client = f"{folder}/client"
        compiler = shutil.which("cc") or "clang"
        subprocess.run([compiler, "-std=c11", "-o", client, SOURCE, "-lzmq"], check=True)
        return subprocess.check_output([client, endpoint], text=True).split()[-1]


if __name__ == "__main__":
    with Server() as server:
        hashes = {
            "library": digest("embedded"),
            "server": digest(server.ipc),
            "C client": session(server.tcp),
        }
    print(json.dumps(hashes))
