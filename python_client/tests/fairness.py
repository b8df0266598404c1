"""Measures the waiting times of many small clients that share a server with a large one.

    cd python_client/tests && python -m fairness small ENDPOINT STEPS
    cd python_client/tests && python -m fairness large ENDPOINT

"small" makes 200 sessions of one board each and prints a line. After a line on standard input, it
steps all sessions at the same time. It stops when each session has made STEPS steps and standard
input has ended. It then prints JSON: quantiles of the round-trip times in seconds, and the fewest
and most steps in any session.

"large" steps 262,144 boards until it is killed, and prints a line for each step.
"""

import json
import os
import select
import sys
import time

import numpy as np
import zmq
from raw import RawSession

import twofold

CLIENTS = 200
BOARDS = 262_144


def small(endpoint: str, enough: int) -> None:
    """Steps many sessions. Each sends its next step as soon as the last reply has arrived."""
    sessions = [RawSession(endpoint) for _ in range(CLIENTS)]
    poller = zmq.Poller()
    by_socket = {}
    for session in sessions:
        assert session.create(num_envs=1).slot == "create"
        assert session.reset(0).slot == "reset"
        poller.register(session.connection.socket, zmq.POLLIN)
        by_socket[session.connection.socket] = session
    sent = {}
    steps = dict.fromkeys(by_socket, 0)
    waited = []

    def send(session: RawSession) -> None:
        sent[session.connection.socket] = time.perf_counter()
        session.connection.send(session.request(step={}), b"\1")

    def is_over() -> bool:
        return min(steps.values()) >= enough and bool(select.select([sys.stdin], [], [], 0)[0])

    print("ready", flush=True)
    os.read(sys.stdin.fileno(), 1024)
    for session in sessions:
        send(session)
    while not is_over():
        for socket, _ in poller.poll(1000):
            session = by_socket[socket]
            answer = session.connection.receive()
            now = time.perf_counter()
            assert answer.slot == "step"
            session.count(answer)
            waited.append(now - sent[socket])
            steps[socket] += 1
            send(session)
    p50, p99 = np.quantile(waited, [0.5, 0.99])
    counts = list(steps.values())
    print(json.dumps({"p50": p50, "p99": p99, "fewest": min(counts), "most": max(counts)}))


def large(endpoint: str) -> None:
    """Steps one large batch again and again, until the process is killed."""
    envs = twofold.Game2048VectorEnv(BOARDS, endpoint=endpoint)
    envs.reset(seed=0)
    actions = np.random.default_rng(0).integers(0, 4, BOARDS).astype(np.uint8)
    while True:
        envs.step(actions)
        print("step", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "small":
        small(sys.argv[2], int(sys.argv[3]))
    else:
        large(sys.argv[2])
