"""Policies to evaluate: functions, names of them, and what stands behind a name."""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import ArrayLike, NDArray

from twofold import _arguments
from twofold.envs import served_policies
from twofold.envs.results import Array
from twofold.errors import InvalidArgument, MissingDependency, NotFound, PolicyError
from twofold.evaluation.rule_card import depth_names
from twofold.games.encoding import one_hot
from twofold.policies.perfect_memory import PerfectMemory


class PolicyFunction(Protocol):
    """What chooses actions: a function, or an object that can be called like one.

    It may have a `card`, a mapping for the rule card of `evaluate`, and a `reset` where it has a
    memory: `PolicyWithMemory`.
    """

    def __call__(self, observations: Any, action_mask: NDArray[np.int8], /) -> ArrayLike:
        """Chooses an action on each of K boards.

        Args:
            observations: (K, …), as the environment gives them.
            action_mask: (K, actions), 1 where an action is legal.

        Returns:
            Legal actions, integers (K,).
        """
        ...


@runtime_checkable
class PolicyWithMemory(PolicyFunction, Protocol):
    """A policy that remembers something of each game, such as `PerfectMemory`.

    It is told which boards begin an episode, and always gets all N boards in the same order, so
    that row i is the same board each time. What it returns for boards that are not being played is
    not looked at.
    """

    def reset(self, lanes: NDArray[np.bool_], /) -> object:
        """Forgets some boards: a new episode begins there, and the next observation is its first.

        Args:
            lanes: (N,), true for these boards; called before the first action too.
        """
        ...


@dataclass(frozen=True)
class Policy:
    """A function (observations, action_mask) -> actions, its name and its entries of the card.

    Or what makes that function for an environment; or a policy that runs in the server, which is
    taken where the environment can.
    """

    name: str
    function: PolicyFunction | None
    card: Mapping[str, Any] = field(default_factory=dict)
    in_server: served_policies.Policy | None = None
    make: Callable[[VectorEnv[Any, Any, Any]], PolicyFunction] | None = None

    def for_env(self, envs: VectorEnv[Any, Any, Any]) -> Policy:
        """The same with its function made for this environment.

        Raises:
            InvalidArgument: It plays another game.
        """
        return self if self.make is None else replace(self, function=self.make(envs), make=None)


PolicyLike: TypeAlias = "PolicyFunction | served_policies.Policy | str | Policy"


def resolve(policy: object, name: str | None = None) -> Policy:
    """The policy that is meant: a function, one of `twofold.policies`, or a name.

    Raises:
        InvalidArgument: None of these.
    """
    if isinstance(policy, Policy):
        return policy
    if isinstance(policy, str):
        found = _named(policy)
        if found is None:
            raise InvalidArgument(
                f"policy is {policy!r}; expected a function, one of twofold.policies, or "
                f"{', '.join(map(repr, NAMES))}",
                field="policy",
            )
        return replace(found, name=name or found.name)
    if isinstance(policy, _IN_SERVER):
        told, card = _describe(policy)
        return Policy(name or told, None, card, policy)
    if not callable(policy) or isinstance(policy, type):
        raise InvalidArgument(
            f"policy is {policy!r}; expected a function (observations, action_mask) -> actions",
            field="policy",
        )
    own_name = getattr(policy, "__name__", type(policy).__name__)
    own_card = getattr(policy, "card", {})
    if not isinstance(own_card, Mapping):
        raise InvalidArgument(
            f"the policy's card is {type(own_card).__name__}; expected a mapping", field="policy"
        )
    return Policy(name or own_name, policy, own_card)


