"""All that a session takes from outside: time, random bytes and connections."""

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
    """What a session takes from outside, by default from the system; a simulation brings its own.

    Nothing in a session reads a clock, waits, draws random bytes or connects by other means.
    """

    now: Callable[[], float] = time.monotonic
    """Time in seconds, which never goes back."""
    sleep: Callable[[float], None] = time.sleep
    """Waits so many seconds."""
    random_bytes: Callable[[int], bytes] = os.urandom
    """So many bytes that nobody can guess."""
    connect: Callable[[str, CurveKeys | None, HandshakeWatch], Socket] = sockets.connect
    """`sockets.connect`, or a function with the same arguments."""


SYSTEM = Surroundings()

surroundings: ContextVar[Surroundings] = ContextVar("twofold_surroundings", default=SYSTEM)
"""The surroundings of the sessions that are made from now on."""
