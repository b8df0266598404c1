"""A player of Concentration that forgets nothing, as a baseline."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from twofold._concentration import ConcentrationEnv, ConcentrationVectorEnv
from twofold._exceptions import InvalidArgument


class PerfectMemory:
    """Remembers each card that it has seen, and never peeks.

        policy = twofold.PerfectMemory(envs)
        actions = policy(observations, infos)

    It takes a known pair where there is one. Else it turns the first card that it has not seen, and
    then that card's mate where it knows one, else the next unseen card. Where each symbol is on two
    cards nobody needs fewer turns without peeking (tests/test_concentration.py solves small decks).

    Args:
        envs: The environment whose games it plays: of Concentration, a batch or a single one,
            wrapped or not.

    Raises:
        InvalidArgument: The environment is of another game.
    """

    def __init__(self, envs: Any) -> None:
        unwrapped = envs.unwrapped
        self._is_batch = not isinstance(unwrapped, ConcentrationEnv)
        batch = unwrapped if self._is_batch else unwrapped._batch
        if not isinstance(batch, ConcentrationVectorEnv):
            raise InvalidArgument(
                f"envs is {envs}; expected an environment of Concentration", field="envs"
            )
        self._cards, self._symbols = batch._game.cards, batch._game.symbols
        self._key = None if batch._obs_keys is None else batch._obs_keys[0]
        self._seen = np.full((batch.num_envs, self._cards), -1, np.int16)

    def __call__(self, observations: Any, infos: dict[str, Any]) -> Any:
        """The next action of each game.

        Args:
            observations: What the last reset or step returned.
            infos: The same.

        Returns:
            Actions int64 (N,); an int for a single environment.
        """
        if self._key is not None:
            observations = observations[self._key]
        table = np.asarray(observations).reshape(len(self._seen), -1)[:, : self._cards]
        mask = np.asarray(infos["action_mask"]).reshape(len(self._seen), -1)[:, : self._cards]
        opened = np.atleast_1d(infos["open_card"])
        self._seen[np.atleast_1d(infos["episode_length"]) == 0] = -1
        np.copyto(self._seen, table.astype(np.int16), where=table < self._symbols)
        actions = self._choose(mask == 1, opened)
        return actions if self._is_batch else int(actions[0])

    def _choose(self, playable: NDArray[np.bool_], opened: NDArray[Any]) -> NDArray[np.int64]:
        known = playable & (self._seen >= 0)
        lanes = np.arange(len(self._seen))
        # The open card's mate; between turns, any card of which another of its symbol is known.
        symbol = self._seen[lanes, opened]
        mate = known & np.equal(self._seen, symbol[:, None])
        of_symbol = (lanes[:, None] * self._symbols + self._seen)[known]
        count = np.bincount(of_symbol, minlength=len(lanes) * self._symbols)
        paired = np.zeros_like(known)
        paired[known] = count[of_symbol] >= 2
        wanted = np.where((opened >= 0)[:, None], mate, paired)
        choice = np.where(wanted.any(axis=1, keepdims=True), wanted, playable & ~known)
        actions: NDArray[np.int64] = choice.argmax(axis=1)
        return actions
