"""Connections that break again and again never freeze the process."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from servers import PATIENCE

BUSY = "while True: pass"


def test_an_address_without_zeromq_can_be_asked_forever() -> None:
    """Beside busy processes, closing a monitor too early used to freeze this one within seconds."""
    command = [sys.executable, "-m", "reconnecting", "asking", "150"]
    with subprocess.Popen(
        command, cwd=Path(__file__).parent, stdout=subprocess.PIPE, text=True
    ) as asking:
        processes: list[subprocess.Popen[Any]] = [asking]
        try:
            assert asking.stdout is not None
            assert asking.stdout.readline() == "ready\n"
            processes += [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(2)]
            assert asking.wait(PATIENCE) == 0
        finally:
            for process in processes:
                process.kill()
                process.wait()


@pytest.mark.parametrize("connection", ["idle", "begun"])
def test_a_connection_that_breaks_unnoticed_does_not_stop_the_others(connection: str) -> None:
    """In the past, an unread monitor stopped other connections, and then froze the process."""
    subprocess.run(
        [sys.executable, "-m", "reconnecting", connection, "800"],
        cwd=Path(__file__).parent,
        timeout=1.5 * PATIENCE,
        check=True,
    )
