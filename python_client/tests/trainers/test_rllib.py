"""Tests that RLlib works with the vector entry point, and with RLlib's action-masking module."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import twofold

pytest.importorskip("ray", reason="`make trainers` has it")

import ray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
import rllib_ppo

# A cluster assumes that it has all of the machine's CPUs and memory.


@pytest.fixture(scope="module", autouse=True)
def _ray() -> Iterator[None]:
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def settings(num_env_runners: int = 2, **arguments: Any) -> Any:
    """Returns PPO's settings as in the example; `arguments` are the environment's."""
    config = rllib_ppo.configure(
        PPOConfig(), rllib_ppo.parse_arguments(["--threads", "1"]), num_env_runners
    )
    boards = {"obs": "one_hot_last", "observation_key": "observations", "mask_key": "action_mask"}
    config.environment("twofold:twofold/Game2048-v0", env_config=boards | arguments)
    return config.env_runners(gym_env_vectorize_mode="vector_entry_point")


def exponents(episode: Any) -> Any:
    """Returns the boards of an episode, (steps + 1, 4, 4)."""
    return episode.get_observations()["observations"].argmax(axis=-1)


def test_episodes_begin_and_end_with_the_episodes_of_the_boards() -> None:
    config = settings(0, max_episode_steps=130).debugging(seed=3)
    runner = SingleAgentEnvRunner(config=config)
    episodes = [each.to_numpy() for each in runner.sample(num_episodes=100)]
    ended = [each for each in episodes if each.is_done]
    assert len(ended) >= 100
    for episode in ended:
        masks = episode.get_observations()["action_mask"]
        actions = episode.get_actions()
        assert masks[np.arange(len(actions)), actions].all()
        assert (exponents(episode)[0] > 0).sum() == 2
        assert episode.is_truncated == (len(episode) == 130 and masks[-1].any())
        assert episode.is_terminated == (not masks[-1].any())
        # The score, which is in the infos.
        assert episode.get_return() == episode.get_infos(-1)["score"]
        assert len(episode) == episode.get_infos(-1)["episode_length"]
    assert any(each.is_truncated for each in ended)
    assert any(each.is_terminated for each in ended)
    runner.stop()


def test_episodes_are_the_same_as_without_rllib() -> None:
    runner = SingleAgentEnvRunner(config=settings(0).debugging(seed=3))
    episodes = [each.to_numpy() for each in runner.sample(num_timesteps=32 * 40)]
    runner.stop()
    assert [len(each) for each in episodes] == [40] * 32
    envs: Any = gym.make_vec("twofold/Game2048-v0", num_envs=32)
    boards, _ = envs.reset(seed=3)
    for step in range(40):
        np.testing.assert_array_equal([exponents(each)[step] for each in episodes], boards)
        boards, rewards, *_ = envs.step([each.get_actions(step) for each in episodes])
        np.testing.assert_array_equal([each.get_rewards(step) for each in episodes], rewards)
    envs.close()


def test_two_runners_have_different_boards_and_plausible_returns() -> None:
    algorithm = settings().build_algo()
    samples = algorithm.env_runner_group.foreach_env_runner(
        "sample", kwargs={"num_timesteps": 32}, local_env_runner=False
    )
    first, second = ({exponents(each)[0].tobytes() for each in sample} for sample in samples)
    assert len(first & second) < 16
    for _ in range(2):
        results = algorithm.train()["env_runners"]
    assert 800 < results["episode_return_mean"] < 1500  # random play scores 1,095
    assert results["num_env_steps_sampled_lifetime"] >= 2 * 8192
    algorithm.stop()


@pytest.mark.timeout(1200)
def test_ppo_learns(tmp_path: Path) -> None:
    words = ["--threads", "1", "--seed", "1", "--runners", "2", "--steps", "163840"]
    options = rllib_ppo.parse_arguments(words)
    config = rllib_ppo.make_boards(PPOConfig(), options)
    policy = rllib_ppo.policy_of(rllib_ppo.train(options, config, tmp_path))
    # Random play scores 1,095.
    assert twofold.evaluate(policy, episodes=200).scores.mean() > 1.5 * 1095
