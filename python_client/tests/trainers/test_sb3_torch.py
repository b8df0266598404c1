"""Tests of PyTorch tensors as actions and memory, and of PyTorch in the boards' process."""

import pickle
import threading
import warnings
from typing import Any

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest
from loops import assert_same, number
from servers import Server

import twofold
from twofold import errors

pytest.importorskip("stable_baselines3", reason="`make trainers` has it")

import torch
from stable_baselines3 import PPO

from twofold.integrations.sb3 import make_sb3_vec
from twofold.policies.baselines import RandomPolicy

torch.set_num_threads(1)

ARRAYS = ["observations", "action_masks", "actions", "rewards"]
ARRAYS += ["terminations", "truncations", "valid"]
INTEGERS = [torch.uint8, torch.int8, torch.int32, torch.int64]


def make(num_envs: int = 6, **arguments: Any) -> Any:
    envs = twofold.Game2048VectorEnv(num_envs, **{"endpoint": "embedded", **arguments})
    envs.reset(seed=1)
    return envs


# ---- actions -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_a_tensors_actions_play_like_an_arrays(endpoint: str, dtype: Any) -> None:
    envs, twin = make(endpoint=endpoint), make(endpoint=endpoint)
    generator = torch.Generator().manual_seed(0)
    actions = torch.randint(0, 4, (20, 6), generator=generator).to(dtype)
    for row in actions:
        assert number(envs.step(row)) == number(twin.step(row.numpy()))
    envs.step_async(actions[0])
    assert number(envs.step_wait()) == number(twin.step(actions[0].numpy()))
    # Every other row, which is memory with gaps.
    assert_same(
        envs.rollout(10, actions=actions[::2]), twin.rollout(10, actions=actions.numpy()[::2])
    )
    envs.close()
    twin.close()


@pytest.mark.parametrize(
    ("actions", "text"),
    [
        (lambda shape: torch.zeros(shape), "float32"),
        (lambda shape: torch.zeros(shape, dtype=torch.bool), "bool"),
        (lambda shape: torch.zeros(shape, requires_grad=True), "requires grad"),
        (lambda shape: torch.zeros(shape, dtype=torch.bfloat16), "BFloat16"),
        (lambda shape: torch.zeros(shape, dtype=torch.int64, device="meta"), "meta"),
        (lambda shape: torch.zeros(shape, dtype=torch.int64).to_sparse(), "[Ss]parse"),
        (lambda shape: torch.zeros(shape, dtype=torch.int64)[:, :1], "shape"),
        (lambda shape: torch.full(shape, 4), "is 4; expected 0 ... 3"),
    ],
)
def test_a_tensor_without_actions_is_refused(actions: Any, text: str) -> None:
    envs = make()
    before = envs.observe()[0]
    for call, wrong in (
        (envs.step, actions((1, 6))[0]),
        (envs.step_async, actions((1, 6))[0]),
        (lambda tensor: envs.rollout(3, actions=tensor), actions((3, 6))),
    ):
        with pytest.raises(errors.InvalidArgument, match=text) as caught:
            call(wrong)
        assert caught.value.field == "actions"
    np.testing.assert_array_equal(envs.observe()[0], before)
    envs.close()


# ---- results -------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["next_step", "same_step", "disabled"])
@pytest.mark.parametrize("policy", ["random", RandomPolicy()], ids=["random", "function"])
@pytest.mark.parametrize("dialect", [None, "pgx"])  # pgx numbers the actions starting with left
def test_results_become_tensors_without_a_copy_and_without_a_warning(
    mode: str, policy: Any, dialect: str | None
) -> None:
    envs = make(autoreset_mode=mode, max_episode_steps=9, dialect=dialect)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for steps in (1, 30):
            rollout = envs.rollout(steps, policy, infos=["score"])
            arrays = [getattr(rollout, name) for name in ARRAYS] + [rollout.infos["score"]]
            if rollout.finals is not None and steps == 30:
                arrays += [rollout.finals.steps, rollout.finals.lanes, rollout.finals.observations]
            for array in arrays:
                tensor = torch.from_numpy(array)
                assert tensor.data_ptr() == array.ctypes.data
                assert tensor.is_contiguous()
                np.testing.assert_array_equal(tensor.numpy(), array)
        observations, infos = envs.reset(seed=2)
        for array in (observations, infos["action_mask"], *envs.step(np.zeros(6, int))[:4]):
            tensor = torch.from_numpy(array)
            assert tensor.data_ptr() == array.ctypes.data
            assert tensor.is_contiguous()
    envs.close()


