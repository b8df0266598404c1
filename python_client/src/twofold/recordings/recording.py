"""A recording of one game of 2048, a few kilobytes long, that anyone can replay and verify."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twofold import _arguments, _text
from twofold.errors import InvalidArgument, InvalidRecording
from twofold.recordings import file_format, replay
from twofold.recordings.replay import Generator, RecordingRules, Step

_LONGEST = 1 << 24  # bytes of a file; JSON takes about 24 times as much memory
_PLAUSIBLE = 1e-4  # new tiles with a smaller p-value are reported as not fitting
_FEW = 5.0  # the chi-square test holds only for numbers of tiles with at least this variance
_ROUNDING = 1e-9  # variances below this share of the largest are rounding errors


@dataclass(frozen=True, eq=False)
class Recording:
    """One game of 2048: its beginning, every action, and its end.

    Exactly one of `generator` and `spawns` is given. With `generator`, the new tiles are computed
    from the state of the board's random generator. `spawns` lists the new tiles of a game that was
    played on another engine.

    Attributes:
        rules: The rules.
        actions: uint8 (steps,): 0 up, 1 right, 2 down, 3 left.
        board: uint8 (rows, columns), the exponents at the end.
        score: The score at the end.
        generator: The generator's state before the game's first draw, four 32-bit words.
        seed: The seed from which `generator` was derived, if any.
        start: uint8 (rows, columns), the board to start from; None if start tiles are drawn.
        spawns: int64 (tiles,), the new tiles: first the start tiles, then one for each legal move.
            A 2 is its cell's number, and a 4 is its cell's number plus the number of cells.
        about: Free-form notes: strings and numbers.
    """

    rules: RecordingRules
    actions: NDArray[np.uint8] = field(repr=False)
    board: NDArray[np.uint8] = field(repr=False)
    score: int
    generator: replay.Words | None = None
    seed: int | None = None
    start: NDArray[np.uint8] | None = field(default=None, repr=False)
    spawns: NDArray[np.int64] | None = field(default=None, repr=False)
    about: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def of_seed(
        rules: RecordingRules, seed: int, actions: ArrayLike, about: Mapping[str, Any] | None = None
    ) -> Recording:
        """Returns the recording of a game, given its seed and its actions.

        Raises:
            InvalidArgument: An action is out of range, or another argument is wrong.
        """
        if not isinstance(rules, RecordingRules):
            raise _arguments.wrong("rules", rules, "RecordingRules")
        numbers = _check_actions(actions)
        seed = _arguments.integer("seed", seed, 0, 2**64 - 1)
        words = Generator.seeded(seed).words
        return Recording._of(rules, numbers, about, generator=words, seed=seed)

    @staticmethod
    def from_boards(
        boards: ArrayLike,
        *,
        four_probability: float = 0.1,
        start_tiles: int = 2,
        score: int | None = None,
        about: Mapping[str, Any] | None = None,
    ) -> Recording:
        """Returns the recording of another engine's game, given its boards.

        The actions are inferred from the boards: each board results from the previous one by an
        action and one new tile.

        Args:
            boards: Exponents, integers (steps + 1, rows, columns), from the start of the game.
            four_probability: The engine's probability of a 4, against which `verify` tests the new
                tiles.
            start_tiles: The number of tiles on the engine's first board.
            score: The score that the engine showed. By default, it is computed from the rules.
            about: Free-form notes.

        Raises:
            InvalidArgument: The boards are not a game of 2048 (the message names the first wrong
                board), or another argument is wrong.
        """
        if score is not None:
            score = _arguments.integer("score", score, 0)
        rules, actions, outcomes = replay.explain_boards(boards, four_probability, start_tiles)
        spawns = np.array(outcomes, np.int64)
        game = Recording._of(rules, np.array(actions, np.uint8), about, spawns=spawns)
        return game if score is None else replace(game, score=score)

    @staticmethod
    def _of(
        rules: RecordingRules,
        actions: NDArray[np.uint8],
        about: Mapping[str, Any] | None,
        **source: Any,
    ) -> Recording:
        """Returns a recording. Its final board and score are computed by a replay."""
        about = {} if about is None else _check_about(about)
        draft = Recording(rules, actions, np.zeros(0, np.uint8), 0, **source, about=about)
        board, score, _, _ = draft._replay()
        return replace(draft, board=draft._shaped(board), score=score)

    def first_board(self) -> NDArray[np.uint8]:
        """Returns the board before the first action, uint8 (rows, columns).

        Raises:
            InvalidRecording: A start tile's cell is not empty.
        """
        return self._shaped(self._begin()[0])

    def steps(self) -> Iterator[Step]:
        """Yields the game's steps: action, reward, motions, new tile and the resulting board.

        A step's board is a flat list of exponents; `first_board` returns an array.

        Raises:
            InvalidRecording: A new tile's cell is not empty.
        """
        board, spawn = self._begin()
        for number, action in enumerate(self.actions.tolist()):
            reward, motions = replay.move(board, self.rules.rows, self.rules.columns, action)
            outcome = -1
            if motions:
                outcome = spawn(board)
                replay.place(board, outcome, f"step {number}")
            yield Step(action, reward, motions, outcome, list(board))

    def _shaped(self, cells: list[int]) -> NDArray[np.uint8]:
        return np.array(cells, np.uint8).reshape(self.rules.rows, self.rules.columns)

    def _begin(self) -> tuple[list[int], Callable[[list[int]], int]]:
        """Returns the board before the first action, and a function that draws chance outcomes."""
        rules, spawn = self.rules, self._source()
        if self.start is not None:
            return self.start.ravel().tolist(), spawn
        board = [0] * rules.cells
        for number in range(rules.start_tiles):
            replay.place(board, spawn(board), f"start tile {number}")
        return board, spawn

    def _source(self) -> Callable[[list[int]], int]:
        """Returns a function that draws the next chance outcome for a board."""
        if self.spawns is not None:
            outcomes = iter(self.spawns.tolist())
            return lambda board: next(outcomes, -1)
        assert self.generator is not None
        generator = Generator(self.generator)
        threshold = replay.threshold_of(self.rules.four_probability)
        return lambda board: generator.spawn(board, threshold)

    def verify(self) -> Verification:
        """Replays the game and compares its final board and score with the recorded ones.

        Returns:
            The number of moves, whether the game is over, and, if `spawns` lists the new tiles, how
            well they fit the rules' probabilities.

        Raises:
            InvalidRecording: The replay ends with another board or score, or is impossible; the
                message says where.
        """
        rules = self.rules
        board, score, moves, law = self._replay()
        used = moves + (rules.start_tiles if self.start is None else 0)
        if self.spawns is not None and len(self.spawns) != used:
            raise InvalidRecording(
                f"spawns lists {len(self.spawns)} new tiles; {moves} moves need {used}"
            )
        if score != self.score:
            raise InvalidRecording(f"the replay's score is {score}; the recording has {self.score}")
        self._compare_last_board(board)
        return Verification(
            moves=moves,
            illegal_actions=len(self.actions) - moves,
            score=score,
            highest_tile=2 ** max(board),
            is_over=not replay.legal(board, rules.rows, rules.columns),
            cells_p=None if self.spawns is None else law.cells_p(),
            fours_p=None if self.spawns is None else law.fours_p(),
        )

    def _replay(self) -> tuple[list[int], int, int, SpawnLawTest]:
        """Returns the last board, the score, the number of moves, and the test of the new tiles."""
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
                    f"the replay's last board has {got} in row {row}, column {column}; the "
                    f"recording has {recorded}"
                )

    def to_json(self) -> str:
        """Returns the recording as JSON, in the format that the page "File formats" describes."""
        return file_format.encode(vars(self))

    @staticmethod
    def from_json(text: str) -> Recording:
        """Returns a recording from the text of its file.

        Raises:
            InvalidRecording: The text is not a recording or is damaged; the message names the part.
        """
        return Recording(**file_format.decode(text))

    def save(self, path: str | Path) -> None:
        """Writes the recording to a file, which appears only when it is complete."""
        with _text.whole_file(path) as file:
            file.write(self.to_json().encode() + b"\n")

    @staticmethod
    def load(path: str | Path) -> Recording:
        """Reads a recording from a file.

        Raises:
            InvalidRecording: The file is not a recording or is damaged; the message names the part.
        """
        try:
            return Recording.from_json(_text.read(path, "path", _LONGEST))
        except InvalidArgument as error:
            raise InvalidRecording(f"not a recording: {error}") from None
        except InvalidRecording as error:
            raise InvalidRecording(f"{path}: {error}") from None

    def to_html(self) -> str:
        """Returns an HTML page that replays the game, and needs no network or other files.

        Raises:
            InvalidRecording: The recording does not verify.
        """
        verdict = str(self.verify())
        return file_format.page(vars(self), verdict, self.first_board(), self.steps())


def _check_about(about: object) -> dict[str, Any]:
    if not isinstance(about, Mapping):
        raise _arguments.wrong("about", about, "a dict")
    notes = dict(about)
    try:
        json.dumps(notes, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"about can't be written as JSON: {error}", field="about") from None
    return notes


def _check_actions(actions: ArrayLike) -> NDArray[np.uint8]:
    array = _arguments.array("actions", actions)
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


@dataclass(frozen=True)
class Verification:
    """The facts that a replay confirmed.

    Attributes:
        moves: The number of legal moves.
        illegal_actions: The number of actions that moved nothing.
        score: The final score.
        highest_tile: The highest tile on the final board.
        is_over: Whether the final board has no legal action.
        cells_p: The p-value of the new tiles' cells (chi-square test); 1 in games that are too
            short for a test, None if the recording does not list the new tiles.
        fours_p: The p-value of the number of new tiles that are 4s (exact binomial test); None if
            the recording does not list the new tiles.
    """

    moves: int
    illegal_actions: int
    score: int
    highest_tile: int
    is_over: bool
    cells_p: float | None
    fours_p: float | None

    @property
    def spawns_fit(self) -> bool:
        """Whether the new tiles fit the rules' probabilities; always True with a generator."""
        return all(p is None or p >= _PLAUSIBLE for p in (self.cells_p, self.fours_p))

    def __str__(self) -> str:
        over = "game over" if self.is_over else "the game could continue"
        text = (
            f"{self.moves:,} moves, score {self.score:,}, highest tile {self.highest_tile}, {over}"
        )
        if self.illegal_actions:
            text += f", {self.illegal_actions} illegal actions"
        if self.cells_p is None or self.fours_p is None:
            return f"{text}; every new tile follows from the generator"
        fit = "fit" if self.spawns_fit else "do NOT fit"
        return (
            f"{text}; the new tiles {fit} the spawn probabilities (cells p = {self.cells_p:.3g}, "
            f"fours p = {self.fours_p:.3g})"
        )


