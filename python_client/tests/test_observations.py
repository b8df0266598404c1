"""Tests of the observation forms that the client makes: planes and flat vectors."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

import twofold
from twofold import errors
from twofold.games.encoding import one_hot

FORMS: dict[str, Callable[[NDArray[Any], int], NDArray[Any]]] = {
    "one_hot": lambda boards, planes: one_hot(boards, planes, "chw"),
    "one_hot_last": lambda boards, planes: one_hot(boards, planes, "hwc"),
    "flat": lambda boards, planes: boards.reshape(len(boards), -1).astype(np.float32),
}
GAMES: dict[type[Any], tuple[dict[str, Any], int]] = {
    twofold.Game2048VectorEnv: ({"size": (2, 3), "max_episode_steps": 9}, 8),
    twofold.ConcentrationVectorEnv: ({"size": (2, 4), "symbols": 2}, 4),
}
each_form = pytest.mark.parametrize("form", FORMS)
each_game = pytest.mark.parametrize("game", GAMES)


def pair(game: type[Any], form: str, **arguments: Any) -> tuple[Any, Any, int]:
    """Returns the same boards in this form and as plain boards, and the number of planes."""
    own, planes = GAMES[game]
    common = {"num_envs": 6, "endpoint": "embedded", **own, **arguments}
    return game(obs=form, **common), game(**{**common, "mask_key": None}), planes


def test_a_large_board_has_a_plane_for_each_exponent_up_to_31() -> None:
    for size, planes in ((5, 27), (6, 32), (8, 32)):
        envs = twofold.Game2048VectorEnv(1, size=size, obs="one_hot", endpoint="embedded")
        assert envs.single_observation_space.shape == (planes, size, size)
        envs.close()


@each_game
@each_form
@pytest.mark.parametrize(
    ("mode", "copy", "mask_key"),
    [
        (AutoresetMode.NEXT_STEP, True, None),
        (AutoresetMode.SAME_STEP, True, "mask"),
        (AutoresetMode.SAME_STEP, False, None),
        (AutoresetMode.DISABLED, False, "mask"),
    ],
)
def test_a_form_shows_the_boards_that_an_array_shows(
    game: type[Any], form: str, mode: AutoresetMode, copy: bool, mask_key: str | None
) -> None:
    envs, plain, planes = pair(game, form, autoreset_mode=mode, copy=copy, mask_key=mask_key)
    rng = np.random.default_rng(0)

    def same(observations: Any, boards: NDArray[np.uint8], mask: Any) -> None:
        assert observations in (envs.observation_space if len(boards) == 6 else gym.Space())
        if mask_key is not None:
            np.testing.assert_array_equal(observations["mask"], mask)
            observations = observations["observation"]
        assert observations.dtype == np.float32
        np.testing.assert_array_equal(observations, FORMS[form](boards, planes))

    observations, infos = envs.reset(seed=1)
    boards, _ = plain.reset(seed=1)
    ends = 0
    for _ in range(40):
        same(observations, boards, infos["action_mask"])
        actions = (rng.random(infos["action_mask"].shape) * infos["action_mask"]).argmax(axis=1)
        observations, _, terminations, truncations, infos = envs.step(actions)
        boards, *_, plain_infos = plain.step(actions)
        over = terminations | truncations
        ends += int(over.sum())
        for lane in np.flatnonzero(infos.get("_final_obs", [])):
            final = infos["final_obs"][lane]
            board = plain_infos["final_obs"][lane]
            assert final in envs.single_observation_space
            final = final if mask_key is None else final["observation"]
            np.testing.assert_array_equal(final, FORMS[form](board[np.newaxis], planes)[0])
        if mode is AutoresetMode.DISABLED and over.any():
            same(observations, boards, infos["action_mask"])
            observations, infos = envs.reset(options={"reset_mask": over})
            boards, _ = plain.reset(options={"reset_mask": over})
    assert ends > 6
    same(observations, boards, infos["action_mask"])
    envs.close()
    plain.close()


@each_form
def test_a_single_environment_has_the_forms(form: str) -> None:
    env = gym.make("twofold/Game2048-v0", endpoint="embedded", obs=form)
    check_env(env.unwrapped, skip_render_check=True)
    observation, _ = env.reset(seed=0)
    shape = {"one_hot": (18, 4, 4), "one_hot_last": (4, 4, 18), "flat": (16,)}[form]
    assert observation.shape == env.observation_space.shape == shape
    env.close()


def test_snapshots_forks_and_pictures_show_the_boards_and_not_their_form() -> None:
    envs, plain, planes = pair(
        twofold.Game2048VectorEnv, "one_hot", render_mode="ansi", autoreset_mode="disabled"
    )
    envs.reset(seed=3), plain.reset(seed=3)
    copies = envs.fork([0], copies=2)
    observations, _ = copies.observe()
    boards, _ = plain.observe()
    np.testing.assert_array_equal(observations, one_hot(boards[[0, 0]], planes))
    assert envs.render() == plain.render()
    restored, _ = envs.restore(plain.snapshot())
    np.testing.assert_array_equal(restored, one_hot(boards, planes))
    rollout = envs.rollout(3, policy="random")
    assert rollout.observations.dtype == np.uint8
    for each in (copies, envs, plain):
        each.close()


def test_an_exponent_above_all_planes_is_in_the_last_one() -> None:
    envs = twofold.Game2048VectorEnv(1, endpoint="embedded", obs="one_hot")
    given = np.zeros((1, 4, 4), np.uint8)
    given[0, 0] = 17, 18, 20, 1
    planes, _ = envs.reset(seed=0, options={"boards": given})
    assert planes[0].argmax(axis=0)[0].tolist() == [17, 17, 17, 1]
    assert planes in envs.observation_space
    envs.close()


@pytest.mark.parametrize("form", ["one_hot", "one_hot_last"])
@pytest.mark.parametrize("matched_cards", ["removed", "face_up"])
def test_every_symbol_of_a_large_table_has_a_plane(form: Any, matched_cards: Any) -> None:
    envs, twin = (
        twofold.ConcentrationVectorEnv(
            2, endpoint="embedded", size=(8, 16), matched_cards=matched_cards, obs=obs
        )
        for obs in (form, "array")
    )
    planes, _ = envs.reset(seed=1)
    boards, _ = twin.reset(seed=1)
    assert planes in envs.observation_space
    peek = [128, 128]
    planes, boards = envs.step(peek)[0], twin.step(peek)[0]
    assert len(np.unique(boards)) == 64
    np.testing.assert_array_equal(planes.argmax(axis=1 if form == "one_hot" else 3), boards)
    envs.close()
    twin.close()


def test_planes_need_rows_and_columns() -> None:
    with pytest.raises(errors.InvalidArgument, match="'array', 'flat' or 'dict'") as caught:
        twofold.ConcentrationVectorEnv(
            2, endpoint="embedded", obs="one_hot", observe_last_action=True
        )
    assert caught.value.field == "obs"


def test_a_policy_that_remembers_cards_requires_observations_of_cards() -> None:
    envs = twofold.ConcentrationVectorEnv(2, endpoint="embedded", obs="one_hot")
    with pytest.raises(errors.InvalidArgument) as caught:
        twofold.policies.PerfectMemory(envs)
    assert caught.value.field == "envs"
    envs.close()
