"""Fixtures: the carriers over which the test cases run, and sessions over these carriers."""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from keys import Keys
from servers import PATIENCE, Server

from compliance.carriers import (
    IN_PROCESS,
    OVER_ZEROMQ,
    Ability,
    Carrier,
    Connection,
    EmbeddedConnection,
    ZeroMQConnection,
)
from compliance.sessions import Session
from twofold import CurveKeys
from twofold.client.private_server import PrivateServer

# A case with a long request chooses how long the request takes.
LONG_SEARCHES = ("--max-search-milliseconds", "600000")
# Client and server run the same code for all but the library, apart from addresses and keys.
CARRIERS = (
    "library",
    "ipc",
    *(pytest.param(name, marks=pytest.mark.long) for name in ("tcp", "curve", "private")),
)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(ability): what the carrier has to be able to do")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs each test case over all carriers, or only against the server given by `--endpoint`."""
    if "carrier" in metafunc.fixturenames:
        named = metafunc.config.getoption("--endpoint")
        metafunc.parametrize("carrier", [named] if named else CARRIERS, indirect=True)


@pytest.fixture
def carrier(request: pytest.FixtureRequest) -> Iterator[Carrier]:
    """The carrier to a service. A test case with this fixture runs once for each carrier."""
    name: str = request.param
    abilities = IN_PROCESS if name == "library" else OVER_ZEROMQ
    for mark in request.node.iter_markers("needs"):
        needed: Ability = mark.args[0]
        if needed not in abilities:
            pytest.skip(f"{name} has no {needed.name}")
    with contextlib.ExitStack() as cleanup:
        endpoint, own = name, None
        if name == "private":
            endpoint = request.getfixturevalue("private_server").endpoint
        elif name == "curve":
            encrypted, keys = request.getfixturevalue("encrypted_server")
            endpoint, own = encrypted.tcp, keys.of("alice")
        elif name in ("ipc", "tcp"):
            endpoint = getattr(request.getfixturevalue("plain_server"), name)
        elif name.startswith("tcp://"):
            own = CurveKeys.from_environment()

        def connect() -> Connection:
            connection: Connection
            if name == "library":
                connection = EmbeddedConnection()
            else:
                connection = ZeroMQConnection(endpoint, own)
            cleanup.callback(connection.close)
            return connection

        yield Carrier(connect, abilities)


@pytest.fixture(scope="session")
def plain_server() -> Iterator[Server]:
    """A server without encryption."""
    with Server(*LONG_SEARCHES) as server:
        yield server


@pytest.fixture(scope="session")
def encrypted_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Keys]]:
    """A server with encryption, and the keys of its authorised clients."""
    keys = Keys(Path(tmp_path_factory.mktemp("keys")))
    with Server(*keys.arguments, *LONG_SEARCHES) as server:
        yield server, keys


@pytest.fixture(scope="package")
def private_server() -> Iterator[PrivateServer]:
    """A private server. It ends with these cases, because other tests count private servers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TWOFOLD_MAX_SEARCH_MILLISECONDS", LONG_SEARCHES[1])
        server = PrivateServer(time.monotonic() + PATIENCE)
    yield server
    server.stop()


@pytest.fixture
def new_session(carrier: Carrier) -> Iterator[Callable[[], Session]]:
    """A function that makes a session over a new connection. All sessions are closed at the end."""
    sessions: list[Session] = []

    def begin() -> Session:
        sessions.append(Session(carrier.connect()))
        return sessions[-1]

    yield begin
    for session in sessions:
        # Even if the case has lost count, or has not received all replies.
        session.connection = carrier.connect()
        expected = session.ask(close={}).error.expected_seq
        if expected:
            session.ask(seq=expected, close={})


@pytest.fixture
def session(new_session: Callable[[], Session]) -> Session:
    """A session of three boards, after its create and reset requests."""
    return _started(new_session())


@pytest.fixture
def twin(new_session: Callable[[], Session]) -> Session:
    """A second session with the same three boards as `session`, for comparison."""
    return _started(new_session())


def _started(session: Session) -> Session:
    assert session.create().slot == "create"
    assert session.reset().slot == "reset"
    return session
