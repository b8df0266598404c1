"""Proximal policy optimization with action masks on 2048, compiled by JAX, in one file.

    pip install optax 'twofold[jax]'
    python ppo_jax.py                        # ten minutes on two cores
    python ppo_jax.py --evaluate runs/ppo-jax-1/model.npz

It has the network, the boards and the default options of ppo.py, which uses PyTorch. Here, one
jitted function plays a batch of steps, estimates the advantages and trains the network. The games
run inside `jax.lax.scan`. The learning curve goes to a JSON file.
"""

import argparse
import json
import math
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

import twofold.jax

Array = Any  # a jax.Array
Params = dict[str, Array]


def parse_arguments(words: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--seed", type=int, default=1, help="seed of boards, weights and actions")
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
    add("--out", type=Path, help="output folder (default: runs/ppo-jax-<seed>)")
    add("--evaluate", type=Path, metavar="MODEL", help="only evaluate a saved model")
    add("--episodes", type=int, default=1000, help="games in the final evaluation")
    return parser.parse_args(words)


def make_params(key: Array, inputs: int, hidden: int) -> Params:
    """Returns the network's initial weights."""
    layers = {
        "first": (inputs, hidden, 2**0.5),
        "second": (hidden, hidden, 2**0.5),
        "actor": (hidden, 4, 0.01),
        "critic": (hidden, 1, 2**0.5),
    }
    params = {}
    for name, (before, after, scale) in layers.items():
        key, now = jax.random.split(key)
        params[name] = jax.nn.initializers.orthogonal(scale)(now, (before, after))
        params[f"{name}_bias"] = jnp.zeros(after)
    return params


def forward(params: Params, planes: Array, mask: Array) -> tuple[Array, Array]:
    """Returns the logarithms of the actions' probabilities (B, 4), and the values (B,)."""
    features = planes.reshape(len(planes), -1)
    for name in ("first", "second"):
        features = jax.nn.relu(features @ params[name] + params[f"{name}_bias"])
    logits = features @ params["actor"] + params["actor_bias"]
    values = features @ params["critic"] + params["critic_bias"]
    return jax.nn.log_softmax(jnp.where(mask, logits, -1e9)), values[:, 0]


class Training(NamedTuple):
    """The state of training, which an update changes."""

    params: Params
    optimizer: Any
    boards: tuple[Any, twofold.jax.TimeStep]
    key: Array


class Row(NamedTuple):
    """A step of all boards: arrays (B, …), or all steps of an update: arrays (T, B, …)."""

    planes: Array
    mask: Array
    action: Array
    log_prob: Array
    value: Array
    reward: Array
    done: Array
    score: Array
    """The score of a game that the step ended, otherwise 0."""


def make_update(options: argparse.Namespace, env: twofold.jax.JaxEnv, optimizer: Any) -> Any:
    """Returns the compiled function that plays `num_steps` steps, and learns from them.

    It also returns the entropy, the number of games that ended, and the sum of their scores.
    """

    def play(params: Params, boards: Any, key: Array) -> tuple[Any, Row]:
        state, seen = boards
        log_probs, values = forward(params, seen.observation, seen.action_mask)
        actions = jax.random.categorical(key, log_probs)
        state, after = env.step(state, actions)
        done = after.terminated | after.truncated
        assert after.final_info is not None  # because of SAME_STEP, the default
        score = jnp.where(done, after.final_info["score"], 0)
        row = (seen.observation, seen.action_mask, actions, chosen(log_probs, actions), values)
        return (state, after), Row(*row, after.reward, done, score)

    def estimate(following: tuple[Array, Array], row: Row) -> tuple[Any, Array]:
        """Estimates generalised advantages (Schulman et al., 2016), from the last step back."""
        value, advantage = following
        goes_on = 1.0 - row.done
        error = row.reward + options.gamma * value * goes_on - row.value
        advantage = error + options.gamma * options.gae_lambda * goes_on * advantage
        return (row.value, advantage), advantage

    def loss_of(params: Params, row: Row, gained: Array) -> tuple[Array, Array]:
        log_probs, values = forward(params, row.planes, row.mask)
        wanted = gained + row.value
        gained = (gained - gained.mean()) / (gained.std() + 1e-8)
        ratio = jnp.exp(chosen(log_probs, row.action) - row.log_prob)
        clipped = ratio.clip(1 - options.clip, 1 + options.clip)
        policy_loss = -jnp.minimum(gained * ratio, gained * clipped).mean()
        value_loss = 0.5 * jnp.square(values - wanted).mean()
        entropy = -(jnp.exp(log_probs) * log_probs).sum(-1).mean()
        return policy_loss + options.value * value_loss - options.entropy * entropy, entropy

    def update(training: Training, rate: float) -> tuple[Training, Array]:
        key, playing, shuffling = jax.random.split(training.key, 3)
        keys = jax.random.split(playing, options.num_steps)
        boards, rows = jax.lax.scan(partial(play, training.params), training.boards, keys)
        _, value = forward(training.params, boards[1].observation, boards[1].action_mask)
        start = (value, jnp.zeros_like(value))
        _, advantages = jax.lax.scan(estimate, start, rows, reverse=True)

        size = options.num_steps * options.num_envs
        batch = jax.tree.map(lambda of: of.reshape(size, *of.shape[2:]), (rows, advantages))

        def learn(learner: tuple[Params, Any], places: Array) -> tuple[Any, Array]:
            params, state = learner
            part = jax.tree.map(lambda of: of[places], batch)
            gradients, entropy = jax.grad(loss_of, has_aux=True)(params, *part)
            changes, state = optimizer.update(gradients, state)
            changes = jax.tree.map(lambda change: -rate * change, changes)
            return (optax.apply_updates(params, changes), state), entropy

        keys = jax.random.split(shuffling, options.epochs)
        orders = jax.vmap(partial(jax.random.permutation, x=size))(keys)
        minibatches = orders.reshape(options.epochs * options.minibatches, -1)
        learner = (training.params, training.optimizer)
        (params, state), entropies = jax.lax.scan(learn, learner, minibatches)
        figures = jnp.stack([entropies[-1], rows.done.sum(), rows.score.sum()])
        return Training(params, state, boards, key), figures

    return jax.jit(update)


def chosen(log_probs: Array, actions: Array) -> Array:
    """Returns the entry of each board's action."""
    return jnp.take_along_axis(log_probs, actions[:, None], axis=1)[:, 0]


def train(options: argparse.Namespace, out: Path) -> Params:
    """Trains a network, and writes the curve and the model to `out`."""
    # A merge's reward grows with the exponent of its tile: a merge to 2048 counts 5.5 times as
    # much as a merge to 4, not 512 times. The scores reported below are still the game's.
    arguments = {"obs": "one_hot", "reward": {"merge_exponent": 0.1}}
    env = twofold.jax.make("twofold/Game2048-v0", options.num_envs, **arguments)
    clip = optax.clip_by_global_norm(options.max_grad_norm)
    optimizer = optax.chain(clip, optax.scale_by_adam(eps=1e-5))
    update = make_update(options, env, optimizer)
    began = time.perf_counter()  # The time that JAX takes to compile is part of the training time.
    key, weights, boards = jax.random.split(jax.random.key(options.seed), 3)
    state, timestep = env.reset(boards)
    params = make_params(weights, math.prod(timestep.observation.shape[1:]), options.hidden)
    training = Training(params, optimizer.init(params), (state, timestep), key)

    curve: list[dict[str, float]] = []
    steps, shown, ended, total = 0, 0.0, 0.0, 0.0
    while True:
        left = 1 - max((time.perf_counter() - began) / options.seconds, steps / options.steps)
        if left <= 0:
            break
        training, figures = update(training, left * options.learning_rate)
        steps += options.num_steps * options.num_envs
        entropy, episodes, score = map(float, figures)
        ended, total = ended + episodes, total + score
        seconds = time.perf_counter() - began
        if seconds - shown >= 5:
            mean = total / ended if ended else math.nan
            row = {"steps": steps, "seconds": seconds, "steps_per_second": steps / seconds}
            curve.append({**row, "entropy": entropy, "episodes": ended, "score_mean": mean})
            rate = f"{steps:>11,} steps  {steps / seconds:7,.0f} steps/s"
            print(f"{seconds:5.0f} s  {rate}  score {mean:7,.0f}", flush=True)
            shown, ended, total = seconds, 0.0, 0.0
    np.savez(out / "model.npz", **training.params)
    report = {"options": vars(options), "curve": curve}
    # JSON has no Infinity (no limit) and no NaN (no episode yet), so both become null.
    report = json.loads(json.dumps(report, default=str), parse_constant=lambda _: None)
    (out / "curve.json").write_text(json.dumps(report))
    return training.params


def policy_of(params: Params) -> Any:
    """Returns the network's most probable actions as a function for `twofold.evaluate`."""
    best = jax.jit(lambda planes, mask: forward(params, planes, mask)[0].argmax(axis=1))
    planes = len(params["first"]) // 16

    def policy(boards: NDArray[np.uint8], mask: NDArray[np.int8]) -> NDArray[np.int64]:
        # JAX compiles a program for each number of boards, so the number is a power of two.
        more = (1 << (len(boards) - 1).bit_length()) - len(boards)
        seen = np.pad(twofold.one_hot(boards, planes), [(0, more), (0, 0), (0, 0), (0, 0)])
        actions = best(seen, np.pad(mask, [(0, more), (0, 0)]))
        return np.asarray(actions, np.int64)[: len(boards)]

    return policy


def main() -> None:
    """Trains or loads a model, and evaluates it."""
    options = parse_arguments()
    out = options.out or Path(f"runs/ppo-jax-{options.seed}")
    if options.evaluate is None:
        out.mkdir(parents=True, exist_ok=True)
        params = train(options, out)
    else:
        params = dict(np.load(options.evaluate))
    evaluation = twofold.evaluate(policy_of(params), episodes=options.episodes)
    if options.evaluate is None:
        (out / "evaluation.json").write_text(evaluation.to_json())
    print(evaluation)


if __name__ == "__main__":
    main()
