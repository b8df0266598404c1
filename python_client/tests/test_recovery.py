"""Bad networks, killed servers and interrupts only delay the training loop."""

import asyncio
import code
import concurrent.futures
import contextlib
import gc
import itertools
import os
import random
import signal
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from faults import DELAY, DROP, DUPLICATE, KINDS, REORDER, FaultProxy
from loops import (
    Interrupts,
    assert_same,
    hurried,
    interrupt,
    interrupt_when,
    make,
    notes_of,
    one_step,
    play,
    undisturbed,
)
from raw import RawSession, statistics_of
from servers import Server, child_servers, private_server_pid

import twofold
from twofold import errors
from twofold.client.session import journal as journals
from twofold.client.session.journal import part
from twofold.client.session.states import Idle, Operation
from twofold.envs import rollouts
from twofold.envs.rollout import Collected
from twofold.policies.served_policies import upload
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import rollout_pb2 as wire

# ---- a bad network -------------------------------------------------------------------------------


def test_a_bad_network_changes_nothing(server: Server, steps: int, scale: int) -> None:
    steps = 600 if scale == 1 else steps
    expected = undisturbed(server.ipc, steps)
    with FaultProxy(server.ipc, rate=0.1, seed=1) as proxy:
        envs = make(proxy.endpoint)
        assert play(envs, steps) == expected
        envs.close()
        assert all(proxy.counts[kind] > steps / 100 for kind in KINDS)


@pytest.mark.parametrize("kind", [DROP, DELAY, DUPLICATE, REORDER])
def test_a_network_with_one_fault_in_every_other_message_changes_nothing(
    server: Server, kind: str
) -> None:
    expected = undisturbed(server.ipc, 12)
    with FaultProxy(server.ipc, rate=0.5, kinds=[kind], seed=2) as proxy:
        envs = make(proxy.endpoint)
        assert play(envs, 12) == expected
        envs.close()


def test_a_close_after_a_step_that_never_arrived_ends_the_session(own_server: Server) -> None:
    with FaultProxy(own_server.ipc, kinds=[DROP]) as proxy:
        envs = make(proxy.endpoint)
        envs.reset(seed=3)
        proxy.rate = 1
        with hurried(envs), pytest.raises(errors.DeadlineExceeded):
            one_step(envs, 0)
        proxy.rate = 0
        envs.close()
    assert statistics_of(own_server.ipc).usage.sessions == 0


def test_connections_that_are_cut_change_nothing(server: Server, game: str) -> None:
    expected = undisturbed(server.ipc, 300, game)
    with FaultProxy(server.ipc) as proxy:
        envs = make(proxy.endpoint, game)
        results = []
        for step in range(300):
            if step % 15 == 7:
                # The proxy passes the step on before it decides, so the reply is lost.
                proxy.cut()
            results.append(one_step(envs, step))
        assert results == expected
        assert proxy.counts["cut"] > 10
        envs.close()


# ---- interrupts ----------------------------------------------------------------------------------


def play_through_interrupts(envs: Any, expected: list[int], times: int, longest: float) -> int:
    """Plays steps, repeating each interrupted call. Returns the number of explained interrupts."""
    interrupts, step = 0, 0
    with Interrupts(seed=3, longest=longest):
        while step < len(expected):
            try:
                result = one_step(envs, step)
            except KeyboardInterrupt as interrupt:
                # An interrupt before the call begins has no note. Neither has a second interrupt
                # while the first is being explained.
                interrupts += notes_of(interrupt) != []
                continue
            assert result == expected[step], f"step {step}"
            step += 1
            if step == len(expected) and interrupts < times:
                step = 0
    return interrupts


def test_interrupts_at_random_moments_change_nothing(endpoint: str, scale: int) -> None:
    expected = undisturbed(endpoint, 100)
    envs = make(endpoint)
    assert play_through_interrupts(envs, expected, 50 * scale, 0.004) >= 50 * scale
    envs.close()


def test_the_note_says_whether_the_step_was_applied(own_server: Server) -> None:
    with FaultProxy(own_server.ipc) as proxy:
        envs, twin = make(proxy.endpoint), make(own_server.ipc)
        check_notes(envs, twin, own_server, proxy)
        envs.close()
        twin.close()


