"""The states of a session's newest request, changed by events; retries with a simulated clock."""

import itertools
import math
from typing import Any

import pytest
import zmq

from twofold.client.carrier import DONE, NO_PAYLOAD, Call
from twofold.client.session.link import Link
from twofold.client.session.states import (
    Answered,
    Begun,
    Carried,
    Closed,
    Held,
    Idle,
    Lost,
    Operation,
    Sent,
    State,
    Task,
    Unanswered,
    Unseen,
    note,
)
from twofold.client.surroundings import Surroundings
from twofold.client.zeromq import Backoff, ZeroMQCarrier
from twofold.errors import ClosedError, DeadlineExceeded, ShuttingDown, StepPending
from twofold.v1 import envelope_pb2 as envelope

STEP = Operation("step", b"", b"\1")
OTHER_STEP = Operation("step", b"", b"\2")
RESET = Operation("reset", b"reset", None)
ANSWER = DONE, NO_PAYLOAD

IDLE, SENT, UNANSWERED, BEGUN = Idle(5), Sent(6, STEP), Unanswered(6, STEP), Begun(6, STEP)
ANSWERED, UNSEEN = Answered(6, STEP), Unseen(6, STEP)
CARRIED, HELD = Carried(6, STEP, ANSWER), Held(6, STEP, ANSWER)
LOST = Lost(6, STEP, SENT)
EVERY: list[State] = [IDLE, SENT, UNANSWERED, BEGUN, ANSWERED, UNSEEN, CARRIED, HELD, LOST]


@pytest.mark.parametrize(
    ("before", "event", "after"),
    [
        (SENT, lambda state: state.answered(ANSWER), ANSWERED),
        (SENT, lambda state: state.refused(), IDLE),
        (SENT, lambda state: state.left(), UNANSWERED),
        (SENT, lambda state: state.returned(), BEGUN),
        (UNANSWERED, lambda state: state.answered(ANSWER), UNSEEN),
        (UNANSWERED, lambda state: state.again(), SENT),
        (BEGUN, lambda state: state.answered(ANSWER), HELD),
        (BEGUN, lambda state: state.left(), BEGUN),
        (BEGUN, lambda state: state.again(), BEGUN),
        (ANSWERED, lambda state: state.returned(), Idle(6)),
        (ANSWERED, lambda state: state.left(), UNSEEN),
        (CARRIED, lambda state: state.returned(), HELD),
        (CARRIED, lambda state: state.left(), UNSEEN),
        (HELD, lambda state: state.returned(), Idle(6)),
        (HELD, lambda state: state.left(), HELD),
        (SENT, lambda state: state.lost(), LOST),
        (LOST, lambda state: state.left(), Lost(6, STEP, UNANSWERED)),
        (LOST, lambda state: state.recovered(3), Sent(3, STEP)),
    ],
)
def test_an_event_leads_to_a_state(before: State, event: Any, after: State) -> None:
    assert event(before) == after
    assert type(event(before)) is type(after)


@pytest.mark.parametrize("state", EVERY, ids=lambda state: type(state).__name__)
def test_failing_a_call_again_changes_nothing(state: State) -> None:
    assert state.left().left() == state.left()


def test_a_state_names_the_next_task_for_an_operation() -> None:
    state: State
    for state in (IDLE, ANSWERED, CARRIED):
        assert state.wants(STEP) is Task.SEND
    for state in (SENT, UNANSWERED, UNSEEN, HELD):
        assert state.wants(STEP) == SENT
    assert BEGUN.wants(STEP) is BEGUN
    for state in (SENT, UNANSWERED, BEGUN):
        assert state.wants(RESET) is Task.FINISH
        with pytest.raises(StepPending):
            state.wants(OTHER_STEP)
    assert UNSEEN.wants(OTHER_STEP) is Task.SEND
    assert LOST.wants(RESET) is Task.RECOVER
    with pytest.raises(ClosedError):
        Closed(6).wants(RESET)


def test_only_a_begun_step_is_awaited() -> None:
    awaited = [BEGUN, HELD, Lost(6, STEP, BEGUN)]
    assert all(state.is_awaited for state in awaited)
    assert not any(state.is_awaited for state in EVERY if state not in awaited)


def test_a_note_says_whether_the_request_was_sent() -> None:
    state: State
    assert "nothing was sent" in note(IDLE, IDLE.left())
    assert "nothing was sent" in note(UNANSWERED, UNANSWERED.left())
    for state in (SENT, LOST, BEGUN):
        assert "was sent and has no answer yet" in note(state, state.left())
    for state in (ANSWERED, CARRIED, HELD):
        assert "was applied" in note(state, state.left())


def test_waits_double_up_to_a_second_and_follow_the_round_trip() -> None:
    backoff = Backoff()
    waits = [backoff.seconds(tries, 0, 0) for tries in range(8)]
    assert waits == pytest.approx([0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1, 1])
    assert backoff.seconds(0, patience=0.5, elapsed=0) == 0.5
    for _ in range(200):
        backoff.answered(0.1)
    assert backoff.seconds(0, 0, 0) == pytest.approx(0.4)


