"""Tests of unanswered steps, whose rewards are collected or discarded, but never lost silently."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import NoAsyncCallError
from loops import actions, hurried, interrupt, make, notes_of, number
from servers import Server

import twofold
from twofold import TwofoldVectorEnv
from twofold.client.carrier import NO_PAYLOAD
from twofold.client.session import journal as journals
from twofold.envs import rollouts
from twofold.errors import (
    DeadlineExceeded,
    FailedPrecondition,
    PermissionDenied,
    ShuttingDown,
    StepPending,
)
from twofold.integrations.text_games import TextGame
from twofold.v1 import envelope_pb2 as envelope

PLAYED = actions(1)
NETWORK = twofold.policies.NTuple([[0, 1]], [np.zeros(256, np.float32)])


@pytest.fixture
def pending(own_server: Server) -> Any:
    """Yields boards with an unanswered step, and their twins, once the server answers again."""
    envs, twin = make(own_server.ipc), make(own_server.ipc)
    for each in (envs, twin):
        each.reset(seed=7)
    with own_server.stopped(), hurried(envs), pytest.raises(DeadlineExceeded):
        envs.step(PLAYED)
    yield envs, twin
    envs.close()
    twin.close()


Pending = tuple[TwofoldVectorEnv, TwofoldVectorEnv]


@pytest.mark.parametrize(
    "call",
    [
        lambda envs: envs.step(actions(2)),
        lambda envs: envs.rollout(3, "random"),
        lambda envs: envs.rollout(3, NETWORK),
        lambda envs: envs.rollout(3, lambda _, mask: mask.argmax(1)),
    ],
    ids=["step", "rollout", "rollout with a network", "rollout with a function"],
)
def test_other_actions_are_refused_until_the_step_is_collected(
    pending: Pending, call: Callable[[TwofoldVectorEnv], object]
) -> None:
    envs, twin = pending
    for _ in range(2):
        with pytest.raises(StepPending, match=r"collect\(\)"):
            call(envs)
    assert number(envs.collect()) == number(twin.step(PLAYED))
    assert number(envs.step(actions(2))) == number(twin.step(actions(2)))
    assert envs.requests == twin.requests


def test_the_same_actions_collect_the_step_too(pending: Pending) -> None:
    envs, twin = pending
    with pytest.raises(StepPending):
        envs.step(actions(2))
    assert number(envs.step(PLAYED)) == number(twin.step(PLAYED))


def test_a_discarded_step_was_applied_once(pending: Pending) -> None:
    envs, twin = pending
    envs.discard()
    envs.discard()
    twin.step(PLAYED)
    assert number(envs.step(actions(2))) == number(twin.step(actions(2)))
    assert envs.requests == twin.requests


@pytest.mark.parametrize(
    "call",
    [
        lambda envs: envs.observe()[0].tobytes(),
        lambda envs: envs.snapshot(),
        lambda envs: envs.reset()[0].tobytes(),
        lambda envs: envs.close(),
    ],
    ids=["observe", "snapshot", "reset", "close"],
)
def test_calls_without_actions_finish_the_step_first(
    pending: Pending, call: Callable[[TwofoldVectorEnv], object]
) -> None:
    envs, twin = pending
    twin.step(PLAYED)
    assert call(envs) == call(twin)


def test_without_a_pending_step_there_is_nothing_to_collect(endpoint: str) -> None:
    envs = make(endpoint)
    for _ in range(2):
        with pytest.raises(NoAsyncCallError, match="nothing to collect"):
            envs.collect()
        envs.discard()
        envs.reset(seed=7)
    envs.step(PLAYED)
    with pytest.raises(NoAsyncCallError):
        envs.collect()
    envs.close()
    with pytest.raises(twofold.errors.ClosedError):
        envs.collect()


def test_an_interrupted_step_is_collected(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    envs, twin = make(endpoint), make(endpoint)
    for each in (envs, twin):
        each.reset(seed=7)

    with monkeypatch.context() as patch:
        patch.setattr(envs._results, "of_step", interrupt)
        with pytest.raises(KeyboardInterrupt) as caught:
            envs.step(PLAYED)
    assert "collect()" in notes_of(caught.value)[0]
    assert number(envs.collect()) == number(twin.step(PLAYED))
    envs.close()
    twin.close()


def test_a_single_environment_has_collect_and_discard(own_server: Server) -> None:
    env: Any = gym.make("twofold/Game2048-v0", endpoint=own_server.ipc).unwrapped
    twin: Any = gym.make("twofold/Game2048-v0", endpoint=own_server.ipc).unwrapped
    env.reset(seed=7)
    twin.reset(seed=7)
    for finish in (env.collect, env.discard):
        with own_server.stopped(), hurried(env._batch), pytest.raises(DeadlineExceeded):
            env.step(1)
        with pytest.raises(StepPending):
            env.step(2)
        told, expected = finish(), twin.step(1)
        if told is not None:
            np.testing.assert_array_equal(told[0], expected[0])
            assert told[1:4] == expected[1:4]
    np.testing.assert_array_equal(env.step(2)[0], twin.step(2)[0])
    env.close()
    twin.close()


# ---- seeds, while a reset is pending -------------------------------------------------------------


def test_an_unanswered_first_reset_is_collected_with_the_seed_that_it_drew(
    own_server: Server,
) -> None:
    envs, twin = make(own_server.ipc), make(own_server.ipc)
    with own_server.stopped(), hurried(envs), pytest.raises(DeadlineExceeded):
        envs.reset()
    boards, _ = envs.reset()
    np.testing.assert_array_equal(boards, twin.reset(seed=envs.np_random_seed)[0])
    assert envs.requests == twin.requests
    np.testing.assert_array_equal(envs.reset()[0], twin.reset()[0])
    envs.close()
    twin.close()


def test_a_first_reset_that_was_never_sent_can_be_made_later(own_server: Server) -> None:
    envs = make(own_server.ipc)
    with own_server.stopped(), hurried(envs):
        for call in (envs.keepalive, envs.reset):
            with pytest.raises(DeadlineExceeded):
                call()
    envs.reset()
    envs.step(PLAYED)
    envs.close()


def test_the_seeds_belong_to_the_executed_requests(pending: Pending, own_server: Server) -> None:
    envs, twin = pending
    with own_server.stopped(), hurried(envs), pytest.raises(DeadlineExceeded):
        envs.reset(seed=9)  # not sent, because the step must be finished first
    assert number(envs.collect()) == number(twin.step(PLAYED))
    assert envs.np_random_seed == 7
    blob = envs.snapshot()
    with own_server.stopped(), hurried(envs):
        for seed in range(9, 20):  # only the first is sent
            with pytest.raises(DeadlineExceeded):
                envs.restore(blob, seed=seed)
    envs.observe()
    assert envs.np_random_seed == 9


# ---- calls within calls --------------------------------------------------------------------------


def test_a_step_inside_a_rollouts_progress_callback_is_a_normal_step(endpoint: str) -> None:
    envs = make(endpoint)
    envs.reset(seed=7)
    envs.rollout(10, "random", progress=lambda _: envs.step(PLAYED))
    before = envs.requests
    envs.step(PLAYED)
    assert envs.requests == before + 1
    envs.close()


@pytest.mark.parametrize("steps", [1, 10])
@pytest.mark.parametrize("policy", ["fixed-order", lambda _, mask: mask.argmax(1)])
def test_a_rollout_stops_if_its_progress_callback_begins_a_step(
    endpoint: str, monkeypatch: pytest.MonkeyPatch, policy: Any, steps: int
) -> None:
    monkeypatch.setattr(rollouts, "reply_bytes", lambda _: 1)
    envs, twin = make(endpoint), make(endpoint)
    for each in (envs, twin):
        each.reset(seed=7)
    with pytest.raises(StepPending):
        envs.rollout(steps, policy, progress=lambda _: envs.step_async(PLAYED))
    twin.rollout(1, policy)
    assert number(envs.step_wait()) == number(twin.step(PLAYED))
    assert number(envs.step(PLAYED)) == number(twin.step(PLAYED))
    envs.close()
    twin.close()


@pytest.mark.parametrize("policy", ["fixed-order", lambda _, mask: mask.argmax(1)])
def test_an_interrupted_step_of_a_progress_callback_is_collected(
    endpoint: str, monkeypatch: pytest.MonkeyPatch, policy: Any
) -> None:
    monkeypatch.setattr(rollouts, "reply_bytes", lambda _: 1)
    envs, twin = make(endpoint), make(endpoint)
    for each in (envs, twin):
        each.reset(seed=7)

    def step(done: int) -> None:
        if done == 2:
            monkeypatch.setattr(envs._results, "of_step", interrupt)
            envs.step(PLAYED)

    with pytest.raises(KeyboardInterrupt) as caught:
        envs.rollout(10, policy, progress=step)
    assert "collect()" in notes_of(caught.value)[0]
    monkeypatch.undo()
    twin.rollout(2, policy)
    assert number(envs.collect()) == number(twin.step(PLAYED))
    envs.close()
    twin.close()


def test_the_results_before_a_resume_have_separate_memory(server: Server) -> None:
    envs = make(server.ipc)
    envs.reset(seed=7)
    resumed: Any = twofold.resume(envs.unwrapped.token)
    resumed.step_async(PLAYED)
    last = resumed.last_results
    before = last[0].copy()
    results = resumed.step_wait()
    assert not np.shares_memory(last[0], results[0])
    np.testing.assert_array_equal(last[0], before)
    resumed.close()


def test_another_reset_after_an_unseen_first_one_continues_its_streams(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    envs, twin = make(endpoint), make(endpoint)

    with monkeypatch.context() as patch:
        patch.setattr(envs._results, "of_reset", interrupt)
        with pytest.raises(KeyboardInterrupt):
            envs.reset(seed=77)
    twin.reset(seed=77)
    np.testing.assert_array_equal(envs.reset()[0], twin.reset()[0])
    assert envs.np_random_seed == 77
    envs.close()
    twin.close()


# ---- a server that is about to stop --------------------------------------------------------------


class Stopping:
    """A block in which a session's service refuses requests because it is about to stop."""

    def __init__(self, envs: TwofoldVectorEnv, monkeypatch: pytest.MonkeyPatch) -> None:
        self._carrier, self._patch = envs._session.link.carrier, monkeypatch

    def __enter__(self) -> None:
        code = envelope.ERROR_CODE_SHUTTING_DOWN
        refused = envelope.Reply(error={"code": code}), NO_PAYLOAD
        for name in ("step", "exchange"):
            self._patch.setattr(self._carrier, name, lambda *_: refused)

    def __exit__(self, *_: object) -> None:
        self._patch.undo()


