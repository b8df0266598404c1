"""Connects to an address where every connection breaks; tests run this in a separate process.

    python -m reconnecting asking CYCLES     # asks again and again
    python -m reconnecting idle ATTEMPTS     # asked when a server was there, and asks nothing now
    python -m reconnecting begun ATTEMPTS    # has sent a step ahead, and does not wait for it yet

In the past, closing a socket whose monitor had unread events froze the process. It held the
interpreter lock, so no timeout inside the test could end it. A monitor that nobody read stopped
all connections of the process after about a thousand events. These faults appear only after many
cycles and attempts, so the sockets reconnect after a millisecond.
"""

import contextlib
import socket
import sys
import threading
import time

import zmq
from servers import PATIENCE, Server

import twofold
from twofold.client import sockets
from twofold.client.carrier import Call
from twofold.client.zeromq import ZeroMQCarrier
from twofold.errors import TransportError
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment


def accept_and_close(listener: socket.socket) -> None:
    """Closes each connection, as docker-proxy and `ssh -L` do when their target has no listener."""
    while True:
        with contextlib.suppress(OSError):
            listener.accept()[0].close()


def asking(cycles: int) -> None:
    """Asks `cycles` times, and waits 4 ms each time."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    threading.Thread(target=accept_and_close, args=(listener,), daemon=True).start()
    hello = envelope.Request(hello=environment.HelloRequest(protocol_version=1))
    call = Call("hello", 0, hello.SerializeToString())
    print("ready", flush=True)
    for _ in range(cycles):
        carrier = ZeroMQCarrier(f"tcp://127.0.0.1:{listener.getsockname()[1]}")
        with contextlib.suppress(TransportError):
            carrier.exchange(call, time.monotonic() + 0.004)
        carrier.close()


def idle(attempts: int) -> None:
    """Leaves an environment idle while its connection breaks, then makes another one."""
    with (
        Server() as server,
        Server() as other,
        contextlib.closing(twofold.Game2048VectorEnv(2, endpoint=server.tcp)),
    ):
        server.kill()
        break_connections(int(server.tcp.rpartition(":")[2]), attempts)
        twofold.Game2048VectorEnv(2, endpoint=other.tcp, timeout=PATIENCE).close()


def begun(attempts: int) -> None:
    """Sends a request ahead while its connection breaks, then makes an environment elsewhere."""
    with Server() as other, socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with contextlib.closing(ZeroMQCarrier(f"tcp://127.0.0.1:{port}")) as carrier:
            carrier.begin(Call("step", 2, b""))
            listener.close()
            break_connections(port, attempts)
            twofold.Game2048VectorEnv(2, endpoint=other.tcp, timeout=PATIENCE).close()


def break_connections(port: int, attempts: int) -> None:
    """Accepts and closes this many connections."""
    with socket.create_server(("127.0.0.1", port), backlog=64) as listener:
        listener.settimeout(PATIENCE)
        for _ in range(attempts):
            listener.accept()[0].close()


if __name__ == "__main__":
    context: zmq.Context[zmq.Socket[bytes]] = sockets.context()
    context.setsockopt(zmq.RECONNECT_IVL, 1)
    {"asking": asking, "idle": idle, "begun": begun}[sys.argv[1]](int(sys.argv[2]))
