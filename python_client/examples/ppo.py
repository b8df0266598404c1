"""Proximal policy optimization with action masks on 2048, in one file.

    pip install torch tensorboard
    python ppo.py                            # ten minutes on two cores
    python ppo.py --endpoint tcp://127.0.0.1:5555
    python ppo.py --evaluate runs/ppo-1/model.pt
    python ppo.py --save-at 60 300           # also saves the agent after 60 s and 300 s

Like CleanRL's single files (Huang et al., 2022), it is meant to be read from top to bottom, copied
and changed. Masked logits are from Huang and Ontañón, *A Closer Look at Invalid Action Masking*
(2020). The learning curve goes to TensorBoard and to a JSON file.
"""

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.distributions import Categorical
from torch.utils.tensorboard import SummaryWriter

import twofold


def parse_arguments(words: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--seed", type=int, default=1, help="seed of boards, weights and actions")
    add("--endpoint", help="a server's address (default: boards in this process)")
    add("--seconds", type=float, default=600, help="duration of training in seconds")
    add("--steps", type=float, default=math.inf, help="maximum number of board steps")
    add("--num-envs", type=int, default=256, help="number of boards")
    add("--num-steps", type=int, default=64, help="steps of each board per update")
    add("--learning-rate", type=float, default=1e-3, help="initial learning rate; falls to 0")
    add("--gamma", type=float, default=0.997, help="discount factor")
    add("--gae-lambda", type=float, default=0.9, help="lambda of the advantage estimates")
    add("--minibatches", type=int, default=4, help="minibatches per batch")
    add("--epochs", type=int, default=3, help="passes over each batch")
    add("--clip", type=float, default=0.2, help="clipping range of the probability ratio")
    add("--entropy", type=float, default=0.005, help="weight of the entropy bonus")
    add("--value", type=float, default=0.5, help="weight of the value loss")
    add("--max-grad-norm", type=float, default=0.5, help="maximum norm of the gradient")
    add("--hidden", type=int, default=256, help="width of the network")
    add("--threads", type=int, default=torch.get_num_threads(), help="number of PyTorch threads")
    add("--out", type=Path, help="output folder (default: runs/ppo-<seed>)")
    add("--save-at", type=float, nargs="+", default=[], help="when to save, in seconds")
    add("--evaluate", type=Path, metavar="MODEL", help="only evaluate a saved model")
    add("--episodes", type=int, default=1000, help="games in the final evaluation")
    return parser.parse_args(words)


class Agent(nn.Module):  # type: ignore[misc]  # mypy does not see the library
    """A network that maps the planes of boards, (B, *shape), to action logits and values."""

    def __init__(self, shape: tuple[int, int, int], hidden: int) -> None:
        super().__init__()
        self.shape, self.arguments = shape, {"shape": shape, "hidden": hidden}
        self.body = nn.Sequential(
            nn.Flatten(),
            nn.Linear(math.prod(shape), hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
        )
        self.actor, self.critic = nn.Linear(hidden, 4), nn.Linear(hidden, 1)
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                nn.init.orthogonal_(layer.weight, 2**0.5)
                nn.init.zeros_(layer.bias)
        nn.init.orthogonal_(self.actor.weight, 0.01)

    def forward(self, planes: Tensor, mask: Tensor) -> tuple[Categorical, Tensor]:
        """Returns the distribution over legal actions, and the values (B,)."""
        features = self.body(planes)
        logits = self.actor(features).masked_fill(mask == 0, -1e9)
        distribution = Categorical(logits=logits, validate_args=False)
        return distribution, self.critic(features).squeeze(-1)


def make_boards(options: argparse.Namespace) -> Any:
    """Makes the boards."""
    return gym.make_vec(
        "twofold/Game2048-v0",
        num_envs=options.num_envs,
        endpoint=options.endpoint,
        obs="one_hot",
        # A merge's reward grows with the exponent of its tile: a merge to 2048 counts 5.5 times as
        # much as a merge to 4, not 512 times. The scores reported below are still the game's.
        reward={"merge_exponent": 0.1},
        extra_infos=("episode",),
        autoreset_mode="SameStep",
        copy=False,  # `train` copies the results that it keeps before the next step
    )


def train(
    options: argparse.Namespace,
    envs: Any,
    out: Path,
    watch: Callable[[Agent, int], None] = lambda agent, steps: None,
) -> Agent:
    """Trains an agent, and writes the curve and the model to `out`.

    `watch` is called with the agent and the number of steps before each batch, and at the end.
    """
    torch.manual_seed(options.seed)
    torch.set_num_threads(options.threads)
    shape = envs.single_observation_space.shape
    agent = Agent(shape, options.hidden)
    optimizer = torch.optim.Adam(agent.parameters(), options.learning_rate, eps=1e-5)
    writer = SummaryWriter(str(out))

    times, lanes = options.num_steps, options.num_envs
    planes = torch.zeros((times, lanes, *shape))
    masks = torch.zeros((times, lanes, 4), dtype=torch.int8)
    actions = torch.zeros((times, lanes), dtype=torch.int64)
    log_probs, rewards, dones, values = (torch.zeros((times, lanes)) for _ in range(4))

    def save(path: Path) -> None:
        torch.save({"arguments": agent.arguments, "state": agent.state_dict()}, path)

    curve: list[dict[str, float]] = []
    saved: list[dict[str, Any]] = []
    marks = sorted(options.save_at)
    steps, shown, in_environment = 0, 0.0, 0.0
    began = time.perf_counter()
    observation, infos = envs.reset(seed=options.seed)
    while True:
        elapsed = time.perf_counter() - began
        left = 1 - max(elapsed / options.seconds, steps / options.steps)
        while marks and (elapsed >= marks[0] or left <= 0):
            path = out / f"model-{marks.pop(0):g}.pt"
            save(path)
            saved.append({"file": path.name, "seconds": elapsed, "steps": steps})
        watch(agent, steps)
        if left <= 0:
            break
        optimizer.param_groups[0]["lr"] = left * options.learning_rate

        for t in range(times):
            planes[t] = torch.from_numpy(observation)
            masks[t] = torch.from_numpy(infos["action_mask"])
            with torch.no_grad():
                distribution, values[t] = agent(planes[t], masks[t])
                actions[t] = distribution.sample()
            start = time.perf_counter()
            envs.step_async(actions[t].numpy())
            in_environment += time.perf_counter() - start
            log_probs[t] = distribution.log_prob(actions[t])  # while a server steps
            start = time.perf_counter()
            observation, reward, terminations, truncations, infos = envs.step_wait()
            in_environment += time.perf_counter() - start
            rewards[t] = torch.from_numpy(reward)
            dones[t] = torch.from_numpy(terminations | truncations)
        steps += times * lanes

        # Generalised advantage estimation (Schulman et al., 2016).
        with torch.no_grad():
            mask = torch.from_numpy(infos["action_mask"])
            _, following = agent(torch.from_numpy(observation), mask)
            advantages = torch.zeros((times, lanes))
            advantage = torch.zeros(lanes)
            for t in reversed(range(times)):
                goes_on = 1 - dones[t]
                error = rewards[t] + options.gamma * following * goes_on - values[t]
                advantage = error + options.gamma * options.gae_lambda * goes_on * advantage
                advantages[t], following = advantage, values[t]
            returns = advantages + values

        batch = [
            array.flatten(0, 1)
            for array in (planes, masks, actions, log_probs, advantages, returns)
        ]
        for _ in range(options.epochs):
            for rows in torch.randperm(times * lanes).chunk(options.minibatches):
                seen, legal, chosen, before, gained, wanted = (array[rows] for array in batch)
                distribution, value = agent(seen, legal)
                ratio = (distribution.log_prob(chosen) - before).exp()
                gained = (gained - gained.mean()) / (gained.std() + 1e-8)
                clipped = ratio.clamp(1 - options.clip, 1 + options.clip)
                policy_loss = -torch.min(gained * ratio, gained * clipped).mean()
                value_loss = 0.5 * (value - wanted).square().mean()
                entropy = distribution.entropy().mean()
                loss = policy_loss + options.value * value_loss - options.entropy * entropy
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), options.max_grad_norm)
                optimizer.step()

        seconds = time.perf_counter() - began
        if seconds - shown >= 5:
            shown = seconds
            row = {
                "steps": steps,
                "seconds": seconds,
                "steps_per_second": steps / seconds,
                "environment_share": in_environment / seconds,
                "entropy": entropy.item(),
                **envs.unwrapped.statistics(reset=True),
            }
            curve.append(row)
            for name, number in row.items():
                writer.add_scalar(name, number, steps)
            print(
                f"{seconds:5.0f} s  {steps:>11,} steps  {row['steps_per_second']:7,.0f} steps/s  "
                f"environment {row['environment_share']:.1%}  score {row['score_mean']:7,.0f}",
                flush=True,
            )
    envs.close()
    writer.close()
    save(out / "model.pt")
    report = {"options": vars(options), "curve": curve, "saved": saved}
    # JSON has no Infinity (no limit) and no NaN (no episode yet), so both become null.
    report = json.loads(json.dumps(report, default=str), parse_constant=lambda _: None)
    (out / "curve.json").write_text(json.dumps(report))
    return agent


