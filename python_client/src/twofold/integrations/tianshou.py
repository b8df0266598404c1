"""An adapter for Tianshou: a batch of boards as a `BaseVectorEnv`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twofold import _arguments
from twofold._optional import optional_import
from twofold.envs.results import Array, Stepped
from twofold.envs.seeding import Seed
from twofold.envs.vector import TwofoldVectorEnv
from twofold.errors import StepPending
from twofold.integrations import make_batch

_PURPOSE = "the boards of make_tianshou_vec"
_BaseVectorEnv: Any = optional_import("tianshou.env", _PURPOSE, "tianshou").BaseVectorEnv
_Batch: Any = optional_import("tianshou.data", _PURPOSE, "tianshou").Batch

Lanes: TypeAlias = int | list[int] | NDArray[np.integer[Any]] | None
"""The boards that a call applies to: one number, several numbers, or None for all boards."""
_OWN = {"autoreset_mode": "NextStep", "copy": True, "observation_key": "obs", "mask_key": "mask"}


def make_tianshou_vec(
    env_id: str = "twofold/Game2048-v0", n_envs: int = 1, *, obs: str = "one_hot", **arguments: Any
) -> TianshouVectorEnv:
    """Makes boards for Tianshou's collectors. One call steps all boards.

    Args:
        env_id: The environment's id.
        n_envs: The number of boards N.
        obs: The form of observations. The default is one-hot planes, because networks learn little
            from raw exponents.
        arguments: Other environment arguments, except `autoreset_mode`, `copy` and the observation
            keys, which the adapter sets. `max_episode_steps` defaults to the preset's limit or
            65,536, because an agent that ignores masks could repeat an illegal action forever and
            never end its episode. None removes the limit.

    Returns:
        The boards. Call `close()` after use.

    Raises:
        InvalidArgument: An argument is wrong; `field` names it.
        TransportError: No server answered.
    """
    return TianshouVectorEnv(make_batch(env_id, n_envs, _OWN, obs=obs, **arguments))


@dataclass
class _Begun:
    """A step that has not returned its results."""

    actions: NDArray[np.int64]
    """The actions of all boards, (N,)."""
    idle: NDArray[np.integer[Any]]
    """The boards that the step leaves unchanged."""
    blob: bytes
    """The idle boards before the step."""
    stepped: Stepped[Any, Any] | None = None
    """The results, before the idle boards are restored."""


class TianshouVectorEnv(_BaseVectorEnv):  # type: ignore[misc]  # mypy does not see the library
    """N boards as a Tianshou vector environment.

    A call for k boards returns observations as a `Batch` with `obs` (k, …) and `mask`, bool
    (k, actions), and infos as an array of k dicts with `env_id`. The collector resets boards whose
    episodes have ended.

    To step only some boards, `step` steps all boards, then restores the others from a snapshot.

    Args:
        envs: The boards, with NEXT_STEP autoreset and dict observations ("obs" and "mask").
    """

    def __init__(self, envs: TwofoldVectorEnv[Any, Any]) -> None:
        # Does not call the base class's __init__, which makes a worker for each environment.
        self.envs = envs
        self.env_num = envs.num_envs
        self.workers: list[Any] = []
        self.is_async = False
        self.is_closed = False
        self._begun: _Begun | None = None

    def reset(self, env_id: Lanes = None, *, seed: Seed = None) -> tuple[Any, Array]:
        """Starts new episodes on some boards, and returns their observations and infos.

        Args:
            env_id: The boards.
            seed: An integer seeds board i with seed + i; a list has a seed for every board. None
                continues the boards' random streams.
        """
        lanes = self._lanes(env_id)
        self._end_step()
        if lanes.size == self.env_num:
            observations, _ = self.envs.reset(seed=seed)
        else:
            mask = np.zeros(self.env_num, np.bool_)
            mask[lanes] = True
            observations, _ = self.envs.reset(seed=seed, options={"reset_mask": mask})
        return _rows(observations, lanes), _infos(lanes)

    def step(
        self,
        action: ArrayLike,
        id: Lanes = None,  # noqa: A002 - Tianshou's name
    ) -> tuple[Any, NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_], Array]:
        """Plays actions (k,) on k boards, and leaves the other boards unchanged.

        Returns:
            Observations, rewards float32 (k,), terminated and truncated bool (k,), and infos.

        Raises:
            InvalidArgument: An action is wrong, or a board is out of range.
            StepPending: The last step has no answer yet, and its actions or boards were different.
            PermissionDenied, ShuttingDown, TransportError: The service did not answer.
                Repeating the call is safe and does not play the step twice.
        """
        lanes = self._lanes(id)
        actions = np.zeros(self.env_num, np.int64)
        actions[lanes] = _arguments.integers("actions", action, lanes.shape)
        idle = np.setdiff1d(np.arange(self.env_num), lanes)
        begun = self._begun
        if begun is None:
            blob = self.envs.snapshot(idle) if idle.size else b""
            begun = self._begun = _Begun(actions, idle, blob)
        elif not (np.array_equal(actions, begun.actions) and np.array_equal(idle, begun.idle)):
            raise StepPending(
                "the last step got no answer or was interrupted: repeat it, which returns its "
                "result, or call reset(), which drops it"
            )
        if self.envs._episodes is not None:
            self.envs._episodes.counted = np.isin(np.arange(self.env_num), lanes)
        if begun.stepped is None:
            try:
                begun.stepped = self.envs.step(actions)
            except BaseException:
                if self.envs._session.unreturned_step is None:  # nothing was played
                    self._begun = None
                raise
        observations, rewards, terminated, truncated, _ = begun.stepped
        self._end_step()
        flags = terminated[lanes], truncated[lanes]
        return _rows(observations, lanes), rewards[lanes], *flags, _infos(lanes)

    def _end_step(self) -> None:
        """Restores the idle boards after a step; finishes the step if it has no answer yet."""
        if self._begun is not None and self._begun.idle.size:
            self.envs.restore(self._begun.blob, self._begun.idle)
        self._begun = None

    def seed(self, seed: int | list[int | None] | None = None) -> list[int | None]:
        """Starts new episodes and returns the seeds: seed + i for board i, or the given list."""
        self.reset(seed=seed)
        if isinstance(seed, list):
            return seed
        return [None if seed is None else seed + i for i in range(self.env_num)]

    def get_env_attr(self, key: str, id: Lanes = None) -> list[Any]:  # noqa: A002
        """Returns the batch's attribute, repeated for each board. Spaces are for a single board."""
        return list(self.envs.get_attr(key)[: self._lanes(id).size])

    def set_env_attr(self, key: str, value: Any, id: Lanes = None) -> None:  # noqa: A002
        """Raises AttributeError, because single boards have no attributes."""
        raise AttributeError(f"can't set {key!r}: the boards are one batch; use `.envs`")

    def render(self) -> list[Any]:
        """Returns pictures or texts of all boards, depending on the render mode."""
        return list(self.envs.render() or ())

    def close(self) -> None:
        """Ends the session."""
        self.envs.close()
        self.is_closed = True

    def _lanes(self, lanes: Lanes) -> NDArray[np.integer[Any]]:
        if lanes is None:
            return np.arange(self.env_num)
        return _arguments.lanes(np.atleast_1d(lanes), self.env_num).astype(np.intp)


def _rows(observations: dict[str, Array], lanes: NDArray[np.integer[Any]]) -> Any:
    return _Batch(obs=observations["obs"][lanes], mask=observations["mask"][lanes] != 0)


def _infos(lanes: NDArray[np.integer[Any]]) -> Array:
    """Returns an array with one info dict for each of these lanes."""
    return np.array([{"env_id": lane} for lane in lanes.tolist()])
