"""Tests that `step_async` and `step_wait` together equal `step`."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.error import AlreadyPendingCallError, NoAsyncCallError
from loops import actions, hurried, interrupt, make, notes_of, number, one_step, undisturbed
from opcodes import moments
from raw import statistics_of
from servers import Server, wait_until

import twofold
from twofold import TwofoldVectorEnv
from twofold.errors import ClosedError, DeadlineExceeded, FailedPrecondition, InvalidArgument


def halves(envs: TwofoldVectorEnv, step: int) -> int:
    """Plays `one_step` with each step in two calls."""
    if step % 400 == 0:
        return one_step(envs, step)
    envs.step_async(actions(step, envs.num_actions))
    return number(envs.step_wait())


@pytest.fixture
def envs(endpoint: str) -> Any:
    envs = make(endpoint)
    envs.reset(seed=7)
    yield envs
    envs.close()


# ---- the same steps ------------------------------------------------------------------------------


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_the_two_calls_equal_one_step(endpoint: str, game: str, mode: str, copy: bool) -> None:
    envs, twin = (make(endpoint, game, autoreset_mode=mode, copy=copy) for _ in range(2))
    # Two resets, the first one with a seed. Each is followed by a whole episode and more.
    for step in (0, *range(330, 470)):
        assert halves(envs, step) == one_step(twin, step), f"step {step}"
    assert envs.requests == twin.requests
    envs.close()
    twin.close()


def test_a_dialects_actions_are_translated(endpoint: str) -> None:
    envs, twin = (twofold.Game2048VectorEnv(16, dialect="pgx", endpoint=endpoint) for _ in range(2))
    envs.reset(seed=1)
    twin.reset(seed=1)
    for step in range(20):
        envs.step_async(actions(step))
        assert number(envs.step_wait()) == number(twin.step(actions(step)))
    envs.close()
    twin.close()


def test_the_server_executes_the_step_in_the_background(own_server: Server) -> None:
    envs = make(own_server.tcp)
    envs.reset(seed=7)
    envs.step_async(actions(1))
    wait_until(lambda: statistics_of(own_server.ipc).counters.steps == 16)
    envs.step_wait()
    envs.close()


# ---- calls out of order --------------------------------------------------------------------------

OTHER_CALLS: dict[str, Callable[[TwofoldVectorEnv], object]] = {
    "step_async": lambda envs: envs.step_async(actions(1)),
    "step": lambda envs: envs.step(actions(1)),
    "reset": lambda envs: envs.reset(seed=3),
    "observe": lambda envs: envs.observe(),
    "afterstates": lambda envs: envs.afterstates(),
    "snapshot": lambda envs: envs.snapshot(),
    "restore": lambda envs: envs.restore(b"a snapshot"),
    "fork": lambda envs: envs.fork([0]),
    "keepalive": lambda envs: envs.keepalive(),
    "rollout": lambda envs: envs.rollout(2, "random"),
    "render": lambda envs: envs.render(),
}


@pytest.mark.parametrize("call", OTHER_CALLS.values(), ids=OTHER_CALLS)
def test_nothing_else_can_be_called_before_the_wait(
    endpoint: str, call: Callable[[TwofoldVectorEnv], object]
) -> None:
    envs, twin = (make(endpoint, render_mode="ansi") for _ in range(2))
    for each in (envs, twin):
        each.reset(seed=7)
    envs.step_async(actions(1))
    with pytest.raises(AlreadyPendingCallError, match="step_wait"):
        call(envs)
    assert number(envs.step_wait()) == number(twin.step(actions(1)))
    # The refused calls also left the reported seeds unchanged.
    assert envs.np_random_seed == 7
    assert number(envs.step(actions(2))) == number(twin.step(actions(2)))
    envs.close()
    twin.close()


def test_a_wait_without_a_step_is_refused(envs: TwofoldVectorEnv) -> None:
    with pytest.raises(NoAsyncCallError, match="step_async"):
        envs.step_wait()
    envs.step_async(actions(1))
    envs.step_wait()
    with pytest.raises(NoAsyncCallError):
        envs.step_wait()
    envs.step(actions(2))
    with pytest.raises(NoAsyncCallError):
        envs.step_wait()
    envs.step(actions(3))


def test_a_close_abandons_the_step(envs: TwofoldVectorEnv) -> None:
    envs.step_async(actions(1))
    envs.close()
    for call in (envs.step_wait, envs.observe, envs.close):
        if call == envs.close:
            call()
            continue
        with pytest.raises(ClosedError):
            call()


# ---- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("bad", "lane"), [(4, 3), (-1, 0), (256, 15), (2**40, 8)])
def test_bad_actions_begin_no_step(envs: TwofoldVectorEnv, bad: int, lane: int) -> None:
    numbers = np.zeros(16, np.int64)
    numbers[lane] = bad
    with pytest.raises(InvalidArgument, match=f"actions.*{bad}") as caught:
        envs.step_async(numbers)
    assert (caught.value.field, caught.value.lane) == ("actions", lane)
    with pytest.raises(NoAsyncCallError):
        envs.step_wait()
    envs.step(actions(1))


def test_a_refused_step_is_over(endpoint: str) -> None:
    envs = make(endpoint)
    for _ in range(2):
        with pytest.raises(FailedPrecondition, match="reset"):
            halves(envs, 1)
    with pytest.raises(NoAsyncCallError):
        envs.step_wait()
    envs.reset(seed=7)
    envs.step_async(actions(1))
    envs.step_wait()
    envs.close()


def test_a_wait_for_a_step_without_an_answer_can_be_repeated(own_server: Server) -> None:
    envs, twin = make(own_server.ipc), make(own_server.ipc)
    envs.reset(seed=7)
    twin.reset(seed=7)
    with own_server.stopped(), hurried(envs):
        envs.step_async(actions(1))
        for _ in range(2):
            with pytest.raises(DeadlineExceeded, match="pending"):
                envs.step_wait()
        with pytest.raises(AlreadyPendingCallError):
            envs.observe()
    assert number(envs.step_wait()) == number(twin.step(actions(1)))
    assert envs.requests == twin.requests
    envs.close()
    twin.close()


@pytest.mark.parametrize("is_first", [False, True], ids=["after a wait", "at once"])
def test_a_begun_step_can_be_collected_and_discarded(own_server: Server, is_first: bool) -> None:
    envs, twin = make(own_server.ipc), make(own_server.ipc)
    envs.reset(seed=7)
    twin.reset(seed=7)
    for end in (envs.collect, envs.discard):
        with own_server.stopped(), hurried(envs):
            envs.step_async(actions(1))
            for wait in () if is_first else (envs.step_wait, end):
                with pytest.raises(DeadlineExceeded):
                    wait()
        results, expected = end(), twin.step(actions(1))
        assert results is None or number(results) == number(expected)
        with pytest.raises(NoAsyncCallError):
            envs.step_wait()
        assert number(envs.step(actions(2))) == number(twin.step(actions(2)))
    assert envs.requests == twin.requests
    envs.close()
    twin.close()


@pytest.mark.parametrize("copy", [True, False])
def test_collect_and_discard_also_end_a_step_in_the_process(copy: bool) -> None:
    envs, twin = make("embedded", copy=copy), make("embedded")
    envs.reset(seed=7)
    twin.reset(seed=7)
    envs.step_async(actions(1))
    assert number(envs.collect()) == number(twin.step(actions(1)))
    envs.step_async(actions(2))
    envs.discard()
    twin.step(actions(2))
    with pytest.raises(NoAsyncCallError):
        envs.collect()
    assert number(envs.step(actions(3))) == number(twin.step(actions(3)))
    envs.close()
    twin.close()


@pytest.mark.parametrize("is_sent", [False, True])
def test_boards_are_recovered_if_the_server_dies_during_a_step(
    own_server: Server, is_sent: bool
) -> None:
    expected = undisturbed(None, 30)
    envs = make(own_server.ipc, recover=True)
    results = [one_step(envs, 0)]
    for step in range(1, 30):
        if step % 10 == 5 and not is_sent:
            own_server.kill()
        envs.step_async(actions(step))
        if step % 10 == 5:
            if is_sent:
                own_server.kill()
            own_server.start_again()
        results.append(number(envs.step_wait()))
    assert results == expected
    envs.close()


# ---- interrupts ----------------------------------------------------------------------------------


# Over tcp, the package executes the same bytecodes as over ipc.
@pytest.mark.parametrize("endpoint", ["embedded", "ipc"], indirect=True)
@pytest.mark.parametrize("first", [True, False], ids=["step_async", "step_wait"])
def test_an_interrupt_at_any_bytecode_loses_nothing(endpoint: str, first: bool) -> None:
    envs, twin = make(endpoint), make(endpoint)
    envs.reset(seed=7)
    twin.reset(seed=7)
    for moment, at in moments(2):
        if not first:
            envs.step_async(actions(moment))
        call: Any = (lambda turn: envs.step_async(actions(turn))) if first else _wait(envs)
        try:
            results = at.call(call, moment)
        except KeyboardInterrupt:
            results = call(moment)
        if first:
            results = envs.step_wait()
        expected = twin.step(actions(moment))
        assert number(results) == number(expected), f"bytecode {moment}"
    assert moment > 100
    envs.close()
    twin.close()


def test_the_note_of_an_interrupted_wait_names_the_wait(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    envs = make(endpoint)
    envs.reset(seed=7)
    envs.step_async(actions(1))

    with monkeypatch.context() as patch:
        patch.setattr(envs._results, "of_step", interrupt)
        with pytest.raises(KeyboardInterrupt) as caught:
            envs.step_wait()
    (note,) = notes_of(caught.value)
    assert "Repeating the call returns its result; it must come before any other" in note
    envs.step_wait()
    envs.close()


def _wait(envs: TwofoldVectorEnv) -> Callable[[int], Any]:
    return lambda _: envs.step_wait()


def test_a_thread_can_wait_for_a_step_that_another_thread_began(envs: TwofoldVectorEnv) -> None:
    twin = make(None)
    twin.reset(seed=7)
    envs.step_async(actions(1))
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(envs.step_wait()))
    thread.start()
    thread.join()
    assert number(results[0]) == number(twin.step(actions(1)))
    twin.close()


def test_a_forked_child_cannot_wait_for_its_parents_step(envs: TwofoldVectorEnv) -> None:
    envs.step_async(actions(1))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            envs.step_wait()
        except BaseException as error:
            os.write(writing, type(error).__name__.encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 100) == b"ClosedError"
    os.close(reading)
    os.close(writing)
    envs.step_wait()


def test_the_example_with_two_halves_prints_the_gain(server: Server) -> None:
    example = Path(__file__).resolve().parents[1] / "examples" / "two_halves.py"
    few = ["--num-envs", "64", "--rounds", "1", "--steps", "20", "--endpoint", server.tcp]
    run = subprocess.run(
        [sys.executable, str(example), *few], capture_output=True, text=True, check=True
    )
    assert re.search(r"two halves .* steps/s, \d\.\d\d times as many", run.stdout)
