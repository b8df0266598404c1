"""Whole games from given seeds, on all lanes at once: what an evaluation is made of."""

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
from twofold.policies import functions
from twofold.recordings import RecordingRules
from twofold.recordings.file_format import pack_actions

Progress: TypeAlias = "Callable[[int, int, int], None]"
"""Called with the number of episodes finished, of all, and of steps made so far."""


_TAKE_SYNC = "gymnasium.make_vec makes environments that do with vectorization_mode='sync'"


class _Schedule:
    """Which episode each lane plays: a lane that finishes takes the next one's seed.

    So every episode that was begun counts, the long ones as often as the short ones.

    Args:
        seeds: Of the episodes, uint64 (E,).
        lanes: How many lanes there are, N.

    Attributes:
        seeds: The same.
        finished: How many episodes are.
        episode: int (N,), what each lane plays, or has played last.
        lane_seeds: uint64 (N,), the seeds of these.
        active: bool (N,); where not, no episode was left.
    """

    def __init__(self, seeds: NDArray[np.uint64], lanes: int) -> None:
        self.seeds = seeds
        self.finished = 0
        self.episode = np.arange(lanes)
        self.lane_seeds = seeds[np.minimum(self.episode, len(seeds) - 1)]
        self.active = self.episode < len(seeds)
        self._begun = min(len(seeds), lanes)

    @property
    def goes_on(self) -> bool:
        """Whether an episode is not finished."""
        return self.finished < len(self.seeds)

    def end(self, lanes: NDArray[np.intp]) -> NDArray[np.bool_]:
        """These lanes' episodes have ended; which lanes begin another, (N,)."""
        self.finished += len(lanes)
        again = lanes[: len(self.seeds) - self._begun]
        self.active[lanes[len(again) :]] = False
        self.episode[again] = np.arange(self._begun, self._begun + len(again))
        self.lane_seeds[again] = self.seeds[self.episode[again]]
        self._begun += len(again)
        begins = np.zeros(len(self.active), np.bool_)
        begins[again] = True
        return begins


