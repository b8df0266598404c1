"""The forms of observations. The client converts the server's boards to the requested form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from twofold import _arguments
from twofold.errors import InvalidArgument
from twofold.games.encoding import FORMS, formed


@dataclass(frozen=True)
class ObservationForm:
    """The form of observations that `obs`, `observation_key` and `mask_key` request.

    Attributes:
        form: The form of boards, as for `formed`.
        keys: The keys of the observation and the mask in a dict; None for plain arrays.
        planes: The number of planes in the one-hot forms.
    """

    form: Literal["array", "one_hot", "one_hot_last", "flat"]
    keys: tuple[str, str] | None
    planes: int

    @classmethod
    def read(
        cls, obs: object, observation_key: object, mask_key: object, planes: int
    ) -> ObservationForm:
        """Returns the form that these arguments request; "dict" means "array" in a dict.

        Raises:
            InvalidArgument: An argument is invalid; `field` names it.
        """
        given = _arguments.choice("obs", obs, (*FORMS, "dict"))
        form: Any = "array" if given == "dict" else given
        if given != "dict" and mask_key is None:
            if observation_key is None:
                return cls(form, None, planes)
            raise InvalidArgument(
                f"observation_key is {observation_key!r}, which requires obs='dict' or a mask_key",
                field="observation_key",
            )
        first, second = (
            default if key is None else _arguments.text(name, key)
            for name, key, default in (
                ("observation_key", observation_key, "observation"),
                ("mask_key", mask_key, "action_mask"),
            )
        )
        if first == second:
            raise InvalidArgument(
                f"mask_key and observation_key are both {second!r}; expected different keys",
                field="mask_key",
            )
        return cls(form, (first, second), planes)

    def space(self, boards: gym.Space[Any], actions: int) -> gym.Space[Any]:
        """Returns the space of one observation, given a board's space and the number of actions.

        Raises:
            InvalidArgument: The form requires rows and columns, which the game's boards don't have.
        """
        space = self._form_space(boards)
        if self.keys is None:
            return space
        mask = gym.spaces.MultiBinary(actions)
        return gym.spaces.Dict(dict(zip(self.keys, (space, mask), strict=True)))

    def _form_space(self, boards: gym.Space[Any]) -> gym.Space[Any]:
        if self.form == "array":
            return boards
        assert isinstance(boards, gym.spaces.Box)
        if self.form == "flat":
            low, high = (
                bound.reshape(-1).astype(np.float32) for bound in (boards.low, boards.high)
            )
            return gym.spaces.Box(low, high, dtype=np.float32)
        if len(boards.shape) != 2:
            raise InvalidArgument(
                f"obs is {self.form!r}, which requires boards with rows and columns; observations "
                f"of shape {boards.shape} can be 'array', 'flat' or 'dict'",
                field="obs",
            )
        is_first = self.form == "one_hot"
        shape = (self.planes, *boards.shape) if is_first else (*boards.shape, self.planes)
        return gym.spaces.Box(0.0, 1.0, shape, np.float32)

    def observations(self, boards: NDArray[Any], mask: NDArray[Any], out: Any = None) -> Any:
        """Returns boards (K, …) and their action mask (K, actions) as observations.

        A mask in a dict is a copy, so writing to it does not change the mask in the infos. `out` is
        an earlier result of this method to overwrite.
        """
        if self.keys is None:
            return formed(boards, self.form, self.planes, out)
        key, mask_key = self.keys
        if out is None:
            return {key: formed(boards, self.form, self.planes), mask_key: mask.copy()}
        formed(boards, self.form, self.planes, out[key])
        np.copyto(out[mask_key], mask)
        return out
