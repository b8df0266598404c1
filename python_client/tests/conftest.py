"""Fixtures: real servers, and nothing left behind."""

import os
import signal
from collections.abc import Iterator

import pytest
from games import GAMES, MakeBatch
from servers import Server


@pytest.fixture(scope="session", autouse=True)
def _no_endpoint_from_outside() -> None:
    os.environ.pop("TWOFOLD_ENDPOINT", None)


@pytest.fixture(scope="session", autouse=True)
def _interrupts_are_heard() -> None:
    # A shell has its background jobs ignore them, and the tests that they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--scale", type=int, default=1, help="how much longer the long tests run")


@pytest.fixture(scope="session")
def scale(request: pytest.FixtureRequest) -> int:
    """How much longer the tests that take it run: 1 in `make test`, more in `make soak`."""
    return int(request.config.getoption("--scale"))


@pytest.fixture(scope="session")
def steps(scale: int) -> int:
    """How many steps the long runs make."""
    return 2000 * scale


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A server that all tests share, on ipc and tcp; nobody may harm it."""
    with Server() as server:
        yield server


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server of the test's own, which it may stop and kill."""
    with Server() as server:
        yield server


@pytest.fixture(params=["embedded", "ipc", "tcp"])
def endpoint(request: pytest.FixtureRequest) -> str:
    """Where the service is; a test that asks for it runs over every carrier."""
    if request.param == "embedded":
        return "embedded"
    server: Server = request.getfixturevalue("server")
    return server.ipc if request.param == "ipc" else server.tcp


@pytest.fixture(params=GAMES)
def make_batch(request: pytest.FixtureRequest) -> MakeBatch:
    """Makes batches of one game; a test that asks for it runs over all of them."""
    return GAMES[request.param]


@pytest.fixture(params=GAMES)
def game(request: pytest.FixtureRequest) -> str:
    """The name of a game; a test that asks for it runs over all of them."""
    return str(request.param)
