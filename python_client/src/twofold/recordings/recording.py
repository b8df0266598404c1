"""Recordings: one game in a few kilobytes, which anybody can replay and check."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twofold import _arguments
from twofold.errors import InvalidArgument, InvalidRecording
from twofold.evaluation.statistics import chi_square_tail
from twofold.recordings.replay import Generator, Step, Words, legal, move, place, play, threshold_of

FORMAT, VERSION = "twofold-recording", 1
ENVIRONMENT_ID = "twofold/Game2048-v0"
ACTIONS = ("up", "right", "down", "left")

_PLAUSIBLE = 1e-4  # a p-value below this is told as a spawn law that does not fit


@dataclass(frozen=True)
class RecordingRules:
    """Under which rules a recorded game was played; the environment's own arguments.

    Attributes:
        rows: Of the board, 2 ... 8.
        columns: Of the board, 2 ... 8.
        four_probability: How often a new tile is a 4.
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
        """Rows * columns."""
        return self.rows * self.columns


@dataclass(frozen=True, eq=False)
class Recording:
    """One game of 2048: how it began, every action, and how it ended.

    New tiles follow from the state of the board's generator, `generator`; or they are listed in
    `spawns`, for a game of another engine. Exactly one of the two is given.

    Attributes:
        rules: The rules.
        actions: uint8 (steps,): 0 up, 1 right, 2 down, 3 left.
        board: uint8 (rows, columns), exponents at the end.
        score: The score at the end.
        generator: Four 32-bit words, before the game's first draw.
        seed: The seed of that generator, where it is its start.
        start: uint8 (rows, columns), the board to start from; None where start tiles are drawn.
        spawns: int (tiles,), chance outcomes: the start tiles', then one for each legal move; cell
            for a 2, cells + cell for a 4.
        about: Whatever is worth telling about it; strings and numbers.
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

    # ---- making one ------------------------------------------------------------------------------

    @staticmethod
    def of_seed(
        rules: RecordingRules, seed: int, actions: ArrayLike, about: Mapping[str, Any] | None = None
    ) -> Recording:
        """The game that these actions make of a seed; board and score follow from them.

        Raises:
            InvalidArgument: An action is none.
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
        return draft._ended()

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

        The actions follow from the boards: each has to be the one before it after some action and
        one new tile.

        Args:
            boards: Exponents (steps + 1, rows, columns), from the start of the game on.
            four_probability: What that engine claims, for the check of its spawns.
            start_tiles: The same; the first board has to have as many tiles.
            score: The score that the engine told; by default the one that the rules give.
            about: Whatever is worth telling.

        Raises:
            InvalidArgument: No game of 2048; the text tells the first board that does not follow.
        """
        array = _check_boards(boards)
        rules = RecordingRules(array.shape[1], array.shape[2], four_probability, start_tiles)
        flat = array.reshape(len(array), -1).tolist()
        tiles = [(cell, e) for cell, e in enumerate(flat[0]) if e]
        if len(tiles) != start_tiles or any(e > 2 for _, e in tiles):
            raise InvalidArgument(
                f"board 0 has tiles {[2**e for _, e in tiles]}; expected {start_tiles} of 2 or 4",
                field="boards",
            )
        spawns = [cell + rules.cells * (e - 1) for cell, e in tiles]
        actions: list[int] = []
        for number in range(1, len(flat)):
            found = _explain(flat[number - 1], flat[number], rules)
            if found is None:
                raise InvalidArgument(
                    f"board {number} does not follow from the one before it by any action and one "
                    "new tile",
                    field="boards",
                )
            actions.append(found[0])
            spawns.append(found[1])
        draft = Recording(
            rules=rules,
            actions=np.array(actions, np.uint8),
            board=array[-1].astype(np.uint8),
            score=0,
            spawns=np.array(spawns, np.int64),
            about=about or {},
        )
        return draft._ended(score)

    def _ended(self, score: int | None = None) -> Recording:
        """The same with the board and the score that its replay has at the end."""
        board, total = self.first_board().ravel().tolist(), 0
        for step in self.steps():
            board, total = step.board, total + step.reward
        shaped = np.array(board, np.uint8).reshape(self.rules.rows, self.rules.columns)
        return replace(self, board=shaped, score=total if score is None else score)

    # ---- replaying -------------------------------------------------------------------------------

    def first_board(self) -> NDArray[np.uint8]:
        """uint8 (rows, columns): the board before the first action.

        Raises:
            InvalidRecording: The start tiles cannot be placed.
        """
        board, _ = self._begin()
        return np.array(board, np.uint8).reshape(self.rules.rows, self.rules.columns)

    def steps(self) -> Iterator[Step]:
        """The game step by step: action, reward, what moved, the new tile, the board after it.

        Raises:
            InvalidRecording: A spawn does not fit.
        """
        board, spawn = self._begin()
        rules = self.rules
        try:
            yield from play(board, rules.rows, rules.columns, self.actions.tolist(), spawn)
        except ValueError as error:
            raise InvalidRecording(str(error)) from None

    def _begin(self) -> tuple[list[int], Callable[[list[int]], int]]:
        """The board before the first action, and where new tiles come from."""
        rules = self.rules
        board = [0] * rules.cells if self.start is None else self.start.ravel().tolist()
        tiles = rules.start_tiles if self.start is None else 0
        spawn = self._source()
        for number in range(tiles):
            outcome = spawn(board)
            if not place(board, outcome):
                raise InvalidRecording(f"start tile {number}: outcome {outcome} cannot be placed")
        return board, spawn

    def _source(self) -> Callable[[list[int]], int]:
        """Tells the next chance outcome for a board."""
        if self.spawns is not None:
            outcomes = iter(self.spawns.tolist())
            return lambda board: next(outcomes, -1)
        assert self.generator is not None
        generator, threshold = Generator(self.generator), threshold_of(self.rules.four_probability)
        return lambda board: generator.spawn(board, threshold)

    def verify(self) -> Verification:
        """Replays it and compares.

        Returns:
            What was found right: the number of moves, whether the game is over, and for a game with
            listed spawns how well they fit the spawn law.

        Raises:
            InvalidRecording: The replay ends with another board or another score, or cannot be
                carried out; the text tells where.
        """
        rules, board = self.rules, self.first_board().ravel().tolist()
        score = moves = illegal = 0
        chances = None if self.spawns is None else _Chances(rules)
        for step in self.steps():
            board = step.board
            score += step.reward
            if step.motions:
                moves += 1
                if chances is not None:
                    chances.add(step.board, step.outcome)
            else:
                illegal += 1
        used = moves + (rules.start_tiles if self.start is None else 0)
        if self.spawns is not None and len(self.spawns) != used:
            raise InvalidRecording(
                f"it lists {len(self.spawns)} new tiles; {used} were needed for {moves} moves"
            )
        if score != self.score:
            raise InvalidRecording(f"the replay's score is {score}; recorded is {self.score}")
        if board != self.board.ravel().tolist():
            cell = next(i for i in range(rules.cells) if board[i] != self.board.flat[i])
            row, column = divmod(cell, rules.columns)
            raise InvalidRecording(
                f"the replay's last board has {_tile(board[cell])} in row {row}, column {column}; "
                f"recorded is {_tile(int(self.board.flat[cell]))}"
            )
        return Verification(
            moves=moves,
            illegal_actions=illegal,
            score=score,
            highest_tile=2 ** max(board),
            is_over=not legal(board, rules.rows, rules.columns),
            cells_p=None if chances is None else chances.cells_p(),
            fours_p=None if chances is None else chances.fours_p(),
        )

    # ---- files -----------------------------------------------------------------------------------

    def to_json(self) -> str:
        """The file's text; docs/recordings.md describes it."""
        rules = self.rules
        document: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "environment": ENVIRONMENT_ID,
            "rules": vars(rules),
            "about": dict(self.about),
            "score": self.score,
            "board": self.board.tolist(),
            "steps": len(self.actions),
            "actions": _pack(self.actions),
        }
        if self.generator is not None:
            document["generator"] = list(self.generator)
        if self.seed is not None:
            document["seed"] = str(self.seed)  # beyond what a JavaScript number holds
        if self.start is not None:
            document["start"] = self.start.tolist()
        if self.spawns is not None:
            document["spawns"] = base64.b64encode(self.spawns.astype(np.uint8).tobytes()).decode()
        return json.dumps(document, indent=1)

    def save(self, path: str | Path) -> None:
        """Writes the file."""
        Path(path).write_text(self.to_json() + "\n")

    @staticmethod
    def load(path: str | Path) -> Recording:
        """Reads a file.

        Raises:
            InvalidRecording: It is no recording, or damaged; the text tells which part.
        """
        try:
            text = Path(path).read_text()
        except UnicodeDecodeError:
            raise InvalidRecording(f"{path} is no recording: it is not text") from None
        try:
            return Recording.from_json(text)
        except InvalidRecording as error:
            raise InvalidRecording(f"{path}: {error}") from None

    @staticmethod
    def from_json(text: str) -> Recording:
        """What `to_json` wrote.

        Raises:
            InvalidRecording: It is something else; the text tells which part.
        """
        try:
            document = json.loads(text)
        except ValueError as error:
            raise InvalidRecording(f"no recording: not JSON ({error})") from None
        return _Reader(document).recording()

    def to_html(self) -> str:
        """One page that plays the game: no network, no other file.

        Raises:
            InvalidRecording: The recording does not verify.
        """
        from twofold.recordings.replay_page import page

        return page(self)


