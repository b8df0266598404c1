"""Programs as players: files with a function `strategy(board)`, run in a sandbox."""

from __future__ import annotations

import hashlib
import json
import math
import os
import signal
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray
from typing_extensions import Self

from twofold import _arguments, _text
from twofold.errors import NotFound, StrategyError
from twofold.games.encoding import tile_values
from twofold.games.game2048 import Game2048
from twofold.judging.players import Choice, Failure, game_of
from twofold.judging.runner import DIRECTIONS, READY
from twofold.judging.sandbox import Game, Question, Sandbox

_LOAD_SECONDS = 10.0
# In characters. The sandbox's own details are shorter, but a program may write to its socket.
_LONGEST_DETAIL = 500
_REPORTED = ("syntax", "no_function", "raised", "not_a_direction", "memory")


@dataclass(frozen=True)
class Strategy:
    """An untrusted Python program that plays 2048 in a sandbox. Pass it to `twofold.evaluate`.

    The program defines `strategy(board)`, where `board` is a list of lists of tile values, 0 for an
    empty cell. The function returns "up", "right", "down" or "left". The same directions can be
    written W, D, S and A, or 0, 1, 2 and 3. Letters may be in any case, and a number may be a
    string. The program may import Python's standard library. Each game loads the program in a
    separate process.

    The program can't learn its game's seed. Each evaluation draws a secret, from which it derives
    the tiles' seeds and unrelated seeds for Python's `random`. The secret and a game's number
    determine that game, so evaluate(…, secret=result.secret) repeats the games of a result.

    Attributes:
        source: The program's source code.
        name: The program's name in reports.
        move_timeout: The time limit for one move, in seconds.
        game_timeout: The time limit for all moves of a game, in seconds. Loading the program, which
            may take at most 10 seconds, counts towards neither limit.
        memory_mb: The limit on a game process's address space, including Python, in megabytes.
        unsafe: Whether to run the program without the sandbox, with limits only. The program can
            then read and delete files, and connect to any host.
    """

    source: str
    name: str = "strategy"
    move_timeout: float = 2.0
    game_timeout: float = 60.0
    memory_mb: int = 256
    unsafe: bool = False

    episodes = 1_000
    lanes = 16
    """The default number of boards played at once. Each board has a process."""
    card: ClassVar[Mapping[str, Any]] = {"weights_mb": 0.0, "threads": 1}

    def __post_init__(self) -> None:
        _arguments.text("source", self.source)
        _arguments.text("name", self.name)
        # Reports and the sandbox get Python's own numbers, not NumPy's.
        vars(self).update(
            move_timeout=_arguments.seconds("move_timeout", self.move_timeout),
            game_timeout=_arguments.seconds("game_timeout", self.game_timeout),
            memory_mb=_arguments.integer("memory_mb", self.memory_mb, 64, 1 << 20),
            unsafe=_arguments.boolean("unsafe", self.unsafe),
        )

    @classmethod
    def load(cls, path: str | Path, **arguments: Any) -> Self:
        """Loads a program from a file. `arguments` are values for the other attributes.

        Raises:
            NotFound: The file does not exist.
            InvalidArgument: The file is not a regular file, is larger than 1 MiB, or is not UTF-8.
            OSError: The file can't be read.
        """
        try:
            source = _text.read(path, "policy")
        except _text.MISSING_FILE as error:
            raise NotFound(f"{path}: {error.strerror}", field="policy") from None
        return cls(source, **{"name": _text.printable(Path(path).name), **arguments})

    def conditions(self) -> dict[str, Any]:
        """Returns the rule card's entries about this program and its limits."""
        return {
            "illegal action": "the game ends",
            "program, SHA-256": hashlib.sha256(self.source.encode()).hexdigest(),
            "sandbox": "off" if self.unsafe else "on",
            "move timeout, s": self.move_timeout,
            "game timeout, s": self.game_timeout,
            "memory, MB": self.memory_mb,
        }

    def make(self, envs: VectorEnv[Any, Any, Any]) -> StrategyPlayer:
        """Returns the player for a 2048 environment.

        Raises:
            StrategyError: The program can't be loaded; `reason` says why.
            SandboxUnavailable: The sandbox is unavailable on this system.
            InvalidArgument: The environment's game is not 2048.
        """
        return StrategyPlayer(self, game_of(envs))


