"""An interrupt before any bytecode of a step or reset loses nothing and applies nothing twice."""

import contextlib
import signal
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np
import pytest
from gymnasium.error import AlreadyPendingCallError
from loops import flat, interrupt, notes_of, number
from opcodes import moments
from raw import RawSession
from servers import Server

import twofold
from twofold.client.carrier import NO_PAYLOAD
from twofold.client.curve import HandshakeWatch
from twofold.errors import ClosedError, InvalidArgument
from twofold.v1 import envelope_pb2 as envelope


def through_interrupts(
    make: Callable[[], Any], deed: Callable[[Any, int], Any], result: Callable[[Any], Any]
) -> int:
    """Interrupts call n before its n-th bytecode. Checks the result against an uninterrupted twin.

    Returns the number of interrupted calls.

    Args:
        make: A function that makes an environment.
        deed: The call to make in each turn.
        result: A digest that distinguishes the call's outcomes.
    """
    envs, twin = make(), make()
    for moment, at in moments():
        try:
            told = at.call(deed, envs, moment)
            assert not at.has_fired, "the interrupt was swallowed"
        except KeyboardInterrupt:
            assert not envs._session.lock._is_owned(), f"other threads wait, bytecode {moment}"
            told = deed(envs, moment)
        assert result(told) == result(deed(twin, moment)), f"after bytecode {moment}"
    envs.close()
    twin.close()
    return moment


def actions(turn: int) -> Any:
    return np.random.default_rng(turn).integers(0, 4, 3)


@pytest.mark.parametrize(
    ("endpoint", "mode"), [("embedded", "NextStep"), ("ipc", "SameStep")], indirect=["endpoint"]
)
def test_an_interrupt_at_any_bytecode_of_a_step_loses_nothing(endpoint: str, mode: str) -> None:
    def make() -> Any:
        envs = twofold.Game2048VectorEnv(
            3, endpoint=endpoint, autoreset_mode=mode, max_episode_steps=2
        )
        envs.reset(seed=1)
        return envs

    assert through_interrupts(make, lambda envs, turn: envs.step(actions(turn)), number) > 200


