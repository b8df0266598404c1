"""The rules of a recorded game."""

from __future__ import annotations

from dataclasses import dataclass

from twofold import _arguments


@dataclass(frozen=True)
class RecordingRules:
    """The rules of a recorded game, named like the environment's arguments.

    Attributes:
        rows: Rows of the board, 2 ... 8.
        columns: Columns of the board, 2 ... 8.
        four_probability: Probability that a new tile is a 4.
        start_tiles: Tiles on a new board.
    """

    rows: int = 4
    columns: int = 4
    four_probability: float = 0.1
    start_tiles: int = 2

    def __post_init__(self) -> None:
        _arguments.integer("rows", self.rows, 2, 8)
        _arguments.integer("columns", self.columns, 2, 8)
        _arguments.real("four_probability", self.four_probability, 0, 1, "0 ... 1")
        _arguments.integer("start_tiles", self.start_tiles, 1, self.rows * self.columns - 1)

    @property
    def cells(self) -> int:
        """Cells of the board."""
        return self.rows * self.columns