class SlowConnection:
    """A connection that delivers a reply some seconds after its request, unless it is closed."""

    def __init__(self, now: list[float], seconds: float) -> None:
        self._now, self._reply_at = now, now[0] + seconds
        self._timeout = 0.0

    def send(self, *_: Any) -> None:
        pass

    def set(self, option: int, value: int) -> None:
        assert option == zmq.RCVTIMEO
        self._timeout = value / 1000

    def get(self, option: int) -> int:
        assert option == zmq.RCVMORE
        return 0

    def recv(self) -> bytes:
        self._now[0] = min(self._now[0] + self._timeout, max(self._now[0], self._reply_at))
        if self._now[0] < self._reply_at:
            raise zmq.Again
        return envelope.Reply(seq=1, reset={}).SerializeToString()

    def close(self) -> None:
        self._reply_at = math.inf


@pytest.mark.parametrize("seconds", [0.3, 1.5, 4.5])
def test_a_reply_that_takes_long_to_arrive_does_arrive(seconds: float) -> None:
    now = [100.0]
    connections = 0

    def connect(*_: Any) -> Any:
        nonlocal connections
        connections += 1
        return SlowConnection(now, seconds)

    carrier = ZeroMQCarrier(
        "tcp://simulated:1", surroundings=Surroundings(now=lambda: now[0], connect=connect)
    )
    for _ in range(10):
        carrier.exchange(Call("reset", 1, b""), now[0] + 30)
        carrier.close()
    connections = 0
    carrier.exchange(Call("reset", 1, b""), now[0] + 30)
    assert connections == 1, "once the round trip is known, the reply needs no second connection"


class Connection(SlowConnection):
    """A connection that delivers `reply` at once."""

    def __init__(self, reply: envelope.Reply) -> None:
        super().__init__([0.0], 0.0)
        self._reply = reply

    def recv(self) -> bytes:
        return self._reply.SerializeToString()


def test_a_lost_reply_does_not_lengthen_the_waits_of_later_calls() -> None:
    now = [100.0]
    seconds = itertools.cycle([math.inf, 0.01])

    def connect(*_: Any) -> Any:
        return SlowConnection(now, next(seconds))

    carrier = ZeroMQCarrier(
        "tcp://simulated:1", surroundings=Surroundings(now=lambda: now[0], connect=connect)
    )
    for _ in range(20):
        began = now[0]
        carrier.exchange(Call("reset", 1, b""), now[0] + 30)
        assert now[0] - began < 0.1
        carrier.close()


def test_a_reply_to_another_request_does_not_hasten_the_next_try() -> None:
    now, connections = [100.0], 0

    def sleep(seconds: float) -> None:
        now[0] += seconds

    def connect(*_: Any) -> Any:
        nonlocal connections
        connections += 1
        assert connections < 100
        return Connection(envelope.Reply(seq=7, reset={}))

    carrier = ZeroMQCarrier(
        "tcp://simulated:1",
        surroundings=Surroundings(now=lambda: now[0], sleep=sleep, connect=connect),
    )
    with pytest.raises(DeadlineExceeded):
        carrier.exchange(Call("reset", 1, b""), now[0] + 10)
    assert now[0] == 110


def test_an_error_without_a_number_answers_any_request() -> None:
    error = {"code": envelope.ERROR_CODE_INVALID_ARGUMENT, "message": "unreadable"}
    reply = envelope.Reply(seq=0, error=error)

    def connect(*_: Any) -> Any:
        return Connection(reply)

    def sleep(_: float) -> None:
        pytest.fail("it waits for another reply")

    carrier = ZeroMQCarrier(
        "tcp://simulated:1",
        surroundings=Surroundings(now=lambda: 100.0, sleep=sleep, connect=connect),
    )
    assert carrier.exchange(Call("reset", 1, b""), 130.0)[0] == reply


class StoppingServer:
    """A carrier to a server that stops after some requests, and then to the next server."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals

    def step(self, *_: Any) -> Any:
        self.refusals -= 1
        if self.refusals < 0:
            return ANSWER
        code = envelope.ERROR_CODE_SHUTTING_DOWN
        return envelope.Reply(error={"code": code, "retry_after_ms": 250}), NO_PAYLOAD


@pytest.mark.parametrize("refusals", [3, 4])
def test_requests_to_a_stopping_server_are_repeated_until_the_deadline(refusals: int) -> None:
    link: Any = object.__new__(Link)
    link._holder = None
    now = [100.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    link.carrier, link._steps = StoppingServer(refusals), None
    link._surroundings = Surroundings(now=lambda: now[0], sleep=sleep)
    if refusals == 3:
        assert link.transmit(STEP, 2, 101.0) is ANSWER
    else:
        with pytest.raises(ShuttingDown):
            link.transmit(STEP, 2, 101.0)
    assert now == [100.75]
