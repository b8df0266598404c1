"""Measures how long a server takes to save and restore sessions, and how many are lost.

First, a server with a state directory is stopped and started again. Then each session sends a
request that waits while the server is down, and one that waits while the server is paused for twice
its idle timeout.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

import figures
import tables
import zmq
from servers import Server

from twofold.v1 import envelope_pb2 as envelope

ENVIRONMENT = "twofold/Game2048-v0"
TIMEOUT_MS = 120_000


class Sessions:
    """Sessions that step together, each with one request in flight."""

    def __init__(self, endpoint: str, count: int, boards: int) -> None:
        self.count, self.boards = count, boards
        self._ids = [os.urandom(16) for _ in range(count)]
        self._seq = 0
        self._context = zmq.Context()
        self._sockets = []
        for _ in range(min(50, count)):
            socket = self._context.socket(zmq.DEALER)
            socket.set_hwm(0)
            socket.linger = 0
            socket.reconnect_ivl = 20
            socket.rcvtimeo = TIMEOUT_MS
            socket.connect(endpoint)
            self._sockets.append(socket)
        self.ask(create={"environment_id": ENVIRONMENT, "num_envs": boards})
        self.ask(reset={"seeds": True})

    def send(self, **operation: Any) -> None:
        """Sends one request for each session."""
        self._seq += 1
        for number, session in enumerate(self._ids):
            request = envelope.Request(session=session, epoch=1, seq=self._seq, **operation)
            frames = [b"", request.SerializeToString()]
            if "step" in operation:
                frames.append(bytes([number % 4]) * self.boards)
            if "reset" in operation:
                frames.append(struct.pack(f"<{self.boards}Q", *range(self.boards)))
            self._sockets[number % len(self._sockets)].send_multipart(frames)

    def receive(self) -> int:
        """Waits for all replies, and returns the number of lost sessions."""
        lost = 0
        for number in range(self.count):
            _, header, *_ = self._sockets[number % len(self._sockets)].recv_multipart()
            reply = envelope.Reply.FromString(header)
            if reply.HasField("error"):
                if reply.error.code != envelope.ERROR_CODE_NOT_FOUND:
                    raise RuntimeError(reply.error.message)
                lost += 1
        return lost

    def ask(self, **operation: Any) -> int:
        """Sends one request for each session, and returns the number of lost sessions."""
        self.send(**operation)
        return self.receive()

    def close(self) -> None:
        """Closes the connections without ending the sessions."""
        self._context.destroy(linger=0)


@contextlib.contextmanager
def running(*arguments: str) -> Iterator[Server]:
    """Runs a server with a state directory."""
    options = ("--max-sessions", "1000000", "--log-level", "error", *arguments)
    with (
        tempfile.TemporaryDirectory(prefix="twofold-", dir="/tmp") as directory,
        Server("--state-dir", directory, *options, log=sys.stderr.fileno()) as server,
    ):
        yield server


def seconds(call: Callable[[], None]) -> float:
    """Returns the duration of a call, in seconds."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def restarts(count: int, boards: int, rounds: int) -> list[figures.Row]:
    """Measures how long stops and starts take, without sessions and with `count` sessions."""
    stops, starts, lost = [], [], 0
    with running() as server:
        stop, start = seconds(server.terminate), seconds(server.start_again)
        empty = {"sessions": 0, "stop": [stop], "start": [start]}
        sessions = Sessions(server.ipc, count, boards)
        for _ in range(rounds):
            stops.append(seconds(server.terminate))
            starts.append(seconds(server.start_again))
            lost += sessions.ask(step={})
        sessions.close()
    times = {
        name: [statistics.median(found), min(found), max(found)]
        for name, found in (("stop", stops), ("start", starts))
    }
    return [empty, {"sessions": count, "boards": boards, **times, "lost": lost}]


def pauses(count: int, boards: int, timeout: int) -> list[figures.Row]:
    """Counts the sessions lost while their requests wait for a restarting or paused server."""
    with running("--idle-timeout", str(timeout)) as server:
        sessions = Sessions(server.ipc, count, boards)
        server.terminate()
        sessions.send(step={})
        server.start_again()
        restarted = sessions.receive()
        with server.stopped():
            sessions.send(step={})
            time.sleep(2 * timeout)
        paused = sessions.receive()
        sessions.close()
    waiting = {"idle_timeout": timeout, "waiting_sessions": count}
    return [
        {**waiting, "while": "the server restarts", "lost": restarted},
        {**waiting, "while": f"the server pauses for {2 * timeout} s", "lost": paused},
    ]


def main() -> None:
    """Prints both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--boards", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--idle-sessions", type=int, default=1500)
    parser.add_argument("--idle-timeout", type=int, default=5)
    parser.add_argument("--publish", action="store_true", help=figures.HELP)
    options = parser.parse_args()
    rows = restarts(options.sessions, options.boards, options.rounds)
    rows += pauses(options.idle_sessions, options.boards, options.idle_timeout)
    print(tables.restarts(rows), tables.waiting(rows), sep="\n", end="")
    if options.publish:
        figures.publish("restarts", rows)


if __name__ == "__main__":
    main()
