"""The seeds of an evaluation's games: public and consecutive, or secret until the games end."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from twofold import _arguments
from twofold.client.surroundings import SYSTEM

FIRST_SEED = 2**63
"""The smallest seed reserved for evaluation. Training uses only smaller seeds."""

_HALF = 16


@dataclass(frozen=True)
class Seeds:
    """The seeds of E episodes, which are either public or secret.

    Public seeds are consecutive numbers. Secret seeds are derived from a secret.

    Attributes:
        games: uint64 (E,), the seeds from which the games' tiles are drawn.
        players: uint64 (E,), the seeds of a judged program's own random draws; None for public
            seeds.
        secret: 64 hexadecimal digits that determine `games` and `players`; None for public seeds.
        is_new: Whether the secret was drawn for these episodes. If so, nobody could know the tiles
            in advance.
    """

    games: NDArray[np.uint64]
    players: NDArray[np.uint64] | None = None
    secret: str | None = None
    is_new: bool = False

    @classmethod
    def of_secret(cls, number: int, secret: str | None) -> Seeds:
        """Returns the seeds derived from `secret`, or from a new secret if `secret` is None.

        The secret consists of two keys: one for the games and one for the players. Therefore, a
        player's seed reveals nothing about its game's seed.
        """
        if secret is not None and not (
            isinstance(secret, str) and re.fullmatch("[0-9a-f]{64}", secret)
        ):
            raise _arguments.wrong("secret", secret, "64 hexadecimal digits, as in reports")
        key = SYSTEM.random_bytes(2 * _HALF) if secret is None else bytes.fromhex(secret)
        games = _numbers(key[:_HALF], b"game", number)
        players = _numbers(key[_HALF:], b"player", number)
        return cls(games, players, key.hex(), is_new=secret is None)

    def __len__(self) -> int:
        return len(self.games)

    def of(self, episodes: NDArray[np.intp]) -> Seeds:
        """Returns the seeds of these episodes, (k,)."""
        players = None if self.players is None else self.players[episodes]
        return replace(self, games=self.games[episodes], players=players)


def _numbers(key: bytes, use: bytes, number: int) -> NDArray[np.uint64]:
    """Returns pseudorandom seeds, uint64 (number,): the keyed hashes of 0 ... number - 1."""
    digests = (
        hashlib.blake2b(k.to_bytes(8, "little"), key=key, person=use, digest_size=8).digest()
        for k in range(number)
    )
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)
