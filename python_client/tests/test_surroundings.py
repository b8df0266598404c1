"""A session counts its time on the clock that it was given, wherever it leads."""

import os
import signal
import time
from collections.abc import Iterator

import pytest
from servers import Server, wait_until

from twofold.client.session import Session
from twofold.client.system import Clock
from twofold.client.zeromq import ZeroMQCarrier
from twofold.v1 import environment_pb2 as environment
from twofold.v1 import game2048_pb2 as game2048

BOARDS = environment.CreateRequest(
    environment_id="twofold/Game2048-v0", num_envs=2, game2048=game2048.Game2048Config()
)


@pytest.fixture
def clock() -> Clock:
    """A clock that nobody else has."""
    return Clock(now=lambda: time.monotonic() + 1e6)


@pytest.fixture
def private(clock: Clock) -> Iterator[Session]:
    """A session on a private server, on this clock but for the start of the server."""
    session = Session(BOARDS, endpoint="private", curve=None, timeout=30, recover=True, clock=clock)
    yield session
    session.close()


def test_another_session_at_the_same_place_has_the_same_clock(server: Server, clock: Clock) -> None:
    session = Session(BOARDS, endpoint=server.ipc, curve=None, timeout=30, clock=clock)
    other = session.again(BOARDS)
    assert other._clock is clock
    other.close()
    session.close()


def test_the_connection_to_a_new_private_server_has_the_same_clock(
    private: Session, clock: Clock
) -> None:
    before = private.link.carrier
    assert isinstance(before, ZeroMQCarrier)
    assert before.server is not None
    os.kill(before.server.pid, signal.SIGKILL)
    wait_until(lambda: before.is_dead)
    private.link.reconnect(clock.now() + 30)
    after = private.link.carrier
    assert isinstance(after, ZeroMQCarrier)
    assert after is not before
    assert after._clock is clock
