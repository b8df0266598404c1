"""Requests without a session: hello, and requests that apply a game's rules to given boards."""

import numpy as np
import pytest

from compliance.carriers import Carrier
from compliance.sessions import arrays
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import rules_pb2 as rules

ID = "twofold/Game2048-v0"


def hello(version: int = 1, seq: int = 0) -> bytes:
    return envelope.Request(seq=seq, hello={"protocol_version": version}).SerializeToString()


def expand(operation: rules.ExpandOperation) -> bytes:
    expand = rules.ExpandRequest(environment_id=ID, count=2, operation=operation)
    return envelope.Request(expand=expand).SerializeToString()


def test_hello_reports_the_games_and_the_limits(carrier: Carrier) -> None:
    answer = carrier.connect().exchange(hello())
    reply = answer.reply.hello
    assert answer.payload is None
    assert reply.protocol_version == 1
    assert reply.server_version
    assert reply.threads >= 1
    served = {info.id: info for info in reply.environments}
    assert list(served[ID].actions) == ["up", "right", "down", "left"]
    assert "merge_score" in served[ID].reward_terms
    assert all("episode_return" in info.extra_infos for info in reply.environments)
    limits = reply.limits
    for limit in ("max_message_bytes", "max_boards_per_session", "max_sessions", "max_boards"):
        assert getattr(limits, limit) > 0, limit


@pytest.mark.parametrize("version", [0, 2, 2**32 - 1])
def test_another_version_is_refused_and_the_next_hello_is_answered(
    carrier: Carrier, version: int
) -> None:
    connection = carrier.connect()
    refused = connection.exchange(hello(version, seq=5))
    assert refused.error.code == envelope.ERROR_CODE_UNSUPPORTED_VERSION
    assert refused.error.field == "protocol_version"
    assert refused.reply.seq == 5
    assert connection.exchange(hello()).slot == "hello"


def test_a_repeat_outside_any_session_gets_the_same_answer_over_any_connection(
    carrier: Carrier,
) -> None:
    boards, seeds = bytes([1, *bytes(30), 2]), bytes(range(16))
    for header, payload in (
        (hello(seq=77), None),
        (expand(rules.EXPAND_OPERATION_AFTERSTATES), boards),
        (expand(rules.EXPAND_OPERATION_LEGAL), boards),
        (expand(rules.EXPAND_OPERATION_SPAWN), boards + seeds),
    ):
        first, second = carrier.connect(), carrier.connect()
        answer = first.exchange(header, payload)
        assert answer.slot in ("hello", "expand")
        for connection in (second, first, second):
            assert connection.exchange(header, payload) == answer


def test_afterstates_are_the_boards_after_each_action(carrier: Carrier) -> None:
    boards = np.zeros((2, 4, 4), np.uint8)
    boards[0, 0] = [1, 1, 0, 3]
    answer = carrier.connect().exchange(
        expand(rules.EXPAND_OPERATION_AFTERSTATES), boards.tobytes()
    )
    assert answer.reply.expand.count == 2
    rows = arrays(answer.reply.expand.arrays, answer.payload)
    assert rows["mask"].tolist() == [[0, 1, 1, 1], [0, 0, 0, 0]]
    assert rows["rewards"].tolist() == [[0, 4, 0, 4], [0, 0, 0, 0]]
    assert rows["boards"][0, 0].tolist() == boards[0].tolist(), "an illegal action leaves the board"
    assert rows["boards"][0, 1, 0].tolist() == [0, 0, 2, 3]
    assert rows["boards"][0, 2, 3].tolist() == [1, 1, 0, 3]
    assert rows["boards"][0, 3, 0].tolist() == [2, 3, 0, 0]
