"""The measured figures in the documents, stored in files named docs/figures/NAME.json.

With `--publish`, each measuring command writes its file, and `make pages` generates the documents'
tables from these files. A file contains the command, the date, the commit, the machine, and the
figures as rows. Unknown values are null.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDER = REPOSITORY / "docs" / "figures"

HELP = "write the figures into docs/figures"
"""The help of `--publish`."""

Row = dict[str, Any]


def publish(name: str, rows: Sequence[Row]) -> None:
    """Writes the figures that the running command measured.

    Raises:
        SystemExit: The existing file has more rows, for example because this run used --only. That
            file is left unchanged.
    """
    path = FOLDER / f"{name}.json"
    needed = len(read(name)["rows"]) if path.exists() else 1
    if len(rows) < needed:
        raise SystemExit(
            f"rows measured: {len(rows)}; rows needed: {needed}. {path} is unchanged. "
            "Repeat the whole measurement, or delete the file to publish fewer rows."
        )
    script = os.path.relpath(Path(sys.argv[0]).resolve(), REPOSITORY)
    # With --report, a command reads its stored results.
    words = [word for word in sys.argv[1:] if word not in ("--publish", "--report")]
    content = {
        "command": shlex.join(["python", script, *words]),
        "date": f"{datetime.date.today()}",
        # An earlier commit may have produced the stored results.
        "commit": None if "--report" in sys.argv else BEGAN,
        "machine": machine(),
        "rows": rows,
    }
    path.write_text(as_text(content))
    print(f"{path}: now run `make pages`", file=sys.stderr)


def as_text(content: dict[str, Any]) -> str:
    """Returns the content as JSON text, with one line for each row of figures."""
    *setting, (_, rows) = content.items()
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in setting]
    body = ",\n".join(f"    {json.dumps(row, ensure_ascii=False)}" for row in rows)
    return "\n".join(["{", *lines, '  "rows": [', body, "  ]", "}"]) + "\n"


def read(name: str) -> dict[str, Any]:
    """Returns the content of docs/figures/NAME.json."""
    content: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return content


def output(*words: str) -> dict[str, Any]:
    """Runs a `twofold` command with --json, and returns its output."""
    command = [sys.executable, "-m", "twofold", *words, "--json"]
    return dict(json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout))


def processor() -> str:
    """Returns the processor's name, or its architecture if Linux knows no name, as on ARM."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def machine() -> str:
    """Returns the processor's name and the number of cores that this process may use."""
    cores = len(os.sched_getaffinity(0))
    return f"{processor()}, {cores} {'core' if cores == 1 else 'cores'}"


def processor_seconds() -> float:
    """Returns the processor time of all child processes that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def commit() -> str | None:
    """Returns the checkout's commit; None if git is missing or there are uncommitted changes.

    Changes in docs/figures, which an earlier measurement may have published, do not count.
    """

    def git(*words: str) -> str:
        command = ["git", "-C", str(REPOSITORY), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--", ":(top,exclude)docs/figures")
        return None if changed else git("rev-parse", "HEAD")
    except (OSError, subprocess.CalledProcessError):
        return None


BEGAN = commit()
"""The commit at the start of the command, which may take hours."""
