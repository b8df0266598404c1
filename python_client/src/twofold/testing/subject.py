"""What the conformance checks stand on: environments, and runs of them that can be repeated."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import concatenate, create_empty_array, iterate
from numpy.typing import NDArray

from twofold._comparison import first_difference, short

AnyVectorEnv = VectorEnv[Any, Any, Any]
Policy = Callable[[Any, dict[str, Any]], Any]
"""(observations, infos) -> actions, deterministic."""

_ATTRIBUTES = (
    "num_envs",
    "metadata",
    "closed",
    "observation_space",
    "action_space",
    "single_observation_space",
    "single_action_space",
)


class Wrong(Exception):
    """The environment does not conform."""


class CannotCheck(Exception):
    """This environment gives no occasion for the check."""


def expect(condition: bool, message: str) -> None:
    """Raises Wrong where the condition does not hold."""
    if not condition:
        raise Wrong(message)


def fail(message: str) -> NoReturn:
    """Raises Wrong."""
    raise Wrong(message)


@dataclass
class Moment:
    """What a reset or a step returned."""

    title: str
    """Where it is, for messages: "reset(seed=0)", "step 3"."""
    values: tuple[Any, ...]
    """What was returned: 2 things for a reset, 5 for a step."""
    actions: Any = None
    """The actions that were given to the step."""
    waiting: NDArray[np.bool_] | None = None
    """The lanes whose episode had ended in the step before."""
    reset: Moment | None = None
    """With DISABLED, the reset of these lanes between that step and this one."""

    @property
    def observations(self) -> Any:
        """The observations, of a reset or a step."""
        return self.values[0]

    @property
    def infos(self) -> Any:
        """The infos, of a reset or a step."""
        return self.values[-1]

    @property
    def done(self) -> NDArray[np.bool_]:
        """Lanes whose episode ends here; none in a reset."""
        if len(self.values) != 5:
            return np.zeros(0, np.bool_)
        return np.asarray(np.logical_or(self.values[2], self.values[3]))

    @property
    def arrays(self) -> dict[str, Any]:
        """What was returned beside the infos, by name."""
        names = ("observations", "rewards", "terminations", "truncations")
        return dict(zip(names, self.values[:-1], strict=False))

    @property
    def outcome(self) -> dict[str, Any]:
        """What has to be the same in two equal runs; infos may tell the time."""
        outcome = self.arrays
        if isinstance(self.infos, dict) and "action_mask" in self.infos:
            outcome["action_mask"] = self.infos["action_mask"]
        return outcome


class Player:
    """One environment, what it returned last, and who chooses its actions."""

    def __init__(self, bench: Bench, envs: AnyVectorEnv) -> None:
        self.envs = envs
        self.last = Moment("before the first reset", ((), {}))
        self.done = np.zeros(bench.lanes, np.bool_)
        self._bench = bench
        self._count = 0
        self.begin(0)

    def begin(self, stream: int) -> None:
        """Another stream of random actions."""
        self._space = copy.deepcopy(self._bench.single_action_space)
        self._space.seed(self._bench.seed + stream)

    def reset(self, seed: Any = None, **keywords: Any) -> Moment:
        """Resets, and takes what it returns."""
        values = self.envs.reset(seed=seed, **keywords)
        told = [] if seed is None else [f"seed={seed}"]
        told += [f"{name}={short(value)}" for name, value in keywords.items()]
        self.last = Moment(f"reset({', '.join(told)})", values)
        self.done = np.zeros(self._bench.lanes, np.bool_)
        self._count = 0
        return self.last

    def actions(self) -> Any:
        """Actions for all lanes."""
        if self._bench.policy is not None:
            return self._bench.policy(self.last.observations, self.last.infos)
        return self._bench.batch([self.action(lane) for lane in range(self._bench.lanes)])

    def action(self, lane: int) -> Any:
        """A random legal action for one lane."""
        infos = self.last.infos
        if isinstance(self._space, gym.spaces.Discrete) and "action_mask" in infos:
            return self._space.sample(mask=np.asarray(infos["action_mask"][lane], np.int8))
        return self._space.sample()

    def step(self, actions: Any = None) -> Moment:
        """Steps, after a masked reset of finished lanes where autoreset is disabled."""
        waiting, reset, count = self.done, None, self._count + 1
        if self._bench.mode is AutoresetMode.DISABLED and waiting.any():
            reset = self.reset(options={"reset_mask": waiting.copy()})
        if actions is None:
            actions = self.actions()
        self._count = count
        values = self.envs.step(actions)
        self.last = Moment(f"step {count}", values, actions, waiting, reset)
        if len(values) == 5:
            self.done = self.last.done
        return self.last

    def play(self, steps: int, seed: Any = None) -> Iterator[Moment]:
        """A reset and so many steps."""
        self.begin(0)
        yield self.reset(seed)
        for _ in range(steps):
            yield self.step()


class Bench:
    """What all checks share: how to make the environment, and one long recorded run of it."""

    def __init__(
        self,
        make: Callable[[], AnyVectorEnv],
        steps: int,
        seed: int,
        stochastic: bool,
        policy: Policy | None,
    ) -> None:
        self.make = make
        self.steps = steps
        self.seed = seed
        self.stochastic = stochastic
        self.policy = policy
        self.remarks: list[str] = []
        self._made: list[AnyVectorEnv] = []
        self._recording: list[Moment] | None = None
        self._one_lane_disturbs_others: bool | None = None
        envs = make()
        if not isinstance(envs, VectorEnv):
            fail(f"expected a gymnasium.vector.VectorEnv; got a {type(envs).__name__}")
        for name in _ATTRIBUTES:
            expect(hasattr(envs, name), f"expected the attribute {name}; there is none")
        self.name = type(envs.unwrapped).__name__
        self.lanes = int(envs.num_envs)
        self.metadata = envs.metadata
        self.single_observation_space = envs.single_observation_space
        self.single_action_space = envs.single_action_space
        self.observation_space = envs.observation_space
        self.action_space = envs.action_space
        declared = envs.metadata.get("autoreset_mode")
        self.mode = declared if isinstance(declared, AutoresetMode) else AutoresetMode.NEXT_STEP
        envs.close()

    def player(self) -> Player:
        """A player with an environment of its own, closed after the check."""
        envs = self.make()
        self._made.append(envs)
        return Player(self, envs)

    def close_all(self) -> None:
        """Closes what the check has made."""
        for envs in self._made:
            envs.close()
        self._made = []

    def batch(self, actions: list[Any]) -> Any:
        """One action for each lane as the action space has it."""
        empty: Any = create_empty_array(self.single_action_space, self.lanes)
        return concatenate(self.single_action_space, actions, empty)

    def lanes_of(self, observations: Any) -> list[Any]:
        """The observation of each lane."""
        return list(iterate(self.observation_space, observations))

    def by_lane(self, step: Moment) -> list[Any]:
        """What a step returned, without its infos, lane by lane."""
        flags = [np.asarray(value) for value in step.values[1:4]]
        lanes = self.lanes_of(step.observations)
        return [(one, *(flag[lane] for flag in flags)) for lane, one in enumerate(lanes)]

    def seeds(self, number: int) -> list[int]:
        """Seeds for so many runs, none of which gives a lane what another gives a lane."""
        return [self.seed + offset * (self.lanes + 1) for offset in range(number)]

    @property
    def one_lane_disturbs_others(self) -> bool:
        """Whether what is played on one lane changes what happens on others."""
        if self._one_lane_disturbs_others is None:
            self._one_lane_disturbs_others = self._disturb_others()
        return self._one_lane_disturbs_others

    def _disturb_others(self) -> bool:
        self.need_lanes()
        self.need_random_actions("other actions on one lane")
        players = self.player(), self.player()
        for player in players:
            player.reset(self.seed)
        players[1].begin(1)
        for _ in range(min(self.steps, 60)):
            actions = [players[0].action(lane) for lane in range(self.lanes)]
            others = [players[1].action(0), *actions[1:]]
            one = self.by_lane(players[0].step(self.batch(actions)))
            other = self.by_lane(players[1].step(self.batch(others)))
            if first_difference(one[1:], other[1:]) is not None:
                return True
            if self.mode is AutoresetMode.DISABLED and any(one.done.any() for one in players):
                break
        return False

    @property
    def recording(self) -> list[Moment]:
        """One long run, each moment copied when it was returned."""
        if self._recording is None:
            self._recording = [
                copy.deepcopy(moment) for moment in self.player().play(self.steps, self.seed)
            ]
        return self._recording

    @property
    def ends(self) -> list[int]:
        """Where in the recording an episode ends; there is at least one."""
        ends = [index for index, moment in enumerate(self.recording) if moment.done.any()]
        if not ends:
            raise CannotCheck(
                f"no episode ended within {self.steps} steps; give more steps=, or a policy= that "
                "comes to an end"
            )
        return ends

    def need_lanes(self) -> None:
        """Cannot check with one lane."""
        if self.lanes < 2:
            raise CannotCheck("it takes at least 2 lanes, and the environment has 1")

    def need_random_actions(self, what: str) -> None:
        """Cannot check where a policy chooses the actions."""
        if self.policy is not None:
            raise CannotCheck(f"it takes {what}, and a policy= chooses them")

    def need_chance(self) -> None:
        """Cannot check without random numbers."""
        if not self.stochastic:
            raise CannotCheck("stochastic=False: nothing is random here")

    def compare(self, moment: Moment, other: Moment, what: str) -> None:
        """Two equal runs have to come out the same."""
        difference = first_difference(moment.outcome, other.outcome)
        expect(difference is None, f"{what}; at {moment.title} {difference}")

    def compare_with_recording(self, run: Iterator[Moment], what: str) -> None:
        """A run that has to come out as the recorded one."""
        for recorded, moment in zip(self.recording, run, strict=False):
            self.compare(recorded, moment, what)

    def transcript(self, player: Player, seed: Any = None, steps: int = 40) -> list[Any]:
        """The outcomes of a short run."""
        return [copy.deepcopy(one.outcome) for one in player.play(steps, seed)]
