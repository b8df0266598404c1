"""The environment under test, whose runs can be repeated, recorded and compared."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import concatenate, create_empty_array, iterate
from numpy.typing import NDArray

from twofold._comparison import first_difference, short

AnyVectorEnv = VectorEnv[Any, Any, Any]
Policy = Callable[[Any, dict[str, Any]], Any]
"""A deterministic function (observations, infos) -> actions."""


class Violation(Exception):
    """The error raised if the environment violates the interface."""


class CannotCheck(Exception):
    """The error raised if the check can't run on this environment."""


def expect(condition: bool, expectation: str, got: object) -> None:
    """Raises Violation with the text "expected …; got …", unless the condition is true."""
    if not condition:
        raise Violation(f"expected {expectation}; got {got}")


def expect_equal(expected: Any, got: Any, expectation: str) -> None:
    """Raises Violation with the first difference if the values differ."""
    difference = first_difference(expected, got)
    if difference is not None:
        raise Violation(f"expected {expectation}; {difference}")


def all_equal(values: list[Any]) -> bool:
    """Returns True if all values equal the first one."""
    return all(first_difference(values[0], value) is None for value in values[1:])


@dataclass
class Result:
    """The values that a reset or a step returned."""

    title: str
    """The name of the call in messages, such as "reset(seed=0)" or "step 3"."""
    values: tuple[Any, ...]
    """The two values that a reset returned, or the five that a step returned."""
    actions: Any = None
    """The actions of the step."""
    waiting: NDArray[np.bool_] | None = None
    """bool (N,), True for lanes whose episodes ended in the step before."""
    reset: Result | None = None
    """With DISABLED autoreset, the result of resetting the `waiting` lanes before this step."""

    def expect(self, condition: bool, expectation: str, got: object) -> None:
        """Raises Violation, with the name of the call, unless the condition is true."""
        if not condition:
            raise Violation(f"{self.title}: expected {expectation}; got {got}")

    @property
    def is_step(self) -> bool:
        """Whether a step returned the values."""
        return len(self.values) == 5

    @property
    def observations(self) -> Any:
        """The observations."""
        return self.values[0]

    @property
    def infos(self) -> Any:
        """The infos."""
        return self.values[-1]

    @property
    def done(self) -> NDArray[np.bool_]:
        """True for each lane whose episode ends in this step, (N,); shape (0,) after a reset."""
        if not self.is_step:
            return np.zeros(0, np.bool_)
        return np.asarray(np.logical_or(self.values[2], self.values[3]))

    @property
    def arrays(self) -> dict[str, Any]:
        """All values except the infos, by name."""
        names = ("observations", "rewards", "terminations", "truncations")
        return dict(zip(names, self.values[:-1], strict=False))

    @property
    def outcome(self) -> dict[str, Any]:
        """The values that must be equal in equal runs: the arrays and the action mask."""
        outcome = self.arrays
        if isinstance(self.infos, dict) and "action_mask" in self.infos:
            outcome["action_mask"] = self.infos["action_mask"]
        return outcome


class Player:
    """One environment, its last result, and a source of actions."""

    def __init__(self, subject: Subject, envs: AnyVectorEnv) -> None:
        self.envs = envs
        self.last = Result("before the first reset", ((), {}))
        self.done = np.zeros(subject.lanes, np.bool_)
        self._subject = subject
        self._count = 0
        self.begin()

    def begin(self) -> None:
        """Starts the stream of random actions."""
        self._space = copy.deepcopy(self._subject.envs.single_action_space)
        self._space.seed(self._subject.seed)

    def reset(self, seed: Any = None, **keywords: Any) -> Result:
        """Resets the environment."""
        values = self.envs.reset(seed=seed, **keywords)
        given = ({} if seed is None else {"seed": seed}) | keywords
        title = ", ".join(f"{name}={short(value)}" for name, value in given.items())
        self.last = Result(f"reset({title})", values)
        self.done = np.zeros(self._subject.lanes, np.bool_)
        self._count = 0
        return self.last

    def actions(self) -> Any:
        """Returns the next actions of all lanes."""
        if self._subject.policy is not None:
            return self._subject.policy(self.last.observations, self.last.infos)
        return self._subject.batch([self.action(lane) for lane in range(self._subject.lanes)])

    def action(self, lane: int) -> Any:
        """Returns a random legal action for one lane."""
        infos = self.last.infos
        if isinstance(self._space, gym.spaces.Discrete) and "action_mask" in infos:
            # Discrete.sample(mask=…) takes several times as long.
            (legal,) = np.nonzero(infos["action_mask"][lane])
            place = self._space.np_random.integers(max(len(legal), 1))
            return self._space.start + (legal[place] if len(legal) else 0)
        return self._space.sample()

    def step(self, actions: Any = None) -> Result:
        """Steps the environment. If autoreset is disabled, first resets the finished lanes."""
        waiting, reset = self.done, self.reset_finished()
        if actions is None:
            actions = self.actions()
        self._count += 1
        values = self.envs.step(actions)
        self.last = Result(f"step {self._count}", values, actions, waiting, reset)
        if self.last.is_step:
            self.done = self.last.done
        return self.last

    def reset_finished(self) -> Result | None:
        """If autoreset is disabled, resets the finished lanes, if any, and returns the result."""
        if self._subject.mode is not AutoresetMode.DISABLED or not self.done.any():
            return None
        count = self._count
        reset = self.reset(options={"reset_mask": self.done.copy()})
        self._count = count
        return reset

    def play(self, steps: int, seed: Any = None) -> Iterator[Result]:
        """Yields the results of a reset and of `steps` steps."""
        self.begin()
        yield self.reset(seed)
        for _ in range(steps):
            yield self.step()


