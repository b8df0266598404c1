"""An adapter for Stable-Baselines3: a batch of boards as a `VecEnv`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twofold._optional import optional_import
from twofold.envs.results import Array, infos_of, plain
from twofold.envs.vector import TwofoldVectorEnv
from twofold.errors import InvalidArgument
from twofold.games.rewards import extra_info_names
from twofold.integrations import make_batch

_PURPOSE = "the boards of make_sb3_vec"
_VecEnv: Any = optional_import("stable_baselines3.common.vec_env", _PURPOSE, "sb3").VecEnv
_Monitor: Any = optional_import("stable_baselines3.common.monitor", _PURPOSE, "sb3").Monitor


def make_sb3_vec(
    env_id: str = "twofold/Game2048-v0", n_envs: int = 1, *, obs: str = "one_hot", **arguments: Any
) -> SB3VecEnv:
    """Makes boards for Stable-Baselines3 and sb3-contrib. One call steps all boards.

    Args:
        env_id: The environment's id.
        n_envs: The number of boards N.
        obs: The form of observations. The default is one-hot planes, because networks learn little
            from raw exponents.
        arguments: Other environment arguments, except `autoreset_mode` and `copy`, which the
            adapter sets. `max_episode_steps` defaults to the preset's limit or 65,536, because an
            agent that ignores masks could repeat an illegal action forever and never end its
            episode. None removes the limit.

    Returns:
        The boards. Call `close()` after use.

    Raises:
        InvalidArgument: An argument is wrong; `field` names it.
        TransportError: No server answered.
    """
    extra_infos = extra_info_names(arguments.pop("extra_infos", ()))
    if "episode" not in extra_infos:
        extra_infos.append("episode")
    own = {"autoreset_mode": "SameStep", "copy": True}
    return SB3VecEnv(make_batch(env_id, n_envs, own, obs=obs, extra_infos=extra_infos, **arguments))


class SB3VecEnv(_VecEnv):  # type: ignore[misc]  # mypy does not see the library
    """N boards as a Stable-Baselines3 vector environment.

    `step` returns an info dict for each board. The dict is empty unless the board's episode has
    ended. Then it contains the episode's infos (`score` and so on), `terminal_observation`,
    `TimeLimit.truncated`, and `episode` with return, length and seconds in `Monitor`'s format.
    Therefore, `Monitor` and `VecMonitor` are not needed.

    Args:
        envs: The boards, with SAME_STEP autoreset and the info "episode".
    """

    def __init__(self, envs: TwofoldVectorEnv[Any, Any]) -> None:
        self.envs = envs
        self._masks: NDArray[np.int8] | None = None
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)
        self.metadata["render_fps"] = envs.metadata["render_fps"]  # for VecVideoRecorder

    def reset(self) -> Any:
        """Starts new episodes and returns the observations (N, …).

        Uses the seeds that `seed` set, and the options that `set_options` set. The option "board",
        uint8 (rows, columns), is the board from which an environment starts. A step that has not
        returned its results is finished first, and its results are dropped.

        Raises:
            InvalidArgument: An option is wrong; `field` names it.
            TransportError: The service did not answer.
        """
        self.envs.discard()
        observations, infos = self._reset_boards()
        self._masks = infos["action_mask"]
        self.reset_infos = [infos_of(infos, lane) for lane in range(self.num_envs)]
        self._reset_seeds()
        self._reset_options()
        return observations

    def _reset_boards(self) -> tuple[Any, Any]:
        seeds = self._seeds if any(seed is not None for seed in self._seeds) else None
        unknown = {name for options in self._options for name in options} - {"board"}
        if unknown:
            raise InvalidArgument(
                f"options contain {', '.join(map(repr, sorted(unknown)))}; expected only 'board'",
                field="options",
            )
        mask = np.array(["board" in options for options in self._options])
        if not mask.any():
            return self.envs.reset(seed=seeds)
        given = [options["board"] for options in self._options if options]
        boards = [options.get("board", given[0]) for options in self._options]
        if mask.all():
            return self.envs.reset(seed=seeds, options={"boards": boards})
        self.envs.reset(seed=seeds)
        return self.envs.reset(seed=seeds, options={"boards": boards, "reset_mask": mask})

    def step_async(self, actions: Array) -> None:
        """Begins a step with `actions`, (N,).

        Raises:
            gymnasium.error.AlreadyPendingCallError: A step is in progress, perhaps since a timeout
                or a KeyboardInterrupt. `step_wait` returns its results, and `reset` drops them.
        """
        self.envs.step_async(actions)

    def step_wait(self) -> tuple[Any, NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Returns observations (N, …), rewards float32 (N,), dones bool (N,), and N infos."""
        observations, rewards, terminations, truncations, infos = self.envs.step_wait()
        self._masks = infos["action_mask"]
        dones = terminations | truncations
        of_boards: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for lane in np.flatnonzero(dones).tolist():
            of_boards[lane] = {
                **infos_of(infos["final_info"], lane),
                "terminal_observation": infos["final_obs"][lane],
                "TimeLimit.truncated": bool(truncations[lane] & ~terminations[lane]),
                "episode": plain(infos_of(infos["episode"], lane)),
            }
        return observations, rewards, dones, of_boards

    def action_masks(self) -> NDArray[np.bool_]:
        """Returns the legal actions for the last observations, bool (N, actions)."""
        if self._masks is None:
            raise RuntimeError("action_masks() was called before reset(); call reset() first")
        return self._masks.astype(np.bool_)

    def close(self) -> None:
        """Ends the session."""
        self.envs.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Returns the batch's attribute, repeated for each board. Spaces are for a single board."""
        if attr_name == "action_masks":
            return [self.action_masks] * self._count(indices)
        of_all = self.envs.get_attr(attr_name)
        return [of_all[index] for index in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Raises AttributeError, because single boards have no attributes."""
        raise AttributeError(f"can't set {attr_name!r}: the boards are one batch; use `.envs`")

    def env_method(
        self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any
    ) -> list[Any]:
        """Calls `action_masks` or `render`, the only methods that single boards have."""
        methods = {"action_masks": self.action_masks, "render": self.envs.render}
        if method_name not in methods:
            raise AttributeError(
                f"single boards have no method {method_name!r}: they are one batch; use `.envs`"
            )
        of_all: Any = methods[method_name]()
        return [None if of_all is None else of_all[i] for i in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: type[Any], indices: Any = None) -> list[bool]:
        """Returns True if the class is `Monitor`, because infos already have Monitor's entries."""
        return [issubclass(wrapper_class, _Monitor)] * self._count(indices)

    def get_images(self) -> Sequence[Any]:
        """Returns pictures of all boards. Requires render_mode="rgb_array"."""
        return self.envs.render() or ()

    def _count(self, indices: Any) -> int:
        return len(list(self._get_indices(indices)))