class SpawnLawTest:
    """Two tests: of the new tiles' cells, and of the number of 4s."""

    def __init__(self, rules: RecordingRules) -> None:
        self._rules = rules
        self._surplus = np.zeros(rules.cells)  # observed minus expected tiles in each cell
        self._covariance = np.zeros((rules.cells, rules.cells))
        self._spawns = self._fours = 0

    def add(self, board: list[int], outcome: int) -> None:
        """Counts one new tile, given as a chance outcome. `board` already contains the tile."""
        cell = outcome % self._rules.cells
        chances = np.array(board) == 0
        chances[cell] = True
        p = chances / chances.sum()
        self._surplus -= p
        self._surplus[cell] += 1
        self._covariance += np.diag(p) - np.outer(p, p)
        self._spawns += 1
        self._fours += outcome >= self._rules.cells

    def cells_p(self) -> float:
        """Returns the p-value of the new tiles' cells, 1 if there are too few tiles for a test.

        The test sums the covariances of all spawns, because each spawn has different empty cells.
        Cells that are seldom empty are counted together.
        """
        order = np.argsort(self._covariance.diagonal(), kind="stable")
        covariance = self._covariance[np.ix_(order, order)]
        rare = int((covariance.diagonal() < _FEW).sum())
        for pooled in range(max(1, rare), len(order)):
            starts = [0, *range(pooled, len(order))]
            groups = np.add.reduceat(np.add.reduceat(covariance, starts, 0), starts, 1)
            if groups[0, 0] >= _FEW:
                surplus = np.add.reduceat(self._surplus[order], starts)
                variances, directions = np.linalg.eigh(groups)
                # One variance is 0, because the surpluses add up to 0.
                kept = variances > _ROUNDING * variances[-1]
                squares = (surplus @ directions[:, kept]) ** 2
                return chi_square_tail(float((squares / variances[kept]).sum()), int(kept.sum()))
        return 1.0

    def fours_p(self) -> float:
        """Returns the p-value of the number of 4s."""
        return binomial_p(self._fours, self._spawns, self._rules.four_probability)


