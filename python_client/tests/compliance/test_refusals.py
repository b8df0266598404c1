"""Refusals: the error has a code, field and lane; no seq is used up, and no state changes."""

from collections.abc import Callable

import pytest

from compliance.refusals import (
    FAILED_PRECONDITION,
    INVALID_ARGUMENT,
    OUT_OF_SEQUENCE,
    REFUSALS,
    Refusal,
)
from compliance.sessions import Session, numbers
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.name)
def test_a_refused_request_names_its_fault_and_changes_nothing(
    session: Session, twin: Session, refusal: Refusal
) -> None:
    for turn in range(2):
        assert session.step(0, 1, turn)[1] == twin.step(0, 1, turn)[1]
        header, payload = refusal.make(session)
        for _ in range(2):
            answer = session.connection.exchange(header, payload)
            error = answer.error
            assert answer.slot == "error"
            assert answer.payload is None
            assert error.message
            assert (error.code, error.field) == (refusal.code, refusal.field)
            assert (error.lane if error.HasField("lane") else None) == refusal.lane
            seq = envelope.Request.FromString(header).seq if refusal.is_readable else 0
            assert answer.reply.seq == seq
            expected = session.seq + 1 if refusal.code == OUT_OF_SEQUENCE else 0
            assert error.expected_seq == expected
    assert session.step(1, 2, 3) == twin.step(1, 2, 3)
    assert session.ask(snapshot={}) == twin.ask(snapshot={})


def test_before_its_first_reset_a_session_only_takes_one_of_all_lanes_with_seeds(
    new_session: Callable[[], Session], twin: Session
) -> None:
    session = new_session()
    session.create()
    for answer, field in (
        (session.step(0, 0, 0), "reset"),
        (session.ask(observe={}), "reset"),
        (session.ask(snapshot={}), "reset"),
        (session.ask(rollout={"steps": 1, "random": {}}), "reset"),
        (session.ask(reset={}), "seed"),
        (
            session.ask(numbers(0, 1, 2) + b"\0\1\1", reset={"seeds": True, "mask": True}),
            "reset_mask",
        ),
    ):
        error = answer.error
        assert (error.code, error.field, error.lane) == (FAILED_PRECONDITION, field, 0)
        assert error.HasField("lane")
    assert session.reset().reply.seq == 2
    assert session.step(0, 1, 2)[1] == twin.step(0, 1, 2)[1]


def test_with_autoreset_disabled_a_finished_lane_takes_no_step(
    new_session: Callable[[], Session],
) -> None:
    session = new_session()
    session.create(autoreset_mode=environment.AUTORESET_MODE_DISABLED, max_episode_steps=2)
    session.reset()
    for _ in range(2):
        assert session.step(0, 1, 2).slot == "step"
    assert session.ask(bytes([1, 0, 1]), reset={"mask": True}).slot == "reset"
    error = session.step(0, 1, 2).error
    assert (error.code, error.field, error.lane) == (FAILED_PRECONDITION, "actions", 1)


def test_a_refused_create_leaves_its_id_free(new_session: Callable[[], Session]) -> None:
    session = new_session()
    for error in (
        session.create(game2048={"goal": 3}).error,
        session.create(num_envs=5000, game2048={"goal": 3}).error,  # on another thread
        session.ask(b"x", create={"num_envs": 3}).error,
    ):
        assert error.code == INVALID_ARGUMENT
        assert session.ask(observe={}).error.field == "session"
    assert session.create().slot == "create"
    assert session.reset().slot == "reset"
