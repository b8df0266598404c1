"""Two correct and many defective implementations of one environment, a walk on a line."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

PLACES = 9
Array = NDArray[Any]


class Walk(gym.Env[Array, Any]):
    """A walk that starts on 1 ... 7, steps left or right, slips at random, and ends on 0 or 8."""

    observation_space = gym.spaces.Box(0, PLACES - 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(3)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = int(self.np_random.integers(1, PLACES - 1))
        self.slip = 0
        return self._observe()

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        self.slip = int(self.np_random.integers(0, 3))
        move = int(action) - 1 if self.slip else 0
        self.place = min(max(self.place + move, 0), PLACES - 1)
        is_over = self.place in (0, PLACES - 1)
        observation, info = self._observe()
        return observation, float(self.place), is_over, False, info

    def _observe(self) -> tuple[Array, dict[str, Any]]:
        mask = np.array([1, self.place % 2, 1], np.int8)
        info = {"action_mask": mask, "place": self.place}
        return np.array([self.place, self.slip], np.float32), info


class WalkVectorEnv(VectorEnv[Array, Array, Array]):
    """The walk on many lanes, each with its own generator. Subclasses break one method."""

    def __init__(self, mode: AutoresetMode = AutoresetMode.NEXT_STEP, num_envs: int = 3) -> None:
        self.mode = mode
        self.num_envs = num_envs
        self.metadata = {"autoreset_mode": mode}
        self.single_observation_space = gym.spaces.Box(0, PLACES - 1, (2,), np.float32)
        self.single_action_space = gym.spaces.Discrete(3)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.generators = [np.random.default_rng() for _ in range(num_envs)]
        self.places = np.zeros(num_envs, int)
        self.slips = np.zeros(num_envs, int)
        self.waiting = np.zeros(num_envs, np.bool_)

    def reset(
        self,
        *,
        seed: int | list[int] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Array, dict[str, Any]]:
        mask = self.lanes_to_reset(options or {})
        self.seed_lanes(seed, mask)
        self.begin(mask)
        self.waiting[mask] = False
        return self.observations(), self.infos(mask)

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        waiting = self.waiting if self.mode is AutoresetMode.NEXT_STEP else self.nobody()
        playing = ~waiting
        self.begin(waiting)
        for lane in np.flatnonzero(playing):
            self.slips[lane] = self.generators[lane].integers(0, 3)
            move = actions[lane] - 1 if self.slips[lane] else 0
            self.places[lane] = min(max(self.places[lane] + move, 0), PLACES - 1)
        rewards = np.where(playing, self.places, 0.0)
        terminations = playing & np.isin(self.places, (0, PLACES - 1))
        infos = self.infos(np.ones(self.num_envs, np.bool_))
        if self.mode is AutoresetMode.SAME_STEP and terminations.any():
            finals = self.finals(terminations, infos)
            self.begin(terminations)
            infos = self.infos(np.ones(self.num_envs, np.bool_)) | finals
        self.waiting = terminations.copy()
        return self.observations(), rewards, terminations, self.nobody(), infos

    def nobody(self) -> NDArray[np.bool_]:
        return np.zeros(self.num_envs, np.bool_)

    def lanes_to_reset(self, options: dict[str, Any]) -> NDArray[np.bool_]:
        if "reset_mask" not in options:
            return ~self.nobody()
        mask: NDArray[np.bool_] = options["reset_mask"]
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
            raise TypeError("reset_mask")
        if mask.shape != (self.num_envs,) or not mask.any():
            raise ValueError("reset_mask")
        return np.array(mask)

    def seed_lanes(self, seed: int | list[int] | None, mask: NDArray[np.bool_]) -> None:
        if seed is not None:
            for lane in np.flatnonzero(mask):
                own = seed + lane if isinstance(seed, int) else seed[lane]
                self.generators[lane] = np.random.default_rng(own)

    def begin(self, lanes: NDArray[np.bool_]) -> None:
        for lane in np.flatnonzero(lanes):
            self.places[lane] = self.generators[lane].integers(1, PLACES - 1)
            self.slips[lane] = 0

    def observations(self) -> Array:
        return np.stack([self.places, self.slips], axis=1).astype(np.float32)

    def infos(self, lanes: NDArray[np.bool_]) -> dict[str, Any]:
        ones = np.ones(self.num_envs, np.int8)
        mask = np.stack([ones, (self.places % 2).astype(np.int8), ones], axis=1)
        return {
            "action_mask": mask,
            "_action_mask": lanes.copy(),
            "place": self.places.copy(),
            "_place": lanes.copy(),
        }

    def finals(self, lanes: NDArray[np.bool_], infos: dict[str, Any]) -> dict[str, Any]:
        observations = np.full(self.num_envs, None, object)
        for lane in np.flatnonzero(lanes):
            observations[lane] = self.observations()[lane]
        return {
            "final_obs": observations,
            "_final_obs": lanes.copy(),
            "final_info": infos,
            "_final_info": lanes.copy(),
        }


# ---- defects, and the checks that find them ------------------------------------------------------


class NoMode(WalkVectorEnv):
    def __init__(self) -> None:
        super().__init__()
        self.metadata = {}


class ForgottenBatch(WalkVectorEnv):
    def __init__(self) -> None:
        super().__init__()
        self.action_space = self.single_action_space


class WrongDtype(WalkVectorEnv):
    def observations(self) -> Array:
        return super().observations().astype(np.float64)


class OutOfBounds(WalkVectorEnv):
    def observations(self) -> Array:
        return super().observations() + 1


class IntegerFlags(WalkVectorEnv):
    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        observations, rewards, terminations, truncations, infos = super().step(actions)
        return observations, rewards, terminations.astype(int), truncations, infos


class ListOfInfos(WalkVectorEnv):
    def infos(self, lanes: NDArray[np.bool_]) -> Any:
        return [{"place": place} for place in self.places]


class NoInfoMasks(WalkVectorEnv):
    def infos(self, lanes: NDArray[np.bool_]) -> dict[str, Any]:
        return {"place": self.places.copy()}


class BoolActionMask(WalkVectorEnv):
    def infos(self, lanes: NDArray[np.bool_]) -> dict[str, Any]:
        infos = super().infos(lanes)
        return infos | {"action_mask": infos["action_mask"].astype(bool)}


class ReusedBuffer(WalkVectorEnv):
    def observations(self) -> Array:
        self.buffer = getattr(self, "buffer", np.zeros((self.num_envs, 2), np.float32))
        self.buffer[:] = super().observations()
        return self.buffer


class HandsOutItsState(WalkVectorEnv):
    def infos(self, lanes: NDArray[np.bool_]) -> dict[str, Any]:
        self.places = self.places.copy()
        return super().infos(lanes) | {"place": self.places}


class SpoilsActions(WalkVectorEnv):
    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        actions -= 1
        return super().step(actions + 1)


class IgnoresSeeds(WalkVectorEnv):
    def seed_lanes(self, seed: int | list[int] | None, mask: NDArray[np.bool_]) -> None:
        pass


class AlwaysTheSameSeed(WalkVectorEnv):
    def seed_lanes(self, seed: int | list[int] | None, mask: NDArray[np.bool_]) -> None:
        super().seed_lanes(0 if isinstance(seed, int) else seed, mask)


class OneSeedForAllLanes(WalkVectorEnv):
    def seed_lanes(self, seed: int | list[int] | None, mask: NDArray[np.bool_]) -> None:
        super().seed_lanes([seed] * self.num_envs if isinstance(seed, int) else seed, mask)


class SeedsAgainWithoutSeed(WalkVectorEnv):
    last: Any = None

    def seed_lanes(self, seed: int | list[int] | None, mask: NDArray[np.bool_]) -> None:
        self.last = self.last if seed is None else seed
        super().seed_lanes(self.last, mask)


class SeededByItself(WalkVectorEnv):
    def __init__(self) -> None:
        super().__init__()
        self.generators = [np.random.default_rng(lane) for lane in range(self.num_envs)]


class FirstSeedOnly(WalkVectorEnv):
    is_seeded = False

    def seed_lanes(self, seed: int | list[int] | None, mask: NDArray[np.bool_]) -> None:
        if not self.is_seeded and seed is not None:
            self.is_seeded = True
            super().seed_lanes(seed, mask)


class SharedByAll(WalkVectorEnv):
    shared = [np.random.default_rng() for _ in range(3)]  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.generators = self.shared


class ResetsInTheSameStep(WalkVectorEnv):
    """A walk that declares NEXT_STEP, but resets in the step that ends an episode."""

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        self.waiting = self.nobody()
        _, rewards, terminations, truncations, infos = super().step(actions)
        self.begin(terminations)
        return self.observations(), rewards, terminations, truncations, infos


class RewardsTheReset(WalkVectorEnv):
    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        observations, _, terminations, truncations, infos = super().step(actions)
        return observations, self.places.astype(float), terminations, truncations, infos


class NeverResets(WalkVectorEnv):
    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        self.waiting = self.nobody()
        return super().step(actions)


class HeedsTheIgnoredAction(WalkVectorEnv):
    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        waiting = self.waiting
        _, rewards, terminations, truncations, infos = super().step(actions)
        self.places[waiting] = 1 + actions[waiting]
        return self.observations(), rewards, terminations, truncations, infos


class SeedsEveryEpisode(WalkVectorEnv):
    def begin(self, lanes: NDArray[np.bool_]) -> None:
        if self.waiting.any():
            for lane in np.flatnonzero(lanes):
                self.generators[lane] = np.random.default_rng(self.first[lane])
        super().begin(lanes)

    def seed_lanes(self, seed: int | list[int] | None, mask: NDArray[np.bool_]) -> None:
        super().seed_lanes(seed, mask)
        own = seed if isinstance(seed, int) else 0
        self.first = [own + lane for lane in range(self.num_envs)]


class PendingAfterReset(WalkVectorEnv):
    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        waiting = self.waiting.copy()
        result = super().reset(seed=seed, options=options)
        self.waiting = waiting
        return result


class SameStepWithoutFinals(WalkVectorEnv):
    def __init__(self) -> None:
        super().__init__(AutoresetMode.SAME_STEP)

    def finals(self, lanes: NDArray[np.bool_], infos: dict[str, Any]) -> dict[str, Any]:
        return {}


class SameStepWithoutTruth(WalkVectorEnv):
    """A walk whose mask of final observations is True everywhere."""

    def __init__(self) -> None:
        super().__init__(AutoresetMode.SAME_STEP)

    def finals(self, lanes: NDArray[np.bool_], infos: dict[str, Any]) -> dict[str, Any]:
        return super().finals(lanes, infos) | {"_final_obs": ~self.nobody()}


class FinalIsTheFirst(WalkVectorEnv):
    """A walk whose last step returns the final observation, not the next episode's first."""

    def __init__(self) -> None:
        super().__init__(AutoresetMode.SAME_STEP)

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        observations, rewards, terminations, truncations, infos = super().step(actions)
        for lane in np.flatnonzero(terminations):
            observations[lane] = infos["final_obs"][lane]
        return observations, rewards, terminations, truncations, infos


