"""Tests that the boards of `make_tianshou_vec` work like Tianshou's own environments."""

import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from loops import hurried, interrupt
from servers import Server

import twofold
from twofold.errors import DeadlineExceeded, InvalidArgument, StepPending

pytest.importorskip("tianshou", reason="`make trainers` has it")

import torch
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.random import MARLRandomDiscreteMaskedOffPolicyAlgorithm
from tianshou.data import Batch, Collector, VectorReplayBuffer
from tianshou.env import BaseVectorEnv, DummyVectorEnv
from tianshou.utils.net.common import Net

from twofold.integrations.tianshou import make_tianshou_vec

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
import tianshou_ppo

torch.set_num_threads(1)


def random_policy() -> Any:
    return MARLRandomDiscreteMaskedOffPolicyAlgorithm(gym.spaces.Discrete(4)).policy


def tianshous_own(n_envs: int, **arguments: Any) -> Any:
    """Makes the same boards in Tianshou's own vector environment, each in a separate session."""
    keys: Any = {"observation_key": "obs", "mask_key": "mask"}
    return DummyVectorEnv(
        [lambda: gym.make("twofold/Game2048-v0", obs="one_hot", **keys, **arguments)] * n_envs
    )


def assert_same(own: Any, ours: Any) -> None:
    rows = Batch(own)
    np.testing.assert_array_equal(rows.obs, ours.obs)
    np.testing.assert_array_equal(rows.mask != 0, ours.mask)
    assert ours.mask.dtype == np.bool_


def assert_equal(results: Any, expected: Any) -> None:
    """Checks the results of a reset or a step; only their infos may differ."""
    np.testing.assert_array_equal(results[0].obs, expected[0].obs)
    np.testing.assert_array_equal(results[0].mask, expected[0].mask)
    for array, other in zip(results[1:-1], expected[1:-1], strict=True):
        np.testing.assert_array_equal(array, other)


def test_steps_and_resets_of_some_boards_match_tianshous_own_environments(
    endpoint: str,
) -> None:
    own = tianshous_own(5, max_episode_steps=170, endpoint="embedded")
    ours = make_tianshou_vec(n_envs=5, max_episode_steps=170, endpoint=endpoint)
    own.seed(4)
    ours.seed(4)
    expected, _ = own.reset()
    observations, _ = ours.reset()
    assert_same(expected, observations)
    generator = np.random.default_rng(0)
    finished = np.zeros(5, np.bool_)
    terminations = truncations = 0
    for _ in range(3000):
        if finished.any() and (finished.all() or generator.random() < 0.2):
            # Finished boards stay unchanged until they are reset.
            lanes = np.flatnonzero(finished)
            assert_same(own.reset(lanes)[0], ours.reset(lanes)[0])
            finished[lanes] = False
            continue
        lanes = generator.permutation(np.flatnonzero(~finished))
        lanes = lanes[: generator.integers(1, lanes.size + 1)]
        actions = generator.integers(0, 4, lanes.size)
        expected, *others, infos = own.step(actions, lanes)
        observations, rewards, terminated, truncated, our_infos = ours.step(actions, lanes)
        assert_same(expected, observations)
        for array, theirs in zip((rewards, terminated, truncated), others, strict=True):
            np.testing.assert_array_equal(array, theirs)
        assert [each["env_id"] for each in our_infos] == [each["env_id"] for each in infos]
        finished[lanes] = terminated | truncated
        terminations += terminated.sum()
        truncations += truncated.sum()
    assert terminations > 0
    assert truncations > 0
    ours.close()
    own.close()


