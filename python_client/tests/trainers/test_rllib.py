"""RLlib takes the boards as they are: our vector entry point, and its own module with masks."""

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import twofold

pytest.importorskip("ray", reason="`make trainers` has it")

import ray
import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.examples.rl_modules.classes.action_masking_rlm import (
    ActionMaskingTorchRLModule,
)


@pytest.fixture(scope="module", autouse=True)
def _ray() -> Iterator[None]:
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def settings(num_env_runners: int = 2, **arguments: Any) -> Any:
    """PPO as in docs/guides/training.md; more arguments are those of the environment."""
    return (
        PPOConfig()
        .environment(
            "twofold:twofold/Game2048-v0",
            env_config={
                "obs": "one_hot_last",
                "observation_key": "observations",
                "mask_key": "action_mask",
                **arguments,
            },
        )
        .env_runners(
            num_env_runners=num_env_runners,
            num_envs_per_env_runner=32,
            gym_env_vectorize_mode="vector_entry_point",
        )
        .rl_module(
            rl_module_spec=RLModuleSpec(
                ActionMaskingTorchRLModule,
                model_config=DefaultModelConfig(
                    conv_filters=[[256, 4, 4]], head_fcnet_hiddens=[256]
                ),
            )
        )
        .training(
            train_batch_size_per_learner=8192,
            minibatch_size=2048,
            num_epochs=3,
            lr=1e-3,
            gamma=0.997,
            lambda_=0.9,
            clip_param=0.2,
            vf_clip_param=float("inf"),
            entropy_coeff=0.005,
            use_kl_loss=False,
            grad_clip=0.5,
        )
    )


def exponents(episode: Any) -> Any:
    """The boards of an episode, (steps + 1, 4, 4)."""
    return episode.get_observations()["observations"].argmax(axis=-1)


def test_episodes_begin_and_end_where_those_of_the_boards_do() -> None:
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
        # The score, of which the infos know.
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
    assert 800 < results["episode_return_mean"] < 1500  # random play's is 1,095
    assert results["num_env_steps_sampled_lifetime"] >= 2 * 8192
    algorithm.stop()


@pytest.mark.timeout(1200)
def test_ppo_learns() -> None:
    algorithm = settings(reward={"merge_exponent": 0.1}).debugging(seed=1).build_algo()
    for _ in range(20):
        algorithm.train()
    module = algorithm.get_module()

    def policy(boards: Any, mask: Any) -> Any:
        planes = torch.from_numpy(twofold.one_hot(boards, layout="hwc"))
        observations = {"observations": planes, "action_mask": torch.from_numpy(mask)}
        with torch.no_grad():
            outputs = module.forward_inference({"obs": observations})
        return outputs["action_dist_inputs"].argmax(1).numpy()

    # Random play scores 1,095.
    assert twofold.evaluate(policy, episodes=200).scores.mean() > 1.5 * 1095
    algorithm.stop()
