"""A GRU trained with a scaled-down POPGym protocol, compared with exact maximum returns.

    pip install torch tensorboard
    python popgym_gru.py                              # popgym-easy, ten minutes on one core
    python popgym_gru.py --preset popgym-hard --seed 2
    python popgym_gru.py --endpoint tcp://127.0.0.1:5555
    python popgym_gru.py --evaluate runs/popgym-gru-popgym-easy-1/model.pt

It follows POPGym's `popgym/baselines/ppo.py`: its network, RLlib's variant of PPO, whole episodes
with gradients through all of their steps, no action masks, and observations with the last action
(which also marks the first step). The step limit counts as an ordinary end of the episode: no value
is bootstrapped after it. These parts are scaled down:

|                         | POPGym     | here                                                  |
|-------------------------|------------|-------------------------------------------------------|
| steps of training       | 15,000,000 | as many as fit in ten minutes, `--seconds`            |
| steps per batch         | 65,536     | 128 episodes: 13,312, twice as many on popgym-medium  |
| steps per minibatch     | 8,192      | 16 episodes: 1,664, twice as many on popgym-medium    |
| passes over each batch  | 30         | 1                                                     |
| learning rate           | 0.00005    | 0.003                                                 |

A pass over the steps takes longer than playing them, so one pass leaves the most time for new
episodes. Larger updates make up for having fewer of them. On one core, the full protocol takes
hours. Its options are (popgym-medium: 316 and 40 instead of 631 and 79):

    --seconds inf --steps 15e6 --num-envs 631 --minibatch 79 --epochs 30 --learning-rate 5e-5

POPGym's score is the highest mean return of any batch (MMER: maximum mean episodic reward),
averaged over several seeds. A maximum exceeds the mean return by chance alone, so the program also
prints random play's MMER. At the end, the network plays games with other seeds, and samples its
actions as in training.
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
from torch import Tensor, nn
from torch.distributions import Categorical, kl_divergence
from torch.nn.functional import one_hot
from torch.utils.tensorboard import SummaryWriter

import twofold
from twofold.evaluation import Evaluation

ENVIRONMENT = "twofold/Concentration-v0"
PRESETS = ("popgym-easy", "popgym-medium", "popgym-hard")
KL_TARGET = 0.01  # RLlib's default


def parse_arguments(words: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--preset", choices=PRESETS, default=PRESETS[0], help="the game")
    add("--seed", type=int, default=1, help="seed of boards, weights and actions")
    add("--endpoint", help="a server's address (default: boards in this process)")
    add("--seconds", type=float, default=600, help="duration of training in seconds")
    add("--steps", type=float, default=math.inf, help="maximum number of board steps")
    add("--num-envs", type=int, default=128, help="episodes per batch")
    add("--minibatch", type=int, default=16, help="episodes per minibatch")
    add("--epochs", type=int, default=1, help="passes over each batch")
    add("--learning-rate", type=float, default=3e-3, help="constant learning rate")
    add("--gamma", type=float, default=0.99, help="discount factor")
    add("--gae-lambda", type=float, default=1.0, help="lambda of the advantage estimates")
    add("--clip", type=float, default=0.3, help="clipping range of the probability ratio")
    add("--kl", type=float, default=0.2, help="initial weight of the KL divergence")
    add("--entropy", type=float, default=0.0, help="weight of the entropy bonus")
    add("--value", type=float, default=1.0, help="weight of the value loss")
    add("--value-clip", type=float, default=10.0, help="maximum squared error of a value")
    add("--hidden", type=int, default=256, help="size of the state")
    add("--threads", type=int, default=1, help="number of PyTorch threads")
    add("--out", type=Path, help="folder (default: runs/popgym-gru-<preset>-<seed>)")
    add("--evaluate", type=Path, metavar="MODEL", help="only evaluate a saved model")
    add("--episodes", type=int, default=1000, help="games in the final evaluation")
    return parser.parse_args(words)


class Agent(nn.Module):  # type: ignore[misc]  # mypy does not see the library
    """A network that maps an episode's observations so far to the cards' logits and a value.

    Args:
        cards: The number of cards C, which is the number of actions.
        symbols: The number of symbols. One more value stands for a card that is face down.
        hidden: The size of the state.
    """

    def __init__(self, cards: int, symbols: int, hidden: int) -> None:
        super().__init__()
        self.arguments = {"cards": cards, "symbols": symbols, "hidden": hidden}
        width = 128
        inputs = cards * (symbols + 1) + cards + 1

        def head(outputs: int) -> nn.Sequential:
            return nn.Sequential(
                orthogonal(nn.Linear(hidden, width)),
                nn.LeakyReLU(),
                orthogonal(nn.Linear(width, width)),
                nn.LeakyReLU(),
                small(nn.Linear(width, outputs)),
            )

        self.features = nn.Sequential(
            orthogonal(nn.Linear(inputs, width)),
            nn.LayerNorm(width, elementwise_affine=False),
            orthogonal(nn.Linear(width, width)),
            nn.LeakyReLU(),
        )
        self.memory = nn.GRU(width, hidden)
        self.actor, self.critic = head(cards), head(1)

    def encode(self, observations: NDArray[np.uint8]) -> Tensor:
        """Returns observations and last actions (N, C + 1) in one-hot form, float32 (N, inputs)."""
        numbers = torch.from_numpy(observations).long()
        cards = one_hot(numbers[:, :-1], self.arguments["symbols"] + 1).flatten(1)
        last = one_hot(numbers[:, -1], self.arguments["cards"] + 1)
        return torch.cat([cards, last], dim=1).float()

    def forward(
        self, encoded: Tensor, state: Tensor | None = None
    ) -> tuple[Categorical, Tensor, Tensor]:
        """Returns the distribution over cards and the values, (T, N), and the state after T steps.

        Args:
            encoded: The observations of T steps of N boards, (T, N, inputs).
            state: The state before these steps, (1, N, hidden); None at the start of episodes.
        """
        remembered, state = self.memory(self.features(encoded), state)
        distribution = Categorical(logits=self.actor(remembered), validate_args=False)
        return distribution, self.critic(remembered).squeeze(-1), state


def orthogonal(layer: nn.Linear) -> nn.Linear:
    """Initialises a layer with orthogonal weights and returns it."""
    nn.init.orthogonal_(layer.weight)
    return layer


def small(layer: nn.Linear) -> nn.Linear:
    """Initialises a layer with small weights, so that the first choices are almost uniform."""
    nn.init.normal_(layer.weight, std=0.01)
    return layer


def make_boards(options: argparse.Namespace, num_envs: int) -> Any:
    """Makes the boards."""
    return gym.make_vec(
        ENVIRONMENT,
        num_envs=num_envs,
        endpoint=options.endpoint,
        preset=options.preset,
        observe_last_action=True,
    )


def advantages_of(rewards: Tensor, values: Tensor, gamma: float, gae_lambda: float) -> Tensor:
    """Returns generalised advantages (Schulman et al., 2016) of whole episodes, (T, N) each.

    Rewards and values are 0 after an episode's end.
    """
    advantages = torch.zeros_like(rewards)
    advantage, following = torch.zeros_like(rewards[0]), torch.zeros_like(values[0])
    for t in reversed(range(len(rewards))):
        error = rewards[t] + gamma * following - values[t]
        advantage = error + gamma * gae_lambda * advantage
        advantages[t], following = advantage, values[t]
    return advantages


def train(options: argparse.Namespace, envs: Any, out: Path) -> tuple[Agent, dict[str, Any]]:
    """Trains an agent, writes it to `out`, and returns it with the training report."""
    torch.manual_seed(options.seed)
    torch.set_num_threads(options.threads)
    highest = envs.single_observation_space.high
    cards, symbols = int(highest[-1]), int(highest[0])
    times, lanes = 2 * cards, options.num_envs  # 2 * cards is the step limit of every preset
    agent = Agent(cards, symbols, options.hidden)
    optimizer = torch.optim.Adam(agent.parameters(), options.learning_rate)
    writer = SummaryWriter(str(out))

    shown = torch.zeros((times, lanes, agent.features[0].in_features))
    actions = torch.zeros((times, lanes), dtype=torch.int64)
    playing = torch.zeros((times, lanes), dtype=torch.bool)
    logits = torch.zeros((times, lanes, cards))
    rewards, values = (torch.zeros((times, lanes)) for _ in range(2))

    curve: list[dict[str, float]] = []
    steps, seconds, kl_weight = 0, 0.0, options.kl
    began = time.perf_counter()
    while seconds < options.seconds and steps < options.steps:
        # One episode per board. A board that finishes early starts another one, which does not
        # count.
        observation, _ = envs.reset(seed=None if curve else options.seed)
        goes_on, state = torch.ones(lanes, dtype=torch.bool), None
        with torch.no_grad():
            for t in range(times):
                shown[t], playing[t] = agent.encode(observation), goes_on
                distribution, values[t], state = agent(shown[t : t + 1], state)
                logits[t] = distribution.logits
                actions[t] = distribution.sample()
                observation, reward, terminations, truncations, _ = envs.step(actions[t].numpy())
                rewards[t] = torch.from_numpy(reward)
                goes_on = goes_on & ~torch.from_numpy(terminations | truncations)
            rewards, values = rewards * playing, values * playing
            advantages = advantages_of(rewards, values, options.gamma, options.gae_lambda)
            targets = advantages + values
            counted = advantages[playing]
            advantages = (advantages - counted.mean()) / counted.std().clamp(min=1e-4)
        steps += int(playing.sum())
        returns = rewards.sum(dim=0)

        for _ in range(options.epochs):
            divergences = []
            for of in torch.randperm(lanes).split(options.minibatch):
                distribution, value, _ = agent(shown[:, of])
                before = Categorical(logits=logits[:, of], validate_args=False)
                action, gain = actions[:, of], advantages[:, of]
                ratio = (distribution.log_prob(action) - before.log_prob(action)).exp()
                clipped = ratio.clamp(1 - options.clip, 1 + options.clip)
                divergence = kl_divergence(before, distribution)
                error = (value - targets[:, of]).square().clamp(max=options.value_clip)
                loss = (
                    -torch.min(gain * ratio, gain * clipped)
                    + kl_weight * divergence
                    + options.value * error
                    - options.entropy * distribution.entropy()
                )[playing[:, of]].mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                divergences.append(divergence[playing[:, of]].mean().item())
        # RLlib's rule for the weight of the KL divergence.
        mean_kl = float(np.mean(divergences))
        if mean_kl > 2 * KL_TARGET:
            kl_weight *= 1.5
        elif mean_kl < KL_TARGET / 2:
            kl_weight *= 0.5

        seconds = time.perf_counter() - began
        row = {
            "steps": steps,
            "seconds": seconds,
            "mean_return": returns.mean().item(),
            "standard_error": returns.std().item() / math.sqrt(lanes),
            "entropy": distribution.entropy()[playing[:, of]].mean().item(),
            "kl": mean_kl,
        }
        curve.append(row)
        for name, number in row.items():
            writer.add_scalar(name, number, steps)
        print(
            f"{seconds:5.0f} s  {steps:>10,} steps  {steps / seconds:6,.0f} steps/s  "
            f"entropy {row['entropy']:.2f}  KL {mean_kl:.4f}  return {row['mean_return']:7.4f}",
            flush=True,
        )
    envs.close()
    writer.close()
    torch.save({"arguments": agent.arguments, "state": agent.state_dict()}, out / "model.pt")
    best = max(curve, key=lambda row: row["mean_return"])
    return agent, {"mmer": best, "curve": curve}


class Player:
    """A `PolicyWithMemory` for `twofold.evaluate`, which samples actions as in training."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.state: Any = None

    def reset(self, lanes: NDArray[np.bool_]) -> None:
        """Forgets the games of these lanes, bool (N,)."""
        if self.state is None:
            self.state = torch.zeros((1, len(lanes), self.agent.memory.hidden_size))
        self.state[:, torch.from_numpy(lanes)] = 0

    def __call__(
        self, observations: NDArray[np.uint8], mask: NDArray[np.int8]
    ) -> NDArray[np.int64]:
        """Returns actions (N,), which may be any cards."""
        with torch.no_grad():
            encoded = self.agent.encode(observations)[None]
            distribution, _, self.state = self.agent(encoded, self.state)
            actions: NDArray[np.int64] = distribution.sample()[0].numpy()
        return actions


