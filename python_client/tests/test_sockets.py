"""Features for clients in other languages: socket types, proxies, frames, unknown fields."""

import contextlib
import queue
import threading
from collections.abc import Iterator

import pytest
import zmq
from compliance.carriers import ZeroMQConnection
from compliance.sessions import ENVIRONMENT_ID
from raw import RawSession
from servers import PATIENCE, Server

from twofold.v1 import envelope_pb2 as envelope


def req(endpoint: str, **options: int) -> "zmq.Socket[bytes]":
    """Makes a REQ socket with these options."""
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.REQ)
    for name, value in {"LINGER": 0, "RCVTIMEO": int(PATIENCE * 1000), **options}.items():
        socket.set(zmq.SocketOption[name], value)
    socket.connect(endpoint)
    return socket


def seq_of(reply: list[bytes]) -> int:
    return envelope.Reply.FromString(reply[0]).seq


@pytest.fixture
def session(own_server: Server) -> Iterator[RawSession]:
    """Creates and resets boards."""
    session = RawSession(own_server.ipc)
    with session:
        session.create()
        session.reset()
        yield session


def test_a_plain_req_socket_cannot_repeat_but_a_new_one_can(
    own_server: Server, session: RawSession
) -> None:
    step = [session.request(step={}), bytes(3)]
    first, second = req(own_server.ipc), req(own_server.ipc)
    with own_server.stopped():
        first.send_multipart(step)
        with pytest.raises(zmq.ZMQError, match="current state"):
            first.send_multipart(step)
        first.close()
        second.send_multipart(step)
    assert seq_of(second.recv_multipart()) == 3
    second.send_multipart([session.request(seq=4, observe={})])
    assert seq_of(second.recv_multipart()) == 4
    second.close()
    session.seq = 4


def test_a_relaxed_and_correlated_req_socket_repeats_and_drops_late_replies(
    own_server: Server, session: RawSession
) -> None:
    socket = req(own_server.ipc, REQ_RELAXED=1, REQ_CORRELATE=1)
    step = [session.request(step={}), bytes(3)]
    with own_server.stopped():
        socket.send_multipart(step)
        socket.send_multipart(step)
    assert seq_of(socket.recv_multipart()) == 3
    socket.send_multipart([session.request(seq=4, observe={})])
    assert seq_of(socket.recv_multipart()) == 4
    socket.close()
    session.seq = 4


def test_a_dealer_socket_repeats_and_gets_both_replies(
    own_server: Server, session: RawSession
) -> None:
    step = session.request(step={})
    with own_server.stopped():
        for _ in range(2):
            session.connection.send(step, bytes(3))
    first, second = session.connection.receive(), session.connection.receive()
    assert first == second
    session.count(first)
    assert session.ask(observe={}).reply.seq == 4


@pytest.mark.parametrize("options", [{}, {"REQ_CORRELATE": 1}])
def test_requests_and_replies_pass_through_a_proxy(server: Server, options: dict[str, int]) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    context.linger = 0
    endpoint: queue.Queue[str] = queue.Queue()

    def pass_on() -> None:
        with context.socket(zmq.ROUTER) as front, context.socket(zmq.DEALER) as back:
            front.bind("tcp://127.0.0.1:*")
            back.connect(server.ipc)
            endpoint.put(front.get_string(zmq.LAST_ENDPOINT))
            with contextlib.suppress(zmq.ContextTerminated):
                zmq.proxy(front, back)

    thread = threading.Thread(target=pass_on)
    thread.start()
    try:
        socket = req(endpoint.get(timeout=PATIENCE), **options)
        for seq in range(1, 4):
            hello = envelope.Request(seq=seq, hello={"protocol_version": 1})
            socket.send_multipart([hello.SerializeToString()])
            assert seq_of(socket.recv_multipart()) == seq
        socket.close()
    finally:
        context.term()
        thread.join()


def test_a_message_has_at_most_16_frames_at_the_server(server: Server) -> None:
    connection = ZeroMQConnection(server.ipc)
    hello = envelope.Request(hello={"protocol_version": 1}).SerializeToString()
    for hops, slot in ((13, "hello"), (14, "error")):
        # The server adds the frame of this connection.
        route = [b"hop"] * hops + [b""]
        connection.send_frames(*route, hello)
        *back, header = connection.receive_frames()
        assert back == route
        assert envelope.Reply.FromString(header).WhichOneof("result") == slot
    connection.close()


def test_a_server_ignores_fields_that_it_does_not_know(session: RawSession) -> None:
    create = session.request(
        session=bytes(range(16)), seq=1, create={"environment_id": ENVIRONMENT_ID, "num_envs": 1}
    )
    field = b"\xf8\x7f\x01"  # number 2047
    assert session.connection.exchange(create + field).slot == "create"
    assert session.ask(observe={}).slot == "observe"
    assert session.call(session.request(step={}) + field, bytes(3)).slot == "step"
