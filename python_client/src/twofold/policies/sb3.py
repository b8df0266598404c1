"""Policies from saved Stable-Baselines3 models."""

from __future__ import annotations

import contextlib
import json
import math
import pickle
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
from numpy.typing import NDArray

from twofold import _arguments
from twofold._optional import optional_import
from twofold.errors import InvalidArgument, NotFound
from twofold.games.encoding import one_hot
from twofold.policies.torch_policy import best_legal, network_card


class SB3Policy:
    """A policy that plays the best legal action of a Stable-Baselines3 model.

    The policy compares the model's logits or Q-values for the legal actions only, even if the
    model's algorithm does not support masks. Otherwise, the model could choose an illegal action
    again and again, and get stuck.

    Args:
        model: The loaded model.
        algorithm: The name of the model's class, which is also the policy's name in reports.
        normalize: The function that normalised observations in training, if any.
    """

    def __init__(
        self, model: Any, algorithm: str, normalize: Callable[[Any], Any] | None = None
    ) -> None:
        self._model, self._algorithm, self._normalize = model, algorithm, normalize
        self.__name__ = algorithm
        self.card = network_card(model.policy.parameters())

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        trust_pickle: bool = False,
        vec_normalize: str | Path | None = None,
    ) -> SB3Policy:
        """Loads the policy of a saved model.

        Args:
            path: The zip that the model's `save` wrote, with or without ".zip".
            trust_pickle: Whether to unpickle the file, which runs any code that the file contains.
            vec_normalize: The pickle that `VecNormalize.save` wrote, if observations were
                normalised in training. The model's file does not record whether they were.

        Raises:
            NotFound: A file does not exist.
            InvalidArgument: The file is not a model of a known algorithm, or not trusted; the other
                file is not a VecNormalize; or `trust_pickle` is not True or False.
            MissingDependency: Stable-Baselines3 is not installed.
            OSError: A file can't be read.
        """
        if not Path(path).suffix and not Path(path).is_file():
            path = f"{path}.zip"
        for file in (path, vec_normalize):
            if file is not None and not Path(file).is_file():
                raise NotFound(f"there is no file {str(file)!r}", field="policy")
        if not _arguments.boolean("trust_pickle", trust_pickle):
            raise InvalidArgument(
                f"{path} contains pickled objects, and loading them runs any code in them; if you "
                "trust its author, pass --trust-pickle (trust_pickle=True)",
                field="policy",
            )
        package, algorithm = algorithm_of(Path(path))
        module = optional_import(package, f"models of {algorithm}", "sb3")
        with _reading(path, algorithm, "policy"):
            model = getattr(module, algorithm).load(path, device="cpu")
        normalize = None
        if vec_normalize is not None:
            with _reading(vec_normalize, "VecNormalize", "vec_normalize"):
                normalize = pickle.loads(Path(vec_normalize).read_bytes()).normalize_obs
        return cls(model, algorithm, normalize)

    def __call__(self, observations: Any, action_mask: NDArray[Any]) -> NDArray[Any]:
        """Returns actions (K,) for observations (K, …) and action_mask (K, number of actions)."""
        import torch

        policy = self._model.policy
        policy.set_training_mode(False)  # for dropout and batch normalisation, as in `predict`
        fitted = fit_observations(observations, action_mask, self._model.observation_space)
        if self._normalize is not None:
            fitted = self._normalize(fitted)
        with torch.no_grad():
            tensor, _ = policy.obs_to_tensor(fitted)
            if self._algorithm == "DQN":
                values = policy.q_net(tensor)
            elif self._algorithm == "QRDQN":
                values = policy.quantile_net(tensor).mean(dim=1)
            else:
                values = policy.get_distribution(tensor).distribution.logits
        if values.shape[1] != action_mask.shape[1]:
            raise InvalidArgument(
                f"the model was trained on {values.shape[1]} actions; the environment has "
                f"{action_mask.shape[1]}",
                field="policy",
            )
        return best_legal(values.cpu().numpy(), action_mask)


@contextlib.contextmanager
def _reading(path: str | Path, kind: str, field: str) -> Iterator[None]:
    """Raises InvalidArgument if the body fails, except for errors of the system."""
    try:
        yield
    except (MemoryError, OSError):  # the file is not to blame
        raise
    except Exception as error:  # of the library, or of the model's own classes
        raise InvalidArgument(
            f"{path} cannot be loaded as {kind}: {type(error).__name__}: {error}", field=field
        ) from error


