"""Tests of worker processes: pickled policies, and play in the worker or on a server."""

import copy
import multiprocessing
import pickle
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest
from evaluations import first_legal
from loops import actions, assert_same, interrupt, make, number
from raw import statistics_of
from servers import PATIENCE, Server

import twofold
from twofold import errors, policies
from twofold.client.session import states
from twofold.policies.baselines import RandomPolicy
from twofold.policies.lookup import load, resolve

# With the number of workers. A spawned worker imports everything again, which takes the longest.
METHODS = [("fork", 2), pytest.param("forkserver", 2, marks=pytest.mark.long), ("spawn", 1)]


def network() -> policies.NTuple:
    weights = np.random.default_rng(0).normal(size=256).astype(np.float32)
    return policies.NTuple([[0, 1]], [weights])


# ---- policies that travel ------------------------------------------------------------------------

POLICIES: dict[str, Callable[[], Any]] = {
    "function": lambda: first_legal,
    "random numbers": lambda: RandomPolicy(3),
    "named function": lambda: resolve(first_legal, "first"),
    "named random numbers": lambda: resolve(RandomPolicy(3)),
    "random": lambda: resolve("random"),
    "fixed-order": lambda: resolve("fixed-order"),
    "greedy": lambda: resolve("greedy"),
    "search": lambda: policies.Expectimax(depth=1, extension=2),
    "named search": lambda: resolve("expectimax:1"),
    "network": network,
    "named network": lambda: resolve(network()),
}
# Plain pickle can't do this, because the function can't be imported by name.
BY_VALUE: dict[str, Callable[[], Any]] = {
    "loaded function": lambda: load(f"{__file__}:first_legal"),
    "lambda": lambda: lambda observations, mask: mask.argmax(axis=1),
    "named lambda": lambda: resolve(lambda observations, mask: mask.argmax(axis=1)),
}
PICKLES = {"pickle": pickle.dumps, "cloudpickle": cloudpickle.dumps}


@pytest.mark.parametrize(
    ("name", "pickler"),
    [(name, "pickle") for name in POLICIES] + [(name, "cloudpickle") for name in BY_VALUE],
)
def test_a_pickled_policy_plays_the_same_games(name: str, pickler: str) -> None:
    policy = (POLICIES | BY_VALUE)[name]()
    other = pickle.loads(PICKLES[pickler](policy))
    envs, twin = make("embedded"), make("embedded")
    envs.reset(seed=1), twin.reset(seed=1)
    assert_same(envs.rollout(70, other), twin.rollout(70, policy))
    envs.close()
    twin.close()


@pytest.mark.parametrize("duplicate", [copy.deepcopy, *PICKLES.values()])
def test_a_pickled_perfect_memory_still_knows_the_cards_that_it_has_seen(
    duplicate: Callable[[Any], Any],
) -> None:
    envs, twin = make("embedded", "Concentration"), make("embedded", "Concentration")
    envs.reset(seed=1), twin.reset(seed=1)
    mine, its = policies.PerfectMemory(envs), policies.PerfectMemory(twin)
    envs.rollout(10, mine), twin.rollout(10, its)
    again = duplicate(mine)
    again = pickle.loads(again) if isinstance(again, bytes) else again
    assert_same(envs.rollout(40, again), twin.rollout(40, its))
    named = pickle.loads(pickle.dumps(resolve("perfect-memory")))
    assert_same(envs.rollout(40, named), twin.rollout(40, "perfect-memory"))
    envs.close()
    twin.close()


def test_a_pickled_rollout_is_the_same_rollout() -> None:
    envs = make("embedded", autoreset_mode="same_step")
    envs.reset(seed=1)
    rollout = envs.rollout(90, "random", infos=["score"])
    assert rollout.finals is not None
    assert_same(pickle.loads(pickle.dumps(rollout)), rollout)
    envs.close()


# ---- workers -------------------------------------------------------------------------------------


def play(endpoints: list[str], policy: Any, seed: int) -> list[list[int]]:
    """Plays games at each endpoint: first a rollout, and then single steps."""
    results = []
    for endpoint in endpoints:
        envs = make(endpoint)
        envs.reset(seed=seed)
        rollout = envs.rollout(30, copy.deepcopy(policy))
        played = [number((rollout.observations, rollout.actions, {}))]
        results.append(played + [number(envs.step(actions(step))) for step in range(30)])
        envs.close()
    return results


