"""No message stops the server, makes it grow, or harms the next valid request."""

import random
from collections.abc import Iterator

import numpy as np
import pytest
from raw import RawSession
from servers import Server

import twofold
from twofold.v1 import envelope_pb2 as envelope

INVALID_ARGUMENT = envelope.ERROR_CODE_INVALID_ARGUMENT
NOT_FOUND = envelope.ERROR_CODE_NOT_FOUND
FAILED_PRECONDITION = envelope.ERROR_CODE_FAILED_PRECONDITION
CONFLICT = envelope.ERROR_CODE_CONFLICT
OUT_OF_SEQUENCE = envelope.ERROR_CODE_OUT_OF_SEQUENCE

TIMES = 10_000
AT_ONCE = 100


@pytest.fixture
def session(server: Server) -> Iterator[RawSession]:
    """Three boards, created and reset."""
    with RawSession(server.tcp) as session:
        assert session.create().HasField("create")
        assert session.reset().HasField("reset")
        yield session


def flood(session: RawSession, *frames: bytes) -> list[envelope.Error]:
    """Sends a message TIMES times and returns the errors; every reply has to be an error."""
    errors = []
    for _ in range(TIMES // AT_ONCE):
        for _ in range(AT_ONCE):
            session.send(*frames)
        for _ in range(AT_ONCE):
            reply, payload = session.receive()
            assert reply.WhichOneof("result") == "error"
            assert payload is None
            errors.append(reply.error)
    return errors


def check_unharmed(session: RawSession) -> None:
    """Checks that the next valid request works."""
    reply = session.call(session.request(step={}), bytes([0, 1, 2]))
    assert reply.WhichOneof("result") == "step"


def only(errors: list[envelope.Error]) -> envelope.Error:
    """The error, which has to be the same each time."""
    assert len({error.SerializeToString() for error in errors}) == 1
    assert errors[0].message
    return errors[0]


def test_actions_of_a_wrong_length(session: RawSession) -> None:
    for payload in (b"", b"\0\0", b"\0\0\0\0", bytes(3 * 8)):
        error = only(flood(session, b"", session.request(step={}), payload))
        assert (error.code, error.field) == (INVALID_ARGUMENT, "actions")
    check_unharmed(session)


def test_a_step_without_its_payload(session: RawSession) -> None:
    error = only(flood(session, b"", session.request(step={})))
    assert (error.code, error.field) == (INVALID_ARGUMENT, "actions")
    check_unharmed(session)


def test_action_7(session: RawSession) -> None:
    error = only(flood(session, b"", session.request(step={}), bytes([0, 3, 7])))
    assert (error.code, error.field, error.lane) == (INVALID_ARGUMENT, "actions", 2)
    check_unharmed(session)


def test_a_step_before_the_first_reset(server: Server) -> None:
    with RawSession(server.tcp) as session:
        session.create()
        error = only(flood(session, b"", session.request(step={}), bytes(3)))
        assert (error.code, error.HasField("lane"), error.lane) == (FAILED_PRECONDITION, True, 0)
        session.reset()
        check_unharmed(session)


def test_an_unknown_session(session: RawSession) -> None:
    request = session.request(session=bytes(16), step={})
    error = only(flood(session, b"", request, bytes(3)))
    assert error.code == NOT_FOUND
    check_unharmed(session)


def test_a_session_id_of_a_wrong_length(session: RawSession) -> None:
    for wrong in (b"", b"short", bytes(17), bytes(1000)):
        for op in ("step", "create"):
            error = session.call(session.request(session=wrong, **{op: {}}), bytes(3)).error
            assert error.code in (INVALID_ARGUMENT, NOT_FOUND)
            assert error.message
    check_unharmed(session)


def test_a_board_of_size_9(session: RawSession) -> None:
    create = {"environment_id": "twofold/Game2048-v0", "num_envs": 3, "game2048": {"rows": 9}}
    request = session.request(session=b"another session!", seq=1, create=create)
    error = only(flood(session, b"", request))
    assert (error.code, error.field) == (INVALID_ARGUMENT, "size")
    check_unharmed(session)


def test_a_reset_whose_payload_is_cut_short(session: RawSession) -> None:
    everything = {"seeds": True, "mask": True, "boards": True}
    size = 3 * (8 + 1 + 16)
    for payload in (bytes(size - 1), bytes(size + 1), bytes(8), b""):
        error = only(flood(session, b"", session.request(reset=everything), payload))
        assert (error.code, error.field) == (INVALID_ARGUMENT, "payload")
    check_unharmed(session)


def test_a_seed_list_of_a_wrong_length(session: RawSession) -> None:
    error = only(flood(session, b"", session.request(reset={"seeds": True}), bytes(2 * 8)))
    assert (error.code, error.field) == (INVALID_ARGUMENT, "payload")
    check_unharmed(session)


def test_a_board_that_nothing_can_move_on(session: RawSession) -> None:
    boards = bytes(range(16)) + bytes(16) + bytes(16)
    error = only(flood(session, b"", session.request(reset={"boards": True}), boards))
    assert (error.code, error.field, error.lane) == (INVALID_ARGUMENT, "boards", 1)
    check_unharmed(session)


def test_a_mask_that_is_neither_0_nor_1_nor_2(session: RawSession) -> None:
    request = session.request(reset={"mask": True})
    error = only(flood(session, b"", request, bytes([0, 2, 3])))
    assert (error.code, error.field, error.lane) == (INVALID_ARGUMENT, "reset_mask", 2)
    check_unharmed(session)


def test_a_seq_from_the_future_and_one_from_the_past(session: RawSession) -> None:
    for seq in (session.seq + 2, session.seq - 1, 0, 2**64 - 1):
        error = only(flood(session, b"", session.request(seq=seq, step={}), bytes(3)))
        assert error.code == OUT_OF_SEQUENCE
        assert error.expected_seq == session.seq + 1
    check_unharmed(session)


def test_a_used_seq_with_other_bytes(session: RawSession) -> None:
    request = session.request(step={})
    assert session.call(request, bytes([0, 0, 0])).HasField("step")
    error = only(flood(session, b"", request, bytes([0, 0, 1])))
    assert error.code == CONFLICT
    again = session.call(request, bytes([0, 0, 0]))
    assert again.HasField("step"), "the same bytes still get the stored reply"
    check_unharmed(session)


def test_random_bytes_instead_of_protobuf(session: RawSession) -> None:
    rng = random.Random(0)
    answered = 0
    for _ in range(TIMES // AT_ONCE):
        for _ in range(AT_ONCE):
            frames = [rng.randbytes(rng.randrange(200)) for _ in range(rng.choice([1, 1, 2]))]
            session.send(b"", *frames)
        for _ in range(AT_ONCE):
            reply, _ = session.receive()
            assert reply.WhichOneof("result") == "error"
            assert reply.error.code != envelope.ERROR_CODE_INTERNAL
            answered += 1
    assert answered == TIMES
    check_unharmed(session)


def test_a_request_with_flipped_bits(session: RawSession) -> None:
    rng = random.Random(1)
    for _ in range(TIMES):
        request = bytearray(session.request(reset={"seeds": True, "mask": True}))
        for _ in range(rng.randrange(1, 4)):
            request[rng.randrange(len(request))] ^= 1 << rng.randrange(8)
        session.send(b"", bytes(request), bytes(rng.randrange(28)))
        reply, _ = session.receive()
        if not reply.HasField("error"):  # one flipped bit turns a reset into a close
            session.begin()
            session.create()
            session.reset()
    check_unharmed(session)


def test_too_many_frames(session: RawSession) -> None:
    errors = flood(session, b"", session.request(step={}), bytes(3), bytes(3))
    assert only(errors).code == INVALID_ARGUMENT
    check_unharmed(session)


def test_an_empty_request(session: RawSession) -> None:
    assert only(flood(session, b"", b"")).code == INVALID_ARGUMENT
    check_unharmed(session)


def test_a_request_without_an_op(session: RawSession) -> None:
    assert only(flood(session, b"", session.request())).code == INVALID_ARGUMENT
    check_unharmed(session)


def test_a_message_without_its_delimiter_is_dropped(session: RawSession) -> None:
    for _ in range(TIMES):
        session.send(session.request(step={}))
        session.send(session.request(step={}), bytes([0, 1, 2]))
    check_unharmed(session)


def test_a_delimiter_and_nothing_else(session: RawSession) -> None:
    assert only(flood(session, b"")).code == INVALID_ARGUMENT
    check_unharmed(session)


def test_an_old_protocol_version(session: RawSession) -> None:
    hello = envelope.Request(hello={"protocol_version": 2}).SerializeToString()
    assert only(flood(session, b"", hello)).code == envelope.ERROR_CODE_UNSUPPORTED_VERSION
    check_unharmed(session)


def test_the_server_has_not_grown(own_server: Server) -> None:
    def everything(session: RawSession) -> None:
        test_actions_of_a_wrong_length(session)
        test_action_7(session)
        test_an_unknown_session(session)
        test_a_board_of_size_9(session)
        test_a_reset_whose_payload_is_cut_short(session)
        test_random_bytes_instead_of_protobuf(session)
        test_a_used_seq_with_other_bytes(session)
        test_a_message_without_its_delimiter_is_dropped(session)

    with RawSession(own_server.tcp) as session:
        session.create()
        session.reset()
        everything(session)
        before = own_server.memory
        everything(session)
        assert own_server.memory - before < 4 << 20


def test_ten_thousand_sessions_come_and_go(own_server: Server) -> None:
    with RawSession(own_server.ipc) as session:

        def come_and_go(times: int) -> None:
            for _ in range(times):
                session.begin()
                assert session.create().HasField("create")
                assert session.call(session.request(close={})).HasField("close")

        # Closed ids are remembered, up to ten thousand of them.
        come_and_go(TIMES + TIMES // 5)
        before = own_server.memory
        come_and_go(TIMES)
        assert own_server.memory - before < 4 << 20
        session.begin()
        session.create()


def test_the_client_refuses_the_same_requests_as_the_server(server: Server) -> None:
    envs = twofold.Game2048VectorEnv(3, endpoint=server.ipc)
    envs.reset(seed=0)
    with pytest.raises(twofold.errors.InvalidArgument, match="lane 1") as caught:
        envs._session.step(np.array([0, 9, 0], np.uint8))
    assert (caught.value.code, caught.value.lane) == ("INVALID_ARGUMENT", 1)
    envs.step([0, 0, 0])
    envs.close()


def test_an_enormous_header_is_refused(server: Server) -> None:
    with RawSession(server.ipc) as session:
        session.create()
        request = session.request(create={"client_arguments": "x" * (1 << 18)})
        session.send(b"", request)
        reply, _ = session.receive()
        assert (reply.error.code, reply.error.field) == (
            envelope.ERROR_CODE_INVALID_ARGUMENT,
            "request",
        )
