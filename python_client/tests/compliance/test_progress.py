"""A request in progress: its repeats are parked, a resume waits, and no other request begins.

No test reads a clock. The protocol itself shows that a request is in progress: a request with a
later seq is refused, and the expected seq is still the seq of the request in progress. Messages on
one connection arrive in order, so all messages sent before the refused request have arrived.
"""

import contextlib
from collections.abc import Callable

import numpy as np
import pytest

from compliance.carriers import Ability, Carrier, Connection
from compliance.refusals import CONFLICT, OUT_OF_SEQUENCE
from compliance.sessions import Session, arrays, numbers
from twofold.v1 import envelope_pb2 as envelope

pytestmark = pytest.mark.needs(Ability.SEND_AHEAD)

# Numbers of boards for searches that take from about 0.1 s up to minutes. If the case outlasts one
# search, because of a slow connection or a busy machine, it is repeated with the next one. A server
# that is named with --endpoint may refuse such searches; the other servers have no limit.
BOARDS = (1, 4, 16, 64, 256, 1024)
HOLDER = b"a" * 16


class TooQuick(Exception):
    """The error raised if a long request ends before its test case does."""


class LongRequest:
    """A request that takes a long time: a deep search for one move on each board.

    Args:
        session: A session whose boards have been reset. Its connection sends the request.
        boards: The number of boards in the session.
    """

    def __init__(self, session: Session, boards: int) -> None:
        self.session, self.boards = session, boards
        self.request = session.request(rollout={"steps": 1, "expectimax": {"depth": 6}})
        session.connection.send(self.request)
        self.check(session.connection)

    def check(self, connection: Connection) -> None:
        """Raises TooQuick if the request ended before the last message on `connection` arrived."""
        last = self.session.seq
        connection.send(self.session.request(seq=last + 7, observe={}))
        error = connection.receive().error
        if error.code != OUT_OF_SEQUENCE or error.expected_seq != last + 1:
            raise TooQuick


def until_long_enough(
    new_session: Callable[[], Session], case: Callable[[LongRequest], None]
) -> None:
    """Runs a case with longer and longer requests, until the request outlasts the case."""
    for boards in BOARDS:
        session = new_session()
        session.create(num_envs=boards)
        session.reset(*range(boards))
        with contextlib.suppress(TooQuick):
            return case(LongRequest(session, boards))
    pytest.fail("no request takes long enough to be found in progress")


def receives_nothing(connection: Connection) -> None:
    """Checks that no earlier reply is waiting: the next message must answer a new request."""
    hello = envelope.Request(seq=12345, hello={"protocol_version": 1})
    assert connection.exchange(hello.SerializeToString()).reply.seq == 12345


def test_repeats_are_parked_and_the_newest_gets_the_reply(
    carrier: Carrier, new_session: Callable[[], Session]
) -> None:
    def case(long: LongRequest) -> None:
        others = [carrier.connect() for _ in range(3)]
        for other in others:
            other.send(long.request)
            long.check(other)
        newest = others.pop()
        answer = newest.receive()
        assert answer.slot == "rollout"
        for connection in (long.session.connection, *others, newest):
            receives_nothing(connection)
        # The reply is stored now. The request was executed once, as the final boards show.
        assert others[0].exchange(long.request) == answer
        session = long.session
        session.count(answer)
        played = arrays(answer.reply.rollout.arrays, answer.payload)["observation"]
        layout = session.created.reset
        seen = arrays(layout, session.ask(observe={}).payload)["observation"]
        np.testing.assert_array_equal(seen, played[-1])

    until_long_enough(new_session, case)


def test_the_last_reply_stays_stored_the_next_seq_is_taken_and_other_sessions_continue(
    carrier: Carrier, new_session: Callable[[], Session], session: Session
) -> None:
    neighbour = session

    def case(long: LongRequest) -> None:
        session, other = long.session, carrier.connect()
        last = session.request(seq=session.seq, reset={"seeds": True})
        stored = other.exchange(last, numbers(*range(long.boards)))
        conflicts = [
            other.exchange(session.request(observe={})),
            other.exchange(long.request, b""),
        ]
        others = neighbour.step(0, 1, 2)
        long.check(other)
        assert stored.slot == "reset"
        assert [refused.error.code for refused in conflicts] == [CONFLICT, CONFLICT]
        assert others.slot == "step", "sessions don't wait for each other"
        session.count(session.connection.receive())
        assert session.ask(observe={}).slot == "observe"

    until_long_enough(new_session, case)


@pytest.mark.needs(Ability.RESUME)
def test_a_resume_waits_for_the_request_in_progress_and_the_newest_is_answered(
    carrier: Carrier, new_session: Callable[[], Session]
) -> None:
    def case(long: LongRequest) -> None:
        session = long.session
        earlier, newest = carrier.connect(), carrier.connect()
        resume = session.request(epoch=0, seq=0, resume={"holder": HOLDER})
        for each in (earlier, newest):
            each.send(resume)
            long.check(each)
        done, resumed = session.connection.receive(), newest.receive()
        session.count(done)
        session.epoch = resumed.reply.resume.epoch
        assert done.slot == "rollout"
        assert session.epoch == 2
        assert resumed.reply.resume.last_seq == session.seq
        assert (resumed.reply.resume.last_reply, resumed.payload) == done
        for connection in (session.connection, earlier, newest):
            receives_nothing(connection)
        assert session.ask(observe={}).slot == "observe"

    until_long_enough(new_session, case)
