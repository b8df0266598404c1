"""Sessions whose messages tests write themselves, over ZeroMQ."""

from compliance.carriers import ZeroMQConnection
from compliance.sessions import Session

from twofold import CurveKeys
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import statistics_pb2 as statistics


class RawSession(Session):
    """A session over a separate connection."""

    connection: ZeroMQConnection

    def __init__(self, endpoint: str, keys: CurveKeys | None = None) -> None:
        super().__init__(ZeroMQConnection(endpoint, keys))


def statistics_of(endpoint: str) -> statistics.StatsReply:
    """Returns the server's statistics, over a separate connection."""
    connection = ZeroMQConnection(endpoint)
    answer = connection.exchange(envelope.Request(stats={}).SerializeToString())
    connection.close()
    return answer.reply.stats
