"""The external resources of a session: time, random bytes and connections."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass

from twofold.client import sockets
from twofold.client.curve import CurveKeys, HandshakeWatch
from twofold.client.sockets import Socket


@dataclass(frozen=True)
class Surroundings:
    """A session's clock, randomness and connections, which are real or simulated.

    A session has no other way to read a clock, wait, draw random bytes or connect.
    """

    now: Callable[[], float] = time.monotonic
    """A function that returns the time in seconds, which never decreases."""
    sleep: Callable[[float], None] = time.sleep
    """A function that waits for this many seconds."""
    random_bytes: Callable[[int], bytes] = os.urandom
    """A function that returns this many unpredictable bytes."""
    connect: Callable[[str, CurveKeys | None, HandshakeWatch], Socket] = sockets.connect
    """A function that connects like `sockets.connect`, with the same arguments."""


SYSTEM = Surroundings()

surroundings: ContextVar[Surroundings] = ContextVar("twofold_surroundings", default=SYSTEM)
"""The surroundings of sessions that are created in this context."""