def binomial_p(count: int, trials: int, p: float) -> float:
    """Returns the probability of all counts that are at most as likely as `count`."""
    if p in (0, 1):
        return float(count == trials * p)
    k = np.arange(trials)
    ratios = np.log((trials - k) / (k + 1)) + math.log(p) - math.log1p(-p)
    logarithms = np.concatenate([[0.0], np.cumsum(ratios)])
    chances = np.exp(logarithms - logarithms.max())
    # Equal chances may differ in their last bits.
    return float(chances[chances <= chances[count] * (1 + 1e-7)].sum() / chances.sum())


def chi_square_tail(value: float, degrees: int) -> float:
    """Returns the probability that a chi-square variable is at least `value`.

    It is a finite sum (Abramowitz and Stegun, 26.4.4 for odd degrees and 26.4.5 for even ones).
    """
    half = value / 2
    if degrees % 2:
        tail, k = math.erfc(math.sqrt(half)), 0.5
        term = math.exp(-half) * math.sqrt(half) / math.gamma(1.5)
    else:
        tail, k, term = 0.0, 0.0, math.exp(-half)
    for _ in range(degrees // 2):  # term = exp(-half) half^k / gamma(k + 1)
        k += 1
        tail += term
        term *= half / k
    return min(1.0, tail)