def test_a_collector_keeps_the_last_observation_of_an_episode() -> None:
    envs = make_tianshou_vec(n_envs=4)
    envs.seed(0)
    buffer = VectorReplayBuffer(4000, 4)
    np.random.seed(0)
    Collector(random_policy(), envs, buffer).collect(n_step=3200, reset_before_collect=True)
    rows = buffer[:]
    assert rows.terminated.sum() > 4
    assert not rows.obs_next.mask[rows.terminated].any()
    assert rows.obs.mask.any(axis=1).all()
    assert rows.obs.mask[np.arange(len(rows)), rows.act].all()
    # Exponents from the planes: an episode begins with two tiles, and continues its last board.
    tiles = (rows.obs.obs.argmax(axis=1) > 0).sum(axis=(1, 2))
    begins = np.roll(rows.done, 1) | (np.arange(len(rows)) % 800 == 0)
    assert (tiles[begins] == 2).all()
    inside = ~rows.done & (np.arange(len(rows)) % 800 != 799)
    following = np.flatnonzero(inside) + 1
    np.testing.assert_array_equal(rows.obs_next.obs[inside], rows.obs.obs[following])
    envs.close()


def test_a_collector_plays_a_number_of_episodes_and_leaves_boards_idle_at_the_end() -> None:
    envs = make_tianshou_vec(n_envs=8)
    envs.seed(0)
    np.random.seed(0)
    result = Collector(random_policy(), envs).collect(n_episode=21, reset_before_collect=True)
    assert result.n_collected_episodes == 21
    assert 700 < result.returns.mean() < 1600  # random play scores 1,095
    envs.close()


def test_statistics_do_not_count_the_episodes_of_idle_boards() -> None:
    envs = make_tianshou_vec(n_envs=3, max_episode_steps=5, extra_infos=("episode",))
    envs.reset(seed=0)
    for _ in range(4):
        envs.step([0, 0, 0])
    for number in range(3):
        *_, truncated, _ = envs.step([0], [number])
        assert truncated.tolist() == [True]
        assert envs.envs.statistics()["episodes"] == number + 1
    envs.close()


def test_deep_q_learning_chooses_legal_actions() -> None:
    envs = make_tianshou_vec(n_envs=8)
    envs.seed(0)
    policy = DiscreteQLearningPolicy(
        model=Net(state_shape=(18, 4, 4), action_shape=4, hidden_sizes=[64]),
        action_space=envs.action_space[0],
    )
    policy.set_eps_inference(0.3)
    buffer = VectorReplayBuffer(2400, 8)
    Collector(policy, envs, buffer).collect(n_step=2400, reset_before_collect=True)
    rows = buffer[:]
    assert rows.obs.mask[np.arange(len(rows)), rows.act].all()
    envs.close()


def test_the_batch_is_a_vector_environment_of_tianshou() -> None:
    envs = make_tianshou_vec(n_envs=3, render_mode="ansi")
    assert isinstance(envs, BaseVectorEnv)
    assert len(envs) == 3
    assert envs.action_space == [gym.spaces.Discrete(4)] * 3
    assert envs.observation_space[0]["obs"].shape == (18, 4, 4)
    assert envs.seed(7) == [7, 8, 9]
    assert envs.seed([5, 3, 1]) == [5, 3, 1]
    assert envs.seed() == [None, None, None]
    assert len(envs.render()) == 3
    with pytest.raises(AttributeError, match="one batch"):
        envs.set_env_attr("goal", 4)
    assert not envs.is_async
    assert not envs.is_closed
    envs.close()
    assert envs.is_closed
    assert envs.envs.closed


def test_a_seed_decides_the_boards_of_a_partial_reset() -> None:
    envs, twin = make_tianshou_vec(n_envs=3), make_tianshou_vec(n_envs=3)
    envs.reset(seed=1)
    some, _ = envs.reset([2, 0], seed=7)
    whole, _ = twin.reset(seed=7)
    np.testing.assert_array_equal(some.obs, whole.obs[[2, 0]])
    envs.seed(1)
    other, _ = envs.reset([2, 0], seed=8)
    assert not np.array_equal(other.obs, some.obs)
    envs.close()
    twin.close()


@pytest.mark.parametrize("name", ["autoreset_mode", "copy", "observation_key", "mask_key"])
def test_arguments_that_the_adapter_sets_are_refused(name: str) -> None:
    arguments: Any = {name: "mask"}
    with pytest.raises(InvalidArgument, match="omit it"):
        make_tianshou_vec(**arguments)


