"""Boards as text and as pictures."""

from __future__ import annotations

import math

import gymnasium as gym

from twofold import _arguments
from twofold.envs.batch import Batch
from twofold.envs.results import InfosT, ObsT
from twofold.games.drawing import Picture, side_by_side

# Pixels between the boards of a grid, and the least that a board may have.
_GAP = 8
_SMALLEST_BOARD = 16


class Rendering(Batch[ObsT, InfosT]):
    """The methods of a vector environment that show boards."""

    def render(self) -> tuple[str, ...] | tuple[Picture, ...] | None:
        """The boards one by one: text, or pictures uint8 (height, width, 3), by the render mode.

        None, with a warning, without a render mode.
        """
        if self.render_mode is None:
            gym.logger.warn("render() needs an environment made with a render_mode")
            return None
        boards = self._boards()
        if self.render_mode == "ansi":
            return tuple(self._game.text(board) for board in boards)
        return tuple(self._game.picture(board, self._render_size) for board in boards)

    def render_grid(self, columns: int | None = None, width: int = 1024) -> Picture:
        """All boards in one picture, side by side, in any render mode.

        Args:
            columns: Boards in a row; None for about as many as there are rows.
            width: Pixels, at most; each board is drawn at the size that fits.

        Returns:
            uint8 (height, width, 3), both even.

        Raises:
            InvalidArgument: An argument is wrong, or leaves a board less than 16 pixels.
            TransportError: No answer.
        """
        if columns is None:
            columns = math.ceil(math.sqrt(self.num_envs))
        columns = min(_arguments.integer("columns", columns, 1), self.num_envs)
        least = columns * (_SMALLEST_BOARD + _GAP) + _GAP
        width = _arguments.integer("width", width, least, 16384)
        size = (width - _GAP) // columns - _GAP
        return side_by_side(
            [self._game.picture(board, size) for board in self._boards()], columns, _GAP
        )
