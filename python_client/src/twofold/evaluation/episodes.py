"""Players of whole games from given seeds, on all lanes at once."""

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
from twofold.envs import served_policies
from twofold.envs.game2048 import Game2048VectorEnv
from twofold.envs.results import Array
from twofold.envs.vector import TwofoldVectorEnv
from twofold.errors import InvalidArgument, TwofoldError
from twofold.evaluation.action_log import RolloutLog, StepLog
from twofold.policies.caller import PolicyCaller, rows

Progress: TypeAlias = "Callable[[int, int, int], None]"
"""Called with the number of finished episodes, of all episodes, and of steps so far."""

_USE_SYNC = "gymnasium.make_vec(…, vectorization_mode='sync') makes a suitable environment"


class Schedule:
    """The episode that each lane plays; a lane that finishes takes the next one's seed.

    So every episode that was begun counts, long ones as often as short ones. A lane is active while
    it plays an episode, and idle once no episode is left for it.

    Attributes:
        seeds: uint64 (E,), the seed of each episode.
        finished: Number of finished episodes.
        episode: int (N,), the episode of each lane; of an idle lane the last one.
        lane_seeds: uint64 (N,), their seeds.
        active: bool (N,), false for idle lanes.
    """

    def __init__(self, seeds: NDArray[np.uint64], lanes: int) -> None:
        self.seeds = seeds
        self.finished = 0
        self.episode = np.arange(lanes)
        self.lane_seeds = seeds[np.minimum(self.episode, len(seeds) - 1)]
        self.active = self.episode < len(seeds)
        self._begun = min(len(seeds), lanes)

    @property
    def is_finished(self) -> bool:
        """Whether all episodes are finished."""
        return self.finished == len(self.seeds)

    def end(self, lanes: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Ends the episodes of these lanes, (k,); returns bool (N,), lanes that begin another."""
        self.finished += len(lanes)
        again = lanes[: len(self.seeds) - self._begun]
        self.active[lanes[len(again) :]] = False
        self.episode[again] = np.arange(self._begun, self._begun + len(again))
        self.lane_seeds[again] = self.seeds[self.episode[again]]
        self._begun += len(again)
        begins = np.zeros(len(self.active), np.bool_)
        begins[again] = True
        return begins

    def place(self, lane: int) -> dict[str, int]:
        """The episode of a lane and its seed."""
        return {"episode": int(self.episode[lane]), "seed": int(self.lane_seeds[lane])}


class FunctionPlayer:
    """Plays episodes with a policy function, on any vector environment with NEXT_STEP autoreset.

    A lane that finishes begins its next episode at once, by a reset of that lane. An idle lane
    keeps stepping under autoreset; the policy does not see it and nothing counts.
    """

    def __init__(
        self,
        envs: VectorEnv[Any, Any, Any],
        seeds: NDArray[np.uint64],
        caller: PolicyCaller,
        progress: Progress | None,
        log: StepLog | None,
    ) -> None:
        self._envs, self._caller, self._progress, self._log = envs, caller, progress, log
        self._schedule = Schedule(seeds, envs.num_envs)
        self._is_ours = isinstance(envs.unwrapped, TwofoldVectorEnv)

    def play(self) -> dict[str, Any]:
        """Plays the episodes; returns fields of `Evaluation`, arrays in the seeds' order."""
        envs, caller, schedule, log = self._envs, self._caller, self._schedule, self._log
        total, start = len(schedule.seeds), time.perf_counter()
        scores = np.zeros(total, np.float64)
        lengths, moves = np.zeros(total, np.int64), np.zeros(total, np.int64)
        exponents = np.zeros(total, np.uint8)
        lane_rewards = np.zeros(envs.num_envs)
        lane_steps = np.zeros(envs.num_envs, np.int64)
        steps = 0

        observations, infos = self._reset_all()
        mask = self._legal_actions(infos)
        has_score, has_moves = "score" in infos, "moves" in infos
        has_exponent = "max_exponent" in infos
        has_whole_scores = has_score and np.asarray(infos["score"]).dtype.kind in "iu"
        caller.reset(schedule.active)
        while not schedule.is_finished:
            actions = caller(observations, mask, schedule.active, schedule.place)
            observations, rewards, terminations, truncations, infos = envs.step(actions)
            mask = self._legal_actions(infos)
            # Some environments have a score in the infos of a reset only.
            has_score = has_score and "score" in infos
            if log is not None:
                log.add(actions, int(lane_steps[schedule.active].max()))
            steps += np.count_nonzero(schedule.active)
            lane_steps += 1
            if not has_score:
                lane_rewards += rewards
            done = np.flatnonzero((terminations | truncations) & schedule.active)
            if not len(done):
                continue

            which = schedule.episode[done]
            scores[which] = infos["score"][done] if has_score else lane_rewards[done]
            lengths[which] = lane_steps[done]
            moves[which] = infos["moves"][done] if has_moves else lane_steps[done]
            if has_exponent:
                exponents[which] = infos["max_exponent"][done]
            if log is not None:
                log.end(done, which, lengths[which])
            lane_rewards[done], lane_steps[done] = 0, 0
            begins = schedule.end(done)
            if begins.any():
                observations, infos = self._reset_some(begins, observations)
                # A masked reset may leave out the other lanes' infos.
                mask = np.where(begins[:, np.newaxis], self._legal_actions(infos), mask)
                caller.reset(begins)
            if self._progress is not None:
                self._progress(schedule.finished, total, steps)
        return {
            "scores": scores.astype(np.int64) if has_score and has_whole_scores else scores,
            "moves": moves,
            "lengths": lengths,
            "max_exponents": exponents if has_exponent else None,
            "seconds": time.perf_counter() - start,
            "policy_seconds": caller.seconds,
        }

    def _reset_all(self) -> tuple[Any, dict[str, Any]]:
        """Begins the first episode of every lane."""
        try:
            return self._envs.reset(seed=self._seeds())
        except (gym.error.Error, TypeError, ValueError) as error:
            if self._is_ours or isinstance(error, TwofoldError):
                raise
            raise InvalidArgument(
                f"{self._name} refuses a list of seeds ({type(error).__name__}: {error}), and "
                f"evaluation seeds each episode; {_USE_SYNC}",
                field="env",
            ) from error

    def _reset_some(
        self, begins: NDArray[np.bool_], observations: Any
    ) -> tuple[Any, dict[str, Any]]:
        """Begins the next episode on the lanes in `begins`, bool (N,).

        Raises:
            InvalidArgument: The other lanes' rows of the observations, (N, …), changed.
        """
        before = None if self._is_ours else rows(observations, ~begins)
        observations, infos = self._envs.reset(
            seed=self._seeds(), options={"reset_mask": begins.copy()}
        )
        if before is not None and first_difference(before, rows(observations, ~begins)) is not None:
            raise InvalidArgument(
                f"{self._name} also resets environments that options={{'reset_mask': …}} leaves "
                f"out, and evaluation resets finished ones only; {_USE_SYNC}",
                field="env",
            )
        return observations, infos

    @property
    def _name(self) -> str:
        return type(self._envs.unwrapped).__name__

    def _seeds(self) -> Any:
        """The lanes' seeds (N,)."""
        seeds = self._schedule.lane_seeds
        # Gymnasium's environments need Python's ints; ours convert arrays faster.
        return seeds if self._is_ours else seeds.tolist()

    def _legal_actions(self, infos: dict[str, Any]) -> Array:
        """int8 (N, actions), 1 where an action is legal; all of them without a mask in infos."""
        mask: Array | None = infos.get("action_mask")
        if mask is None:
            return np.ones((self._envs.num_envs, self._caller.num_actions), np.int8)
        return mask


class ServerPlayer:
    """Plays episodes of 2048 by rollouts, with a policy in the server.

    A lane that finishes waits for the end of the rollout (autoreset is disabled) and then begins
    its next episode. Its seed also seeds the policy's draws, so here too an episode is a function
    of its seed.
    """

    STEPS = 32  # per rollout: so few that waiting costs little, also in short games
    INFOS = ("score", "moves", "episode_length", "max_exponent")

    def __init__(
        self,
        envs: VectorEnv[Any, Any, Any],
        seeds: NDArray[np.uint64],
        policy: served_policies.Policy,
        progress: Progress | None,
        log: RolloutLog | None,
    ) -> None:
        base = envs.unwrapped
        if not isinstance(base, Game2048VectorEnv):
            raise InvalidArgument(
                "policies in the server play 2048; pass a function for another game",
                field="policy",
            )
        self._envs, self._seeds, self._policy = base, seeds, policy
        self._progress, self._log = progress, log

    def play(self) -> dict[str, Any]:
        """Plays the episodes; returns fields of `Evaluation`, arrays in the seeds' order."""
        envs, log, total, start = self._envs, self._log, len(self._seeds), time.perf_counter()
        schedule = Schedule(self._seeds, envs.num_envs)
        results = {name: np.zeros(total, np.int64) for name in self.INFOS}
        steps = 0
        envs.reset(seed=schedule.lane_seeds)
        while not schedule.is_finished:
            data = envs.rollout(self.STEPS, policy=self._policy, infos=self.INFOS)
            active = schedule.active
            steps += np.count_nonzero(data.valid[:, active])
            if log is not None:
                log.add(data.actions, data.valid & active)
            done = np.flatnonzero((data.terminations | data.truncations).any(axis=0) & active)
            which = schedule.episode[done]
            for name, values in results.items():
                values[which] = data.infos[name][-1, done]  # unchanged while the lane waits
            if log is not None:
                log.end(done, which)
            begins = schedule.end(done)
            if begins.any():
                envs.reset(seed=schedule.lane_seeds, options={"reset_mask": begins})
            if self._progress is not None:
                self._progress(schedule.finished, total, steps)
        return {
            "scores": results["score"],
            "moves": results["moves"],
            "lengths": results["episode_length"],
            "max_exponents": results["max_exponent"].astype(np.uint8),
            "seconds": time.perf_counter() - start,
            "policy_seconds": math.nan,
        }
