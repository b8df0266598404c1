"""Two clients that share one session. Each repeatedly resumes it, which shuts out the other."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import operations
from calls import LOST, timeout_of
from clients import Life, Player
from processes import ENDPOINT, Process, Violation
from shadows import REFUSED, Boards, Operation, digest, make_arguments, outcome, refusal

from twofold import errors

_MAX_OUTCOMES = 8


@dataclass(eq=False)
class Attempt:
    """A request that a holder of the session has begun.

    Attributes:
        operation: The operation.
        seq: The number that the request gets in its session if it is executed.
        epoch: The holder's epoch.
        is_dead: Whether the request can no longer be executed, because a later epoch began first.
    """

    operation: Operation
    seq: int
    epoch: int
    is_dead: bool = False


class Race:
    """A session without recovery, shared by several clients (holders). An operation is one request.

    Requests are numbered, so all holders agree on their order. The shadow executes each request in
    this order as soon as a reply or a resume shows that the session has executed it.

    Attributes:
        boards: The session; None before the session is created.
        applied: The number of the newest request that the shadow has executed.
        attempts: The requests whose outcome is still unknown.
        outcomes: The shadow's outcomes of the last few requests.
        holders: The clients that have not finished.
    """

    def __init__(self, holders: int) -> None:
        self.boards: Boards | None = None
        self.applied = 0
        self.attempts: list[Attempt] = []
        self.outcomes: dict[int, tuple[Attempt | None, Any]] = {}
        self.holders = set(range(holders))
        # The newest epoch that a holder knows.
        self._epoch = 1

    def begin(self, boards: Boards) -> None:
        """Starts over with a new session, whose only request so far is the create request."""
        self.boards, self.applied, self._epoch = boards, 1, 1
        self.attempts, self.outcomes = [], {1: (None, None)}

    def sends(self, operation: Operation, seq: int, epoch: int) -> Attempt:
        """Records that a holder is about to send a request."""
        attempt = Attempt(operation, seq, epoch, is_dead=epoch < self._epoch)
        self.attempts.append(attempt)
        return attempt

    def answered(self, attempt: Attempt, found: Any) -> None:
        """Records that a holder has received the reply to a request. Checks the reply."""
        assert self.boards is not None
        what = f"{attempt.operation.name}, request {attempt.seq} of epoch {attempt.epoch},"
        if attempt.is_dead:
            raise Violation(f"{self.boards}: {what} was executed after a later epoch began")
        if attempt.seq > self.applied:
            self._apply(attempt)
        known, expected = self.outcomes.get(attempt.seq, (attempt, found))
        if known is not attempt:
            raise Violation(f"{self.boards}: {what} has the number of another request")
        self.boards.compare(what, found, expected)
        self._drop(attempt)

    def resumed(self, last: int, epoch: int) -> Attempt | None:
        """Records a resume that reports request `last` as executed; returns the request if new."""
        found = None
        self._epoch = max(self._epoch, epoch)
        # A slow reply may report requests whose outcome is already known.
        if last > self.applied:
            found = self._find(last, epoch)
            self._apply(found)
            self._drop(found)
        for attempt in [*self.attempts]:
            if attempt.epoch < epoch and self.outcomes.get(attempt.seq, (None,))[0] is not attempt:
                attempt.is_dead = True
        return found

    def _find(self, seq: int, epoch: int) -> Attempt:
        possible = [
            attempt
            for attempt in self.attempts
            if attempt.seq == seq and attempt.epoch < epoch and not attempt.is_dead
        ]
        if len(possible) != 1:
            raise Violation(
                f"{self.boards}: a resume reports request {seq} as executed; the shadow is at "
                f"{self.applied}, and {len(possible)} pending requests match"
            )
        return possible[0]

    def _apply(self, attempt: Attempt) -> None:
        if attempt.seq != self.applied + 1:
            raise Violation(
                f"{self.boards}: request {attempt.seq} was executed after request {self.applied}"
            )
        assert self.boards is not None
        expected = outcome(attempt.operation, self.boards.shadow)
        self.applied = attempt.seq
        self.outcomes[attempt.seq] = attempt, expected
        self.outcomes.pop(attempt.seq - _MAX_OUTCOMES, None)

    def _drop(self, attempt: Attempt) -> None:
        self.attempts = [other for other in self.attempts if other is not attempt]


class Racer(Player):
    """One of the two clients.

    Args:
        race: The race that both clients share.
        number: The racer's number. Racer 0 creates and closes the session.
    """

    def __init__(self, race: Race, number: int) -> None:
        super().__init__()
        self.race, self.number = race, number

    def run(self, process: Process) -> None:
        """Runs one process of the racer."""
        RacingLife(self, process).run()


class RacingLife(Life):
    """One process of a racer.

    Args:
        player: The racer.
        process: The process.
    """

    def __init__(self, player: Racer, process: Process) -> None:
        super().__init__(player, process)
        self._race, self._number = player.race, player.number
        self._envs: Any = None
        self._of: Boards | None = None
        self._has_resumed = False

    def run(self) -> None:
        """Uses the session until the run is over. Then racer 0 closes it."""
        race = self._race
        while not self.simulation.is_calm:
            self.turn()
        if self._number > 0:
            self._let_go()
            race.holders.discard(self._number)
            return
        while race.holders != {0}:
            self.process.idle(0.1)
        boards = race.boards
        if boards is None or boards.is_lost:
            return
        while not boards.is_lost and (self._envs is None or not self._play(operations.OBSERVE)):
            self._take()
        if not boards.is_lost:
            self.end(boards, self._envs)

    def turn(self) -> None:
        """Plays an operation, resumes the session, or waits."""
        boards, choose = self._race.boards, self.random
        if boards is None or boards.is_lost:
            self._let_go()
            if self._number == 0:
                self._make()
            else:
                self.process.idle(0.1)
        elif self._envs is None or self._of is not boards or choose.random() < 0.02:
            self._take()
        else:
            self._play(operations.one_request(choose, boards))
            if choose.random() < 0.1:
                self.process.idle(choose.uniform(0.0, 0.3))

    def _make(self) -> None:
        make, arguments = make_arguments(self.random)
        try:
            self._envs = self.again(
                lambda: make(**arguments, endpoint=ENDPOINT, timeout=2.0),
                "making boards",
                2.0,
                opens=True,
            )
        except errors.ResourceExhausted:
            self.mark("no room")
            self.process.idle(1.0)
            return
        self.player._made += 1
        self._of = Boards(self.player._made, make, arguments, recovers=False)
        self._of.token = self._envs.token
        self._has_resumed = False
        self._race.begin(self._of)

    def _take(self) -> None:
        """Resumes the session, and compares its last results with the shadow's."""
        boards = self._race.boards
        assert boards is not None
        self._let_go()
        try:
            envs = self.resume(boards)
        except LOST as error:
            self._lose(boards, "resume", error)
            return
        except errors.StaleEpoch:
            # If both clients resume at the same time, one of them comes too late.
            self.mark("shut out while it resumes")
            return
        except errors.ResourceExhausted:
            self.mark("no room")
            self.process.idle(1.0)
            return
        self.envs.clear()
        self._envs, self._of, self._has_resumed = envs, boards, True
        results = self.again(lambda: envs.last_results, "last_results", timeout_of(envs))
        if boards.is_lost:
            # Meanwhile, the other client has found out that the session is lost.
            self._let_go()
            return
        with self._perhaps_copies(boards):
            self._compare_last(boards, envs, digest(results))

    def _compare_last(self, boards: Boards, envs: Any, results: Any) -> None:
        race = self._race
        if race.resumed(envs.requests, _epoch(envs)) is not None:
            self.mark("a resume finds an executed request")
        attempt, expected = race.outcomes.get(envs.requests, (None, None))
        if results is not None and attempt is not None:
            boards.compare("last_results", results, expected)
        self.mark("taken")

    @contextlib.contextmanager
    def _perhaps_copies(self, boards: Boards) -> Iterator[None]:
        """Drops the session if the block raises a violation that a fault may have caused."""
        try:
            yield
        except Violation:
            if not self.simulation.may_lose_sessions():
                raise
            self.mark("older copy")
            self._let_go()
            boards.forget()

    def _play(self, operation: Operation) -> bool:
        """Executes an operation. Returns False if the session is lost or another client took it."""
        envs, race, boards = self._envs, self._race, self._of
        assert boards is not None
        attempt = race.sends(operation, envs.requests + 1, _epoch(envs))
        try:
            timeout = timeout_of(envs)
            results = digest(self.again(lambda: operation.execute(envs), operation.name, timeout))
        except REFUSED as error:
            race._drop(attempt)
            if race.boards is boards and race.applied == attempt.seq - 1 and not attempt.is_dead:
                expected = outcome(operation, boards.shadow)
                with self._perhaps_copies(boards):
                    boards.compare(operation.name, refusal(error), expected)
        except LOST as error:
            self._lose(boards, operation.name, error)
            return False
        except errors.ResourceExhausted:
            race._drop(attempt)
            self.mark("no room")
        except errors.StaleEpoch:
            if boards.resumes - self._has_resumed < 1:
                raise Violation(f"{boards}: StaleEpoch, but nobody resumed the session") from None
            self.mark("shut out")
            self._let_go()
            return False
        else:
            if race.boards is boards and not boards.is_lost:
                with self._perhaps_copies(boards):
                    race.answered(attempt, results)
                if operation.name == "snapshot":
                    boards.blobs.append(results)
        return True

    def _lose(self, boards: Boards, call: str, error: errors.RequestError) -> None:
        self._let_go()
        if not boards.is_lost:
            self.lose(boards, call, error)

    def _let_go(self) -> None:
        if self._envs is not None:
            self._envs._session.abandon()
            self._envs = None


def _epoch(envs: Any) -> int:
    return int(envs._session.link._steps.epoch)
