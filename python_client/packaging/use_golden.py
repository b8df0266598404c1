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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from games import GAMES
from loops import number
from make_golden import GOLDEN
from servers import Server

SOURCE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "minimal_client.c"


def digest(endpoint: str) -> str:
    """Returns a hash of all results of the golden games, played at an endpoint."""
    found = hashlib.sha256()
    for path in sorted(GOLDEN.rglob("*.json")):
        for results in play(json.loads(path.read_text()), endpoint):
            found.update(b"%d " % number(results))
    return found.hexdigest()


def play(golden: dict[str, Any], endpoint: str) -> Iterator[tuple[Any, ...]]:
    """Plays the games of a golden file, and yields the results of each reset and step."""
    config, lanes = golden["config"], golden["lanes"]
    size = (config.pop("rows"), config.pop("columns"))
    if "peeks" in config and config["peeks"] is None:
        config["peeks"] = "unlimited"
    make: Any = GAMES[golden["environment_id"].removeprefix("twofold/").removesuffix("-v0")]
    envs = make(len(lanes), endpoint=endpoint, size=size, **config)
    yield envs.reset(seed=[lane["seed"] for lane in lanes])
    for step in range(len(lanes[0]["actions"])):
        ended = [any(entry["step"] == step for entry in lane.get("resets", ())) for lane in lanes]
        if any(ended):
            yield envs.reset(options={"reset_mask": np.array(ended)})
        yield envs.step([lane["actions"][step] for lane in lanes])
    envs.close()


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
