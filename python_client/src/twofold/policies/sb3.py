"""Models of Stable-Baselines3 as policies."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from twofold._optional import optional_import
from twofold.envs.results import Array
from twofold.errors import InvalidArgument, NotFound
from twofold.games.encoding import one_hot
from twofold.policies.functions import NamedPolicy


class SB3Policy:
    """The best legal action of a Stable-Baselines3 model.

    Algorithms without masks would choose illegal actions and get stuck, so the policy compares the
    model's own values of the legal actions: the logits of its policy, or its Q-values.

    Args:
        model: The loaded model.
        algorithm: The name of its class.
    """

    def __init__(self, model: Any, algorithm: str) -> None:
        self._model, self._algorithm = model, algorithm
        parameters = model.policy.parameters()
        size = sum(parameter.numel() * parameter.element_size() for parameter in parameters)
        self.card: Mapping[str, Any] = {
            "search_max_layers": 0,
            "symmetry_averaging": False,
            "weights_mb": size / 1e6,
        }

    def __call__(self, observations: Any, action_mask: Array) -> Array:
        """Actions (K,) for observations (K, …) and action_mask (K, actions)."""
        import torch

        policy = self._model.policy
        fitted = fit_observations(observations, self._model.observation_space)
        with torch.no_grad():
            tensor, _ = policy.obs_to_tensor(fitted)
            if self._algorithm == "DQN":
                values = policy.q_net(tensor)
            elif self._algorithm == "QRDQN":
                values = policy.quantile_net(tensor).mean(dim=1)
            else:
                values = policy.get_distribution(tensor).distribution.logits
        values = values.cpu().numpy()
        return np.asarray(np.where(action_mask == 1, values, -np.inf).argmax(axis=1))


def load_model(path: Path, *, trust_pickle: bool) -> NamedPolicy:
    """The policy of a saved model; arguments and errors as for `lookup.load`."""
    if not path.is_file():
        raise NotFound(f"there is no file {str(path)!r}", field="policy")
    if not trust_pickle:
        raise InvalidArgument(
            f"{path} holds pickled objects, and loading them runs any code in them; if you trust "
            "its author, pass --trust-pickle",
            field="policy",
        )
    package, algorithm = algorithm_of(path)
    module = optional_import(package, f"models of {algorithm}", "sb3")
    try:
        model = getattr(module, algorithm).load(path, device="cpu")
    except Exception as error:
        raise InvalidArgument(
            f"{path} cannot be loaded as {algorithm}: {type(error).__name__}: {error}",
            field="policy",
        ) from error
    function = SB3Policy(model, algorithm)
    return NamedPolicy(f"{path.name} ({algorithm})", function.card, make=lambda envs: function)


def algorithm_of(path: Path) -> tuple[str, str]:
    """Package and class of a saved model.

    The file does not name them. They follow from the names of its settings, which are JSON; nothing
    is unpickled.

    Raises:
        InvalidArgument: The file is not a model of a known algorithm.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            settings = json.loads(archive.read("data"))
        names = set(settings)
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise InvalidArgument(
            f"{path} is not a model of Stable-Baselines3 ({type(error).__name__}: {error})",
            field="policy",
        ) from None
    policy_class = str(settings.get("policy_class", "")).lower()
    if "clip_range" in names:
        is_maskable = "maskable" in policy_class
        return ("sb3_contrib", "MaskablePPO") if is_maskable else ("stable_baselines3", "PPO")
    if "exploration_fraction" in names:
        is_quantile = "qrdqn" in policy_class
        return ("sb3_contrib", "QRDQN") if is_quantile else ("stable_baselines3", "DQN")
    if {"gae_lambda", "n_steps"} <= names:
        return "stable_baselines3", "A2C"
    raise InvalidArgument(
        f"{path} is a model of an unknown algorithm; known are PPO, MaskablePPO, A2C, DQN and "
        "QRDQN",
        field="policy",
    )


def fit_observations(observations: Any, space: gym.Space[Any]) -> Any:
    """Observations (K, …) in the form of the space that a model was trained on.

    Boards (K, rows, columns) also become flat (K, cells) or one-hot, channels first or last.

    Raises:
        ValueError: No such form has the space's shape.
    """
    if isinstance(observations, dict) or not space.shape:
        return observations
    wanted, board = tuple(space.shape), observations.shape[1:]
    if wanted == board:
        fitted = observations
    elif len(wanted) == 3 and wanted[1:] == board:
        fitted = one_hot(observations, planes=wanted[0], layout="chw")
    elif len(wanted) == 3 and wanted[:2] == board:
        fitted = one_hot(observations, planes=wanted[2], layout="hwc")
    elif wanted == (int(np.prod(board)),):
        fitted = observations.reshape(len(observations), -1)
    else:
        raise ValueError(
            f"the model was trained on observations of shape {wanted}; the environment's have "
            f"shape {board}, and their one-hot form does not fit either"
        )
    return fitted.astype(space.dtype)
