"""Tianshou's PPO on 2048, in one file.

    pip install 'twofold[tianshou]'
    python tianshou_ppo.py                   # ten minutes on two cores
    python tianshou_ppo.py --endpoint tcp://127.0.0.1:5555

Only `make_boards` connects Tianshou with the boards. Tianshou's PPO does not support action masks,
so the actor masks its own logits.
"""

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tianshou.algorithm.modelfree.ppo import PPO
from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Batch, Collector, VectorReplayBuffer
from tianshou.trainer import OnPolicyTrainerParams
from torch import nn

import twofold
from twofold.integrations.tianshou import make_tianshou_vec


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
    add("--threads", type=int, default=torch.get_num_threads(), help="number of PyTorch threads")
    add("--out", type=Path, help="output folder (default: runs/tianshou_ppo-<seed>)")
    add("--episodes", type=int, default=1000, help="games in the final evaluation")
    return parser.parse_args(words)


def make_boards(options: argparse.Namespace) -> Any:
    """Returns the boards as a Tianshou vector environment."""
    boards = make_tianshou_vec(
        "twofold/Game2048-v0",
        options.num_envs,
        endpoint=options.endpoint,
        reward={"merge_exponent": 0.1},
    )
    boards.seed(options.seed)
    return boards


class Critic(nn.Module):  # type: ignore[misc, unused-ignore]  # mypy does not see the library
    """A network that maps each observation to `outputs` numbers."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        layers = [nn.Linear(18 * 16, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU()]
        self.layers = nn.Sequential(nn.Flatten(), *layers, nn.Linear(256, outputs))

    def forward(self, obs: Any, state: Any = None, info: Any = None) -> Any:
        """Returns the outputs for B observations, (B, outputs)."""
        return self.layers(torch.as_tensor(obs.obs, dtype=torch.float32))


class Actor(Critic):
    """A network that maps observations to action logits, which are low for illegal actions."""

    def forward(self, obs: Any, state: Any = None, info: Any = None) -> Any:
        """Returns logits (B, 4), and None as the recurrent state."""
        return super().forward(obs).masked_fill(~torch.as_tensor(obs.mask), -1e9), state


def train(options: argparse.Namespace, boards: Any, out: Path) -> Actor:
    """Trains with PPO, and writes the steps per second and the actor to `out`."""
    torch.manual_seed(options.seed)
    np.random.seed(options.seed)  # Tianshou shuffles batches with this generator
    torch.set_num_threads(options.threads)
    actor = Actor(4)
    ppo: Any = PPO(
        policy=ProbabilisticActorPolicy(
            actor=actor,
            dist_fn=lambda logits: torch.distributions.Categorical(logits=logits),
            action_space=boards.action_space[0],
            action_scaling=False,
            action_bound_method=None,
            deterministic_eval=True,
        ),
        critic=Critic(1),
        optim=AdamOptimizerFactory(lr=1e-3),
        gamma=0.997,
        gae_lambda=0.9,
        ent_coef=0.005,
        max_grad_norm=0.5,
        max_batchsize=4096,
    )
    buffer = VectorReplayBuffer(options.batch, options.num_envs)
    collector: Any = Collector(ppo, boards, buffer)
    curve: list[dict[str, float]] = []
    trainer = ppo.create_trainer(
        OnPolicyTrainerParams(
            training_collector=collector,
            epoch_num_steps=options.batch,
            collection_step_num_env_steps=options.batch,
            update_step_num_repetitions=3,
            batch_size=2048,
            show_progress=False,
        )
    )
    trainer.reset()
    steps, seconds, began = 0, 0.0, time.perf_counter()
    while seconds < options.seconds and steps < options.steps:
        trainer.execute_epoch()  # as `run` does for each epoch
        steps, seconds = collector.collect_step, time.perf_counter() - began
        curve.append({"steps": steps, "seconds": seconds, "steps_per_second": steps / seconds})
        print(f"{seconds:5.0f} s  {steps:>11,} steps  {steps / seconds:7,.0f} steps/s", flush=True)
    boards.close()
    torch.save(actor.state_dict(), out / "actor.pt")
    report = {"options": vars(options), "curve": curve}
    # JSON has no Infinity (no limit) and no NaN (no episode yet), so both become null.
    report = json.loads(json.dumps(report, default=str), parse_constant=lambda _: None)
    (out / "curve.json").write_text(json.dumps(report))
    return actor


def policy_of(actor: Actor) -> Any:
    """Returns the actor's most probable actions as a function for `twofold.evaluate`."""

    def policy(boards: NDArray[Any], mask: NDArray[Any]) -> NDArray[np.int64]:
        with torch.no_grad():
            logits, _ = actor(Batch(obs=twofold.one_hot(boards), mask=mask == 1))
        actions: NDArray[np.int64] = logits.argmax(1).numpy()
        return actions

    return policy


def main() -> None:
    """Trains an actor and evaluates it."""
    options = parse_arguments()
    out = options.out or Path(f"runs/tianshou_ppo-{options.seed}")
    out.mkdir(parents=True, exist_ok=True)
    policy = policy_of(train(options, make_boards(options), out))
    evaluation = twofold.evaluate(policy, episodes=options.episodes, endpoint=options.endpoint)
    (out / "evaluation.json").write_text(evaluation.to_json())
    print(evaluation)


if __name__ == "__main__":
    main()
