"""The fixtures: real servers that leave no process and no file behind."""

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from games import GAMES, MakeBatch
from servers import Server

import twofold
from twofold.client import embedded


@pytest.fixture(scope="session", autouse=True)
def _no_endpoint_from_outside() -> None:
    os.environ.pop("TWOFOLD_ENDPOINT", None)


@pytest.fixture(scope="session", autouse=True)
def _tables_of_our_own(tmp_path_factory: pytest.TempPathFactory) -> None:
    # Tests do not use the user's tables; the library reads the variable once.
    os.environ["TWOFOLD_TABLES"] = str(tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="session", autouse=True)
def _signals_are_heard() -> None:
    # A shell's background jobs ignore interrupts, and nohup hangups; the tests would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--scale", type=int, default=1, help="how much longer the long tests run")
    parser.addoption("--endpoint", help="the only server that tests/compliance runs against")


@pytest.fixture(scope="session")
def scale(request: pytest.FixtureRequest) -> int:
    """The factor that scales long tests: 1 in `make test`, more in `make test-long`."""
    return int(request.config.getoption("--scale"))


@pytest.fixture(scope="session")
def steps(scale: int) -> int:
    """The number of steps in each long test."""
    return 2000 * scale


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A server that all tests share, on ipc and tcp; no test may stop or overload it."""
    with Server() as server:
        yield server


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server for one test only. The test may stop or kill the server."""
    with Server() as server:
        yield server


@pytest.fixture
def _unstarted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes this process start another service, as if it had none yet."""
    monkeypatch.setattr(embedded, "_service", None)
    embedded.library.cache_clear()


@pytest.fixture(params=["embedded", "ipc", pytest.param("tcp", marks=pytest.mark.long)])
def endpoint(request: pytest.FixtureRequest) -> str:
    """The service's endpoint. A test with this fixture runs once for each carrier (transport).

    Client and server run the same code for tcp as for ipc, apart from addresses and keys.
    """
    if request.param == "embedded":
        return "embedded"
    server: Server = request.getfixturevalue("server")
    return server.ipc if request.param == "ipc" else server.tcp


@pytest.fixture
def make(endpoint: str) -> Iterator[Callable[..., twofold.Game2048VectorEnv]]:
    """A function that makes environments, which are closed after the test."""
    made: list[twofold.Game2048VectorEnv] = []

    def make(num_envs: int = 6, **arguments: Any) -> twofold.Game2048VectorEnv:
        made.append(twofold.Game2048VectorEnv(num_envs, endpoint=endpoint, **arguments))
        return made[-1]

    yield make
    for envs in made:
        envs.close()


@pytest.fixture(params=GAMES)
def make_batch(request: pytest.FixtureRequest) -> MakeBatch:
    """A function that makes batches of one game. A test with this fixture runs for each game."""
    return GAMES[request.param]


@pytest.fixture(params=GAMES)
def game(request: pytest.FixtureRequest) -> str:
    """The name of a game. A test with this fixture runs once for each game."""
    return str(request.param)
