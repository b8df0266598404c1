"""Proximal policy optimization with a recurrent network on Concentration, in one file.

    pip install torch tensorboard
    python recurrent_ppo.py                  # 16 cards, three minutes on one core
    python recurrent_ppo.py --size 2 3 --seconds 60
    python recurrent_ppo.py --forget         # the same network without memory
    python recurrent_ppo.py --endpoint tcp://127.0.0.1:5555
    python recurrent_ppo.py --evaluate runs/recurrent-ppo-1/model.pt

An observation shows only the cards that are currently visible. The network therefore keeps a state
for each card of each board. All cards share one recurrent cell (GRU) and the attention between
cards, so everything that the network learns about one card or pair applies to all. Logits are
masked as in `ppo.py`. The learning curve goes to TensorBoard and to a JSON file.
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
from torch.distributions import Categorical
from torch.nn.functional import normalize, scaled_dot_product_attention
from torch.utils.tensorboard import SummaryWriter

import twofold

ENVIRONMENT = "twofold/Concentration-v0"


def parse_arguments(words: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--seed", type=int, default=1, help="seed of boards, weights and actions")
    add("--endpoint", help="a server's address (default: boards in this process)")
    add("--size", type=int, nargs=2, default=[4, 4], metavar=("ROWS", "COLUMNS"), help="cards")
    add("--seconds", type=float, default=180, help="duration of training in seconds")
    add("--steps", type=float, default=math.inf, help="maximum number of board steps")
    add("--num-envs", type=int, default=32, help="number of boards")
    add("--num-steps", type=int, default=64, help="steps of each board per update")
    add("--learning-rate", type=float, default=3e-3, help="initial learning rate; falls to 0")
    add("--gamma", type=float, default=0.9, help="discount factor")
    add("--gae-lambda", type=float, default=0.95, help="lambda of the advantage estimates")
    add("--minibatches", type=int, default=2, help="minibatches per batch, of whole sequences")
    add("--epochs", type=int, default=2, help="passes over each batch")
    add("--clip", type=float, default=0.2, help="clipping range of the probability ratio")
    add("--entropy", type=float, default=0.003, help="weight of the entropy bonus")
    add("--value", type=float, default=0.5, help="weight of the value loss")
    add("--max-grad-norm", type=float, default=0.5, help="maximum norm of the gradient")
    add("--hidden", type=int, default=32, help="size of each card's state")
    add("--forget", action="store_true", help="clear the states before each step")
    add("--threads", type=int, default=1, help="number of PyTorch threads")
    add("--out", type=Path, help="output folder (default: runs/recurrent-ppo-<seed>)")
    add("--evaluate", type=Path, metavar="MODEL", help="only evaluate a saved model")
    add("--episodes", type=int, default=1000, help="games in the final evaluation")
    return parser.parse_args(words)


class Agent(nn.Module):  # type: ignore[misc]  # mypy does not see the library
    """A network that maps the states of a board's cards to the cards' logits and a value."""

    def __init__(self, planes: int, hidden: int, forget: bool) -> None:
        super().__init__()
        self.arguments = {"planes": planes, "hidden": hidden, "forget": forget}
        self.hidden, self.forget = hidden, forget
        self.cell = nn.GRUCell(planes, hidden)
        # Unit variance, as in an embedding. With PyTorch's smaller default weights, the cell takes
        # longer to learn what to keep, and retains it less well.
        nn.init.normal_(self.cell.weight_ih)
        self.key, self.content = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)
        self.body = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.ReLU())
        self.actor, self.critic = nn.Linear(hidden, 1), nn.Linear(hidden, 1)

    def remember(self, cards: Tensor, states: Tensor, begins: Tensor) -> Tensor:
        """Returns the next states (B, C, hidden), given the cards' planes (B, C, planes).

        Args:
            cards: The observations, (B, C, planes).
            states: The previous states, (B, C, hidden).
            begins: bool (B,), the boards that begin an episode.
        """
        keeps = torch.zeros_like(begins) if self.forget else ~begins
        states = states * keeps[:, None, None]
        return self.cell(cards.flatten(0, 1), states.flatten(0, 1)).view_as(states)

    def forward(self, states: Tensor, mask: Tensor) -> tuple[Categorical, Tensor]:
        """Returns the distribution over cards and the values (B,), given states (B, C, hidden)."""
        # Each card attends to cards with states like its own, including its match, if that has been
        # seen. With keys of length 1, a card seen once matches as well as a card seen often.
        keys = normalize(self.key(states), dim=-1)
        is_other = ~torch.eye(states.shape[1], dtype=torch.bool)
        others = scaled_dot_product_attention(
            keys, keys, self.content(states), attn_mask=is_other, scale=8.0
        )
        features = self.body(torch.cat([states, others], dim=-1))
        logits = self.actor(features).squeeze(-1).masked_fill(mask == 0, -1e9)
        values = self.critic(features.mean(dim=1)).squeeze(-1)
        return Categorical(logits=logits, validate_args=False), values


def make_boards(options: argparse.Namespace) -> Any:
    """Makes the boards."""
    return gym.make_vec(
        ENVIRONMENT,
        num_envs=options.num_envs,
        endpoint=options.endpoint,
        size=tuple(options.size),
        peeks=0,
        obs="one_hot_last",
        extra_infos=("episode",),
        autoreset_mode="SameStep",
    )


def train(options: argparse.Namespace, envs: Any, out: Path) -> Agent:
    """Trains an agent, and writes the curve and the model to `out`."""
    torch.manual_seed(options.seed)
    torch.set_num_threads(options.threads)
    rows, columns, planes = envs.single_observation_space.shape
    cards, times, lanes = rows * columns, options.num_steps, options.num_envs
    agent = Agent(planes, options.hidden, options.forget)
    optimizer = torch.optim.Adam(agent.parameters(), options.learning_rate, eps=1e-5)
    writer = SummaryWriter(str(out))

    shown = torch.zeros((times, lanes, cards, planes))
    masks = torch.zeros((times, lanes, cards), dtype=torch.int8)
    actions = torch.zeros((times, lanes), dtype=torch.int64)
    begins = torch.zeros((times, lanes), dtype=torch.bool)
    log_probs, rewards, values = (torch.zeros((times, lanes)) for _ in range(3))

    curve: list[dict[str, float]] = []
    steps, written = 0, 0.0
    began = time.perf_counter()
    observation, infos = envs.reset(seed=options.seed)
    states, done = torch.zeros((lanes, cards, options.hidden)), torch.ones(lanes, dtype=torch.bool)
    while True:
        elapsed = time.perf_counter() - began
        left = 1 - max(elapsed / options.seconds, steps / options.steps)
        if left <= 0:
            break
        optimizer.param_groups[0]["lr"] = left * options.learning_rate

        first = states
        with torch.no_grad():
            for t in range(times):
                shown[t] = torch.from_numpy(observation).flatten(1, 2)
                masks[t] = torch.from_numpy(infos["action_mask"])
                begins[t] = done
                states = agent.remember(shown[t], states, done)
                distribution, values[t] = agent(states, masks[t])
                actions[t] = distribution.sample()
                log_probs[t] = distribution.log_prob(actions[t])
                observation, reward, terminations, truncations, infos = envs.step(
                    actions[t].numpy()
                )
                rewards[t] = torch.from_numpy(reward)
                done = torch.from_numpy(terminations | truncations)
            steps += times * lanes

            # Generalised advantage estimation (Schulman et al., 2016).
            after = agent.remember(torch.from_numpy(observation).flatten(1, 2), states, done)
            _, following = agent(after, torch.from_numpy(infos["action_mask"]))
            advantages = torch.zeros((times, lanes))
            advantage, ends = torch.zeros(lanes), done
            for t in reversed(range(times)):
                goes_on = (~ends).float()
                error = rewards[t] + options.gamma * following * goes_on - values[t]
                advantage = error + options.gamma * options.gae_lambda * goes_on * advantage
                advantages[t], following, ends = advantage, values[t], begins[t]
            returns = advantages + values
            gained = (advantages - advantages.mean()) / (advantages.std() + 1e-8)

        for _ in range(options.epochs):
            for of in torch.randperm(lanes).chunk(options.minibatches):
                # Backpropagation through time, from the states at the first step, so that gradients
                # reach the step at which a card was visible.
                state, sequence = first[of], []
                for t in range(times):
                    state = agent.remember(shown[t, of], state, begins[t, of])
                    sequence.append(state)
                distribution, value = agent(torch.cat(sequence), masks[:, of].flatten(0, 1))
                log_prob = distribution.log_prob(actions[:, of].flatten())
                ratio = (log_prob - log_probs[:, of].flatten()).exp()
                clipped = ratio.clamp(1 - options.clip, 1 + options.clip)
                gain = gained[:, of].flatten()
                policy_loss = -torch.min(gain * ratio, gain * clipped).mean()
                value_loss = 0.5 * (value - returns[:, of].flatten()).square().mean()
                entropy = distribution.entropy().mean()
                loss = policy_loss + options.value * value_loss - options.entropy * entropy
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), options.max_grad_norm)
                optimizer.step()

        seconds = time.perf_counter() - began
        if seconds - written >= 5:
            written = seconds
            row = {
                "steps": steps,
                "seconds": seconds,
                "steps_per_second": steps / seconds,
                "entropy": entropy.item(),
                **envs.unwrapped.statistics(reset=True),
            }
            curve.append(row)
            for name, number in row.items():
                writer.add_scalar(name, number, steps)
            print(
                f"{seconds:5.0f} s  {steps:>10,} steps  {steps / seconds:6,.0f} steps/s  "
                f"entropy {row['entropy']:.2f}  turns {row['turns_mean']:6.2f}",
                flush=True,
            )
    envs.close()
    writer.close()
    torch.save({"arguments": agent.arguments, "state": agent.state_dict()}, out / "model.pt")
    report = {"options": vars(options), "curve": curve}
    # JSON has no Infinity (no limit) and no NaN (no episode yet), so both become null.
    report = json.loads(json.dumps(report, default=str), parse_constant=lambda _: None)
    (out / "curve.json").write_text(json.dumps(report))
    return agent


class Player:
    """A `PolicyWithMemory` for `twofold.evaluate`: the agent's most probable actions."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.states: Any = None

    def reset(self, lanes: NDArray[np.bool_]) -> None:
        """Forgets the games of these lanes, bool (N,)."""
        self.begins: Any = torch.from_numpy(lanes)

    def __call__(
        self, observations: NDArray[np.float32], mask: NDArray[np.int8]
    ) -> NDArray[np.int64]:
        """Returns actions (N,)."""
        with torch.no_grad():
            cards = torch.from_numpy(observations).flatten(1, 2)
            if self.states is None:
                self.states = torch.zeros((*cards.shape[:2], self.agent.hidden))
            self.states = self.agent.remember(cards, self.states, self.begins)
            self.begins = torch.zeros_like(self.begins)
            distribution, _ = self.agent(self.states, torch.from_numpy(mask))
        actions: NDArray[np.int64] = distribution.logits.argmax(dim=1).numpy()
        return actions


