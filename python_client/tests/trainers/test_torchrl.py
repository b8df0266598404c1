"""TorchRL takes the boards as they are: its own `GymWrapper` is the adapter."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import twofold

pytest.importorskip("torchrl", reason="`make trainers` has it")

import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.envs import (
    ActionMask,
    DTypeCastTransform,
    GymWrapper,
    TransformedEnv,
    check_env_specs,
    step_mdp,
)
from torchrl.modules import MaskedCategorical, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

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
    observations, _ = envs.reset()  # set_seed resets, and so does a rollout
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
    # Not of observations in a dict: TorchRL does not find their `final_obs`.
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


def test_a_partial_reset_leaves_the_other_boards() -> None:
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
    rollout = env.rollout(1000)  # ends with the first episode
    lane = int(rollout["next", "done"][:, -1, 0].nonzero()[0])
    total = rollout["next", "reward"][lane].sum()
    assert rollout["next", "score"][lane, -1] == total > 0
    env.close()


def train(batches: int = 30) -> Any:
    """Trains with PPO; the network that maps planes to the logits of the actions."""
    envs = gym.make_vec(
        "twofold/Game2048-v0",
        num_envs=64,
        obs="one_hot",
        mask_key="action_mask",
        autoreset_mode="Disabled",
        reward={"merge_exponent": 0.1},
    )
    env = TransformedEnv(
        GymWrapper(envs, categorical_action_encoding=True),
        DTypeCastTransform(torch.int8, torch.bool, in_keys=["action_mask"]),
    )
    env.set_seed(1)

    def network(outputs: int) -> nn.Module:
        layers = [nn.Linear(288, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU()]
        return nn.Sequential(nn.Flatten(-3), *layers, nn.Linear(256, outputs))

    logits = TensorDictModule(network(4), ["observation"], ["logits"])
    actor = ProbabilisticActor(
        logits,
        in_keys={"logits": "logits", "mask": "action_mask"},
        spec=env.action_spec,
        distribution_class=MaskedCategorical,
        return_log_prob=True,
    )
    critic = ValueOperator(network(1))
    gae = GAE(gamma=0.997, lmbda=0.9, value_network=critic)
    loss = ClipPPOLoss(actor, critic, entropy_coeff=0.005, normalize_advantage=True)
    optimizer = torch.optim.Adam(loss.parameters(), 1e-3)
    for batch in Collector(env, actor, frames_per_batch=8192, total_frames=batches * 8192):
        rows = gae(batch).reshape(-1)
        for _ in range(3):
            for part in torch.randperm(8192).chunk(4):
                losses = loss(rows[part])
                optimizer.zero_grad()
                sum(
                    losses[f"loss_{name}"] for name in ("objective", "critic", "entropy")
                ).backward()
                nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
                optimizer.step()
    return logits.module


@pytest.mark.timeout(1200)
def test_ppo_learns() -> None:
    torch.manual_seed(1)
    network = train()

    def policy(boards: Any, mask: Any) -> Any:
        with torch.no_grad():
            logits = network(torch.from_numpy(twofold.one_hot(boards)))
        return logits.masked_fill(torch.from_numpy(mask) == 0, -torch.inf).argmax(1).numpy()

    # Random play scores 1,095.
    assert twofold.evaluate(policy, episodes=200).scores.mean() > 1.5 * 1095