def check_notes(envs: Any, twin: Any, own_server: Server, proxy: FaultProxy) -> None:
    envs.reset(seed=0)
    twin.reset(seed=0)
    action = np.zeros(16, int)

    with own_server.stopped():
        interrupt_when(proxy.passes_another())
        with pytest.raises(KeyboardInterrupt) as caught:
            envs.step(action)
    assert "was sent and has no answer yet; it is applied once" in notes_of(caught.value)[0]
    np.testing.assert_array_equal(envs.step(action)[0], twin.step(action)[0])

    # The reply has arrived, but the interrupt comes before the user gets it.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(envs._results, "_observations", interrupt)
        with pytest.raises(KeyboardInterrupt) as caught:
            envs.step(action)
    assert "was applied. Repeating the call, or collect(), returns its" in notes_of(caught.value)[0]
    np.testing.assert_array_equal(envs.step(action)[1], twin.step(action)[1])

    class Rude:
        def __array__(self, *_: Any, **__: Any) -> Any:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        envs.step(Rude())
    assert "was not applied; nothing was sent" in notes_of(caught.value)[0]
    np.testing.assert_array_equal(envs.step(action)[0], twin.step(action)[0])
    np.testing.assert_array_equal(envs.observe()[0], twin.observe()[0])


def test_another_step_after_an_applied_one_continues_from_there(endpoint: str) -> None:
    envs, twin = make(endpoint), make(endpoint)
    envs.reset(seed=0)
    twin.reset(seed=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(envs._results, "_observations", interrupt)
        with pytest.raises(KeyboardInterrupt):
            envs.step(np.zeros(16, int))
    twin.step(np.zeros(16, int))
    np.testing.assert_array_equal(envs.step(np.ones(16, int))[0], twin.step(np.ones(16, int))[0])
    envs.close()
    twin.close()


# ---- event loops and notebooks -------------------------------------------------------------------


def test_everything_works_inside_a_running_event_loop(server: Server) -> None:
    async def run() -> list[int]:
        other = asyncio.create_task(asyncio.sleep(0))
        envs = make(server.ipc)
        results = play(envs, 50)
        envs.close()
        await other
        return results

    assert asyncio.run(run()) == undisturbed(server.ipc, 50)


CELL = """
import gymnasium as gym, numpy as np, twofold
envs = gym.make_vec("twofold/Game2048-v0", num_envs=2, endpoint="private")
envs.reset(seed=0)
for _ in range(10):
    envs.step(np.array([0, 1]))
"""


def test_rerunning_a_notebook_cell_leaves_one_server_and_one_session() -> None:
    async def notebook() -> None:
        # Like a notebook's kernel: cells in one namespace, inside a running event loop.
        shell = code.InteractiveInterpreter()
        ids, pids = [], set()
        for _ in range(3):
            shell.runcode(compile(CELL, "<cell>", "exec"))
            envs = shell.locals["envs"]
            endpoint, _, session_id = envs.unwrapped.token.partition("#")
            ids.append(bytes.fromhex(session_id))
            pids.add(private_server_pid(envs))
            del envs
            await asyncio.sleep(0)
        gc.collect()
        assert len(pids) == 1
        assert child_servers() == list(pids)
        with RawSession(endpoint) as session:
            codes = [session.ask(session=one, seq=3, observe={}).error.code for one in ids]
        gone, there = envelope.ERROR_CODE_NOT_FOUND, envelope.ERROR_CODE_OUT_OF_SEQUENCE
        assert codes == [gone, gone, there]

    asyncio.run(notebook())


# ---- recover=True --------------------------------------------------------------------------------


@contextlib.contextmanager
def killed_again_and_again(server: Server, times: int, longest: float) -> Iterator[list[int]]:
    """Kills and restarts a server at random moments, this many times."""
    kills: list[int] = []
    is_over = threading.Event()

    def run() -> None:
        moments = random.Random(4)
        while len(kills) < times and not is_over.wait(moments.uniform(0.02, longest)):
            server.kill()
            server.tcp = "tcp://127.0.0.1:0"  # another process may have taken the port
            server.start_again()
            kills.append(server.process.pid)

    with concurrent.futures.ThreadPoolExecutor() as pool:
        killing = pool.submit(run)
        try:
            yield kills
        finally:
            is_over.set()
            killing.result()  # raises the error if the server did not start


def play_until(envs: Any, expected: list[int], is_enough: Callable[[], bool]) -> None:
    """Plays the same steps repeatedly until `is_enough` returns True."""
    while True:
        for step, result in enumerate(expected):
            assert one_step(envs, step) == result, f"step {step}"
        if is_enough():
            return


def test_a_repeatedly_killed_server_changes_nothing(own_server: Server, scale: int) -> None:
    expected = undisturbed(own_server.ipc, 500)
    times = 8 * scale
    with killed_again_and_again(own_server, times, 0.3) as kills:
        envs = make(own_server.ipc, recover=True)
        play_until(envs, expected, lambda: len(kills) == times)
    envs.close()


def test_an_empty_server_midway_changes_nothing(server: Server, own_server: Server) -> None:
    expected = undisturbed(server.ipc, 440)
    with FaultProxy(server.ipc, rate=0.02, seed=5) as proxy:
        envs = make(proxy.endpoint, recover=True)
        results = play(envs, 220)
        proxy.switch_to(own_server.ipc)
        assert results + play(envs, 440, 220) == expected
        envs.close()


def test_a_private_server_that_is_killed_is_replaced() -> None:
    expected = undisturbed("private", 300)
    envs = make("private", recover=True)
    results = play(envs, 150)
    pid = private_server_pid(envs)
    os.kill(pid, signal.SIGKILL)
    assert results + play(envs, 300, 150) == expected
    assert private_server_pid(envs) != pid
    envs.close()


def test_all_faults_together_change_nothing(own_server: Server, scale: int) -> None:
    expected = undisturbed(own_server.ipc, 300)
    with FaultProxy(own_server.ipc, rate=0.05, seed=6) as proxy:
        with killed_again_and_again(own_server, 5 * scale, 0.5) as kills:
            envs = make(proxy.endpoint, recover=True)
            while len(kills) < 5 * scale:
                play_through_interrupts(envs, expected, 1, 0.4)
        envs.close()


def test_an_unanswered_step_of_a_lost_session_is_applied_once(own_server: Server) -> None:
    expected = undisturbed(own_server.ipc, 20)
    envs = make(own_server.ipc, recover=True)
    assert play(envs, 10) == expected[:10]
    with own_server.stopped(), hurried(envs), pytest.raises(errors.DeadlineExceeded):
        one_step(envs, 10)
    own_server.replace()
    envs.discard()
    assert play(envs, 20, 11) == expected[11:]
    envs.close()


def test_a_recovery_starts_a_new_token_and_a_new_count_of_requests(own_server: Server) -> None:
    envs = make(own_server.ipc, recover=True)
    play(envs, 10)
    for _ in range(5):
        envs.observe()
    token = envs.token
    assert envs.requests == 16
    own_server.replace()
    one_step(envs, 10)
    assert envs.token != token
    # The creation, the reset and ten steps, but no requests that changed nothing.
    assert envs.requests == 12
    saved = envs.token, envs.requests
    one_step(envs, 11)
    resumed = twofold.resume(saved[0])
    assert resumed.requests == saved[1] + 1
    resumed.close()


def test_without_recover_a_lost_session_is_an_error(own_server: Server) -> None:
    envs = make(own_server.ipc)
    envs.reset(seed=0)
    own_server.replace()
    with pytest.raises(errors.NotFound, match="no open session"):
        envs.step(np.zeros(16, int))
    envs.close()


def test_a_missing_server_is_a_deadline_until_another_starts(own_server: Server) -> None:
    expected = undisturbed(own_server.ipc, 20)
    envs = make(own_server.ipc, recover=True)
    results = play(envs, 10)
    own_server.kill()
    with hurried(envs), pytest.raises(errors.DeadlineExceeded):
        one_step(envs, 10)
    own_server.start_again()
    assert results + play(envs, 20, 10) == expected
    envs.close()


def test_a_snapshot_replaces_the_earlier_operations(
    own_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "_MAX_OPERATIONS", 7)
    expected = undisturbed(own_server.ipc, 60)
    envs = make(own_server.ipc, recover=True)
    journal = envs._session._journal
    assert journal is not None
    results = []
    for step in range(60):
        results.append(one_step(envs, step))
        assert len(journal.done) <= 8
        if step in (3, 20, 21, 40):
            own_server.replace()
    assert results == expected
    assert journal.done[0].operation.slot == "restore"
    envs.close()


def test_snapshots_are_also_taken_during_a_rollout(
    own_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "_MAX_OPERATIONS", 7)
    monkeypatch.setattr(rollouts, "reply_bytes", lambda session: 1)
    envs = make(own_server.ipc, recover=True)
    envs.reset(seed=3)
    journal = envs._session._journal
    assert journal is not None
    lengths = []
    envs.rollout(40, "random", progress=lambda done: lengths.append(len(journal.done)))
    assert len(lengths) == 40
    assert max(lengths) <= 8
    envs.close()


def test_boards_whose_snapshot_exceeds_a_message_are_replayed_from_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(journals, "_MAX_OPERATIONS", 7)
    with Server("--max-message-bytes", "600") as own_server:
        expected = undisturbed(own_server.ipc, 30)
        envs = make(own_server.ipc, recover=True)
        results = play(envs, 20)
        own_server.replace()
        assert results + play(envs, 30, 20) == expected
        envs.close()


NETWORK = twofold.policies.NTuple([[0, 1, 2]], [np.zeros(16**3, np.float32)])


def last_legal(observations: Any, action_mask: Any) -> Any:
    return 3 - action_mask[:, ::-1].argmax(axis=1)


def rolled_out(envs: twofold.TwofoldVectorEnv, policy: Any) -> int:
    """Returns a hash of the rollout that begins with this step."""
    rollout = envs.rollout(20, policy, infos=["score"])
    code = 0
    for array in (rollout.observations, rollout.actions, rollout.infos["score"]):
        code = zlib.crc32(np.ascontiguousarray(array).tobytes(), code)
    return code


@pytest.mark.parametrize(
    ("policy", "one_step_a_request"),
    [("random", False), ("random", True), ("expectimax", True), (last_legal, False)],
)
def test_rollouts_continue_after_a_lost_server(
    policy: Any, one_step_a_request: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if one_step_a_request:
        monkeypatch.setattr(rollouts, "reply_bytes", lambda session: 1)
    with Server() as own_server:
        envs, twin = make(own_server.ipc, recover=True), make("private")
        for each in (envs, twin):
            each.reset(seed=3)
        for first in range(0, 160, 20):
            if first in (20, 40, 100):
                own_server.replace()
            assert rolled_out(envs, policy) == rolled_out(twin, policy), first
            if first == 60:
                assert one_step(envs, 1) == one_step(twin, 1)
        envs.close()
        twin.close()


@pytest.mark.parametrize("limit", ["603", "100000"])
def test_each_rollout_is_replayed_with_its_own_network(limit: str) -> None:
    # With the lower limit, no snapshot fits into a message, so the journal has all networks.
    with Server("--max-message-bytes", limit) as own_server:
        envs, twin = make(own_server.ipc, recover=True), make("private")
        for each in (envs, twin):
            each.reset(seed=3)
        for seed in range(3):
            weights = np.random.default_rng(seed).random(256, np.float32)
            network = twofold.policies.NTuple([[0, 1]], [weights])
            assert rolled_out(envs, network) == rolled_out(twin, network)
        for _ in range(2):
            own_server.replace()
            assert rolled_out(envs, network) == rolled_out(twin, network)
        envs.close()
        twin.close()


def test_the_previous_network_plays_after_another_ones_unanswered_upload(
    own_server: Server,
) -> None:
    envs, twin = make(own_server.ipc), make("private")
    for each in (envs, twin):
        each.reset(seed=3)
    assert_same(envs.rollout(5, NETWORK), twin.rollout(5, NETWORK))
    other = twofold.policies.NTuple([[0, 1]], [np.zeros(256, np.float32)])
    with own_server.stopped(), hurried(envs), pytest.raises(errors.DeadlineExceeded):
        envs.rollout(5, other)
    assert_same(envs.rollout(5, NETWORK), twin.rollout(5, NETWORK))
    envs.close()
    twin.close()


def test_a_replay_may_take_more_requests_than_the_rollout(
    own_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    envs, twin = make(own_server.ipc, recover=True), make("private")
    for each in (envs, twin):
        each.reset(seed=3)
    assert rolled_out(envs, "random") == rolled_out(twin, "random")
    own_server.replace()
    transmit = envs._session.link.transmit

    def plays_two_steps_at_most(operation: Operation, *arguments: Any) -> Any:
        if operation.slot == "rollout":
            steps = envelope.Request.FromString(operation.request).rollout.steps
            operation = part(operation, 0, min(steps, 2))
        return transmit(operation, *arguments)

    monkeypatch.setattr(envs._session.link, "transmit", plays_two_steps_at_most)
    assert one_step(envs, 1) == one_step(twin, 1)
    envs.close()
    twin.close()


def test_a_loss_right_after_an_upload_is_recovered(own_server: Server) -> None:
    envs, twin = make(own_server.ipc, recover=True), make("private")
    assert play(envs, 5) == play(twin, 5)
    upload(envs._session, NETWORK)
    own_server.replace()
    assert one_step(envs, 5) == one_step(twin, 5)
    envs.close()
    twin.close()


def test_a_rollout_by_a_function_continues_where_the_server_was_lost(own_server: Server) -> None:
    envs, twin = make(own_server.ipc, recover=True), make("private")
    for each in (envs, twin):
        each.reset(seed=3)
    calls = []

    def loses_the_server(observations: Any, action_mask: Any) -> Any:
        calls.append(1)
        if len(calls) in (20, 21, 50):
            own_server.replace()
        return last_legal(observations, action_mask)

    rollout = envs.rollout(55, loses_the_server, infos=["score"])
    assert_same(rollout, twin.rollout(55, last_legal, infos=["score"]))
    assert len(calls) == 55
    envs.close()
    twin.close()


@pytest.mark.parametrize("is_resumed", [False, True])
def test_a_fork_of_an_environment_with_recover_survives_the_loss_of_the_server(
    own_server: Server, is_resumed: bool
) -> None:
    envs, twin = make(own_server.ipc, recover=not is_resumed), make("private")
    if is_resumed:
        envs = twofold.resume(envs.token, recover=True)
    for each in (envs, twin):
        each.reset(seed=3)
    forks = [each.fork([2, 5], copies=8, seed=4) for each in (envs, twin)]
    for start, stop in ((1, 10), (10, 20)):
        own_server.replace()
        results = [play(fork, stop, start) for fork in forks]
        assert results[0] == results[1]
    for each in (envs, *forks, twin):
        each.close()


def test_a_rollout_interrupted_before_a_loss_can_be_repeated(
    own_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first reply has fewer steps than the request.
    monkeypatch.setattr(rollouts, "reply_bytes", lambda session: 1)
    envs, twin = make(own_server.ipc, recover=True), make("private")
    for each in (envs, twin):
        each.reset(seed=3)
    with monkeypatch.context() as patch:
        patch.setattr(Collected, "add", interrupt)
        with pytest.raises(KeyboardInterrupt) as caught:
            envs.rollout(5, NETWORK)
    assert "was applied. Repeating the call returns its result" in notes_of(caught.value)[0]
    own_server.replace()
    assert_same(envs.rollout(5, NETWORK), twin.rollout(5, NETWORK))
    assert one_step(envs, 1) == one_step(twin, 1)
    envs.close()
    twin.close()


def test_another_reply_with_the_same_number_is_a_conflict(own_server: Server) -> None:
    envs = make(own_server.ipc)
    envs.reset(seed=3)
    envs.rollout(20, "random")
    envs._session.state = Idle(envs._session.state.seq - 1)
    with pytest.raises(errors.Conflict, match="already used"):
        envs.observe()
    envs.close()


def test_without_recover_a_fork_is_lost_with_its_server(own_server: Server) -> None:
    envs = make(own_server.ipc)
    envs.reset(seed=3)
    fork = envs.fork([0])
    own_server.replace()
    with pytest.raises(errors.NotFound):
        fork.observe()


@pytest.mark.parametrize("uploads", [False, True])
def test_a_server_that_plays_differently_is_reported(own_server: Server, uploads: bool) -> None:
    envs = make(own_server.ipc, recover=True)
    play(envs, 10)
    journal = envs._session._journal
    assert journal is not None
    journal._mark = 12345
    if uploads:
        upload(envs._session, NETWORK)
    own_server.replace()
    for _ in range(2):
        with pytest.raises(errors.RecoveryFailed, match="gave different results"):
            one_step(envs, 10)
    envs.close()


def test_a_server_with_other_boards_is_reported(own_server: Server) -> None:
    envs = make(own_server.ipc, recover=True)
    play(envs, 10)
    envs._session.link.spec.action_space.discrete.n = 5
    own_server.replace()
    for _ in range(2):
        with pytest.raises(errors.RecoveryFailed, match="other boards from the same arguments"):
            one_step(envs, 10)
    envs.close()


def test_failed_recoveries_leave_no_sessions(own_server: Server) -> None:
    with Server("--max-policy-bytes", "5000") as small, FaultProxy(own_server.ipc) as proxy:
        envs = make(proxy.endpoint, recover=True)
        play(envs, 2)
        envs.rollout(2, NETWORK)
        proxy.switch_to(small.ipc)
        for _ in range(3):
            with pytest.raises(errors.ResourceExhausted, match="max-policy-bytes"):
                one_step(envs, 2)
        assert statistics_of(small.ipc).usage.sessions == 0
        envs.close()


@pytest.mark.parametrize("is_executed", [False, True])
def test_an_environment_closed_during_a_recovery_leaves_no_session(
    own_server: Server, is_executed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    envs = make(own_server.ipc, recover=True)
    play(envs, 10)
    own_server.replace()
    carrier, calls = envs._session.link.carrier, itertools.count(1)
    step = carrier.step

    def gives_up_once(*arguments: Any) -> Any:
        if next(calls) != 5:
            return step(*arguments)
        if is_executed:
            step(*arguments)
        raise errors.DeadlineExceeded

    monkeypatch.setattr(carrier, "step", gives_up_once)
    with pytest.raises(errors.DeadlineExceeded):
        one_step(envs, 10)
    assert statistics_of(own_server.ipc).usage.sessions == 1
    envs.close()
    assert statistics_of(own_server.ipc).usage.sessions == 0


def test_a_part_of_a_rollout_plays_its_own_actions_and_continues_the_streams() -> None:
    given = wire.RolloutRequest(steps=5, actions={})
    request = envelope.Request(rollout=given).SerializeToString()
    whole = Operation("rollout", request, bytes(range(15)))
    later = part(whole, 2, 4)
    assert envelope.Request.FromString(later.request).rollout.steps == 2
    assert later.payload == bytes(range(6, 12))

    random = envelope.Request(rollout=wire.RolloutRequest(steps=5, random={}))
    whole = Operation("rollout", random.SerializeToString(), None)
    for start in (0, 3):
        later = part(whole, start, 5)
        rollout = envelope.Request.FromString(later.request).rollout
        assert rollout.steps == 5 - start
        assert later.payload is None


def test_a_recovery_that_takes_several_calls_continues_where_it_stopped(
    own_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    envs, twin = make(own_server.ipc, recover=True), make("private")
    assert play(envs, 60) == play(twin, 60)
    own_server.replace()
    carrier, calls = envs._session.link.carrier, itertools.count(1)
    step = carrier.step

    def gives_up_often(*arguments: Any) -> Any:
        number = next(calls)
        if number % 10 == 0:
            # Before or after the step was executed.
            if number % 20 == 0:
                step(*arguments)
            raise errors.DeadlineExceeded
        return step(*arguments)

    monkeypatch.setattr(carrier, "step", gives_up_often)
    results: list[int] = []
    for _ in range(9):
        if not results:
            with contextlib.suppress(errors.DeadlineExceeded):
                results.append(one_step(envs, 60))
    assert results == [one_step(twin, 60)]
    monkeypatch.undo()
    assert statistics_of(own_server.ipc).counters.sessions_created == 1
    assert play(envs, 70, 61) == play(twin, 70, 61)
    envs.close()
    twin.close()