def card(policy: Policy, more: Mapping[str, Any] | None) -> dict[str, Any]:
    """The policy's lines of the rule card.

    Raises:
        InvalidArgument: An entry is unknown, or of the wrong type.
    """
    entries = {**policy.card, **(more or {})}
    known = {"search_max_layers", "symmetry_averaging", "weights_mb", "threads"}
    unknown = sorted(set(entries) - known)
    if unknown:
        raise InvalidArgument(
            f"unknown entries {unknown} of the card; known are {sorted(known)}", field="card"
        )
    layers = entries.get("search_max_layers")
    if layers is not None:
        layers = _arguments.integer("card['search_max_layers']", layers, 0)
    averaging = entries.get("symmetry_averaging")
    if averaging is not None:
        averaging = _arguments.boolean("card['symmetry_averaging']", averaging)
    weights = entries.get("weights_mb")
    if weights is not None:
        weights = _arguments.real("card['weights_mb']", weights, 0, 1e12, "megabytes")
    threads = entries.get("threads")
    if threads is not None:
        threads = _arguments.integer("card['threads']", threads, 1)
    return {
        "policy": policy.name,
        "search depth": depth_names(layers),
        "symmetry averaging": {None: "not told", True: "yes", False: "no"}[averaging],
        "weights, MB": "not told" if weights is None else weights,
        "threads": "not told" if threads is None else threads,
    }


# ---- asking one ----------------------------------------------------------------------------------


class Caller:
    """Asks a policy for actions, and trusts nothing that it returns.

    Args:
        policy: The policy.
        envs: Whose actions it chooses.
        timeout: Seconds that one call may take.

    Attributes:
        num_actions: Actions of the environment.
        calls: How many calls there were.
        seconds: How long they took together.
    """

    def __init__(self, policy: Policy, envs: VectorEnv[Any, Any, Any], timeout: float) -> None:
        space = envs.single_action_space
        if not isinstance(space, gym.spaces.Discrete):
            raise InvalidArgument("env has other actions than Discrete ones", field="env")
        if space.start != 0:
            raise InvalidArgument(
                f"env's actions begin at {space.start}; evaluation needs them from 0 on",
                field="env",
            )
        self.num_actions = int(space.n)
        self._dtype = space.dtype
        self.calls = 0
        self.seconds = 0.0
        if policy.function is None:
            raise InvalidArgument(f"the policy {policy.name} runs in the server", field="policy")
        self._policy, self._function, self._timeout = policy, policy.function, timeout
        self._memory = policy.function if isinstance(policy.function, PolicyWithMemory) else None

    def reset(self, lanes: NDArray[np.bool_]) -> None:
        """Tells a policy with a memory that these lanes, (N,), begin an episode.

        Raises:
            PolicyError: It raised.
        """
        if self._memory is None:
            return
        start = time.perf_counter()
        try:
            self._memory.reset(lanes.copy())
        except Exception as error:
            text = f"reset raised {type(error).__name__}: {error}"
            raise self._error(f"{text}{_source(error)}") from error
        self.seconds += time.perf_counter() - start

    def __call__(
        self,
        observations: Any,
        mask: Array,
        playing: NDArray[np.bool_],
        place: Callable[[int], Mapping[str, int]],
    ) -> Array:
        """The policy's actions (N,), of the action space's dtype; any on lanes that are not played.

        Args:
            observations: (N, …)
            mask: int8 (N, actions)
            playing: bool (N,), whose actions are wanted.
            place: What there is to tell about a lane: episode, seed, time.

        Raises:
            PolicyError: It raised, took too long, or returned what is no array of legal actions.
        """
        lanes, all_masks = np.arange(len(mask)), mask
        if self._memory is None and not playing.all():
            lanes = np.flatnonzero(playing)
            observations, mask = rows(observations, lanes), mask[lanes]
        start = time.perf_counter()
        try:
            # A copy: what is legal must not depend on what the policy does to its arguments.
            returned = self._function(observations, mask.copy())
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            raise self._error(f"raised {text}{_source(error)}") from error
        seconds = time.perf_counter() - start
        self.seconds += seconds
        if seconds > self._timeout:
            raise self._error(
                f"took {seconds:.3g} s for {len(mask)} boards; policy_timeout is "
                f"{self._timeout:.3g} s"
            )
        try:
            actions = np.asarray(returned)
        except Exception as error:
            raise self._error(f"returned {type(returned).__name__}, which is no array") from error
        if actions.dtype.kind not in "iu" or actions.shape != (len(mask),):
            raise self._error(
                f"returned {actions.dtype} of shape {actions.shape}; expected integers of shape "
                f"({len(mask)},)"
            )
        is_asked = playing[lanes]
        is_bad = ((actions < 0) | (actions >= self.num_actions)) & is_asked
        if not is_bad.any():
            # On the others a legal one, for environments that take no other.
            actions = np.where(is_asked, actions, mask.argmax(axis=1)).astype(self._dtype)
            places = np.arange(0, mask.size, self.num_actions) + actions
            is_bad = (mask.ravel()[places] == 0) & is_asked
        if is_bad.any():
            row = int(is_bad.argmax())
            action, legal = int(actions[row]), np.flatnonzero(mask[row]).tolist()
            where = place(int(lanes[row]))
            named = ", ".join(f"{key} {value}" for key, value in where.items())
            raise self._error(
                f"chose action {action}, legal are {legal}, in row {row} ({named}); the "
                f"observation:\n{rows(observations, row)}",
                row=row,
                episode=where.get("episode"),
                seed=where.get("seed"),
            )
        self.calls += 1
        if len(lanes) == len(playing):
            return actions
        of_all: Array = all_masks.argmax(axis=1).astype(self._dtype)
        of_all[lanes] = actions
        return of_all

    def _error(self, problem: str, **place: int | None) -> PolicyError:
        name = self._policy.name
        text = f"policy {name!r}, call {self.calls}: {problem}"
        return PolicyError(text, policy=name, call=self.calls, **place)


