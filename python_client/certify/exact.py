"""Exact values of 2048 on small boards: dynamic programming over all states.

The certificate compares a server's statistics with these values. The solver shares no code with the
server or with tests/reference.py. A board is a string with one character per cell ("." is empty,
"a" a 2, "b" a 4 ...). A regular expression finds the pairs that merge. The solver sums over all
possible new tiles instead of drawing one. It is readable and also computes optimal policies, but it
is slow. forward.py solves 3 x 3.

    uniform = Solver(2, 2).solve()              # legal actions, equally likely
    uniform["score"], uniform["moves"]          # 19.65654018, 5.60072300
    uniform[16]                                 # probability that a 16 is ever made: 0.121752664444
    Solver(2, 2).solve(best=16)[16]             # with the policy that maximises that probability
"""

import re
from collections.abc import Iterable, Iterator

# Expected values for a game that continues from a board: "score", "moves", the last board's
# "tile_sum", and for each tile value the probability that the game ever makes that tile.
Values = dict[str | int, float]

HIGHEST = 26  # "z"


def exponent(board: str) -> int:
    """Returns the highest exponent on a board."""
    return max(0 if cell == "." else ord(cell) - ord("a") + 1 for cell in board)


def tile_sum(board: str) -> int:
    """Returns the sum of the tiles' values."""
    return sum(2 ** exponent(tile) for tile in board if tile != ".")


def slide(line: str) -> tuple[str, int]:
    """Slides a line to the left. Returns the new line and the sum of the merged values."""
    # The matches go from left to right and do not overlap, so no tile merges twice.
    packed = line.replace(".", "")
    merged = re.sub(r"(.)\1", lambda pair: chr(ord(pair[1]) + 1), packed)
    pairs = re.findall(r"(.)\1", packed)
    return merged.ljust(len(line), "."), sum(2 ** (exponent(tile) + 1) for tile in pairs)


def transpose(board: str, columns: int) -> str:
    """Returns the transpose of a board with `columns` columns."""
    return "".join(board[column::columns] for column in range(columns))


class Solver:
    """A solver for one board size and one probability of new 4s.

    If `goal` is a tile value, a tile of that value ends the game.
    """

    def __init__(
        self,
        rows: int,
        columns: int,
        *,
        four_probability: float = 0.1,
        start_tiles: int = 2,
        goal: int | None = None,
    ) -> None:
        self.rows, self.columns, self.start_tiles = rows, columns, start_tiles
        self.tiles = {"a": 1 - four_probability, "b": four_probability}
        self.goal = HIGHEST if goal is None else goal.bit_length() - 1
        # The legal actions of each reachable board, as afterstate, score and action.
        self.after: dict[str, list[tuple[str, int, int]]] = {}
        # The last `solve`'s action for each non-terminal board, and its values for each board.
        self.policy: dict[str, int] = {}
        self.values: dict[str, Values] = {}

    def spawns(self, board: str) -> Iterator[tuple[str, float]]:
        """Yields each board that can follow when a tile spawns, with its probability."""
        empty = [cell for cell, tile in enumerate(board) if tile == "."]
        for cell in empty:
            for tile, chance in self.tiles.items():
                if chance:
                    yield board[:cell] + tile + board[cell + 1 :], chance / len(empty)

    def starts(self) -> dict[str, float]:
        """Returns the start boards with their probabilities."""
        boards = {"." * (self.rows * self.columns): 1.0}
        for _ in range(self.start_tiles):
            more: dict[str, float] = {}
            for board, weight in boards.items():
                for spawned, chance in self.spawns(board):
                    more[spawned] = more.get(spawned, 0.0) + weight * chance
            boards = more
        return boards

    def afterstates(self, board: str) -> list[tuple[str, int, int]]:
        """Returns a tuple (afterstate, score, action) for each legal action on a board.

        The list is empty if the game is over. Actions are 0 up, 1 right, 2 down, 3 left.
        """
        found = []
        if exponent(board) < self.goal:
            for flat, width, actions in (
                (board, self.columns, (3, 1)),
                (transpose(board, self.columns), self.rows, (0, 2)),
            ):
                # The slide towards the first cell of each line, then the slide towards the last
                # one.
                for step, action in zip((1, -1), actions, strict=True):
                    lines = [flat[at : at + width][::step] for at in range(0, len(flat), width)]
                    slid = [slide(line) for line in lines]
                    after = "".join(line[::step] for line, _ in slid)
                    if after != flat:
                        straight = after if flat is board else transpose(after, self.rows)
                        found.append((straight, sum(score for _, score in slid), action))
        return found

    def boards(self) -> list[str]:
        """Returns every reachable board, each before all boards that can follow it."""
        waiting = list(self.starts())
        while waiting:
            board = waiting.pop()
            if board not in self.after:
                self.after[board] = self.afterstates(board)
                for after, _, _ in self.after[board]:
                    waiting.extend(spawned for spawned, _ in self.spawns(after))
        return sorted(self.after, key=tile_sum)  # a move keeps the sum; the spawn increases it

    def solve(self, best: str | int | None = None) -> Values:
        """Computes the expected values of a game for one policy.

        The policy is uniform over the legal actions if `best` is None. Otherwise the policy
        maximises the expected value named `best`.
        """
        values: dict[str, Values] = {}
        for board in reversed(self.boards()):
            options: list[Values] = []
            for after, score, _ in self.after[board]:
                option = mix((values[spawned], chance) for spawned, chance in self.spawns(after))
                option["score"] += score
                option["moves"] += 1
                options.append(option)
            if not options:
                made = {2**k: 1.0 for k in range(1, exponent(board) + 1)}
                values[board] = {"score": 0, "moves": 0, "tile_sum": tile_sum(board), **made}
            elif best is None:
                values[board] = mix((option, 1 / len(options)) for option in options)
            else:
                chosen, values[board] = max(
                    enumerate(options), key=lambda option: option[1].get(best, 0.0)
                )
                self.policy[board] = self.after[board][chosen][2]
        self.values = values
        return mix((values[board], weight) for board, weight in self.starts().items())


def mix(weighted: Iterable[tuple[Values, float]]) -> Values:
    """Returns the weighted sum of the values for each name. A missing name counts as 0."""
    total: Values = {}
    for values, weight in weighted:
        for name, value in values.items():
            total[name] = total.get(name, 0.0) + weight * value
    return total
