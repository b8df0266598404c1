"""A recording: one game of 2048 in a few kilobytes, which anybody can replay and verify."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twofold import _arguments
from twofold.errors import InvalidArgument, InvalidRecording
from twofold.recordings import file_format, replay_page
from twofold.recordings.boards import explain_boards
from twofold.recordings.replay import (
    Generator,
    RecordingRules,
    Step,
    Words,
    legal,
    place,
    play,
    threshold_of,
)
from twofold.recordings.verification import SpawnLawTest, Verification


@dataclass(frozen=True, eq=False)
class Recording:
    """One game of 2048: its beginning, every action, and its end.

    Exactly one of `generator` and `spawns` is given: new tiles follow from the state of the board's
    generator, or are listed, for a game of another engine.

    Attributes:
        rules: The rules.
        actions: uint8 (steps,): 0 up, 1 right, 2 down, 3 left.
        board: uint8 (rows, columns), exponents at the end.
        score: The score at the end.
        generator: Four 32-bit words, before the game's first draw.
        seed: The seed whose first words these are, if any.
        start: uint8 (rows, columns), the board to start from; None where start tiles are drawn.
        spawns: int64 (tiles,), chance outcomes, of the start tiles and then of each legal move:
            cell for a 2, cells + cell for a 4.
        about: Free-form notes; strings and numbers.
    """

    rules: RecordingRules
    actions: NDArray[np.uint8] = field(repr=False)
    board: NDArray[np.uint8] = field(repr=False)
    score: int
    generator: Words | None = None
    seed: int | None = None
    start: NDArray[np.uint8] | None = field(default=None, repr=False)
    spawns: NDArray[np.int64] | None = field(default=None, repr=False)
    about: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def of_seed(
        rules: RecordingRules, seed: int, actions: ArrayLike, about: Mapping[str, Any] | None = None
    ) -> Recording:
        """The game that these actions play from a seed; board and score follow.

        Raises:
            InvalidArgument: An action is out of range.
        """
        numbers = _check_actions(actions)
        seed = _arguments.integer("seed", seed, 0, 2**64 - 1)
        draft = Recording(
            rules=rules,
            actions=numbers,
            board=np.zeros((rules.rows, rules.columns), np.uint8),
            score=0,
            generator=Generator.seeded(seed).words,
            seed=seed,
            about=about or {},
        )
        return draft._with_end()

    @staticmethod
    def from_boards(
        boards: ArrayLike,
        *,
        four_probability: float = 0.1,
        start_tiles: int = 2,
        score: int | None = None,
        about: Mapping[str, Any] | None = None,
    ) -> Recording:
        """A game of another engine, from the boards that it showed.

        The actions follow from the boards: each board is the one before it after an action and one
        new tile.

        Args:
            boards: Exponents, integers (steps + 1, rows, columns), from the start of the game on.
            four_probability: The engine's probability of a 4, to test its new tiles against.
            start_tiles: Tiles of the engine's first board.
            score: The score that the engine showed; by default the score under the rules.
            about: Free-form notes.

        Raises:
            InvalidArgument: The boards are not a game of 2048; the text names the first wrong one.
        """
        rules, actions, outcomes = explain_boards(boards, four_probability, start_tiles)
        draft = Recording(
            rules=rules,
            actions=np.array(actions, np.uint8),
            board=np.zeros((rules.rows, rules.columns), np.uint8),
            score=0,
            spawns=np.array(outcomes, np.int64),
            about=about or {},
        )
        return draft._with_end(score)

    def _with_end(self, score: int | None = None) -> Recording:
        """The same game with the board, and unless given the score, at the end of its replay."""
        board, total, _, _ = self._replay()
        return replace(self, board=self._shaped(board), score=total if score is None else score)

    def first_board(self) -> NDArray[np.uint8]:
        """uint8 (rows, columns): the board before the first action.

        Raises:
            InvalidRecording: A start tile's cell is not empty.
        """
        return self._shaped(self._begin()[0])

    def steps(self) -> Iterator[Step]:
        """The game step by step: action, reward, motions, the new tile, the board after it.

        Raises:
            InvalidRecording: A new tile's cell is not empty.
        """
        board, spawn = self._begin()
        rules = self.rules
        try:
            yield from play(board, rules.rows, rules.columns, self.actions.tolist(), spawn)
        except ValueError as error:
            raise InvalidRecording(str(error)) from None

    def _shaped(self, cells: list[int]) -> NDArray[np.uint8]:
        return np.array(cells, np.uint8).reshape(self.rules.rows, self.rules.columns)

    def _begin(self) -> tuple[list[int], Callable[[list[int]], int]]:
        """The board before the first action, and the function that draws chance outcomes."""
        rules, spawn = self.rules, self._source()
        if self.start is not None:
            return self.start.ravel().tolist(), spawn
        board = [0] * rules.cells
        for number in range(rules.start_tiles):
            outcome = spawn(board)
            if not place(board, outcome):
                raise InvalidRecording(f"start tile {number}: outcome {outcome} cannot be placed")
        return board, spawn

    def _source(self) -> Callable[[list[int]], int]:
        """A function from a board to its next chance outcome."""
        if self.spawns is not None:
            outcomes = iter(self.spawns.tolist())
            return lambda board: next(outcomes, -1)
        assert self.generator is not None
        generator, threshold = Generator(self.generator), threshold_of(self.rules.four_probability)
        return lambda board: generator.spawn(board, threshold)

    def verify(self) -> Verification:
        """Replays the game and compares its end with the recorded one.

        Returns:
            The number of moves, whether the game is over, and for a game with listed new tiles how
            well they fit the spawn law.

        Raises:
            InvalidRecording: The replay ends with another board or score, or cannot be carried out;
                the text says where.
        """
        rules = self.rules
        board, score, moves, law = self._replay()
        used = moves + (rules.start_tiles if self.start is None else 0)
        if self.spawns is not None and len(self.spawns) != used:
            raise InvalidRecording(
                f"it lists {len(self.spawns)} new tiles; {moves} moves need {used}"
            )
        if score != self.score:
            raise InvalidRecording(f"the replay's score is {score}; recorded is {self.score}")
        self._compare_last_board(board)
        return Verification(
            moves=moves,
            illegal_actions=len(self.actions) - moves,
            score=score,
            highest_tile=2 ** max(board),
            is_over=not legal(board, rules.rows, rules.columns),
            cells_p=None if self.spawns is None else law.cells_p(),
            fours_p=None if self.spawns is None else law.fours_p(),
        )

    def _replay(self) -> tuple[list[int], int, int, SpawnLawTest]:
        """The last board, score and number of moves of the replay, and the test of its tiles."""
        board, score, moves, law = self._begin()[0], 0, 0, SpawnLawTest(self.rules)
        for step in self.steps():
            board = step.board
            score += step.reward
            if step.motions:
                moves += 1
                if self.spawns is not None:
                    law.add(step.board, step.outcome)
        return board, score, moves, law

    def _compare_last_board(self, replayed: list[int]) -> None:
        for cell, exponents in enumerate(zip(replayed, self.board.ravel().tolist(), strict=True)):
            got, recorded = (str(2**exponent) if exponent else "nothing" for exponent in exponents)
            if got != recorded:
                row, column = divmod(cell, self.rules.columns)
                raise InvalidRecording(
                    f"the replay's last board has {got} in row {row}, column {column}; recorded is "
                    f"{recorded}"
                )

    def to_json(self) -> str:
        """The file's text; docs/recordings.md describes it."""
        return file_format.encode(vars(self))

    @staticmethod
    def from_json(text: str) -> Recording:
        """A recording from the text of its file.

        Raises:
            InvalidRecording: The text is not a recording, or damaged; the message names the part.
        """
        return Recording(**file_format.decode(text))

    def save(self, path: str | Path) -> None:
        """Writes the file."""
        Path(path).write_text(self.to_json() + "\n")

    @staticmethod
    def load(path: str | Path) -> Recording:
        """Reads a file.

        Raises:
            InvalidRecording: The file is not a recording, or damaged; the message names the part.
        """
        try:
            return Recording.from_json(Path(path).read_text())
        except UnicodeDecodeError:
            raise InvalidRecording(f"{path}: not a recording: not a text file") from None
        except InvalidRecording as error:
            raise InvalidRecording(f"{path}: {error}") from None

    def to_html(self) -> str:
        """A page that plays the game, without network or other files.

        Raises:
            InvalidRecording: The recording does not verify.
        """
        verdict = str(self.verify())
        return replay_page.page(
            verdict, self.first_board(), self.steps(), self.board, self.score, self.about
        )


def _check_actions(actions: ArrayLike) -> NDArray[np.uint8]:
    array = np.asarray(actions)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise InvalidArgument(
            f"actions are {array.dtype} of shape {array.shape}; expected integers (steps,)",
            field="actions",
        )
    bad = (array < 0) | (array > 3)
    if bad.any():
        at = int(bad.argmax())
        raise InvalidArgument(f"action {at} is {array[at]}; expected 0 ... 3", field="actions")
    return array.astype(np.uint8)