@dataclass(eq=False)
class Subject:
    """The environment under test: a function that makes it, and one long recorded run.

    Attributes:
        make, steps, seed, stochastic, policy: The arguments of `check_vector_env`.
        envs: A closed environment, used only for its spaces and metadata.
        lanes: The number of lanes.
        mode: The declared autoreset mode; NEXT_STEP if there is none.
    """

    make: Callable[[], AnyVectorEnv]
    steps: int
    seed: int
    stochastic: bool
    policy: Policy | None

    def __post_init__(self) -> None:
        self._made: list[AnyVectorEnv] = []
        made = "a function that makes the environment, such as lambda: gymnasium.make_vec(…)"
        expect(callable(self.make), made, f"a {type(self.make).__name__}")
        envs = self.make()
        if not isinstance(envs, VectorEnv):
            raise Violation(f"expected a gymnasium.vector.VectorEnv; got a {type(envs).__name__}")
        spaces = ("observation_space", "action_space")
        single = (f"single_{name}" for name in spaces)
        for name in ("num_envs", "metadata", "closed", *spaces, *single):
            expect(hasattr(envs, name), f"the attribute {name}", "none")
        self.envs = envs
        self.lanes = int(envs.num_envs)
        declared = envs.metadata.get("autoreset_mode")
        self.mode = declared if isinstance(declared, AutoresetMode) else AutoresetMode.NEXT_STEP
        envs.close()

    def player(self) -> Player:
        """Returns a player with its own environment, which is closed after the check."""
        envs = self.make()
        self._made.append(envs)
        return Player(self, envs)

    def close_all(self) -> None:
        """Closes the environments that the check has made."""
        for envs in self._made:
            envs.close()
        self._made = []

    def batch(self, actions: list[Any]) -> Any:
        """Returns one action per lane as a batch of the action space."""
        empty: Any = create_empty_array(self.envs.single_action_space, self.lanes)
        return concatenate(self.envs.single_action_space, actions, empty)

    def lanes_of(self, observations: Any) -> list[Any]:
        """Returns the observation of each lane."""
        return list(iterate(self.envs.observation_space, observations))

    def seeds(self, number: int) -> list[int]:
        """Returns seeds for `number` runs. They are so far apart that no two lanes share a seed."""
        return [self.seed + offset * (self.lanes + 1) for offset in range(number)]

    @functools.cached_property
    def recording(self) -> list[Result]:
        """The results of one long run, each copied when it was returned."""
        return [copy.deepcopy(result) for result in self.player().play(self.steps, self.seed)]

    @property
    def ends(self) -> list[int]:
        """The indices of the recorded results in which episodes end. There is at least one.

        Raises:
            CannotCheck: No episode ended.
        """
        ends = [index for index, result in enumerate(self.recording) if result.done.any()]
        if not ends:
            raise CannotCheck(
                f"no episode ended within {self.steps} steps; pass more steps=, or a policy= with "
                "shorter episodes"
            )
        return ends

    def need_lanes(self) -> None:
        """Raises CannotCheck if there is only one lane."""
        if self.lanes < 2:
            raise CannotCheck("needs at least 2 lanes; the environment has 1")

    def need_random_actions(self, purpose: str) -> None:
        """Raises CannotCheck if actions are not random, because a policy chooses them."""
        if self.policy is not None:
            raise CannotCheck(f"needs {purpose}, but policy= chooses the actions")

    def need_chance(self) -> None:
        """Raises CannotCheck if the environment uses no random numbers."""
        if not self.stochastic:
            raise CannotCheck("stochastic=False: the environment uses no random numbers")

    def compare_with_recording(self, run: Iterator[Result], expectation: str) -> None:
        """Raises Violation if a run differs from the recorded run."""
        for recorded, result in zip(self.recording, run, strict=False):
            difference = first_difference(recorded.outcome, result.outcome)
            if difference is not None:
                raise Violation(f"expected {expectation}; at {recorded.title} {difference}")

    def transcript(self, player: Player, seed: Any = None) -> list[Any]:
        """Returns the outcomes of a short run."""
        return [copy.deepcopy(one.outcome) for one in player.play(40, seed)]
