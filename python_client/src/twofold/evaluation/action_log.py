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
        # The actions since the oldest unfinished game began, (T, N) each.
        self._parts: list[NDArray[np.uint8]] = []
        self._first = np.zeros(envs.num_envs, np.int64)  # the first step of each lane's game

    def add(self, segment: Segment, schedule: Schedule) -> None:
        """Keeps the actions of a segment's steps, and logs the games that ended."""
        self._parts.append(self._game.to_server(segment.actions).astype(np.uint8))
        if not len(segment.ended):
            return
        actions = np.concatenate(self._parts)
        lanes, lengths = segment.ended, segment.results["episode_length"]
        seeds = schedule.lane_seeds.games[lanes]
        for lane, seed, length in zip(lanes, seeds, lengths, strict=True):
            first = self._first[lane]
            self.log.games[int(seed)] = pack_actions(actions[first : first + length, lane])
        self._first[lanes] = len(actions)
        oldest = int(self._first[schedule.active].min())
        self._parts = [actions[oldest:]]
        self._first -= oldest
