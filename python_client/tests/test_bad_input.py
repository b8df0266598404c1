"""No amount of bad input stops the server or makes its memory grow."""

import random
import subprocess
from collections.abc import Callable

from compliance.carriers import ZeroMQConnection
from compliance.refusals import REFUSALS
from raw import AT_ONCE, RawSession, create_and_close
from servers import PATIENCE, Server, running

from twofold.client.lookup import find_program
from twofold.v1 import envelope_pb2 as envelope

TIMES = 4_000


def check_for_leaks(server: Server, work: Callable[[], None], limit: int) -> None:
    """Checks that some work adds fewer than `limit` bytes to the server's memory.

    A leak shows each time; memory that the allocator keeps does not.
    """
    growths: list[int] = []
    while not growths or (growths[-1] >= limit and len(growths) < 5):
        before = server.memory
        work()
        growths.append(server.memory - before)
    assert growths[-1] < limit, growths


def test_refused_and_dropped_requests_leave_no_memory_behind(own_server: Server) -> None:
    with RawSession(own_server.tcp) as session:
        session.create()
        session.reset()

        def refuse_everything() -> None:
            for refusal in REFUSALS:
                header, payload = refusal.make(session)
                for _ in range(TIMES // 100):
                    session.connection.send_frames(b"no delimiter")
                    assert session.call(header, payload).error.code == refusal.code

        refuse_everything()
        check_for_leaks(own_server, refuse_everything, limit=1 << 18)
        assert session.step(0, 1, 2).slot == "step"


def test_random_bytes_are_refused(server: Server) -> None:
    rng = random.Random(0)
    with RawSession(server.tcp) as session:
        session.create()
        for _ in range(TIMES // AT_ONCE):
            for _ in range(AT_ONCE):
                frames = [rng.randbytes(rng.randrange(200)) for _ in range(rng.choice([1, 1, 2]))]
                session.connection.send_frames(b"", *frames)
            for _ in range(AT_ONCE):
                answer = session.connection.receive()
                assert answer.slot == "error"
                assert answer.error.code != envelope.ERROR_CODE_INTERNAL
        assert session.reset().slot == "reset"


def test_requests_with_flipped_bits_stop_nothing(server: Server) -> None:
    rng = random.Random(1)
    with RawSession(server.tcp) as session:
        session.create()
        for _ in range(TIMES):
            request = bytearray(session.request(reset={"seeds": True, "mask": True}))
            for _ in range(rng.randrange(1, 4)):
                request[rng.randrange(len(request))] ^= 1 << rng.randrange(8)
            answer = session.connection.exchange(bytes(request), bytes(rng.randrange(28)))
            if answer.slot != "error":  # one flipped bit turns a reset into a close
                session.begin()
                session.create()
        assert session.reset().slot == "reset"


def test_ten_thousand_sessions_come_and_go(own_server: Server) -> None:
    # The replies of closed sessions are remembered, up to ten thousand of them, 4 KB each.
    create_and_close(own_server.ipc, 11_000)
    check_for_leaks(own_server, lambda: create_and_close(own_server.ipc, 2_500), limit=1 << 20)
    with RawSession(own_server.ipc) as session:
        session.create()


def test_what_a_client_sends_stays_on_its_line_of_the_log() -> None:
    command = [str(find_program()), "serve", "--endpoint", "tcp://127.0.0.1:0"]
    with running(
        [*command, "--log-level", "debug"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        connection = ZeroMQConnection(process.stdout.readline().split()[-1])
        hello = {"client": "a\nforged\u2028\x1b[2J", "protocol_version": 1}
        connection.exchange(envelope.Request(hello=hello).SerializeToString())
        connection.close()
        process.terminate()
        log = process.communicate(timeout=PATIENCE)[1]
    [line] = [line for line in log.split("\n") if "hello" in line]
    assert line.endswith(r"hello from a\nforged\u{2028}\u{1B}[2J")
