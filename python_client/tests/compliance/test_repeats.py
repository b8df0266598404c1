"""Exactly-once execution: a repeat gets the stored reply; seqs out of order are refused."""

from collections.abc import Callable

import pytest

from compliance.carriers import Carrier
from compliance.refusals import CONFLICT, OUT_OF_SEQUENCE
from compliance.sessions import Session, numbers

# A field that the protocol does not have: the request means the same in other bytes.
UNKNOWN_FIELD = b"\xf8\x7f\x01"


def test_a_repeat_gets_the_stored_reply_over_any_connection_and_is_applied_once(
    session: Session, twin: Session, carrier: Carrier
) -> None:
    second = carrier.connect()
    for payload, op in (
        (bytes([3, 2, 1]), {"step": {}}),
        (None, {"afterstates": {}}),
        (bytes([0, 0, 0]), {"step": {}}),
        (None, {"observe": {}}),
        (None, {"snapshot": {}}),
        (None, {"rollout": {"steps": 5, "random": {}}}),
        (None, {"keepalive": {}}),
        (None, {"reset": {}}),
        (bytes([1, 1, 1]), {"step": {}}),
    ):
        request = session.request(**op)
        answer = session.call(request, payload)
        assert answer == twin.ask(payload, **op)
        for connection in (second, second, session.connection, carrier.connect()):
            assert connection.exchange(request, payload) == answer


def test_a_repeated_create_makes_no_second_session(
    new_session: Callable[[], Session], carrier: Carrier
) -> None:
    session = new_session()
    create = session.request(
        create={"environment_id": "twofold/Game2048-v0", "num_envs": 3, "max_episode_steps": 9}
    )
    created = session.call(create)
    assert carrier.connect().exchange(create) == created
    another = session.request(seq=1, create={"environment_id": "twofold/Game2048-v0"})
    assert session.call(another).error.code == CONFLICT
    assert session.reset().reply.seq == 2


def test_a_refused_request_is_not_a_repeat_of_the_last_request(
    session: Session, twin: Session
) -> None:
    step = session.request(step={})
    answer = session.call(step, bytes(3))
    assert session.step(0, 0, 9).slot == "error"
    assert session.call(step, bytes(3)) == answer == twin.step(0, 0, 0)
    assert session.step(1, 1, 1) == twin.step(1, 1, 1)


def test_a_used_seq_with_other_bytes_is_a_conflict_over_any_connection(
    session: Session, twin: Session, carrier: Carrier
) -> None:
    second = carrier.connect()
    step, seq = session.request(step={}), session.seq + 1
    answer = session.call(step, bytes([0, 1, 2]))
    for header, payload in (
        (step, bytes([0, 1, 3])),
        (step, bytes([0, 1])),
        (step, b""),
        (step, None),
        (step + UNKNOWN_FIELD, bytes([0, 1, 2])),
        (session.request(seq=seq, observe={}), None),
        (session.request(seq=seq, close={}), None),
    ):
        refused = second.exchange(header, payload)
        assert (refused.error.code, refused.error.field) == (CONFLICT, "seq")
        assert refused.reply.seq == seq
        assert refused.payload is None
    assert second.exchange(step, bytes([0, 1, 2])) == answer == twin.step(0, 1, 2)
    assert session.step(1, 1, 1) == twin.step(1, 1, 1)


def test_a_missing_payload_differs_from_an_empty_payload(session: Session) -> None:
    observe = session.request(observe={})
    answer = session.call(observe)
    assert session.connection.exchange(observe, b"").error.code == CONFLICT
    assert session.connection.exchange(observe) == answer


@pytest.mark.parametrize("seq", [0, 1, 4, 5, 1_000_000, 2**64 - 1])
def test_a_seq_that_does_not_follow_is_refused_with_the_expected_seq(
    session: Session, twin: Session, seq: int
) -> None:
    for payload, op in ((bytes(3), {"step": {}}), (None, {"observe": {}}), (None, {"close": {}})):
        refused = session.ask(payload, seq=seq, **op)
        assert (refused.error.code, refused.error.field) == (OUT_OF_SEQUENCE, "seq")
        assert refused.error.expected_seq == 3
        assert refused.reply.seq == seq
    assert session.step(0, 1, 2) == twin.step(0, 1, 2)


@pytest.mark.parametrize("seq", [0, 2, 2**64 - 1])
def test_a_session_begins_with_seq_1(new_session: Callable[[], Session], seq: int) -> None:
    session = new_session()
    refused = session.ask(seq=seq, create={"num_envs": 3})
    assert (refused.error.code, refused.error.expected_seq) == (OUT_OF_SEQUENCE, 1)
    assert session.create().reply.seq == 1


def test_after_the_next_request_the_stored_reply_is_gone(session: Session) -> None:
    step = session.request(step={})
    session.call(step, bytes(3))
    session.ask(numbers(5, 6, 7), reset={"seeds": True})
    error = session.connection.exchange(step, bytes(3)).error
    assert (error.code, error.expected_seq) == (OUT_OF_SEQUENCE, 5)
