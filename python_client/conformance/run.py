"""Plays the conformance cases of docs/reference/contract.md against a server or a client.

    python run.py server --endpoint tcp://127.0.0.1:5555
    python run.py client --command "./my_client {endpoint}"

It needs pyzmq, protobuf and the files of this repository, but not the twofold package.
"""

import argparse
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from cases import Failed, Undecided, load
from client_cases import MisbehavingServer
from server_cases import ServerPlayer


def report(cases: list[Any], play: Callable[[Any], None]) -> int:
    """Plays cases and prints a line for each. Returns 1 if any has failed, else 0."""
    outcomes = []
    for case in cases:
        outcome, why = "passed", ""
        try:
            play(case)
        except Failed as failure:
            outcome, why = "FAILED", f"\n          {failure}"
        except Undecided as reason:
            outcome, why = "undecided", f"\n          {reason}"
        outcomes.append(outcome)
        print(f"{outcome:9} {case['name']} [{', '.join(case['holds'])}]{why}", flush=True)
    print(
        *(f"{outcomes.count(each)} {each}" for each in ("passed", "FAILED", "undecided")), sep=", "
    )
    return int("FAILED" in outcomes)


def play_client(case: Any, server: MisbehavingServer, command: str, patience: float) -> None:
    """Plays one case. `command` starts the client; if it is empty, the user starts the client."""
    if not command:
        print(f"start your client at {server.endpoint} for: {case['name']}", flush=True)
        return server.play(case, lambda: server.is_left(patience))
    words = [word.replace("{endpoint}", server.endpoint) for word in shlex.split(command)]
    deadline = time.monotonic() + patience
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as client:
        try:
            server.play(case, lambda: client.poll() is not None or time.monotonic() > deadline)
            if client.poll() is None:
                raise Failed(f"the client is still running after {patience:g} s")
        finally:
            client.kill()


def main() -> int:
    """Runs the command line. Returns 1 if a case has failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("peer", choices=["server", "client"], help="the peer to check")
    parser.add_argument("--endpoint", default="tcp://127.0.0.1:*", help="the server's address")
    parser.add_argument("--command", default="", help='starts the client: "./my_client {endpoint}"')
    parser.add_argument("--patience", type=float, default=20, help="seconds to wait for the peer")
    options = parser.parse_args()
    if options.peer == "server":
        return report(load("server"), ServerPlayer(options.endpoint, options.patience).play)
    server = MisbehavingServer(options.endpoint)
    command, patience = options.command, options.patience
    return report(load("client"), lambda case: play_client(case, server, command, patience))


if __name__ == "__main__":
    sys.exit(main())
