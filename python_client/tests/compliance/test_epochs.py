"""Resume: the new holder raises the session's epoch, and the old holder's requests are refused."""

from collections.abc import Callable

import pytest

from compliance.carriers import Ability, Carrier
from compliance.refusals import INVALID_ARGUMENT, NOT_FOUND, STALE_EPOCH
from compliance.sessions import Session

pytestmark = pytest.mark.needs(Ability.RESUME)

ANN, BEN, CAT = b"a" * 16, b"b" * 16, b"c" * 16


def resume(session: Session, holder: bytes) -> bytes:
    return session.request(epoch=0, seq=0, resume={"holder": holder})


def test_the_same_holder_gets_the_same_epoch_and_each_other_raises_it(
    session: Session, carrier: Carrier
) -> None:
    for holder, epoch in ((ANN, 2), (ANN, 2), (BEN, 3), (BEN, 3), (CAT, 4)):
        answer = carrier.connect().exchange(resume(session, holder))
        assert answer.reply.seq == 0
        assert answer.reply.resume.epoch == epoch
        assert answer.reply.resume.last_seq == 2, "a resume uses up no seq"
    session.epoch = 4


def test_a_holder_that_was_shut_out_stays_shut_out(session: Session, carrier: Carrier) -> None:
    for holder in (ANN, BEN):
        session.epoch = carrier.connect().exchange(resume(session, holder)).reply.resume.epoch
    # A delayed duplicate of the first holder's resume request.
    error = carrier.connect().exchange(resume(session, ANN)).error
    assert (error.code, error.field) == (STALE_EPOCH, "epoch")
    assert session.step(0, 1, 2).slot == "step"


def test_a_resume_returns_the_last_reply_and_the_create_request(
    session: Session, carrier: Carrier
) -> None:
    stepped = session.step(0, 1, 2)
    answer = carrier.connect().exchange(resume(session, ANN))
    resumed = answer.reply.resume
    assert (resumed.last_seq, resumed.was_reset) == (3, True)
    assert (resumed.last_reply, answer.payload) == (stepped.header, stepped.payload)
    assert resumed.create.num_envs == 3
    assert resumed.created.step.size == len(stepped.payload or b"")
    session.epoch = resumed.epoch


def test_a_session_that_was_never_reset_is_resumed_as_such(
    new_session: Callable[[], Session],
) -> None:
    session = new_session()
    created = session.create(client_arguments="for me alone")
    resumed = session.call(resume(session, ANN)).reply.resume
    assert not resumed.was_reset
    assert resumed.last_reply == created.header
    assert resumed.created == created.reply.create
    assert resumed.create.client_arguments == "for me alone"
    session.epoch = resumed.epoch


def test_an_old_holder_gets_not_even_the_stored_reply(session: Session, twin: Session) -> None:
    step = session.request(step={})
    answer = session.call(step, bytes([0, 1, 2]))
    session.call(resume(session, ANN))
    for header, payload in (
        (step, bytes([0, 1, 2])),
        (session.request(step={}), bytes(3)),
        (session.request(close={}), None),
    ):
        error = session.call(header, payload).error
        assert (error.code, error.field) == (STALE_EPOCH, "epoch")
    session.epoch = 2
    assert answer == twin.step(0, 1, 2)
    assert session.step(1, 1, 1) == twin.step(1, 1, 1)


def test_a_future_epoch_means_that_the_session_was_lost(
    session: Session,
) -> None:
    session.call(resume(session, ANN))
    session.epoch = 3
    error = session.step(0, 1, 2).error
    assert (error.code, error.field) == (NOT_FOUND, "session")
    session.epoch = 2
    assert session.step(0, 1, 2).slot == "step"


@pytest.mark.parametrize("holder", [b"", bytes(15), bytes(17)])
def test_a_holder_has_16_bytes_and_any_other_shuts_nobody_out(
    session: Session, holder: bytes
) -> None:
    error = session.call(resume(session, holder)).error
    assert (error.code, error.field) == (INVALID_ARGUMENT, "holder")
    assert session.step(0, 1, 2).slot == "step"


def test_a_missing_session_is_not_resumed(carrier: Carrier) -> None:
    session = Session(carrier.connect())
    error = session.call(resume(session, ANN)).error
    assert (error.code, error.field) == (NOT_FOUND, "session")
