"""Environments of Gymnasium are evaluated like Twofold's own, or refused by name."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from evaluations import FIRST_SEED, anything, first_legal
from gymnasium.wrappers.vector import DictInfoToList

import twofold
from twofold import errors


def falls_slowly(observations: Any, action_mask: Any) -> Any:
    return (observations[:, 2] > 0).astype(int)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_environments_of_gymnasium_are_evaluated(mode: Any) -> None:
    result = twofold.evaluate(
        falls_slowly, env="CartPole-v1", vectorization_mode=mode, episodes=9, num_envs=4
    )
    env, lengths = gym.make("CartPole-v1"), []
    for seed in range(FIRST_SEED, FIRST_SEED + 9):
        observation, _ = env.reset(seed=seed)
        steps, is_over = 0, False
        while not is_over:
            action = falls_slowly(observation[np.newaxis], None)[0]
            observation, _, terminated, truncated, _ = env.step(action)
            steps, is_over = steps + 1, terminated or truncated
        lengths.append(steps)
    env.close()
    assert len(set(lengths)) > 3
    assert result.lengths.tolist() == lengths
    assert result.scores.tolist() == lengths
    assert result.card["environment"] == "CartPole-v1"


def test_infos_of_only_some_lanes_belong_to_these_lanes() -> None:
    arguments: dict[str, Any] = {"size": 3, "endpoint": "embedded"}
    envs = gym.make_vec("twofold/Game2048-v0", 7, vectorization_mode="sync", **arguments)
    apart = twofold.evaluate(first_legal, env=envs, episodes=20)
    envs.close()
    together = twofold.evaluate(first_legal, episodes=20, **arguments)
    for name in ("scores", "moves", "lengths", "max_exponents"):
        np.testing.assert_array_equal(getattr(apart, name), getattr(together, name))


class Reporting(gym.Env[Any, Any]):
    """An environment with a reward of 1 for each of 5 to 7 steps, and infos in some of them."""

    observation_space, action_space = gym.spaces.Discrete(1), gym.spaces.Discrete(2)

    def __init__(self, is_reported: Callable[[int, bool], bool], name: str) -> None:
        self._is_reported, self._name = is_reported, name

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps, self._length = 0, int(self.np_random.integers(5, 8))
        return 0, self._infos()

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        return 0, 1.0, self._steps == self._length, False, self._infos()

    def _infos(self) -> dict[str, Any]:
        is_reported = self._is_reported(self._steps, self._steps == self._length)
        return {self._name: self._steps} if is_reported else {}


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("name", ["score", "moves", "max_exponent"])
@pytest.mark.parametrize(
    "is_reported",
    [
        lambda step, is_last: step == 0,
        lambda step, is_last: not is_last,
        lambda step, is_last: step < 7,
    ],
    ids=["in the reset", "before the last step", "in short games"],
)
def test_an_info_that_a_last_step_lacks_does_not_count(
    num_envs: int, name: str, is_reported: Callable[[int, bool], bool]
) -> None:
    envs = gym.vector.SyncVectorEnv([lambda: Reporting(is_reported, name)] * num_envs)
    result = twofold.evaluate(lambda observations, mask: mask.argmax(axis=1), env=envs, episodes=9)
    envs.close()
    assert len(set(result.lengths)) == 3
    np.testing.assert_array_equal(result.scores, result.lengths)
    np.testing.assert_array_equal(result.moves, result.lengths)
    assert result.max_exponents is None


def test_observations_may_be_tuples() -> None:
    def sticks(observations: Any, action_mask: Any) -> Any:
        own_sum, _, _ = observations
        return (own_sum < 17).astype(int)

    envs = gym.make_vec("Blackjack-v1", 5, vectorization_mode="sync")
    result = twofold.evaluate(sticks, env=envs, episodes=40)
    envs.close()
    assert set(result.scores) == {-1, 0, 1}


def test_an_environment_that_takes_one_seed_for_all_is_refused_by_name() -> None:
    with pytest.raises(
        errors.InvalidArgument,
        match=r"CartPoleVectorEnv refuses a list of seeds .*mode='sync'",
    ) as info:
        twofold.evaluate(anything, env="CartPole-v1", episodes=3)
    assert info.value.field == "env"


def test_an_environment_that_ignores_the_reset_mask_is_refused_by_name() -> None:
    class ResetsAll(gym.vector.SyncVectorEnv):
        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            return super().reset(seed=seed)

    envs = ResetsAll([lambda: gym.make("CartPole-v1")] * 4)
    with pytest.raises(errors.InvalidArgument, match=r"ResetsAll also resets .* excludes") as info:
        twofold.evaluate(anything, env=envs, episodes=9)
    assert info.value.field == "env"
    envs.close()


def test_an_environment_of_another_autoreset_is_refused_by_its_id_too() -> None:
    with pytest.raises(errors.InvalidArgument, match="NEXT_STEP"):
        twofold.evaluate(first_legal, episodes=3, autoreset_mode="same_step", endpoint="embedded")


def test_actions_have_the_dtype_of_the_action_space() -> None:
    """MountainCar subtracts 1 from its action, so an unsigned 0 would push to the right."""
    envs = gym.vector.SyncVectorEnv([lambda: gym.make("MountainCar-v0")] * 2)
    result = twofold.evaluate(lambda boards, _: np.zeros(len(boards), int), env=envs, episodes=3)
    assert result.scores.tolist() == [-200.0] * 3
    envs.close()


class Picky(gym.Env[Any, Any]):
    """An environment with one legal action of many in each step. Scores are multiples of 0.5."""

    observation_space = gym.spaces.Discrete(600)
    action_space = gym.spaces.Discrete(500)

    def __init__(self, start: int = 0) -> None:
        self.action_space = gym.spaces.Discrete(500, start=start)

    def _infos(self) -> dict[str, Any]:
        mask = np.zeros(500, np.int8)
        mask[300 + self._step] = 1
        return {"action_mask": mask, "score": self._step / 2}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._step, self._last = 0, 3 + int(self.np_random.integers(5))
        return 0, self._infos()

    def step(self, action: Any) -> Any:
        assert action == 300 + self._step, f"illegal action {action}"
        self._step += 1
        return self._step, 1.0, self._step == self._last, False, self._infos()


def test_lanes_that_wait_get_legal_actions_too_and_scores_keep_their_halves() -> None:
    envs = gym.vector.SyncVectorEnv([Picky] * 3)
    result = twofold.evaluate(lambda _, mask: mask.argmax(axis=1), env=envs, episodes=4)
    np.testing.assert_array_equal(result.scores, result.lengths / 2)
    envs.close()


class ReversedActions(gym.vector.VectorWrapper[Any, Any, Any]):
    """Numbers the actions backwards."""

    def reset(self, **arguments: Any) -> Any:
        observations, infos = self.env.reset(**arguments)
        return observations, infos | {"action_mask": infos["action_mask"][:, ::-1]}

    def step(self, actions: Any) -> Any:
        *results, infos = self.env.step(3 - actions)
        return *results, infos | {"action_mask": infos["action_mask"][:, ::-1]}


def test_a_game_whose_actions_a_wrapper_changed_has_no_recording() -> None:
    envs = ReversedActions(gym.make_vec("twofold/Game2048-v0", 4, endpoint="embedded"))
    result = twofold.evaluate(first_legal, env=envs, episodes=4, record=True)
    envs.close()
    with pytest.raises(errors.InvalidArgument, match="because a wrapper of env changed") as caught:
        result.recording("best")
    assert caught.value.field == "env"


def test_environments_that_can_not_be_evaluated_say_why() -> None:
    envs: Any = gym.vector.SyncVectorEnv([lambda: Picky(start=1)])
    with pytest.raises(errors.InvalidArgument, match="begin at 1"):
        twofold.evaluate(lambda _, mask: mask.argmax(axis=1), env=envs, episodes=1)
    envs.close()
    envs = gym.vector.SyncVectorEnv([lambda: gym.make("Pendulum-v1")])
    with pytest.raises(errors.InvalidArgument, match=r"action space is Box\(.*; expected Discrete"):
        twofold.evaluate(lambda boards, _: np.zeros(len(boards), int), env=envs, episodes=1)
    envs.close()
    envs = gym.vector.AsyncVectorEnv([lambda: gym.make("CartPole-v1")], shared_memory=False)
    with pytest.raises(errors.InvalidArgument, match="shared_memory"):
        twofold.evaluate(lambda boards, _: np.zeros(len(boards), int), env=envs, episodes=1)
    envs.close()
    envs = DictInfoToList(gym.make_vec("CartPole-v1", vectorization_mode="sync"))
    with pytest.raises(errors.InvalidArgument, match=r"infos as a list, .* omit .* DictInfoToList"):
        twofold.evaluate(lambda boards, _: np.zeros(len(boards), int), env=envs, episodes=1)
    envs.close()
