"""Two ways to play an evaluation's games: step by step, or with rollouts in the service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from twofold._comparison import first_difference
from twofold.envs.game2048 import Game2048VectorEnv
from twofold.envs.results import Array
from twofold.envs.vector import TwofoldVectorEnv
from twofold.errors import InvalidArgument, TwofoldError
from twofold.evaluation.schedule import Schedule, Segment
from twofold.policies import served_policies
from twofold.policies.choosers import OpenChooser, rows

# The infos that contain a game's results. In 2048, they keep their values from before the step in
# which a player failed.
_RESULTS = ("score", "moves", "max_exponent")
_USE_SYNC = "gymnasium.make_vec(…, vectorization_mode='sync') makes a suitable environment"


class Steps:
    """A source that plays games step by step, in any vector environment with NEXT_STEP autoreset.

    Idle lanes continue to step and reset. They do not count, and only policies with memory see
    them. A game in which a player fails ends before the failed step. Each step collects these
    `infos` and, if there are any, the boards.
    """

    def __init__(
        self, envs: VectorEnv[Any, Any, Any], chooser: OpenChooser, infos: Sequence[str]
    ) -> None:
        self._envs, self._chooser, self._names = envs, chooser, infos
        # Without a mask in the infos, all actions are legal.
        self._every_action = np.ones((envs.num_envs, chooser.num_actions), np.int8)
        self._observations: Any = None
        self._mask: Array = self._every_action
        self._infos: dict[str, Any] = {}
        self._rewards = np.zeros(envs.num_envs)
        self._lengths = np.zeros(envs.num_envs, np.int64)

    def begin(self, schedule: Schedule) -> None:
        """Resets each lane that begins an episode, with the episode's seed."""
        lanes, seeds = schedule.begins, schedule.lane_seeds
        if self._observations is None:
            self._observations, self._infos = _reset_all(self._envs, seeds.games)
            if not isinstance(self._infos, Mapping):
                raise InvalidArgument(
                    f"env returns infos as a {type(self._infos).__name__}, but evaluation needs "
                    "Gymnasium's dict of arrays; omit the wrapper DictInfoToList",
                    field="env",
                )
            self._mask = self._infos.get("action_mask", self._every_action)
            self._chooser.begin(schedule.active, seeds.players)
            return
        self._rewards[lanes] = self._lengths[lanes] = 0
        self._observations, self._infos = _reset_some(
            self._envs, seeds.games, lanes, self._observations
        )
        # A masked reset may omit the other lanes' infos.
        begun = self._infos.get("action_mask", self._every_action)
        self._mask = np.where(lanes[:, np.newaxis], begun, self._mask)
        self._chooser.begin(lanes, seeds.players)

    def play(self, schedule: Schedule) -> Segment:
        """Plays one step on all lanes."""

        def place(lane: int) -> dict[str, int]:
            return schedule.place(lane) | {"step": int(self._lengths[lane])}

        chooser, active = self._chooser, schedule.active
        actions = chooser.choose(self._observations, self._mask, active, place)
        failed = np.zeros(self._envs.num_envs, np.bool_)
        failed[list(chooser.failures)] = True
        before = self._infos
        if chooser.failures:
            before = {name: before[name].copy() for name in _RESULTS}
        base: Any = self._envs.unwrapped
        boards = base.boards()[np.newaxis] if self._names else None
        self._observations, rewards, terminations, truncations, stepped = self._envs.step(actions)
        infos = stepped
        if chooser.failures:
            kept = {name: np.where(failed, before[name], infos[name]) for name in _RESULTS}
            infos = {**infos, **kept}
        self._infos = infos
        self._mask = infos.get("action_mask", self._every_action)
        self._lengths += ~failed
        self._rewards += rewards
        ended = np.flatnonzero((terminations | truncations | failed) & active)
        return Segment(
            actions=actions[np.newaxis],
            playing=(active & ~failed)[np.newaxis],
            boards=boards,
            infos={name: stepped[name][np.newaxis] for name in self._names},
            ended=ended,
            results=self._results(ended) if len(ended) else {},
            failures=chooser.failures.values(),
        )

    def _results(self, ended: NDArray[np.intp]) -> dict[str, Array]:
        # Some environments report these infos only in a reset, or not in the last step.
        named = [name for name in _RESULTS if _is_reported(self._infos, name, ended)]
        reported = {name: self._infos[name][ended] for name in named}
        return {**reported, "episode_length": self._lengths[ended], "reward": self._rewards[ended]}


