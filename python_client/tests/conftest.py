"""Fixtures: real servers, and nothing left behind."""

import os
from collections.abc import Iterator

import pytest
from servers import Server


@pytest.fixture(scope="session", autouse=True)
def _no_endpoint_from_outside() -> None:
    os.environ.pop("TWOFOLD_ENDPOINT", None)


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
