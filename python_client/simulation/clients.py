"""Clients that use the public API in the simulated world and check its results."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import operations
import visits
from calls import LOST, Caller, timeout_of
from pacing import CLOSE_TIMEOUT, SLACK
from processes import ENDPOINT, Process, Violation
from shadows import REFUSED, Boards, Operation, digest, make_arguments, quiet, refusal

import twofold
from twofold import errors

_MAX_BOARDS = 3
# The timeouts of calls in seconds. Many calls give up and are repeated.
_TIMEOUTS = (0.1, 0.5, 2.0, 30.0)
# The number of requests in a fork and in a network's upload.
_FORK_REQUESTS = 4
_NETWORK_REQUESTS = 3


class Player:
    """A client with several sessions.

    When a process is killed, the next process of the client resumes the sessions. The `Boards`
    survive, as if they were stored on disk.

    Attributes:
        boards: The client's sessions.
    """

    def __init__(self) -> None:
        self.boards: list[Boards] = []
        self._made = 0

    def run(self, process: Process) -> None:
        """Runs one process of the client."""
        Life(self, process).run()


class Life(Caller):
    """The life of one client process, until the process ends or is killed.

    Args:
        player: The client.
        process: The process.
    """

    def __init__(self, player: Player, process: Process) -> None:
        super().__init__(process)
        self.player = player
        self.envs: dict[int, Any] = {}

    def run(self) -> None:
        """Plays until the run is over, then checks and closes every session."""
        for boards in self.boards():
            self.take_over(boards)
        while not self.simulation.is_calm:
            self.turn()
        for boards in self.boards():
            self.finish(boards)

    def boards(self) -> list[Boards]:
        """Returns the sessions that are not lost."""
        self.player.boards = [boards for boards in self.player.boards if not boards.is_lost]
        return list(self.player.boards)

    # ---- sessions begin and are resumed ----------------------------------------------------------

    def open(self) -> None:
        """Opens a new session."""
        make, arguments = make_arguments(self.random)
        recovers = self.random.random() < 0.5
        timeout = self.random.choice(_TIMEOUTS)

        def begin() -> Any:
            return make(**arguments, endpoint=ENDPOINT, timeout=timeout, recover=recovers)

        try:
            envs = self.again(begin, "making boards", timeout, opens=True)
        except errors.ResourceExhausted:
            self.mark("no room")
            self.process.idle(1.0)
            return
        self.player._made += 1
        self.keep(Boards(self.player._made, make, arguments, recovers=recovers), envs)
        self.process.say(f"makes {self.player.boards[-1]}")

    def keep(self, boards: Boards, envs: Any) -> None:
        """Adds a new session, and the environment that holds it in this process."""
        boards.saw(envs)
        self.player.boards.append(boards)
        self.hold(boards, envs)

    def take_over(self, boards: Boards) -> None:
        """Resumes a session, and finds out whether its last operation was executed."""
        with self.endings(boards, "resume"):
            self._take_over(boards)

    def _take_over(self, boards: Boards) -> None:
        envs = self.resume(boards)
        if envs.requests < boards.requests and self.simulation.may_lose_sessions():
            self.mark("older copy")
            self.give_up(boards)
            return
        results = digest(self.again(lambda: envs.last_results, "last_results", timeout_of(envs)))
        blob = self.snapshot(envs)
        pending, last = boards.pending, boards.last
        if boards.resolve(blob, pending):
            self.mark("killed after its request was executed")
            last = boards.last
        if results is not None and last is not None and last[0] in ("step", "reset"):
            # A snapshot for the journal may have come in between.
            boards.compare(f"last_results, of a {last[0]},", results, last[1])
            self.mark("last results")
        boards.saw(envs)
        self.mark("resumed in another process")

    def resume(self, boards: Boards) -> Any:
        """Resumes a session, and returns its environment."""
        token, timeout = boards.token, self.random.choice(_TIMEOUTS)
        assert token is not None

        def resume() -> Any:
            boards.resumes += 1
            return twofold.resume(token, timeout=timeout)

        envs = self.again(resume, "resume", timeout)
        self.hold(boards, envs)
        return envs

    def hold(self, boards: Boards, envs: Any) -> None:
        """Stores an environment. From now on, faults may also interrupt its calls after a reply."""
        self.envs[boards.number] = envs
        for name in ("of_reset", "of_step"):
            setattr(envs._results, name, self._interruptible(getattr(envs._results, name)))

    def _interruptible(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def interruptible(*arguments: Any) -> Any:
            self.process.interrupt()
            return function(*arguments)

        return interruptible

    def check_stale(self, boards: Boards) -> None:
        """Checks a StaleEpoch error. Raises Violation if no other resume can have caused it.

        An unanswered resume may reach the server after a later one, and end the later one's epoch.
        """
        if boards.resumes < 2:
            raise Violation(f"{boards}: StaleEpoch, but nobody has resumed the session")
        self.drop(boards)
        self.mark("stale holder")

    @contextlib.contextmanager
    def endings(self, boards: Boards, call: str) -> Iterator[None]:
        """Handles errors in a block that prevent this process from continuing the session."""
        try:
            yield
        except LOST as error:
            self.lose(boards, call, error)
        except errors.StaleEpoch:
            self.check_stale(boards)
            self.take_over(boards)
        except errors.ResourceExhausted:
            self.mark("no room")
            self.give_up(boards)

    def give_up(self, boards: Boards) -> None:
        """Closes a session that can't continue, and forgets it."""
        self.mark("given up")
        envs = self.envs.pop(boards.number, None)
        boards.forget()  # first, because the process may be killed during the close
        if envs is not None:
            self.again(envs.close, "close", CLOSE_TIMEOUT)

    def drop(self, boards: Boards) -> None:
        """Abandons a session that this process no longer holds, without sending a request."""
        envs = self.envs.pop(boards.number, None)
        if envs is not None:
            envs._session.abandon()

    def lose(self, boards: Boards, call: str, error: errors.RequestError) -> None:
        """Forgets a session that the server lost. Raises Violation if no fault can explain it."""
        if not self.simulation.may_lose_sessions():
            name = type(error).__name__
            raise Violation(f"{boards}: {call} raised {name}, but no fault can explain it")
        self.mark("lost")
        self.drop(boards)
        boards.forget()

    # ---- the operations --------------------------------------------------------------------------

    def turn(self) -> None:
        """Does one random thing, such as an operation, a fork, a close or a pause."""
        choose, boards = self.random, self.boards()
        if not boards or (len(boards) < _MAX_BOARDS and choose.random() < 0.02):
            self.open()
            return
        chosen = choose.choice(boards)
        number = choose.random()
        if number < 0.004:
            self.fork(chosen)
        elif number < 0.005:
            visits.play_alone(self)
        elif number < 0.009:
            visits.ask_rules(self)
        elif number < 0.011:
            self.close(chosen)
        elif number < 0.025:
            self.process.idle(choose.uniform(0.0, 3.0))
        elif number < 0.055:
            self.halves(chosen)
        else:
            self.perform(chosen, self.choose_operation(chosen))

    def choose_operation(self, boards: Boards) -> Operation:
        """Chooses a random operation on a session's boards."""
        if not boards.was_reset:
            drawn = self.envs[boards.number].np_random_seed
            return operations.first_reset(self.random, boards, drawn)
        return operations.any_of_all(self.random, boards)

    def perform(self, boards: Boards, operation: Operation) -> None:
        """Performs an operation, and compares the outcome with the fault-free shadow's outcome."""
        boards.pending = operation
        with self.endings(boards, operation.name):
            try:
                self._perform(boards, operation, self.envs[boards.number])
            except REFUSED as error:
                boards.returned(operation, refusal(error))
                self.mark("refused")

    def _perform(self, boards: Boards, operation: Operation, envs: Any) -> None:
        try:
            results = self.execute(boards, operation, envs)
        except errors.ResourceExhausted as error:
            if operation.name == "rollout" and "max_message_bytes" in str(error):
                raise Violation(f"{boards}: a rollout was not cut to fit: {error}") from error
            if boards.recovers:
                raise
            # Nothing has changed, except by the first of several requests.
            self.mark("no room")
            self.catch_up(boards, envs)
            return
        if results is None:
            return
        found = digest(results[0])
        boards.returned(operation, found)
        if boards.saw(envs):
            self.mark("recovered")
        self.mark(operation.name)
        if self.simulation.log is not None:
            self.process.say(f"{boards.number} {operation.name} {hash_of(found)}")
        if operation.name == "snapshot":
            boards.blobs.append(found)

    def execute(self, boards: Boards, operation: Operation, envs: Any) -> tuple[Any] | None:
        """Executes an operation. Returns (results,), or None if the results were discarded."""
        # Each of several requests has the full timeout. A rollout may first send its network.
        timeout, requests = timeout_of(envs), 1 + len(operation.parts)
        if operation.name == "rollout":
            requests += _NETWORK_REQUESTS

        def call() -> Any:
            return operation.execute(envs)

        while (result := self.once(call, operation.name, timeout, requests)) is None:
            if operation.parts:
                # The operation takes several requests, and some of them may have been executed.
                self.catch_up(boards, envs)
                self.mark("part of a rollout")
                return None
            if operation.name != "step":
                continue
            number = self.random.random()
            if number < 0.3:
                return self.collect(operation, envs)
            if number < 0.4:
                self.again(envs.discard, "discard", timeout)
                self.catch_up(boards, envs)
                self.mark("discarded")
                return None
            if number < 0.5:
                self.refuse_other_actions(boards, operation, envs)
        return result

    def collect(self, operation: Operation, envs: Any) -> tuple[Any]:
        """Calls `collect` after an interrupted step. If the step was not sent, steps again."""
        try:
            results = self.again(envs.collect, "collect", timeout_of(envs))
        except gym.error.NoAsyncCallError:
            # The step was not sent.
            return (self.again(lambda: operation.execute(envs), operation.name, timeout_of(envs)),)
        self.mark("collected")
        return (results,)

    def catch_up(self, boards: Boards, envs: Any) -> None:
        """Brings the shadow to the session's state after an operation with an unknown outcome."""
        boards.resolve(self.snapshot(envs), boards.pending)

    def refuse_other_actions(self, boards: Boards, operation: Operation, envs: Any) -> None:
        """Checks that the client refuses other actions while a step has no reply yet."""
        state = envs._session.state
        if type(state).__name__ != "Unanswered" or envs._session.unreturned_step is None:
            return
        other = operations.actions(self.random, boards)[0]
        if (other == operation.actions).all():
            return
        try:
            result = self.once(
                lambda: envs.step(other), "step with other actions", timeout_of(envs)
            )
        except errors.StepPending:
            self.mark("step pending")
            return
        if result is not None:
            raise Violation(f"{boards}: other actions were played before an unanswered step")

    def halves(self, boards: Boards) -> None:
        """Plays a step with `step_async` and `step_wait`, with a pause or a close between them."""
        if not boards.was_reset:
            return
        envs = self.envs[boards.number]
        played = operations.actions(self.random, boards)[0]
        operation = boards.pending = Operation("step", lambda envs: envs.step(played))
        with self.endings(boards, "step_async"):
            try:
                self.again(lambda: envs.step_async(played), "step_async", timeout_of(envs))
                if self.random.random() < 0.1:
                    # A close first finishes the step, even if it never arrived.
                    self.close(boards)
                    return
                self.process.idle(self.random.choice([0.0, 0.01, 1.0]))
                results = self.again(envs.step_wait, "step_wait", timeout_of(envs))
            except REFUSED as error:
                boards.returned(operation, refusal(error))
                return
            boards.returned(operation, digest(results))
            boards.saw(envs)
            self.mark("step in two calls")

    def fork(self, boards: Boards) -> None:
        """Forks some boards, checks the copies, and keeps them as a new session."""
        if not boards.was_reset or len(self.player.boards) > _MAX_BOARDS:
            return
        choose, envs = self.random, self.envs[boards.number]
        lanes = choose.sample(range(boards.num_envs), min(boards.num_envs, choose.randint(1, 4)))
        copies, spawns, seed = choose.randint(1, 3), "same", None
        if boards.make is twofold.Game2048VectorEnv and choose.random() < 0.5:
            spawns, seed = "fresh", choose.randrange(2**32)

        def copy(envs: Any) -> Any:
            return envs.fork(lanes, copies, spawns=spawns, seed=seed)

        # To the session itself, a fork is a snapshot, which changes nothing.
        boards.pending = operations.SNAPSHOT
        try:
            timeout = timeout_of(envs)
            forked = self.again(lambda: copy(envs), "fork", timeout, _FORK_REQUESTS, opens=True)
        except (*LOST, errors.StaleEpoch, errors.ResourceExhausted):
            # The error concerns the session or its copies. The copies are not needed.
            self.perform(boards, operations.OBSERVE)
            return
        boards.pending, boards.last = None, None
        shadow = quiet(lambda: copy(boards.shadow))
        self.player._made += 1
        made = Boards(
            self.player._made,
            boards.make,
            boards.arguments,
            recovers=boards.recovers,
            shadow=shadow,
        )
        self.keep(made, forked)
        self.mark("forked")
        self.perform(made, operations.OBSERVE)

    # ---- sessions end ----------------------------------------------------------------------------

    def finish(self, boards: Boards) -> None:
        """Checks, after all faults have ended, that a session still works. Then closes it."""
        last = [operations.step(self.random, boards), operations.OBSERVE, operations.SNAPSHOT]
        if not boards.was_reset:
            last.insert(0, self.choose_operation(boards))
        for operation in last:
            if not boards.is_lost:
                self.perform(boards, operation)
        if not boards.is_lost:
            self.close(boards)

    def close(self, boards: Boards) -> None:
        """Closes a session."""
        envs = self.envs.pop(boards.number)
        boards.pending = None
        self.player.boards.remove(boards)
        self.end(boards, envs)
        self.mark("closed")

    def end(self, boards: Boards, envs: Any) -> None:
        """Closes an environment. Checks that a server that replied no longer has the session."""
        was_calm, began = self.simulation.is_calm, self.simulation.seconds
        was_closed = self.once(envs.close, "close", CLOSE_TIMEOUT) is not None
        # A second close of the same environment must do nothing.
        self.again(envs.close, "close", CLOSE_TIMEOUT)
        was_answered = self.simulation.seconds - began < CLOSE_TIMEOUT - SLACK
        is_sure = was_answered and not boards.resumes and not self.simulation.may_lose_sessions()
        boards.forget()
        has_to_be_closed = was_closed and (was_calm or is_sure)
        if has_to_be_closed and self.simulation.world.is_open(envs._session.link.id):
            raise Violation(f"{boards}: close returned, but the session is still open")


def hash_of(found: Any) -> str:
    """Returns a short digest of results, which is the same in every process."""
    import zlib

    return f"{zlib.crc32(repr(found).encode()):08x}"