def rows(observations: Any, which: Any) -> Any:
    """Some rows of a batch of observations, be it an array, or a dict or a tuple of them."""
    if isinstance(observations, dict):
        return {key: rows(value, which) for key, value in observations.items()}
    if isinstance(observations, tuple):
        return tuple(rows(value, which) for value in observations)
    return observations[which]


def _source(error: BaseException) -> str:
    """Where the policy's own code was when it raised."""
    at, last = error.__traceback__, None
    while at is not None:
        if at.tb_frame.f_code.co_filename != __file__:
            last = at
        at = at.tb_next
    if last is None:
        return ""
    code = last.tb_frame.f_code
    return f" ({code.co_filename}:{last.tb_lineno} in {code.co_name})"


# ---- built in ------------------------------------------------------------------------------------


class RandomPolicy:
    """Legal actions, all alike, from a numpy generator of its own.

    Args:
        seed: Of the generator.
    """

    card: Mapping[str, Any] = {
        "search_max_layers": 0,
        "symmetry_averaging": False,
        "weights_mb": 0.0,
        "threads": 1,
    }

    def __init__(self, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)

    def __call__(self, observations: Any, action_mask: Array) -> Array:
        """Actions (K,) for action_mask (K, actions)."""
        if action_mask.shape[1] != 4:
            chances = self._rng.random(action_mask.shape, np.float32) * action_mask
            return np.asarray(chances.argmax(axis=1))
        # The number of legal actions, 1 ... 4, divides 12: a draw of 12 picks each alike.
        draws = self._rng.integers(0, 12, len(action_mask), np.uint8)
        masks = action_mask @ np.array([1, 2, 4, 8], np.int8)
        return np.asarray(_PICKS[masks, draws])


