"""Deep Q-learning on afterstates of 2048, in one file.

    pip install torch tensorboard
    python dqn_afterstates.py                # ten minutes on two cores
    python dqn_afterstates.py --endpoint tcp://127.0.0.1:5555

An action's value is its reward, which is known, plus the value of its afterstate: the board after
slide and merge, before the new tile. So the network rates boards, not actions (Szubert and
Jaśkowski, 2014), and `envs.afterstates()` returns the boards to rate. Replay and target network
follow DQN (Mnih et al., 2015). As in double Q-learning (van Hasselt et al., 2016), the target
network rates actions but does not choose them.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.tensorboard import SummaryWriter

import twofold
from twofold import rules

SCALE = 0.001
"""The scale of the rewards. Rewards are scores, and networks learn small numbers better."""


def parse_arguments(words: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--seed", type=int, default=1, help="seed of boards, weights and exploration")
    add("--endpoint", help="a server's address (default: boards in this process)")
    add("--seconds", type=float, default=600, help="duration of training in seconds")
    add("--num-envs", type=int, default=256, help="number of boards")
    add("--memory", type=int, default=400_000, help="transitions in the replay memory")
    add("--batch", type=int, default=512, help="transitions per update")
    add("--learning-rate", type=float, default=1e-3, help="initial learning rate; falls to 0")
    add("--gamma", type=float, default=0.997, help="discount factor")
    add("--epsilon", type=float, default=0.05, help="initial share of random actions; falls to 0")
    add("--sync", type=int, default=200, help="updates between copies to the target network")
    add("--hidden", type=int, default=256, help="width of the network")
    add("--threads", type=int, default=torch.get_num_threads(), help="number of PyTorch threads")
    add("--out", type=Path, help="output folder (default: runs/dqn-<seed>)")
    add("--save-at", type=float, nargs="+", default=[], help="when to save, in seconds")
    add("--episodes", type=int, default=1000, help="games in the final evaluation")
    return parser.parse_args(words)


def make_network(hidden: int) -> Any:
    """Returns a network that maps planes of boards, (B, 288), to their values, (B, 1)."""
    return nn.Sequential(
        nn.Linear(18 * 16, hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Linear(hidden, 1),
    )


def rate(network: Any, boards: NDArray[np.uint8]) -> Tensor:
    """Returns the values (…) of boards (…, 4, 4)."""
    planes = torch.from_numpy(twofold.one_hot(boards.reshape(-1, 4, 4))).flatten(1)
    values: Tensor = network(planes).reshape(boards.shape[:-2])
    return values


def worth(
    network: Any,
    afterstates: NDArray[np.uint8],
    rewards: NDArray[np.float32],
    mask: NDArray[np.int8],
    gamma: float,
) -> Tensor:
    """Returns each action's value, (K, 4), or -inf if the action is illegal."""
    values = torch.full(mask.shape, -torch.inf)
    legal = mask == 1
    rated = rate(network, afterstates[legal])
    values[torch.from_numpy(legal)] = torch.from_numpy(rewards[legal]) + gamma * rated
    return values


