"""The rules of 2048 for arrays of boards, for search and learning from afterstates.

    boards, rewards, mask = twofold.rules.afterstates(observations)

The functions need no environment. They take boards as integer arrays (…, rows, columns) with any
leading shape, sides of 2 ... 8, and exponents of 0 ... 31 (0 is an empty cell, 3 an 8). Functions
that slide accept exponents up to 26. Any position is allowed, even one that play can't reach. A
*row* is one board; an error's `lane` counts the rows in C order. Actions: 0 up, 1 right, 2 down,
3 left. A *chance outcome* is one integer: the cell of a new 2, cells + the cell of a new 4, or -1
for no tile.

`afterstates`, `move`, `legal`, `spawn` and `explain` make requests to the service, several if one
would be too large or too slow. They take an environment's `endpoint`, `keys` and `timeout`
(`ServiceArguments`), and raise TransportError if the service does not answer. `chance`, `place`,
`symmetries` and `canonical` run in the client. Returned arrays are new.

All functions raise InvalidArgument, whose `field` and `lane` name the argument and the row.
"""

from twofold.envs.arguments import ServiceArguments
from twofold.rules.boards import Canonical, Symmetries, canonical, chance, place, symmetries
from twofold.rules.moves import (
    MAX_EXPONENT,
    Afterstates,
    Merge,
    Move,
    MoveAction,
    Slide,
    Spawn,
    Spawned,
    afterstates,
    explain,
    legal,
    move,
    spawn,
)

__all__ = [
    "MAX_EXPONENT",
    "Afterstates",
    "Canonical",
    "Merge",
    "Move",
    "MoveAction",
    "ServiceArguments",
    "Slide",
    "Spawn",
    "Spawned",
    "Symmetries",
    "afterstates",
    "canonical",
    "chance",
    "explain",
    "legal",
    "move",
    "place",
    "spawn",
    "symmetries",
]
