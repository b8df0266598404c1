"""Tests that abandoned sockets are closed in an order that never freezes the process."""

import subprocess
import sys
from pathlib import Path

from servers import PATIENCE

BUSY = "while True: pass"


def test_an_address_without_zeromq_can_be_asked_forever() -> None:
    """Next to two busy processes, the wrong order froze within seconds each time."""
    neighbours = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(2)]
    try:
        subprocess.run(
            [sys.executable, "-m", "reconnecting", "1000"],
            cwd=Path(__file__).parent,
            timeout=PATIENCE,
            check=True,
        )
    finally:
        for neighbour in neighbours:
            neighbour.kill()
            neighbour.wait()
