"""Tests that TorchRL's `GymWrapper` works with the boards without an adapter."""

import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import twofold

pytest.importorskip("torchrl", reason="`make trainers` has it")

import torch
from torchrl.envs import (
    ActionMask,
    GymWrapper,
    TransformedEnv,
    check_env_specs,
    step_mdp,
)

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
import torchrl_ppo

torch.set_num_threads(1)

MASKED: Any = {"obs": "one_hot", "mask_key": "action_mask"}


def make(num_envs: int = 8, autoreset_mode: str = "Disabled", **arguments: Any) -> Any:
    envs = gym.make_vec(
        "twofold/Game2048-v0", num_envs=num_envs, autoreset_mode=autoreset_mode, **arguments
    )
    return GymWrapper(envs, categorical_action_encoding=True)


@pytest.mark.parametrize(
    "arguments", [{}, {"obs": "one_hot"}, {"obs": "flat"}, {"obs": "dict"}, MASKED]
)
def test_torchrls_checker_accepts_the_boards(arguments: Any) -> None:
    env = make(**arguments)
    check_env_specs(env)
    env.close()


def test_a_rollout_over_resets_is_the_same_as_without_torchrl() -> None:
    env = TransformedEnv(make(max_episode_steps=90, **MASKED), ActionMask())
    torch.manual_seed(0)
    env.set_seed(3)
    rollout = env.rollout(400, break_when_any_done=False).cpu().numpy()
    env.close()

    envs: Any = gym.make_vec(
        "twofold/Game2048-v0", num_envs=8, autoreset_mode="Disabled", max_episode_steps=90, **MASKED
    )
    envs.reset(seed=3)
    observations, _ = envs.reset()  # set_seed and rollout both reset
    for step in range(400):
        for name in ("observation", "action_mask"):
            np.testing.assert_array_equal(rollout[name][:, step], observations[name])
        actions = rollout["action"][:, step]
        assert (np.take_along_axis(observations["action_mask"], actions[:, None], 1) == 1).all()
        observations, rewards, terminated, truncated, _ = envs.step(actions)
        following = rollout["next"]
        for name in ("observation", "action_mask"):
            np.testing.assert_array_equal(following[name][:, step], observations[name])
        np.testing.assert_array_equal(following["reward"][:, step, 0], rewards)
        np.testing.assert_array_equal(following["terminated"][:, step, 0], terminated)
        np.testing.assert_array_equal(following["truncated"][:, step, 0], truncated)
        done = terminated | truncated
        if done.any():
            observations, _ = envs.reset(options={"reset_mask": done})
    envs.close()
    assert rollout["next"]["terminated"].sum() > 0
    assert rollout["next"]["truncated"].sum() > 0


def test_same_step_autoreset_makes_the_same_rollout_of_plain_observations() -> None:
    # Not for observations in a dict, because TorchRL does not find their `final_obs`.
    rollouts = []
    for mode in ("Disabled", "SameStep"):
        env = make(autoreset_mode=mode, obs="one_hot", max_episode_steps=150)
        env.set_seed(5)
        torch.manual_seed(0)
        rollouts.append(env.rollout(400, break_when_any_done=False))
        env.close()
    first, second = rollouts
    assert first["next", "terminated"].any()
    assert first["next", "truncated"].any()
    for name in ("observation", "action"):
        assert torch.equal(first[name], second[name])
    for name in ("observation", "reward", "terminated", "truncated"):
        assert torch.equal(first["next", name], second["next", name])


def test_a_partial_reset_leaves_the_other_boards_unchanged() -> None:
    env = make(4)
    env.set_seed(1)
    state = env.reset()
    for _ in range(30):
        state = step_mdp(env.step(state.set("action", torch.tensor([0, 1, 2, 3]))))
    before = state["observation"].clone()
    state.set("_reset", torch.tensor([[False], [True], [False], [True]]))
    after = env.reset(state)["observation"]
    assert torch.equal(after[[0, 2]], before[[0, 2]])
    assert ((after[[1, 3]] > 0).flatten(1).sum(1) == 2).all()
    env.close()


def test_infos_are_in_the_rollout_when_they_are_registered() -> None:
    env = TransformedEnv(make(2, obs="dict").auto_register_info_dict(), ActionMask())
    env.set_seed(2)
    rollout = env.rollout(1000)  # stops at the end of the first episode
    lane = int(rollout["next", "done"][:, -1, 0].nonzero()[0])
    total = rollout["next", "reward"][lane].sum()
    assert rollout["next", "score"][lane, -1] == total > 0
    env.close()


def test_a_single_boards_infos_are_registered_automatically() -> None:
    env = GymWrapper(gym.make("twofold/Game2048-v0")).auto_register_info_dict()
    data = env.rollout(5)["next"]
    assert data["score"].dtype == torch.int64
    assert data["goal_reached"].dtype == torch.bool
    assert data["action_mask"].shape == (5, 4)


@pytest.mark.timeout(1200)
def test_ppo_learns(tmp_path: Path) -> None:
    options = torchrl_ppo.parse_arguments(["--threads", "1", "--steps", "245760"])
    network = torchrl_ppo.train(options, torchrl_ppo.make_boards(options), tmp_path)
    policy = torchrl_ppo.policy_of(network)
    # Random play scores 1,095.
    assert twofold.evaluate(policy, episodes=200).scores.mean() > 1.5 * 1095