def tensors(steps: int) -> dict[str, Any]:
    batch = (steps, 6)
    return {
        "observations": torch.zeros((steps + 1, 6, 4, 4), dtype=torch.uint8),
        "action_masks": torch.zeros((steps + 1, 6, 4), dtype=torch.int8),
        "actions": torch.zeros(batch, dtype=torch.uint8),
        "rewards": torch.full(batch, torch.nan),
        "terminations": torch.zeros(batch, dtype=torch.bool),
        "truncations": torch.zeros(batch, dtype=torch.bool),
        "valid": torch.zeros(batch, dtype=torch.bool),
        "infos": {"score": torch.zeros(batch, dtype=torch.int32)},
    }


class Network:
    """A PyTorch policy whose weights never change."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(16, 4)

    def __call__(self, observations: Any, action_mask: Any) -> Any:
        with torch.no_grad():
            logits = self.layer(torch.from_numpy(observations).flatten(1).float())
            return logits.masked_fill(torch.from_numpy(action_mask) == 0, -1e9).argmax(dim=1)


@pytest.mark.parametrize("policy", ["greedy", Network()], ids=["greedy", "network"])
def test_a_rollout_is_written_to_tensors(policy: Any) -> None:
    envs, twin = make(max_episode_steps=9), make(max_episode_steps=9)
    out = tensors(30)
    for _ in range(2):
        rollout = envs.rollout(30, policy, infos=["score"], out=out)
        expected = twin.rollout(30, policy, infos=["score"])
        assert_same(rollout, expected)
        for name, tensor in out.items():
            if name != "infos":
                np.testing.assert_array_equal(tensor.numpy(), getattr(expected, name))
                assert getattr(rollout, name).ctypes.data == tensor.data_ptr()
        np.testing.assert_array_equal(out["infos"]["score"].numpy(), expected.infos["score"])
    envs.close()
    twin.close()


@pytest.mark.parametrize(
    "rewards",
    [
        torch.zeros((30, 6), requires_grad=True),
        torch.zeros((30, 6), device="meta"),
        torch.zeros((30, 6), dtype=torch.float64),
        torch.zeros((30, 6), dtype=torch.bfloat16),
        torch.zeros((6, 30)),
    ],
    ids=["gradient", "device", "float64", "bfloat16", "shape"],
)
def test_an_unusable_tensor_is_refused_by_its_name(rewards: Any) -> None:
    envs = make()
    before = envs.observe()[0]
    for policy in ("random", Network()):
        with pytest.raises(errors.InvalidArgument) as caught:
            envs.rollout(30, policy, out=tensors(30) | {"rewards": rewards}, infos=["score"])
        assert caught.value.field == "out.rewards"
    np.testing.assert_array_equal(envs.observe()[0], before)
    envs.close()


# ---- two libraries in one process ----------------------------------------------------------------


def test_a_learner_trains_while_another_thread_steps_other_boards(server: Server) -> None:
    """Each thread gets the same results as alone, in the process and on a server."""

    def weights() -> Any:
        boards = make_sb3_vec("twofold/Game2048-v0", 8, endpoint="embedded", max_episode_steps=50)
        model = PPO(
            "MlpPolicy", boards, n_steps=64, batch_size=128, n_epochs=2, seed=3, device="cpu"
        )
        model.learn(2048)
        boards.close()
        return [parameter.detach().numpy().copy() for parameter in model.policy.parameters()]

    def play(endpoint: str, steps: int) -> list[int]:
        envs = gym.make_vec("twofold/Game2048-v0", num_envs=32, endpoint=endpoint)
        mask = envs.reset(seed=4)[1]["action_mask"]
        results = []
        for _ in range(steps):
            actions = torch.from_numpy(mask).argmax(dim=1)
            stepped = envs.step(actions)
            mask = stepped[4]["action_mask"]
            results.append(number(stepped))
        envs.close()
        return results

    alone, expected = weights(), play("embedded", 600)
    played: dict[str, list[int]] = {}

    def keep(endpoint: str) -> None:
        played[endpoint] = play(endpoint, 600)

    threads = [threading.Thread(target=keep, args=[name]) for name in ("embedded", server.ipc)]
    for thread in threads:
        thread.start()
    trained = weights()
    for thread in threads:
        thread.join()
    assert played == {"embedded": expected, server.ipc: expected}
    for mine, its in zip(trained, alone, strict=True):
        np.testing.assert_array_equal(mine, its)


def test_a_network_in_a_worker_process_plays_as_it_does_here() -> None:
    policy = pickle.loads(cloudpickle.dumps(Network()))
    envs, twin = make(), make()
    assert_same(envs.rollout(50, policy), twin.rollout(50, Network()))
    envs.close()
    twin.close()


# ---- networks as policies ------------------------------------------------------------------------


class Linear(torch.nn.Module):  # type: ignore[misc]
    """A network that maps observations of any form to logits and a value."""

    def __init__(self, numbers: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.weights = torch.nn.Parameter(torch.randn(numbers, 4, generator=generator))

    def forward(self, observations: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        flat = observations.flatten(1).float()
        return flat @ self.weights, flat.sum(1)


FORMED = {"array": 6, "flat": 6, "one_hot": 48, "one_hot_last": 48}


@pytest.mark.parametrize(("obs", "numbers"), FORMED.items())
def test_a_network_plays_the_same_with_observations_from_policy_or_environment(
    obs: Any, numbers: int
) -> None:
    policy = twofold.policies.TorchPolicy(Linear(numbers), obs, planes=8)
    boards, formed = make(size=(2, 3)), make(size=(2, 3), obs=obs)
    assert_same(boards.rollout(50, policy), formed.rollout(50, policy))
    boards.close()
    formed.close()


def test_a_network_plays_the_legal_action_that_it_values_most() -> None:
    net = Linear(16)
    policy = twofold.policies.TorchPolicy(net, "flat")
    envs = make()
    observations, infos = envs.reset(seed=3)
    mask = infos["action_mask"]
    values = net(torch.from_numpy(observations))[0].detach().numpy()
    for row, action in enumerate(policy(observations, mask)):
        legal = np.flatnonzero(mask[row])
        assert action == legal[values[row, legal].argmax()]
    envs.close()


def test_a_report_names_the_network_and_its_size() -> None:
    policy = twofold.policies.TorchPolicy(Linear(288))
    result = twofold.evaluate(policy, episodes=3, endpoint="embedded", record=True)
    assert result.policy == "Linear"
    assert result.card["weights, MB"] == 288 * 4 * 4 / 1e6
    assert result.card["search depth"] == "none"


@pytest.mark.parametrize(
    ("net", "arguments", "text"),
    [
        (None, {}, "expected a torch.nn.Module"),
        (Linear(6), {"obs": "dict"}, "obs is 'dict'"),
        (Linear(6), {"planes": 0}, "planes is 0"),
    ],
)
def test_a_wrong_network_or_form_is_refused(net: Any, arguments: Any, text: str) -> None:
    with pytest.raises(errors.InvalidArgument, match=text):
        twofold.policies.TorchPolicy(net, **arguments)


def test_a_network_with_another_number_of_values_is_a_policy_error() -> None:
    policy = twofold.policies.TorchPolicy(torch.nn.Flatten(), "flat")
    with pytest.raises(errors.PolicyError, match=r"returned shape \(1000, 16\)"):
        twofold.evaluate(policy, endpoint="embedded")


@pytest.mark.parametrize("values", [[np.nan] * 4, [0.0, np.nan, 1.0, 2.0]], ids=str)
def test_a_network_that_returns_nan_is_a_policy_error(values: Any) -> None:
    policy = twofold.policies.TorchPolicy(lambda boards: torch.tensor([values] * len(boards)))
    with pytest.raises(errors.PolicyError, match=r"values for row 0 are .*nan"):
        twofold.evaluate(policy, episodes=3, endpoint="embedded")