def test_a_step_whose_late_copy_was_executed_can_be_repeated_after_an_interrupt(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server refuses the second copy of a step, and executes the first, which arrives later."""
    envs, twin = (twofold.Game2048VectorEnv(3, endpoint=server.ipc) for _ in range(2))
    envs.reset(seed=1)
    twin.reset(seed=1)
    carrier = envs._session.link.carrier
    execute = carrier.step
    refusal = {"code": envelope.ERROR_CODE_RESOURCE_EXHAUSTED, "message": "too little memory"}

    def refuse(*arguments: Any) -> Any:
        execute(*arguments)
        return envelope.Reply(error=refusal), NO_PAYLOAD

    with monkeypatch.context() as patch:
        patch.setattr(type(carrier), "was_repeated", True)
        patch.setattr(carrier, "step", refuse)
        patch.setattr(envs._results, "of_step", interrupt)
        with pytest.raises(KeyboardInterrupt):
            envs.step(actions(0))
    for turn in range(3):
        assert number(envs.step(actions(turn))) == number(twin.step(actions(turn)))
    envs.close()
    twin.close()


def test_afterstates_whose_late_copy_was_executed_are_writable(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    envs = twofold.Game2048VectorEnv(3, endpoint=server.ipc)
    envs.reset(seed=1)
    expected = envs.afterstates()
    carrier = envs._session.link.carrier
    execute = carrier.exchange
    refusal = {"code": envelope.ERROR_CODE_RESOURCE_EXHAUSTED, "message": "too little memory"}

    def refuse_once(*arguments: Any) -> Any:
        monkeypatch.undo()
        execute(*arguments)
        monkeypatch.setattr(type(carrier), "was_repeated", True)
        return envelope.Reply(error=refusal), NO_PAYLOAD

    monkeypatch.setattr(carrier, "exchange", refuse_once)
    found: Any = envs.afterstates()
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.flags.writeable
    envs.close()


def test_a_close_after_an_interrupt_at_any_bytecode_of_a_close_ends_the_session(
    server: Server,
) -> None:
    with RawSession(server.ipc) as session:
        for moment, at in moments():
            envs = twofold.Game2048VectorEnv(1, endpoint=server.ipc)
            with contextlib.suppress(KeyboardInterrupt):
                at.call(envs._session.close)
            envs.close()
            observe = session.request(session=envs._session.link.id, seq=3, observe={})
            code = session.call(observe).error.code
            assert code == envelope.ERROR_CODE_NOT_FOUND, f"after bytecode {moment}"
    assert moment > 50


def test_a_signal_handlers_refused_call_leaves_the_interrupted_methods_lock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    envs = twofold.Game2048VectorEnv(3, endpoint="embedded", extra_infos=("episode",))
    envs.reset(seed=1)
    episodes = envs._episodes
    assert episodes is not None
    refusals = []

    def while_a_handler_steps(interrupted: Callable[..., Any]) -> Callable[..., Any]:
        def both(*arguments: Any, **keywords: Any) -> Any:
            with pytest.raises((ClosedError, InvalidArgument)) as refused:
                envs.step([9, 9, 9])
            refusals.append(refused.type)
            return interrupted(*arguments, **keywords)

        return both

    monkeypatch.setattr(episodes, "statistics", while_a_handler_steps(episodes.statistics))
    assert envs.statistics()["episodes"] == 0
    session = envs._session
    monkeypatch.setattr(session, "_say_goodbye", while_a_handler_steps(session._say_goodbye))
    envs.close()
    assert refusals == [InvalidArgument, ClosedError]


def test_a_second_interrupt_while_the_first_is_handled_loses_nothing(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    envs, twin = (twofold.Game2048VectorEnv(3, endpoint=endpoint) for _ in range(2))
    envs.reset(seed=1)
    twin.reset(seed=1)

    for turn in range(3):
        with monkeypatch.context() as patch:
            patch.setattr(envs._results, "of_step", interrupt)
            patch.setattr(envs._session, "failed", interrupt)
            with pytest.raises(KeyboardInterrupt):
                envs.step(actions(turn))
        assert number(envs.step(actions(turn))) == number(twin.step(actions(turn)))
        with monkeypatch.context() as patch:
            patch.setattr(envs._session, "step_async", _after(envs._session.step_async, interrupt))
            patch.setattr(envs._session, "failed", interrupt)
            with pytest.raises(KeyboardInterrupt):
                envs.step_async(actions(turn))
        envs.step_async(actions(turn))
        assert number(envs.step_wait()) == number(twin.step(actions(turn)))
    envs.close()
    twin.close()


def _after(function: Callable[..., None], then: Callable[[], None]) -> Callable[..., None]:
    def both(*arguments: Any) -> None:
        function(*arguments)
        then()

    return both


def test_an_interrupt_at_any_bytecode_of_a_reset_loses_nothing(server: Server) -> None:
    """Each reset after the first continues the stream, so one reset differs from two."""

    def reset(envs: Any, turn: int) -> Any:
        return envs.reset(seed=None if turn else 1)

    def make() -> Any:
        return twofold.Game2048VectorEnv(3, endpoint=server.ipc)

    assert through_interrupts(make, reset, number) > 200


# With the bytecodes from one interrupt to the next.
@pytest.mark.parametrize(
    ("endpoint", "seed", "stride"),
    [("embedded", [7, None, None], 3), ("ipc", None, 7)],
    indirect=["endpoint"],
    ids=["some", "none"],
)
def test_an_interrupt_at_any_bytecode_of_the_first_reset_draws_no_other_seeds(
    endpoint: str, seed: Any, stride: int
) -> None:
    """A repeated call uses the seeds that the system drew for the first call."""
    twin = twofold.Game2048VectorEnv(3, endpoint="embedded")
    for moment, at in moments(stride):
        envs = twofold.Game2048VectorEnv(3, endpoint=endpoint)
        drawn = int(envs.np_random_seed or 0)
        try:
            boards = at.call(lambda: envs.reset(seed=seed))[0]  # noqa: B023
        except KeyboardInterrupt:
            boards = envs.reset(seed=seed)[0]
        seeds = [drawn + lane if seed is None or seed[lane] is None else 7 for lane in range(3)]
        np.testing.assert_array_equal(
            boards, twin.reset(seed=tuple(seeds))[0], f"bytecode {moment}"
        )
        np.testing.assert_array_equal(envs.reset()[0], twin.reset()[0], f"bytecode {moment}")
        envs.close()
    assert moment > 200
    twin.close()


def test_an_interrupt_at_any_bytecode_of_a_reset_of_some_streams_loses_nothing() -> None:
    """One request resets boards with new seeds and boards whose streams continue."""

    def reset(envs: Any, turn: int) -> Any:
        return envs.reset(seed=[turn, None, turn + 7] if turn else 1)

    def make() -> Any:
        return twofold.Game2048VectorEnv(3, endpoint="embedded")

    assert through_interrupts(make, reset, number) > 200


def test_an_interrupt_at_any_bytecode_of_a_single_environments_step_loses_nothing() -> None:
    def make() -> Any:
        env = twofold.Game2048Env(size=3)
        env.reset(seed=1)
        return env

    def step(env: Any, turn: int) -> Any:
        told = env.step(turn % 4)
        if told[2]:
            env.reset(seed=turn)
        return told

    def result(told: Any) -> Any:
        board, *others, infos = told
        plain = {name: np.asarray(value) for name, value in infos.items()}
        return board.tobytes(), others, flat(plain)

    assert through_interrupts(make, step, result) > 200


def test_an_interrupted_collect_of_a_single_environment_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    env, twin = twofold.Game2048Env(), twofold.Game2048Env()
    for each in (env, twin):
        each.reset(seed=1)
    with monkeypatch.context() as patch:
        patch.setattr(env, "_seen", interrupt)
        with pytest.raises(KeyboardInterrupt):
            env.step(1)
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt) as caught:
                env.collect()
            assert "was applied" in notes_of(caught.value)[0]
    board, *told = env.collect()[:4]
    expected, *others = twin.step(1)[:4]
    np.testing.assert_array_equal(board, expected)
    assert told == others


# ---- signal handlers that use the environment ----------------------------------------------------


# With the bytecodes from one signal to the next, odd numbers.
DEEDS: dict[str, tuple[Callable[[Any, int], Any], int]] = {
    "step": (lambda envs, turn: envs.step(actions(turn)), 3),
    "observe": (lambda envs, turn: envs.observe(), 3),
    "rollout": (lambda envs, turn: rolled(envs.rollout(2, "random")), 31),
}


def rolled(data: twofold.Rollout) -> Any:
    return data.observations, data.actions, data.rewards, data.valid, data.infos


@pytest.mark.parametrize(("deed", "stride"), DEEDS.values(), ids=DEEDS)
def test_a_handler_that_steps_in_the_middle_of_a_call_is_refused_or_makes_a_whole_step(
    endpoint: str, deed: Callable[[Any, int], Any], stride: int
) -> None:
    envs, twin = (twofold.Game2048VectorEnv(3, endpoint=endpoint) for _ in range(2))
    envs.reset(seed=1)
    twin.reset(seed=1)
    refused = 0
    for moment, at in moments(stride):
        # The actions of a step and of the handler's are the same half of the time.
        other = actions(moment + moment % 2)
        seen: list[int] = []

        def step(other: Any = other, seen: list[int] = seen) -> None:
            try:
                seen.append(number(envs.step(other)))
            except AlreadyPendingCallError:
                if moment // 2 % 2:  # noqa: B023 - called in this round only
                    raise

        at.handler = step
        try:
            told = number(at.call(deed, envs, moment))
        except AlreadyPendingCallError:
            told = number(deed(envs, moment))
        refused += at.has_fired and not seen
        standing = twin.snapshot()
        after = [number(deed(twin, moment))]
        if seen:
            after.append(number(twin.step(other)))
        if seen and [told, *seen] != after:
            # The handler's step came first.
            twin.restore(standing)
            after = [number(twin.step(other)), number(deed(twin, moment))][::-1]
        assert [told, *seen] == after, f"bytecode {moment}"
    assert moment / stride > refused > 20
    envs.close()
    twin.close()


@pytest.mark.parametrize(
    "call",
    [
        lambda envs, array: envs.step(array),
        lambda envs, array: envs.step_async(array),
        lambda envs, array: envs.reset(options={"boards": array}),
        lambda envs, array: envs.rollout(1, actions=array),
        lambda envs, array: envs.rollout(1, "random", out={"rewards": array}),
    ],
    ids=["step", "step_async", "reset", "actions", "out"],
)
def test_a_handlers_exception_while_an_array_is_read_reaches_the_caller(
    call: Callable[[Any, Any], object],
) -> None:
    class Interrupted:
        def __array__(self, *_: object, **__: object) -> Any:
            signal.raise_signal(signal.SIGUSR1)

    def late(*_: object) -> NoReturn:
        raise TimeoutError("the trainer's own limit")

    envs = twofold.Game2048VectorEnv(3, endpoint="embedded")
    envs.reset(seed=1)
    before = envs.snapshot()
    previous = signal.signal(signal.SIGUSR1, late)
    try:
        with pytest.raises(TimeoutError, match="the trainer's own limit"):
            call(envs, Interrupted())
    finally:
        signal.signal(signal.SIGUSR1, previous)
    assert envs.snapshot() == before
    envs.close()


@pytest.mark.parametrize(("deed", "stride"), DEEDS.values(), ids=DEEDS)
def test_a_handler_may_close_the_environment_that_it_interrupts(
    endpoint: str, deed: Callable[[Any, int], Any], stride: int
) -> None:
    def make() -> Any:
        # Each reply has a header to decode, because it ends episodes.
        envs = twofold.Game2048VectorEnv(
            3, endpoint=endpoint, autoreset_mode="SameStep", max_episode_steps=1
        )
        envs.reset(seed=1)
        return envs

    twin = make()
    expected = number(deed(twin, 1))
    twin.close()
    closed = 0
    # Fewer moments than above, because each needs a new environment.
    for _, at in moments(3 * stride):
        envs = make()
        at.handler = envs.close
        try:
            assert number(at.call(deed, envs, 1)) == expected
        except twofold.errors.ClosedError:
            assert at.has_fired
            closed += 1
        envs.close()
    assert closed > 10


def test_a_handler_that_asks_for_rules_at_any_bytecode_of_such_a_call_gets_its_answer(
    endpoint: str,
) -> None:
    board = np.array([[1, 1], [0, 2]], np.uint8)
    answers: list[list[int]] = []

    def ask() -> None:
        answers.append(twofold.rules.legal(board, endpoint=endpoint).tolist())

    for _, at in moments(10):
        at.handler = ask
        before = len(answers)
        at.call(ask)
        assert answers[before:] == [[0, 1, 1, 1]] * (1 + at.has_fired)
    assert len(answers) > 20


class WatchedSocket:
    """A socket and its monitor. libzmq's thread blocks if the monitor closes while it is in use."""

    def __init__(self) -> None:
        self.has_monitor = False
        self.was_blocked = False
        self.context = SimpleNamespace(socket=lambda _: MonitorSocket(self))

    def monitor(self, address: str, events: int) -> None:
        self.has_monitor = True

    def disable_monitor(self) -> None:
        self.has_monitor = False


class MonitorSocket:
    def __init__(self, watched: WatchedSocket) -> None:
        self._watched = watched

    def set(self, option: int, value: int) -> None:
        pass

    def connect(self, address: str) -> None:
        pass

    def close(self) -> None:
        self._watched.was_blocked |= self._watched.has_monitor

    __del__ = close  # as in pyzmq


def test_an_interrupt_while_a_connection_is_dropped_does_not_block_libzmq() -> None:
    def attach_and_detach(watch: HandshakeWatch, socket: Any) -> None:
        watch.attach(socket)
        watch.detach()

    for moment, at in moments():
        watch, socket = HandshakeWatch("tcp://127.0.0.1:5555", None), WatchedSocket()
        with contextlib.suppress(KeyboardInterrupt):
            at.call(attach_and_detach, watch, socket)
        watch.detach()  # before the next request
        assert not socket.has_monitor
        assert not socket.was_blocked, f"after bytecode {moment}"