def refused(endpoint: str) -> None:
    envs = make(endpoint)
    try:
        envs.reset(seed=0)
        envs.step(np.where(np.arange(16) == 5, 9, 0))
    finally:
        envs.close()


def wrong(observations: Any, action_mask: Any) -> Any:
    return action_mask.argmin(axis=1) + 4


@pytest.mark.parametrize(("method", "workers"), METHODS)
def test_workers_play_in_their_process_and_on_a_server_at_once(
    method: str, workers: int, server: Server
) -> None:
    """Results and errors are the same as in this process, which has boards of both kinds."""
    endpoints = ["embedded", server.ipc, server.tcp]
    mine = [make(endpoint) for endpoint in endpoints]
    for envs in mine:
        envs.reset(seed=9)
    expected = [play(["embedded"], RandomPolicy(seed), seed)[0] for seed in range(3)]
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        played = [pool.submit(play, endpoints, RandomPolicy(seed), seed) for seed in range(3)]
        failed = [pool.submit(refused, endpoint) for endpoint in endpoints]
        broken = pool.submit(play, endpoints, wrong, 0)
        own = [number(envs.step(actions(0))) for envs in mine]
        assert [each.result(PATIENCE) for each in played] == [[each] * 3 for each in expected]
        for each in failed:
            with pytest.raises(errors.InvalidArgument, match=r"actions\[5\] is 9") as caught:
                each.result(PATIENCE)
            assert (caught.value.field, caught.value.lane) == ("actions", 5)
        with pytest.raises(errors.PolicyError) as told:
            broken.result(PATIENCE)
        assert (told.value.policy, told.value.call, told.value.lane) == ("wrong", 0, 0)
    assert len(set(own)) == 1
    assert len({number(envs.step(actions(1))) for envs in mine}) == 1
    for envs in mine:
        envs.close()


_kept: list[Any] = []


def keep_boards(endpoint: str) -> None:
    """Makes boards that live as long as the process."""
    _kept.append(make(endpoint))


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_a_workers_boards_end_with_it(method: str, own_server: Server) -> None:
    context: Any = multiprocessing.get_context(method)
    worker = context.Process(target=keep_boards, args=(own_server.ipc,))
    worker.start()
    worker.join(PATIENCE)
    assert worker.exitcode == 0
    counters = statistics_of(own_server.ipc).counters
    assert (counters.sessions_created, counters.sessions_closed) == (1, 1)


def play_in_a_thread(outcome: Any) -> None:
    """Returns while a thread still plays."""
    envs = make("embedded")
    envs.reset(seed=0)

    def play() -> None:
        try:
            for step in range(200):
                envs.step(actions(step))
                time.sleep(0.001)
            outcome.send("played")
        except Exception as error:
            outcome.send(repr(error))

    threading.Thread(target=play).start()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_workers_threads_play_to_their_end(method: str) -> None:
    context: Any = multiprocessing.get_context(method)
    ours, theirs = context.Pipe()
    worker = context.Process(target=play_in_a_thread, args=(theirs,))
    worker.start()
    assert ours.poll(PATIENCE)
    assert ours.recv() == "played"
    worker.join(PATIENCE)
    assert worker.exitcode == 0


def test_gymnasiums_async_workers_share_a_server(server: Server) -> None:
    arguments: dict[str, Any] = {"endpoint": server.ipc, "size": 3, "max_episode_steps": 20}
    envs = gym.make_vec(
        "twofold:twofold/Game2048-v0",
        num_envs=3,
        vectorization_mode="async",
        vector_kwargs={"context": "fork"},
        **arguments,
    )
    twin = twofold.Game2048VectorEnv(3, **arguments)
    np.testing.assert_array_equal(envs.reset(seed=2)[0], twin.reset(seed=2)[0])
    for step in range(30):
        played = actions(step)[:3]
        for mine, its in zip(envs.step(played)[:4], twin.step(played)[:4], strict=True):
            np.testing.assert_array_equal(mine, its)
    envs.close()
    twin.close()