def load(path: Path) -> Agent:
    """Returns a saved agent."""
    saved = torch.load(path, weights_only=True)
    agent = Agent(**saved["arguments"])
    agent.load_state_dict(saved["state"])
    return agent


def policy_of(agent: Agent) -> Any:
    """Returns the agent's most probable actions as a function for `twofold.evaluate`."""

    def policy(boards: NDArray[np.uint8], mask: NDArray[np.int8]) -> NDArray[np.int64]:
        with torch.no_grad():
            planes = torch.from_numpy(twofold.one_hot(boards, agent.shape[0]))
            distribution, _ = agent(planes, torch.from_numpy(mask))
        actions: NDArray[np.int64] = distribution.logits.argmax(dim=1).numpy()
        return actions

    return policy


def main() -> None:
    """Trains or loads a model, and evaluates it."""
    options = parse_arguments()
    out = options.out or Path(f"runs/ppo-{options.seed}")
    if options.evaluate is None:
        out.mkdir(parents=True, exist_ok=True)
        agent = train(options, make_boards(options), out)
    else:
        agent = load(options.evaluate)
    policy, episodes = policy_of(agent), options.episodes
    evaluation = twofold.evaluate(policy, episodes=episodes, endpoint=options.endpoint)
    if options.evaluate is None:
        (out / "evaluation.json").write_text(evaluation.to_json())
    print(evaluation)


if __name__ == "__main__":
    main()
