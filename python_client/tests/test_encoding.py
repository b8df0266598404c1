"""Observations as planes and as tile values, and seeds for several workers."""

from typing import Any

import numpy as np
import pytest

import twofold
from twofold import errors

BOARDS = np.random.default_rng(0).integers(0, 18, (5, 3, 2, 4)).astype(np.uint8)


def test_one_hot_has_a_plane_for_each_exponent() -> None:
    planes = twofold.one_hot(BOARDS)
    assert planes.shape == (5, 3, 18, 2, 4)
    assert planes.dtype == np.float32
    assert (planes.sum(axis=-3) == 1).all()
    np.testing.assert_array_equal(planes.argmax(axis=-3), BOARDS)
    last = twofold.one_hot(BOARDS, layout="hwc")
    np.testing.assert_array_equal(last, np.moveaxis(planes, -3, -1))


@pytest.mark.parametrize("dtype", [np.uint8, np.bool_, np.float64, np.int8])
def test_one_hot_writes_to_the_given_array(dtype: Any) -> None:
    out = np.full((2, 31, 4, 4), 9).astype(dtype)
    boards = np.full((2, 4, 4), 30)
    assert twofold.one_hot(boards, planes=31, out=out) is out
    np.testing.assert_array_equal(out[:, 30], 1)
    np.testing.assert_array_equal(out[:, :30], 0)


def test_one_hot_accepts_a_single_environments_board() -> None:
    with twofold.Game2048Env(endpoint="embedded") as env:
        observation, _ = env.reset(seed=0)
        assert twofold.one_hot(observation, planes=3).shape == (3, 4, 4)
        assert twofold.tile_values(observation).sum() in (4, 6, 8)


@pytest.mark.parametrize(
    ("field", "observations", "arguments"),
    [
        ("planes", BOARDS, {"planes": 17}),
        ("planes", BOARDS, {"planes": 0}),
        ("planes", BOARDS, {"planes": 257}),
        ("planes", np.full((2, 2), 32), {}),
        ("layout", BOARDS, {"layout": "nchw"}),
        ("out", BOARDS, {"out": np.empty((5, 3, 18, 4, 2))}),
        ("out", BOARDS, {"out": [0.0]}),
        ("out", BOARDS[0, 0], {"out": np.broadcast_to(0.0, (18, 2, 4))}),
        ("observations", BOARDS.astype(float), {}),
        ("observations", BOARDS[0, 0, 0], {}),
        ("observations", np.full((2, 2), 256), {}),
        ("observations", np.full((2, 2), -1), {}),
        ("observations", {"observation": BOARDS}, {}),
        ("observations", [[1, 2], [3]], {}),
    ],
)
def test_one_hot_refuses_exponents_without_a_plane(
    field: str, observations: Any, arguments: Any
) -> None:
    with pytest.raises(errors.InvalidArgument) as caught:
        twofold.one_hot(observations, **arguments)
    assert caught.value.field == field


def test_tile_values_are_powers_of_two_and_0_for_an_empty_cell() -> None:
    values = twofold.tile_values(np.arange(32, dtype=np.uint8))
    assert values.tolist() == [0, *(2**exponent for exponent in range(1, 32))]
    assert twofold.tile_values(3) == 8
    with pytest.raises(errors.InvalidArgument):
        twofold.tile_values(32)


@pytest.mark.parametrize("layout", ["chw", "hwc"])
def test_one_hot_writes_to_memory_with_gaps_and_of_any_dtype(layout: Any) -> None:
    boards = np.random.default_rng(0).integers(0, 5, (4, 2, 3))
    expected = twofold.one_hot(boards, 5, layout)
    for dtype in (np.uint8, np.bool_, np.float64):
        memory = np.full((8, *expected.shape[1:]), 9).astype(dtype)
        out = memory[::2]
        assert twofold.one_hot(boards, 5, layout, out) is out
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(memory[1::2], np.full_like(out, 9))


@pytest.mark.parametrize("observations", [[[-1, 3], [0, 0]], [[0, 3], [1, 300]]])
@pytest.mark.parametrize("convert", [twofold.one_hot, twofold.tile_values])
def test_one_wrong_exponent_among_others_is_refused(observations: Any, convert: Any) -> None:
    with pytest.raises(errors.InvalidArgument) as caught:
        convert(observations)
    assert caught.value.field == "observations"


def test_one_hot_has_up_to_256_planes_and_accepts_no_board() -> None:
    assert twofold.one_hot([[0, 255], [1, 2]], planes=256).argmax(axis=0).tolist() == [
        [0, 255],
        [1, 2],
    ]
    assert twofold.one_hot([[0, 0]], planes=1).tolist() == [[[1, 1]]]
    assert twofold.one_hot(np.zeros((0, 4, 4), np.uint8)).shape == (0, 18, 4, 4)
    assert twofold.tile_values(np.zeros((0, 4), np.uint8)).shape == (0, 4)


# ---- seeds ---------------------------------------------------------------------------------------


def test_the_workers_together_play_one_large_environment() -> None:
    large = twofold.Game2048VectorEnv(6, endpoint="embedded")
    small = twofold.Game2048VectorEnv(2, endpoint="embedded")
    expected, _ = large.reset(seed=1234)
    for worker in range(3):
        observations, _ = small.reset(seed=twofold.worker_seeds(1234, 2, rank=worker))
        np.testing.assert_array_equal(observations, expected[2 * worker : 2 * worker + 2])
    large.close()
    small.close()


def test_evaluation_seeds_differ_from_all_training_seeds() -> None:
    training = twofold.worker_seeds(2**63 - 64 * 10, 64, rank=9)
    assert training.dtype == np.uint64
    assert int(training[-1]) == 2**63 - 1
    evaluation = twofold.worker_seeds(0, 64, evaluation=True)
    assert evaluation.tolist() == list(range(2**63, 2**63 + 64))
    assert int(twofold.worker_seeds(2**63 - 64, 64, evaluation=True)[-1]) == 2**64 - 1


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("seed", {"seed": -1, "num_envs": 4}),
        ("seed", {"seed": 1.0, "num_envs": 4}),
        ("seed", {"seed": 2**63 - 4, "num_envs": 4, "rank": 1}),
        ("num_envs", {"seed": 0, "num_envs": 0}),
        ("num_envs", {"seed": 0, "num_envs": 2**62}),
        ("rank", {"seed": 0, "num_envs": 4, "rank": -1}),
        ("rank", {"seed": 0, "num_envs": 4, "rank": 2**62}),
        ("evaluation", {"seed": 0, "num_envs": 4, "evaluation": 1}),
    ],
)
def test_wrong_arguments_of_seeds_are_refused(field: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidArgument) as caught:
        twofold.worker_seeds(**arguments)
    assert caught.value.field == field
