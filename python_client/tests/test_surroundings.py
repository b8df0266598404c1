"""Tests that a session gets time, random bytes and connections only from its surroundings."""

import ast
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from loops import actions
from servers import Server, wait_until

import twofold
from twofold.client.session import Session
from twofold.client.surroundings import SYSTEM, Surroundings, surroundings
from twofold.client.zeromq import Backoff
from twofold.v1 import environment_pb2 as environment
from twofold.v1 import game2048_pb2 as game2048

CLIENT = Path(twofold.__file__).parent / "client"
BOARDS = environment.CreateRequest(
    environment_id="twofold/Game2048-v0", num_envs=2, game2048=game2048.Game2048Config()
)


class Others:
    """Surroundings that count their uses. Their clock is ahead of the system clock.

    Attributes:
        uses: The number of uses of each part.
        drawn: The random bytes.
        surroundings: The parts.
    """

    def __init__(self) -> None:
        self.uses: Counter[str] = Counter()
        self.drawn: list[bytes] = []
        self.surroundings = Surroundings(
            now=self._counting("now", lambda: time.monotonic() + 1e6),
            sleep=self._counting("sleep", SYSTEM.sleep),
            random_bytes=self._counting("random_bytes", self._draw),
            connect=self._counting("connect", SYSTEM.connect),
        )

    def _draw(self, count: int) -> bytes:
        self.drawn.append(os.urandom(count))
        return self.drawn[-1]

    def _counting(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def use(*arguments: Any) -> Any:
            self.uses[name] += 1
            return function(*arguments)

        return use


@pytest.fixture(autouse=True)
def _only_lost_requests_are_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevents second connections after slow replies, because the tests count connections."""
    monkeypatch.setattr(Backoff, "seconds", lambda *_: 300.0)


@pytest.fixture
def others() -> Iterator[Others]:
    """Sets the surroundings of all objects that a test makes."""
    others = Others()
    before = surroundings.set(others.surroundings)
    yield others
    surroundings.reset(before)


def test_an_environment_gets_everything_from_its_surroundings(
    server: Server, others: Others
) -> None:
    envs = twofold.Game2048VectorEnv(16, endpoint=server.ipc)
    assert envs._session.link.id == others.drawn[0]
    assert others.uses["connect"] == 1
    seed = envs.np_random_seed
    envs.reset()
    assert envs.np_random_seed == seed == int.from_bytes(others.drawn[1], "little") % (2**63 - 16)
    clocked = others.uses["now"]
    envs.step(actions(1))
    assert others.uses["now"] > clocked
    envs.close()


def test_boards_in_the_process_use_the_same_clock(others: Others) -> None:
    envs = twofold.Game2048VectorEnv(16, endpoint="embedded")
    envs.reset(seed=1)
    envs.step(actions(1))
    assert others.uses["now"] > 0
    envs.close()


def test_rules_take_their_clock_and_connection_from_their_surroundings(
    server: Server, others: Others
) -> None:
    for uses in (1, 1):
        twofold.rules.legal([[1, 1], [0, 0]], endpoint=server.ipc)
        assert others.uses["connect"] == uses
    assert others.uses["now"] > 0


def test_an_environment_keeps_its_surroundings(server: Server) -> None:
    others = Others()
    before = surroundings.set(others.surroundings)
    envs = twofold.Game2048VectorEnv(16, endpoint=server.ipc)
    surroundings.reset(before)
    envs.reset(seed=1)
    drawn = others.uses["random_bytes"]
    fork = envs.fork([0, 1])
    assert fork._session.surroundings is others.surroundings
    # The session's id, the seed of the spawns, and the seed of a first reset.
    assert others.uses["random_bytes"] == drawn + 3
    assert others.uses["connect"] == 2
    fork.close()
    envs.close()


def test_the_connection_to_a_new_private_server_is_made_in_the_same_surroundings() -> None:
    others = Others()
    session = Session(BOARDS, endpoint="private", keys=None, timeout=30, within=others.surroundings)
    before: Any = session.link.carrier
    os.kill(before.server.pid, signal.SIGKILL)
    wait_until(lambda: before.is_dead)
    session.link.reconnect(others.surroundings.now() + 30)
    after: Any = session.link.carrier
    assert after is not before
    assert after._surroundings is others.surroundings
    session.close()


def test_nothing_else_in_a_session_reads_a_clock_waits_or_draws() -> None:
    # The private server is a process of the system, and its start is timed by the system's clock.
    outside = {"surroundings.py", "system.py", "private_server.py"}
    taken = {}
    for path in sorted(CLIENT.rglob("*.py")):
        names = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                names.add(f"{node.value.id}.{node.attr}")
        found = names & {"time", "random", "secrets", "uuid", "os.urandom", "zmq.Context"}
        if found and path.name not in outside:
            taken[path.name] = found
    assert taken == {"sockets.py": {"zmq.Context"}}
