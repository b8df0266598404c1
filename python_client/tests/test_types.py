"""The types of the public API. mypy checks this file, so these calls also test the annotations."""

import inspect
import typing
from types import ModuleType

import numpy as np
import pytest

import twofold
from twofold import (
    ceilings,
    datasets,
    evaluation,
    learning,
    policies,
    recordings,
    rules,
    testing,
)
from twofold.envs.concentration import ConcentrationVectorEnvArguments
from twofold.envs.game2048 import Game2048VectorEnvArguments
from twofold.games.rewards import Reward

MODULES = (twofold, ceilings, datasets, evaluation, learning, policies, recordings, rules, testing)


def test_a_seed_may_be_an_integer_of_numpy_or_a_list_of_integers() -> None:
    envs = twofold.Game2048VectorEnv(2, endpoint="embedded")
    expected, _ = envs.reset(seed=5)
    of_numpy: np.int64 = np.int64(5)
    each: list[int] = [5, 6]
    for observations, _ in (envs.reset(seed=of_numpy), envs.reset(seed=each)):
        assert (observations == expected).all()
    envs.close()


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_programs_can_read_the_annotations_of_public_functions(module: ModuleType) -> None:
    for name in module.__all__:
        value = getattr(module, name)
        for function in vars(value).values() if inspect.isclass(value) else [value]:
            if inspect.isfunction(function):
                typing.get_type_hints(function)


@pytest.mark.parametrize(
    "arguments", [Game2048VectorEnvArguments, ConcentrationVectorEnvArguments], ids=str
)
def test_programs_can_read_the_types_of_an_environments_arguments(arguments: type) -> None:
    assert typing.get_type_hints(arguments)["reward"] == Reward
