"""The forms of observations. The client converts the server's boards to the requested form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from twofold import _arguments
from twofold.errors import InvalidArgument
from twofold.games.encoding import one_hot

FORMS = ("array", "one_hot", "one_hot_last", "flat")


@dataclass(frozen=True)
class ObservationForm:
    """The form of observations that `obs`, `observation_key` and `mask_key` request.

    Attributes:
        form: "array" for unchanged boards, "one_hot" for float32 planes before a board's
            axes, "one_hot_last" for planes after them, or "flat" for float32 (cells,).
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
                f"of shape {boards.shape} can be 'array' or 'flat'",
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
            return self.of(boards, out)
        if out is None:
            return {self.keys[0]: self.of(boards), self.keys[1]: mask.copy()}
        self.of(boards, out[self.keys[0]])
        np.copyto(out[self.keys[1]], mask)
        return out

    def of(self, boards: NDArray[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Converts boards (K, …) to this form, (K, …), in `out` or in new memory.

        With "array", returns the boards themselves. The last one-hot plane also marks larger
        numbers, which occur only after a reset to given boards.
        """
        if self.form == "array":
            return boards
        if self.form == "flat":
            flat = boards.reshape(len(boards), -1)
            if out is None:
                return flat.astype(np.float32)
            np.copyto(out, flat)
            return out
        layout: Literal["chw", "hwc"] = "chw" if self.form == "one_hot" else "hwc"
        return one_hot(np.minimum(boards, self.planes - 1), self.planes, layout, out)
