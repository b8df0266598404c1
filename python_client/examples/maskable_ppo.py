"""sb3-contrib's MaskablePPO on 2048, in one file.

    pip install 'twofold[sb3]' tensorboard
    python maskable_ppo.py                   # ten minutes on two cores
    python maskable_ppo.py --endpoint tcp://127.0.0.1:5555

Only `make_boards` connects Stable-Baselines3 with the boards. The learning curve goes to
TensorBoard and to a JSON file; `twofold evaluate runs/maskable_ppo-1/model.zip --trust-pickle`
evaluates the model.
"""

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback

import twofold
from twofold.integrations.sb3 import make_sb3_vec


def parse_arguments(words: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--seed", type=int, default=1, help="seed of boards, weights and actions")
    add("--endpoint", help="a server's address (default: boards in this process)")
    add("--seconds", type=float, default=600, help="duration of training in seconds")
    add("--steps", type=float, default=math.inf, help="maximum number of board steps")
    add("--num-envs", type=int, default=256, help="number of boards")
    add("--learning-rate", type=float, default=1e-3, help="initial learning rate; falls to 0")
    add("--threads", type=int, default=torch.get_num_threads(), help="number of PyTorch threads")
    add("--out", type=Path, help="output folder (default: runs/maskable_ppo-<seed>)")
    add("--episodes", type=int, default=1000, help="games in the final evaluation")
    return parser.parse_args(words)


def make_boards(options: argparse.Namespace) -> Any:
    """Returns the boards as a `VecEnv`."""
    boards = make_sb3_vec(
        "twofold/Game2048-v0",
        options.num_envs,
        endpoint=options.endpoint,
        reward={"merge_exponent": 0.1},
    )
    boards.seed(options.seed)
    return boards


def countdown(seconds: float) -> Callable[[], float]:
    """Returns a function that gives the remaining share of `seconds`, from 1 down to 0."""
    end = time.perf_counter() + seconds
    return lambda: max(0, (end - time.perf_counter()) / seconds)


class Curve(BaseCallback):  # type: ignore[misc, unused-ignore]  # mypy does not see the library
    """A callback that logs the learning curve every few seconds, and stops when time is up."""

    def __init__(self, left: Callable[[], float]) -> None:
        super().__init__()
        self.rows: list[dict[str, float]] = []
        self._left = left
        self._began = time.perf_counter()
        self._shown = 0.0

    def statistics(self) -> dict[str, float]:
        """Returns statistics of the episodes since the last row."""
        found: dict[str, float] = self.training_env.envs.statistics(reset=True)
        return found

    def _on_step(self) -> bool:
        return self._left() > 0

    def _on_rollout_end(self) -> None:
        seconds = time.perf_counter() - self._began
        if seconds - self._shown < 5:
            return
        self._shown = seconds
        rate = self.num_timesteps / seconds
        row = {"steps": self.num_timesteps, "seconds": seconds, "steps_per_second": rate}
        self.rows.append(row | self.statistics())
        for name, number in self.rows[-1].items():
            self.logger.record(name, number)
        score = self.rows[-1].get("score_mean", float("nan"))
        print(
            f"{seconds:5.0f} s  {self.num_timesteps:>11,} steps  {rate:7,.0f} steps/s  "
            f"score {score:7,.0f}",
            flush=True,
        )


def train(
    options: argparse.Namespace, boards: Any, out: Path, curve_class: type[Curve] = Curve
) -> MaskablePPO:
    """Trains a model, and writes the curve and the model to `out`."""
    torch.set_num_threads(options.threads)
    left = countdown(options.seconds)
    curve = curve_class(left)
    model = MaskablePPO(
        "MlpPolicy",
        boards,
        n_steps=64,
        batch_size=4096,
        n_epochs=3,
        gamma=0.997,
        gae_lambda=0.9,
        ent_coef=0.005,
        learning_rate=lambda remaining: min(remaining, left()) * options.learning_rate,
        policy_kwargs={"net_arch": [256, 256], "activation_fn": torch.nn.ReLU},
        tensorboard_log=str(out),
        seed=options.seed,
        device="cpu",
    )
    model.learn(options.steps, callback=curve)
    boards.close()
    model.save(out / "model.zip")
    report = {"options": vars(options), "curve": curve.rows}
    # JSON has no Infinity (no limit) and no NaN (no episode yet), so both become null.
    report = json.loads(json.dumps(report, default=str), parse_constant=lambda _: None)
    (out / "curve.json").write_text(json.dumps(report))
    return model


def main() -> None:
    """Trains a model and evaluates it."""
    options = parse_arguments()
    out = options.out or Path(f"runs/maskable_ppo-{options.seed}")
    out.mkdir(parents=True, exist_ok=True)
    train(options, make_boards(options), out)
    policy = twofold.policies.SB3Policy.load(str(out / "model.zip"), trust_pickle=True)
    evaluation = twofold.evaluate(policy, episodes=options.episodes, endpoint=options.endpoint)
    (out / "evaluation.json").write_text(evaluation.to_json())
    print(evaluation)


if __name__ == "__main__":
    main()
