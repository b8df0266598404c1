"""Calls the public API, and repeats failed calls as the documents describe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import gymnasium as gym
from pacing import CLOSE_TIMEOUT, SLACK, Pace
from processes import Killed, Process, Simulation, Violation
from shadows import REFUSED

from twofold import errors

Result = TypeVar("Result")

LOST = (errors.NotFound, errors.OutOfSequence)
"""The errors of a call if the server has no copy of the session, or only an older copy."""
RAISED = (
    *(*REFUSED, *LOST, errors.StaleEpoch, errors.StepPending, errors.ResourceExhausted),
    *(gym.error.NoAsyncCallError, gym.error.AlreadyPendingCallError),
)
"""The errors after which a call is not repeated, because it would raise them again."""


class Caller:
    """A caller of the public API in one client process.

    Args:
        process: The process.
    """

    def __init__(self, process: Process) -> None:
        self.process = process
        self.random, self.mark = process.random, process.mark
        self.simulation: Simulation = process.simulation

    def again(
        self,
        call: Callable[[], Result],
        what: str,
        timeout: float,
        requests: int = 1,
        opens: bool = False,
    ) -> Result:
        """Repeats a call until it returns a result, in the way that reliability.md recommends.

        Args:
            call: The function that makes the call.
            what: The call's name.
            timeout: The timeout of each request, in seconds.
            requests: The maximum number of requests that the call sends in sequence.
            opens: Whether the call opens a session, which it closes if it fails.

        Raises:
            RAISED: The call raised one of these errors.
            Violation: The call raised an error that it must not raise.
        """
        while (result := self.once(call, what, timeout, requests, opens)) is None:
            pass
        return result[0]

    def once(
        self,
        call: Callable[[], Result],
        what: str,
        timeout: float,
        requests: int = 1,
        opens: bool = False,
    ) -> tuple[Result] | None:
        """Makes a call once. Returns None if the call failed and may be repeated."""
        process = self.process
        process.check_life()
        self.simulation.calls(process.client, what)
        pace = process.pace = Pace(opens)
        longest = timeout * requests + CLOSE_TIMEOUT * opens
        try:
            result = self._in_time(call, what, timeout, longest)
            if pace.early is not None:
                raise Violation(pace.early)
            return (result,)
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

    def _in_time(
        self, call: Callable[[], Result], what: str, timeout: float, longest: float
    ) -> Result:
        """Makes a call. Raises Violation if it takes too long or gives up too early."""
        simulation, gave_up = self.simulation, False
        began, jumped = simulation.seconds, simulation.world.jumped()
        try:
            return call()
        except errors.DeadlineExceeded:
            gave_up = True
            raise
        finally:
            if not self.process.is_dead:
                elapsed = simulation.seconds - began
                working = elapsed - (simulation.world.jumped() - jumped) * 1e-9
                limit = f"its timeout is {timeout:.3g} s"
                if working > longest + SLACK:
                    raise Violation(f"{what} took {working:.3f} s; {limit}")
                if gave_up and elapsed < timeout - SLACK:
                    raise Violation(f"{what} gave up after {elapsed:.3f} s; {limit}")

    def snapshot(self, envs: Any) -> bytes | None:
        """Returns a snapshot of all boards; None before their first reset."""
        try:
            return bytes(self.again(envs.snapshot, "snapshot", timeout_of(envs)))
        except errors.FailedPrecondition:
            return None


def timeout_of(envs: Any) -> float:
    """Returns the timeout of an environment's requests, in seconds."""
    return float(envs._session._timeout)
