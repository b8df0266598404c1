"""Keeps asking an address without ZeroMQ; tests run this in a separate process.

    python -m reconnecting CYCLES

A socket that was closed while its monitor had events left froze the process with the interpreter
lock held, so that no timeout inside the test could end it. The number of cycles matters, so the
sockets reconnect after a millisecond.
"""

import contextlib
import socket
import sys
import threading
import time

import zmq

from twofold.client import sockets
from twofold.client.carrier import Call
from twofold.client.zeromq import ZeroMQCarrier
from twofold.errors import TransportError
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment


def accept_and_close(listener: socket.socket) -> None:
    """Behaves like docker-proxy and `ssh -L` without a listener behind them."""
    while True:
        with contextlib.suppress(OSError):
            listener.accept()[0].close()


def main(cycles: int) -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    threading.Thread(target=accept_and_close, args=(listener,), daemon=True).start()
    context: zmq.Context[zmq.Socket[bytes]] = sockets.context()
    context.setsockopt(zmq.RECONNECT_IVL, 1)
    hello = envelope.Request(hello=environment.HelloRequest(protocol_version=1))
    call = Call("hello", 0, hello.SerializeToString())
    for _ in range(cycles):
        carrier = ZeroMQCarrier(f"tcp://127.0.0.1:{listener.getsockname()[1]}")
        with contextlib.suppress(TransportError):
            carrier.exchange(call, time.monotonic() + 0.004)
        carrier.close()


if __name__ == "__main__":
    main(int(sys.argv[1]))