class Memory:
    """The replay memory. A transition leads from an afterstate to the next board's legal moves."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.count = capacity, 0
        self.afterstate = np.zeros((capacity, 4, 4), np.uint8)
        self.following = np.zeros((capacity, 4, 4, 4), np.uint8)
        self.rewards = np.zeros((capacity, 4), np.float32)
        self.mask = np.zeros((capacity, 4), np.int8)

    def add(self, afterstate: Any, following: Any, rewards: Any, mask: Any) -> None:
        """Adds K transitions. If an episode has ended, its mask is all zeros."""
        rows = np.arange(self.count, self.count + len(mask)) % self.capacity
        self.afterstate[rows], self.following[rows] = afterstate, following
        self.rewards[rows], self.mask[rows] = rewards, mask
        self.count += len(mask)

    def draw(self, rng: np.random.Generator, size: int) -> NDArray[np.int64]:
        """Returns the indices of a random batch of transitions."""
        return rng.integers(0, min(self.count, self.capacity), size)


def make_boards(options: argparse.Namespace) -> Any:
    """Makes the boards."""
    return gym.make_vec(
        "twofold/Game2048-v0",
        num_envs=options.num_envs,
        endpoint=options.endpoint,
        extra_infos=("episode",),
        autoreset_mode="SameStep",
    ).unwrapped


def train(options: argparse.Namespace, envs: Any, out: Path) -> Any:
    """Trains a network, and writes the curve and the network to `out`."""
    torch.manual_seed(options.seed)
    torch.set_num_threads(options.threads)
    rng = np.random.default_rng(options.seed)
    network, target = make_network(options.hidden), make_network(options.hidden)
    target.load_state_dict(network.state_dict())
    optimizer = torch.optim.Adam(network.parameters(), options.learning_rate)
    writer = SummaryWriter(str(out))
    memory = Memory(options.memory)
    lanes = np.arange(options.num_envs)

    curve: list[dict[str, float]] = []
    saved: list[dict[str, Any]] = []
    marks = sorted(options.save_at)
    updates = 0
    began = shown = time.perf_counter()
    envs.reset(seed=options.seed)
    afterstates, scores, mask = envs.afterstates()
    while True:
        elapsed = time.perf_counter() - began
        left = 1 - elapsed / options.seconds
        while marks and (elapsed >= marks[0] or left <= 0):
            path = out / f"network-{marks.pop(0):g}.pt"
            save(network, options, path)
            saved.append({"file": path.name, "seconds": elapsed, "steps": memory.count})
        if left <= 0:
            break
        optimizer.param_groups[0]["lr"] = left * options.learning_rate
        with torch.no_grad():
            values = worth(network, afterstates, SCALE * scores, mask, options.gamma)
        actions = values.argmax(dim=1).numpy()
        explores = rng.random(len(lanes)) < left * options.epsilon
        any_legal = (rng.random(mask.shape) * mask).argmax(axis=1)
        actions = np.where(explores, any_legal, actions)
        chosen = afterstates[lanes, actions]
        _, _, terminations, truncations, _ = envs.step(actions)
        afterstates, scores, mask = envs.afterstates()
        over = (terminations | truncations)[:, np.newaxis]
        memory.add(chosen, afterstates, SCALE * scores, np.where(over, 0, mask))

        if memory.count >= 10 * options.batch:
            rows = memory.draw(rng, options.batch)
            with torch.no_grad():
                following = memory.following[rows], memory.rewards[rows], memory.mask[rows]
                best = worth(network, *following, options.gamma).argmax(dim=1, keepdim=True)
                wanted = worth(target, *following, options.gamma).gather(1, best).squeeze(1)
                wanted[torch.from_numpy(~memory.mask[rows].any(axis=1))] = 0
            loss = nn.functional.smooth_l1_loss(rate(network, memory.afterstate[rows]), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            updates += 1
            if updates % options.sync == 0:
                target.load_state_dict(network.state_dict())

        if time.perf_counter() - shown >= 5:
            shown = time.perf_counter()
            row = {
                "steps": memory.count,
                "seconds": shown - began,
                "steps_per_second": memory.count / (shown - began),
                **envs.statistics(reset=True),
            }
            curve.append(row)
            for name, number in row.items():
                writer.add_scalar(name, number, memory.count)
            print(
                f"{row['seconds']:5.0f} s  {memory.count:>11,} steps  "
                f"{row['steps_per_second']:7,.0f} steps/s  score {row['score_mean']:7,.0f}",
                flush=True,
            )
    envs.close()
    writer.close()
    save(network, options, out / "network.pt")
    report = {"options": vars(options), "curve": curve, "saved": saved}
    # JSON has no Infinity (no limit) and no NaN (no episode yet), so both become null.
    report = json.loads(json.dumps(report, default=str), parse_constant=lambda _: None)
    (out / "curve.json").write_text(json.dumps(report))
    return network


def save(network: Any, options: argparse.Namespace, path: Path) -> None:
    """Saves a network, and the options that its policy depends on."""
    form = {"hidden": options.hidden, "gamma": options.gamma, "state": network.state_dict()}
    torch.save(form, path)


def load(path: Path) -> tuple[Any, float]:
    """Returns a saved network and its discount factor."""
    saved = torch.load(path, weights_only=True)
    network = make_network(saved["hidden"])
    network.load_state_dict(saved["state"])
    return network, saved["gamma"]


def policy_of(network: Any, gamma: float) -> Any:
    """Returns the network's best actions as a function for `twofold.evaluate`."""

    def policy(boards: NDArray[np.uint8], mask: NDArray[np.int8]) -> NDArray[np.int64]:
        legal = rules.afterstates(boards)
        with torch.no_grad():
            values = worth(network, legal.boards, SCALE * legal.rewards, mask, gamma)
        actions: NDArray[np.int64] = values.argmax(dim=1).numpy()
        return actions

    return policy


def main() -> None:
    """Trains a network and evaluates it."""
    options = parse_arguments()
    out = options.out or Path(f"runs/dqn-{options.seed}")
    out.mkdir(parents=True, exist_ok=True)
    network = train(options, make_boards(options), out)
    policy, episodes = policy_of(network, options.gamma), options.episodes
    evaluation = twofold.evaluate(policy, episodes=episodes, endpoint=options.endpoint)
    (out / "evaluation.json").write_text(evaluation.to_json())
    print(evaluation)


if __name__ == "__main__":
    main()