def _picks() -> Array:
    """uint8 (16, 12): for each mask, as bits, and each draw, the action."""
    table = np.zeros((16, 12), np.uint8)
    for mask in range(1, 16):
        legal = [action for action in range(4) if mask >> action & 1]
        table[mask] = [legal[draw * len(legal) // 12] for draw in range(12)]
    return table


_PICKS = _picks()

_IN_SERVER = (
    served_policies.Random,
    served_policies.Greedy,
    served_policies.Expectimax,
    served_policies.NTuple,
)

NAMES = (
    "random",
    "greedy",
    "expectimax",
    "expectimax:DEPTH",
    "ntuple:FILE.npz",
    "perfect-memory",
)


def _named(text: str) -> Policy | None:
    """The policy of a name; None where the word is no such name."""
    kind, colon, rest = text.partition(":")
    if text == "random":
        function = RandomPolicy()
        return Policy(text, function, function.card, served_policies.Random())
    if text == "greedy":
        return resolve(served_policies.Greedy())
    if text == "expectimax":
        return resolve(served_policies.Expectimax())
    if text == "perfect-memory":
        return Policy(text, None, PerfectMemory.card, make=PerfectMemory)
    if kind == "expectimax" and colon:
        if not rest.isdecimal():
            raise InvalidArgument(
                f"policy is {text!r}; expected a depth, such as expectimax:3", field="policy"
            )
        return resolve(served_policies.Expectimax(depth=int(rest)))
    if kind == "ntuple" and colon:
        return resolve(served_policies.NTuple.load(rest), f"ntuple ({Path(rest).name})")
    return None


def _describe(policy: served_policies.Policy) -> tuple[str, dict[str, Any]]:
    """Name and card of a policy that runs in the server."""
    card: dict[str, Any] = {"search_max_layers": 0, "symmetry_averaging": False, "weights_mb": 0.0}
    if isinstance(policy, served_policies.Expectimax):
        name = f"expectimax, depth {policy.depth}"
        if policy.extension:
            name += f" and one more at {policy.extension} empty cells or fewer"
        return name, card | {"search_max_layers": policy.depth}
    if isinstance(policy, served_policies.NTuple):
        size = sum(table.nbytes for table in policy.weights) / 1e6
        told = {"search_max_layers": 1, "symmetry_averaging": policy.symmetric, "weights_mb": size}
        return "ntuple", told
    if isinstance(policy, served_policies.Greedy):
        return "greedy", card | {"search_max_layers": 1}
    return "random", card


# ---- from the command line -----------------------------------------------------------------------


def load(text: str, *, trust_pickle: bool = False) -> Policy:
    """The policy that a word on the command line means.

    Args:
        text: One of NAMES; "module:function", "path/file.py:function"; or "model.zip" of
            Stable-Baselines3.
        trust_pickle: Whether a zip may be opened: unpickling runs whatever its author put there.

    Raises:
        InvalidArgument, NotFound: There is no such policy; the text says what was looked for.
        MissingDependency: Stable-Baselines3 is not installed.
    """
    found = _named(text)
    if found is not None:
        return found
    if text.endswith(".zip"):
        return _load_sb3(Path(text), trust_pickle)
    if ":" in text:
        return _load_function(text)
    known = ", ".join(NAMES)
    raise InvalidArgument(
        f"policy {text!r} is unknown; expected {known}, module:function, file.py:function or "
        "model.zip",
        field="policy",
    )


def _load_function(text: str) -> Policy:
    module_name, _, path = text.rpartition(":")
    try:
        module = _import(module_name)
    except NotFound:
        raise
    except Exception as error:
        raise InvalidArgument(
            f"importing {module_name!r} raised {type(error).__name__}: {error}", field="policy"
        ) from error
    found: Any = module
    for part in path.split("."):
        if not hasattr(found, part):
            raise NotFound(f"{module_name!r} has no {path!r}", field="policy")
        found = getattr(found, part)
    return resolve(found, text)


def _import(name: str) -> Any:
    if not name.endswith(".py"):
        if "" not in sys.path:
            sys.path.insert(0, "")  # as `python -m` has it: what lies in the current folder
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
                raise
            raise NotFound(f"there is no module {name!r}", field="policy") from None
    path = Path(name)
    if not path.is_file():
        raise NotFound(f"there is no file {name!r}", field="policy")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)  # dataclasses look for their module there
    spec.loader.exec_module(module)
    return module


# ---- Stable-Baselines3 ---------------------------------------------------------------------------


def _load_sb3(path: Path, trust_pickle: bool) -> Policy:
    if not path.is_file():
        raise NotFound(f"there is no file {str(path)!r}", field="policy")
    if not trust_pickle:
        raise InvalidArgument(
            f"{path} holds pickled objects, and loading them runs whatever code is in them; if you "
            "trust its author, say --trust-pickle",
            field="policy",
        )
    algorithm = _sb3_algorithm(path)
    package, name = algorithm
    try:
        cls = getattr(importlib.import_module(package), name)
    except ImportError:
        raise MissingDependency(
            f"{path} is a model of {package}, which is not installed: pip install "
            f"{package.replace('_', '-')}"
        ) from None
    try:
        model = cls.load(path, device="cpu")
    except Exception as error:
        raise InvalidArgument(
            f"{path} cannot be loaded as {name}: {type(error).__name__}: {error}", field="policy"
        ) from error
    function = SB3Policy(model, name)
    return Policy(f"{path.name} ({name})", function, function.card)


def _sb3_algorithm(path: Path) -> tuple[str, str]:
    """Package and class of a saved model; the file itself does not name them.

    Told by the names of its settings, which are JSON: nothing is unpickled here.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            settings = json.loads(archive.read("data"))
        names = set(settings)
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise InvalidArgument(
            f"{path} is no model of Stable-Baselines3 ({type(error).__name__}: {error})",
            field="policy",
        ) from None
    if "clip_range" in names:
        is_maskable = "maskable" in str(settings.get("policy_class", "")).lower()
        return ("sb3_contrib", "MaskablePPO") if is_maskable else ("stable_baselines3", "PPO")
    if "exploration_fraction" in names:
        is_quantile = "qrdqn" in str(settings.get("policy_class", "")).lower()
        return ("sb3_contrib", "QRDQN") if is_quantile else ("stable_baselines3", "DQN")
    if {"gae_lambda", "n_steps"} <= names:
        return "stable_baselines3", "A2C"
    raise InvalidArgument(
        f"{path} is a model of an algorithm that is not known here; known are PPO, MaskablePPO, "
        "A2C, DQN and QRDQN",
        field="policy",
    )


class SB3Policy:
    """A Stable-Baselines3 model's best legal action.

    Algorithms without masks would choose illegal actions and be stuck; so the model's own figure
    for each action (the logits of its policy, or its Q-values) is compared among the legal ones.

    Args:
        model: The loaded model.
        name: Its algorithm.
    """

    def __init__(self, model: Any, name: str) -> None:
        self._model, self._name = model, name
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
        with torch.no_grad():
            tensor, _ = policy.obs_to_tensor(self._fit(observations))
            if self._name == "DQN":
                figures = policy.q_net(tensor)
            elif self._name == "QRDQN":
                figures = policy.quantile_net(tensor).mean(dim=1)
            else:
                figures = policy.get_distribution(tensor).distribution.logits
        figures = figures.cpu().numpy()
        return np.asarray(np.where(action_mask == 1, figures, -np.inf).argmax(axis=1))

    def _fit(self, observations: Any) -> Any:
        """The observations in the form that the model was trained on."""
        space = self._model.observation_space
        if isinstance(observations, dict) or not hasattr(space, "shape") or not space.shape:
            return observations
        wanted, board = tuple(space.shape), observations.shape[1:]
        if wanted == board:
            return observations.astype(space.dtype)
        if len(wanted) == 3 and wanted[1:] == board:
            return one_hot(observations, planes=wanted[0], layout="chw").astype(space.dtype)
        if len(wanted) == 3 and wanted[:2] == board:
            return one_hot(observations, planes=wanted[2], layout="hwc").astype(space.dtype)
        if wanted == (int(np.prod(board)),):
            return observations.reshape(len(observations), -1).astype(space.dtype)
        raise ValueError(
            f"the model was trained on observations of shape {wanted}; the environment's have "
            f"shape {board}, and neither they nor their one-hot form fit"
        )