class FinalsWithNextStep(WalkVectorEnv):
    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        observations, rewards, terminations, truncations, infos = super().step(actions)
        if terminations.any():
            infos |= self.finals(terminations, {})
        return observations, rewards, terminations, truncations, infos


class IgnoresTheResetMask(WalkVectorEnv):
    def __init__(self) -> None:
        super().__init__(AutoresetMode.DISABLED)

    def lanes_to_reset(self, options: dict[str, Any]) -> NDArray[np.bool_]:
        return ~self.nobody()


class TakesAnyResetMask(WalkVectorEnv):
    def lanes_to_reset(self, options: dict[str, Any]) -> NDArray[np.bool_]:
        mask = np.zeros(self.num_envs, np.bool_)
        given = np.resize(options.get("reset_mask", True), self.num_envs)
        mask[:] = given.astype(bool)
        return mask


class ClosesOnce(WalkVectorEnv):
    def close(self, **kwargs: Any) -> None:
        if self.closed:
            raise RuntimeError("it is closed already")
        super().close(**kwargs)


class Stumbles(WalkVectorEnv):
    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        if self.waiting.any():
            raise ZeroDivisionError("a lane has ended")
        return super().step(actions)


# The class, the check that finds its defect, and words from the check's message.
WRONG: list[tuple[type[WalkVectorEnv], str, str]] = [
    (NoMode, "spaces", r"expected metadata\['autoreset_mode'\].*got None"),
    (ForgottenBatch, "spaces", r"expected action_space .*3 lanes.*got Discrete\(3\)"),
    (WrongDtype, "reset_returns", "dtype float64 instead of float32"),
    (OutOfBounds, "step_returns", r"is 9\.0, the bounds are 0\.0 and 8\.0"),
    (IntegerFlags, "step_returns", "expected terminations of dtype bool; got int64"),
    (ListOfInfos, "reset_returns", "expected infos as a dict; got list"),
    (NoInfoMasks, "infos", r"expected the mask '_place' next to infos\['place'\]"),
    (BoolActionMask, "action_mask", "expected .*int8.*got bool"),
    (ReusedBuffer, "data_not_reused", r"reset\(seed=0\) returned .*; step 1 changed them"),
    (HandsOutItsState, "data_is_the_users", "whether or not the user writes"),
    (SpoilsActions, "arguments_untouched", "expected the actions of step 1 to stay"),
    (IgnoresSeeds, "equal_seeds_agree", "expected two environments with seed 0 to agree"),
    (AlwaysTheSameSeed, "different_seeds_differ", r"from the seeds \[0, 4, 8, 12\]"),
    (OneSeedForAllLanes, "lanes_differ", "Do all lanes get the same seed?"),
    (SeedsAgainWithoutSeed, "unseeded_goes_on", "it repeated the run of seed s"),
    (SeededByItself, "unseeded_goes_on", "three runs were equal"),
    (FirstSeedOnly, "reseeding_starts_anew", "on a used environment"),
    (SharedByAll, "equal_seeds_agree", "regardless of a third environment"),
    (ResetsInTheSameStep, "autoreset", "expected reward 0"),
    (RewardsTheReset, "autoreset", r"lane \d, whose episode ended .*expected reward 0"),
    (NeverResets, "autoreset", "expected"),
    (HeedsTheIgnoredAction, "autoreset_ignores_the_action", "expected the action .*ignored"),
    (SeedsEveryEpisode, "autoreset_begins_new_episodes", "as if it were seeded again"),
    (PendingAfterReset, "reset_forgets_the_end", "is the autoreset still pending?"),
    (SameStepWithoutFinals, "autoreset", r"expected infos\['final_obs'\]"),
    (SameStepWithoutTruth, "autoreset", r"expected infos\['_final_obs'\] to be"),
    (FinalIsTheFirst, "autoreset_begins_new_episodes", "it was the final observation again"),
    (FinalsWithNextStep, "autoreset", "expected no final_obs and final_info"),
    (IgnoresTheResetMask, "reset_mask", r"expected lane \d to be as it was"),
    (TakesAnyResetMask, "bad_reset_masks_are_refused", "a list"),
    (ClosesOnce, "close", "RuntimeError: it is closed already"),
    (Stumbles, "step_returns", "ZeroDivisionError: a lane has ended"),
]
