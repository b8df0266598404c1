"""Policies from PyTorch networks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from twofold import _arguments
from twofold.errors import InvalidArgument
from twofold.games.encoding import FORMS, formed


class TorchPolicy:
    """A policy that plays the legal action with the highest value from a PyTorch network.

        policy = twofold.policies.TorchPolicy(net.eval(), obs="flat")
        print(twofold.evaluate(policy))

    Args:
        net: A module, or another function that maps a tensor of K observations to a value for each
            action, (K, actions): logits or Q-values. If it returns several results, the first one
            is used. Call `net.eval()` first: in training mode, dropout makes the scores random, and
            batch normalisation learns from the games.
        obs: The form of observations that the network was trained on: a value of the environment's
            argument `obs`. Boards are converted to this form; other observations stay unchanged.
        planes: The number of planes in the one-hot forms. 18 planes cover every reachable 4 x 4
            board of 2048.

    Raises:
        InvalidArgument: An argument is wrong; `field` names it.
    """

    def __init__(
        self,
        net: Callable[[Any], Any],
        obs: Literal["array", "one_hot", "one_hot_last", "flat"] = "one_hot",
        planes: int = 18,
    ) -> None:
        if not callable(net):
            raise _arguments.wrong("net", net, "a torch.nn.Module")
        self._net = net
        self._obs = _arguments.choice("obs", obs, FORMS)
        self._planes = _arguments.integer("planes", planes, 1, 256)
        self.__name__ = getattr(net, "__name__", type(net).__name__)
        self.card = network_card(self._parameters())

    def _parameters(self) -> list[Any]:
        """Returns the network's parameters; an empty list for a plain function."""
        parameters = getattr(self._net, "parameters", None)
        return [] if parameters is None else list(parameters())

    def __call__(self, observations: Any, action_mask: NDArray[Any]) -> NDArray[Any]:
        """Returns actions (K,) for observations (K, …) and action_mask (K, number of actions)."""
        import torch

        tensor = torch.from_numpy(self._formed(observations))
        for parameter in self._parameters()[:1]:
            tensor = tensor.to(parameter.device)
        with torch.no_grad():
            values = self._net(tensor)
        if isinstance(values, (tuple, list)):
            values = values[0]
        if tuple(values.shape) != action_mask.shape:
            raise InvalidArgument(
                f"net returned shape {tuple(values.shape)}; expected {action_mask.shape}, one "
                "value for each action",
                field="net",
            )
        return best_legal(values.float().cpu().numpy(), action_mask)

    def _formed(self, observations: Any) -> NDArray[Any]:
        """Converts observations (K, …) to the network's form."""
        if isinstance(observations, dict):
            raise InvalidArgument(
                "the observations are dicts; make the environment without obs='dict' or mask_key",
                field="observations",
            )
        boards = np.asarray(observations)
        is_board = boards.dtype == np.uint8
        return formed(boards, self._obs, self._planes) if is_board else boards


def network_card(parameters: Iterable[Any]) -> Mapping[str, Any]:
    """Returns the rule-card entries of a network with these PyTorch parameters."""
    size = sum(each.numel() * each.element_size() for each in parameters)
    return {"search_max_layers": 0, "symmetry_averaging": False, "weights_mb": size / 1e6}


def best_legal(values: NDArray[Any], action_mask: NDArray[Any]) -> NDArray[Any]:
    """Returns the legal action with the highest value in each row, (K,).

    Raises:
        InvalidArgument: The value of a legal action is NaN, which `argmax` would choose.
    """
    legal = np.where(action_mask == 1, values, -np.inf)
    is_wrong = np.isnan(legal).any(axis=1)
    if is_wrong.any():
        row = int(is_wrong.argmax())
        raise InvalidArgument(
            f"the network's values for row {row} are {values[row].tolist()}; expected numbers",
            field="net",
        )
    return np.asarray(legal.argmax(axis=1))
