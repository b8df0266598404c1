"""Converts the argument `reward` from the user's form to the protocol's."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from twofold import _arguments, _text
from twofold.errors import InvalidArgument
from twofold.v1 import environment_pb2 as environment

Reward: TypeAlias = Mapping[str, Any] | Sequence[Any] | os.PathLike[str] | str | None
"""The type of `reward=`; the page "Rewards" lists the terms."""

_FORMS = "a dict or a list of terms, or the path of a JSON file that contains one of these"
_BESIDE_TERMS = ("scale", "clip")
_CODED = (
    "; to compute a reward in Python, write a gymnasium.vector.VectorWrapper (for gymnasium.make, "
    'a gymnasium.Wrapper); the page "Rewards" of the documentation has one under '
    '"When the terms are not enough"'
)


def reward_spec(reward: Reward) -> environment.RewardSpec | None:
    """Converts a reward to the form of the create request; None means the game's own reward.

    The server checks names and ranges, because it knows the game. This function refuses only
    rewards that a message can't represent.

    Args:
        reward: None or "score" for the game's own reward. A dict from the names of terms to their
            weights, or to dicts with weights and parameters; the keys may include "scale" and
            "clip". A list of terms, summed in this order, each of which is a name, (name, weight),
            (name, dict) or a dict with "term". {"terms": such a dict or list, "scale": …, "clip":
            …}. Or the path of a JSON file that contains one of these.

    Raises:
        InvalidArgument: The reward has another form, or the file can't be read. `field` names the
            invalid part, such as "reward.empty_cells.gamma".
    """
    if reward is None or (isinstance(reward, str) and reward == "score"):
        return None
    reward = read_reward(reward)
    if not isinstance(reward, Mapping):
        return environment.RewardSpec(terms=_terms(reward))
    rest = dict(reward)
    scale, clip = rest.pop("scale", None), rest.pop("clip", None)
    terms = rest.pop("terms", rest)
    if rest and terms is not rest:
        raise InvalidArgument(
            f'reward contains {sorted(map(str, rest))}; next to "terms", expected only scale and '
            "clip",
            field="reward",
        )
    return environment.RewardSpec(
        terms=_terms(terms),
        scale=None if scale is None else _arguments.real("reward.scale", scale),
        **({} if clip is None else _clip(clip)),
    )


def read_reward(reward: Reward) -> Reward:
    """Returns a reward file's content, or any other reward unchanged."""
    if not isinstance(reward, (str, os.PathLike)) or reward == "score":
        return reward
    path = os.fspath(reward)
    try:
        text = _text.read(path, "reward")
    except OSError as error:
        raise InvalidArgument(
            f"reward is {path!r}, which can't be read: {error.strerror}; expected {_FORMS}",
            field="reward",
        ) from error
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(
            f"the reward file {path!r} is not JSON: {error}", field="reward"
        ) from error
    if not isinstance(content, (dict, list)):
        raise InvalidArgument(
            f"the reward file {path!r} contains {content!r}; expected a dict or a list of terms",
            field="reward",
        )
    return content


def extra_info_names(extra_infos: Iterable[str]) -> list[str]:
    """Returns the names of extra infos, as a list of strings."""
    expected = 'a tuple of names, such as ("chance",)'
    given = _arguments.elements("extra_infos", extra_infos, expected)
    names = [_arguments.text("extra_infos", name) for name in given]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise InvalidArgument(f"extra_infos contains {name!r} twice", field="extra_infos")
    return names


def _terms(terms: object) -> list[environment.RewardTerm]:
    if isinstance(terms, Mapping):
        return [_term(name, value) for name, value in terms.items()]
    expected = _FORMS + _CODED if callable(terms) else _FORMS
    return [_listed_term(entry) for entry in _elements("reward", terms, expected)]


def _listed_term(entry: object) -> environment.RewardTerm:
    if isinstance(entry, str):
        return _term(entry, 1.0)
    if isinstance(entry, Mapping) and "term" in entry:
        arguments = dict(entry)
        return _term(arguments.pop("term"), arguments)
    if isinstance(entry, (tuple, list)) and len(entry) == 2:
        return _term(*entry)
    if isinstance(entry, Mapping):
        for name in _BESIDE_TERMS:
            if name in entry:
                raise _misplaced(name)
    raise InvalidArgument(
        f"a reward term is {entry!r}; expected a name, (name, weight), (name, dict) "
        'or a dict with "term"',
        field="reward",
    )


def _term(name: object, value: object) -> environment.RewardTerm:
    """Returns the term with this name; `value` is its weight, or a dict of its arguments."""
    if not isinstance(name, str):
        raise InvalidArgument(
            f"a reward term has the name {name!r}; expected a string", field="reward"
        )
    if name in _BESIDE_TERMS:
        raise _misplaced(name)
    _arguments.text("reward", name)
    arguments = dict(value) if isinstance(value, Mapping) else {"weight": value}
    term = environment.RewardTerm(name=name)
    if "weight" in arguments:
        term.weight = _arguments.real(f"reward.{name}.weight", arguments.pop("weight"))
    for key, numbers in arguments.items():
        key = _arguments.text("reward", key)
        term.parameters.add(name=key, values=_numbers(f"reward.{name}.{key}", numbers))
    return term


def _misplaced(name: str) -> InvalidArgument:
    """Returns the error for "scale" or "clip" among the terms."""
    return InvalidArgument(
        f'reward.{name} is among the terms; write {{"terms": …, "{name}": …}}',
        field=f"reward.{name}",
    )


def _numbers(field: str, value: object) -> list[float]:
    """Flattens a number or a nested list of numbers, row by row."""
    array = _arguments.array(field, value)
    if array.dtype.kind not in "iuf":
        raise _arguments.wrong(field, value, "numbers")
    return [float(number) for number in array.ravel()]


def _clip(clip: object) -> dict[str, float]:
    """Returns the bounds (low, high), except None, keyed by their names in a RewardSpec."""
    expected = "(low, high), with None for no limit"
    bounds = _elements("reward.clip", clip, expected)
    if len(bounds) != 2:
        raise _arguments.wrong("reward.clip", clip, expected)
    named = zip(("clip_low", "clip_high"), bounds, strict=True)
    return {
        name: _arguments.real("reward.clip", bound) for name, bound in named if bound is not None
    }


def _elements(field: str, value: object, expected: str) -> list[Any]:
    """Returns the elements of a collection. An iterator can be read only once, so it is refused."""
    if isinstance(value, Iterator):
        raise _arguments.wrong(field, value, expected)
    return _arguments.elements(field, value, expected)