def main() -> None:
    """Trains or loads a model, and evaluates it."""
    options = parse_arguments()
    out = options.out or Path(f"runs/recurrent-ppo-{options.seed}")
    if options.evaluate is None:
        out.mkdir(parents=True, exist_ok=True)
        agent = train(options, make_boards(options), out)
    else:
        saved = torch.load(options.evaluate, weights_only=True)
        agent = Agent(**saved["arguments"])
        agent.load_state_dict(saved["state"])
    rows, columns = options.size
    rules: dict[str, Any] = {
        "env": ENVIRONMENT,
        "size": (rows, columns),
        "peeks": 0,
        "episodes": options.episodes,
        "endpoint": options.endpoint,
        "max_episode_steps": (rows * columns) ** 2,  # twice what random play takes
    }
    learned = twofold.evaluate(Player(agent), name="recurrent PPO", obs="one_hot_last", **rules)
    perfect = twofold.evaluate("perfect-memory", **rules)
    if options.evaluate is None:
        (out / "evaluation.json").write_text(learned.to_json())
    print(learned)
    turns, fewest = learned.lengths.mean() / 2, perfect.lengths.mean() / 2
    print(f"\n{turns:.2f} turns; {fewest:.2f} with a perfect memory")


if __name__ == "__main__":
    main()
