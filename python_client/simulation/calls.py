"""Calls of the public API, made as the documents say until they return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import gymnasium as gym
from processes import Killed, Process, Simulation, Violation
from shadows import REFUSED

from twofold import errors

Result = TypeVar("Result")

LOST = (errors.NotFound, errors.OutOfSequence)
"""What calls raise where the server does not have the session, or has an older copy of it."""
RAISED = (
    *(*REFUSED, *LOST, errors.StaleEpoch, errors.StepPending, errors.ResourceExhausted),
    *(gym.error.NoAsyncCallError, gym.error.AlreadyPendingCallError),
)
"""What a call may raise that the same call again would raise, too."""


class Caller:
    """Makes a process's calls.

    Args:
        process: The process.
    """

    def __init__(self, process: Process) -> None:
        self.process = process
        self.random, self.mark = process.random, process.mark
        self.simulation: Simulation = process.simulation

    def again(self, call: Callable[[], Result], what: str) -> Result:
        """Makes a call until it returns, as the documents say.

        Raises:
            RAISED: As the call does.
            Violation: The call raises something that it must not.
        """
        while (result := self.once(call, what)) is None:
            pass
        return result[0]

    def once(self, call: Callable[[], Result], what: str) -> tuple[Result] | None:
        """Makes a call; None where it failed and may be made again."""
        process = self.process
        process.check_life()
        self.simulation.calls(process.client, what)
        try:
            return (call(),)
        except KeyboardInterrupt:
            self.mark("interrupted")
        except errors.DeadlineExceeded:
            self.mark("deadline exceeded")
        except errors.ShuttingDown:
            self.mark("shutting down")
            process.idle(self.random.uniform(0.1, 1.0))
        except errors.ProtocolError:
            self.mark("bad reply")
        except RAISED:
            if process.is_dead:
                raise Killed from None
            raise
        except Exception as error:
            if process.is_dead:
                raise Killed from None
            raise Violation(f"{what} raised {type(error).__name__}: {error}") from error
        if process.is_dead:
            raise Killed
        if self.random.random() < 0.2:
            process.idle(self.random.uniform(0.0, 1.0))
        return None

    def snapshot(self, envs: Any) -> bytes | None:
        """A snapshot; None before the first reset."""
        try:
            return bytes(self.again(envs.snapshot, "snapshot"))
        except errors.FailedPrecondition:
            return None
