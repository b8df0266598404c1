"""Whole games from given seeds, played on all lanes at once."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, TypeAlias

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from twofold._comparison import first_difference
from twofold.envs.game2048 import Game2048VectorEnv
from twofold.envs.results import Array
from twofold.envs.vector import TwofoldVectorEnv
from twofold.errors import GameFailed, InvalidArgument, TwofoldError
from twofold.evaluation.action_log import ActionRecorder
from twofold.evaluation.regret import INFO, RegretMeter
from twofold.evaluation.schedule import Schedule
from twofold.games.game2048 import Game2048
from twofold.policies import served_policies
from twofold.policies.choosers import CheckedChooser, rows

Progress: TypeAlias = "Callable[[int, int, int], None]"
"""Called with the number of finished episodes, of all episodes, and of steps so far."""

# A game that failed has these infos as they were before the step; it is one of 2048.
_OF_FAILED = ("score", "moves", "max_exponent")

_USE_SYNC = "gymnasium.make_vec(…, vectorization_mode='sync') makes a suitable environment"


def play_function(
    envs: VectorEnv[Any, Any, Any],
    schedule: Schedule,
    chooser: CheckedChooser,
    progress: Progress | None,
    recorder: ActionRecorder | None,
    meter: RegretMeter | None,
) -> dict[str, Any]:
    """Plays episodes with a policy function, on any vector environment with NEXT_STEP autoreset.

    A lane that finishes begins its next episode at once, by a reset of that lane. An idle lane
    keeps stepping under autoreset; the policy does not see it and nothing counts. A game in which a
    player fails ends before that step.

    Returns:
        Fields of `Evaluation`, arrays in the seeds' order.
    """
    total, start = len(schedule.seeds), time.perf_counter()
    scores = np.zeros(total, np.float64)
    lengths, moves = np.zeros(total, np.int64), np.zeros(total, np.int64)
    exponents = np.zeros(total, np.uint8)
    lane_rewards = np.zeros(envs.num_envs)
    lane_steps = np.zeros(envs.num_envs, np.int64)
    failures: list[GameFailed] = []
    steps = 0

    def place(lane: int) -> dict[str, int]:
        return schedule.place(lane) | {"step": int(lane_steps[lane])}

    observations, infos = _reset_all(envs, schedule.lane_seeds)
    # All actions are legal where infos have no mask.
    every_action = np.ones((envs.num_envs, chooser.num_actions), np.int8)
    mask: Array = infos.get("action_mask", every_action)
    has_score, has_moves = "score" in infos, "moves" in infos
    has_exponent = "max_exponent" in infos
    has_whole_scores = has_score and np.asarray(infos["score"]).dtype.kind in "iu"
    chooser.begin(schedule.active, schedule.lane_player_seeds)
    while not schedule.is_finished:
        actions = chooser.choose(observations, mask, schedule.active, place)
        failures += chooser.failures.values()
        failed = np.zeros(envs.num_envs, np.bool_)
        failed[list(chooser.failures)] = True
        before = {name: infos[name].copy() for name in _OF_FAILED} if chooser.failures else {}
        boards = None if meter is None else meter.boards()
        observations, rewards, terminations, truncations, infos = envs.step(actions)
        if before:
            infos = {**infos, **{k: np.where(failed, v, infos[k]) for k, v in before.items()}}
        mask = infos.get("action_mask", every_action)
        # Some environments have a score in the infos of a reset only.
        has_score = has_score and "score" in infos
        if recorder is not None:
            recorder.add(actions[np.newaxis], schedule.active)
        if meter is not None and boards is not None:
            meter.add(boards, infos[INFO], schedule.active & ~failed)
        steps += np.count_nonzero(schedule.active & ~failed)
        lane_steps += ~failed
        if not has_score:
            lane_rewards += rewards
        done = np.flatnonzero((terminations | truncations | failed) & schedule.active)
        if not len(done):
            continue

        which = schedule.episode[done]
        scores[which] = infos["score"][done] if has_score else lane_rewards[done]
        lengths[which] = lane_steps[done]
        moves[which] = infos["moves"][done] if has_moves else lane_steps[done]
        if has_exponent:
            exponents[which] = infos["max_exponent"][done]
        if recorder is not None:
            recorder.end(done, schedule.lane_seeds[done], lengths[which])
        if meter is not None:
            meter.end(done, which)
        lane_rewards[done], lane_steps[done] = 0, 0
        begins = schedule.end(done)
        if begins.any():
            observations, infos = _reset_some(envs, schedule.lane_seeds, begins, observations)
            # A masked reset may leave out the other lanes' infos.
            begun_mask = infos.get("action_mask", every_action)
            mask = np.where(begins[:, np.newaxis], begun_mask, mask)
            chooser.begin(begins, schedule.lane_player_seeds)
        if progress is not None:
            progress(schedule.finished, total, steps)
    return {
        "scores": scores.astype(np.int64) if has_score and has_whole_scores else scores,
        "moves": moves,
        "lengths": lengths,
        "max_exponents": exponents if has_exponent else None,
        "seconds": time.perf_counter() - start,
        "policy_seconds": chooser.seconds,
        "failures": tuple(sorted(failures, key=_episode)) if chooser.may_fail else None,
        "player": dict(chooser.summary()),
        "regret": None if meter is None else meter.result(),
    }


def _episode(failure: GameFailed) -> int:
    return failure.episode or 0


def _reset_all(envs: VectorEnv[Any, Any, Any], seeds: Any) -> tuple[Any, dict[str, Any]]:
    """Begins an episode on every lane, with its seed of uint64 (N,)."""
    if isinstance(envs.unwrapped, TwofoldVectorEnv):
        return envs.reset(seed=seeds)
    try:
        return envs.reset(seed=seeds.tolist())
    except TwofoldError:
        raise
    except (gym.error.Error, TypeError, ValueError) as error:
        name = type(envs.unwrapped).__name__
        raise InvalidArgument(
            f"{name} refuses a list of seeds ({type(error).__name__}: {error}), and evaluation "
            f"seeds each episode; {_USE_SYNC}",
            field="env",
        ) from error


def _reset_some(
    envs: VectorEnv[Any, Any, Any], seeds: Any, begins: NDArray[np.bool_], observations: Any
) -> tuple[Any, dict[str, Any]]:
    """Begins an episode on some lanes, bool (N,), with their seeds of uint64 (N,).

    Raises:
        InvalidArgument: The other lanes' rows of the observations, (N, …), changed.
    """
    options = {"reset_mask": begins.copy()}
    if isinstance(envs.unwrapped, TwofoldVectorEnv):
        return envs.reset(seed=seeds, options=options)
    before = rows(observations, ~begins)
    observations, infos = envs.reset(seed=seeds.tolist(), options=options)
    if first_difference(before, rows(observations, ~begins)) is not None:
        name = type(envs.unwrapped).__name__
        raise InvalidArgument(
            f"{name} also resets environments that options={{'reset_mask': …}} leaves out, and "
            f"evaluation resets finished ones only; {_USE_SYNC}",
            field="env",
        )
    return observations, infos


def _rollout_steps(game: Game2048) -> int:
    """Steps of a rollout by a policy in the server.

    So few that waiting for its end costs little in short games: random ones take 5.6 steps on
    2 x 2, 31 on 3 x 3, 118 on 4 x 4. With 32 steps the cost of a call no longer matters.
    """
    return min(32, 2 * game.rows * game.columns)


def play_in_server(
    envs: VectorEnv[Any, Any, Any],
    schedule: Schedule,
    policy: served_policies.Policy,
    progress: Progress | None,
    recorder: ActionRecorder | None,
    meter: RegretMeter | None,
) -> dict[str, Any]:
    """Plays episodes of 2048 by rollouts, with a policy in the server.

    A lane that finishes waits for the end of the rollout (autoreset is disabled) and then begins
    its next episode. Its seed also seeds the policy's draws, so here too an episode is a function
    of its seed.

    Returns:
        Fields of `Evaluation`, arrays in the seeds' order.
    """
    base = envs.unwrapped
    if not isinstance(base, Game2048VectorEnv):
        raise InvalidArgument(
            "policies in the server play 2048; pass a function for another game", field="policy"
        )
    total, start = len(schedule.seeds), time.perf_counter()
    names = ("score", "moves", "episode_length", "max_exponent")
    results = {name: np.zeros(total, np.int64) for name in names}
    steps, rollout_steps = 0, _rollout_steps(base.game)
    base.reset(seed=schedule.lane_seeds)
    while not schedule.is_finished:
        wanted = names if meter is None else (*names, INFO)
        data = base.rollout(rollout_steps, policy=policy, infos=wanted)
        steps += np.count_nonzero(data.valid[:, schedule.active])
        if recorder is not None:
            recorder.add(data.actions, schedule.active)
        if meter is not None:
            meter.add(data.observations[:-1], data.infos[INFO], data.valid & schedule.active)
        is_done = (data.terminations | data.truncations).any(axis=0)
        done = np.flatnonzero(is_done & schedule.active)
        which = schedule.episode[done]
        for name, values in results.items():
            values[which] = data.infos[name][-1, done]  # unchanged while the lane waits
        if recorder is not None:
            recorder.end(done, schedule.lane_seeds[done], results["episode_length"][which])
        if meter is not None:
            meter.end(done, which)
        begins = schedule.end(done)
        if begins.any():
            base.reset(seed=schedule.lane_seeds, options={"reset_mask": begins})
        if progress is not None:
            progress(schedule.finished, total, steps)
    return {
        "scores": results["score"],
        "moves": results["moves"],
        "lengths": results["episode_length"],
        "max_exponents": results["max_exponent"].astype(np.uint8),
        "seconds": time.perf_counter() - start,
        "policy_seconds": math.nan,
        "regret": None if meter is None else meter.result(),
    }
