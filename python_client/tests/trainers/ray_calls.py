"""Evaluations and datasets on a Ray cluster, with the number of workers as an argument."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import twofold
from twofold.integrations.ray import RayExecutor


def evaluate(
    policy: Any,
    *,
    workers: int | None = None,
    ray_options: Mapping[str, Any] | None = None,
    **arguments: Any,
) -> twofold.Evaluation:
    """Evaluates a policy on the workers."""
    executor = RayExecutor(workers, ray_options)
    return twofold.evaluate(policy, executor=executor, **arguments)


def write_dataset(
    path: Path,
    policy: Any = "random",
    *,
    workers: int | None = None,
    ray_options: Mapping[str, Any] | None = None,
    **arguments: Any,
) -> int:
    """Writes a dataset of games that the workers play."""
    executor = RayExecutor(workers, ray_options)
    return twofold.datasets.write(path, policy, executor=executor, **arguments)
