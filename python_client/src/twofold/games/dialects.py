"""The rules of other packages' 2048 as named sets of arguments; docs/dialects.md has the details.

    name       actions                start tiles   illegal action         boards
    (none)     up right down left     2             nothing happens        any
    jumanji    up right down left     1             nothing happens        any square
    envpool    up right down left     1             nothing happens        4 x 4
    pgx        left up right down     2             ends it, reward -1     4 x 4

`make certify` compares each with the package itself, transition by transition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from twofold import _arguments
from twofold.errors import InvalidArgument


@dataclass(frozen=True)
class Dialect:
    """What one package's 2048 fixes."""

    name: str | None
    """None for Twofold's own rules, which fix nothing."""
    start_tiles: int = 2
    illegal_action: Literal["noop", "terminate"] = "noop"
    action_order: tuple[int, ...] | None = None
    """The server's number of each action; None for the server's order: up, right, down, left."""
    reward: dict[str, float] | None = None
    """Declared terms; None for the score, as Twofold has it."""
    only_4x4: bool = False
    """Whether the package has no other boards; in all dialects they are square."""

    def check(self, arguments: Mapping[str, Any]) -> None:
        """Refuses arguments of `Game2048` that the package does not have.

        Raises:
            InvalidArgument: `field` names the argument that does not fit.
        """
        if self.name is None:
            return
        fixed = {
            "start_tiles": self.start_tiles,
            "illegal_action": self.illegal_action,
            "four_probability": 0.1,
            "stop_at_goal": False,
        }
        for argument, theirs in fixed.items():
            value = arguments.get(argument)
            if value is not None and value != theirs:
                raise self._refusal(argument, value, repr(theirs))
        size = arguments.get("size", 4)
        sides = set(size) if isinstance(size, (tuple, list)) else {size}
        if self.only_4x4 and sides != {4}:
            raise self._refusal("size", size, "4")
        if len(sides) != 1:
            raise self._refusal("size", size, "a square")
        if arguments.get("reward") is not None:
            raise self._refusal("reward", arguments["reward"], "its own")

    def _refusal(self, argument: str, value: object, theirs: str) -> InvalidArgument:
        return InvalidArgument(
            f"{argument} is {value!r}; the dialect {self.name!r} has {theirs}, so leave out one of "
            "the two",
            field=argument,
        )


_OWN = Dialect(None)
_DIALECTS = {
    "jumanji": Dialect("jumanji", start_tiles=1),
    "envpool": Dialect("envpool", start_tiles=1, only_4x4=True),
    "pgx": Dialect(
        "pgx",
        illegal_action="terminate",
        action_order=(3, 0, 1, 2),
        reward={"merge_score": 1.0, "illegal_action": -1.0},
        only_4x4=True,
    ),
}


def find(name: object) -> Dialect:
    """The dialect of that name; Twofold's own rules for None.

    Raises:
        InvalidArgument: There is no dialect of that name.
    """
    return _OWN if name is None else _DIALECTS[_arguments.choice("dialect", name, _DIALECTS)]
