"""A log of the actions in games of 2048, and the observer that writes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from twofold.errors import InvalidArgument
from twofold.evaluation.schedule import Schedule, Segment
from twofold.games.game2048 import Game2048
from twofold.recordings import RecordingRules
from twofold.recordings.file_format import pack_actions, unpack_actions


@dataclass(frozen=True)
class ActionLog:
    """A log of the actions in games of 2048. Each action takes two bits.

    Attributes:
        rules: The rules of the games.
        games: The packed actions of each game. The key is the game's seed.
    """

    rules: RecordingRules
    games: dict[int, bytes] = field(default_factory=dict)

    def actions(self, seed: int, length: int) -> NDArray[np.uint8]:
        """Returns the actions of the game with this seed, uint8 (length,)."""
        return unpack_actions(self.games[seed], length)


class ActionRecorder:
    """An observer that writes an `ActionLog`.

    Until a game ends, its actions are in a table with one row per step and one column per lane.

    Attributes:
        log: The log of the games that have ended.
    """

    def __init__(self, envs: VectorEnv[Any, Any, Any]) -> None:
        game = Game2048.played_by(envs)
        if game is None:
            raise InvalidArgument("record=True requires a 2048 environment", field="record")
        config = game.request.game2048
        rules = RecordingRules(game.rows, game.columns, config.four_probability, config.start_tiles)
        self.log = ActionLog(rules)
        self._game = game
        self._table = np.zeros((256, envs.num_envs), np.uint8)
        self._next = 0
        self._first = np.zeros(envs.num_envs, np.int64)  # the first row of each lane's game

    def add(self, segment: Segment, schedule: Schedule) -> None:
        """Adds the actions of a segment's steps to the table, and logs the games that ended."""
        actions = segment.actions
        end = self._next + len(actions)
        if end > len(self._table):
            oldest = int(self._first[schedule.active].min())
            kept = self._table[oldest : self._next]
            is_half_free = 2 * len(kept) < len(self._table)
            size = len(self._table) * (1 if is_half_free else 2)
            self._table = np.zeros((size, self._table.shape[1]), np.uint8)
            self._table[: len(kept)] = kept
            self._first -= oldest
            end -= oldest
        self._table[end - len(actions) : end] = self._game.to_server(actions)
        self._next = end
        if len(segment.ended):
            self._end(segment, schedule)

    def _end(self, segment: Segment, schedule: Schedule) -> None:
        lanes, lengths = segment.ended, segment.results["episode_length"]
        seeds = schedule.lane_seeds.games[lanes]
        for lane, seed, length in zip(lanes, seeds, lengths, strict=True):
            first = self._first[lane]
            self.log.games[int(seed)] = pack_actions(self._table[first : first + length, lane])
        self._first[lanes] = self._next
