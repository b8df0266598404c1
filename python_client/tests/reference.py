"""A second implementation of the rules of 2048 and of its random draws, in readable plain Python.

It shares no code and no method with the server. `Game` plays whole games, bit for bit as a lane of
`twofold/Game2048-v0` does in each autoreset mode. make_golden.py uses it to make the golden
trajectories that all tests share. Boards are flat tuples of exponents in row-major order;
0 is empty.
"""

import abc
import functools
from collections.abc import Iterator
from typing import Any

Board = tuple[int, ...]

MASK32, MASK64 = (1 << 32) - 1, (1 << 64) - 1


def splitmix64(seed: int) -> Iterator[int]:
    """Yields the outputs of SplitMix64 for a 64-bit seed, without end."""
    while True:
        seed = (seed + 0x9E3779B97F4A7C15) & MASK64
        z = ((seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK64
        yield z ^ (z >> 31)


def rotate_left(word: int, by: int) -> int:
    return ((word << by) | (word >> (32 - by))) & MASK32


class Xoshiro128PlusPlus:
    def __init__(self, words: tuple[int, int, int, int]) -> None:
        self.words = words

    @classmethod
    def seeded(cls, seed: int) -> "Xoshiro128PlusPlus":
        outputs = splitmix64(seed)
        a, b = next(outputs), next(outputs)
        return cls((a & MASK32, a >> 32, b & MASK32, b >> 32))

    def next_word(self) -> int:
        s0, s1, s2, s3 = self.words
        shifted = (s1 << 9) & MASK32
        self.words = (s0 ^ s1 ^ s3, s0 ^ s1 ^ s2, s0 ^ s2 ^ shifted, rotate_left(s1 ^ s3, 11))
        return (rotate_left((s0 + s3) & MASK32, 7) + s0) & MASK32


@functools.lru_cache(1 << 16)
def slide(line: Board) -> tuple[Board, int]:
    """Slides a line to the left; returns the new line and the sum of the merged values.

    >>> slide((0, 1, 1, 1)), slide((1, 1, 1, 1)), slide((1, 1, 2, 0))
    (((2, 1, 0, 0), 4), ((2, 2, 0, 0), 8), ((2, 2, 0, 0), 4))
    """
    if not any(line):
        return line, 0
    if line[0] == 0:  # a gap at the wall: everything moves up by one
        return slide((*line[1:], 0))
    ahead = next((cell for cell in range(1, len(line)) if line[cell]), None)
    if ahead is not None and line[ahead] == line[0]:  # merge; the new tile is not looked at again
        rest, reward = slide((*line[ahead + 1 :], *[0] * ahead))
        return (line[0] + 1, *rest), reward + 2 ** (line[0] + 1)
    rest, reward = slide(line[1:])
    return (line[0], *rest), reward


@functools.cache
def lines(rows: int, columns: int, action: int) -> list[list[int]]:
    """Returns the cells of each line, from the wall towards which the action slides."""
    grid = [[row * columns + column for column in range(columns)] for row in range(rows)]
    along = grid if action in (1, 3) else [list(column) for column in zip(*grid, strict=True)]
    return [line[::-1] if action in (1, 2) else line for line in along]


# A game needs the same afterstates for its mask, its step and its end, and a learner once more.
@functools.lru_cache(1 << 14)
def moved(board: Board, rows: int, columns: int, action: int) -> tuple[Board, int]:
    """Returns the board after slide and merge, before the spawn, and the reward."""
    after, reward = list(board), 0
    for cells in lines(rows, columns, action):
        line, merged = slide(tuple([board[cell] for cell in cells]))
        reward += merged
        for cell, tile in zip(cells, line, strict=True):
            after[cell] = tile
    return tuple(after), reward


class Lane(abc.ABC):
    """One lane of any game. `step` returns the reward; a step's other results are attributes.

    Under SAME_STEP, if an episode ended in the last step, `final` has its last results, and the
    attributes already describe the new episode, except `terminated` and `truncated`. Under
    DISABLED, `start` must be called before the step that follows an episode's end.
    """

    def __init__(self, seed: int, max_episode_steps: int | None, autoreset_mode: str) -> None:
        self.max_episode_steps, self.autoreset_mode = max_episode_steps, autoreset_mode
        self.final: dict[str, Any] | None = None
        self.generator = Xoshiro128PlusPlus.seeded(seed)
        self.start()

    @abc.abstractmethod
    def start(self) -> None:
        """Starts a new episode on a random board."""

    @abc.abstractmethod
    def mask(self) -> list[int]:
        """Returns 1 for each legal action, and 0 for the others."""

    @abc.abstractmethod
    def told(self) -> dict[str, Any]:
        """Returns the current observation and infos, by the names of the environment's arrays."""

    @abc.abstractmethod
    def play(self, action: int) -> float:
        """Plays one action in an episode, sets `terminated`, and returns the reward."""

    def begin_episode(self) -> None:
        self.episode_length = 0
        self.terminated = self.truncated = self.no_action = False

    def step(self, action: int) -> float:
        self.final = None
        if self.autoreset_mode == "next_step" and (self.terminated or self.truncated):
            self.start()  # the action is ignored
            return 0
        if self.autoreset_mode == "disabled":
            assert not any((self.terminated, self.truncated)), "reset it first"
        self.terminated = False
        self.episode_length += 1
        reward = self.play(action)
        self.no_action = self.terminated
        self.truncated = self.episode_length == self.max_episode_steps
        if self.autoreset_mode == "same_step" and (self.terminated or self.truncated):
            ended, self.final = (self.terminated, self.truncated), self.told()
            self.start()
            self.terminated, self.truncated = ended
        return reward


class Game(Lane):
    """One lane of 2048."""

    def __init__(
        self,
        seed: int,
        rows: int = 4,
        columns: int = 4,
        goal: int = 2048,
        stop_at_goal: bool = False,
        four_probability: float = 0.1,
        start_tiles: int = 2,
        illegal_action: str = "noop",
        max_episode_steps: int | None = None,
        autoreset_mode: str = "next_step",
    ) -> None:
        self.rows, self.columns, self.start_tiles = rows, columns, start_tiles
        self.goal, self.stop_at_goal = goal, stop_at_goal
        self.illegal_action = illegal_action
        scaled = four_probability * 2**32  # exact: only the float's exponent changes
        self.threshold = int(scaled) + (scaled - int(scaled) >= 0.5)
        super().__init__(seed, max_episode_steps, autoreset_mode)

    def start(self) -> None:
        """Starts a new episode on a board of start tiles."""
        self.begin((0,) * (self.rows * self.columns))
        for _ in range(self.start_tiles):
            self.spawn()
        self.goal_reached = 2 ** max(self.board) >= self.goal

    def begin(self, board: Board) -> None:
        """Starts a new episode on a given board."""
        self.begin_episode()
        self.board = board
        self.score = self.moves = 0
        self.goal_reached = 2 ** max(board) >= self.goal

    def spawn(self) -> None:
        w0, w1 = self.generator.next_word(), self.generator.next_word()
        empty = [cell for cell, tile in enumerate(self.board) if tile == 0]
        cell = empty[(w0 * len(empty)) >> 32]
        self.board = (*self.board[:cell], 2 if w1 < self.threshold else 1, *self.board[cell + 1 :])

    def afterstate(self, action: int) -> tuple[Board, int]:
        """Returns the board after slide and merge, before the spawn, and the reward."""
        return moved(self.board, self.rows, self.columns, action)

    def legal(self) -> list[int]:
        return [action for action in range(4) if self.afterstate(action)[0] != self.board]

    def mask(self) -> list[int]:
        legal = [] if self.no_action else self.legal()
        return [int(action in legal) for action in range(4)]

    def told(self) -> dict[str, Any]:
        return {
            "observation": list(self.board),
            "action_mask": self.mask(),
            "score": self.score,
            "max_exponent": max(self.board),
            "episode_length": self.episode_length,
            "moves": self.moves,
            "goal_reached": int(self.goal_reached),
        }

    def play(self, action: int) -> int:
        after, reward = self.afterstate(action)
        if after == self.board:
            # A start tile can be the goal.
            at_goal = self.stop_at_goal and self.goal_reached
            self.terminated = at_goal or self.illegal_action == "terminate"
            return 0
        self.board, self.score, self.moves = after, self.score + reward, self.moves + 1
        self.spawn()
        self.goal_reached = self.goal_reached or 2 ** max(self.board) >= self.goal
        self.terminated = not self.legal() or (self.stop_at_goal and self.goal_reached)
        return reward