class WithoutMask(gym.vector.VectorWrapper):
    """A wrapper that removes `action_mask` from infos, so that `evaluate` allows any card."""

    def reset(self, **arguments: Any) -> tuple[Any, dict[str, Any]]:
        """Resets the boards. The infos have no mask."""
        observations, infos = self.env.reset(**arguments)
        return observations, {k: v for k, v in infos.items() if k != "action_mask"}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Steps the boards. The infos have no mask."""
        *results, infos = self.env.step(actions)
        observations, rewards, terminations, truncations = results
        infos = {k: v for k, v in infos.items() if k != "action_mask"}
        return observations, rewards, terminations, truncations, infos


def evaluate(policy: Any, options: argparse.Namespace, episodes: int) -> Evaluation:
    """Evaluates a policy that may choose any card."""
    envs = WithoutMask(make_boards(options, min(episodes, 1024)))
    played = twofold.evaluate(policy, env=envs, episodes=episodes)
    envs.close()
    return played


def summary(played: Evaluation) -> dict[str, Any]:
    """Returns the mean return with its 95 % interval, and the mean number of steps."""
    score = played.summary["score"]
    return {
        "episodes": played.episodes,
        "mean_return": score["mean"],
        "interval": score["mean_interval"],
        "mean_steps": float(played.lengths.mean()),
    }


def random_play(options: argparse.Namespace, batches: int) -> dict[str, Any]:
    """Returns the summary of random play, with the highest mean return among `batches` batches."""
    rng = np.random.default_rng(options.seed)

    def choose(observations: Any, mask: NDArray[np.int8]) -> NDArray[np.int64]:
        return rng.integers(mask.shape[1], size=len(mask))

    played = evaluate(choose, options, batches * options.num_envs)
    means = played.scores.reshape(batches, options.num_envs).mean(axis=1)
    return {**summary(played), "mmer": float(means.max())}


def main() -> None:
    """Trains or loads a model, evaluates it, and prints the result with the maximum returns."""
    options = parse_arguments()
    out = options.out or Path(f"runs/popgym-gru-{options.preset}-{options.seed}")
    report: dict[str, Any] = {"options": vars(options)}
    batches = math.ceil(options.episodes / options.num_envs)
    if options.evaluate is None:
        out.mkdir(parents=True, exist_ok=True)
        agent, trained = train(options, make_boards(options, options.num_envs), out)
        report |= trained
        batches = len(trained["curve"])
    else:
        saved = torch.load(options.evaluate, weights_only=True)
        agent = Agent(**saved["arguments"])
        agent.load_state_dict(saved["state"])
    torch.manual_seed(options.seed)
    report["evaluation"] = summary(evaluate(Player(agent), options, options.episodes))
    report["random"] = random_play(options, batches)
    report["ceilings"] = {
        "all" if memory is None else str(memory): twofold.ceilings.concentration(
            preset=options.preset, memory=memory
        ).mean_return
        for memory in (0, 1, 2, 4, None)
    }
    if options.evaluate is None:
        # JSON has no Infinity (no limit) and no NaN (no episode yet), so both become null.
        plain = json.loads(json.dumps(report, default=str), parse_constant=lambda _: None)
        (out / "result.json").write_text(json.dumps(plain))

    print(f"\n{options.preset}\n")
    for name, of in (("this network", "evaluation"), ("random play of any card", "random")):
        low, high = report[of]["interval"]
        print(f"{report[of]['mean_return']:8.4f}  {name}, {low:.4f} to {high:.4f}")
    if "mmer" in report:
        print(f"{report['mmer']['mean_return']:8.4f}  MMER of training")
        print(f"{report['random']['mmer']:8.4f}  MMER of random play (same number of batches)")
    for memory, ceiling in report["ceilings"].items():
        print(f"{ceiling:8.4f}  the maximum with a memory of {memory} cards")


if __name__ == "__main__":
    main()
