"""Lookup of policies by name, object or command-line argument."""

from __future__ import annotations

import functools
import importlib.util
import inspect
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from twofold import _arguments, _text
from twofold.errors import InvalidArgument, NotFound
from twofold.judging import ChatModel, Strategy
from twofold.policies import sb3, served_policies
from twofold.policies.baselines import FixedOrderPolicy, PerfectMemory, RandomPolicy
from twofold.policies.choosers import (
    Chooser,
    Envs,
    FunctionChooser,
    OpenFunction,
    PlayerChooser,
    ServedChooser,
    described,
    given,
)
from twofold.policies.last_k_memory import LastKMemory
from twofold.policies.served_policies import FixedOrder, Random

NAMES = (
    *served_policies.NAMES,
    "expectimax:DEPTH",
    "ntuple:FILE.npz",
    "perfect-memory",
    "last-k-memory:K",
)


def resolve(policy: object, name: str | None = None) -> Chooser:
    """Returns the chooser for a function, an object of `twofold.policies`, or a name.

    Args:
        policy: The policy. A Chooser is returned unchanged.
        name: A name for reports, instead of the policy's own name.

    Raises:
        InvalidArgument: The policy has an unsupported type, or its name is unknown.
    """
    if isinstance(policy, Chooser):
        return policy
    if isinstance(policy, str):
        found = _named(policy)
        if found is None:
            names = ", ".join(map(repr, NAMES))
            expected = f"a function, a twofold.policies object, or {names}"
            raise _arguments.wrong("policy", policy, expected)
        return replace(found, name=name or found.name)
    if isinstance(policy, (Strategy, ChatModel)):
        own = policy.card, policy.episodes, policy.lanes, policy.conditions()
        return PlayerChooser(name or policy.name, *own, policy=policy)
    if isinstance(policy, served_policies.Policy):
        return ServedChooser(name or policy.name, policy.card, policy=policy)
    if isinstance(policy, type):
        raise InvalidArgument(
            f"policy is the class {policy.__name__}; pass an instance, policy = "
            f"{policy.__name__}(); on the command line, name that instance: file.py:policy",
            field="policy",
        )
    if not callable(policy):
        expected = "a function (observations, action_mask) -> actions"
        raise _arguments.wrong("policy", policy, expected)
    if not _takes_both(policy):
        hint = "twofold.policies.TorchPolicy turns a PyTorch network into such a function"
        if inspect.isfunction(policy):
            hint = (
                "To judge a program with strategy(board) in a sandbox, use --strategy FILE "
                "(twofold.policies.Strategy.load)"
            )
        raise InvalidArgument(
            f"policy {type(policy).__name__} does not take two arguments; expected a function "
            f"(observations, action_mask) -> actions. {hint}",
            field="policy",
        )
    card = getattr(policy, "card", {})
    if not isinstance(card, Mapping):
        raise InvalidArgument(
            f"the policy's card is {type(card).__name__}; expected a mapping", field="policy"
        )
    own_name = getattr(policy, "__name__", type(policy).__name__)
    return FunctionChooser(name or own_name, card, make=functools.partial(given, policy))


def open_for_rollouts(
    policy: object, envs: Envs, timeout: float = math.inf
) -> OpenFunction | served_policies.Policy:
    """Opens a policy for use in rollouts. Returns an open one unchanged.

    Raises:
        InvalidArgument: The policy is a player, which can play only in evaluations; or see
            `resolve`.
    """
    if isinstance(policy, OpenFunction):
        return policy
    chooser = resolve(policy)
    opened = None if chooser.may_fail else chooser.open(envs, timeout)
    if not isinstance(opened, (OpenFunction, served_policies.Policy)):
        raise InvalidArgument(
            f"{chooser.name} may fail in some games; pass it to twofold.evaluate", field="policy"
        )
    return opened


def _takes_both(policy: Callable[..., Any]) -> bool:
    """Returns True if a function accepts observations and a mask."""
    try:
        signature = inspect.signature(policy)
        if any(each.kind is each.VAR_POSITIONAL for each in signature.parameters.values()):
            # PyTorch's modules accept any arguments and pass them to their `forward`.
            signature = inspect.signature(getattr(policy, "forward", policy))
        signature.bind(None, None)
    except TypeError:
        return False
    except ValueError:  # some C functions have no signature
        pass
    return True