@pytest.mark.parametrize(
    ("actions", "lanes", "text"),
    [
        ([0.5, 1.0], [0, 1], "actions"),
        ([0], [0, 1], "actions"),
        ([4], [1], "actions"),
        ([1], [3], "lane"),
        ([1], [-1], "lane"),
    ],
)
def test_wrong_actions_and_boards_are_refused(actions: Any, lanes: Any, text: str) -> None:
    envs = make_tianshou_vec(n_envs=3)
    before, _ = envs.reset(seed=0)
    with pytest.raises(InvalidArgument, match=text):
        envs.step(actions, lanes)
    observations, _ = envs.envs.observe()
    np.testing.assert_array_equal(observations["obs"], before.obs)
    envs.close()


@pytest.mark.parametrize(
    ("late", "lanes"),
    [("snapshot", [2, 0]), ("step", [2, 0]), ("step", [0, 1, 2]), ("restore", [2, 0])],
)
@pytest.mark.parametrize("is_repeated", [True, False], ids=["repeated", "dropped by a reset"])
def test_a_step_without_an_answer_is_played_once(
    late: str, lanes: list[int], is_repeated: bool, own_server: Server
) -> None:
    ours, twin = (
        make_tianshou_vec(n_envs=3, obs="array", endpoint=own_server.ipc) for _ in range(2)
    )
    for each in (ours, twin):
        each.reset(seed=1)
    actions, others = [3, 0, 3][: len(lanes)], [0, 3, 0][: len(lanes)]

    def too_late(*arguments: Any) -> Any:
        with own_server.stopped(), hurried(ours.envs):
            return real(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        real = getattr(ours.envs, late)
        patch.setattr(ours.envs, late, too_late)
        with pytest.raises(DeadlineExceeded):
            ours.step(actions, lanes)
    if late != "snapshot":
        for wrong in ((others, lanes), (actions[:1], lanes[:1])):
            with pytest.raises(StepPending, match=r"repeat it, .* reset\(\)"):
                ours.step(*wrong)
    expected = twin.step(actions, lanes)
    if is_repeated:
        assert_equal(ours.step(actions, lanes), expected)
    elif late == "snapshot":  # nothing was played
        ours.step(actions, lanes)
    assert_equal(ours.reset([1]), twin.reset([1]))
    assert_equal(ours.step([0, 0, 0]), twin.step([0, 0, 0]))
    assert_equal(ours.step(others, lanes), twin.step(others, lanes))
    assert_equal(ours.reset(), twin.reset())
    ours.close()
    twin.close()


def test_after_a_refused_or_unsent_step_other_boards_can_be_stepped() -> None:
    envs = make_tianshou_vec(n_envs=3, obs="array", endpoint="embedded")
    envs.reset(seed=1)
    with pytest.raises(InvalidArgument):
        envs.step([4], [1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(envs.envs, "step", interrupt)
        with pytest.raises(KeyboardInterrupt):
            envs.step([0], [2])
    envs.step([0, 0], [0, 1])
    assert envs.envs.observe()[1]["episode_length"].tolist() == [1, 1, 0]
    envs.close()


def test_concentration_can_also_be_collected() -> None:
    envs = make_tianshou_vec("twofold/Concentration-v0", 4, obs="flat")
    envs.seed(0)
    np.random.seed(0)
    policy = MARLRandomDiscreteMaskedOffPolicyAlgorithm(envs.action_space[0]).policy
    result = Collector(policy, envs).collect(n_episode=7, reset_before_collect=True)
    assert result.n_collected_episodes == 7
    envs.close()


@pytest.mark.timeout(1200)
def test_ppo_learns(tmp_path: Path) -> None:
    options = tianshou_ppo.parse_arguments(["--threads", "1", "--steps", "163840"])
    actor = tianshou_ppo.train(options, tianshou_ppo.make_boards(options), tmp_path)
    policy = tianshou_ppo.policy_of(actor)
    # Random play scores 1,095.
    assert twofold.evaluate(policy, episodes=200).scores.mean() > 1.5 * 1095
