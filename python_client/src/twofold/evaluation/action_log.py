"""Logs of the actions of whole games, two bits per action once a game has ended."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from twofold.envs.game2048 import Game2048VectorEnv
from twofold.envs.results import Array
from twofold.errors import InvalidArgument
from twofold.recordings import RecordingRules
from twofold.recordings.file_format import pack_actions, unpack_actions


class ActionLog:
    """The actions of finished games of 2048, by episode, and the `rules` of these games."""

    def __init__(self, envs: VectorEnv[Any, Any, Any]) -> None:
        base = envs.unwrapped
        if not isinstance(base, Game2048VectorEnv):
            raise InvalidArgument("record needs an environment of 2048", field="record")
        config = base._session.create.game2048
        self.rules = RecordingRules(
            config.rows, config.columns, config.four_probability, config.start_tiles
        )
        self._games: dict[int, bytes] = {}
        # A dialect numbers the actions in another order than recordings do.
        order = base._action_order
        self._order = np.arange(4, dtype=np.uint8) if order is None else order

    def actions(self, episode: int, length: int) -> NDArray[np.uint8]:
        """uint8 (length,): the actions of a finished game."""
        return unpack_actions(self._games[episode], length)


class StepLog(ActionLog):
    """A log that is fed step by step; it keeps a table of steps and lanes for unfinished games."""

    def __init__(self, envs: VectorEnv[Any, Any, Any]) -> None:
        super().__init__(envs)
        self._table = np.zeros((256, envs.num_envs), np.uint8)
        self._next = 0

    def add(self, actions: Array, needed: int) -> None:
        """Adds actions (N,) to unfinished games, the longest of which has `needed` steps so far."""
        if self._next == len(self._table):
            kept = self._table[self._next - needed : self._next]
            size = len(self._table) if 2 * needed < len(self._table) else 2 * len(self._table)
            self._table = np.zeros((size, self._table.shape[1]), np.uint8)
            self._table[:needed] = kept
            self._next = needed
        self._table[self._next] = self._order[actions]
        self._next += 1

    def end(self, lanes: Array, episodes: Array, lengths: Array) -> None:
        """Ends the episodes of these lanes, (k,) each, after these numbers of steps."""
        for lane, episode, length in zip(lanes, episodes, lengths, strict=True):
            actions = self._table[self._next - length : self._next, lane]
            self._games[int(episode)] = pack_actions(actions)


class RolloutLog(ActionLog):
    """A log that is fed rollout by rollout; it keeps the pieces of each lane's unfinished game."""

    def __init__(self, envs: VectorEnv[Any, Any, Any]) -> None:
        super().__init__(envs)
        self._pieces: list[list[Array]] = [[] for _ in range(envs.num_envs)]

    def add(self, actions: Array, valid: Array) -> None:
        """Adds the `valid` ones of some steps of all lanes, (steps, N) each."""
        actions = self._order[actions]
        for lane, pieces in enumerate(self._pieces):
            pieces.append(actions[valid[:, lane], lane])

    def end(self, lanes: Array, episodes: Array) -> None:
        """Ends the episodes of these lanes, (k,) each, with the last rollout."""
        for lane, episode in zip(lanes, episodes, strict=True):
            self._games[int(episode)] = pack_actions(np.concatenate(self._pieces[lane]))
            self._pieces[lane].clear()