class StrategyPlayer:
    """A player that asks a program for each move."""

    def __init__(self, strategy: Strategy, game: Game2048) -> None:
        if strategy.unsafe:
            warnings.warn(
                f"{strategy.name} runs without a sandbox: it can read and delete files, and "
                "connect anywhere",
                RuntimeWarning,
                stacklevel=2,
            )
        self._strategy, self._game = strategy, game
        self._games: dict[int, Game] = {}
        # The lanes whose games have yet to load the program.
        self._new: set[int] = set()
        self._sandbox = Sandbox(
            strategy.source,
            file=_text.printable(strategy.name),
            memory_mb=strategy.memory_mb,
            cpu_seconds=math.ceil(strategy.game_timeout + _LOAD_SECONDS),
            unsafe=strategy.unsafe,
        )
        try:
            if not strategy.unsafe and os.geteuid() == 0:
                warnings.warn(
                    f"{strategy.name} is judged by root: a program that escapes the sandbox would "
                    "be root too; run the judge as an ordinary user",
                    RuntimeWarning,
                    stacklevel=2,
                )
            self._try()
        except BaseException:
            self.close()
            raise

    def _try(self) -> None:
        """Loads the program once before all games. Raises StrategyError if that fails."""
        self._games[0] = self._sandbox.begin(0)
        failures = self._load([0])
        if not failures:
            self._sandbox.end(self._games.pop(0))
            return
        detail = failures[0].detail
        lines = self._strategy.source.splitlines()
        if failures[0].reason == "syntax" and any(line.startswith("```") for line in lines):
            detail += "; remove the ``` lines around the program"
        raise StrategyError(
            f"{self._strategy.name} can't be judged: {detail}", reason=failures[0].reason
        )

    def _load(self, lanes: Sequence[int]) -> dict[int, Failure]:
        """Loads the program in the games of these lanes. Returns the failures by lane."""
        questions = {lane: Question(self._games[lane], READY, _LOAD_SECONDS) for lane in lanes}
        self._sandbox.ask(list(questions.values()))
        failures = {}
        for lane, question in questions.items():
            question.game.seconds = 0.0  # loading does not count as thinking time
            if question.answer != READY:
                failures[lane] = self._failure(question)
                self._games.pop(lane)
        return failures

    def begin(self, lanes: NDArray[np.intp], seeds: NDArray[np.uint64]) -> None:
        """Starts a process for the new game on each of these lanes, (k,).

        Each seed is for the program's own random draws, and reveals nothing about the game's seed.
        """
        for lane, seed in zip(lanes.tolist(), seeds.tolist(), strict=True):
            if lane in self._games:
                self._sandbox.end(self._games.pop(lane))
            self._games[lane] = self._sandbox.begin(seed)
            self._new.add(lane)

    def choose(
        self, boards: NDArray[Any], action_mask: NDArray[Any], lanes: NDArray[np.intp]
    ) -> list[Choice]:
        """Asks the process of each game for its move.

        Ends the games on the other lanes, which are finished and have no successor.
        """
        strategy = self._strategy
        for lane in self._games.keys() - set(lanes.tolist()):
            self._sandbox.end(self._games.pop(lane))
        choices: dict[int, Choice] = {}
        choices |= self._load([lane for lane in lanes.tolist() if lane in self._new])
        self._new.clear()
        questions: dict[int, Question] = {}
        for row, lane in enumerate(lanes.tolist()):
            if lane not in choices:
                game = self._games[lane]
                allowed = min(strategy.move_timeout, strategy.game_timeout - game.seconds)
                text = json.dumps(tile_values(boards[row]).tolist()).encode()
                questions[row] = Question(game, text, allowed)
        # A game without time left gets no board: an answer that it wrote ahead would be in time.
        self._sandbox.ask([question for question in questions.values() if question.timeout > 0])
        for row, question in questions.items():
            lane = int(lanes[row])
            choices[lane] = self._choice(question, action_mask[row])
            if isinstance(choices[lane], Failure):
                self._games.pop(lane)
        return [choices[lane] for lane in lanes.tolist()]

    def _choice(self, question: Question, mask: NDArray[Any]) -> Choice:
        if question.answer not in (b"0", b"1", b"2", b"3"):
            return self._failure(question)
        direction = DIRECTIONS[int(question.answer)]
        action = self._game.number(direction)
        if mask[action] == 1:
            return action
        self._sandbox.end(question.game)
        return Failure("illegal", f"the move {direction} does not change the board")

    def _failure(self, question: Question) -> Failure:
        """Ends a game's process because it returned no direction. Returns the failure."""
        answer, end = question.answer, self._sandbox.end(question.game)
        if answer is None:
            if question.text == READY:
                return Failure("timeout", f"took longer than {question.timeout:g} s to load")
            if question.game.seconds >= self._strategy.game_timeout:
                return Failure("timeout", f"took {self._strategy.game_timeout:g} s for all moves")
            return Failure("timeout", f"did not answer within {question.timeout:g} s")
        if answer:
            reason, _, detail = answer.decode(errors="replace").partition("\n")
            if reason[:1] == "!" and reason[1:] in _REPORTED:
                return Failure(reason[1:], _text.printable(detail[:_LONGEST_DETAIL]))
            return Failure("bad_answer", f"wrote {len(answer)} bytes that are not an answer")
        if end.status == -signal.SIGSYS:
            return Failure(
                "forbidden",
                "tried to start a process or thread, write a file, open a socket or signal a "
                "process",
            )
        if end.status == -signal.SIGXCPU:
            return Failure("timeout", f"used {end.cpu_seconds:.0f} s of processor time")
        if end.status < 0:
            killer = f"signal {-end.status} ({signal.strsignal(-end.status)})"
            return Failure("killed", f"closed its socket or was killed by {killer}")
        return Failure("exited", f"exited with status {end.status}")

    def summary(self) -> Mapping[str, Any]:
        """Returns an empty dict, because reports show only a program's failures."""
        return {}

    def close(self) -> None:
        """Ends the processes of all games."""
        for game in self._games.values():
            game.socket.close()
        self._games.clear()
        self._sandbox.close()