def algorithm_of(path: Path) -> tuple[str, str]:
    """Returns the package and the class of a saved model.

    The file contains neither name. This function infers them from the names of the model's
    settings, which are in JSON. It unpickles nothing.

    Raises:
        InvalidArgument: The file is not a model of a known algorithm.
        OSError: The file can't be read.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            if any(entry.header_offset < 0 for entry in archive.infolist()):
                raise zipfile.BadZipFile("an entry starts before the file")  # else an OSError
            settings = json.loads(archive.read("data"))
        names = set(settings)
        policy_class = str(settings.get("policy_class", "")).lower()
    except (MemoryError, OSError):  # the file is not to blame
        raise
    except Exception as error:  # zipfile, zlib and json each raise their own
        raise InvalidArgument(
            f"{path} is not a Stable-Baselines3 model ({type(error).__name__}: {error})",
            field="policy",
        ) from None
    if "recurrent" in policy_class:
        raise InvalidArgument(
            f"{path} is a RecurrentPPO model, which has a memory; write a policy with a method "
            "reset(lanes) that keeps the model's states",
            field="policy",
        )
    if "cg_max_steps" in names:
        return "sb3_contrib", "TRPO"
    if "clip_range" in names:
        is_maskable = "maskable" in policy_class
        return ("sb3_contrib", "MaskablePPO") if is_maskable else ("stable_baselines3", "PPO")
    if "exploration_fraction" in names:
        is_quantile = "qrdqn" in policy_class
        return ("sb3_contrib", "QRDQN") if is_quantile else ("stable_baselines3", "DQN")
    if {"gae_lambda", "n_steps"} <= names:
        return "stable_baselines3", "A2C"
    raise InvalidArgument(
        f"{path} was trained with an unknown algorithm; expected PPO, MaskablePPO, TRPO, A2C, "
        "DQN or QRDQN",
        field="policy",
    )


def fit_observations(observations: Any, action_mask: NDArray[Any], space: gym.Space[Any]) -> Any:
    """Converts observations (K, …) to the space that a model was trained on.

    Boards (K, rows, columns) are converted to flat arrays (K, cells), to one-hot arrays with the
    planes first or last, or to a dict of such arrays and the mask. Observations that already have
    the space's form stay unchanged.

    Raises:
        InvalidArgument: No form of the observations has the space's shape and bounds.
    """
    if isinstance(space, gym.spaces.Dict):
        if isinstance(observations, dict):
            return observations
        return {
            key: action_mask
            if isinstance(part, gym.spaces.MultiBinary)
            else fit_observations(observations, action_mask, part)
            for key, part in space.spaces.items()
        }
    if not isinstance(space, gym.spaces.Box) or isinstance(observations, dict):
        raise InvalidArgument(
            f"the model was trained on {space}; no form of the observations fits it",
            field="policy",
        )
    wanted, board = tuple(space.shape), observations.shape[1:]
    if wanted == board and observations.dtype == space.dtype:
        return observations
    if len(wanted) == 3 and wanted[1:] == board:
        fitted, highest = one_hot(observations, wanted[0], "chw"), [1]
    elif len(wanted) == 3 and wanted[:2] == board:
        fitted, highest = one_hot(observations, wanted[2], "hwc"), [1]
    elif wanted in (board, (math.prod(board),)):
        fitted = observations.reshape(-1, *wanted)
        # Exponents, or symbols and the last action in Concentration.
        highest = [31, *range(2, action_mask.shape[1] + 1)]
    else:
        raise InvalidArgument(
            f"the model was trained on observations of shape {wanted}; the environment's have "
            f"shape {board}, and their one-hot form does not fit either",
            field="policy",
        )
    low, high = float(space.low.min()), float(space.high.max())
    if low != 0 or high not in highest:
        games = " in 2048, and are symbols in Concentration" if len(highest) > 1 else ""
        raise InvalidArgument(
            f"the model was trained on observations of shape {wanted} with values from {low:g} to "
            f"{high:g}; Twofold's have values from 0 to {highest[0]}{games}. Write a function that "
            "scales them as in training",
            field="policy",
        )
    return fitted.astype(space.dtype)