@dataclass(frozen=True)
class Verification:
    """What a replay found right.

    Attributes:
        moves: Legal moves.
        illegal_actions: Actions that moved nothing.
        score: The final score.
        highest_tile: On the final board.
        is_over: Whether no action is legal there.
        cells_p: With listed spawns: how likely cells as unevenly chosen as these, or more, are
            under the spawn law (chi-square); None otherwise.
        fours_p: The same for the number of 4s.
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
        """Whether the new tiles may well come from the spawn law; always with a generator."""
        return all(p is None or p >= _PLAUSIBLE for p in (self.cells_p, self.fours_p))

    def __str__(self) -> str:
        over = "game over" if self.is_over else "the game could go on"
        text = (
            f"{self.moves:,} moves, score {self.score:,}, highest tile {self.highest_tile}, {over}"
        )
        if self.illegal_actions:
            text += f", {self.illegal_actions} illegal actions"
        if self.cells_p is None or self.fours_p is None:
            return f"{text}; every new tile follows from the generator"
        fit = "fit" if self.spawns_fit else "do NOT fit"
        return (
            f"{text}; the new tiles {fit} the spawn law (chi-square: cells p = {self.cells_p:.3g}, "
            f"fours p = {self.fours_p:.3g})"
        )


class _Chances:
    """How well new tiles fit the spawn law, gathered move by move."""

    def __init__(self, rules: RecordingRules) -> None:
        self._rules = rules
        cells = rules.cells
        self._surplus = np.zeros(cells)  # tiles in each cell, less what was expected
        self._covariance = np.zeros((cells, cells))
        self._spawns = self._fours = 0

    def add(self, board: list[int], outcome: int) -> None:
        """One spawn, and the board after it."""
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
        """Of the cells: which were empty changes, so each spawn has a covariance of its own."""
        rank = int(np.linalg.matrix_rank(self._covariance))
        if rank == 0:
            return 1.0
        inverse = np.linalg.pinv(self._covariance, hermitian=True)
        return chi_square_tail(float(self._surplus @ inverse @ self._surplus), rank)

    def fours_p(self) -> float:
        """Of the number of 4s."""
        p, n = self._rules.four_probability, self._spawns
        variance = n * p * (1 - p)
        if variance == 0:
            return 1.0 if self._fours == n * p else 0.0
        return chi_square_tail((self._fours - n * p) ** 2 / variance, 1)


def _explain(before: list[int], after: list[int], rules: RecordingRules) -> tuple[int, int] | None:
    """The first action that leads from one board to the next, and its chance outcome."""
    for action in range(4):
        board = list(before)
        if not move(board, rules.rows, rules.columns, action)[1]:
            continue
        different = [cell for cell, (a, b) in enumerate(zip(board, after, strict=True)) if a != b]
        if len(different) == 1 and board[different[0]] == 0 and after[different[0]] in (1, 2):
            return action, different[0] + rules.cells * (after[different[0]] - 1)
    return None


def _tile(exponent: int) -> str:
    return "nothing" if exponent == 0 else str(2**exponent)


def _check_boards(boards: ArrayLike) -> NDArray[np.integer[Any]]:
    array = np.asarray(boards)
    if array.dtype.kind not in "iu" or array.ndim != 3 or len(array) == 0:
        raise InvalidArgument(
            f"boards are {array.dtype} of shape {array.shape}; expected exponents, integers "
            "(steps + 1, rows, columns)",
            field="boards",
        )
    is_bad = (array < 0) | (array > 31)
    if is_bad.any():
        raise InvalidArgument(
            f"board {int(np.argwhere(is_bad)[0, 0])} has exponents outside 0 ... 31; expected 3 "
            "for the tile 8",
            field="boards",
        )
    return array


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


# ---- the file ------------------------------------------------------------------------------------


def pack_actions(actions: NDArray[np.uint8]) -> bytes:
    """Four actions in each byte, the first in its lowest bits."""
    padded = np.zeros(-(-len(actions) // 4) * 4, np.uint8)
    padded[: len(actions)] = actions
    quads = padded.reshape(-1, 4)
    packed = quads[:, 0] | quads[:, 1] << 2 | quads[:, 2] << 4 | quads[:, 3] << 6
    return packed.astype(np.uint8).tobytes()


def unpack_actions(packed: bytes, steps: int) -> NDArray[np.uint8]:
    """What `pack_actions` packed; the bytes have to be enough."""
    quads = np.frombuffer(packed, np.uint8)
    spread = quads[:, None] >> np.array([0, 2, 4, 6], np.uint8)
    return (spread & 3).astype(np.uint8).ravel()[:steps]


def _pack(actions: NDArray[np.uint8]) -> str:
    return base64.b64encode(pack_actions(actions)).decode()


class _Reader:
    """Reads a document part by part, so that an error can name the part."""

    def __init__(self, document: object) -> None:
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise InvalidRecording(f'no recording: its "format" is not "{FORMAT}"')
        self._document = document

    def recording(self) -> Recording:
        version = self._get("version", int)
        if version != VERSION:
            raise InvalidRecording(f"version {version}; this program reads version {VERSION}")
        environment = self._get("environment", str)
        if environment != ENVIRONMENT_ID:
            raise InvalidRecording(f"environment {environment!r}; expected {ENVIRONMENT_ID!r}")
        try:
            rules = RecordingRules(**self._get("rules", dict))
        except (TypeError, InvalidArgument) as error:
            raise InvalidRecording(f"rules: {error}") from None
        steps = self._get("steps", int)
        packed = self._bytes("actions")
        if steps < 0 or len(packed) != -(-steps // 4):
            raise InvalidRecording(f"actions: {len(packed)} bytes for {steps} steps")
        has = {name: name in self._document for name in ("generator", "spawns", "seed", "start")}
        if has["generator"] == has["spawns"]:
            raise InvalidRecording("it needs either a generator or spawns")
        generator = self._generator() if has["generator"] else None
        seed = self._seed(generator) if has["seed"] else None
        spawns = None
        if has["spawns"]:
            spawns = np.frombuffer(self._bytes("spawns"), np.uint8).astype(np.int64)
        return Recording(
            rules=rules,
            actions=unpack_actions(packed, steps),
            board=self._board("board", rules),
            score=self._get("score", int),
            generator=generator,
            seed=seed,
            start=self._board("start", rules) if has["start"] else None,
            spawns=spawns,
            about=self._get("about", dict),
        )

    def _get(self, name: str, kind: type) -> Any:
        if name not in self._document:
            raise InvalidRecording(f"it has no {name!r}")
        value = self._document[name]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise InvalidRecording(f"{name} is {type(value).__name__}; expected {kind.__name__}")
        return value

    def _bytes(self, name: str) -> bytes:
        try:
            return base64.b64decode(self._get(name, str), validate=True)
        except binascii.Error as error:
            raise InvalidRecording(f"{name}: {error}") from None

    def _generator(self) -> Words:
        words = self._get("generator", list)
        if len(words) != 4 or not all(type(w) is int and 0 <= w < 2**32 for w in words):
            raise InvalidRecording(f"generator is {words}; expected four 32-bit words")
        return (words[0], words[1], words[2], words[3])

    def _seed(self, generator: Words | None) -> int:
        text = self._get("seed", str)
        if not text.isdecimal() or int(text) >= 2**64:
            raise InvalidRecording(f"seed is {text!r}; expected 0 ... 2^64 - 1")
        if generator is not None and Generator.seeded(int(text)).words != generator:
            raise InvalidRecording(f"the generator is not the one of seed {text}")
        return int(text)

    def _board(self, name: str, rules: RecordingRules) -> NDArray[np.uint8]:
        rows = self._get(name, list)
        try:
            cells = list(chain.from_iterable(rows))
        except TypeError:
            cells = []
        shape = {len(row) for row in rows if isinstance(row, list)}
        is_right = len(rows) == rules.rows and shape == {rules.columns}
        if not is_right or not all(type(e) is int and 0 <= e <= 31 for e in cells):
            raise InvalidRecording(
                f"{name}: expected {rules.rows} rows of {rules.columns} exponents"
            )
        return np.array(rows, np.uint8)


def pick(scores: NDArray[Any], which: str | int) -> int:
    """The episode that is meant: "best", "worst", "median" by score, or its number.

    Raises:
        InvalidArgument: None of these.
    """
    if isinstance(which, str) and not which.isdecimal():
        order = np.argsort(scores, kind="stable")
        places = {"worst": 0, "median": len(order) // 2, "best": -1}
        if which in places:
            return int(order[places[which]])
        raise InvalidArgument(
            f"which is {which!r}; expected 'best', 'worst', 'median' or an episode's number",
            field="which",
        )
    return _arguments.integer("which", int(which), 0, len(scores) - 1)