class FunctionPlayer:
    """Plays episodes with a policy of this process, on any vector environment with NEXT_STEP.

    A lane that finishes begins its next episode at once, by a reset of that lane. One that has none
    left idles: it goes on under autoreset, unseen by the policy and uncounted.
    """

    def __init__(
        self,
        envs: VectorEnv[Any, Any, Any],
        policy: functions.Policy,
        timeout: float,
        progress: Progress | None,
        log: ActionLog | None,
    ) -> None:
        self.envs, self.progress, self.log = envs, progress, log
        self.caller = functions.Caller(policy, envs, timeout)

    def play(self, seeds: NDArray[np.uint64]) -> dict[str, Any]:
        """The episodes of these seeds; each result an array (episodes,), in their order."""
        envs, total = self.envs, len(seeds)
        self.schedule = schedule = _Schedule(seeds, envs.num_envs)
        scores = np.zeros(total, np.float64)
        lengths = np.zeros(total, np.int64)
        moves = np.zeros(total, np.int64)
        exponents = np.zeros(total, np.uint8)
        rewards_so_far = np.zeros(envs.num_envs)
        steps_so_far = np.zeros(envs.num_envs, np.int64)
        steps = 0

        start = time.perf_counter()
        observations, infos = self._reset_all()
        mask = self._legal_actions(infos)
        has_score, has_exponent = "score" in infos, "max_exponent" in infos
        has_moves = "moves" in infos
        has_whole_scores = has_score and np.asarray(infos["score"]).dtype.kind in "iu"
        self.caller.reset(schedule.active)
        while schedule.goes_on:
            actions = self.caller(observations, mask, schedule.active, self.place)
            observations, rewards, terminations, truncations, infos = envs.step(actions)
            mask = self._legal_actions(infos)
            # Some have one in the infos of a reset only.
            has_score = has_score and "score" in infos
            if self.log is not None:
                self.log.add(actions, int(steps_so_far[schedule.active].max()))
            steps += np.count_nonzero(schedule.active)
            steps_so_far += 1
            if not has_score:
                rewards_so_far += rewards
            ended = (terminations | truncations) & schedule.active
            if not ended.any():
                continue

            done = np.flatnonzero(ended)
            which = schedule.episode[done]
            scores[which] = infos["score"][done] if has_score else rewards_so_far[done]
            lengths[which] = steps_so_far[done]
            moves[which] = infos["moves"][done] if has_moves else steps_so_far[done]
            if has_exponent:
                exponents[which] = infos["max_exponent"][done]
            if self.log is not None:
                self.log.end(done, which, lengths[which])
            rewards_so_far[done], steps_so_far[done] = 0, 0
            begins = schedule.end(done)
            if begins.any():
                observations, infos = self._reset_some(begins, observations)
                # The other lanes' infos may be missing.
                mask = np.where(begins[:, np.newaxis], self._legal_actions(infos), mask)
                self.caller.reset(begins)
            if self.progress is not None:
                self.progress(schedule.finished, total, steps)
        return {
            "scores": scores.astype(np.int64) if has_score and has_whole_scores else scores,
            "moves": moves,
            "lengths": lengths,
            "max_exponents": exponents if has_exponent else None,
            "seconds": time.perf_counter() - start,
            "policy_seconds": self.caller.seconds,
        }

    def _reset_all(self) -> tuple[Any, dict[str, Any]]:
        """Begins all lanes' first episodes."""
        try:
            return self.envs.reset(seed=self._seeds())
        except (gym.error.Error, TypeError, ValueError) as error:
            if self._is_ours or isinstance(error, TwofoldError):
                raise
            raise InvalidArgument(
                f"{self._name} takes no list of seeds ({type(error).__name__}: {error}), and "
                f"evaluation seeds each episode; {_TAKE_SYNC}",
                field="env",
            ) from error

    def _reset_some(
        self, begins: NDArray[np.bool_], observations: Any
    ) -> tuple[Any, dict[str, Any]]:
        """Begins the next episodes of the lanes that `begins`, (N,), names.

        Raises:
            InvalidArgument: Others are not where they were, in these observations (N, …).
        """
        before = None if self._is_ours else functions.rows(observations, ~begins)
        observations, infos = self.envs.reset(
            seed=self._seeds(), options={"reset_mask": begins.copy()}
        )
        if before is not None:
            after = functions.rows(observations, ~begins)
            if first_difference(before, after) is not None:
                raise InvalidArgument(
                    f"{self._name} also resets environments that options={{'reset_mask': …}} "
                    "leaves out, and evaluation begins the next episode where one has ended; "
                    f"{_TAKE_SYNC}",
                    field="env",
                )
        return observations, infos

    @property
    def _is_ours(self) -> bool:
        return isinstance(self.envs.unwrapped, TwofoldVectorEnv)

    @property
    def _name(self) -> str:
        return type(self.envs.unwrapped).__name__

    def _seeds(self) -> Any:
        """The seeds of what the lanes play: an array, or what every environment takes."""
        seeds = self.schedule.lane_seeds
        # Gymnasium's own want Python's ints. Ours take thousands at a time, every few steps.
        return seeds if self._is_ours else seeds.tolist()

    def _legal_actions(self, infos: dict[str, Any]) -> Array:
        """int8 (N, actions), 1 where an action is legal: all of them, where infos don't say."""
        mask: Array | None = infos.get("action_mask")
        if mask is None:
            return np.ones((self.envs.num_envs, self.caller.num_actions), np.int8)
        return mask

    def place(self, lane: int) -> dict[str, int]:
        """What a lane plays."""
        schedule = self.schedule
        return {"episode": int(schedule.episode[lane]), "seed": int(schedule.lane_seeds[lane])}


