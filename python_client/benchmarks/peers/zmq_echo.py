"""The transport's limit: a server that only echoes the frames of a real Twofold step.

    zmq_echo.py ipc|tcp N

The frames come from a real session. A real server executes one step of N boards, whose request and
reply are then sent again and again.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import zmq
from numpy.typing import NDArray
from worker import serve

import twofold

HERE = Path(__file__).parent


class Frames(NamedTuple):
    """The frames of one step."""

    request: bytes
    reply: bytes
    payload: bytes
    """The reply's payload. The request's payload is N action bytes."""
    mask: NDArray[np.uint8]
    """The action mask in the reply's payload."""


def real_frames(num_envs: int) -> Frames:
    """Plays a few steps on a real server, and returns the frames of the last one."""
    envs = twofold.Game2048VectorEnv(num_envs, endpoint="private")
    envs.reset(seed=0)
    for number in range(20):
        envs.step(np.full(num_envs, number % 4))
    session, link = envs._session, envs._session.link
    call = link._steps.call(session.last_seq + 1, bytes(num_envs))
    with zmq.Context() as context, context.socket(zmq.REQ) as socket:
        socket.connect(link.carrier.endpoint)
        socket.send_multipart([call.request, bytes(num_envs)])
        reply, payload = socket.recv_multipart()
    envs.close()
    [offset] = (array.offset for array in session.spec.step.arrays if array.name == "action_mask")
    mask = np.frombuffer(payload, np.uint8, 4 * num_envs, offset)
    return Frames(call.request, reply, payload, mask)


def start_server(carrier: str, frames: Frames, folder: Path) -> str:
    """Starts the echo server, which ends with this process, and returns its address."""
    (folder / "reply").write_bytes(frames.reply + frames.payload)
    program = folder / "echo_server"
    compiler = shutil.which("cc") or "clang"
    subprocess.run([compiler, "-O2", "-o", program, HERE / "echo_server.c", "-lzmq"], check=True)
    endpoint = "tcp://127.0.0.1:*" if carrier == "tcp" else f"ipc://{folder}/s"
    command = [str(program), endpoint, str(folder / "reply"), str(len(frames.reply))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("listening on "), line
    return line.split()[2]


class Echo:
    """A bare REQ client of the echo server."""

    action_dtype = np.uint8

    def __init__(self, carrier: str, num_envs: int, folder: Path) -> None:
        frames = real_frames(num_envs)
        endpoint = start_server(carrier, frames, folder)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.REQ)
        self._socket.connect(endpoint)
        self._request = frames.request
        self._payload = np.empty(len(frames.payload), np.uint8)
        self._mask = frames.mask
        self.details = {
            "request bytes": f"{len(frames.request)} + {num_envs}",
            "reply bytes": f"{len(frames.reply)} + {len(frames.payload)}",
        }

    def step(self, actions: NDArray[Any]) -> NDArray[np.uint8]:
        """Makes one round trip. Allocating each payload would cost more than its transport."""
        self._socket.send(self._request, zmq.SNDMORE)
        self._socket.send(actions.data)
        self._socket.recv()
        self._socket.recv_into(self._payload.data)
        return self._payload

    def mask(self, outputs: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Returns the mask of the echoed step, so that choosing actions takes the usual time."""
        return self._mask


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="twofold-echo-", dir="/tmp") as folder:
        serve(lambda num_envs: Echo(sys.argv[1], num_envs, Path(folder)))
