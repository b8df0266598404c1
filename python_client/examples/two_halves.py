"""Lets a policy choose for one half of the boards while the server steps the other.

    twofold serve --endpoint tcp://127.0.0.1:5555
    python two_halves.py --endpoint tcp://127.0.0.1:5555

In lock-step, the server waits for the policy, and the policy waits for the server. With two
environments of N / 2 boards, `step_async` sends one half's actions. While the server executes them,
the policy works on the other half. The gain is largest when the server and the policy take equally
long. It is zero with the endpoint "embedded", where nothing runs in parallel.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import twofold

Actions = NDArray[np.intp]


class Policy:
    """A policy that sums a score per tile, cell and action, and chooses the best legal action.

    Attributes:
        work: The number of times it repeats its work, to emulate a slower policy.
    """

    def __init__(self) -> None:
        self.work = 1
        self._scores = np.random.default_rng(0).normal(size=(16, 32, 4)).astype(np.float32)

    def __call__(self, observations: NDArray[np.uint8], infos: dict[str, Any]) -> Actions:
        """Returns actions (N,) for observations (N, 4, 4) and their infos."""
        cells = observations.reshape(-1, 16)
        for _ in range(self.work):
            sums = np.zeros((len(cells), 4), np.float32)
            for cell in range(16):
                sums += self._scores[cell].take(cells[:, cell], axis=0)
        sums[infos["action_mask"] == 0] = -np.inf
        actions: Actions = sums.argmax(axis=1)
        return actions


class Gain(NamedTuple):
    """The speed in lock-step and with two halves."""

    lock_step: float
    """Board steps per second in lock-step."""
    halves: float
    """Board steps per second with two halves."""
    policy: float
    """The policy's time for all boards, in seconds."""
    step: float
    """The time of a step of all boards, in seconds."""

    @property
    def ratio(self) -> float:
        """The ratio of steps per second with halves to steps per second in lock-step."""
        return self.halves / self.lock_step


def in_lock_step(
    envs: twofold.TwofoldVectorEnv, policy: Callable[..., Actions], steps: int
) -> tuple[float, float]:
    """Returns the seconds that the policy and the environment take for this many steps."""
    observations, infos = envs.reset(seed=0)
    thinking = stepping = 0.0
    for _ in range(steps):
        started = time.perf_counter()
        actions = policy(observations, infos)
        chosen = time.perf_counter()
        observations, _, _, _, infos = envs.step(actions)
        stepping += time.perf_counter() - chosen
        thinking += chosen - started
    return thinking, stepping


def in_halves(
    halves: list[twofold.TwofoldVectorEnv], policy: Callable[..., Actions], steps: int
) -> float:
    """Returns the seconds that `steps` steps of each half take when the halves alternate."""
    for rank, envs in enumerate(halves):
        seeds = twofold.worker_seeds(0, envs.num_envs, rank=rank)
        envs.step_async(policy(*envs.reset(seed=seeds)))
    started = time.perf_counter()
    for _ in range(steps):
        for envs in halves:
            observations, _, _, _, infos = envs.step_wait()
            envs.step_async(policy(observations, infos))
    seconds = time.perf_counter() - started
    for envs in halves:
        envs.step_wait()
    return seconds


def measure(endpoint: str, num_envs: int, rounds: int, steps: int) -> Gain:
    """Measures lock-step and two halves in each round, and returns the medians over the rounds.

    The policy works as long as a step takes.

    Args:
        endpoint: The server's address.
        num_envs: The number of boards N, which is even.
        rounds: The number of rounds.
        steps: The number of steps in each round.
    """
    whole = twofold.Game2048VectorEnv(num_envs, endpoint=endpoint)
    halves: list[twofold.TwofoldVectorEnv] = [
        twofold.Game2048VectorEnv(num_envs // 2, endpoint=endpoint) for _ in range(2)
    ]
    policy = Policy()
    in_lock_step(whole, policy, steps)
    thinking, stepping = in_lock_step(whole, policy, steps)
    policy.work = max(1, round(stepping / thinking))
    turns = [
        (*in_lock_step(whole, policy, steps), in_halves(halves, policy, steps))
        for _ in range(rounds)
    ]
    for envs in (whole, *halves):
        envs.close()
    thinking, stepping, both = (statistics.median(column) for column in zip(*turns, strict=True))
    lock_step = statistics.median(turn[0] + turn[1] for turn in turns)
    boards = num_envs * steps
    return Gain(boards / lock_step, boards / both, thinking / steps, stepping / steps)


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--endpoint", default="private", help="server (default: a private one)")
    parser.add_argument("--num-envs", type=int, default=4096, help="number of boards (even)")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--steps", type=int, default=300, help="steps per round")
    options = parser.parse_args()
    gain = measure(options.endpoint, options.num_envs, options.rounds, options.steps)
    print(f"policy      {gain.policy * 1e6:9,.0f} us for {options.num_envs} boards")
    print(f"step        {gain.step * 1e6:9,.0f} us")
    print(f"lock-step   {gain.lock_step:9,.0f} steps/s")
    print(f"two halves  {gain.halves:9,.0f} steps/s, {gain.ratio:.2f} times as many")


if __name__ == "__main__":
    main()
