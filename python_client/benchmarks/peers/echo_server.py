"""A Python version of echo_server.c, for machines without a C compiler or libzmq's headers."""

from __future__ import annotations

import sys
from pathlib import Path

import zmq


def main(endpoint: str, reply_file: str, header_size: str) -> None:
    """Answers every request with the same two frames."""
    reply = Path(reply_file).read_bytes()
    header, payload = reply[: int(header_size)], reply[int(header_size) :]
    socket = zmq.Context().socket(zmq.REP)
    socket.bind(endpoint)
    print(f"listening on {socket.getsockopt_string(zmq.LAST_ENDPOINT)}", flush=True)
    while True:
        socket.recv_multipart(copy=False)
        socket.send(header, zmq.SNDMORE)
        socket.send(payload, copy=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
