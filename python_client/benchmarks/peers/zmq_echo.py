"""The transport limit: exactly the bytes of Twofold's step, through a server that does nothing.

    zmq_echo.py ipc|tcp N

The frames are those of a real session: one step of N boards is carried out by a real server, and
its request and reply are what travels from then on. The client is as bare as pyzmq allows: a plain
blocking REQ socket, two sends, a receive, and a receive into a fresh aligned array.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import zmq
from numpy.typing import NDArray
from worker import serve

from twofold import _private_server
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment

HERE = Path(__file__).parent


class Frames(NamedTuple):
    """One step as it travels."""

    request: bytes
    reply: bytes
    payload: bytes
    """Of the reply; the request's is N action bytes."""
    mask_offset: int
    """Of the action mask in the payload."""


def real_frames(endpoint: str, num_envs: int) -> Frames:
    """Plays a few steps on a real server, and keeps the last one's frames."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    socket = context.socket(zmq.REQ)
    socket.set(zmq.RCVTIMEO, 30_000)
    socket.connect(endpoint)
    session = os.urandom(16)

    def call(seq: int, *payload: bytes, **op: Any) -> tuple[bytes, list[bytes]]:
        request = envelope.Request(session=session, epoch=1, seq=seq, **op).SerializeToString()
        socket.send_multipart([request, *payload])
        frames = socket.recv_multipart()
        assert not envelope.Reply.FromString(frames[0]).HasField("error"), frames[0]
        return request, frames

    create = environment.CreateRequest(environment_id="twofold/Game2048-v0", num_envs=num_envs)
    _, (created,) = call(1, create=create)
    layout = envelope.Reply.FromString(created).create.step
    call(2, np.arange(num_envs, dtype="<u8").tobytes(), reset={"seeds": True})
    for seq in range(3, 20):
        request, (reply, payload) = call(seq, bytes([seq % 4]) * num_envs, step={})
    call(20, close={})
    context.destroy(linger=0)
    assert len(payload) == layout.size
    (mask,) = (array for array in layout.arrays if array.name == "action_mask")
    return Frames(request, reply, payload, mask.offset)


def start_server(carrier: str, frames: Frames, folder: Path) -> tuple[str, str]:
    """Starts the echo server; it ends with this process.

    Returns:
        Its address, and what it is.
    """
    (folder / "reply").write_bytes(frames.reply + frames.payload)
    program = folder / "echo_server"
    build = ["cc", "-O2", "-o", str(program), str(HERE / "echo_server.c"), "-lzmq"]
    try:
        subprocess.run(build, check=True, capture_output=True, text=True)
        command, kind = [str(program)], "in C"
    except (OSError, subprocess.CalledProcessError) as error:
        print(error, getattr(error, "stderr", ""), file=sys.stderr)
        command = [sys.executable, str(HERE / "echo_server.py")]
        kind = "in Python (no C compiler or no libzmq headers), so the limit is a little low"
    endpoint = "tcp://127.0.0.1:*" if carrier == "tcp" else f"ipc://{folder}/s"
    command += [endpoint, str(folder / "reply"), str(len(frames.reply))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("listening on "), line
    return line.split()[2], kind


class Echo:
    """A bare REQ client of the echo server."""

    action_dtype = np.uint8

    def __init__(self, carrier: str, num_envs: int, folder: Path) -> None:
        server = _private_server.PrivateServer(time.monotonic() + 30)
        try:
            frames = real_frames(server.endpoint, num_envs)
        finally:
            server.stop()
        endpoint, kind = start_server(carrier, frames, folder)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.REQ)
        self._socket.connect(endpoint)
        self._request = frames.request
        self._size = len(frames.payload)
        mask = slice(frames.mask_offset, frames.mask_offset + 4 * num_envs)
        self._mask: NDArray[np.uint8] = np.frombuffer(frames.payload, np.uint8)[mask].copy()
        self.details = {
            "server": kind,
            "request bytes": f"{len(frames.request)} + {num_envs}",
            "reply bytes": f"{len(frames.reply)} + {self._size}",
        }

    def step(self, actions: NDArray[Any]) -> NDArray[np.uint8]:
        """One round trip."""
        socket = self._socket
        socket.send(self._request, zmq.SNDMORE)
        socket.send(actions.data)
        socket.recv()
        payload = np.empty(self._size, np.uint8)
        socket.recv_into(payload.data)
        return payload

    def mask(self, outputs: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The mask of the step that is echoed: choosing takes as long as for anybody else."""
        return self._mask


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="twofold-echo-", dir="/tmp") as folder:
        serve(lambda num_envs: Echo(sys.argv[1], num_envs, Path(folder)))
