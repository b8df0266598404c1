"""ZeroMQ frames: a message without a delimiter is dropped; any other message gets one reply."""

import pytest

from compliance.carriers import Ability
from compliance.refusals import INVALID_ARGUMENT
from compliance.sessions import Session
from twofold.v1 import envelope_pb2 as envelope

pytestmark = pytest.mark.needs(Ability.ANY_FRAMES)


def test_a_message_without_a_delimiter_is_dropped(session: Session, twin: Session) -> None:
    step = session.request(step={})
    for frames in ([step], [step, bytes(3)], [b"1", b"2", b"3", b"4"], [b"1"] * 20):
        session.connection.send_frames(*frames)
    # The only reply belongs to this request.
    assert session.step(0, 1, 2) == twin.step(0, 1, 2)


@pytest.mark.parametrize(
    "frames",
    [[], [b"", b"", b""], [b"", b"", b"", b""], [b"header", bytes(3), bytes(3)], [b"1"] * 100],
    ids=["nothing", "three empty ones", "four empty ones", "three", "a hundred"],
)
def test_any_number_of_frames_but_one_and_two_is_refused(
    session: Session, twin: Session, frames: list[bytes]
) -> None:
    for turn in range(3):
        session.connection.send_frames(b"", *frames)
        answer = session.connection.receive()
        assert answer.reply.seq == 0
        assert (answer.error.code, answer.error.field) == (INVALID_ARGUMENT, "frames")
        assert session.step(0, 1, turn) == twin.step(0, 1, turn)


def test_a_route_through_proxies_comes_back_whole(session: Session) -> None:
    hello = envelope.Request(seq=9, hello={"protocol_version": 1}).SerializeToString()
    route = [b"1", b"22", b"333", b""]
    session.connection.send_frames(*route, hello)
    *frames, header = session.connection.receive_frames()
    assert frames == route
    assert envelope.Reply.FromString(header).seq == 9
    # A message that ends with its delimiter is refused, over the same route.
    session.connection.send_frames(*route)
    *frames, header = session.connection.receive_frames()
    assert frames == route
    assert envelope.Reply.FromString(header).error.field == "frames"
