"""The types of the public API. mypy checks this file, so these calls also test the annotations."""

import numpy as np

import twofold


def test_a_seed_may_be_an_integer_of_numpy_or_a_list_of_integers() -> None:
    envs = twofold.Game2048VectorEnv(2, endpoint="embedded")
    expected, _ = envs.reset(seed=5)
    of_numpy: np.int64 = np.int64(5)
    each: list[int] = [5, 6]
    for observations, _ in (envs.reset(seed=of_numpy), envs.reset(seed=each)):
        assert (observations == expected).all()
    envs.close()