def _is_reported(infos: Mapping[str, Any], name: str, lanes: NDArray[np.intp]) -> bool:
    """Returns True if the infos contain this name for all of these lanes."""
    mask = infos.get(f"_{name}")  # Gymnasium's; None if all lanes have the info
    return name in infos and (mask is None or bool(mask[lanes].all()))


class Rollouts:
    """A source that plays games of 2048 with rollouts of a policy that runs in the server.

    Autoreset is disabled, so a lane that finishes waits for the end of the rollout and then begins
    its next episode. The episode's seed also seeds the policy's random draws, so the seed
    determines the whole episode. Each rollout also collects these `infos`.
    """

    def __init__(
        self,
        envs: VectorEnv[Any, Any, Any],
        policy: served_policies.Policy,
        infos: Sequence[str],
    ) -> None:
        base = envs.unwrapped
        if not isinstance(base, Game2048VectorEnv):
            raise InvalidArgument(
                f"{policy.name} plays only 2048; in other games, pass a function, random or "
                "fixed-order, and in Concentration also perfect-memory or last-k-memory:4",
                field="policy",
            )
        self._envs, self._policy = base, policy
        self._results = (*_RESULTS, "episode_length")
        self._infos = list(dict.fromkeys([*self._results, *infos]))
        # Few steps, so that lanes wait briefly in short games: random games take 5.6 steps on
        # 2 x 2, 31 on 3 x 3 and 118 on 4 x 4. Beyond 32 steps, the cost of a call is negligible.
        self._steps = min(32, 2 * base.game.rows * base.game.columns)

    def check(self) -> None:
        """Plays one step on new boards, because the service checks a policy in a rollout."""
        self._envs.reset(seed=0)
        self._envs.rollout(1, policy=self._policy)

    def begin(self, schedule: Schedule) -> None:
        """Resets each lane that begins an episode, with the episode's seed."""
        self._envs.reset(seed=schedule.lane_seeds.games, options={"reset_mask": schedule.begins})

    def play(self, schedule: Schedule) -> Segment:
        """Plays one rollout."""
        data = self._envs.rollout(self._steps, policy=self._policy, infos=self._infos)
        is_done = (data.terminations | data.truncations).any(axis=0)
        ended = np.flatnonzero(is_done & schedule.active)
        return Segment(
            actions=data.actions,
            playing=data.valid & schedule.active,
            boards=data.observations[:-1],
            infos=data.infos,
            ended=ended,
            # These infos do not change while a lane waits.
            results={name: data.infos[name][-1, ended] for name in self._results},
        )


def _reset_all(envs: VectorEnv[Any, Any, Any], seeds: Any) -> tuple[Any, dict[str, Any]]:
    """Resets every lane with its seed from `seeds`, uint64 (N,)."""
    if isinstance(envs.unwrapped, TwofoldVectorEnv):
        return envs.reset(seed=seeds)
    try:
        return envs.reset(seed=seeds.tolist())
    except TwofoldError:
        raise
    except (gym.error.Error, TypeError, ValueError) as error:
        name = type(envs.unwrapped).__name__
        raise InvalidArgument(
            f"{name} refuses a list of seeds ({type(error).__name__}: {error}), but evaluation "
            f"needs a seed for each episode; {_USE_SYNC}",
            field="env",
        ) from error


def _reset_some(
    envs: VectorEnv[Any, Any, Any], seeds: Any, begins: NDArray[np.bool_], observations: Any
) -> tuple[Any, dict[str, Any]]:
    """Resets the lanes in `begins`, bool (N,), with their seeds from `seeds`, uint64 (N,)."""
    options = {"reset_mask": begins.copy()}
    if isinstance(envs.unwrapped, TwofoldVectorEnv):
        return envs.reset(seed=seeds, options=options)
    before = rows(observations, ~begins)
    observations, infos = envs.reset(seed=seeds.tolist(), options=options)
    if first_difference(before, rows(observations, ~begins)) is not None:
        name = type(envs.unwrapped).__name__
        raise InvalidArgument(
            f"{name} also resets environments that options={{'reset_mask': …}} excludes, but "
            f"evaluation must reset only finished ones; {_USE_SYNC}",
            field="env",
        )
    return observations, infos
