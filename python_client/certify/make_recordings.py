"""Records short games from other packages. `make test` compares the dialects with these recordings.

    .venv/bin/python python_client/certify/make_recordings.py

Tests/Fixtures/dialects/README.md describes the format.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import packages


def main() -> None:
    """Writes one recording for each dialect."""
    packages.RECORDINGS.mkdir(exist_ok=True)
    for dialect in packages.DIALECTS:
        with tempfile.TemporaryDirectory() as folder:
            recording = packages.record(dialect, Path(folder), boards=4, steps=110, given=20)
        content = {
            name: array.astype(int).reshape(len(array), -1).squeeze().tolist()
            if array.ndim
            else array.item()
            for name, array in recording.items()
        }
        text = json.dumps(content, separators=(",", ":")) + "\n"
        (packages.RECORDINGS / f"{dialect}.json").write_text(text)
        print(f"{len(text):7,} bytes  {dialect}.json")


if __name__ == "__main__":
    main()