def test_a_step_that_a_stopping_server_refuses_stays_pending(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A copy of the step may be on its way to the next server.
    envs, twin = make(server.ipc), make(server.ipc)
    for each in (envs, twin):
        each.reset(seed=7)
    with Stopping(envs, monkeypatch):
        for call in (lambda: envs.step(PLAYED), envs.collect, envs.discard, envs.observe):
            with pytest.raises(ShuttingDown):
                call()
        with pytest.raises(StepPending):
            envs.step(actions(2))
    assert number(envs.collect()) == number(twin.step(PLAYED))
    with Stopping(envs, monkeypatch):
        envs.step_async(PLAYED)
        for _ in range(2):
            with pytest.raises(ShuttingDown):
                envs.step_wait()
    assert number(envs.step_wait()) == number(twin.step(PLAYED))
    assert envs.requests == twin.requests
    envs.close()
    twin.close()


def test_a_step_whose_repeat_is_refused_for_its_key_stays_pending(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    envs, twin = make(server.ipc), make(server.ipc)
    for each in (envs, twin):
        each.reset(seed=7)
    carrier: Any = envs._session.link.carrier
    step = carrier.step

    def denied(*arguments: Any) -> Any:
        step(*arguments)
        return envelope.Reply(error={"code": envelope.ERROR_CODE_PERMISSION_DENIED}), NO_PAYLOAD

    with monkeypatch.context() as patch:
        patch.setattr(carrier, "step", denied)
        with pytest.raises(PermissionDenied):
            envs.step(PLAYED)
    with pytest.raises(StepPending):
        envs.step(actions(2))
    assert number(envs.step(PLAYED)) == number(twin.step(PLAYED))
    assert envs.requests == twin.requests
    envs.close()
    twin.close()


def test_a_stopping_server_that_refuses_a_journals_snapshot_changes_nothing(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    envs, twin = make(server.ipc, recover=True), make(server.ipc)
    for each in (envs, twin):
        each.reset(seed=7)
    monkeypatch.setattr(journals, "_MAX_OPERATIONS", 1)
    with monkeypatch.context() as patch, Stopping(envs, patch), pytest.raises(ShuttingDown):
        envs.step(PLAYED)
    for _ in range(3):
        assert number(envs.step(PLAYED)) == number(twin.step(PLAYED))
    envs.close()
    twin.close()


@pytest.mark.parametrize("is_interrupted", [False, True], ids=["refused", "interrupted"])
def test_a_text_game_names_the_action_to_repeat_first(
    is_interrupted: bool, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    game, twin = (TextGame.for_models("2048", {"endpoint": server.ipc}) for _ in range(2))
    for each in (game, twin):
        each.start(7)
        each.play("down")
    with monkeypatch.context() as patch:
        if is_interrupted:
            patch.setattr(game.env._session.link.carrier, "step", interrupt)
            with pytest.raises(KeyboardInterrupt):
                game.play("left")
        else:
            with Stopping(game.env._batch, patch), pytest.raises(ShuttingDown):
                game.play("left")
    with monkeypatch.context() as patch:  # this action is not sent
        patch.setattr(game.env._session, "enter", interrupt)
        with pytest.raises(KeyboardInterrupt):
            game.play("right")
    with pytest.raises(FailedPrecondition, match="repeat 'left' first"):
        game.play("up")
    assert game.play("left") == twin.play("left")
    assert game.play("up") == twin.play("up")
    for each in (game, twin):
        each.env.close()
