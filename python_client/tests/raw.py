"""ZeroMQ sessions for tests that build their own messages."""

from compliance.carriers import ZeroMQConnection
from compliance.sessions import ENVIRONMENT_ID, Session

from twofold import CurveKeys
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import statistics_pb2 as statistics


class RawSession(Session):
    """A session over a separate connection."""

    connection: ZeroMQConnection

    def __init__(self, endpoint: str, keys: CurveKeys | None = None) -> None:
        super().__init__(ZeroMQConnection(endpoint, keys))


AT_ONCE = 100
"""The number of requests that tests send before they receive the replies."""


def create_and_close(endpoint: str, sessions: int) -> None:
    """Creates and closes sessions of three boards, `AT_ONCE` at a time."""
    three = {"environment_id": ENVIRONMENT_ID, "num_envs": 3}
    connection = ZeroMQConnection(endpoint)
    for _ in range(sessions // AT_ONCE):
        group = [Session(connection) for _ in range(AT_ONCE)]
        for slot, fields in (("create", {"create": three}), ("close", {"close": {}})):
            for session in group:
                connection.send(session.request(**fields))
            for session in group:
                assert connection.receive().slot == slot
                session.seq = 1
    connection.close()


def statistics_of(endpoint: str) -> statistics.StatsReply:
    """Returns the server's statistics, over a separate connection."""
    connection = ZeroMQConnection(endpoint)
    answer = connection.exchange(envelope.Request(stats={}).SerializeToString())
    connection.close()
    return answer.reply.stats