# ---- several in one process ----------------------------------------------------------------------


def test_threads_with_their_own_boards_do_not_disturb_each_other(server: Server) -> None:
    """Uses both games, in the process and on a server, with steps and with rollouts."""

    def results(game: str, endpoint: str) -> list[int]:
        envs = make(endpoint, game)
        envs.reset(seed=4)
        policy, told = RandomPolicy(7), []
        for step in range(30):
            rollout = envs.rollout(3, policy)
            told.append(number((rollout.observations, rollout.rewards, {})))
            told.append(number(envs.step(actions(step, envs.num_actions) * 0)))
        envs.close()
        return told

    games = ("Game2048", "Concentration")
    alone = {game: results(game, "embedded") for game in games}
    found: dict[tuple[str, str, int], list[int]] = {}

    def keep(*key: Any) -> None:
        found[key] = results(*key[:2])

    keys = [(game, at, i) for game in games for at in ("embedded", server.ipc) for i in range(2)]
    threads = [threading.Thread(target=keep, args=key) for key in keys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {key: alone[key[0]] for key in keys}


# ---- one environment in several threads ----------------------------------------------------------


def test_another_threads_call_waits_until_a_failed_call_has_recorded_its_outcome(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    envs, twin = make(endpoint), make("embedded")
    envs.reset(seed=4)
    twin.reset(seed=4)
    others: list[threading.Thread] = []
    leave = states.Answered.left

    def while_another_observes(state: states.Answered) -> states.State:
        # Only the failed call gives the other thread a chance, not the other thread itself.
        if not others:
            others.append(threading.Thread(target=envs.observe))
            others[0].start()
            others[0].join(0.5)
        return leave(state)

    monkeypatch.setattr(states.Answered, "left", while_another_observes)
    with monkeypatch.context() as patch:
        patch.setattr(envs._results, "of_step", interrupt)
        with pytest.raises(KeyboardInterrupt):
            envs.step(actions(1))
    others[0].join(PATIENCE)
    twin.step(actions(1))
    assert number(envs.step(actions(2))) == number(twin.step(actions(2)))
    envs.close()
    twin.close()


@pytest.mark.parametrize("is_long", [False, True], ids=["short", "long"])
def test_a_close_during_another_threads_call_ends_the_session_after_that_call(
    server: Server, is_long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    envs, twin = make(server.ipc), make("embedded")
    envs.reset(seed=4)
    twin.reset(seed=4)
    token, read = envs.token, envs._results.of_step
    is_running, is_closed = threading.Event(), threading.Event()

    def slowly(*arguments: Any) -> Any:
        is_running.set()
        is_closed.wait(PATIENCE if is_long else 0.2)
        return read(*arguments)

    monkeypatch.setattr(envs._results, "of_step", slowly)
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(envs.step(actions(1))))
    thread.start()
    is_running.wait(PATIENCE)
    envs.close()
    is_closed.set()
    thread.join(PATIENCE)
    assert number(results[0]) == number(twin.step(actions(1)))
    with pytest.raises(errors.NotFound):
        twofold.resume(token)
    with pytest.raises(errors.ClosedError):
        envs.step(actions(2))
    twin.close()


def test_a_close_waits_for_another_threads_rollout_of_a_function() -> None:
    envs, twin = make("embedded"), make("embedded")
    envs.reset(seed=4)
    twin.reset(seed=4)
    is_running, is_closed = threading.Event(), threading.Event()
    calls: list[int] = []

    def slowly(observations: Any, action_mask: Any) -> Any:
        calls.append(len(observations))
        is_running.set()
        is_closed.wait(0.2 if len(calls) == 1 else 0)
        return first_legal(observations, action_mask)

    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(envs.rollout(20, slowly)))
    thread.start()
    is_running.wait(PATIENCE)
    envs._session.close(PATIENCE)
    played = len(calls)
    is_closed.set()
    thread.join(PATIENCE)
    assert played == 20
    assert_same(results[0], twin.rollout(20, first_legal))
    with pytest.raises(errors.ClosedError):
        envs.observe()
    twin.close()