def load(text: str, *, trust_pickle: bool = False) -> Chooser:
    """Returns the chooser for a command-line argument.

    Args:
        text: One of NAMES; "module:NAME" or "path/file.py:NAME", for a function or an object; or
            "model.zip", for a Stable-Baselines3 model.
        trust_pickle: Whether to unpickle a zip file, which runs any code that its author put there.

    Raises:
        InvalidArgument, NotFound: The policy is unknown, or its file or module does not exist.
        MissingDependency: Stable-Baselines3 is not installed.
        OSError: The policy's file can't be read.
    """
    try:
        found = _named(text)
    except _text.MISSING_FILE as error:  # of an n-tuple network's file
        raise NotFound(f"policy {text!r}: {error}", field="policy") from None
    if found is not None:
        return found
    if text.endswith(".zip"):
        model = sb3.SB3Policy.load(text, trust_pickle=trust_pickle)
        return resolve(model, f"{Path(text).name} ({model.__name__})")
    if ":" in text:
        return _load_function(text)
    if text.endswith(".py"):
        raise InvalidArgument(
            f"policy {text!r} is a file. A program with strategy(board) is judged in a sandbox: "
            f"--strategy {text}; to compare two programs, judge each with the same --secret. To "
            "run a function (observations, action_mask) -> actions without a sandbox, pass "
            f"{text}:NAME",
            field="policy",
        )
    raise InvalidArgument(
        f"policy {text!r} is unknown; expected {', '.join(NAMES)}, module:function, "
        "file.py:function or model.zip",
        field="policy",
    )


def _named(text: str) -> Chooser | None:
    """Returns the policy with this name, or None if the name is unknown."""
    kind, colon, rest = text.partition(":")
    served = served_policies.NAMES.get(text)
    if text == "random":
        return ServedChooser(text, RandomPolicy.card, policy=Random(), local=_random)
    if text == "fixed-order":
        card = FixedOrderPolicy.card
        return ServedChooser(text, card, policy=FixedOrder(), local=FixedOrderPolicy)
    if served is not None:
        return resolve(served)
    if text == "perfect-memory":
        return FunctionChooser(text, PerfectMemory.card, make=PerfectMemory)
    if kind == "last-k-memory" and colon:
        k = _arguments.decimal(rest)
        if k is None and rest != "all":
            expected = "a number of cards, such as last-k-memory:4, or last-k-memory:all"
            raise _arguments.wrong("policy", text, expected)
        return FunctionChooser(text, LastKMemory.card, make=functools.partial(LastKMemory, k=k))
    if kind == "expectimax" and colon:
        depth = _arguments.decimal(rest)
        if depth is None:
            raise _arguments.wrong("policy", text, "a depth, such as expectimax:3")
        return resolve(served_policies.Expectimax(depth=depth))
    if kind == "ntuple" and colon:
        return resolve(served_policies.NTuple.load(rest), f"ntuple ({Path(rest).name})")
    return None


def _random(envs: object) -> RandomPolicy:
    return RandomPolicy()


def _load_function(text: str) -> Chooser:
    module_name, _, path = text.rpartition(":")
    try:
        found = _import(module_name)
        for part in path.split("."):
            if not hasattr(found, part):
                raise NotFound(f"{module_name!r} has no {path!r}", field="policy")
            found = getattr(found, part)
    except NotFound:
        raise
    except (Exception, SystemExit) as error:
        callers = __file__, importlib.__file__
        raise InvalidArgument(
            f"importing {module_name!r} raised {described(error, callers)}", field="policy"
        ) from error
    return resolve(found, text)


def _import(name: str) -> Any:
    if not name.endswith(".py"):
        if "" not in sys.path:
            sys.path.insert(0, "")  # the current folder, as for `python -m`
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
    sys.modules.setdefault(path.stem, module)  # dataclasses look up their module there
    spec.loader.exec_module(module)
    return module
