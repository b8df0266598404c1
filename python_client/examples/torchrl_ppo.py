"""PPO on 2048 with TorchRL, in one file.

    pip install torchrl
    python torchrl_ppo.py                    # ten minutes on two cores
    python torchrl_ppo.py --endpoint tcp://127.0.0.1:5555

Only `make_boards` connects TorchRL with the boards. TorchRL's `GymWrapper` accepts them unchanged.
"""

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.envs import DTypeCastTransform, GymWrapper, TransformedEnv
from torchrl.modules import MaskedCategorical, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

import twofold


def parse_arguments(words: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--seed", type=int, default=1, help="seed of boards, weights and actions")
    add("--endpoint", help="a server's address (default: boards in this process)")
    add("--seconds", type=float, default=600, help="duration of training in seconds")
    add("--steps", type=float, default=math.inf, help="maximum number of board steps")
    add("--num-envs", type=int, default=64, help="number of boards")
    add("--batch", type=int, default=8192, help="steps of all boards per update")
    add("--learning-rate", type=float, default=1e-3, help="initial learning rate; falls to 0")
    add("--threads", type=int, default=torch.get_num_threads(), help="number of PyTorch threads")
    add("--out", type=Path, help="output folder (default: runs/torchrl_ppo-<seed>)")
    add("--episodes", type=int, default=1000, help="games in the final evaluation")
    return parser.parse_args(words)


def make_boards(options: argparse.Namespace) -> Any:
    """Returns the boards as a TorchRL environment."""
    envs = gym.make_vec(
        "twofold/Game2048-v0",
        num_envs=options.num_envs,
        endpoint=options.endpoint,
        obs="one_hot",
        mask_key="action_mask",
        reward={"merge_exponent": 0.1},
        autoreset_mode="Disabled",  # TorchRL itself resets the boards that have finished
    )
    env = TransformedEnv(GymWrapper(envs, categorical_action_encoding=True))
    # MaskedCategorical requires bool.
    env.append_transform(DTypeCastTransform(torch.int8, torch.bool, in_keys=["action_mask"]))
    env.set_seed(options.seed)
    return env


def train(options: argparse.Namespace, env: Any, out: Path) -> nn.Module:
    """Trains a network from planes (…, 18, 4, 4) to logits (…, 4) with PPO, and returns it."""
    torch.manual_seed(options.seed)
    torch.set_num_threads(options.threads)

    def network(outputs: int) -> nn.Module:
        layers = [nn.Linear(18 * 16, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU()]
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
    ppo = ClipPPOLoss(actor, critic, entropy_coeff=0.005, normalize_advantage=True)
    optimizer = torch.optim.Adam(ppo.parameters(), options.learning_rate)
    curve: list[dict[str, float]] = []
    steps, began = 0, time.perf_counter()
    for batch in Collector(env, actor, frames_per_batch=options.batch, total_frames=-1):
        rows = gae(batch).reshape(-1)
        for _ in range(3):
            for part in torch.randperm(len(rows)).chunk(4):
                losses = ppo(rows[part])
                optimizer.zero_grad()
                sum(
                    losses[f"loss_{name}"] for name in ("objective", "critic", "entropy")
                ).backward()
                nn.utils.clip_grad_norm_(ppo.parameters(), 0.5)
                optimizer.step()
        steps += len(rows)
        seconds = time.perf_counter() - began
        curve.append({"steps": steps, "seconds": seconds, "steps_per_second": steps / seconds})
        print(f"{seconds:5.0f} s  {steps:>11,} steps  {steps / seconds:7,.0f} steps/s", flush=True)
        left = 1 - max(seconds / options.seconds, steps / options.steps)
        if left <= 0:
            break
        optimizer.param_groups[0]["lr"] = left * options.learning_rate
    env.close()
    torch.save(logits.module.state_dict(), out / "network.pt")
    report = {"options": vars(options), "curve": curve}
    # JSON has no Infinity (no limit) and no NaN (no episode yet), so both become null.
    report = json.loads(json.dumps(report, default=str), parse_constant=lambda _: None)
    (out / "curve.json").write_text(json.dumps(report))
    return logits.module


def policy_of(network: nn.Module) -> Any:
    """Returns the network's most probable actions as a function for `twofold.evaluate`."""

    def policy(boards: NDArray[Any], mask: NDArray[Any]) -> NDArray[np.int64]:
        with torch.no_grad():
            logits = network(torch.from_numpy(twofold.one_hot(boards)))
        actions: NDArray[np.int64] = (
            logits.masked_fill(torch.from_numpy(mask) == 0, -torch.inf).argmax(1).numpy()
        )
        return actions

    return policy


def main() -> None:
    """Trains a network and evaluates it."""
    options = parse_arguments()
    out = options.out or Path(f"runs/torchrl_ppo-{options.seed}")
    out.mkdir(parents=True, exist_ok=True)
    policy = policy_of(train(options, make_boards(options), out))
    evaluation = twofold.evaluate(policy, episodes=options.episodes, endpoint=options.endpoint)
    (out / "evaluation.json").write_text(evaluation.to_json())
    print(evaluation)


if __name__ == "__main__":
    main()
