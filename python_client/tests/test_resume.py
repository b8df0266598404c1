"""Taking over a session: by another process, after a crash, or to shut out another client."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from faults import FaultProxy
from loops import actions, make, number, play, undisturbed
from raw import RawSession
from servers import Server, wait_until

import twofold
from twofold import errors, policies


def test_another_client_continues_where_the_first_one_stopped(server: Server, game: str) -> None:
    expected = undisturbed(server.ipc, 40, game)
    first = make(server.ipc, game)
    results = play(first, 20)
    second = twofold.resume(first.token)
    assert type(second) is type(first)
    assert second.requests == 21
    assert second.last_results is not None
    assert number(second.last_results) == results[-1]
    assert results + play(second, 40, 20) == expected
    second.close()


def test_the_previous_holder_is_shut_out(server: Server) -> None:
    first = make(server.ipc)
    first.reset(seed=0)
    second = twofold.resume(first.token)
    for _ in range(2):
        with pytest.raises(errors.StaleEpoch, match="another client has resumed"):
            first.step(actions(0))
    first.close()
    second.step(actions(0))
    third = twofold.resume(second.token)
    with pytest.raises(errors.StaleEpoch):
        second.step(actions(1))
    third.step(actions(1))
    third.close()
    with pytest.raises(errors.NotFound, match="no open session"):
        twofold.resume(third.token)


def test_the_resumed_environment_equals_the_original(server: Server) -> None:
    envs = gym.make_vec(
        "twofold/Game2048-v0",
        num_envs=3,
        size=(3, 4),
        obs="dict",
        mask_key="legal",
        autoreset_mode=gym.vector.AutoresetMode.DISABLED,
        max_episode_steps=np.int64(5),
        render_mode="ansi",
        endpoint=server.ipc,
    ).unwrapped
    assert isinstance(envs, twofold.TwofoldVectorEnv)
    envs.reset(seed=0)
    again = twofold.resume(envs.token, endpoint=server.tcp)
    assert again.observation_space == envs.observation_space
    assert again.metadata == envs.metadata
    assert again.render_mode == "ansi"
    again.step([0, 1, 2])
    for key, value in again.observe()[0].items():
        assert key in ("observation", "legal")
        assert len(value) == 3
    again.close()


def test_a_resumed_environment_has_the_reward_from_a_file(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "reward.json"
    path.write_text('{"merge_count": 0.5, "clip": [0, null]}')
    envs = make(server.ipc, reward=path)
    path.write_text('{"illegal_action": -1}')
    first = twofold.resume(envs.token)
    assert first.reward_terms == ("merge_count",)
    path.unlink()
    second = twofold.resume(first.token)
    assert second.reward_terms == ("merge_count",)
    second.close()


@pytest.mark.parametrize(
    "arguments",
    [
        {"extra_infos": {"episode"}},
        {"extra_infos": (name for name in ["episode"])},
        {"extra_infos": {"episode": 1}.keys(), "reward": ("merge_count",)},
        {"extra_infos": np.array(["episode"]), "reward": {"terms": ["merge_count"]}},
    ],
    ids=["set", "generator", "view", "array"],
)
def test_arguments_in_any_collection_or_iterator_are_resumed(
    server: Server, arguments: dict[str, Any]
) -> None:
    envs = make(server.ipc, **arguments)
    envs.reset(seed=0)
    again = twofold.resume(envs.token)
    assert again.extra_infos == ("episode",)
    assert again.reward_terms == envs.reward_terms
    assert again.fork([0]).reward_terms == envs.reward_terms
    again.close()


def test_a_resumed_environment_continues_its_streams(server: Server) -> None:
    envs, twin = make(server.ipc), make(server.ipc)
    for one in (envs, twin):
        one.reset(seed=5)
        one.step(actions(0))
    again = twofold.resume(envs.token)
    assert again.np_random_seed == -1
    np.testing.assert_array_equal(again.reset()[0], twin.reset()[0])
    again.reset(seed=7)
    assert again.np_random_seed == 7
    again.close()
    twin.close()


@pytest.mark.parametrize("recover", [False, True])
def test_an_environment_that_was_never_reset_is_resumed_as_such(
    server: Server, recover: bool
) -> None:
    envs = make(server.ipc)
    # Requests other than a reset.
    envs.keepalive()
    envs.keepalive()
    again = twofold.resume(envs.token, recover=recover)
    assert again.last_results is None
    with pytest.raises(errors.FailedPrecondition):
        again.step(actions(0))
    again.reset()
    assert again.np_random_seed is not None
    assert again.np_random_seed >= 0
    again.close()


# ---- recover=True --------------------------------------------------------------------------------


@pytest.mark.parametrize("done", [0, 1, 20])
def test_a_resumed_environment_survives_the_loss_of_its_server(
    own_server: Server, done: int
) -> None:
    expected = undisturbed(own_server.ipc, 60)
    first = make(own_server.ipc)
    results = play(first, done)
    second = twofold.resume(first.token, recover=True)
    for stop in (30, 31, 60):
        results += play(second, stop, len(results))
        own_server.replace()
    assert results == expected
    second.close()


def test_a_resumed_environment_recovers_if_the_original_did(own_server: Server) -> None:
    expected = undisturbed(own_server.ipc, 30)
    first = make(own_server.ipc, recover=True)
    results = play(first, 10)
    own_server.replace()
    results += play(first, 15, 10)
    second = twofold.resume(first.token)
    results += play(second, 20, 15)
    own_server.replace()
    assert results + play(second, 30, 20) == expected
    third = twofold.resume(second.token, recover=False)
    own_server.replace()
    with pytest.raises(errors.NotFound):
        third.step(actions(0))


def test_a_resume_that_recovers_leaves_the_last_results_to_the_next_resume(server: Server) -> None:
    first = make(server.ipc)
    results = play(first, 20)
    for _ in range(3):
        again = twofold.resume(first.token, recover=True)
        assert again.requests == 21
        assert again.last_results is not None
        assert number(again.last_results) == results[-1]
    again.keepalive()
    assert again.requests == 23
    again.close()


def test_boards_that_were_lost_before_their_snapshot_are_not_found(own_server: Server) -> None:
    first = make(own_server.ipc)
    play(first, 5)
    second = twofold.resume(first.token, recover=True)
    own_server.replace()
    for _ in range(2):
        with pytest.raises(errors.NotFound, match="no open session"):
            second.step(actions(0))


def test_rollouts_continue_after_the_loss_of_the_server(own_server: Server) -> None:
    network = policies.NTuple([(0, 1)], [np.arange(256, dtype=np.float32)])
    first, twin = make(own_server.ipc), make(own_server.ipc, recover=True)
    for envs in (first, twin):
        envs.reset(seed=1)
        envs.rollout(5, network)
    second = twofold.resume(first.token, recover=True)
    for policy in (network, "greedy"):
        rollouts = [envs.rollout(5, policy) for envs in (second, twin)]
        own_server.replace()
        np.testing.assert_array_equal(rollouts[0].observations, rollouts[1].observations)
    np.testing.assert_array_equal(second.observe()[0], twin.observe()[0])
    second.close()
    twin.close()


def test_recover_must_be_a_bool(server: Server) -> None:
    envs = make(server.ipc)
    with pytest.raises(errors.InvalidArgument, match="recover"):
        twofold.resume(envs.token, recover="yes")  # type: ignore[arg-type]
    envs.reset(seed=0)
    envs.close()


# ---- what can't be resumed -----------------------------------------------------------------------


@pytest.mark.parametrize("token", ["", "#", "tcp://h:1#12", "x" * 32, "tcp://127.0.0.1:5555"])
def test_an_invalid_token_is_refused(token: str) -> None:
    with pytest.raises(errors.InvalidArgument, match="token") as caught:
        twofold.resume(token)
    assert caught.value.field == "token"


def test_a_missing_session_is_not_found(server: Server) -> None:
    with pytest.raises(errors.NotFound):
        twofold.resume(f"{server.ipc}#{'ab' * 16}")


def test_a_session_of_another_kind_of_client_is_refused_and_kept(server: Server) -> None:
    with RawSession(server.ipc) as session:
        session.create()
        with pytest.raises(errors.InvalidArgument, match="does not know the session"):
            twofold.resume(f"{server.ipc}#{session.id.hex()}")
        # The session was taken over before its class was known, and still exists.
        answer = session.ask(epoch=0, seq=0, resume={"holder": bytes(16)})
        session.epoch = answer.reply.resume.epoch
        assert session.epoch == 3
        assert session.reset().slot == "reset"


def grows(file: Path) -> Callable[[], bool]:
    """Returns a function that returns True once a file has grown."""

    def size() -> int:
        return file.stat().st_size if file.exists() else 0

    before = size()
    return lambda: size() > before


def test_a_repeatedly_killed_process_changes_nothing(
    server: Server, tmp_path: Path, scale: int
) -> None:
    # This many lives are too short for all steps; the last process is not killed.
    steps, times, life = 360 * scale, 6 * scale, 50
    expected = undisturbed(server.ipc, steps)
    log = tmp_path / "log"
    moments = random.Random(8)
    with FaultProxy(server.ipc, rate=0.02, seed=9) as proxy:
        arguments = [proxy.endpoint, str(log), str(steps)]
        with subprocess.Popen(
            [sys.executable, "resumed_loop.py", *arguments],
            cwd=Path(__file__).parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as lives:
            assert lives.stdin is not None
            assert lives.stdout is not None
            try:
                for _ in range(times):
                    has_made_steps = grows(log)
                    print(life, file=lives.stdin, flush=True)
                    process = int(lives.stdout.readline())
                    wait_until(has_made_steps)
                    time.sleep(moments.uniform(0, 0.02))
                    os.kill(process, signal.SIGKILL)
                    assert int(lives.stdout.readline()) == -signal.SIGKILL
                print(steps, file=lives.stdin, flush=True)
                lives.stdout.readline()
                assert int(lives.stdout.readline()) == 0
            finally:
                os.killpg(lives.pid, signal.SIGKILL)
    assert [int(line) for line in log.read_text().splitlines()[1:]] == expected
