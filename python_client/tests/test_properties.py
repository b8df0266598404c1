"""Tests that all seeds and actions from users either work as documented or are refused."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from reference import Game

import twofold
from twofold import errors
from twofold.envs.seeding import board_seeds, consecutive

NUM_ENVS = 4

settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=50)
settings.load_profile("fixed")

SEEDS = st.integers(0, 2**64 - 1) | st.integers(0, 2**130)
NOT_SEEDS = st.integers(max_value=-1) | st.booleans() | st.floats() | st.text(max_size=3)


@pytest.fixture(scope="module")
def envs() -> Any:
    envs = twofold.Game2048VectorEnv(NUM_ENVS, endpoint="embedded")
    yield envs
    envs.close()


@given(seed=SEEDS, num_envs=st.integers(1, 300))
def test_consecutive_seeds_wrap_at_two_to_the_64(seed: int, num_envs: int) -> None:
    seeds = consecutive(seed, num_envs)
    assert seeds.dtype == np.uint64
    assert seeds.tolist() == [(seed + board) % 2**64 for board in range(num_envs)]


@given(seeds=st.lists(SEEDS | st.none(), min_size=NUM_ENVS, max_size=NUM_ENVS))
def test_listed_seeds_are_used_one_per_board(seeds: list[int | None]) -> None:
    numbers, are_given = board_seeds(seeds, NUM_ENVS)
    assert are_given.tolist() == [seed is not None for seed in seeds]
    assert numbers.tolist() == [(seed or 0) % 2**64 for seed in seeds]


@given(
    seeds=st.lists(SEEDS | st.none(), min_size=NUM_ENVS, max_size=NUM_ENVS),
    lane=st.integers(0, NUM_ENVS - 1),
    wrong=NOT_SEEDS,
)
def test_the_first_wrong_seed_in_a_list_is_named(seeds: list[Any], lane: int, wrong: Any) -> None:
    seeds[lane] = wrong
    with pytest.raises(errors.InvalidArgument) as caught:
        board_seeds(seeds, NUM_ENVS)
    assert (caught.value.field, caught.value.lane) == ("seed", lane)


@given(wrong=NOT_SEEDS | st.lists(SEEDS, max_size=9).filter(lambda seeds: len(seeds) != NUM_ENVS))
def test_a_wrong_seed_is_refused(wrong: Any) -> None:
    with pytest.raises(errors.InvalidArgument) as caught:
        board_seeds(wrong, NUM_ENVS)
    assert caught.value.field == "seed"


@given(
    actions=npst.arrays(
        npst.integer_dtypes(endianness="?") | npst.unsigned_integer_dtypes(endianness="?"),
        NUM_ENVS,
        elements=st.integers(0, 3),
    )
)
def test_actions_of_every_integer_dtype_and_byte_order_are_the_same(
    envs: Any, actions: Any
) -> None:
    envs.reset(seed=1)
    expected, *_ = envs.step([int(action) for action in actions])
    envs.reset(seed=1)
    np.testing.assert_array_equal(envs.step(actions)[0], expected)


@given(
    actions=npst.arrays(npst.integer_dtypes() | npst.unsigned_integer_dtypes(), NUM_ENVS).filter(
        lambda actions: any(not 0 <= int(action) <= 3 for action in actions)
    )
)
def test_the_first_action_out_of_range_is_named(envs: Any, actions: Any) -> None:
    envs.reset(seed=1)
    lane = next(i for i, action in enumerate(actions) if not 0 <= int(action) <= 3)
    with pytest.raises(errors.InvalidArgument) as caught:
        envs.step(actions)
    assert (caught.value.field, caught.value.lane) == ("actions", lane)
    assert str(int(actions[lane])) in str(caught.value)


@given(
    actions=npst.arrays(
        npst.floating_dtypes() | npst.boolean_dtypes() | npst.complex_number_dtypes(), NUM_ENVS
    )
)
def test_actions_that_are_not_integers_are_refused(envs: Any, actions: Any) -> None:
    with pytest.raises(errors.InvalidArgument, match="dtype"):
        envs.step(actions)


@given(shape=npst.array_shapes(max_dims=3, max_side=9).filter(lambda s: s != (NUM_ENVS,)))
def test_actions_of_another_shape_are_refused(envs: Any, shape: tuple[int, ...]) -> None:
    with pytest.raises(errors.InvalidArgument, match="shape"):
        envs.step(np.zeros(shape, np.int64))


@given(mask=npst.arrays(np.bool_, NUM_ENVS).filter(np.any), seed=st.integers(0, 2**32))
def test_a_masked_reset_changes_only_the_masked_boards(envs: Any, mask: Any, seed: int) -> None:
    envs.reset(seed=0)
    before, *_ = envs.step([0, 1, 2, 3])
    after, infos = envs.reset(seed=seed, options={"reset_mask": mask})
    for lane in range(NUM_ENVS):
        expected = Game(seed + lane).board if mask[lane] else tuple(before[lane].ravel().tolist())
        assert tuple(after[lane].ravel().tolist()) == expected
    assert infos["episode_length"].tolist() == (~mask).astype(int).tolist()
    assert infos["_score"].all(), "the boards that stay have infos too"


@given(boards=npst.arrays(np.uint8, (NUM_ENVS, 4, 4), elements=st.integers(0, 25)))
def test_given_boards_are_played_or_refused_with_their_lane(envs: Any, boards: Any) -> None:
    before, _ = envs.reset(seed=0)
    is_wrong = [board.max() > 20 or not legal_actions(board) for board in boards]
    if any(is_wrong):
        with pytest.raises(errors.InvalidArgument) as caught:
            envs.reset(options={"boards": boards})
        assert (caught.value.field, caught.value.lane) == ("boards", is_wrong.index(True))
        np.testing.assert_array_equal(envs.observe()[0], before)
    else:
        observations, infos = envs.reset(options={"boards": boards})
        np.testing.assert_array_equal(observations, boards)
        expected = [legal_actions(board) for board in boards]
        assert [np.flatnonzero(mask).tolist() for mask in infos["action_mask"]] == expected


def legal_actions(board: Any) -> list[int]:
    game = Game(0)
    game.board = tuple(board.ravel().tolist())
    return game.legal()
