"""Processes that may be killed at any moment, and resume their predecessor's session.

    python resumed_loop.py ENDPOINT LOG STEPS

The first line of LOG is the session's token. Each following line is the result of one step. Each
line of standard input is the LIFE of a process, which waits to be killed after that many steps. It
ends normally if it reaches STEPS first. The output has the process's id and then its exit status.

Each process is a fork, because importing the package takes longer than a life.
"""

import os
import signal
import sys
from pathlib import Path

from loops import make, number, one_step

import twofold


def play_on(endpoint: str, log: Path, steps: int, life: int) -> None:
    """Plays up to this many steps, starting from the state of the log and the server."""
    lines = log.read_text().splitlines(keepends=True) if log.exists() else []
    lines = [line for line in lines if line.endswith("\n")]
    if lines:
        envs = twofold.resume(lines[0].strip(), endpoint=endpoint)
        # The last step may have been executed without its result being written.
        missing = envs.requests - len(lines)
        assert missing in (0, 1), f"{missing} results are missing"
        if missing:
            assert envs.last_results is not None
            lines.append(f"{number(envs.last_results)}\n")
    else:
        envs = make(endpoint)
        lines = [envs.token + "\n"]
    temporary = log.with_suffix(".new")
    temporary.write_text("".join(lines))
    temporary.replace(log)
    with log.open("a") as file:
        first = len(lines) - 1
        for step in range(first, steps):
            if step - first == life:
                signal.pause()
            file.write(f"{one_step(envs, step)}\n")
            file.flush()
    envs.close()


if __name__ == "__main__":
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            play_on(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(line))
            sys.exit()
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