class ServerPlayer:
    """Plays episodes of 2048 by rollouts, with a policy that chooses in the server.

    A lane that finishes waits for the end of the rollout (autoreset is disabled) and then begins
    its next episode. Its seed seeds the policy's draws too, so an episode is a function of its seed
    here as well.
    """

    STEPS = 32  # of each rollout: few enough that waiting costs little, also in short games
    INFOS = ("score", "moves", "episode_length", "max_exponent")

    def __init__(
        self,
        envs: VectorEnv[Any, Any, Any],
        policy: served_policies.Policy,
        progress: Progress | None,
        log: ActionLog | None,
    ) -> None:
        base = envs.unwrapped
        if not isinstance(base, Game2048VectorEnv):
            raise InvalidArgument(
                "policies in the server play 2048; give a function for another game", field="policy"
            )
        self.envs, self.policy, self.progress, self.log = base, policy, progress, log

    def play(self, seeds: NDArray[np.uint64]) -> dict[str, Any]:
        """The episodes of these seeds; each result an array (episodes,), in their order."""
        envs, total = self.envs, len(seeds)
        schedule = _Schedule(seeds, envs.num_envs)
        results = {name: np.zeros(total, np.int64) for name in self.INFOS}
        steps = 0
        start = time.perf_counter()
        envs.reset(seed=schedule.lane_seeds)
        while schedule.goes_on:
            data = envs.rollout(self.STEPS, policy=self.policy, infos=self.INFOS)
            active = schedule.active
            steps += np.count_nonzero(data.valid[:, active])
            if self.log is not None:
                self.log.add_rollout(data.actions, data.valid & active)
            done = np.flatnonzero((data.terminations | data.truncations).any(axis=0) & active)
            which = schedule.episode[done]
            for name, values in results.items():
                values[which] = data.infos[name][-1, done]  # what it waits with
            if self.log is not None:
                self.log.end_rollout(done, which)
            begins = schedule.end(done)
            if begins.any():
                envs.reset(seed=schedule.lane_seeds, options={"reset_mask": begins})
            if self.progress is not None:
                self.progress(schedule.finished, total, steps)
        return {
            "scores": results["score"],
            "moves": results["moves"],
            "lengths": results["episode_length"],
            "max_exponents": results["max_exponent"].astype(np.uint8),
            "seconds": time.perf_counter() - start,
            "policy_seconds": math.nan,
        }


class ActionLog:
    """The actions of all games.

    Of those under way in a table of steps and lanes; of those that are finished packed, by episode.
    """

    def __init__(self, envs: VectorEnv[Any, Any, Any]) -> None:
        base = envs.unwrapped
        if not isinstance(base, Game2048VectorEnv):
            raise InvalidArgument("record needs an environment of 2048", field="record")
        config = base._session.create.game2048
        self.rules = RecordingRules(
            config.rows, config.columns, config.four_probability, config.start_tiles
        )
        self.games: dict[int, bytes] = {}
        # A dialect counts the actions in another order than recordings do.
        order = base._action_order
        self._order = np.arange(4, dtype=np.uint8) if order is None else order
        self._table = np.zeros((256, envs.num_envs), np.uint8)
        self._next = 0
        self._pieces: list[list[Array]] = [[] for _ in range(envs.num_envs)]

    def add_rollout(self, actions: Array, valid: Array) -> None:
        """Some steps of all lanes, (steps, N), those that are `valid`."""
        actions = self._order[actions]
        for lane, pieces in enumerate(self._pieces):
            pieces.append(actions[valid[:, lane], lane])

    def end_rollout(self, lanes: Array, episodes: Array) -> None:
        """These lanes' episodes have ended with the rollout that was added last."""
        for lane, episode in zip(lanes, episodes, strict=True):
            self.games[int(episode)] = pack_actions(np.concatenate(self._pieces[lane]))
            self._pieces[lane].clear()

    def add(self, actions: Array, needed: int) -> None:
        """One step of all lanes; the longest game under way has `needed` steps before it."""
        if self._next == len(self._table):
            kept = self._table[self._next - needed : self._next]
            size = len(self._table) if 2 * needed < len(self._table) else 2 * len(self._table)
            self._table = np.zeros((size, self._table.shape[1]), np.uint8)
            self._table[:needed] = kept
            self._next = needed
        self._table[self._next] = self._order[actions]
        self._next += 1

    def end(self, lanes: Array, episodes: Array, lengths: Array) -> None:
        """These lanes' episodes have ended, after these numbers of steps."""
        for lane, episode, length in zip(lanes, episodes, lengths, strict=True):
            actions = self._table[self._next - length : self._next, lane]
            self.games[int(episode)] = pack_actions(actions)
