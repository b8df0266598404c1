"""RLlib's proximal policy optimization on 2048, on one machine or a Ray cluster.

    pip install 'twofold[ray]' 'ray[rllib]' torch
    python rllib_ppo.py                                 # on this machine
    python rllib_ppo.py --address 10.0.0.1:6379         # on all nodes of a cluster
    python rllib_ppo.py --endpoint tcp://10.0.0.1:5555  # with the boards on a server

Each env runner is a process on one of the nodes. It steps its boards as one batch and runs its own
service. The network is trained in this process. At the end, the policy plays games on all nodes.
"""

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import ray
import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.examples.rl_modules.classes.action_masking_rlm import ActionMaskingTorchRLModule

import twofold
from twofold.integrations.ray import RayExecutor


def parse_arguments(words: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    seed = "seed of weights, actions and boards; for one runner only, as runner w gets seed + w"
    add("--seed", type=int, help=seed)
    add("--address", help="a node of the cluster (default: Ray starts on this machine)")
    add("--endpoint", help="a server's address (default: a service in each runner)")
    add("--runners", type=int, help="number of env runners (default: one per CPU)")
    add("--num-envs", type=int, default=32, help="number of boards per runner")
    add("--seconds", type=float, default=600, help="duration of training in seconds")
    add("--steps", type=float, default=math.inf, help="maximum number of board steps")
    add("--threads", type=int, default=torch.get_num_threads(), help="number of PyTorch threads")
    add("--out", type=Path, help="output folder (default: runs/rllib_ppo)")
    add("--episodes", type=int, default=1000, help="games in the final evaluation")
    return parser.parse_args(words)


def make_boards(config: PPOConfig, options: argparse.Namespace) -> PPOConfig:
    """Adds the boards to RLlib's settings."""
    boards = {
        "obs": "one_hot_last",
        "observation_key": "observations",
        "mask_key": "action_mask",
        "reward": {"merge_exponent": 0.1},
        "endpoint": options.endpoint,
    }
    config.environment("twofold:twofold/Game2048-v0", env_config=boards)
    return config.env_runners(gym_env_vectorize_mode="vector_entry_point")


def configure(config: PPOConfig, options: argparse.Namespace, runners: int) -> PPOConfig:
    """Adds the PPO settings to RLlib's settings."""
    network = DefaultModelConfig(conv_filters=[[256, 4, 4]], head_fcnet_hiddens=[256])
    return (
        config.env_runners(num_env_runners=runners, num_envs_per_env_runner=options.num_envs)
        .debugging(seed=options.seed)
        .fault_tolerance(restart_failed_env_runners=True)
        .rl_module(rl_module_spec=RLModuleSpec(ActionMaskingTorchRLModule, model_config=network))
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


def train(options: argparse.Namespace, config: PPOConfig, out: Path) -> Any:
    """Trains a network, writes the steps per second to `out`, and returns the network."""
    torch.set_num_threads(options.threads)
    ray.init(address=options.address, ignore_reinit_error=True)
    runners = options.runners
    if runners is None:
        runners = int(ray.cluster_resources()["CPU"])
    algorithm = configure(config, options, runners).build_algo()
    nodes = algorithm.env_runner_group.foreach_env_runner(
        lambda _: ray.util.get_node_ip_address(), local_env_runner=runners == 0
    )
    print(f"{runners} env runners on {', '.join(sorted(set(nodes)))}", flush=True)
    curve: list[dict[str, float]] = []
    steps, seconds, began = 0, 0.0, time.perf_counter()
    while seconds < options.seconds and steps < options.steps:
        results = algorithm.train()["env_runners"]
        seconds, steps = time.perf_counter() - began, int(results["num_env_steps_sampled_lifetime"])
        curve.append({"steps": steps, "seconds": seconds, "steps_per_second": steps / seconds})
        print(
            f"{seconds:5.0f} s  {steps:>11,} steps  {steps / seconds:7,.0f} steps/s  "
            f"return {results.get('episode_return_mean', math.nan):6.2f}",
            flush=True,
        )
    module = algorithm.get_module()
    algorithm.stop()
    report = {"options": vars(options), "curve": curve}
    # JSON has no Infinity (no limit) and no NaN (no episode yet), so both become null.
    report = json.loads(json.dumps(report, default=str), parse_constant=lambda _: None)
    (out / "curve.json").write_text(json.dumps(report))
    return module


def policy_of(module: Any) -> Any:
    """Returns the network's most probable actions as a function for `evaluate`."""

    def policy(boards: Any, mask: Any) -> Any:
        planes = torch.from_numpy(twofold.one_hot(boards, layout="hwc"))
        observations = {"observations": planes, "action_mask": torch.from_numpy(mask)}
        with torch.no_grad():
            outputs = module.forward_inference({"obs": observations})
        return outputs["action_dist_inputs"].argmax(1).numpy()

    return policy


def main() -> None:
    """Trains a network and evaluates it."""
    options = parse_arguments()
    out = options.out or Path("runs/rllib_ppo")
    out.mkdir(parents=True, exist_ok=True)
    policy = policy_of(train(options, make_boards(PPOConfig(), options), out))
    evaluation = twofold.evaluate(
        policy, episodes=options.episodes, endpoint=options.endpoint, executor=RayExecutor()
    )
    (out / "evaluation.json").write_text(evaluation.to_json())
    print(evaluation)


if __name__ == "__main__":
    main()
